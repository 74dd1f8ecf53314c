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

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays import gamma

__all__ = ["beta_path", "gamma_path"]

_SERIES_UP_TO = 20.0  # concentrations above want more than 200 terms
_MOST_TERMS = 400
_DROP = 40.0  # e**-40 is below the precision of float64
_STEP = 0.125  # of the quadrature; 0.25 leaves 7 digits, 0.125 gives 13
_LEFT = 3.7  # exp(-e**3.7) is below the precision of float64
_WIDEST = 60.0  # of a range of scales, as a logarithm
# Bernoulli numbers over 2k, of the asymptotic series of digamma.
_ASYMPTOTIC = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
_SHIFT = 10


def gamma_path(xp: Namespace, concentration: Array, x: Array) -> Array:
    """dx/da of a draw `x` of the gamma distribution with concentration a and rate 1."""
    a, x = xp.broadcast_arrays(concentration, x)
    x = xp.maximum(x, xp.finfo(xp.float64).tiny)
    mean_log = gamma.digamma(xp, a)
    split = xp.exp(mean_log)
    by_series = (a < _SERIES_UP_TO) & (x < xp.maximum(split * xp.exp(1 / a), 1.0))
    below = ~by_series & (x < split)
    above = ~by_series & ~below
    result = xp.empty_like(x)
    result[by_series] = _gamma_series(xp, a[by_series], x[by_series], mean_log[by_series])
    result[below] = _gamma_below(xp, a[below], x[below], mean_log[below])
    result[above] = _gamma_above(xp, a[above], x[above], mean_log[above])
    return result


def _gamma_series(xp: Namespace, a: Array, x: Array, mean_log: Array) -> Array:
    # P(a, x) is the sum of x**(a + n) exp(-x) / gamma(a + n + 1).
    weight = x / a
    factor = mean_log + 1 / a - xp.log(x)
    total = weight * factor
    for n in range(1, _MOST_TERMS):
        weight = weight * (x / (a + n))
        factor = factor + 1 / (a + n)
        total = total + weight * factor
        if not (weight * factor > 1e-17 * xp.absolute(total)).any():
            break
    return total


def _gamma_below(xp: Namespace, a: Array, x: Array, mean_log: Array) -> Array:
    # t = x exp(-u)
    offset = mean_log - xp.log(x)
    reach = 2 * xp.minimum(_DROP / xp.maximum(a - x, 1e-300), xp.sqrt(3 * _DROP / x))

    def tail(u: Array) -> Array:
        return (offset + u) * xp.exp(-a * u - x * xp.expm1(-u))

    return x * _integral(xp, tail, reach / 60, reach)


def _gamma_above(xp: Namespace, a: Array, x: Array, mean_log: Array) -> Array:
    # t = x + s
    offset = xp.log(x) - mean_log
    slope = xp.minimum(1 - (a - 1) / x, 1.0)
    reach = xp.minimum(_DROP / slope, _DROP + 2 * xp.sqrt(_DROP * x))

    def tail(s: Array) -> Array:
        growth = xp.log1p(s / x)
        return (offset + growth) * xp.exp((a - 1) * growth - s)

    return _integral(xp, tail, xp.minimum(reach / 60, x), reach)


def beta_path(xp: Namespace, x: Array, concentration: Array, total: Array) -> Array:
    """dx/da / (1 - x) of a draw `x` of the beta distribution with concentrations a and total - a.

    The other concentration stays as it is.
    """
    x, a, total = xp.broadcast_arrays(x, concentration, total)
    b = total - a
    x = xp.clip(x, xp.finfo(xp.float64).tiny, 1 - xp.finfo(xp.float64).epsneg)
    offset = xp.log(x) + _digamma_rise(xp, a, b)  # log x - E[log x]
    by_series = (a < _SERIES_UP_TO) & (x <= 0.5) & (offset < 1 / a)
    below = ~by_series & (offset < 0)
    above = ~by_series & ~below
    odds = x / (1 - x)
    result = xp.empty_like(x)
    result[by_series] = _beta_series(xp, *(v[by_series] for v in (x, a, b, offset)))
    result[below] = _beta_below(xp, *(v[below] for v in (odds, a, b, offset)))
    result[above] = _beta_above(xp, *(v[above] for v in (odds, a, b, offset)))
    return result


def _digamma_rise(xp: Namespace, a: Array, b: Array) -> Array:
    """digamma(a + b) - digamma(a), without the cancellation of that."""
    rise = xp.zeros_like(a)
    for k in range(_SHIFT):
        rise += b / ((a + k) * (a + b + k))
    low, high = a + _SHIFT, a + b + _SHIFT
    rise += xp.log1p(b / low) + b / (2 * low * high)
    for k, coefficient in enumerate(_ASYMPTOTIC):
        power = -2.0 * (k + 1)
        rise += coefficient * (low**power - high**power)
    return rise


def _beta_series(xp: Namespace, x: Array, a: Array, b: Array, offset: Array) -> Array:
    # The cdf is the sum of x**(a+n) (1-x)**b gamma(a+b+n) / (gamma(a+n+1) gamma(b)).
    weight = x / a
    factor = 1 / a - offset
    total = weight * factor
    for n in range(1, _MOST_TERMS):
        weight = weight * (x * ((a + b + (n - 1)) / (a + n)))
        factor = factor + (1 / (a + n) - 1 / (a + b + (n - 1)))
        total = total + weight * factor
        if not (weight * xp.absolute(factor) > 1e-17 * xp.absolute(total)).any():
            break
    return total


def _beta_below(xp: Namespace, odds: Array, a: Array, b: Array, offset: Array) -> Array:
    # t = x exp(-u)
    def tail(u: Array) -> Array:
        growth = xp.log1p(-odds * xp.expm1(-u))
        return (u - offset) * xp.exp((b - 1) * growth - a * u)

    return odds * _integral(xp, tail, *_beta_scales(xp, a, b, odds))


def _beta_above(xp: Namespace, odds: Array, a: Array, b: Array, offset: Array) -> Array:
    # 1 - t = (1 - x) exp(-v)
    def tail(v: Array) -> Array:
        growth = xp.log1p(-xp.expm1(-v) / odds)
        return (offset + growth) * xp.exp((a - 1) * growth - b * v)

    return _integral(xp, tail, *_beta_scales(xp, b, a, 1 / odds))


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
    xp: Namespace, function: Callable[[Array], Array], small: Array, large: Array
) -> Array:
    """The integral from 0 up of functions that bend between these scales and then vanish.

    The trapezoidal rule in y, where u = small * exp(y - exp(-y)): it sees every scale alike, and
    both ends fall off doubly exponentially, so its error does too.
    """
    if not small.size:
        return small
    width = _LEFT + xp.minimum(xp.log(large / small), _WIDEST)
    count = math.ceil(float(xp.nanmax(width, initial=_LEFT)) / _STEP)
    step = width / count
    total = xp.zeros_like(small)
    for k in range(count + 1):
        y = k * step - _LEFT
        fall = xp.exp(-y)
        u = small * xp.exp(y - fall)
        total += function(u) * (u * (1 + fall))
    return total * step
