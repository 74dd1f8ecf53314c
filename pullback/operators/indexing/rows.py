"""Whole slices named by one index along a dimension: index_select, index_add and their like.

The index has one dimension (or none, for a single slice). index_select and index_add are each
other's adjoints; copying and filling pass the gradient of what they leave alone.
"""

from __future__ import annotations

import numbers
from typing import Any

from pullback.core.arrays import LIBRARIES, Array
from pullback.core.dtype import from_numpy_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays.formats import copy_kept
from pullback.operators.arrays.scatter import INT64, add_at, check_bounds, check_index_dtype
from pullback.operators.conditions import host, says
from pullback.operators.declare import (
    Dim,
    Namespace,
    Number,
    Shape,
    kernel,
    linear,
    method,
    primitive,
)
from pullback.operators.indexing import batch as batch_indexing
from pullback.operators.options import numpy_spelled
from pullback.operators.pointwise.arithmetic import conj, keep_where, zeros_of
from pullback.operators.running.writes import number_array, writing
from pullback.operators.shape.reshaping import expand, reshape

FOUND_IN = {"torch": "index_fill"}


# Checks ------------------------------------------------------------------------------------------


def check_rows(
    op: str, input: Array, dim: int, index: Array, source: Array, *, bounds: type = RuntimeError
) -> None:
    """Refuse slices of another shape, number or dtype than the index and `input` ask for.

    `bounds` is the type of the error for an index out of bounds.
    """
    if index.ndim > 1:
        raise IndexError(f"{op}: the index must have one dimension, got shape {index.shape}.")
    if source.dtype is not input.dtype and source.dtype != input.dtype:
        raise RuntimeError(
            f"{op}: input is {from_numpy_dtype(input.dtype)}, source is "
            f"{from_numpy_dtype(source.dtype)}; they must be equal. Convert one of them with .to()."
        )
    shape, count = input.shape, index.size
    if not shape and count != 1:
        raise IndexError(f"{op}: a 0-d tensor takes one index, got {count}.")
    wanted = (*shape[:dim], count, *shape[dim + 1 :]) if len(shape) > 1 else (count,) * len(shape)
    if source.shape != wanted and not (not source.ndim and len(shape) <= 1 and count == 1):
        # index_copy tells wrong counts from wrong sizes, as in torch.
        counted = op == "index_copy" and (
            source.ndim != len(shape) or source.shape[dim : dim + 1] != (count,)
        )
        raise (IndexError if counted else RuntimeError)(
            f"{op}: {count} indices along dimension {dim} of a tensor of shape {shape} need a "
            f"source of shape {wanted}, got {source.shape}."
        )
    check_bounds(op, index, shape[dim] if shape else 1, dim, bounds)


def upright(index: Any, dim: int, ndim: int) -> Any:
    """The index along its dimension, with size 1 in the others."""
    if not ndim:
        return index.reshape(())
    return index.reshape((1,) * dim + (-1,) + (1,) * (ndim - dim - 1))


def spread(index: Any, dim: int, shape: Any) -> Any:
    """The index repeated over the other dimensions of `shape`, as `gather` takes it."""
    return expand(upright(index, dim, len(shape)), tuple(shape))


def _lines(array: Array) -> Array:
    """A tensor of no dimensions is a line of one element."""
    return array if array.ndim else array.reshape(1)


def _write_rows(input: Array, dim: int, index: Array, values: Array) -> None:
    _lines(input)[(slice(None),) * dim + (_lines(index),)] = values


def _add_rows(xp: Namespace, input: Array, dim: int, index: Array, values: Array) -> None:
    if not (input.ndim and index.ndim):
        input, index, values = _lines(input), _lines(index), _lines(values)
    add_at(xp, input, (index,), (dim,), values)


# Selecting ---------------------------------------------------------------------------------------


@linear(
    batch=batch_indexing.rows,
    input=lambda g, input_shape, dim, index: _index_select_adjoint(g, input_shape, dim, index),
    exact_out=True,
)
def index_select(xp: Namespace, input: Array, dim: Dim, index: Array) -> Array:
    """Copy the slices of `input` at the positions `index` along `dim`.

    >>> import pullback as torch
    >>> torch.index_select(torch.eye(3), 0, torch.tensor([2, 0]))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if index.dtype is not INT64:
        check_index_dtype("index_select", index)
    if index.ndim > 1:
        raise IndexError(
            f"index_select: the index must have one dimension, got shape {index.shape}."
        )
    # Torch has two kernels, and two minds.
    kind = RuntimeError if dim == 1 or not input.size else IndexError
    if input.ndim:
        check_bounds("index_select", index, input.shape[dim], dim, kind)
        return input.take(index if index.ndim else index.reshape(1), dim)
    if index.size != 1:
        raise RuntimeError(f"index_select: a 0-d tensor takes one index, got {index.size}.")
    check_bounds("index_select", index, 1, dim, kind)
    return input.copy()


_some = says("input_size", "input_ndim", "index_size", "index_ndim <= 1", "index_dtype is INT64")


@kernel(index_select, when=host & _some & says(INT64=INT64), declines=True)
def _taken(input: Array, dim: int, index: Array, index_ndim: int) -> Array | None:
    if index.item(index.argmin()) < 0:
        return None
    try:
        return input.take(index if index_ndim else index.reshape(1), dim)
    except IndexError:  # too large an index, which NumPy looks for anyway
        return None


@linear(
    batch=batch_indexing.rows,
    input=lambda g, dim, index: index_select(g, dim, index),
    node="IndexAddBackward0",
    has_out=False,
)
def _index_select_adjoint(
    xp: Namespace, input: Array, shape: Shape, dim: int, index: Array
) -> Array:
    whole = xp.zeros(shape, input.dtype)
    _add_rows(xp, whole, dim, index, input)
    return whole


# Adding ------------------------------------------------------------------------------------------


def _write_index_add(
    xp: Namespace, input: Array, dim: int, index: Array, source: Array, alpha: Any
) -> None:
    if index.dtype is not INT64:
        check_index_dtype("index_add", index)
    bounds = RuntimeError if input.ndim > 1 else IndexError  # as torch's two kernels have it
    check_rows("index_add", input, dim, index, source, bounds=bounds)
    if source.ndim != input.ndim:
        raise RuntimeError(
            f"index_add: source of shape {source.shape} for a tensor of shape {input.shape}; they "
            "must have the same number of dimensions."
        )
    if alpha != 1:
        source = source * number_array("index_add", alpha, input.dtype)
    _add_rows(xp, input, dim, index, source)


def _add_tangent(d_input: Any, d_source: Any, input: Any, dim: int, index: Any, alpha: Any) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    return d_input if d_source is None else index_add(d_input, dim, index, d_source, alpha=alpha)


def _selected(g: Any, dim: int, index: Any, alpha: Any) -> Any:
    g = index_select(g, dim, index)
    return g if alpha == 1 else g * conj(alpha)


@primitive(
    batch=batch_indexing.rows,
    input=lambda g: g,
    source=lambda g, dim, index, alpha: _selected(g, dim, index, alpha),
    jvp=_add_tangent,
    meta="lengths kept",
)
def index_add(
    xp: Namespace, input: Array, dim: Dim, index: Array, source: Array, *, alpha: Number = 1
) -> Array:
    """`input` with `alpha` times the slices of `source` added where `index` says along `dim`.

    >>> import pullback as torch
    >>> torch.zeros(2).index_add(0, torch.tensor([1, 1]), torch.tensor([1.0, 2.0]))
    tensor([0., 3.])
    """
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    _write_index_add(xp, out, dim, index, source, alpha)
    return out


index_add_ = writing(index_add, _write_index_add)


# Copying -----------------------------------------------------------------------------------------


def _write_index_copy(xp: Namespace, input: Array, dim: int, index: Array, source: Array) -> None:
    check_index_dtype("index_copy", index, "l")
    if not input.ndim and source.ndim == 1:  # one number takes slices as a line of one does
        input = input.reshape(1)
    check_rows("index_copy", input, dim, index, source, bounds=IndexError)
    _write_rows(input, dim, index, source)


def _copy_tangent(
    d_input: Any, d_source: Any, input: Any, dim: int, index: Any, source: Any
) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    return index_copy(d_input, dim, index, zeros_of(source) if d_source is None else d_source)


@primitive(
    batch=batch_indexing.rows,
    input=lambda g, dim, index: _fill_rows(g, dim, index, 0),
    source=lambda g, dim, index, source_shape: reshape(
        index_select(reshape(g, (1,)) if source_shape and not g.ndim else g, dim, index),
        source_shape,
    ),
    jvp=_copy_tangent,
    meta="lengths kept",
)
def index_copy(xp: Namespace, input: Array, dim: Dim, index: Array, source: Array) -> Array:
    """`input` with the slices of `source` where `index` says along `dim`.

    >>> import pullback as torch
    >>> torch.index_copy(torch.zeros(3), 0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    _write_index_copy(xp, out, dim, index, source)
    return out


index_copy_ = writing(index_copy, _write_index_copy)


# Filling -----------------------------------------------------------------------------------------


def _check_fill(input: Array, dim: int, index: Array) -> None:
    try:
        check_index_dtype("index_fill", index, "l")
    except RuntimeError as error:
        raise IndexError(str(error)) from None
    if index.ndim > 1:
        raise RuntimeError(f"index_fill: the index must have one dimension, got {index.shape}.")
    size = input.shape[dim] if input.ndim else 1
    if type(index) not in LIBRARIES and index.size and index.item(index.argmin()) < 0:
        # Negative positions count from the end here, and only here, as in torch.
        index = index + (index < 0) * size
    check_bounds("index_fill", index, size, dim, IndexError)


def _write_fill(xp: Namespace, input: Array, dim: int, index: Array, value: Any) -> None:
    _check_fill(input, dim, index)
    number = number_array("index_fill", value, input.dtype)
    _write_rows(input, dim, index, number)


@primitive(
    batch=batch_indexing.rows,
    input=lambda g, dim, index: _fill_rows(g, dim, index, 0),
    jvp=lambda d_input, dim, index: _fill_rows(d_input, dim, index, 0),
    node="IndexFillBackward0",
    has_out=False,
    aten="index_fill.int_Scalar",
)
def _fill_rows(xp: Namespace, input: Array, dim: Dim, index: Array, value: Any) -> Array:
    out = copy_kept(xp, xp.asarray(input))  # in a pass 0-d arrays may be NumPy scalars
    _write_fill(xp, out, dim, index, value)
    return out


def _write_fill_with(xp: Namespace, input: Array, dim: int, index: Array, value: Array) -> None:
    _check_fill(input, dim, index)
    _write_rows(input, dim, index, value)


def _fill_tangent(d_input: Any, d_value: Any, input: Any, dim: int, index: Any, value: Any) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    return _fill_rows_with(d_input, dim, index, zeros_of(value) if d_value is None else d_value)


def _to_filling(g: Any, dim: int, index: Any) -> Any:
    """`g` in the filled rows, each of them once, however often the index names it."""
    return keep_where(g, _fill_rows(zeros_of(g), dim, index, 1) != 0)  # the engine sums


@primitive(
    batch=batch_indexing.rows,
    input=lambda g, dim, index: _fill_rows(g, dim, index, 0),
    value=_to_filling,
    jvp=_fill_tangent,
    node="IndexFillBackward1",
    has_out=False,
    aten="index_fill.int_Tensor",
)
def _fill_rows_with(xp: Namespace, input: Array, dim: Dim, index: Array, value: Array) -> Array:
    out = copy_kept(xp, xp.asarray(input))  # in a pass 0-d arrays may be NumPy scalars
    _write_fill_with(xp, out, dim, index, value)
    return out


_fill_into = writing(_fill_rows, _write_fill, "index_fill_")
_fill_into_with = writing(_fill_rows_with, _write_fill_with, "index_fill_")


@method
@numpy_spelled
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """`input` with a number or 0-d tensor in the slices that `index` names along `dim`.

    >>> import pullback as torch
    >>> torch.index_fill(torch.zeros(3), 0, torch.tensor([2, 0]), 5)
    tensor([5., 0., 5.])
    """
    value = _checked_value(input, value)
    filling = _fill_rows_with if isinstance(value, Tensor) else _fill_rows
    return filling(input, dim, index, value)


@method
@numpy_spelled
def index_fill_(input: Any, dim: int, index: Any, value: Any) -> Any:
    """In-place form of `index_fill`: changes the tensor itself."""
    value = _checked_value(input, value)
    filling = _fill_into_with if isinstance(value, Tensor) else _fill_into
    return filling(input, dim, index, value)


def _checked_value(input: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        if value._array.ndim:
            raise RuntimeError(
                "index_fill: the value must be a number or a 0-d tensor, got shape "
                f"{value._array.shape}."
            )
        return value
    if not isinstance(value, numbers.Number):
        raise TypeError(
            "index_fill(): argument `value` must be a number or a Tensor, got "
            f"{type(value).__name__}."
        )
    if isinstance(value, complex) and input._array.dtype.kind == "b":
        raise RuntimeError(
            f"index_fill: the complex number {value} has no place in a tensor of torch.bool."
        )
    return value
