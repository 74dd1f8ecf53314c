"""Circular and hyperbolic functions, their inverses, and the angles and sides of triangles."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.arrays import F32
from pullback.core.errors import unsupported
from pullback.core.promotion import is_half
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.formulas import slope, variant
from pullback.operators.pointwise.arithmetic import conj, is_complex, keep_where
from pullback.operators.pointwise.powers import sqrt

FOUND_IN = {
    "torch": """
        acos_ acosh_ arccos=acos arccos_=acos_ arccosh=acosh arccosh_=acosh_ arcsin=asin
        arcsin_=asin_ arcsinh=asinh arcsinh_=asinh_ arctan2=atan2 arctan=atan arctan_=atan_
        arctanh=atanh arctanh_=atanh_ asin_ asinh_ atan_ atanh_ cos_ cosh_ deg2rad_ rad2deg_
        sin_ sinc_ sinh_ tan_ tanh_
    """,
    "nn.functional": "tanh",
    "special": "sinc",
}


# Circular ---------------------------------------------------------------------------------------


@elementwise(input=lambda g, input: g * conj(cos(input)), promote="float")
def sin(xp: Namespace, input: Array) -> Array:
    """The sine of each element, in radians.

    >>> import pullback as torch
    >>> torch.sin(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8415])
    """
    return xp.sin(input)


@elementwise(input=lambda g, input: g * conj(-sin(input)), promote="float")
def cos(xp: Namespace, input: Array) -> Array:
    """The cosine of each element, in radians.

    >>> import pullback as torch
    >>> torch.cos(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.5403])
    """
    return xp.cos(input)


@pointwise(
    is_one_call=True, input=lambda g, out: g * conj(out * out + 1), promote="float", kinds="fVc"
)
def tan(xp: Namespace, input: Array) -> Array:
    """The tangent of each element, in radians.

    >>> import pullback as torch
    >>> torch.tan(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5574])
    """
    return xp.tan(input)


@variant(tan, "native")
def _by_quotient(xp: Any, input: Any) -> Any:
    return xp.sin(input) / xp.cos(input)


@elementwise(input=lambda g, input: g / conj(sqrt(1 - input * input)), promote="float")
def asin(xp: Namespace, input: Array) -> Array:
    """The angle whose sine each element is.

    >>> import pullback as torch
    >>> torch.asin(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """
    return xp.arcsin(input)


@elementwise(input=lambda g, input: g / conj(-sqrt(1 - input * input)), promote="float")
def acos(xp: Namespace, input: Array) -> Array:
    """The angle whose cosine each element is.

    >>> import pullback as torch
    >>> torch.acos(torch.tensor([1.0, 0.0, -1.0]))
    tensor([0.0000, 1.5708, 3.1416])
    """
    return xp.arccos(input)


@elementwise(input=lambda g, input: g / conj(input * input + 1), promote="float")
def atan(xp: Namespace, input: Array) -> Array:
    """The angle whose tangent each element is.

    >>> import pullback as torch
    >>> torch.atan(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """
    return xp.arctan(input)


@elementwise(
    input=lambda g, input, other: g * _share(other, input, other),
    other=lambda g, input, other: g * _share(-input, input, other),
    promote="float",
    numbers=False,
)
def atan2(xp: Namespace, input: Array, other: Array) -> Array:
    """The angle of the point (other, input), in all four quadrants.

    >>> import pullback as torch
    >>> torch.atan2(torch.tensor([1.0, -1.0]), torch.tensor([-1.0, -1.0]))
    tensor([ 2.3562, -2.3562])
    """
    if is_complex(input):
        raise unsupported("atan2", input)
    return xp.arctan2(input, other)


def _share(part: Any, input: Any, other: Any) -> Any:
    square = input * input + other * other
    return keep_where(part / square, square != 0)


@elementwise(
    input=lambda g, input, out: g * (input / out),
    other=lambda g, other, out: g * (other / out),
    numbers=False,
)
def hypot(xp: Namespace, input: Array, other: Array) -> Array:
    """The length of the hypotenuse, without overflow in between.

    >>> import pullback as torch
    >>> torch.hypot(torch.tensor([3.0]), torch.tensor([4.0]))
    tensor([5.])
    """
    if input.dtype.kind not in "fV":
        raise unsupported("hypot", input)
    return xp.hypot(input, other)


# Hyperbolic -------------------------------------------------------------------------------------


@pointwise(
    is_one_call=True,
    input=lambda g, input: g * conj(cosh(input)),  # type: ignore[has-type]  # declared below
    promote="float",
    kinds="fVc",
)
def sinh(xp: Namespace, input: Array) -> Array:
    """The hyperbolic sine of each element.

    >>> import pullback as torch
    >>> torch.sinh(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """
    return xp.sinh(input)


@variant(sinh, "native", "f8")
def _by_expm1(xp: Any, input: Any) -> Any:
    e = xp.expm1(abs(input))
    rest = xp.where(e < xp.inf, e / (e + 1), 1.0)
    return xp.copysign((e + rest) * 0.5, input)


@pointwise(
    is_one_call=True, input=lambda g, input: g * conj(sinh(input)), promote="float", kinds="fVc"
)
def cosh(xp: Namespace, input: Array) -> Array:
    """The hyperbolic cosine of each element.

    >>> import pullback as torch
    >>> torch.cosh(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """
    return xp.cosh(input)


@variant(cosh, "native")
def _by_halves(xp: Any, input: Any) -> Any:
    grown = xp.exp(abs(input) * 0.5)  # halved before it could overflow
    sides = grown * 0.5 * grown
    return sides + 0.25 / sides


@pointwise(
    is_one_call=True,
    input=slope(lambda out: 1 - out * out),
    promote="float",
    kinds="fVc",
    holomorphic=True,
)
def tanh(xp: Namespace, input: Array) -> Array:
    """The hyperbolic tangent of each element.

    >>> import pullback as torch
    >>> torch.tanh(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return xp.tanh(input)


@variant(tanh.adjoints["input"], "few")
def _without_numbers(xp: Any, gradient: Any, result: Any) -> Any:
    return gradient - gradient * (result * result)  # a number among the operands takes longer


@elementwise(input=lambda g, input: g / conj(sqrt(input * input + 1)), promote="float")
def asinh(xp: Namespace, input: Array) -> Array:
    """The inverse of `sinh`.

    >>> import pullback as torch
    >>> torch.asinh(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """
    return xp.arcsinh(input)


def _acosh_slope(input: Any) -> Any:
    if is_complex(input):  # on the branch where acosh is: the root of the product is not
        return sqrt(input - 1) * sqrt(input + 1)
    return sqrt(input * input - 1)


@elementwise(input=lambda g, input: g / conj(_acosh_slope(input)), promote="float")
def acosh(xp: Namespace, input: Array) -> Array:
    """The inverse of `cosh`, not negative.

    >>> import pullback as torch
    >>> torch.acosh(torch.tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """
    return xp.arccosh(input)


@elementwise(input=lambda g, input: g / conj(1 - input * input), promote="float")
def atanh(xp: Namespace, input: Array) -> Array:
    """The inverse of `tanh`.

    >>> import pullback as torch
    >>> torch.atanh(torch.tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """
    return xp.arctanh(input)


# Degrees, and the sine over its angle -----------------------------------------------------------

_DEGREE = math.pi / 180


@elementwise(input=lambda g: g * _DEGREE, promote="float", node="Deg2RadBackward0")
def deg2rad(xp: Namespace, input: Array) -> Array:
    """From degrees to radians.

    >>> import pullback as torch
    >>> torch.deg2rad(torch.tensor([180.0, 90.0]))
    tensor([3.1416, 1.5708])
    """
    return _converted(xp, "deg2rad", input, _DEGREE)


@elementwise(input=lambda g: g * (1 / _DEGREE), promote="float", node="Rad2DegBackward0")
def rad2deg(xp: Namespace, input: Array) -> Array:
    """From radians to degrees.

    >>> import pullback as torch
    >>> torch.rad2deg(torch.tensor([3.14159265]))
    tensor([180.])
    """
    return _converted(xp, "rad2deg", input, 1 / _DEGREE)


def _converted(xp: Namespace, op: str, input: Array, factor: float) -> Array:
    # Not xp.deg2rad, which takes eight times as long.
    if input.dtype.kind == "c":
        raise unsupported(op, input)
    if is_half(input.dtype):  # the factor itself must not be rounded
        return xp.multiply(input.astype(F32), F32.type(factor)).astype(input.dtype)
    return xp.multiply(input, input.dtype.type(factor))


def _sinc_slope(input: Any) -> Any:
    angle = input * math.pi
    # Not by their product, which may be too small for a number.
    return keep_where((angle * cos(angle) - sin(angle)) / angle / input, input != 0)


@elementwise(input=lambda g, input: g * conj(_sinc_slope(input)), promote="float")
def sinc(xp: Namespace, input: Array) -> Array:
    """`sin(pi * x) / (pi * x)`, and 1 at 0.

    >>> import pullback as torch
    >>> torch.sinc(torch.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    # In half precision pi is too far from pi.
    x = input.astype(xp.float32) if input.dtype.itemsize == 2 else input
    angle = x * x.dtype.type(math.pi)
    value = xp.where(angle == 0, x.dtype.type(1), xp.sin(angle) / angle)
    return value.astype(input.dtype, copy=False)


# Other names ------------------------------------------------------------------------------------
