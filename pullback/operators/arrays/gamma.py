"""The gamma function's relatives on arrays: NumPy has none of them. Arithmetic only, no operators.

All in float64 and by the same plan: bring the argument to where a short series is exact to the last
digits, and pay for the way there with a recurrence or a reflection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from pullback.core.arrays import Array, Namespace, some
from pullback.core.layout import cast_kept
from pullback.operators.arrays.blocks import BLOCK, slices

__all__ = ["digamma", "in_double", "lgamma", "polygamma", "series", "zeta"]

# Where the asymptotic series are exact to the last digits.
_FAR = 10
_LARGEST_FACTORIAL = 170  # beyond, float64 has none
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
# Bernoulli numbers of even index from 2: B / (2k (2k - 1)), B / 2k, B / (2k)!.
_STIRLING = (
    *(0.08333333333333333, -0.002777777777777778, 0.0007936507936507937),
    *(-0.0005952380952380953, 0.0008417508417508417, -0.0019175269175269176),
    *(0.00641025641025641, -0.029550653594771242),
)
_DIGAMMA = (
    *(0.08333333333333333, -0.008333333333333333, 0.003968253968253968),
    *(-0.004166666666666667, 0.007575757575757576, -0.021092796092796094),
    *(0.08333333333333333, -0.4432598039215686),
)
_EULER_MACLAURIN = (
    *(0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07),
    *(2.08767569878681e-08, -5.284190138687493e-10, 1.3382536530684679e-11),
    *(-3.3896802963225827e-13, 8.586062056277845e-15, -2.174868698558062e-16),
)
# log(gamma(2 + t)) by powers of t from 1: 1 - Euler's constant, then (-1)^k (zeta(k) - 1) / k.
_NEAR_TWO = (
    *(0.42278433509846713, 0.3224670334241132, -0.0673523010531981, 0.020580808427784546),
    *(-0.007385551028673986, 0.0028905103307415234, -0.001192753911703261),
    *(0.0005096695247430425, -0.00022315475845357939, 9.945751278180853e-05),
    *(-4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06),
    *(4.374866789907488e-06, -2.039215753801366e-06, 9.55141213040742e-07),
    *(-4.492469198764566e-07, 2.1207184805554665e-07, -1.0043224823968099e-07),
    *(4.7698101693639804e-08, -2.2711094608943164e-08, 1.0838659214896955e-08),
    *(-5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09),
    *(5.731367241678862e-10, -2.7595228851242334e-10),
)


def in_double(xp: Namespace, kernel: Callable[..., Array], *arrays: Array) -> Array:
    """Run a kernel that computes in float64 on arrays of any one floating-point dtype.

    In blocks, since kernels of many steps make many arrays; operands of unlike shapes in one piece.
    """
    dtype = arrays[0].dtype
    if arrays[0].size <= BLOCK or any(array.shape != arrays[0].shape for array in arrays):
        return kernel(xp, *[cast_kept(array, xp.float64) for array in arrays]).astype(dtype)
    out = xp.empty(arrays[0].shape, dtype)
    flat, result = [array.reshape(-1) for array in arrays], out.reshape(-1)
    for block in slices(out.size, 1):
        result[block] = kernel(xp, *[array[block].astype(xp.float64) for array in flat])
    return out


def series(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, by rising power."""
    total = coefficients[-1] + 0 * x
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def lgamma(xp: Namespace, x: Array) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    size = xp.where(x < 0, 1 - x, x)  # reflected, so that only positive arguments are left
    near = size < 2.5
    result = xp.where(near, _lgamma_near(xp, xp.where(near, size, 1.0)), _lgamma_far(xp, size))
    if some(x < 0):
        sine = xp.absolute(xp.sin(math.pi * (x - xp.rint(x))))
        result = xp.where(x < 0, math.log(math.pi) - xp.log(sine) - result, result)
    return xp.where(xp.isinf(x), math.inf, result)


def _lgamma_near(xp: Namespace, x: Array) -> Array:
    """For 0 <= x <= 2.5: from the series about 2, whose zero it keeps; at 1 it has the other."""
    whole = xp.rint(xp.minimum(x, 2.4))
    t = x - whole
    result = t * series(_NEAR_TWO, t)
    result -= xp.where(whole < 2, xp.log1p(t), 0.0)
    return result - xp.where(whole < 1, xp.log(x), 0.0)


def _lgamma_far(xp: Namespace, x: Array) -> Array:
    shifted = xp.where(x < _FAR, x + _FAR, x)
    product = 1.0
    for step in range(_FAR):
        product = product * (x + step)
    result = (shifted - 0.5) * xp.log(shifted) - shifted + _HALF_LOG_2PI
    result += series(_STIRLING, shifted**-2) / shifted
    return result - xp.where(x < _FAR, xp.log(product), 0.0)


def digamma(xp: Namespace, x: Array) -> Array:
    """The logarithmic derivative of the gamma function."""
    size = xp.where(x < 0, 1 - x, x)
    result = xp.zeros_like(size)
    for _ in range(_FAR):
        small = size < _FAR
        result -= xp.where(small, 1 / size, 0.0)
        size = xp.where(small, size + 1, size)
    result += xp.log(size) - 0.5 / size - series(_DIGAMMA, size**-2) * size**-2
    if some(x < 0):
        angle = math.pi * (x - xp.rint(x))
        pole = xp.where(angle == 0, math.nan, math.pi / xp.tan(angle))
        result = xp.where(x < 0, result - pole, result)
    return xp.where(x == 0, -xp.copysign(math.inf, x), result)


def zeta(xp: Namespace, x: Array, q: Array) -> Array:
    """Hurwitz's zeta function: the sum of `(q + k) ** -x` over all k from 0."""
    below = q < 0
    if some(below):
        # The terms below zero, from -q down to 1 - f, are a difference of two such sums; f is
        # where q meets zero. Added up one by one they would take as long as q is far.
        f = xp.where(below, q - xp.floor(q), q)
        outer, inner = xp.where(below, 1 - q, 1.0), xp.where(below, 1 - f, 1.0)
        negative = _zeta_from_zero(xp, x, inner) - _zeta_from_zero(xp, x, outer)
        total = _zeta_from_zero(xp, x, f)
        total = xp.where(below, total + xp.where(x % 2 == 0, negative, -negative), total)
    else:
        total = _zeta_from_zero(xp, x, q)
    pole = (q <= 0) & (q == xp.floor(q))
    total = xp.where(pole, math.inf, total)
    total = xp.where(below & ~pole & (x != xp.floor(x)), math.nan, total)
    return xp.where(x == 1, math.inf, xp.where(x < 1, math.nan, total))


def _zeta_from_zero(xp: Namespace, x: Array, q: Array) -> Array:
    """The same for q that are not negative."""
    total = xp.asarray(q**-x, xp.float64)
    for step in range(1, _FAR):
        total += (q + step) ** -x
    end = q + _FAR
    power = end**-x
    total += power * end / (x - 1) + 0.5 * power
    rising = x
    power = power / end
    for k, coefficient in enumerate(_EULER_MACLAURIN):
        total += coefficient * rising * power
        rising = rising * (x + 2 * k + 1) * (x + 2 * k + 2)
        power = power / (end * end)
    return total


def polygamma(xp: Namespace, n: int, x: Array) -> Array:
    """The n-th derivative of digamma."""
    if n == 0:
        return digamma(xp, x)
    sign = 1 if n % 2 else -1
    factor = math.factorial(n) if n <= _LARGEST_FACTORIAL else math.inf
    result = sign * factor * zeta(xp, xp.float64(n + 1), x)
    return xp.where(xp.isinf(x), xp.where(x > 0, 0.0, math.nan), result)
