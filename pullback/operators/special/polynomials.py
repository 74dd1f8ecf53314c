"""Orthogonal polynomials, each by its recurrence, the degree a tensor as well. No gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.core.layout import empty_like
from pullback.operators.declare import elementwise

Step = Callable[[int, Array, Array, Array], Array]
Closed = Callable[[Namespace, Array, Array], Array]


# Degrees up to here by the recurrence; Chebyshev's polynomials beyond in closed form, since a step
# takes some microseconds and a degree may be any number.
_FEW = 64
_MANY = 1_000_000  # some seconds
_ENOUGH = 16_384  # for a degree beyond many: what grows has overflowed, nearly always


def _polynomial(
    xp: Namespace, x: Array, n: Array, first: Array, step: Step, beyond: Closed | None = None
) -> Array:
    """The polynomial of degree `n` from those of degrees 0 and 1; 0 for a negative degree.

    `step(k, x, last, before)` gives degree k + 1 from degrees k and k - 1, `beyond(xp, x, n)` any.
    """
    degree = xp.trunc(n)
    before, last = empty_like(xp, x), first
    before.fill(1)
    result = xp.where((degree == 0) & (n > -1), before, x.dtype.type(0))
    counted = xp.where(xp.isfinite(degree), degree, 0)
    highest = int(xp.maximum.reduce(counted, None, initial=0))
    if beyond is not None and highest > _FEW:
        far = beyond(xp, x, xp.where(degree > _FEW, degree, 1))
        result = xp.where(degree > _FEW, xp.where(xp.isfinite(far), far, math.nan), result)
        highest = _FEW
    for k in range(1, (highest if highest <= _MANY else _ENOUGH) + 1):
        result = xp.where(degree == k, last, result)
        if k % _FEW == 0 and not xp.isfinite(last).any():
            return xp.where(degree > k, math.nan, result).astype(x.dtype)
        before, last = last, step(k, x, last, before)
    if highest > _MANY:
        raise RuntimeError(
            f"A polynomial of degree {highest:.3e} takes as many steps, which would not end soon; "
            f"degrees up to {_MANY:,} are allowed."
        )
    return result.astype(x.dtype)


def _by_angle(xp: Namespace, x: Array, inside: Any, outside: Any, at_one: Any) -> Array:
    """Of x >= 0: `inside` of the angle whose cosine it is, `outside` of that of its cosh."""
    angle = xp.arccos(xp.minimum(x, 1))
    area = xp.arccosh(xp.maximum(x, 1))
    ends = xp.where(x == 1, at_one, math.nan)
    return xp.where(x < 1, inside(angle), xp.where(x > 1, outside(area), ends))


def _first(xp: Namespace, x: Array, n: Array) -> Array:
    return _by_angle(xp, x, lambda a: xp.cos(n * a), lambda a: xp.cosh(n * a), 1)


def _second(xp: Namespace, x: Array, n: Array) -> Array:
    return _by_angle(
        xp,
        x,
        lambda a: xp.sin((n + 1) * a) / xp.sin(a),
        lambda a: xp.sinh((n + 1) * a) / xp.sinh(a),
        n + 1,
    )


def _third(xp: Namespace, x: Array, n: Array) -> Array:
    return _by_angle(
        xp,
        x,
        lambda a: xp.cos((n + 0.5) * a) / xp.cos(a / 2),
        lambda a: xp.cosh((n + 0.5) * a) / xp.cosh(a / 2),
        1,
    )


def _fourth(xp: Namespace, x: Array, n: Array) -> Array:
    return _by_angle(
        xp,
        x,
        lambda a: xp.sin((n + 0.5) * a) / xp.sin(a / 2),
        lambda a: xp.sinh((n + 0.5) * a) / xp.sinh(a / 2),
        2 * n + 1,
    )


def _mirrored(right: Closed, left: Closed) -> Closed:
    """A closed form for all x: at the left another one, with the sign of the degree's parity."""

    def closed(xp: Namespace, x: Array, n: Array) -> Array:
        x, n = x.astype(xp.float64), n.astype(xp.float64)
        sign = xp.where(xp.fmod(n, 2) == 0, 1.0, -1.0)
        return xp.where(x >= 0, right(xp, abs(x), n), sign * left(xp, abs(x), n))

    return closed


_T, _U = _mirrored(_first, _first), _mirrored(_second, _second)
_V, _W = _mirrored(_third, _fourth), _mirrored(_fourth, _third)


def _chebyshev(k: int, x: Array, last: Array, before: Array) -> Array:
    return 2 * x * last - before


def _hermite_h(k: int, x: Array, last: Array, before: Array) -> Array:
    return 2 * x * last - 2 * k * before


def _hermite_he(k: int, x: Array, last: Array, before: Array) -> Array:
    return x * last - k * before


def _laguerre(k: int, x: Array, last: Array, before: Array) -> Array:
    return ((2 * k + 1 - x) * last - k * before) / (k + 1)


def _legendre(k: int, x: Array, last: Array, before: Array) -> Array:
    return ((2 * k + 1) * x * last - k * before) / (k + 1)


# Chebyshev --------------------------------------------------------------------------------------


@elementwise(promote="float", space="special")
def chebyshev_polynomial_t(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the first kind, of degree `n`.

    >>> import pullback as torch
    >>> torch.special.chebyshev_polynomial_t(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([-0.5000,  7.0000])
    """
    return _polynomial(xp, x, n, x, _chebyshev, _T)


@elementwise(promote="float", space="special")
def chebyshev_polynomial_u(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the second kind, of degree `n`.

    >>> import pullback as torch
    >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([ 0., 15.])
    """
    return _polynomial(xp, x, n, 2 * x, _chebyshev, _U)


@elementwise(promote="float", space="special")
def chebyshev_polynomial_v(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the third kind, of degree `n`.

    >>> import pullback as torch
    >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([-1., 11.])
    """
    return _polynomial(xp, x, n, 2 * x - 1, _chebyshev, _V)


@elementwise(promote="float", space="special")
def chebyshev_polynomial_w(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the fourth kind, of degree `n`.

    >>> import pullback as torch
    >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([ 1., 19.])
    """
    return _polynomial(xp, x, n, 2 * x + 1, _chebyshev, _W)


@elementwise(promote="float", space="special")
def shifted_chebyshev_polynomial_t(xp: Namespace, x: Array, n: Array) -> Array:
    """`chebyshev_polynomial_t(2 * x - 1, n)`.

    >>> import pullback as torch
    >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.5, 1.0]), torch.tensor([2]))
    tensor([-1.,  1.])
    """
    x = 2 * x - 1
    return _polynomial(xp, x, n, x, _chebyshev, _T)


@elementwise(promote="float", space="special")
def shifted_chebyshev_polynomial_u(xp: Namespace, x: Array, n: Array) -> Array:
    """`chebyshev_polynomial_u(2 * x - 1, n)`.

    >>> import pullback as torch
    >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.5, 1.0]), torch.tensor([2]))
    tensor([-1.,  3.])
    """
    x = 2 * x - 1
    return _polynomial(xp, x, n, 2 * x, _chebyshev, _U)


@elementwise(promote="float", space="special")
def shifted_chebyshev_polynomial_v(xp: Namespace, x: Array, n: Array) -> Array:
    """`chebyshev_polynomial_v(2 * x - 1, n)`.

    >>> import pullback as torch
    >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.5, 1.0]), torch.tensor([2]))
    tensor([-1.,  1.])
    """
    x = 2 * x - 1
    return _polynomial(xp, x, n, 2 * x - 1, _chebyshev, _V)


@elementwise(promote="float", space="special")
def shifted_chebyshev_polynomial_w(xp: Namespace, x: Array, n: Array) -> Array:
    """`chebyshev_polynomial_w(2 * x - 1, n)`.

    >>> import pullback as torch
    >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.5, 1.0]), torch.tensor([2]))
    tensor([-1.,  5.])
    """
    x = 2 * x - 1
    return _polynomial(xp, x, n, 2 * x + 1, _chebyshev, _W)


# Others -----------------------------------------------------------------------------------------


@elementwise(promote="float", space="special")
def hermite_polynomial_h(xp: Namespace, x: Array, n: Array) -> Array:
    """Hermite's polynomial of degree `n`, the physicists'.

    >>> import pullback as torch
    >>> torch.special.hermite_polynomial_h(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([-1., 14.])
    """
    return _polynomial(xp, x, n, 2 * x, _hermite_h)


@elementwise(promote="float", space="special")
def hermite_polynomial_he(xp: Namespace, x: Array, n: Array) -> Array:
    """Hermite's polynomial of degree `n`, the probabilists'.

    >>> import pullback as torch
    >>> torch.special.hermite_polynomial_he(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([-0.7500,  3.0000])
    """
    return _polynomial(xp, x, n, x, _hermite_he)


@elementwise(promote="float", space="special")
def laguerre_polynomial_l(xp: Namespace, x: Array, n: Array) -> Array:
    """Laguerre's polynomial of degree `n`.

    >>> import pullback as torch
    >>> torch.special.laguerre_polynomial_l(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([ 0.1250, -1.0000])
    """
    return _polynomial(xp, x, n, 1 - x, _laguerre)


@elementwise(promote="float", space="special")
def legendre_polynomial_p(xp: Namespace, x: Array, n: Array) -> Array:
    """Legendre's polynomial of degree `n`.

    >>> import pullback as torch
    >>> torch.special.legendre_polynomial_p(torch.tensor([0.5, 2.0]), torch.tensor([2]))
    tensor([-0.1250,  5.5000])
    """
    return _polynomial(xp, x, n, x, _legendre)
