"""Views by what they mean, and the adjoints of slices."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.symbols import NotSymbolic, Symbolic
from pullback.compiled.ir.values import BYTES, Val, contiguous
from pullback.compiled.lower.rules import FLOATING, NotLowered, lower
from pullback.operators.indexing import selection
from pullback.operators.nn.image import pad
from pullback.operators.shape import joining, tiling, views


@lower(views._view, views._reshape_alias, views._unsafe_view)
def _view(b: Builder, input: Val, size: Any) -> Val:
    size = list(size)
    if -1 in size:
        known = -math.prod(size)
        size[size.index(-1)] = input.size // known if known else 0
    return b.reshape(input, size)


@lower(views.expand_view)
def _expand(b: Builder, input: Val, size: Any) -> Val:
    size = list(size)
    lead = len(size) - len(input.shape)
    for i, n in enumerate(size):
        if n == -1:
            size[i] = input.shape[i - lead]
    return b.expand(input, size)


@lower(views.transpose)
def _transpose(b: Builder, input: Val, dim0: int, dim1: int) -> Val:
    order = list(range(len(input.shape)))
    if not order:
        return input
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return b.permute(input, order)


@lower(views.t)
def _t(b: Builder, input: Val) -> Val:
    return b.permute(input, range(len(input.shape))[::-1])


@lower(views._permute)
def _permute(b: Builder, input: Val, dims: Any) -> Val:
    return b.permute(input, [d % len(input.shape) for d in dims])


@lower(views.unsqueeze)
def _unsqueeze(b: Builder, input: Val, dim: int) -> Val:
    dim %= len(input.shape) + 1
    return b.reshape(input, (*input.shape[:dim], 1, *input.shape[dim:]))


@lower(views._squeeze, views._squeeze_dims)
def _squeeze(b: Builder, input: Val, dim: Any) -> Val:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    ndim = len(input.shape)
    return b.squeeze(input, [d % ndim for d in dims if ndim and input.shape[d % ndim] == 1])


@lower(views._squeeze_all)
def _squeeze_all(b: Builder, input: Val) -> Val:
    return b.squeeze(input, [d for d, n in enumerate(input.shape) if n == 1])


@lower(joining._split, joining._unsafe_split)
def _split(b: Builder, input: Val, split_size: int, dim: int) -> list[Val]:
    n = input.shape[dim]
    starts = range(0, n, split_size)
    return [b.slice(input, dim, s, min(split_size, n - s)) for s in starts]


@lower(joining._split_with_sizes)
def _split_with_sizes(b: Builder, input: Val, sizes: Any, dim: int) -> list[Val]:
    made, at = [], 0
    for n in sizes:
        made.append(b.slice(input, dim, at, n))
        at += n
    return made


@lower(joining.unbind)
def _unbind(b: Builder, input: Val, dim: int) -> list[Val]:
    return [_select(b, input, dim, index) for index in range(input.shape[dim])]


@lower(views.select)
def _select(b: Builder, input: Val, dim: int, index: int) -> Val:
    dim %= len(input.shape)
    one = b.slice(input, dim, index % input.shape[dim], 1)
    return b.squeeze(one, (dim,))


def _places(start: Any, stop: Any, step: Any, n: Any) -> tuple[Any, Any]:
    """The first place of a slice of `n`, and how many there are; of numbers that vary, too."""
    if not any(isinstance(one, Symbolic) for one in (start, stop, n)):
        places = range(*slice(start, stop, step).indices(n))
        return places.start, len(places)
    step = 1 if step is None else step
    if step < 1:
        raise NotSymbolic("a slice backwards")
    first: Any
    end: Any
    first, end = (
        default if one is None else max(one + n, 0) if one < 0 else min(one, n)
        for one, default in ((start, 0), (stop, n))
    )
    return first, max((end - first + step - 1) // step, 0)


@lower(views.slice_along)
def _slice(b: Builder, input: Val, dim: int, start: Any, stop: Any, step: int) -> Val:
    first, count = _places(start, stop, step, input.shape[dim])
    return b.slice(input, dim, first, count, 1 if step is None else step)


@lower(views._slice_adjoint)
def _slice_adjoint(
    b: Builder, g: Val, shape: Any, dim: int, start: Any, stop: Any, step: int
) -> Val:
    if g.dtype not in FLOATING:
        raise NotLowered
    shape = tuple(shape)
    steps = contiguous(shape)
    first, _ = _places(start, stop, step, shape[dim])
    strides = (*steps[:dim], steps[dim] * (1 if step is None else step), *steps[dim + 1 :])
    return b.pad(_in_memory(b, g), shape, first * steps[dim], strides)


@lower(views._select_adjoint)
def _select_adjoint(b: Builder, g: Val, shape: Any, dim: int, index: int) -> Val:
    if g.dtype not in FLOATING:
        raise NotLowered
    shape = tuple(shape)
    steps = contiguous(shape)
    dim %= len(shape)
    start = (index % shape[dim]) * steps[dim]
    return b.pad(_in_memory(b, g), shape, start, steps[:dim] + steps[dim + 1 :])


def _in_memory(b: Builder, x: Val) -> Val:
    """A value that movement can read: constants and places are written out."""
    return b.copy(x) if b.strip(x).op in ("const", "iota") else x


@lower(joining._cat)
def _cat(b: Builder, tensors: Any, dim: int) -> Val:
    tensors = [one for one in tensors if one.shape != (0,)]
    if any(one.dtype != tensors[0].dtype or one.dtype not in BYTES for one in tensors):
        raise NotLowered
    return b.cat([_in_memory(b, one) for one in tensors], dim % len(tensors[0].shape))


@lower(joining._stack)
def _stack(b: Builder, tensors: Any, dim: int) -> Val:
    dim %= len(tensors[0].shape) + 1
    shape = tensors[0].shape
    rows = [b.reshape(_in_memory(b, one), (*shape[:dim], 1, *shape[dim:])) for one in tensors]
    return _cat(b, rows, dim)


@lower(tiling.roll)
def _roll(b: Builder, input: Val, shifts: Any, dims: Any) -> Val:
    if input.dtype not in BYTES or not input.size:
        raise NotLowered
    shifts, dims = ((one,) if isinstance(one, int) else tuple(one or ()) for one in (shifts, dims))
    x = input if dims else b.reshape(input, (input.size,))
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        dim %= len(x.shape)
        n = x.shape[dim]
        cut = -shift % n
        if cut:
            parts = [b.slice(x, dim, cut, n - cut), b.slice(x, dim, 0, cut)]
            x = b.cat([_in_memory(b, part) for part in parts], dim)
    return b.reshape(x, input.shape)


@lower(tiling._repeat)
def _repeat(b: Builder, input: Val, sizes: Any) -> Val:
    lead = len(sizes) - len(input.shape)
    shape = (1,) * lead + input.shape
    pairs = list(zip(sizes, shape, strict=True))
    between = b.reshape(input, [part for n in shape for part in (1, n)])
    wide = b.expand(between, [part for pair in pairs for part in pair])
    return b.reshape(wide, [times * n for times, n in pairs])


def _triangle(word: str) -> Any:
    def rule(b: Builder, input: Val, diagonal: int) -> Val:
        if input.dtype not in FLOATING:
            raise NotLowered
        rows, columns = input.shape[-2:]
        column = b.iota(columns)
        row = b.reshape(b.copy(b.iota(rows)), (rows, 1))
        kept = b.ew(word, column, b.ew("add", row, b.const(diagonal, row.dtype)))
        return b.ew("where", kept, input, b.const(0, input.dtype))

    return rule


lower(selection.tril)(_triangle("le"))
lower(selection.triu)(_triangle("ge"))


@lower(pad._constant_pad)
def _constant_pad(b: Builder, input: Val, pads: Any, value: Any) -> Val:
    lead = len(input.shape) - len(pads)
    if input.dtype not in FLOATING or (value != 0 and any(max(pair) > 0 for pair in pads)):
        raise NotLowered
    x = input
    for dim, (before, after) in enumerate(pads, lead):  # negative numbers cut off
        x = b.slice(x, dim, max(-before, 0), x.shape[dim] + min(before, 0) + min(after, 0))
    more = [(max(before, 0), max(after, 0)) for before, after in pads]
    if not any(map(any, more)):
        return b.copy(x)
    sides = [(0, 0)] * lead + more
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, sides, strict=True))
    steps = contiguous(shape)
    start = sum(before * step for (before, _), step in zip(sides, steps, strict=True))
    return b.pad(_in_memory(b, x), shape, start, steps)
