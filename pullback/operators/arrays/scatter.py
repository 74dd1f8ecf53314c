"""Adding into places that may repeat, on bare arrays: what all adjoints of indexing come down to.

`numpy.add.at` is fast in one dimension only: 1.4 ns an element, as fast as plain assignment; rows
of a matrix cost it 10 times that. So index arrays are merged into one, and many rows are added as a
product with a sparse matrix where SciPy is installed; else in rounds, or element by element. Into
few rows a product with a small dense one is fastest.
Measured slower: sorting with `add.reduceat`, and a loop over rows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, Array, Namespace, is_finite
from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import is_half
from pullback.operators.arrays.rows import EYES
from pullback.operators.arrays.strides import contiguous_strides

__all__ = [
    "FEW_ELEMENTS",
    "INT64",
    "add_at",
    "along",
    "check_bounds",
    "check_index_dtype",
    "few_places",
    "index_key",
    "read_along",
    "reduce_along",
    "write_along",
]

INT64 = numpy.dtype("i8")
_WHOLE = slice(None)
_FEW_VALUES = 256  # the same for several indices at once
_FEW = 16  # rows below which numpy.add.at wins: 2.2 us for 5 rows of 4, where the rest takes 6
FEW_ELEMENTS = 1024  # below which what is known of the shapes is worth keeping
_BLOCK = 1 << 15  # elements at a time, so that their places stay in cache: 2 ns each, else 3.3
_UNSIGNED = {4: numpy.dtype("u4"), 8: numpy.dtype("u8")}


# Checks ------------------------------------------------------------------------------------------


def check_index_dtype(op: str, index: Array, allowed: str = "il") -> None:
    """Refuse an index whose dtype is not int64 (or int32, where `allowed` names it)."""
    if index.dtype.char not in allowed and not (index.dtype.char == "q" and "l" in allowed):
        expected = "int32 or int64" if "i" in allowed else "int64"
        raise RuntimeError(
            f"{op}: the index must have dtype {expected}, got {from_numpy_dtype(index.dtype)}; "
            "convert it, e.g. with .long()."
        )


def check_bounds(op: str, index: Array, size: int, dim: int, kind: type = RuntimeError) -> None:
    """Refuse indices outside of 0 .. size - 1."""
    if not index.size:
        return
    # Read as unsigned, negative numbers are large: one pass finds both kinds of outsiders. The
    # place of the largest takes a third of the time that `maximum.reduce` takes for a small one.
    unsigned = index.view(_UNSIGNED[index.itemsize])
    if unsigned.item(unsigned.argmax()) >= size:
        worst = index[(index < 0) | (index >= size)].flat[0]
        raise kind(
            f"{op}: index {worst} is out of bounds for dimension {dim} with size {size}; indices "
            f"must be between 0 and {size - 1}."
        )


# Keys --------------------------------------------------------------------------------------------


def index_key(ndim: int, indices: Any, dims: Any) -> tuple[Any, ...]:
    """The key that puts each index array at its dimension, and takes the others whole."""
    key: list[Any] = [slice(None)] * ndim
    extra = 0
    for index, dim in zip(indices, dims, strict=True):
        spans = index.ndim if index.dtype.kind == "b" else 1
        key[dim - extra : dim - extra + spans] = [index]
        extra += spans - 1
    return tuple(key)


def along(xp: Namespace, dim: int, index: Array) -> tuple[Any, ...]:
    """The key of the elements that `gather` reads: `index` at `dim`, own positions elsewhere."""
    shape = index.shape
    own = _small_positions(xp, shape) if index.size < FEW_ELEMENTS else _positions(xp, shape)
    return (*own[:dim], index, *own[dim + 1 :])


def _positions(xp: Namespace, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """For each dimension its positions, shaped to broadcast with those of the others."""
    last = len(shape) - 1
    return tuple(
        xp.arange(size).reshape((size,) + (1,) * (last - d)) for d, size in enumerate(shape)
    )


_small_positions = lru_cache(256)(_positions)  # half of the time that a small gather takes


# Sums --------------------------------------------------------------------------------------------


def add_at(xp: Namespace, out: Array, indices: Any, dims: Any, values: Array) -> None:
    """`out[key] += values` in place, where places may repeat; `values` broadcasts."""
    dtype = out.dtype
    if dtype is not F32 and dtype is not F64 and is_half(dtype):  # summed in single, rounded once
        wide = out.astype(xp.float32)
        add_at(xp, wide, indices, dims, values.astype(xp.float32))
        out[...] = wide.astype(out.dtype)
        return
    if len(indices) == 1:
        index, dim = indices[0], dims[0]
        if index.dtype is not INT64 and index.dtype.kind == "b":
            out[index_key(out.ndim, indices, dims)] += values  # a mask names no place twice
            return
        if index.size < _FEW or xp is not numpy:  # by atomics; all else would ask for values
            xp.add.at(out, (_WHOLE,) * dim + (index,) if dim else index, values)
            return
    elif values.size < _FEW_VALUES:
        xp.add.at(out, index_key(out.ndim, indices, dims), values)
        return
    arrays, places = _without_masks(indices, dims)
    if xp is not numpy:
        xp.add.at(out, index_key(out.ndim, arrays, places), values)
        return
    merged = _merge(xp, out, arrays, places)
    if merged is None:
        xp.add.at(out, index_key(out.ndim, arrays, places), values)
        return
    target, index, dim, shape = merged
    wanted = out.shape[: places[0]] + shape + out.shape[places[0] + len(places) :]
    flat = (*target.shape[:dim], index.size, *target.shape[dim + 1 :])
    if values.shape != wanted:
        values = xp.broadcast_to(values, wanted)
    _add_slices(xp, target, dim, index, values.reshape(flat))


def _without_masks(indices: Any, dims: Any) -> tuple[list[Array], list[int]]:
    arrays: list[Array] = []
    places: list[int] = []
    for index, dim in zip(indices, dims, strict=True):
        parts = index.nonzero() if index.dtype.kind == "b" else (index,)
        arrays += parts
        places += range(dim, dim + len(parts))
    return arrays, places


def _merge(xp: Namespace, out: Array, arrays: list[Array], dims: list[int]) -> Any:
    """Indices of neighbouring dims as one index of one dim; None where memory does not allow it.

    Gives the merged view of `out`, the flat non-negative index, its dim, and the shape it had.
    """
    first, last = dims[0], dims[-1] + 1
    if dims != list(range(first, last)):
        return None
    sizes = out.shape[first:last]
    arrays = [_from_start(index, size) for index, size in zip(arrays, sizes, strict=True)]
    index = arrays[0]
    if len(arrays) == 1:
        return out, index.reshape(-1), first, index.shape
    target = out.reshape((*out.shape[:first], math.prod(sizes), *out.shape[last:]))
    if not xp.may_share_memory(target, out):
        return None
    for following, size in zip(arrays[1:], sizes[1:], strict=True):
        index = index * size + following
    return target, index.reshape(-1), first, index.shape


def _from_start(index: Array, size: int) -> Array:
    if index.dtype.itemsize != 8:
        index = index.astype("i8")
    if index.size and index.min() < 0:
        index = index + (index < 0) * size
    return index


def _add_slices(xp: Namespace, out: Array, dim: int, index: Array, values: Array) -> None:
    """`out[:, index] += values` along `dim`; `index` is flat and non-negative."""
    key = (_WHOLE,) * dim + (index,)
    if out.ndim == 1 or index.size < _FEW or not out.flags.c_contiguous:
        xp.add.at(out, key, values)
        return
    if dim == 0 and len(out) <= _FEW_ROWS and _add_by_rows_of_ones(xp, out, index, values):
        return
    if values.size >= _MANY and _add_by_product(xp, out, dim, index, values):
        return
    seen = xp.zeros(out.shape[dim], bool)
    seen[index] = True
    if xp.count_nonzero(seen) == index.size:
        out[key] += values
        return
    outer, inner = math.prod(out.shape[:dim]), math.prod(out.shape[dim + 1 :])
    if inner >= _WIDE and _add_in_rounds(out, dim, index, values):
        return
    rows = (xp.arange(outer)[:, None] * out.shape[dim] + index).reshape(-1)
    _add_rows(xp, out.reshape(-1), rows * inner, values.reshape(rows.size, inner))


# Into so few rows all are added by a product, of so many multiplications at most: 256 rows of 64
# into 65 take 30 us, in rounds 100.
_FEW_ROWS = 128
_MULTIPLICATIONS = 1 << 21


def _add_by_rows_of_ones(xp: Namespace, out: Array, index: Array, values: Array) -> bool:
    """As `_add_slices` along dimension 0: times a matrix with a one for each index, and zeros.

    False, with nothing added, for what is too much, or would make NaN of zeros.
    """
    size = len(out)
    if values.size * size > _MULTIPLICATIONS or out.dtype.char not in "fd" or xp is not numpy:
        return False
    rows = values.reshape(index.size, -1)
    if rows.dtype is not out.dtype or not is_finite(rows):
        return False
    chosen = EYES[size, out.dtype.char].take(index, 0)
    out += chosen.T.dot(rows).reshape(out.shape)
    return True


# So many elements are worth a matrix.
_MANY = 1 << 16
_TOGETHER = 32
_REAL = {"F": numpy.dtype("f4"), "D": numpy.dtype("f8")}  # what complex numbers consist of


def _add_by_product(xp: Namespace, out: Array, dim: int, index: Array, values: Array) -> bool:
    """As `_add_slices`, with SciPy: times the sparse matrix that has a one for each index.

    A million float32 in rows of 1000: 0.4 ms, in rounds 1 ms; in rows of 64: 0.5 and 3.7 ms. False,
    with nothing added, where there is no SciPy, or the dtype is none of its.
    """
    sparse = _sparse()
    char = out.dtype.char
    if sparse is None or xp is not numpy or char not in "fdFD":
        return False
    count, size, inner = index.size, out.shape[dim], math.prod(out.shape[dim + 1 :])
    ones = xp.ones(count, _REAL.get(char, out.dtype))  # (1 + 0j) * inf would be NaN
    matrix = sparse.csc_array((ones, index, xp.arange(count + 1)), shape=(size, count))
    whole, given = out.reshape(-1, size, inner), values.reshape(-1, count, inner)
    # Dimensions before that of the index change places with it, in blocks that stay in cache.
    step = max(_TOGETHER // inner, _BLOCK // (count * inner), 1)
    for start in range(0, len(whole), step):
        rows = xp.ascontiguousarray(given[start : start + step].swapaxes(0, 1))
        sums = (matrix @ rows.reshape(count, -1).view(ones.dtype)).view(out.dtype)
        part = whole[start : start + step].swapaxes(0, 1)
        part += sums.reshape(part.shape)
    return True


@lru_cache(1)
def _sparse() -> Any:
    """SciPy's sparse matrices, or None."""
    try:
        return import_module("scipy.sparse")
    except ImportError:
        return None


# Runs of so many elements are worth finding out which of them share a place.
_WIDE = 64
_ROUNDS = 16


def _add_in_rounds(out: Array, dim: int, index: Array, values: Array) -> bool:
    """As `_add_slices`: first what comes to each place first, then what comes second, and so on.

    A round names no place twice, so whole slices are added: 1000 slices of 1000 float32 in a third
    of the time of `add.at`. False, with nothing added, where some place is named too often.
    """
    order = index.argsort(kind="stable")
    placed = index[order]
    starts = numpy.flatnonzero(numpy.concatenate(([True], placed[1:] != placed[:-1])))
    counts = numpy.diff(starts, append=index.size)
    rounds = int(counts.max())
    if rounds > _ROUNDS:
        return False
    turn = numpy.arange(index.size) - numpy.repeat(starts, counts)
    before = (slice(None),) * dim
    for number in range(rounds):
        chosen = order[turn == number]
        out[(*before, index[chosen])] += values[(*before, chosen)]
    return True


def _add_rows(xp: Namespace, out: Array, starts: Array, rows: Array) -> None:
    """Add each row of `rows` to the flat `out` from its start on, element by element."""
    columns = xp.arange(rows.shape[1])
    step = max(_BLOCK // max(columns.size, 1), 1)
    for first in range(0, starts.size, step):
        part = slice(first, first + step)
        places = starts[part, None] + columns
        xp.add.at(out, places.reshape(-1), rows[part].reshape(-1))


# Elements along a dimension ----------------------------------------------------------------------


def few_places(op: str, xp: Namespace, input: Array, dim: int, index: Array) -> Array | None:
    """Where in memory the few elements are that `index` names along `dim`, once that is checked.

    None for all but usual cases, which are looked at elsewhere. What depends on the shapes alone is
    asked in one call: a gather of ten elements takes 2.3 us so, by single questions 3.
    """
    layout = _layout_of_few(xp, input.shape, index.shape, dim)
    if layout is None or index.dtype is not INT64 or not input.flags.c_contiguous:
        return None
    size, step, own = layout
    unsigned = index.view(_UNSIGNED[8])
    if unsigned.item(unsigned.argmax()) >= size:
        check_bounds(op, index, size, dim)  # says which one
    if step is not None:
        index = index * step
    return index if own is None else index + own


@lru_cache(128)
def _layout_of_few(
    xp: Namespace, shape: tuple[int, ...], index_shape: tuple[int, ...], dim: int
) -> tuple[int, Array | None, Array | None] | None:
    """The length of `dim` and `_small_layout`; None for none or many, and what may not fit."""
    few = xp is numpy and 0 < math.prod(index_shape) < FEW_ELEMENTS
    if not few or not shape or len(shape) != len(index_shape):
        return None
    if any(n > shape[d] for d, n in enumerate(index_shape) if d != dim):
        return None
    return shape[dim], *_small_layout(xp, shape, index_shape, dim)


def read_along(xp: Namespace, input: Array, dim: int, index: Array) -> Array:
    """What `index` names along `dim`."""
    if not input.flags.c_contiguous:
        found = input[along(xp, dim, index)]
        return found if found.flags.c_contiguous else found.copy()
    places = _flat_places(xp, input.shape, dim, index)
    flat = input.ravel()  # a view, in a third of the time of `reshape`
    # Brackets are quicker to start, `take` is quicker to run.
    return flat[places] if index.size < FEW_ELEMENTS else flat.take(places)


def write_along(xp: Namespace, out: Array, dim: int, index: Array, values: Array) -> None:
    """Write values, or one value, where `index` says along `dim`."""
    if not out.flags.c_contiguous:
        out[along(xp, dim, index)] = values
        return
    out.ravel()[_flat_places(xp, out.shape, dim, index)] = values


def reduce_along(
    xp: Namespace, ufunc: Any, out: Array, dim: int, index: Array, values: Array
) -> None:
    """`out[..., index, ...] ufunc= values` element by element along `dim`, in place."""
    if values.shape != index.shape:
        values = values[tuple(map(slice, index.shape))]
    if not out.flags.c_contiguous:
        ufunc.at(out, along(xp, dim, index), values)
        return
    places = _flat_places(xp, out.shape, dim, index)
    ufunc.at(out.ravel(), places.ravel(), values.ravel())


def _flat_places(xp: Namespace, shape: tuple[int, ...], dim: int, index: Array) -> Array:
    """Positions in the flattened, row-major array: one index array is twice as fast as several."""
    if index.size < FEW_ELEMENTS:
        step, own = _small_layout(xp, shape, index.shape, dim)
    else:
        step, own = _layout(xp, shape, index.shape, dim)
    if index.itemsize != 8:
        index = index.astype("i8")
    if step is not None:
        index = index * step
    return index if own is None else index + own


def _layout(
    xp: Namespace, shape: tuple[int, ...], index_shape: tuple[int, ...], dim: int
) -> tuple[Array | None, Array | None]:
    """How far apart neighbours along `dim` are, and where the elements would be with index 0.

    None for a distance of 1, and where all would be at 0.
    """
    strides = contiguous_strides(shape)
    own = None
    for d, positions in enumerate(_positions(xp, index_shape)):
        if d != dim:
            there = positions * strides[d]
            own = there if own is None else own + there
    return None if strides[dim] == 1 else xp.array(strides[dim]), own


@lru_cache(128)
def _small_layout(
    xp: Namespace, shape: tuple[int, ...], index_shape: tuple[int, ...], dim: int
) -> tuple[Array | None, Array | None]:
    """The same, remembered and written out in full: arithmetic takes half of the time then."""
    step, own = (
        None if part is None else xp.array(xp.broadcast_to(part, index_shape), order="C")
        for part in _layout(xp, shape, index_shape, dim)
    )
    return step, own
