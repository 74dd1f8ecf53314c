"""Sums that keep their digits, and are quick: of rows, of columns, over any dims of any array.

NumPy and BLAS add a column up one by one, a row in a few lanes. A chain of n equal float32 ends up
to n / 12 units in the last place off. So chains stay short, and what comes of them is added up in
double; double itself again in short chains. Most work is products with ones, which BLAS does in a
third of the time that `add.reduce` takes along rows, and in a tenth where columns are few.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from pullback.core.arrays import F32, F64, Array, Namespace
from pullback.operators.arrays.reductions import MANY, axis_of, kept_shape, reduced, without

__all__ = [
    "PIECE",
    "column_totals",
    "few_sums",
    "few_total",
    "flat_total",
    "ones",
    "sums",
    "total",
    "total_of_squares",
    "totals",
]

# How many elements of a column are added one by one: equal ones lose 5 units in the last place.
_CHAIN = 64
# Of so many columns at least, BLAS adds four rows at a time.
_LANES = 16
# And of a row, by a product with ones, where BLAS has four lanes: the same. A product of two rows
# has 32 lanes.
_ROW = 256
_PRODUCTS = 1024
_WIDE = 512  # elements of a row at least, for BLAS to add rows at its best: narrow ones are joined

_FEW = 4096  # elements that NumPy goes through in less time than we think
PIECE = 1024  # elements that a single product with ones adds up: 32 lanes

_ONES = {char: numpy.broadcast_to(numpy.ones(4096, char), (4096,)) for char in "fd"}
_ONES32, _ONES64 = _ONES["f"], _ONES["d"]  # looking a dtype up takes 0.05 us, a slice 0.1
SHORT = 64
SHORT32, SHORT64 = ([row[:n] for n in range(SHORT + 1)] for row in (_ONES32, _ONES64))
_COLUMNS32 = [row[:, None] for row in SHORT32]


def ones(xp: Namespace, size: int, dtype: Any) -> Array:
    """A vector of ones, not to be written to."""
    if size <= 4096 and xp is numpy and dtype.char in "fd":
        return _ONES[dtype.char][:size]
    return xp.ones(size, dtype)


# Of matrices --------------------------------------------------------------------------------------


def totals(xp: Namespace, a: Array, b: Array | None = None) -> Array:
    """The sums of the rows of a matrix `a`, or of `a * b`.

    BLAS takes a seventh of the time of `sum`: 11 us for 2048 rows of 64.
    """
    rows, size = a.shape
    if b is None and size <= _ROW:
        return a.dot(ones(xp, size, a.dtype))
    if b is not None and size <= _PRODUCTS:
        return xp.vecdot(a, b) if a.size < _LARGE else _products(xp, a, b)
    most = _ROW if b is None or rows * size <= _ALONE * _PRODUCTS else _PRODUCTS
    piece = _piece(size, most)
    if not piece or not a.flags.c_contiguous or not (b is None or b.flags.c_contiguous):
        return _uneven_totals(xp, a, b, most)
    pieces = a.reshape(-1, piece)
    if b is None:  # `dot` lets others run
        made = pieces.dot(ones(xp, piece, a.dtype))
    else:
        made = xp.vecdot(pieces, b.reshape(-1, piece))
    return _of_pieces(xp, made.reshape(rows, size // piece))


def _uneven_totals(xp: Namespace, a: Array, b: Array | None, piece: int) -> Array:
    """The same of rows that are not cut into equal pieces, and what is left of them."""
    rows, size = a.shape
    whole = size - size % piece
    shape = (rows, size // piece, piece)
    if b is None:
        made = a[:, :whole].reshape(shape) @ ones(xp, piece, a.dtype)
    else:
        made = xp.vecdot(a[:, :whole].reshape(shape), b[:, :whole].reshape(shape))
    result = _of_pieces(xp, made)
    if whole < size:
        result += totals(xp, a[:, whole:], None if b is None else b[:, whole:])
    return result


def _of_pieces(xp: Namespace, made: Array) -> Array:
    """The sums of rows that are sums themselves, in double unless they are short."""
    if made.dtype.char != "f" or made.shape[1] <= SHORT:
        return totals(xp, made)
    return totals(xp, made.astype(F64)).astype(F32)


@lru_cache(4096)
def _piece(size: int, most: int) -> int:
    """The longest equal pieces that a length is cut into, of `most` down to half; 0 of none."""
    for length in range(most, most // 2, -1):
        if size % length == 0:
            return length
    return 0


def flat_total(xp: Namespace, x: Array, y: Array | None = None) -> Array:
    """The sum of a vector, or of the products of two; a number."""
    size = x.size
    if size <= PIECE:
        return x.dot(ones(xp, size, x.dtype) if y is None else y)
    most = _ROW if y is None else PIECE
    piece = _piece(size, most)
    if not piece or not x.flags.c_contiguous or not (y is None or y.flags.c_contiguous):
        given = [x[None], None if y is None else y[None]]
        return totals(xp, *given)[0]
    pieces = x.reshape(-1, piece)
    if y is None:
        made = pieces.dot(ones(xp, piece, x.dtype))
    else:
        made = xp.vecdot(pieces, y.reshape(-1, piece))
    if made.size <= _ROW:
        return made.dot(ones(xp, made.size, x.dtype))
    if x.dtype.char != "f":
        return flat_total(xp, made)
    return F32.type(flat_total(xp, made.astype(F64)))


# NumPy lets other threads run while it multiplies only if there are more results than this.
_ALONE = 500
_SHORT_PIECE = 256
_LARGE = 1 << 16


def _products(xp: Namespace, a: Array, b: Array) -> Array:
    """`vecdot` of many elements, in halves, quarters... of rows where there are few rows.

    128 rows of 1024 take 16 us and not 14, but on two threads at once.
    """
    rows, size = a.shape
    parts = 1
    while rows * parts <= _ALONE and not size % (2 * parts) and size >= _SHORT_PIECE * parts:
        parts *= 2
    if parts == 1 or not (a.flags.c_contiguous and b.flags.c_contiguous):
        return xp.vecdot(a, b)
    shape = (rows * parts, size // parts)
    made = xp.vecdot(a.reshape(shape), b.reshape(shape))
    return made.reshape(rows, parts).dot(ones(xp, parts, a.dtype))


def column_totals(xp: Namespace, x: Array, weights: Array | None = None) -> Array:
    """The sums of the columns of a matrix; each row times its weight, if there are weights."""
    rows, columns = x.shape
    if rows <= _CHAIN or not columns:
        return (ones(xp, rows, x.dtype) if weights is None else weights).dot(x)
    if weights is None:
        parts = _cut(rows, _CHAIN)
        if parts and x.flags.c_contiguous:
            return _rows_in_two(x, rows // parts, parts)
        return _over_rows(xp, x.reshape(1, rows, columns))[0]
    if columns < _CHAIN:
        return column_totals(xp, x * weights[:, None])
    whole = rows - rows % _CHAIN
    blocks = x[:whole].reshape(-1, _CHAIN, columns)
    made = xp.matmul(weights[:whole].reshape(-1, 1, _CHAIN), blocks)
    result = _wide_columns(xp, made.reshape(1, -1, columns))[0]
    return result + weights[whole:].dot(x[whole:]) if whole < rows else result


def _over_rows(xp: Namespace, x: Array) -> Array:
    """Sums over the middle one of three dimensions; rows of the last one lie without gaps."""
    outer, rows, inner = x.shape
    if rows <= _CHAIN:
        return xp.matmul(ones(xp, rows, x.dtype), x)
    # Rows that follow each other are one wide row, so that BLAS has more to do at a time.
    fold = max(1, min(_WIDE // max(inner, 1), rows // _CHAIN))
    if x.strides[1] != inner * x.itemsize:
        fold = 1
    whole = rows - rows % (_CHAIN * fold)
    chains = whole // (_CHAIN * fold)
    blocks = x[:, :whole].reshape(outer, chains, _CHAIN, fold * inner)
    made = xp.matmul(ones(xp, _CHAIN, x.dtype), blocks).reshape(outer, chains * fold, inner)
    result = _wide_columns(xp, made)
    return result + _over_rows(xp, x[:, whole:]) if whole < rows else result


def _wide_columns(xp: Namespace, made: Array) -> Array:
    """Sums over the middle dimension of what are sums themselves."""
    if made.shape[1] == 1:
        return made[:, 0]
    if made.dtype.char != "f":
        return _over_rows(xp, made)
    return _over_rows(xp, made.astype(F64)).astype(F32)


# Over any dims ------------------------------------------------------------------------------------


def sums(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    """The sum over dims, of few elements or of many."""
    if input.size < MANY and input.dtype.char in "fd" and input.ndim:
        return few_sums(xp, input, dim, keepdim)
    return total(xp, input, dim, keepdim)


def total(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    """The sum in the dtype of `input`; half precision is added up in single."""
    dtype = input.dtype
    axis = axis_of(dim, input.ndim)
    if dtype.itemsize == 2 and dtype.kind in "fV":
        if input.size > MANY:
            return total(xp, input.astype(F32), axis, keepdim).astype(dtype)
        return reduced(xp.add, input, axis, xp.float32, keepdim).astype(dtype)
    if dtype.char not in "fdFD" or input.size <= _CHAIN or type(input) is not numpy.ndarray:
        return reduced(xp.add, input, axis, dtype, keepdim)
    if dtype.kind == "c":
        parts = total(xp, input.real, axis, keepdim), total(xp, input.imag, axis, keepdim)
        made = xp.empty(parts[0].shape, dtype)
        made.real, made.imag = parts
        return made
    if axis is None:
        axis = tuple(range(input.ndim))
    if input.flags.c_contiguous:
        plan = _plan(input.shape, axis)
        result = _reduced(xp, input.reshape(plan.merged), plan.away).reshape(plan.left)
    else:
        result = _in_any_order(xp, input, axis)
    if result.size == input.size:  # over dims of one element: it is the input's memory
        result = result.copy()
    return result.reshape(kept_shape(input.shape, axis)) if keepdim else result


class _Plan(NamedTuple):
    """How to sum an array in the order of its dims; neighbours that all go or stay are one."""

    merged: tuple[int, ...]
    away: tuple[bool, ...]  # which go
    left: tuple[int, ...]
    is_short: bool  # whether NumPy adds by pairs along rows, and few of their sums


@lru_cache(4096)
def _plan(shape: tuple[int, ...], axis: tuple[int, ...]) -> _Plan:
    merged: list[int] = []
    away: list[bool] = []
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if away and away[-1] is (d in axis):
            merged[-1] *= n
        else:
            merged.append(n)
            away.append(d in axis)
    chains = [n for n, goes in zip(merged[:-1], away[:-1], strict=True) if goes]
    short = bool(away) and away[-1] and math.prod(chains) <= _CHAIN
    return _Plan(tuple(merged), tuple(away), without(shape, axis), short)


def _in_any_order(xp: Namespace, x: Array, axis: tuple[int, ...]) -> Array:
    """The sum over some dims, which go, however the array lies in memory."""
    count = 1
    if 0 in x.strides:  # what was expanded is there once
        seen: list[Any] = [slice(None)] * x.ndim
        for d in axis:
            if not x.strides[d]:
                count *= x.shape[d]
                seen[d] = slice(0, 1)
        x = x[tuple(seen)]
    order = list(range(x.ndim))
    if not x.flags.c_contiguous:
        order.sort(key=lambda d: -abs(x.strides[d]))
        x = x.transpose(order)
    kept = [d for d in order if d not in axis]
    shape = [x.shape[number] for number, d in enumerate(order) if d not in axis]
    result = _reduced(xp, *_merged(x, tuple([d in axis for d in order]))).reshape(shape)
    if kept != sorted(kept):
        result = xp.ascontiguousarray(result.transpose([kept.index(d) for d in sorted(kept)]))
    return result if count == 1 else result * result.dtype.type(count)


def _reduced(xp: Namespace, x: Array, away: tuple[bool, ...]) -> Array:
    """Without the dims that go, which are in the order of memory, no two that could be one."""
    while True in away:
        if away[-1]:
            x, away = _along_last(xp, x), away[:-1]
        else:
            place = len(away) - 1 - away[::-1].index(True)
            x, away = _across(xp, x, place), (*away[:place], *away[place + 1 :])
        if len(away) > 1:
            x, away = _merged(x, away)
    return x


def _merged(x: Array, away: tuple[bool, ...]) -> tuple[Array, tuple[bool, ...]]:
    """Neighbours that both go or both stay, and follow each other in memory, as one dimension."""
    shape: list[int] = []
    steps: list[int] = []
    kinds: list[bool] = []
    for n, step, goes in zip(x.shape, x.strides, away, strict=True):
        if n == 1:
            continue
        if kinds and kinds[-1] == goes and steps[-1] == n * step:
            shape[-1] *= n
            steps[-1] = step
        else:
            shape.append(n)
            steps.append(step)
            kinds.append(goes)
    return (x, away) if len(shape) == x.ndim else (x.reshape(shape), tuple(kinds))


def _along_last(xp: Namespace, x: Array) -> Array:
    lead, size = x.shape[:-1], x.shape[-1]
    if x.flags.c_contiguous:
        if not lead:
            return flat_total(xp, x)
        return totals(xp, x.reshape(-1, size)).reshape(lead)
    return xp.add.reduce(x, -1)  # by pairs, as its elements are the nearest to each other


def _across(xp: Namespace, x: Array, place: int) -> Array:
    """The sum over a dimension whose elements lie further apart than those of the next ones."""
    rows = x.shape[place]
    if x.flags.c_contiguous and rows > 8:
        lead, rest = x.shape[:place], x.shape[place + 1 :]
        if not place and x.ndim == 2:
            return column_totals(xp, x)
        made = _over_rows(xp, x.reshape(math.prod(lead), rows, math.prod(rest)))
        return made.reshape(*lead, *rest)
    if rows <= _CHAIN:
        return xp.add.reduce(x, place)
    whole = rows - rows % _CHAIN
    before = (slice(None),) * place
    blocks = x[(*before, slice(whole))]
    shape = (*x.shape[:place], whole // _CHAIN, _CHAIN, *x.shape[place + 1 :])
    made = xp.add.reduce(blocks.reshape(shape), place + 1)
    result = _across(xp, xp.ascontiguousarray(made, F64), place).astype(x.dtype)
    return result + xp.add.reduce(x[(*before, slice(whole, None))], place)


# Of few elements ----------------------------------------------------------------------------------


def few_total(input: Array) -> Array:
    """The sum of up to 1024 numbers, float32 or float64, of at least one dimension, by BLAS."""
    size = input.size
    if input.dtype is F32:
        row = SHORT32[size] if size <= SHORT else _ONES32[:size]
    else:
        row = SHORT64[size] if size <= SHORT else _ONES64[:size]
    return input.dot(row) if input.ndim == 1 else input.ravel().dot(row)


def few_sums(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    """Sums of float32 or float64, less than MANY and not 0-d; the usual ones by BLAS.

    (10, 10) takes 0.7 us, where `add.reduce` takes 1.4; (100, 100) 1.1, where that takes 5.
    """
    if keepdim is True:
        return _few_kept_sums(xp, input, dim)
    dtype, ndim = input.dtype, input.ndim
    if keepdim is False and (dtype is F32 or dtype is F64):
        if dim is None or (dim == (0,) and ndim == 1):
            if input.size <= PIECE:
                return few_total(input)
        elif dim == (1,) and ndim == 2:
            if (size := input.shape[1]) <= _CHAIN:
                return input.dot(_ones(dtype, size))
            if input.flags.c_contiguous and (parts := _cut(size, _ROW)):
                return _in_two(input, size // parts, parts)
        elif dim == (0,) and ndim == 2:
            size, columns = input.shape
            if size <= _CHAIN or (size <= 2 * _CHAIN and columns >= _LANES):
                return _ones(dtype, size).dot(input)
            if input.flags.c_contiguous and (parts := _cut(size, _CHAIN)):
                return _rows_in_two(input, size // parts, parts)
    return _less_usual(xp, input, dim, keepdim)


def _few_kept_sums(xp: Namespace, input: Array, dim: Any) -> Array:
    """The same with the dimensions kept: products with a column or a row of ones."""
    dtype, ndim, shape = input.dtype, input.ndim, input.shape
    if dtype is F32 or dtype is F64:
        if ndim == 2 and dim == (1,):
            if (size := shape[1]) > _CHAIN:
                return few_sums(xp, input, dim, False)[:, None]
            return input.dot(_COLUMNS32[size] if dtype is F32 else _ONES64[:size, None])
        if ndim == 2 and dim == (0,):
            size, columns = shape
            if size <= _CHAIN or (size <= 2 * _CHAIN and columns >= _LANES):
                return _ONES[dtype.char][None, :size].dot(input)
            return few_sums(xp, input, dim, False)[None]
        if ndim == 1 and dim == (0,) and (size := shape[0]) <= PIECE:
            return input.dot(_ONES[dtype.char][:size, None])
        if ndim == 4 and dim == (2, 3) and (size := shape[2] * shape[3]) <= _ROW:  # of images
            return input.reshape(-1, size).dot(_ones(dtype, size)).reshape(*shape[:2], 1, 1)
    return _less_usual(xp, input, dim, True)


def _less_usual(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    axis = axis_of(dim, input.ndim)
    small = input.size <= _CHAIN
    if not small and input.size <= _FEW and axis is not None and input.flags.c_contiguous:
        small = _plan(input.shape, axis).is_short
    if not small:
        return total(xp, input, dim, keepdim)
    if input.flags.c_contiguous:  # so is what is left
        return xp.add.reduce(input, axis, None, None, keepdim)
    return reduced(xp.add, input, axis, None, keepdim)


def _ones(dtype: Any, length: int) -> Any:
    """As many ones, to be read only, float32 or float64."""
    if dtype is F32:
        return SHORT32[length] if length <= SHORT else _ONES32[:length]
    return SHORT64[length] if length <= SHORT else _ONES64[:length]


@lru_cache(1024)
def _cut(size: int, most: int) -> int:
    """Into how few equal parts of at most `most` elements a length is cut; 0 where many."""
    for parts in range(-(-size // most), _CHAIN + 1):
        if size % parts == 0:
            return parts
    return 0


def _in_two(rows: Array, length: int, parts: int) -> Array:
    """Sums of rows from sums of their parts of one length."""
    row = _ones(rows.dtype, length)
    if parts == 1:
        return rows.dot(row)
    made = rows.reshape(-1, length).dot(row).reshape(-1, parts)
    return made.dot(_ones(rows.dtype, parts))


def _rows_in_two(matrix: Array, length: int, parts: int) -> Array:
    """Sums of columns: so many joined rows are added, then what they were joined of."""
    dtype, columns = matrix.dtype, matrix.shape[1]
    made = _ones(dtype, length).dot(matrix.reshape(length, parts * columns))
    return _ones(dtype, parts).dot(made.reshape(parts, columns))


# Of squares ---------------------------------------------------------------------------------------


def total_of_squares(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    """The sum of squared moduli, real, in one pass where the layout allows it."""
    axis = axis_of(dim, input.ndim)
    if input.dtype.itemsize == 2:
        input = input.astype(xp.float32)
    if input.dtype.kind == "c":
        return total(xp, xp.square(input.real) + xp.square(input.imag), axis, keepdim)
    if input.flags.c_contiguous and input.dtype.char in "fd" and input.size:
        first = 0 if axis is None else min(axis)
        if axis is None or (len(axis) == input.ndim - first and max(axis) == input.ndim - 1):
            rows = input.reshape(math.prod(input.shape[:first]), -1)
            shape = kept_shape(input.shape, axis) if keepdim else input.shape[:first]
            return totals(xp, rows, rows).reshape(shape)
    return total(xp, xp.square(input), axis, keepdim)
