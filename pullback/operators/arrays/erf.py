"""The error function and its complement on arrays: NumPy has neither.

Here and not with the operators that use them (erf, erfc, gelu) because it is arithmetic on arrays
only. The coefficients are minimax fits made for this file.
"""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import F32, F64, Array, Namespace
from pullback.operators.arrays import programs
from pullback.operators.arrays.blocks import elementwise
from pullback.operators.arrays.formats import keeps_order
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.scipy_special import in_single, scipy_special

__all__ = ["FEW", "erf", "erf_double", "erfc", "normal_cdf", "polynomial"]

# Elements; for fewer of them SciPy's one loop takes less time than our many calls: 2.5 us for a
# hundred float32, ours 20. For a million it takes 24 ms, ours 3.
FEW = 500

# float32: erf(x) / x in x * x, where |x| < 3.92; from there on it rounds to 1, and so does the fit
# up to the limit. Relative error 2e-8, with the rounding of the steps up to 4e-7.
_LIMIT = 4.0
_SINGLE_ABOVE = (
    *(29629.03060185242, 5000.643856497018, 1385.1871373340389, 98.91202284388245),
    *(7.4802300071424535, 0.05381205479700614),
)
_SINGLE_BELOW = (
    *(26258.04519711642, 13184.371398660987, 2996.6569157690183, 393.13410108267954),
    *(30.532208556999414, 1.0),
)
# float64: erf(x) / x in x * x, where |x| < 1. Relative error 8e-18.
_NEAR = (
    *(1.1283791670955126, -0.3761263890318352, 0.11283791670944185, -0.02686617064311151),
    *(0.00522397760611912, -0.0008548325929356706, 0.00012055293578443676),
    *(-1.4924712336204467e-05, 1.6447132040889996e-06, -1.6206317666277328e-07),
    *(1.3710998451284123e-08, -7.779504025019236e-10),
)
# float64: erfc(x) * exp(x * x) in x, where 1 <= x < 28; from there on erfc is 0. Error 2e-17.
_FAR_LIMIT = 28.0
_FAR_ABOVE = (
    *(1.0000000305110521, 2.1880832024420114, 2.3495056261789977, 1.5886917600169066),
    *(0.7353261668278955, 0.23874765513199747, 0.05351438862167939, 0.007697030893294852),
    *(0.0005706078938243226,),
)
_FAR_BELOW = (
    *(1.0, 3.3164626845599594, 5.091731459581175, 4.769890593170905, 3.020646370927806),
    *(1.3502518871313631, 0.4299905172244067, 0.09535747225933826, 0.013642632047526073),
    *(0.001011376158764904,),
)


@keeps_order
def erf(xp: Namespace, x: Array) -> Array:
    """The error function of each element of a real array."""
    if x.size >= MANY and x.flags.c_contiguous and (made := by_machine_code(programs.ERF, (x,))):
        return made[0]
    dtype = x.dtype
    single = dtype is F32
    double = not single and dtype == F64
    if (double or x.size < FEW) and (scipy := scipy_special(xp)):
        return scipy.erf(x) if single else in_single(xp, scipy.erf, x)
    return elementwise(xp, erf_double if double else _erf_single, x)


@keeps_order
def erfc(xp: Namespace, x: Array) -> Array:
    """`1 - erf(x)`, with all its digits where that is small."""
    if x.dtype == F64:  # SciPy's has a digit less
        return elementwise(xp, _erfc_double, x)
    if scipy := scipy_special(xp):
        return in_single(xp, scipy.erfc, x)
    return elementwise(xp, _erfc_double, x.astype(F64)).astype(x.dtype)


def normal_cdf(xp: Namespace, x: Array) -> Array:
    """The probability that a normal variable is below each element."""
    if scipy := scipy_special(xp):
        made: Array = scipy.ndtr(x)
        return made
    return erfc(xp, x * -(0.5**0.5)) * 0.5


def _erf_single(xp: Namespace, out: Array, x: Array) -> None:
    # Rounding may lead one digit beyond 1.
    _odd_ratio(xp, _SINGLE_ABOVE, _SINGLE_BELOW, _LIMIT, x, out).clip(-1, 1, out=out)


def _odd_ratio(
    xp: Namespace,
    above: tuple[float, ...],
    below: tuple[float, ...],
    limit: float,
    x: Array,
    scratch: Array,
) -> Array:
    """`x` times a quotient of polynomials in its square, for x brought within the limit."""
    near = x.clip(-limit, limit)
    square = near * near
    near *= polynomial(xp, above, square, scratch)
    near /= polynomial(xp, below, square, scratch)
    return near


def erf_double(xp: Namespace, out: Array, x: Array) -> None:
    """The error function of one float64 block."""
    size = abs(x)
    near = size < 1
    if not near.all():
        _far(xp, size, out)
        xp.subtract(1, out, out=out)
        xp.copysign(out, x, out=out)
    out[near] = _near(xp, x[near])


def _erfc_double(xp: Namespace, out: Array, x: Array) -> None:
    size = abs(x)
    _far(xp, size, out)
    xp.subtract(2, out, out=out, where=x < 0)
    near = size < 1
    out[near] = 1 - _near(xp, x[near])


def _near(xp: Namespace, x: Array) -> Array:
    square = x * x
    return x * polynomial(xp, _NEAR, square, xp.empty_like(x))


def _far(xp: Namespace, x: Array, out: Array) -> None:
    """`erfc(x)` for x >= 1 (anything for smaller x)."""
    x = xp.minimum(x, _FAR_LIMIT)
    # exp(-x * x) in two parts: the first is exact in its square, so that the rounding of the square
    # (up to 784 times as large as that of x) does not show.
    high = x.astype(xp.float32).astype(xp.float64)
    ratio = polynomial(xp, _FAR_ABOVE, x, out)
    ratio /= polynomial(xp, _FAR_BELOW, x, xp.empty_like(x))
    ratio *= xp.exp(-high * high)
    ratio *= xp.exp((high - x) * (high + x))


def polynomial(xp: Namespace, coefficients: tuple[Any, ...], x: Array, out: Array) -> Array:
    """Coefficients by rising power; the value goes to `out`, which may not be `x`."""
    if coefficients[-1] == 1:
        xp.add(x, coefficients[-2], out=out)
    else:
        xp.multiply(x, coefficients[-1], out=out)
        out += coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        out *= x
        out += coefficient
    return out
