"""Elementwise operators whose kernels are more than their formula."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import BYTES, Val
from pullback.compiled.llvm.words import can_cast
from pullback.compiled.lower.libm import ask
from pullback.compiled.lower.rules import FLOATING, NotLowered, constant, floating, lower

_SAME = {
    "neg": "neg", "exp": "exp", "log": "log", "_log": "log", "tanh": "tanh", "sin": "sin",
    "cos": "cos", "sqrt": "sqrt", "rsqrt": "rsqrt", "erf": "erf", "log1p": "log1p",
    "expm1": "expm1", "sigmoid": "sigmoid", "mul": "mul", "true_divide": "div", "abs": "abs",
    "reciprocal": "recip", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "maximum": "maximum", "minimum": "minimum",
}  # fmt: skip
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")


def _plain(word: str) -> Any:
    def rule(b: Builder, **given: Any) -> Val:
        values = [one for one in given.values() if isinstance(one, Val)]
        floating(*values)
        return b.ew(word, *values)

    return rule


for _name, _word in _SAME.items():
    lower(_name)(_plain(_word))


def _compared(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val) -> Val:
        if input.dtype != other.dtype:
            raise NotLowered
        return b.ew(word, input, other)

    return rule


for _name in _COMPARED:
    lower(_name)(_compared(_name))


@lower("bitwise_not")
def _inverted(b: Builder, input: Val) -> Val:
    if input.dtype != "b1":
        raise NotLowered
    return b.ew("not", input)


def _sum(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val, alpha: Any = 1) -> Val:
        floating(input, other)
        if alpha != 1:
            other = b.ew("mul", other, constant(b, alpha, other))
        return b.ew(word, input, other)

    return rule


lower("add")(_sum("add"))
lower("sub")(_sum("sub"))


@lower("rsub")
def _reversed(b: Builder, input: Val, other: Val, alpha: Any = 1) -> Val:
    floating(input, other)
    if alpha != 1:
        input = b.ew("mul", input, constant(b, alpha, input))
    return b.ew("sub", other, input)


@lower("pow.Tensor_Scalar")
def _power(b: Builder, input: Val, exponent: Any) -> Val:
    floating(input)
    if isinstance(exponent, complex):
        raise NotLowered
    if exponent == 2:
        return b.ew("mul", input, input)
    if exponent == 1:
        return input
    if exponent in (0.5, -0.5):
        return b.ew("sqrt" if exponent > 0 else "rsqrt", input)
    if float(exponent).is_integer() and 0 < abs(exponent) <= 16:
        return b.ew("powi", input, attr=int(exponent))
    return ask(b, "pow", input, constant(b, exponent, input))


@lower("pow.Scalar")
def _power_of_number(b: Builder, input: Val, base: Any) -> Val:
    if isinstance(base, complex):
        raise NotLowered
    # exp(x log a) loses a digit for each of x log a: in double there are some to spare, near 0.
    if input.dtype != "f8" or not 0.5 < base < 1:
        return ask(b, "pow", constant(b, base, input), input)
    return b.ew("exp", b.ew("mul", input, constant(b, math.log(base), input)))


@lower("_real_tanh_adjoint")
def _tanh_adjoint(b: Builder, slope: Val, value: Val) -> Val:
    floating(slope, value)
    one = constant(b, 1, value)
    return b.ew("mul", slope, b.ew("sub", one, b.ew("mul", value, value)))


@lower("_real_sigmoid_adjoint")
def _sigmoid_adjoint(b: Builder, slope: Val, value: Val) -> Val:
    floating(slope, value)
    rest = b.ew("sub", constant(b, 1, value), value)
    return b.ew("mul", slope, b.ew("mul", rest, value))


@lower("relu")
def _relu(b: Builder, input: Val) -> Val:
    floating(input)
    return b.ew("maximum", input, constant(b, 0, input))


@lower("keep_where")
def _keep(b: Builder, input: Val, mask: Val) -> Val:
    if mask.dtype != "b1" or input.dtype not in FLOATING:
        raise NotLowered
    return b.ew("where", mask, input, constant(b, 0, input))


@lower("_where")
def _where(b: Builder, condition: Val, input: Val, other: Val) -> Val:
    if condition.dtype != "b1" or input.dtype != other.dtype:
        raise NotLowered
    return b.ew("where", condition, input, other)


@lower("masked_fill")
def _masked_fill(b: Builder, input: Val, mask: Val, value: Val) -> Val:
    if mask.dtype != "b1" or input.dtype not in FLOATING or value.dtype not in FLOATING:
        raise NotLowered
    return b.ew("where", mask, b.ew("cast", value, dtype=input.dtype), input)


@lower("clone")
def _clone(b: Builder, input: Val, memory_format: Any = None) -> Val:
    return input


@lower("_to_copy", "_to_fixed")
def _to(b: Builder, input: Val, dtype: Any, memory_format: Any = None) -> Val:
    wanted = input.dtype if dtype is None else _name_of(getattr(dtype, "numpy", dtype))
    if wanted not in BYTES or not can_cast(input.dtype, wanted):
        raise NotLowered
    return b.ew("cast", input, dtype=wanted)


def _name_of(dtype: Any) -> str:
    return "b1" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"


@lower("zeros_of", "_zero")
def _zeros(b: Builder, input: Val) -> Val:
    if input.dtype not in FLOATING:
        raise NotLowered
    return b.const(0, input.dtype, input.shape)


@lower("_like")
def _like(b: Builder, input: Val, number: Any, dtype: Any, memory_format: Any) -> Val:
    return _filled(b, input.shape, number, dtype)


@lower("_new")
def _new(b: Builder, input: Val, size: Any, number: Any, dtype: Any) -> Val:
    return _filled(b, tuple(size) if not isinstance(size, int) else (size,), number, dtype)


def _filled(b: Builder, shape: tuple[int, ...], number: Any, dtype: Any) -> Val:
    name = _name_of(dtype)
    if number is None or isinstance(number, complex) or name not in FLOATING:
        raise NotLowered
    return b.const(float(number), name, shape)


@lower("_fill", "_refill")
def _fill(b: Builder, input: Val, value: Any) -> Val:
    if input.dtype not in FLOATING or isinstance(value, complex):
        raise NotLowered
    return b.const(float(value), input.dtype, input.shape)


@lower("_fill_with", "_refill_with")
def _fill_with(b: Builder, input: Val, value: Val) -> Val:
    if input.dtype not in FLOATING or value.dtype not in FLOATING:
        raise NotLowered
    return b.expand(b.ew("cast", value, dtype=input.dtype), input.shape)


@lower("_copy")
def _copy(b: Builder, input: Val, src: Val) -> Val:
    if input.dtype not in FLOATING or src.dtype not in FLOATING:
        raise NotLowered
    if len(src.shape) > len(input.shape):
        raise NotLowered
    return b.expand(b.ew("cast", src, dtype=input.dtype), input.shape)


_ROOT_HALF, _DENSITY = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)


# In single, the share of normal numbers below -t is exp(-t^2 / 2) q p(q) for q = 1 / (1 + 0.27 t):
# a fit of ours, right to 2.4e-8 of the value up to t = 13, where exp ends.
_TAIL_SCALE = 0.27
_TAIL = (0.10771922767162323, 0.10756569355726242, 0.10165756195783615, 0.07261460274457932,
         0.10656701028347015, -0.06747385114431381, 0.16833245754241943, -0.12580960988998413,
         0.02882692590355873)  # fmt: skip


def _bell(b: Builder, x: Val) -> Val:
    """exp(-x^2 / 2)."""
    return b.ew("exp", b.ew("mul", b.ew("mul", x, x), constant(b, -0.5, x)))


def _normal_part(b: Builder, x: Val) -> Val:
    """The share of normal numbers below x."""
    if x.dtype != "f4":
        e = b.ew("erf", b.ew("mul", x, constant(b, _ROOT_HALF, x)))
        return b.ew("mul", b.ew("add", e, constant(b, 1, x)), constant(b, 0.5, x))
    # Half as long as erf, which has to be right near 0; and slopes have the same exp.
    one = constant(b, 1, x)
    q = b.ew("recip", b.ew("add", b.ew("mul", b.ew("abs", x), constant(b, _TAIL_SCALE, x)), one))
    p = constant(b, _TAIL[-1], x)
    for coefficient in reversed(_TAIL[:-1]):
        p = b.ew("add", b.ew("mul", p, q), constant(b, coefficient, x))
    tail = b.ew("mul", _bell(b, x), b.ew("mul", p, q))
    above = b.ew("ge", x, constant(b, 0, x))
    return b.ew("where", above, b.ew("sub", one, tail), tail)


@lower("nn.functional.gelu")
def _gelu(b: Builder, input: Val, approximate: str = "none") -> Val:
    floating(input)
    if approximate != "none":
        return b.ew("mul", input, _gelu_tanh(b, input)[0])
    return b.ew("mul", input, _normal_part(b, input))


def _gelu_tanh(b: Builder, x: Val) -> tuple[Val, Val]:
    """(1 + tanh(u)) / 2 and its slope, for u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    root, cubic = math.sqrt(2 / math.pi), 0.044715
    square = b.ew("mul", x, x)
    inner = b.ew("add", b.ew("mul", square, constant(b, cubic, x)), constant(b, 1, x))
    t = b.ew("tanh", b.ew("mul", b.ew("mul", x, inner), constant(b, root, x)))
    share = b.ew("mul", b.ew("add", t, constant(b, 1, x)), constant(b, 0.5, x))
    steep = b.ew("add", b.ew("mul", square, constant(b, 3 * cubic * root, x)),
                 constant(b, root, x))  # fmt: skip
    left = b.ew("sub", constant(b, 1, x), b.ew("mul", t, t))
    return share, b.ew("mul", b.ew("mul", left, steep), constant(b, 0.5, x))


@lower("_gelu_adjoint")
def _gelu_adjoint(b: Builder, gradient: Val, input: Val, approximate: str = "none") -> Val:
    floating(gradient, input)
    if approximate != "none":
        share, slope = _gelu_tanh(b, input)
    else:
        share = _normal_part(b, input)
        slope = b.ew("mul", _bell(b, input), constant(b, _DENSITY, input))
    return b.ew("mul", gradient, b.ew("add", share, b.ew("mul", input, slope)))


@lower("silu_kernel")
def _silu(b: Builder, input: Val) -> Val:
    floating(input)
    return b.ew("mul", input, b.ew("sigmoid", input))
