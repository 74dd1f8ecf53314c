"""The error function, its relatives and inverses, and the normal distribution made of them.

The arithmetic of erf and erfc themselves is in erf.py.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.core.arrays import F32
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor
from pullback.operators.arrays import gamma
from pullback.operators.arrays.erf import erf as erf_of
from pullback.operators.arrays.erf import erfc as erfc_of
from pullback.operators.arrays.scipy_special import scipy_or
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.pointwise.arithmetic import mul
from pullback.operators.pointwise.exponentials import exp

FOUND_IN = {"torch": "erf_ erfc_", "special": "erf erfc erfinv ndtr"}

_ROOT_HALF = math.sqrt(0.5)
_ROOT_PI = math.sqrt(math.pi)


# The error function -----------------------------------------------------------------------------


@elementwise(
    input=lambda g, input: g * (exp(-(input * input)) * (2 / _ROOT_PI)),
    promote="float",
    inline="(erf_of if a0.dtype is F32 and ndarray is host_array else forward)(numpy, a0)",
)
def erf(xp: Namespace, input: Array) -> Array:
    """The error function: the chance of a normal variable of variance 1/2 to lie within `x`.

    >>> import pullback as torch
    >>> torch.erf(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """
    if input.dtype is not F32 and input.dtype.kind == "c":
        raise unsupported("erf", input)
    return erf_of(xp, input)


@elementwise(input=lambda g, input: g * (exp(-(input * input)) * (-2 / _ROOT_PI)), promote="float")
def erfc(xp: Namespace, input: Array) -> Array:
    """`1 - erf(x)`, with all its digits where that is small.

    >>> import pullback as torch
    >>> torch.erfc(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """
    if input.dtype.kind == "c":
        raise unsupported("erfc", input)
    return erfc_of(xp, input)


def _square_exp(xp: Namespace, x: Array) -> Array:
    """`exp(x * x)`; the square in two parts, since its rounding would show."""
    high = x.astype(xp.float32).astype(xp.float64)
    return xp.exp(high * high) * xp.exp((x - high) * (x + high))


# From here on erfc leaves the normal numbers, and the asymptotic series is exact; as far left the
# result overflows.
_FAR_OUT = 26.0
_OVERFLOW = -27.0


def _erfcx(xp: Namespace, x: Array) -> Array:
    near = xp.minimum(xp.maximum(x, _OVERFLOW), _FAR_OUT)
    inverse = 1 / xp.maximum(x, _FAR_OUT)
    steps = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125)
    far = gamma.series(steps, inverse * inverse) * inverse / _ROOT_PI
    return xp.where(x < _FAR_OUT, erfc_of(xp, near) * _square_exp(xp, near), far)


@elementwise(
    input=lambda g, input, out: g * (input * out * 2 - 2 / _ROOT_PI),
    promote="float",
    space="special",
    node="SpecialErfcxBackward0",
)
def erfcx(xp: Namespace, input: Array) -> Array:
    """`exp(x * x) * erfc(x)`.

    >>> import pullback as torch
    >>> torch.special.erfcx(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.4276])
    """
    return scipy_or(xp, "erfcx", "erfcx", _erfcx, input)


# y / erf(y), fitted in pieces: in w = -log(1 - erf(y) ** 2) up to 5, then in its root up to 4 and
# up to 27.5, each brought to -1 to 1. Relative errors 6e-9, 6e-8 and 2e-6.
_NEAR = (
    *(1.5014093597051432, 0.6166006960681979, -0.026108677963080425, -0.019573831651937722),
    *(0.008529136194909798, -0.0004856513353507159, -0.0008454817052428313),
    *(0.0002858074785162548, 3.5499267743301996e-05, -3.4108787728596564e-05),
)
_FURTHER = (
    *(2.9513285101486653, 0.8851570428563518, 0.005571871800908036, -0.0036905957767218796),
    *(0.0023337152876413293, -0.0014446499887246958, 0.0006372440951443362),
    *(-3.644027035625493e-05, -7.309655974843355e-05),
)
_FURTHEST = (
    *(15.666182251956348, 11.788883410014744, -0.019447561481196134, 0.011836973244924543),
    *(-0.012916325521204992, -0.0029311950583362128, 0.021689459850796372),
    *(0.011591566923341711, -0.030038019826627484, -0.008306492739416266, 0.015380027070070855),
)


def _guess(xp: Namespace, low: Array, high: Array) -> Array:
    """The y >= 0 with `erf(y) == low` and `erfc(y) == high`, to 7 digits."""
    w = -xp.log(high) - xp.log1p(low)
    root = xp.sqrt(w)
    ratio = gamma.series(_NEAR, w / 2.5 - 1)
    if not (w < 5).all():
        edge = math.sqrt(5)
        further = gamma.series(_FURTHER, (2 * root - edge - 4) / (4 - edge))
        furthest = gamma.series(_FURTHEST, (2 * root - 31.5) / 23.5)
        ratio = xp.where(w < 5, ratio, xp.where(root < 4, further, furthest))
    return xp.where(high == 0, math.inf, ratio * low)


def _inverse_erf(xp: Namespace, low: Array, high: Array) -> Array:
    """As `_guess`, to the last digit: one step of Halley's cubes the error."""
    y = _guess(xp, low, high)
    error = xp.where(high < 0.5, high - erfc_of(xp, y), erf_of(xp, y) - low)
    step = error * _square_exp(xp, y) * (_ROOT_PI / 2)
    return xp.where(high == 0, y, y - step / (1 + y * step))


def _erfinv(xp: Namespace, x: Array) -> Array:
    size = xp.absolute(x)
    return xp.copysign(_inverse_erf(xp, size, 1 - size), x)


def _erfinv_single(xp: Namespace, x: Array) -> Array:
    size = xp.absolute(x)
    return xp.copysign(_guess(xp, size, 1 - size), x)


@elementwise(input=lambda g, input: g * (exp(erfinv(input) ** 2) * (_ROOT_PI / 2)), promote="float")
def erfinv(xp: Namespace, input: Array) -> Array:
    """The inverse of `erf`.

    >>> import pullback as torch
    >>> torch.erfinv(torch.tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """
    own = _erfinv if input.dtype == xp.float64 else _erfinv_single
    inverse = scipy_or(xp, "erfinv", "erfinv", own, input)
    return xp.copysign(inverse, input)  # SciPy gives 0.0 for -0.0


# The normal distribution ------------------------------------------------------------------------


def ndtr(input: Any, *, out: Tensor | None = None) -> Any:
    """The chance of a standard normal variable to lie below each element.

    >>> import pullback as torch
    >>> torch.special.ndtr(torch.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """
    return mul(erfc(input * -_ROOT_HALF), 0.5, out=out)


def _ndtri(xp: Namespace, p: Array) -> Array:
    tail = 2 * xp.minimum(p, 1 - p)
    y = _inverse_erf(xp, 1 - tail, tail) / _ROOT_HALF
    return xp.where(p < 0.5, -y, y)


@elementwise(
    input=lambda g, out: g * (exp(out * out * 0.5) * math.sqrt(2 * math.pi)),
    promote="float",
    space="special",
    node="SpecialNdtriBackward0",
)
def ndtri(xp: Namespace, input: Array) -> Array:
    """The inverse of `ndtr`.

    >>> import pullback as torch
    >>> torch.special.ndtri(torch.tensor([0.5, 0.975]))
    tensor([0.0000, 1.9600])
    """
    return scipy_or(xp, "ndtri", "ndtri", _ndtri, input)


def _log_ndtr(xp: Namespace, x: Array) -> Array:
    scaled = x * _ROOT_HALF
    right = xp.log1p(-0.5 * erfc_of(xp, xp.maximum(scaled, -1)))
    left = xp.log(0.5 * _erfcx(xp, -xp.minimum(scaled, 0))) - scaled * scaled
    return xp.where(x < -1, left, right)


@elementwise(
    input=lambda g, input: g * (math.sqrt(2 / math.pi) / erfcx(input * -_ROOT_HALF)),
    promote="float",
    space="special",
    node="SpecialLogNdtrBackward0",
)
def log_ndtr(xp: Namespace, input: Array) -> Array:
    """The logarithm of `ndtr`, with all its digits far to the left, too.

    >>> import pullback as torch
    >>> torch.special.log_ndtr(torch.tensor([0.0, 1.0]))
    tensor([-0.6931, -0.1728])
    """
    return scipy_or(xp, "log_ndtr", "log_ndtr", _log_ndtr, input)
