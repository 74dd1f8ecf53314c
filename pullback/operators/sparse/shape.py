"""Sparse tensors with dimensions in another order, parts of them, and several joined."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.explain import layout_errors as errors
from pullback.core.layout import sparse_coo
from pullback.core.tensor import wrap
from pullback.operators.indexing.rows import index_select as dense_index_select
from pullback.operators.options import as_dim, as_dims
from pullback.operators.reduce.sums import sum as dense_sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.joining import cat as dense_cat
from pullback.operators.shape.joining import narrow as dense_narrow
from pullback.operators.shape.views import select as dense_select
from pullback.operators.shape.views import transpose as dense_transpose
from pullback.operators.shape.views import unsqueeze as dense_unsqueeze
from pullback.operators.sparse import convert
from pullback.operators.sparse.array import pattern_of, swapped
from pullback.operators.sparse.pattern import Pattern, compressed, coordinates
from pullback.operators.sparse.primitives import _rows_at, _swapped, from_values, rows_of, values_of

__all__: list[str] = []


def _coo(x: Any, op: str) -> Pattern:
    if x._layout is not sparse_coo:
        raise errors.not_taken(op, x._layout)
    return pattern_of(x)


# Order of dimensions ------------------------------------------------------------------------------


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions swapped; compressed rows become compressed columns."""
    a, b = (as_dim(dim, input.ndim, "transpose") for dim in (dim0, dim1))
    if a == b:
        return input
    pattern = pattern_of(input)
    if not pattern.block:
        return _swapped(input, pattern, a, b)
    first = len(pattern.batch_shape) + 1
    values = dense_transpose(values_of(input), first, first + 1)
    return shown_as("TransposeBackward0", from_values(values, swapped(pattern, a, b)))


def t(input: Any) -> Any:
    """A matrix with rows as columns."""
    if input.ndim > 2:
        raise RuntimeError(f"t: needs at most 2 dimensions, got shape {tuple(input.shape)}.")
    if input.ndim < 2:
        return input
    return shown_as("TBackward0", transpose(input, 0, 1))


def permute(input: Any, dims: Any) -> Any:
    """The dimensions in another order; dense ones stay behind sparse ones."""
    order = tuple(as_dim(dim, input.ndim, "permute") for dim in dims)
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(f"permute: {dims} does not name each of {input.ndim} dimensions once.")
    if order == tuple(range(input.ndim)):
        return input
    if input._layout is not sparse_coo:
        if input.ndim == 2:
            return transpose(input, 0, 1)
        raise errors.not_taken("permute", input._layout)
    pattern = pattern_of(input)
    count = len(pattern.sparse_shape)
    if any(d >= count for d in order[:count]):
        raise RuntimeError("permute: sparse and dense dimensions cannot change places.")
    shape = tuple(pattern.shape[d] for d in order)
    made = coordinates(pattern.stored[list(order[:count])], shape, pattern.dense_dim)
    values = values_of(input)
    if pattern.dense_dim:
        values = values.permute(0, *(d - count + 1 for d in order[count:]))
    return shown_as("PermuteBackward0", from_values(values, made))


def unsqueeze(input: Any, dim: int) -> Any:
    """One more dimension, of size 1."""
    pattern = _coo(input, "unsqueeze")
    at = as_dim(dim, input.ndim + 1, "unsqueeze")
    count = len(pattern.sparse_shape)
    shape = (*pattern.shape[:at], 1, *pattern.shape[at:])
    values = values_of(input)
    if at <= count:
        zeros = numpy.zeros((1, pattern.nnz), numpy.int64)
        indices = numpy.concatenate([pattern.stored[:at], zeros, pattern.stored[at:]])
        made = coordinates(indices, shape, pattern.dense_dim)
    else:
        values = dense_unsqueeze(values, at - count + 1)
        made = coordinates(pattern.stored, shape, pattern.dense_dim + 1)
    made.coalesced = pattern.coalesced
    return shown_as("UnsqueezeBackward0", from_values(values, made))


# Parts -------------------------------------------------------------------------------------------


def _kept_rows(input: Any, pattern: Pattern, keep: Any, changed: Any, shape: Any) -> Any:
    """The rows of values that a mask keeps, at changed coordinates."""
    numbers = numpy.flatnonzero(keep)
    made = coordinates(changed[:, numbers], tuple(shape), pattern.dense_dim)
    made.coalesced = pattern.coalesced
    return from_values(_rows_at(rows_of(input), numbers), made)


def select(input: Any, dim: int, index: Any) -> Any:
    """What stands at one index of a dimension; dense where no sparse dimension is left."""
    at = as_dim(dim, input.ndim, "select")
    size = input.shape[at]
    index = int(index)
    if not -size <= index < size:
        raise IndexError(f"select: index {index} does not exist in dimension {at} of size {size}.")
    if input._layout is not sparse_coo and pattern_of(input).batch_shape:
        return _matrix_of_batch(input, at, index % size)
    x = input if input._layout is sparse_coo else convert.to_sparse(input)
    pattern = pattern_of(x)
    count = len(pattern.sparse_shape)
    shape = (*pattern.shape[:at], *pattern.shape[at + 1 :])
    if at >= count:
        values = dense_select(rows_of(x), at - count + 1, index)
        made = coordinates(pattern.stored, shape, pattern.dense_dim - 1)
        made.coalesced = pattern.coalesced
        return from_values(values, made)
    keep = pattern.indices[at] == index % size
    if count == 1:
        rows = _rows_at(rows_of(x), numpy.flatnonzero(keep))
        row = dense_sum(rows, (0,), dtype=rows.dtype)
        return shown_as("SelectBackward0", row)
    left = numpy.delete(pattern.indices, at, 0)
    return shown_as("SelectBackward0", _kept_rows(x, pattern, keep, left, shape))


def _matrix_of_batch(input: Any, at: int, index: int) -> Any:
    """One of a batch of compressed matrices, or one index of its dense dimensions."""
    pattern = pattern_of(input)
    batch = len(pattern.batch_shape)
    if batch <= at < batch + 2:
        raise RuntimeError(
            f"select: dimension {at} of a batch of matrices of layout {input.layout} is "
            "compressed; select one of the matrices first."
        )
    shape = (*pattern.shape[:at], *pattern.shape[at + 1 :])
    starts, plain = pattern.index_arrays
    along = at - 1 + len(pattern.block)
    if at < batch:
        starts, plain, along = starts.take(index, at), plain.take(index, at), at
    made = compressed(pattern.layout, starts, plain, shape, pattern.block)
    values = dense_select(values_of(input), along, index)
    return shown_as("SelectBackward0", from_values(values, made))


def index_select(input: Any, dim: int, index: Any) -> Any:
    """The elements at several indices of a dimension, in their order."""
    pattern = _coo(input, "index_select")
    at = as_dim(dim, input.ndim, "index_select")
    wanted = index._array.reshape(-1)
    size = pattern.shape[at]
    if wanted.size and (wanted.min() < -size or wanted.max() >= size):
        raise IndexError(f"index_select: an index is outside of dimension {at} of size {size}.")
    wanted = wanted % size if size else wanted
    shape = (*pattern.shape[:at], len(wanted), *pattern.shape[at + 1 :])
    count = len(pattern.sparse_shape)
    if at >= count:
        values = dense_index_select(rows_of(input), at - count + 1, index)
        made = coordinates(pattern.stored, shape, pattern.dense_dim)
        made.coalesced = pattern.coalesced
        return from_values(values, made)
    order = numpy.argsort(pattern.indices[at], kind="stable")
    own = pattern.indices[at][order]
    first, last = (numpy.searchsorted(own, wanted, side) for side in ("left", "right"))
    lengths = last - first
    begun = numpy.cumsum(lengths) - lengths
    taken = order[numpy.arange(lengths.sum()) - begun.repeat(lengths) + first.repeat(lengths)]
    indices = pattern.indices[:, taken].copy()
    indices[at] = numpy.arange(len(wanted)).repeat(lengths)
    made = coordinates(indices, shape, pattern.dense_dim)
    return shown_as("IndexSelectBackward0", from_values(_rows_at(rows_of(input), taken), made))


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements of a dimension, from `start` on; a copy, as is all that is sparse."""
    pattern = _coo(input, "narrow")
    at = as_dim(dim, input.ndim, "narrow")
    size = pattern.shape[at]
    start = int(start)
    first = start + size if start < 0 else start
    if length < 0 or first < 0 or first + length > size:
        raise RuntimeError(
            f"narrow: {length} elements from {start} on do not fit dimension {at} of size {size}."
        )
    count = len(pattern.sparse_shape)
    shape = (*pattern.shape[:at], length, *pattern.shape[at + 1 :])
    if at >= count:
        values = dense_narrow(rows_of(input), at - count + 1, first, length)
        made = coordinates(pattern.stored, shape, pattern.dense_dim)
        made.coalesced = pattern.coalesced
        return from_values(values, made)
    row = pattern.indices[at]
    changed = pattern.indices.copy()
    changed[at] -= first
    keep = (row >= first) & (row < first + length)
    return _kept_rows(input, pattern, keep, changed, shape)


def slice_along(input: Any, dim: int, start: Any, stop: Any, step: int = 1) -> Any:
    """`x[start:stop:step]` along a dimension."""
    size = input.shape[as_dim(dim, input.ndim, "slice")]
    first, last, step = slice(start, stop, step).indices(size)
    if step == 1:
        return narrow(input, dim, first, max(0, last - first))
    return index_select(input, dim, wrap(numpy.arange(first, last, step)))


def unbind(input: Any, dim: int = 0) -> Any:
    """What stands at each index of a dimension."""
    return tuple(select(input, dim, i) for i in range(input.shape[dim]))


# Joining -----------------------------------------------------------------------------------------


def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors of coordinates one after the other along a dimension."""
    if any(x._layout is None for x in tensors):
        raise errors.not_taken("cat", sparse_coo, " together with dense ones")
    patterns = [_coo(x, "cat") for x in tensors]
    first = patterns[0]
    at = as_dim(dim, len(first.shape), "cat")
    for one in patterns:
        same = one.shape[:at] == first.shape[:at] and one.shape[at + 1 :] == first.shape[at + 1 :]
        if not same or one.dense_dim != first.dense_dim:
            raise RuntimeError(
                f"cat: sparse tensors of shapes {[p.shape for p in patterns]} do not go together "
                f"along dimension {at}."
            )
    count = len(first.sparse_shape)
    total = sum(one.shape[at] for one in patterns)
    shape = (*first.shape[:at], total, *first.shape[at + 1 :])
    if at >= count:
        return _cat_dense([rows_of(x) for x in tensors], patterns, at - count + 1, shape)
    indices, offset = [], 0
    for one in patterns:
        moved = one.indices.copy()
        moved[at] += offset
        offset += one.shape[at]
        indices.append(moved)
    made = coordinates(numpy.concatenate(indices, 1), shape, first.dense_dim)
    made.coalesced = at == 0 and all(one.coalesced for one in patterns)
    return shown_as("CatBackward0", from_values(dense_cat([rows_of(x) for x in tensors]), made))


def _cat_dense(rows: list[Any], patterns: list[Any], at: int, shape: Any) -> Any:
    """Along a dense dimension: each tensor's rows, with zeros where the others are."""
    wide, offset = [], 0
    total = shape[len(patterns[0].sparse_shape) + at - 1]
    for one in rows:
        parts = []
        for width in (offset, None, total - offset - one.shape[at]):
            if width is None:
                parts.append(one)
            elif width:
                size = [*one.shape[:at], width, *one.shape[at + 1 :]]
                parts.append(wrap(numpy.zeros(size, one._array.dtype)))
        wide.append(dense_cat(parts, at))
        offset += one.shape[at]
    indices = numpy.concatenate([p.indices for p in patterns], 1)
    return from_values(dense_cat(wide), coordinates(indices, shape, patterns[0].dense_dim))


def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of coordinates along a new dimension."""
    return shown_as("StackBackward0", cat([unsqueeze(x, dim) for x in tensors], dim))


def squeeze(input: Any, dim: Any = None) -> Any:
    """Dimensions of size 1 left away."""
    pattern = _coo(input, "squeeze")
    dims: Any = range(input.ndim) if dim is None else as_dims(dim, input.ndim, "squeeze")
    gone = [d for d in dims if pattern.shape[d] == 1]
    for d in reversed(gone):
        input = select(input, d, 0)
    return input
