"""How draws of gamma and beta variables move with their parameters, on arrays.

A draw x of a distribution with cdf F(x; a) moves with `a` as its quantile does, by
dx/da = -(dF/da) / (dF/dx). Both forms of that quotient used here have terms of one sign only, so
nothing cancels: a power series for small arguments; elsewhere the integral of
(log t - E[log t]) p(t) / p(x) over the tail, below or above x, in which that factor keeps its sign.
Results agree with finite differences of quantiles to about 12 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays import gamma
from pullback.operators.arrays.scipy_special import scipy_or

__all__ = ["beta_path", "gamma_path"]

_SERIES_UP_TO = 20.0  # concentrations above want more than 200 terms
_MOST_TERMS = 400
_DROP = 40.0  # e**-40 is below the precision of float64
# Steps of the quadrature: largest errors are 2e-14 and 2e-12, with twice the step 4e-8 and 7e-6.
_GAMMA_STEP = 0.125
_BETA_STEP = 0.25
_LEFT = 3.7  # exp(-e**3.7) is below the precision of float64
_WIDEST = 60.0  # of a range of scales, as a logarithm
# Bernoulli numbers over 2k, of the asymptotic series of digamma.
_ASYMPTOTIC = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
_SHIFT = 10
_TOGETHER = 4096  # elements of an array that stays in cache, terms or nodes times draws


def gamma_path(xp: Namespace, concentration: Array, x: Array) -> Array:
    """dx/da of a draw `x` of the gamma distribution with concentration a and rate 1."""
    a, x = xp.broadcast_arrays(concentration, x)
    x = xp.maximum(x, xp.finfo(xp.float64).tiny)
    mean_log = scipy_or(xp, "digamma", "psi", gamma.digamma, a)
    split = xp.exp(mean_log)
    by_series = (a < _SERIES_UP_TO) & (x < xp.maximum(split * xp.exp(1 / a), 1.0))
    ways = by_series, _gamma_series, x < split, _gamma_below, _gamma_above
    return _chosen(xp, ways, (a, x, mean_log))


def _chosen(xp: Namespace, ways: Any, values: tuple[Array, ...]) -> Array:
    """Each element by the first way whose condition holds, or by the last."""
    first, by_first, second, by_second, by_third = ways
    result = xp.empty_like(values[0])
    masks = first, ~first & second, ~first & ~second
    for mask, way in zip(masks, (by_first, by_second, by_third), strict=True):
        if mask.any():
            result[mask] = way(xp, *(value[mask] for value in values))
    return result


def _gamma_series(xp: Namespace, a: Array, x: Array, mean_log: Array) -> Array:
    # P(a, x) is the sum of x**(a + n) exp(-x) / gamma(a + n + 1).
    def terms(n: Array) -> tuple[Array, Array]:
        return x / (a + n), 1 / (a + n)

    return _series(xp, terms, x / a, mean_log + 1 / a - xp.log(x))


def _series(xp: Namespace, terms: Callable[..., Any], weight: Array, factor: Array) -> Array:
    """The sum of weights times factors: `terms` says what the next multiplies, and adds, to them.

    So many terms at once that arrays of few elements take few steps.
    """
    total = weight * factor
    together = min(max(_TOGETHER // max(weight.size, 1), 1), 64)
    for start in range(1, _MOST_TERMS, together):
        ratios, rises = terms(xp.arange(start, start + together, dtype=xp.float64)[:, None])
        weights = weight * xp.cumprod(ratios, 0)
        factors = factor + xp.cumsum(rises, 0)
        added = weights * factors
        total = total + added.sum(0)
        weight, factor = weights[-1], factors[-1]
        if not (xp.absolute(added[-1]) > 1e-17 * xp.absolute(total)).any():
            break
    return total


def _gamma_below(xp: Namespace, a: Array, x: Array, mean_log: Array) -> Array:
    # t = x exp(-u)
    offset = mean_log - xp.log(x)
    reach = 2 * xp.minimum(_DROP / xp.maximum(a - x, 1e-300), xp.sqrt(3 * _DROP / x))

    def tail(u: Array) -> Array:
        return (offset + u) * xp.exp(-a * u - x * xp.expm1(-u))

    return x * _integral(xp, tail, reach / 60, reach, _GAMMA_STEP)


def _gamma_above(xp: Namespace, a: Array, x: Array, mean_log: Array) -> Array:
    # t = x + s
    offset = xp.log(x) - mean_log
    slope = xp.minimum(1 - (a - 1) / x, 1.0)
    reach = xp.minimum(_DROP / slope, _DROP + 2 * xp.sqrt(_DROP * x))

    def tail(s: Array) -> Array:
        growth = xp.log1p(s / x)
        return (offset + growth) * xp.exp((a - 1) * growth - s)

    return _integral(xp, tail, xp.minimum(reach / 60, x), reach, _GAMMA_STEP)


def beta_path(xp: Namespace, x: Array, concentration: Array, total: Array) -> Array:
    """dx/da / (1 - x) of a draw `x` of the beta distribution with concentrations a and total - a.

    The other concentration stays as it is.
    """
    x, a, total = xp.broadcast_arrays(x, concentration, total)
    b = total - a
    x = xp.clip(x, xp.finfo(xp.float64).tiny, 1 - xp.finfo(xp.float64).epsneg)
    offset = xp.log(x) + _digamma_rise(xp, a, b)  # log x - E[log x]
    by_series = (a < _SERIES_UP_TO) & (x <= 0.5) & (offset < 1 / a)
    ways = by_series, _beta_series, offset < 0, _beta_below, _beta_above
    return _chosen(xp, ways, (x, a, b, offset))


def _digamma_rise(xp: Namespace, a: Array, b: Array) -> Array:
    """digamma(a + b) - digamma(a), without the cancellation of that."""
    rise = xp.zeros_like(a)
    for k in range(_SHIFT):
        rise += b / ((a + k) * (a + b + k))
    low, high = a + _SHIFT, a + b + _SHIFT
    rise += xp.log1p(b / low) + b / (2 * low * high)
    low, high = 1 / (low * low), 1 / (high * high)
    return rise + low * gamma.series(_ASYMPTOTIC, low) - high * gamma.series(_ASYMPTOTIC, high)


def _beta_series(xp: Namespace, x: Array, a: Array, b: Array, offset: Array) -> Array:
    # The cdf is the sum of x**(a+n) (1-x)**b gamma(a+b+n) / (gamma(a+n+1) gamma(b)).
    def terms(n: Array) -> tuple[Array, Array]:
        above = a + b + (n - 1)
        return x * (above / (a + n)), 1 / (a + n) - 1 / above

    return _series(xp, terms, x / a, 1 / a - offset)


def _beta_below(xp: Namespace, x: Array, a: Array, b: Array, offset: Array) -> Array:
    # t = x exp(-u)
    odds = x / (1 - x)

    def tail(u: Array) -> Array:
        growth = xp.log1p(-odds * xp.expm1(-u))
        return (u - offset) * xp.exp((b - 1) * growth - a * u)

    return odds * _integral(xp, tail, *_beta_scales(xp, a, b, odds), _BETA_STEP)


def _beta_above(xp: Namespace, x: Array, a: Array, b: Array, offset: Array) -> Array:
    # 1 - t = (1 - x) exp(-v)
    odds = x / (1 - x)

    def tail(v: Array) -> Array:
        growth = xp.log1p(-xp.expm1(-v) / odds)
        return (offset + growth) * xp.exp((a - 1) * growth - b * v)

    return _integral(xp, tail, *_beta_scales(xp, b, a, 1 / odds), _BETA_STEP)


def _beta_scales(xp: Namespace, rate: Array, other: Array, ratio: Array) -> tuple[Array, Array]:
    """Between which scales of u the tail (1 + ratio (1 - e**-u))**(other - 1) e**(-rate u) bends.

    The large one is where it has fallen by e**-40, found by Newton's method: the exponent is convex
    and the start is beyond, so that steps go one way.
    """
    power = xp.maximum(other - 1, 0.0)
    reach = (_DROP + power * xp.log1p(ratio)) / rate
    for _ in range(12):
        risen = 1 - ratio * xp.expm1(-reach)
        depth = rate * reach - power * xp.log(risen) - _DROP
        slope = rate - power * ratio * xp.exp(-reach) / risen
        reach = xp.where(depth > 0, reach - depth / slope, reach)
    return xp.minimum(reach / 60, xp.minimum(1 / ratio, 1.0)), reach


def _integral(
    xp: Namespace, function: Callable[[Array], Array], small: Array, large: Array, step: float
) -> Array:
    """The integral from 0 up of functions that bend between these scales and then vanish.

    The trapezoidal rule in y, where u = small * exp(y - exp(-y)): it sees every scale alike, and
    both ends fall off doubly exponentially, so its error does too.
    """
    width = _LEFT + xp.minimum(xp.log(large / small), _WIDEST)
    count = math.ceil(float(xp.nanmax(width, initial=_LEFT)) / step) + 1
    steps = width / (count - 1)
    total = xp.zeros_like(small)
    together = max(_TOGETHER // small.size, 1)
    for start in range(0, count, together):
        k = xp.arange(start, min(start + together, count), dtype=xp.float64)[:, None]
        y = k * steps - _LEFT
        fall = xp.exp(-y)
        u = small * xp.exp(y - fall)
        total += (function(u) * (u * (1 + fall))).sum(0)
    return total * steps
