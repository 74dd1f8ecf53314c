"""Reductions on bare arrays: what several of the declared ones compute with, and their checks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, Array, Namespace, number_array, numbers32, numbers64
from pullback.core.dtype import from_numpy_dtype, numpy_dtype
from pullback.core.errors import unsupported
from pullback.operators.arrays.blocks import BLOCK, ZEROS, slices

__all__ = [
    "NOT_GIVEN",
    "axis_of",
    "check_keepdim",
    "check_not_empty",
    "converted",
    "extreme",
    "extreme_along",
    "few_sums",
    "index_of_extreme",
    "is_moderate",
    "kept_shape",
    "log_total_exp",
    "number",
    "numpy_names",
    "reduced_count",
    "total",
    "total_of_squares",
    "without",
]

# Options ------------------------------------------------------------------------------------------


class _NotGiven:
    """The default of a `dim` where torch takes None for something else, or not at all."""

    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()


def axis_of(dim: Any, ndim: int) -> tuple[int, ...] | None:
    """The dims to reduce as NumPy wants them: None for all, as are () and the dim of a 0-d array.

    Rules on arrays pass what they like, so here dims are made whole once more.
    """
    if dim is None or not ndim:
        return None
    if type(dim) is not tuple:
        dim = (dim,) if isinstance(dim, int) else tuple(dim)
    for one in dim:
        if one < 0:
            return tuple([d % ndim for d in dim])
    return dim or None


def kept_shape(shape: Any, dim: Any) -> tuple[int, ...]:
    """`shape` with size 1 at the reduced dims."""
    if type(dim) is tuple and len(dim) == 1 and 0 <= dim[0] < len(shape):
        return (*shape[: dim[0]], 1, *shape[dim[0] + 1 :])
    axis = axis_of(dim, len(shape))
    if axis is None:
        return (1,) * len(shape)
    return tuple([1 if i in axis else n for i, n in enumerate(shape)])


def without(shape: tuple[int, ...], axis: tuple[int, ...] | None) -> tuple[int, ...]:
    """`shape` without the reduced dims."""
    return () if axis is None else tuple([n for i, n in enumerate(shape) if i not in axis])


def reduced_count(shape: Any, dim: Any) -> int:
    """How many elements go into each result."""
    axis = axis_of(dim, len(shape))
    return math.prod(shape if axis is None else [shape[i] for i in axis])


def number(value: float, dtype: Any) -> Array:
    """A number as an array of no dimensions, float32 or float64, which ufuncs take sooner."""
    known = (numbers64 if dtype is F64 else numbers32).get(value)
    if known is None:
        if value.__class__ is int and not value:  # 0.0 might be -0.0
            return _ZERO64 if dtype is F64 else _ZERO32
        return number_array(value, dtype)
    return known


_ZERO32, _ZERO64 = ZEROS[F32], ZEROS[F64]


def converted(input: Array, dtype: Any) -> Array:
    """`input` in the dtype that the user wants the reduction in, if any."""
    if dtype is None:
        return input
    wanted = numpy_dtype(dtype)
    if input.dtype.kind == "c" and wanted.kind not in "cb":
        input = input.real
    return input.astype(wanted, copy=False)


def numpy_names(dim: Any, keepdim: Any, axis: Any, keepdims: Any) -> tuple[Any, Any]:
    """`dim` and `keepdim`, which torch also takes under NumPy's names."""
    return (dim if axis is None else axis), (keepdim if keepdims is None else keepdims)


def check_keepdim(op: str, keepdim: Any) -> None:
    """`x.sum(0, 1)` is more often meant as two dims than as keepdim."""
    if keepdim is not True and keepdim is not False:
        raise TypeError(
            f"{op}(): argument `keepdim` must be bool, got {keepdim!r}; several dims are given as "
            "one tuple, like dim=(0, 1)."
        )


def check_not_empty(op: str, input: Array, dim: Any) -> None:
    """Refuse to reduce no elements where there is no neutral one."""
    if input.size:
        return
    if dim is None or dim == ():
        raise RuntimeError(
            f"{op}: the input of shape {input.shape} has no elements, and no element to start "
            "from; name the `dim` of non-zero size to reduce."
        )
    for one in dim if isinstance(dim, tuple) else (dim,):
        if input.shape[one] == 0:
            raise IndexError(
                f"{op}: dim {one} of shape {input.shape} has size 0, so there is nothing to "
                "choose from; reduce a dim of non-zero size."
            )


# Sums ---------------------------------------------------------------------------------------------

# NumPy adds the rows of a C-ordered array one by one: the error grows with their number, and narrow
# rows are slow. Seen as fewer rows of about this many elements, (1000000, 8) float32 takes 1.6 ms
# instead of 21, with a twentieth of the error.
_ROW = 8192
MANY = 4 * _ROW


def total(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    """The sum in the dtype of `input`; half precision is added up in single."""
    axis = axis_of(dim, input.ndim)
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        return xp.add.reduce(input, axis, xp.float32, None, keepdim).astype(input.dtype)
    if input.size > MANY and input.flags.c_contiguous:
        folded = _row_total(xp, input, axis) if input.dtype.char in "fd" else None
        if folded is None and axis:
            folded = _folded_total(xp, input, axis)
        if folded is None and axis and input.dtype.char in "fd":
            folded = _inner_total(xp, input, axis)
        if folded is not None:
            shape = kept_shape if keepdim else without
            return folded.reshape(shape(input.shape, axis))
    return xp.add.reduce(input, axis, input.dtype, None, keepdim)


# Longer rows are added up in pieces, whose sums NumPy adds pairwise: the error stays small.
PIECE = 1024
_ONES = {dtype: numpy.ones(PIECE, dtype) for dtype in (F32, F64)}
_ONES32, _ONES64 = _ONES[F32], _ONES[F64]  # looking a dtype up takes 0.05 us, a slice 0.1
SHORT = 64
SHORT32, SHORT64 = ([ones[:n] for n in range(SHORT + 1)] for ones in (_ONES32, _ONES64))
_COLUMNS32 = [ones[:, None] for ones in SHORT32]


def _ones(dtype: Any, length: int) -> Array | None:
    """As many ones, to be read only; None for other dtypes than float32 and float64."""
    if dtype is F32:
        return SHORT32[length] if length <= SHORT else _ONES32[:length]
    if dtype is F64:
        return SHORT64[length] if length <= SHORT else _ONES64[:length]
    return None


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
        elif dim == (1,) and ndim == 2 and input.shape[1] <= PIECE:
            return input.dot(_ones(dtype, input.shape[1]))
        elif dim == (0,) and ndim == 2 and input.shape[0] <= PIECE:
            return _ones(dtype, input.shape[0]).dot(input)  # type: ignore[union-attr]  # of these dtypes there are
    return xp.add.reduce(input, None if dim == () else dim, None, None, keepdim)


def _few_kept_sums(xp: Namespace, input: Array, dim: Any) -> Array:
    """The same with the dimensions kept: products with a column or a row of ones."""
    dtype, ndim, shape = input.dtype, input.ndim, input.shape
    if dtype is F32 or dtype is F64:
        if ndim <= 2 and dim == (ndim - 1,) and (size := shape[-1]) <= PIECE:
            short = size <= SHORT and dtype is F32
            return input.dot(_COLUMNS32[size] if short else _ONES[dtype][:size, None])
        if ndim == 2 and dim == (0,) and (size := shape[0]) <= PIECE:
            return _ONES[dtype][None, :size].dot(input)
        if ndim == 4 and dim == (2, 3) and (size := shape[2] * shape[3]) <= PIECE:  # of images
            return input.reshape(-1, size).dot(_ones(dtype, size)).reshape(*shape[:2], 1, 1)
    return xp.add.reduce(input, None if dim == () else dim, None, None, True)


def _row_total(xp: Namespace, input: Array, axis: tuple[int, ...] | None) -> Array | None:
    """The last dims summed by BLAS, as products with ones; None where that does not apply.

    A million float32: 0.07 ms, where `add.reduce` takes 0.19.
    """
    first = 0 if axis is None else min(axis)
    if axis is not None and len(axis) != input.ndim - first:
        return None
    size = math.prod(input.shape[first:])
    if size < 64:
        return None
    rows = input.reshape(-1, size)
    if size <= PIECE:
        return rows @ xp.ones(size, input.dtype)
    whole = size - size % PIECE
    pieces = rows[:, :whole] if whole < size else rows
    ones = xp.ones(PIECE, input.dtype)
    sums = xp.add.reduce(pieces.reshape(len(rows), -1, PIECE) @ ones, 1)
    return sums + rows[:, whole:] @ ones[: size - whole] if whole < size else sums


def _inner_total(xp: Namespace, input: Array, axis: tuple[int, ...]) -> Array | None:
    """The last dims summed by BLAS, then the others; None where that does not apply.

    (16, 128, 8, 8) float32 over all but channels: 13 us, where `add.reduce` takes 56.
    """
    first = input.ndim
    while first - 1 in axis:
        first -= 1
    if first == input.ndim:
        return None
    inner = _row_total(xp, input, tuple(range(first, input.ndim)))
    if inner is None:
        return None
    rest = tuple(dim for dim in axis if dim < first)
    return xp.add.reduce(inner.reshape(input.shape[:first]), rest)


def _folded_total(xp: Namespace, input: Array, axis: tuple[int, ...]) -> Array | None:
    """Neighbouring dims, not the last ones, summed in wide rows; None where that does not apply."""
    first, last = min(axis), max(axis) + 1
    inner = math.prod(input.shape[last:])
    rows = math.prod(input.shape[first:last])
    fold = min(_ROW // inner, rows // 32)
    if last - first != len(axis) or inner == 1 or fold < 2:
        return None
    outer = math.prod(input.shape[:first])
    flat = input.reshape(outer, rows, inner)
    whole = rows - rows % fold
    wide = flat[:, :whole] if whole < rows else flat
    sums = xp.add.reduce(wide.reshape(outer, -1, fold * inner), 1).reshape(outer, fold, inner)
    if whole < rows:
        sums[:, 0] += xp.add.reduce(flat[:, whole:], 1)
    return xp.add.reduce(sums, 1)


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
            squares = xp.vecdot(rows, rows)
            shape = kept_shape(input.shape, axis) if keepdim else input.shape[:first]
            return squares.reshape(shape)
    return total(xp, xp.square(input), axis, keepdim)


def halved_product(xp: Namespace, input: Array) -> Array:
    """Rows whose product is that of `input`'s, but shorter: halves are multiplied by each other.

    NumPy multiplies along a row one by one; (1000, 1000) float32 takes half of that time here.
    """
    while input.shape[-1] > 16:
        half, rest = divmod(input.shape[-1], 2)
        shorter = input[..., :half] * input[..., half : 2 * half]
        if rest:
            shorter[..., 0] *= input[..., -1]
        input = shorter
    return input


# Products between these, and quotients of them, are as exact as their factors.
_MODERATE = {"f": (1e-12, 1e12), "d": (1e-120, 1e120), "F": (1e-12, 1e12), "D": (1e-120, 1e120)}


def is_moderate(products: Array) -> bool:
    """Whether all products are far from the limits of their dtype: no factor was 0, too."""
    low, high = _MODERATE.get(products.dtype.char, (1.0, 0.0))
    if not products.size or not low < abs(products.item(-1)) < high:  # mostly tells at once
        return False
    sizes = abs(products)
    return bool(low < sizes.min()) and bool(sizes.max() < high)


# Extremes -----------------------------------------------------------------------------------------


def extreme(xp: Namespace, op: str, input: Array, dim: Any, keepdim: Any, ufunc: Any) -> Array:
    """What `ufunc`, maximum or minimum, leaves over `dim`; NaN wins."""
    whole = (dim is None or dim == () or input.ndim == 1) and keepdim is False
    if whole and 0 < input.size < MANY and (input.dtype is F32 or input.dtype is F64):
        # The place of an extreme takes a sixth of what `reduce` takes; NaN is found first, too.
        flat = input if input.ndim == 1 else input.reshape(-1)
        return flat[flat.argmax() if ufunc is xp.maximum else flat.argmin()]
    if keepdim is not False:
        check_keepdim(op, keepdim)
    if not input.size:
        check_not_empty(op, input, dim if input.ndim else None)
    if input.dtype.kind == "c":
        raise unsupported(op, input)
    axis = None if dim == () or not input.ndim else dim
    return ufunc.reduce(input, axis, None, None, keepdim)


_FEW = 4096


def _at(matrix: Array, columns: Array) -> Array:
    """One element of each row."""
    return matrix.reshape(-1)[columns + _starts(*matrix.shape)]


@lru_cache(128)
def _starts(rows: int, width: int) -> Array:
    """Where rows begin in the flattened matrix."""
    return numpy.arange(rows) * width


def extreme_along(xp: Namespace, op: str, input: Array, dim: int, keepdim: Any) -> Any:
    """Extremes along `dim` and the index of the first of each; NaN wins."""
    if input.dtype.kind == "c":
        raise RuntimeError(
            f"{op}: complex numbers are not ordered; compare their abs() or real parts."
        )
    if not input.ndim:
        return input.copy(), xp.zeros((), xp.int64)
    if not input.size:
        check_not_empty(op, input, dim)
    if input.ndim == 2 and dim == 1 and input.size < _FEW and keepdim is False:
        # What stands at the places is read in half of the time of another reduction.
        found = input.argmax(1) if op == "max" else input.argmin(1)
        return _at(input, found), found
    ufunc = xp.maximum if op == "max" else xp.minimum
    if dim == input.ndim - 1 or input.size < BLOCK:
        find = input.argmax if op == "max" else input.argmin
        return ufunc.reduce(input, dim, None, None, keepdim), find(dim, keepdims=keepdim)
    # NumPy's argmax turns the array around first; comparing costs half of that.
    values = ufunc.reduce(input, dim, None, None, True)
    reached = input == values
    if input.dtype.kind in "fV" and (values != values).any():
        reached |= input != input
    indices = reached.argmax(dim, keepdims=keepdim)
    return values if keepdim else values.squeeze(dim), indices


def index_of_extreme(xp: Namespace, op: str, input: Array, dim: Any, keepdim: Any) -> Array:
    """The index of the first extreme, along `dim` or in the flattened array."""
    usual = keepdim is False and (input.dtype is F32 or input.dtype is F64)
    if usual and 0 < input.size < BLOCK and (dim is None or input.ndim):  # most calls, at once
        return input.argmax(dim) if op == "argmax" else input.argmin(dim)
    if keepdim is not False:
        check_keepdim(op, keepdim)
    if input.dtype.kind in "bc":
        raise RuntimeError(
            f"{op}: not defined for {from_numpy_dtype(input.dtype)}; convert first, or compare "
            "abs()."
        )
    if not input.size:
        if dim is None:
            raise IndexError(
                f"{op}: the input of shape {input.shape} has no elements; name a `dim`."
            )
        check_not_empty(op, input, dim)
    if not input.ndim:
        return xp.zeros((), xp.int64)
    if dim is not None and dim < input.ndim - 1 and input.size >= BLOCK:
        return extreme_along(xp, op.removeprefix("arg"), input, dim, keepdim)[1]
    find = input.argmax if op == "argmax" else input.argmin
    return find(dim, keepdims=True) if keepdim else find(dim)


# Logarithms of sums -------------------------------------------------------------------------------


def log_total_exp(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    """log(sum(exp(input))) over `dim`, shifted by the largest element; rows go in blocks."""
    if input.dtype.itemsize == 2:
        return log_total_exp(xp, input.astype(xp.float32), dim, keepdim).astype(input.dtype)
    axis = axis_of(dim, input.ndim)
    if not input.size:
        result = xp.full(kept_shape(input.shape, axis), -math.inf, input.dtype)
    elif (
        input.size <= BLOCK
        or axis is None
        or not input.flags.c_contiguous
        or min(axis) != input.ndim - len(axis)
    ):
        result = _log_total_exp(xp, input, axis)
    else:
        rows = input.reshape(math.prod(input.shape[: min(axis)]), -1)
        result = xp.empty((rows.shape[0], 1), input.dtype)
        for block in slices(*rows.shape):
            result[block] = _log_total_exp(xp, rows[block], 1)
        result = result.reshape(kept_shape(input.shape, axis))
    return result if keepdim else result.reshape(without(input.shape, axis))


def _log_total_exp(xp: Namespace, input: Array, axis: Any) -> Array:
    largest = xp.maximum.reduce(input.real, axis, None, None, True)
    flat = largest.reshape(-1)
    if not flat.dot(flat) < math.inf:  # half of what isfinite().all() takes
        largest = xp.where(xp.isfinite(largest), largest, 0)
    powers = xp.asarray(xp.subtract(input, largest))
    xp.exp(powers, powers)
    result = xp.asarray(xp.add.reduce(powers, axis, None, None, True))
    xp.log(result, result)
    return xp.add(result, largest, result)
