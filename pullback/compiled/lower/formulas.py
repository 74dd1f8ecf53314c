"""Operators by their formulas, where the eager kernel is written for speed or picks its way."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.rules import NotLowered, constant, dims_of, floating, lower
from pullback.operators.linalg import products
from pullback.operators.nn.activation import functions
from pullback.operators.nn.loss import elementwise
from pullback.operators.pointwise import comparison, direction, extrema
from pullback.operators.reduce import norms


@lower(norms.divide_or_zero)
def _divide_or_zero(b: Builder, input: Val, other: Val) -> Val:
    floating(input, other)
    zero = constant(b, 0, other)
    return b.ew("where", b.ew("eq", other, zero), zero, b.ew("div", input, other))


@lower(direction.sgn, direction.sign)
def _sign(b: Builder, input: Val) -> Val:
    floating(input)
    known = b.ew("eq", input, input)  # not NaN, whose sign is 0
    return b.ew("where", known, b.ew("sign", input), constant(b, 0, input))


def _with_nan_ignored(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val) -> Val:
        floating(input, other)
        chosen = b.ew("where", b.ew("eq", other, other), b.ew(word, input, other), input)
        return b.ew("where", b.ew("eq", input, input), chosen, other)

    return rule


lower(extrema.fmax)(_with_nan_ignored("maximum"))
lower(extrema.fmin)(_with_nan_ignored("minimum"))


@lower(functions.glu)
def _glu(b: Builder, input: Val, dim: int = -1) -> Val:
    floating(input)
    dim %= len(input.shape)
    half = input.shape[dim] // 2
    kept, gate = b.slice(input, dim, 0, half), b.slice(input, dim, half, half)
    return b.ew("mul", kept, b.ew("sigmoid", gate))


# Losses, norms, products -------------------------------------------------------------------------


@lower(elementwise._mse_loss)
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


@lower(norms.vector_norm)
def _vector_norm(b: Builder, input: Val, **options: Any) -> Val:
    floating(input)
    ord, dim = options.get("ord", 2), options.get("dim")
    if ord not in (1, 2) or options.get("dtype") is not None or not input.shape:
        raise NotLowered
    dims, keep = dims_of(dim, len(input.shape)), options.get("keepdim", False)
    if ord == 1:
        return b.reduce("sum", b.ew("abs", input), dims, keep=keep)
    return b.ew("sqrt", b.reduce("sum", b.ew("mul", input, input), dims, keep=keep))


@lower(products.outer)
def _outer(b: Builder, input: Val, vec2: Val) -> Val:
    floating(input, vec2)
    return b.ew("mul", b.reshape(input, (*input.shape, 1)), vec2)


def _of_truths(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val) -> Val:
        return b.ew(word, _truth(b, input), _truth(b, other))

    return rule


def _truth(b: Builder, x: Val) -> Val:
    return x if x.dtype == "b1" else b.ew("ne", x, constant(b, 0, x))


lower(comparison.logical_and)(_of_truths("and"))
lower(comparison.logical_or)(_of_truths("or"))
lower(comparison.logical_xor)(_of_truths("xor"))


@lower(comparison.logical_not)
def _not(b: Builder, input: Val) -> Val:
    return b.ew("not", _truth(b, input))
