"""Largest and smallest elements with their places, and truth of all or any."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.rules import FLOATING, NotLowered, dims_of, lower
from pullback.operators.reduce import extremes, truth

_ORDERED = (*FLOATING, "i4", "i8")


def _found(b: Builder, x: Val, dim: int, *, smallest: bool) -> tuple[Val, Val]:
    """The extreme along a dimension and the first place of it; of NaN, the first NaN."""
    if x.dtype not in _ORDERED:
        raise NotLowered
    if smallest and x.dtype not in FLOATING:
        raise NotLowered  # the lowest integer has no negative
    turned = b.ew("neg", x) if smallest else x
    top = b.reduce("max", turned, (dim,), keep=True)
    here = b.ew("eq", turned, top)
    if x.dtype in FLOATING:
        here = b.ew("or", here, b.ew("ne", turned, turned))
    n = x.shape[dim]
    # Places counted back from the last, so that the first is the largest.
    place = b.iota(n)
    if dim != len(x.shape) - 1:
        place = b.reshape(b.copy(place), (n, *(1,) * (len(x.shape) - dim - 1)))
    left = b.ew("sub", b.const(n - 1, "i8"), place)
    first = b.reduce("max", b.ew("where", here, left, b.const(-1, "i8")), (dim,), keep=True)
    index = b.ew("sub", b.const(n - 1, "i8"), first)
    return (b.ew("neg", top) if smallest else top), index


def _places(*, smallest: bool) -> Any:
    def rule(b: Builder, input: Val, dim: Any, keepdim: bool) -> Val:
        if not input.shape or not isinstance(keepdim, bool):
            raise NotLowered
        if dim is None:
            if keepdim:
                raise NotLowered
            input, dim = b.reshape(input, (math.prod(input.shape),)), 0
        dim %= len(input.shape)
        _, index = _found(b, input, dim, smallest=smallest)
        return index if keepdim else b.squeeze(index, (dim,))

    return rule


lower(extremes.argmax, stored=True)(_places(smallest=False))
lower(extremes.argmin, stored=True)(_places(smallest=True))


def _both(*, smallest: bool) -> Any:
    def rule(b: Builder, input: Val, dim: int, keepdim: bool) -> tuple[Val, Val]:
        if not input.shape or not isinstance(keepdim, bool):
            raise NotLowered
        dim %= len(input.shape)
        value, index = _found(b, input, dim, smallest=smallest)
        if keepdim:
            return value, index
        return b.squeeze(value, (dim,)), b.squeeze(index, (dim,))

    return rule


lower(extremes._max_along, stored=True)(_both(smallest=False))
lower(extremes._min_along, stored=True)(_both(smallest=True))


@lower(extremes.amax, extremes._max_full, stored=True)
def _largest(b: Builder, input: Val, dim: Any = (), keepdim: bool = False) -> Val:
    if input.dtype not in _ORDERED:
        raise NotLowered
    if not input.shape:
        return input
    return b.reduce("max", input, dims_of(dim, len(input.shape)), keep=keepdim)


def _truth(*, of_all: bool) -> Any:
    def rule(b: Builder, input: Val, dim: Any, keepdim: bool) -> Val:
        if dim == () or not input.shape or input.dtype == "u1":
            raise NotLowered
        wanted = b.ew("cast", input, dtype="b1")
        if of_all:
            wanted = b.ew("not", wanted)
        numbers = b.ew("cast", wanted, dtype="i4")
        most = b.reduce("max", numbers, dims_of(dim, len(input.shape)), keep=keepdim)
        return b.ew("eq" if of_all else "ne", most, b.const(0, "i4"))

    return rule


lower(truth.any, stored=True)(_truth(of_all=False))
lower(truth.all, stored=True)(_truth(of_all=True))
