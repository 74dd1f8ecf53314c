"""Operators by their formulas, where the eager kernel is written for speed or picks its way."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.libm import ask
from pullback.compiled.lower.rules import NotLowered, constant, dims_of, floating, lower

_WHOLE = ("i4", "i8")
_LARGEST = {"f4": float(numpy.finfo("f4").max), "f8": float(numpy.finfo("f8").max)}


@lower("divide_or_zero")
def _divide_or_zero(b: Builder, input: Val, other: Val) -> Val:
    floating(input, other)
    zero = constant(b, 0, other)
    return b.ew("where", b.ew("eq", other, zero), zero, b.ew("div", input, other))


@lower("sgn", "sign")
def _sign(b: Builder, input: Val) -> Val:
    floating(input)
    known = b.ew("eq", input, input)  # not NaN, whose sign is 0
    return b.ew("where", known, b.ew("sign", input), constant(b, 0, input))


@lower("isfinite")
def _isfinite(b: Builder, input: Val) -> Val:
    floating(input)
    return b.ew("lt", b.ew("abs", input), constant(b, math.inf, input))


@lower("isinf")
def _isinf(b: Builder, input: Val) -> Val:
    floating(input)
    return b.ew("eq", b.ew("abs", input), constant(b, math.inf, input))


@lower("nan_to_num")
def _nan_to_num(
    b: Builder, input: Val, nan: float | None, posinf: float | None, neginf: float | None
) -> Val:
    floating(input)
    largest = _LARGEST[input.dtype]
    changes = (
        (math.inf, largest if posinf is None else posinf),
        (-math.inf, -largest if neginf is None else neginf),
    )
    known = b.ew("eq", input, input)
    made = b.ew("where", known, input, constant(b, 0.0 if nan is None else nan, input))
    for old, new in changes:
        found = b.ew("eq", input, constant(b, old, input))
        made = b.ew("where", found, constant(b, new, input), made)
    return made


@lower("cosh")
def _cosh(b: Builder, input: Val) -> Val:
    floating(input)
    half = constant(b, 0.5, input)
    # Halved before it could overflow.
    grown = b.ew("exp", b.ew("mul", b.ew("abs", input), half))
    sides = b.ew("mul", b.ew("mul", grown, half), grown)
    return b.ew("add", sides, b.ew("div", constant(b, 0.25, input), sides))


@lower("sinh")
def _sinh(b: Builder, input: Val) -> Val:
    floating(input)
    # 88 and 709 are where exp ends; beyond half of that the smaller side is nothing.
    if input.dtype != "f8":
        return ask(b, "sinh", input)
    e = b.ew("expm1", b.ew("abs", input))
    one = constant(b, 1, input)
    rest = b.ew("div", e, b.ew("add", e, one))
    rest = b.ew("where", b.ew("lt", e, constant(b, math.inf, e)), rest, one)
    made = b.ew("mul", b.ew("add", e, rest), constant(b, 0.5, input))
    return b.ew("copysign", made, input)


@lower("tan")
def _tan(b: Builder, input: Val) -> Val:
    floating(input)
    return b.ew("div", b.ew("sin", input), b.ew("cos", input))


def _with_nan_ignored(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val) -> Val:
        floating(input, other)
        chosen = b.ew("where", b.ew("eq", other, other), b.ew(word, input, other), input)
        return b.ew("where", b.ew("eq", input, input), chosen, other)

    return rule


lower("fmax")(_with_nan_ignored("maximum"))
lower("fmin")(_with_nan_ignored("minimum"))


@lower("logaddexp")
def _logaddexp(b: Builder, input: Val, other: Val) -> Val:
    floating(input, other)
    top = b.ew("maximum", input, other)
    apart = b.ew("neg", b.ew("abs", b.ew("sub", input, other)))
    made = b.ew("add", top, b.ew("log1p", b.ew("exp", apart)))
    # Equal infinities have no difference.
    return b.ew("where", b.ew("eq", input, other),
                b.ew("add", input, constant(b, math.log(2), input)), made)  # fmt: skip


# Activations -------------------------------------------------------------------------------------


def _log_one_plus_exp(b: Builder, x: Val) -> Val:
    """log(1 + exp(x)) without overflow."""
    small = b.ew("exp", b.ew("neg", b.ew("abs", x)))
    return b.ew("add", b.ew("maximum", x, constant(b, 0, x)), b.ew("log1p", small))


@lower("nn.functional.logsigmoid")
def _logsigmoid(b: Builder, input: Val) -> Val:
    floating(input)
    return b.ew("neg", _log_one_plus_exp(b, b.ew("neg", input)))


@lower("nn.functional.softplus")
def _softplus(b: Builder, input: Val, beta: float = 1.0, threshold: float = 20.0) -> Val:
    floating(input)
    scaled = b.ew("mul", input, constant(b, beta, input))
    made = b.ew("div", _log_one_plus_exp(b, scaled), constant(b, beta, input))
    return b.ew("where", b.ew("gt", scaled, constant(b, threshold, input)), input, made)


@lower("_softplus_adjoint")
def _softplus_adjoint(b: Builder, gradient: Val, input: Val, beta: float, threshold: float) -> Val:
    floating(gradient, input)
    scaled = b.ew("mul", input, constant(b, beta, input))
    beyond = b.ew("gt", scaled, constant(b, threshold, input))
    slope = b.ew("where", beyond, constant(b, 1, input), b.ew("sigmoid", scaled))
    return b.ew("mul", slope, gradient)


def _elu(b: Builder, x: Val, left: float, scale: float, input_scale: float) -> Val:
    below = b.ew("expm1", b.ew("mul", x, constant(b, input_scale, x)))
    made = b.ew("mul", below, constant(b, left, x))
    right = b.ew("mul", x, constant(b, scale, x))
    return b.ew("where", b.ew("le", x, constant(b, 0, x)), made, right)


@lower("nn.functional.elu")
def _elu_of(b: Builder, input: Val, alpha: float, scale: float, input_scale: float) -> Val:
    floating(input)
    return _elu(b, input, alpha * scale, scale, input_scale)


@lower("nn.functional.celu")
def _celu(b: Builder, input: Val, alpha: float) -> Val:
    floating(input)
    if not alpha:
        raise NotLowered
    return _elu(b, input, alpha, 1.0, 1 / alpha)


@lower("_elu_slope")
def _elu_slope(b: Builder, input: Val, alpha: float, scale: float, input_scale: float) -> Val:
    floating(input)
    below = b.ew("exp", b.ew("mul", input, constant(b, input_scale, input)))
    made = b.ew("mul", below, constant(b, alpha * scale * input_scale, input))
    inside = b.ew("le", input, constant(b, 0, input))
    return b.ew("where", inside, made, constant(b, scale, input))


@lower("nn.functional.hardtanh")
def _hardtanh(b: Builder, input: Val, min_val: float, max_val: float) -> Val:
    floating(input)
    return _between(b, input, min_val, max_val)


@lower("clamp.Scalar")
def _clamp(b: Builder, input: Val, min: Any = None, max: Any = None) -> Val:
    floating(input)
    if any(isinstance(one, complex) or one != one for one in (min, max) if one is not None):
        raise NotLowered
    return _between(b, input, min, max)


def _between(b: Builder, x: Val, low: Any, high: Any) -> Val:
    if low is not None:
        x = b.ew("maximum", x, constant(b, low, x))
    return x if high is None else b.ew("minimum", x, constant(b, high, x))


@lower("nn.functional.hardsigmoid")
def _hardsigmoid(b: Builder, input: Val) -> Val:
    floating(input)
    risen = _between(b, b.ew("add", input, constant(b, 3, input)), 0, 6)
    return b.ew("div", risen, constant(b, 6, input))


@lower("nn.functional.hardswish")
def _hardswish(b: Builder, input: Val) -> Val:
    floating(input)
    risen = _between(b, b.ew("add", input, constant(b, 3, input)), 0, 6)
    return b.ew("div", b.ew("mul", input, risen), constant(b, 6, input))


@lower("nn.functional.glu")
def _glu(b: Builder, input: Val, dim: int = -1) -> Val:
    floating(input)
    dim %= len(input.shape)
    half = input.shape[dim] // 2
    kept, gate = b.slice(input, dim, 0, half), b.slice(input, dim, half, half)
    return b.ew("mul", kept, b.ew("sigmoid", gate))


# Losses, norms, products -------------------------------------------------------------------------


@lower("nn.functional.mse_loss")
def _mse_loss(b: Builder, input: Val, target: Val, reduction: str) -> Val:
    floating(input, target)
    c = b.ew("sub", input, target)
    square = b.ew("mul", c, c)
    if reduction == "none" or not square.shape:
        return square
    total = b.reduce("sum", square, tuple(range(len(square.shape))))
    if reduction == "mean":
        total = b.ew("div", total, constant(b, math.prod(square.shape), input))
    return total


@lower("_bce_logits")
def _bce_logits(b: Builder, input: Val, target: Val, pos_weight: Val | None) -> Val:
    floating(input, target, *(() if pos_weight is None else (pos_weight,)))
    one = constant(b, 1, input)
    losses = _log_one_plus_exp(b, b.ew("neg", input))
    if pos_weight is not None:
        more = b.ew("mul", b.ew("sub", pos_weight, one), target)
        losses = b.ew("mul", losses, b.ew("add", more, one))
    return b.ew("add", losses, b.ew("mul", b.ew("sub", one, target), input))


@lower("linalg.vector_norm")
def _vector_norm(b: Builder, input: Val, **options: Any) -> Val:
    floating(input)
    ord, dim = options.get("ord", 2), options.get("dim")
    if ord not in (1, 2) or options.get("dtype") is not None or not input.shape:
        raise NotLowered
    dims, keep = dims_of(dim, len(input.shape)), options.get("keepdim", False)
    if ord == 1:
        return b.reduce("sum", b.ew("abs", input), dims, keep=keep)
    return b.ew("sqrt", b.reduce("sum", b.ew("mul", input, input), dims, keep=keep))


@lower("outer")
def _outer(b: Builder, input: Val, vec2: Val) -> Val:
    floating(input, vec2)
    return b.ew("mul", b.reshape(input, (*input.shape, 1)), vec2)


def _on_bits(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val) -> Val:
        if input.dtype != other.dtype or input.dtype not in (*_WHOLE, "b1"):
            raise NotLowered
        return b.ew(word, input, other)

    return rule


def _of_truths(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val) -> Val:
        return b.ew(word, _truth(b, input), _truth(b, other))

    return rule


def _truth(b: Builder, x: Val) -> Val:
    return x if x.dtype == "b1" else b.ew("ne", x, constant(b, 0, x))


for _word in ("and", "or", "xor"):
    lower(f"bitwise_{_word}")(_on_bits(_word))
    lower(f"logical_{_word}")(_of_truths(_word))


@lower("logical_not")
def _not(b: Builder, input: Val) -> Val:
    return b.ew("not", _truth(b, input))
