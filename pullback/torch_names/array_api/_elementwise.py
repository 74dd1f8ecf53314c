"""Functions of each element under the standard's names: each is an operator of torch's.

Two arrays are brought to the dtype in which the standard has them meet, and one of the two may be a
Python number. Everything else, gradients among it, is the operator's.
"""

from __future__ import annotations

from collections.abc import Callable

import pullback as torch
from pullback import Tensor

from ._dtypes import NUMBERS, check_array, together

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

# What torch refuses or answers otherwise.
_INTEGERS_STAY = frozenset(("ceil", "floor", "round", "trunc"))


def _imag(x: Tensor) -> Tensor:
    return torch.imag(x) if x.is_complex() else torch.zeros_like(x)


def _round(x: Tensor) -> Tensor:
    return torch.complex(x.real.round(), x.imag.round()) if x.is_complex() else torch.round(x)


def _sign(x: Tensor) -> Tensor:
    if x.is_complex():
        return torch.sgn(x)
    signs = torch.sign(x)
    return torch.where(torch.isnan(x), x, signs) if x.is_floating_point() else signs


_OWN: dict[str, Callable[[Tensor], Tensor]] = {"imag": _imag, "round": _round, "sign": _sign}


def _unary(name: str, theirs: str = "") -> Callable[..., Tensor]:
    operator = _OWN.get(name) or getattr(torch, theirs or name)
    stay = name in _INTEGERS_STAY

    def function(x: Tensor, /) -> Tensor:
        check_array(name, x)
        if stay and not (x.is_floating_point() or x.is_complex()):
            return x.clone()
        result: Tensor = operator(x)
        return result

    return _named(function, name, theirs or name)


def _binary(name: str, theirs: str = "") -> Callable[..., Tensor]:
    operator = getattr(torch, theirs or name)

    def function(x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
        result: Tensor = operator(*together(name, x1, x2))
        return result

    return _named(function, name, theirs or name)


def _named(function: Callable[..., Tensor], name: str, theirs: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As `torch.{theirs}`, with the arguments and the promotion of the standard."
    return function


abs = _unary("abs")
acos = _unary("acos")
acosh = _unary("acosh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
bitwise_invert = _unary("bitwise_invert", "bitwise_not")
ceil = _unary("ceil")
conj = _unary("conj", "conj_physical")
cos = _unary("cos")
cosh = _unary("cosh")
exp = _unary("exp")
expm1 = _unary("expm1")
floor = _unary("floor")
imag = _unary("imag")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
log = _unary("log")
log1p = _unary("log1p")
log2 = _unary("log2")
log10 = _unary("log10")
logical_not = _unary("logical_not")
negative = _unary("negative", "neg")
positive = _unary("positive")
real = _unary("real")
reciprocal = _unary("reciprocal")
round = _unary("round")
sign = _unary("sign")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
square = _unary("square")
sqrt = _unary("sqrt")
tan = _unary("tan")
tanh = _unary("tanh")
trunc = _unary("trunc")

add = _binary("add")
atan2 = _binary("atan2")
bitwise_and = _binary("bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
copysign = _binary("copysign")
divide = _binary("divide", "div")
equal = _binary("equal", "eq")
floor_divide = _binary("floor_divide")
greater = _binary("greater", "gt")
greater_equal = _binary("greater_equal", "ge")
hypot = _binary("hypot")
less = _binary("less", "lt")
less_equal = _binary("less_equal", "le")
logaddexp = _binary("logaddexp")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
multiply = _binary("multiply", "mul")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal", "ne")
pow = _binary("pow")
remainder = _binary("remainder")
subtract = _binary("subtract", "sub")


def clip(
    x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None
) -> Tensor:
    """As `torch.clamp`: what is below `min` becomes `min`, what is above `max` becomes `max`."""
    check_array("clip", x)
    if min is None and max is None:
        return x.clone()
    bounds = [one for one in (min, max) if one is not None]
    if all(isinstance(one, NUMBERS) for one in bounds):
        return torch.clamp(x, min, max)
    x, *rest = together("clip", x, *bounds)
    given = iter(rest)
    low, high = (None if one is None else next(given) for one in (min, max))
    return torch.clamp(x, low, high)
