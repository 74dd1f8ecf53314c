"""The error function and its complement on arrays: NumPy has neither.

Here and not with the operators that use them (erf, erfc, gelu) because it is arithmetic on arrays
only. The coefficients are minimax fits made for this file.
"""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.operators.blocks import elementwise

__all__ = ["erf", "erf_double", "erf_single", "erfc"]

# float32: erf(x) / x in x * x, where |x| < 3.92; from there on it rounds to 1. Relative error 2e-8,
# with the rounding of the steps up to 4e-7.
_LIMIT = 3.92
_SINGLE_ABOVE = (
    *(1.1283791454935188, 0.19044235086647554, 0.05275286590968912),
    *(0.0037669225603566515, 0.0002848738339426695, 2.0493549460001546e-06),
)
_SINGLE_BELOW = (
    *(1.0, 0.502107879687436, 0.11412338173970782, 0.014971948525926537),
    *(0.0011627753828511336, 3.80835661030021e-05),
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


def erf(xp: Namespace, x: Array) -> Array:
    """The error function of each element of a real array."""
    if x.dtype == xp.float64:
        return elementwise(xp, erf_double, x)
    return elementwise(xp, erf_single, x)


def erfc(xp: Namespace, x: Array) -> Array:
    """`1 - erf(x)`, with all its digits where that is small."""
    if x.dtype == xp.float64:
        return elementwise(xp, _erfc_double, x)
    return elementwise(xp, _erfc_double, x.astype(xp.float64)).astype(x.dtype)


def erf_single(xp: Namespace, out: Array, x: Array) -> None:
    """The error function of one float32 block."""
    near = x.clip(-_LIMIT, _LIMIT)
    square = near * near
    near *= _polynomial(xp, _SINGLE_ABOVE, square, out)
    near /= _polynomial(xp, _SINGLE_BELOW, square, out)
    near.clip(-1, 1, out=out)  # rounding may lead one digit beyond


def erf_double(xp: Namespace, out: Array, x: Array) -> None:
    """The error function of one float64 block."""
    size = abs(x)
    if not (size < 1).all():
        _far(xp, size, out)
        xp.subtract(1, out, out=out)
        xp.copysign(out, x, out=out)
    near = xp.flatnonzero(size < 1)
    out[near] = _near(xp, x[near])


def _erfc_double(xp: Namespace, out: Array, x: Array) -> None:
    size = abs(x)
    _far(xp, size, out)
    xp.subtract(2, out, out=out, where=x < 0)
    near = xp.flatnonzero(size < 1)
    out[near] = 1 - _near(xp, x[near])


def _near(xp: Namespace, x: Array) -> Array:
    square = x * x
    return x * _polynomial(xp, _NEAR, square, xp.empty_like(x))


def _far(xp: Namespace, x: Array, out: Array) -> None:
    """`erfc(x)` for x >= 1 (anything for smaller x)."""
    x = xp.minimum(x, _FAR_LIMIT)
    # exp(-x * x) in two parts: the first is exact in its square, so that the rounding of the square
    # (up to 784 times as large as that of x) does not show.
    high = x.astype(xp.float32).astype(xp.float64)
    ratio = _polynomial(xp, _FAR_ABOVE, x, out)
    ratio /= _polynomial(xp, _FAR_BELOW, x, xp.empty_like(x))
    ratio *= xp.exp(-high * high)
    ratio *= xp.exp((high - x) * (high + x))


def _polynomial(xp: Namespace, coefficients: tuple[float, ...], x: Array, out: Any) -> Array:
    """Coefficients by rising power; the value goes to `out`, which may not be `x`."""
    xp.multiply(x, coefficients[-1], out=out)
    for coefficient in coefficients[-2:0:-1]:
        out += coefficient
        out *= x
    out += coefficients[0]
    return out
