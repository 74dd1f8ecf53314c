"""Reductions on bare arrays: what several of the declared ones compute with, and their checks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy

from pullback.core.addresses import finds_indices
from pullback.core.arrays import F32, F64, Array, Namespace, number_array, numbers32, numbers64
from pullback.core.dtype import from_numpy_dtype, numpy_dtype
from pullback.core.errors import unsupported
from pullback.operators.arrays.blocks import BLOCK, ZEROS

__all__ = [
    "MANY",
    "NOT_GIVEN",
    "axis_of",
    "check_keepdim",
    "check_not_empty",
    "converted",
    "extreme",
    "extreme_along",
    "index_of_extreme",
    "is_moderate",
    "kept_shape",
    "number",
    "numpy_names",
    "reduced",
    "reduced_count",
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


# Elements, below which the number of calls is what counts.
MANY = 32768


# Products -----------------------------------------------------------------------------------------


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


def reduced(ufunc: Any, input: Array, axis: Any, dtype: Any, keepdim: Any) -> Array:
    """`ufunc.reduce`, row-major as torch's results are: NumPy keeps the order of what is left."""
    made: Array = ufunc.reduce(input, axis, dtype, None, keepdim)
    if input.ndim < 3:
        return made
    flags = getattr(made, "flags", None)  # of a number of the user's own class there are none
    return made if flags is None or flags.c_contiguous else made.copy("C")


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
    return reduced(ufunc, input, axis, None, keepdim)


_FEW = 4096


def _at(matrix: Array, columns: Array) -> Array:
    """One element of each row."""
    return matrix.reshape(-1)[columns + _starts(*matrix.shape)]


@lru_cache(128)
def _starts(rows: int, width: int) -> Array:
    """Where rows begin in the flattened matrix."""
    return numpy.arange(rows) * width


@finds_indices(1)
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
        values = ufunc.reduce(input, dim, None, None, keepdim)
        places = find(dim, keepdims=keepdim)
        # Row-major, as torch has extremes along a dimension.
        return values if input.ndim < 3 or values.flags.c_contiguous else values.copy(), places
    # NumPy's argmax turns the array around first; comparing costs half of that.
    values = ufunc.reduce(input, dim, None, None, True)
    reached = input == values
    if input.dtype.kind in "fV" and (values != values).any():
        reached |= input != input
    indices = reached.argmax(dim, keepdims=keepdim)
    if not values.flags.c_contiguous:
        values = values.copy()
    return values if keepdim else values.squeeze(dim), indices


@finds_indices()
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
