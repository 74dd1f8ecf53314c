"""Elementwise operators whose kernels are more than their formula."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import BYTES, Val
from pullback.compiled.llvm.words import can_cast
from pullback.compiled.lower.libm import ask
from pullback.compiled.lower.rules import FLOATING, NotLowered, constant, floating, lower
from pullback.operators.create import sizes
from pullback.operators.indexing import selection
from pullback.operators.pointwise import arithmetic, powers
from pullback.operators.shape import reshaping
from pullback.operators.tensor import convert, filling


def _sum(word: str) -> Any:
    def rule(b: Builder, input: Val, other: Val, alpha: Any = 1) -> Val:
        floating(input, other)
        if alpha != 1:
            other = b.ew("mul", other, constant(b, alpha, other))
        return b.ew(word, input, other)

    return rule


lower(arithmetic.add)(_sum("add"))
lower(arithmetic.sub)(_sum("sub"))


@lower(powers._pow_base)
def _power_of_number(b: Builder, input: Val, base: Any) -> Val:
    if isinstance(base, complex):
        raise NotLowered
    # exp(x log a) loses a digit for each of x log a: in double there are some to spare, near 0.
    if input.dtype != "f8" or not 0.5 < base < 1:
        return ask(b, "pow", constant(b, base, input), input)
    return b.ew("exp", b.ew("mul", input, constant(b, math.log(base), input)))


@lower(selection._where)
def _where(b: Builder, condition: Val, input: Val, other: Val) -> Val:
    if condition.dtype != "b1" or input.dtype != other.dtype:
        raise NotLowered
    return b.ew("where", condition, input, other)


@lower(selection.masked_fill)
def _masked_fill(b: Builder, input: Val, mask: Val, value: Val) -> Val:
    if mask.dtype != "b1" or not _alike(input, value):
        raise NotLowered
    return b.ew("where", mask, b.ew("cast", value, dtype=input.dtype), input)


def _alike(input: Val, value: Val) -> bool:
    """Whether a value can be written to another without a check."""
    return input.dtype == value.dtype or (input.dtype in FLOATING and value.dtype in FLOATING)


@lower(reshaping.clone)
def _clone(b: Builder, input: Val, memory_format: Any = None) -> Val:
    return input


@lower(convert._to_copy, convert._to_fixed)
def _to(b: Builder, input: Val, dtype: Any, memory_format: Any = None) -> Val:
    wanted = input.dtype if dtype is None else _name_of(getattr(dtype, "numpy", dtype))
    if wanted not in BYTES or not can_cast(input.dtype, wanted):
        raise NotLowered
    return b.ew("cast", input, dtype=wanted)


def _name_of(dtype: Any) -> str:
    return "b1" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"


@lower(arithmetic.zeros_of, filling._zero)
def _zeros(b: Builder, input: Val) -> Val:
    if input.dtype not in FLOATING:
        raise NotLowered
    return b.const(0, input.dtype, input.shape)


@lower(sizes._like)
def _like(b: Builder, input: Val, number: Any, dtype: Any, memory_format: Any) -> Val:
    return _filled(b, input.shape, number, dtype)


@lower(sizes._new)
def _new(b: Builder, input: Val, size: Any, number: Any, dtype: Any) -> Val:
    return _filled(b, tuple(size) if not isinstance(size, int) else (size,), number, dtype)


def _filled(b: Builder, shape: tuple[int, ...], number: Any, dtype: Any) -> Val:
    name = _name_of(dtype)
    if number is None or isinstance(number, complex) or name not in BYTES:
        raise NotLowered
    if name in FLOATING:
        return b.const(float(number), name, shape)
    if not isinstance(number, bool | int) or not shape:
        raise NotLowered
    return b.const(number, name, shape)


@lower(filling._fill, filling._refill)
def _fill(b: Builder, input: Val, value: Any) -> Val:
    if input.dtype not in FLOATING or isinstance(value, complex):
        raise NotLowered
    return b.const(float(value), input.dtype, input.shape)


@lower(filling._fill_with, filling._refill_with)
def _fill_with(b: Builder, input: Val, value: Val) -> Val:
    if input.dtype not in FLOATING or value.dtype not in FLOATING:
        raise NotLowered
    return b.expand(b.ew("cast", value, dtype=input.dtype), input.shape)


@lower(filling._copy)
def _copy(b: Builder, input: Val, src: Val) -> Val:
    if input.dtype not in FLOATING or src.dtype not in FLOATING:
        raise NotLowered
    if len(src.shape) > len(input.shape):
        raise NotLowered
    return b.expand(b.ew("cast", src, dtype=input.dtype), input.shape)
