"""Reading and writing where indices say; of back ends that can stop at an index that names nothing.

Indices are looked at where they are used (`ir/indexed.py`), so these calls need no kernel of their
own, and what follows is in the same loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.compiled.ir import indexed
from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import BYTES, Val, contiguous
from pullback.compiled.lower.rules import STOPPING, NotLowered, R, key_of, lower
from pullback.operators.indexing import advanced, gather, rows, scatter
from pullback.operators.nn.embedding import rows as tables

_INDICES = ("i4", "i8")


def _lower(*operators: Any) -> Callable[[R], R]:
    STOPPING.update(key_of(one.op) for one in operators)
    return lower(*operators, stored=True)


def _known(x: Val, *indices: Val) -> None:
    if x.dtype not in BYTES or not x.shape or any(one.dtype not in _INDICES for one in indices):
        raise NotLowered


def _whole_numbers(x: Val) -> None:
    """Sums of truth values are none of integers."""
    if x.dtype == "b1":
        raise NotLowered


# Where elements are that indices name: shape, strides, and indices that broadcast to it.


def _beside(b: Builder, shape: Any, strides: Any, dims: Any, indices: Any) -> Any:
    """Dimensions that follow one another become those of the indices."""
    first, last = dims[0], dims[-1]
    if tuple(dims) != tuple(range(first, last + 1)):
        raise NotLowered
    rank = max(len(one.shape) for one in indices)
    behind = len(shape) - last - 1
    wide = _broadcast([one.shape for one in indices], rank)
    placed = [
        b.reshape(one, (*(1,) * (rank - len(one.shape)), *one.shape, *(1,) * behind))
        for one in indices
    ]
    whole = (*shape[:first], *wide, *shape[last + 1 :])
    return whole, indexed.along(strides, dims, rank), placed


def _broadcast(shapes: Any, rank: int) -> tuple[int, ...]:
    made = [1] * rank
    for shape in shapes:
        for place, n in enumerate(shape, rank - len(shape)):
            if made[place] == 1:
                made[place] = n
            elif n != 1 and n != made[place]:
                raise NotLowered
    return tuple(made)


def _at(b: Builder, x: Val, dims: Any, indices: Any, *, wraps: bool) -> Val:
    shape, strides, placed = _beside(b, x.shape, x.strides, dims, indices)
    axes = indexed.axes(x.shape, x.strides, dims, wraps=wraps)
    return indexed.take(b, x, shape, strides, placed, axes)


def _memory(b: Builder, x: Val) -> Val:
    return b.copy(x) if b.strip(x).op in ("const", "iota") else x


@_lower(tables.embedding_rows)
def _embedding(
    b: Builder, weight: Val, indices: Val, padding_idx: int, scale_grad_by_freq: Any, sparse: Any
) -> Val:
    _known(weight, indices)
    if len(weight.shape) != 2:
        raise NotLowered
    return _at(b, _memory(b, weight), (0,), (indices,), wraps=False)


@_lower(rows.index_select)
def _index_select(b: Builder, input: Val, dim: int, index: Val) -> Val:
    _known(input, index)
    if len(index.shape) != 1:
        raise NotLowered
    return _at(b, _memory(b, input), (dim % len(input.shape),), (index,), wraps=False)


@_lower(advanced._index)
def _index(b: Builder, input: Val, dims: Any, first: Val, second: Val | None) -> Val:
    return _index_many(b, input, dims, (first,) if second is None else (first, second))


@_lower(advanced._index_many)
def _index_many(b: Builder, input: Val, dims: Any, indices: Any) -> Val:
    _known(input, *indices)
    return _at(b, _memory(b, input), dims, indices, wraps=True)


@_lower(gather.gather)
def _gather(b: Builder, input: Val, dim: int, index: Val, sparse_grad: Any) -> Val:
    _known(input, index)
    input = _memory(b, input)
    dim, strides = _lined_up(input.shape, input.strides, dim, index)
    axes = indexed.axes(input.shape, input.strides, (dim,), wraps=False)
    return indexed.take(b, input, index.shape, strides, [index], axes)


def _lined_up(shape: Any, strides: Any, dim: int, index: Val) -> tuple[int, Any]:
    """Of an index that has a place for each element: strides of the others."""
    if len(shape) != len(index.shape):
        raise NotLowered
    dim %= len(shape)
    others = zip(shape, index.shape, strict=True)
    if any(m > n for d, (n, m) in enumerate(others) if d != dim):
        raise NotLowered
    return dim, (*strides[:dim], 0, *strides[dim + 1 :])


# The way back, and writes -------------------------------------------------------------------------


def _added(b: Builder, whole: Any, shape: Any, g: Val, dims: Any, indices: Any, *,
           wraps: bool, adds: bool = True) -> Val:  # fmt: skip
    shape = tuple(shape)
    steps = contiguous(shape)
    found, strides, placed = _beside(b, shape, steps, dims, indices)
    if found != g.shape:
        raise NotLowered
    axes = indexed.axes(shape, steps, dims, wraps=wraps)
    return indexed.place(b, whole, shape, g, strides, placed, axes, adds=adds)


@_lower(tables._embedding_adjoint)
def _embedding_adjoint(
    b: Builder, gradient: Val, indices: Val, shape: Any, padding_idx: int, scale_grad_by_freq: Any
) -> Val:
    _known(gradient, indices)
    if scale_grad_by_freq or padding_idx >= 0:
        raise NotLowered
    return _added(b, None, shape, gradient, (0,), (indices,), wraps=False)


@_lower(rows._index_select_adjoint)
def _index_select_adjoint(b: Builder, input: Val, shape: Any, dim: int, index: Val) -> Val:
    _known(input, index)
    _whole_numbers(input)
    if len(index.shape) != 1:
        raise NotLowered
    return _added(b, None, shape, input, (dim % len(shape),), (index,), wraps=False)


@_lower(advanced._place)
def _place(b: Builder, input: Val, shape: Any, dims: Any, first: Val, second: Any) -> Val:
    return _place_many(b, input, shape, dims, (first,) if second is None else (first, second))


@_lower(advanced._place_many)
def _place_many(b: Builder, input: Val, shape: Any, dims: Any, indices: Any) -> Val:
    if any(one.dtype not in _INDICES for one in indices) or input.dtype not in BYTES:
        raise NotLowered
    _whole_numbers(input)
    return _added(b, None, shape, input, dims, indices, wraps=True)


@_lower(rows.index_add)
def _index_add(b: Builder, input: Val, dim: int, index: Val, source: Val, alpha: Any) -> Val:
    _known(input, index)
    _whole_numbers(input)
    if alpha != 1 or len(index.shape) != 1 or source.dtype != input.dtype:
        raise NotLowered
    return _added(b, input, input.shape, source, (dim % len(input.shape),), (index,), wraps=False)


@_lower(rows.index_copy)
def _index_copy(b: Builder, input: Val, dim: int, index: Val, source: Val) -> Val:
    _known(input, index)
    if len(index.shape) != 1 or source.dtype != input.dtype:
        raise NotLowered
    return _added(b, input, input.shape, source, (dim % len(input.shape),), (index,), wraps=False,
                  adds=False)  # fmt: skip


def _placed_along(
    b: Builder, whole: Any, shape: Any, dim: int, index: Val, src: Val, *, adds: bool
) -> Val:
    shape = tuple(shape)
    steps = contiguous(shape)
    if not shape or len(src.shape) != len(index.shape):
        raise NotLowered
    dim, strides = _lined_up(shape, steps, dim, index)
    for d, n in enumerate(index.shape):
        if n > src.shape[d]:
            raise NotLowered
        src = b.slice(src, d, 0, n)
    axes = indexed.axes(shape, steps, (dim,), wraps=False)
    return indexed.place(b, whole, shape, src, strides, [index], axes, adds=adds)


@_lower(gather._gather_adjoint)
def _gather_adjoint(b: Builder, input: Val, shape: Any, dim: int, index: Val) -> Val:
    _known(input, index)
    _whole_numbers(input)
    return _placed_along(b, None, shape, dim, index, input, adds=True)


@_lower(gather.scatter_add)
def _scatter_add(b: Builder, input: Val, dim: int, index: Val, src: Val) -> Val:
    _known(input, index)
    _whole_numbers(input)
    if src.dtype != input.dtype:
        raise NotLowered
    return _placed_along(b, input, input.shape, dim, index, src, adds=True)


@_lower(scatter._scatter)
def _scatter(b: Builder, input: Val, dim: int, index: Val, src: Val) -> Val:
    _known(input, index)
    if src.dtype != input.dtype:
        raise NotLowered
    return _placed_along(b, input, input.shape, dim, index, src, adds=False)
