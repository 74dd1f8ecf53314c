"""Elements by a mask, or by their position in the flattened tensor; and finding those positions."""

from __future__ import annotations

import math
from typing import Any

from pullback.core import errors
from pullback.core.addresses import finds_indices
from pullback.core.arrays import LIBRARIES, Array
from pullback.core.dtype import from_numpy_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays.scatter import add_at, check_bounds, check_index_dtype
from pullback.operators.batching import filled, refused
from pullback.operators.declare import Namespace, Op, Shape, linear, method, primitive
from pullback.operators.indexing import batch as batch_indexing
from pullback.operators.indexing.selection import masked_fill
from pullback.operators.options import as_shape
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.running.by_example import each_example, level_reading
from pullback.operators.running.writes import writing

FOUND_IN = {"torch": "argwhere nonzero unravel_index"}


# Masks -------------------------------------------------------------------------------------------


def _broadcast(op: str, xp: Namespace, *arrays: Array) -> Any:
    try:
        return xp.broadcast_arrays(*arrays)
    except ValueError:
        shapes = [array.shape for array in arrays]
        raise errors.shapes_do_not_broadcast(op, *shapes) from None


def _check_mask(op: str, mask: Array) -> None:
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"{op}: the mask must be a bool tensor, got {from_numpy_dtype(mask.dtype)}; compare "
            "first."
        )


@linear(
    batch=batch_indexing.masked,
    input=lambda g, input_shape, mask: _masked_select_adjoint(g, input_shape, mask),
    meta="by values",
)
def masked_select(xp: Namespace, input: Array, mask: Array) -> Array:
    """The elements where `mask` holds, in one dimension; the two broadcast.

    >>> import pullback as torch
    >>> x = torch.tensor([1, 2, 3])
    >>> torch.masked_select(x, x > 1)
    tensor([2, 3])
    """
    _check_mask("masked_select", mask)
    if input.shape != mask.shape:
        input, mask = _broadcast("masked_select", xp, input, mask)
    return input[mask].reshape(-1)


@linear(
    batch=batch_indexing.unmasked,
    input=lambda g, shape, mask: _select_again(g, shape, mask),
    node="MaskedScatterBackward0",
    has_out=False,
)
def _masked_select_adjoint(xp: Namespace, input: Array, shape: Shape, mask: Array) -> Array:
    """Zeros with the elements of `input` where the mask holds; the engine sums to `shape`."""
    common = xp.broadcast_shapes(shape, mask.shape)
    whole = xp.zeros(common, input.dtype)
    whole[xp.broadcast_to(mask, common)] = input
    return whole


def _select_again(g: Any, shape: Any, mask: Any) -> Any:
    return masked_select(g, mask)


def _write_masked_scatter(xp: Namespace, input: Array, mask: Array, source: Array) -> None:
    _check_mask("masked_scatter", mask)
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"masked_scatter: input is {from_numpy_dtype(input.dtype)}, source is "
            f"{from_numpy_dtype(source.dtype)}; they must be equal. Convert one of them with .to()."
        )
    if mask.shape != input.shape:
        try:
            mask = xp.broadcast_to(mask, input.shape)
        except ValueError:
            raise RuntimeError(
                f"masked_scatter: a mask of shape {mask.shape} cannot be broadcast to the shape "
                f"{input.shape} of the tensor."
            ) from None
    count = int(xp.count_nonzero(mask))
    if source.size < count:
        raise RuntimeError(
            f"masked_scatter: the mask holds at {count} places, but source has {source.size} "
            "elements; it needs at least one for each."
        )
    input[mask] = source.reshape(-1)[:count]


def _masked_scatter_tangent(d_input: Any, d_source: Any, input: Any, mask: Any, source: Any) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    return masked_scatter(d_input, mask, zeros_of(source) if d_source is None else d_source)


@primitive(
    batch=batch_indexing.scattered,
    input=lambda g, mask: masked_fill(g, mask, 0),
    source=lambda g, mask, source_shape: _in_order(masked_select(g, mask), source_shape),
    jvp=_masked_scatter_tangent,
    has_out=False,
)
def masked_scatter(xp: Namespace, input: Array, mask: Array, source: Array) -> Array:
    """`input` with the elements of `source`, in order, where `mask` holds.

    >>> import pullback as torch
    >>> mask = torch.tensor([True, False, True])
    >>> torch.masked_scatter(torch.zeros(3), mask, torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    _check_mask("masked_scatter", mask)
    out = _broadcast("masked_scatter", xp, input, mask)[0].copy()
    _write_masked_scatter(xp, out, mask, source)
    return out


masked_scatter_ = writing(masked_scatter, _write_masked_scatter)


@linear(
    batch=batch_indexing.in_order,
    input=lambda g, input_shape: g.reshape((-1,))[: input_shape[0]],
    has_out=False,
)
def _in_order(xp: Namespace, input: Array, shape: Shape) -> Array:
    """The elements of `input`, then zeros, in another shape."""
    whole = xp.zeros(shape, input.dtype)
    whole.reshape(-1)[: input.size] = input
    return whole


# Positions in the flattened tensor ---------------------------------------------------------------


def _check_positions(op: str, input: Array, index: Array) -> Array:
    """Positions from 0 on; negative ones count from the end."""
    check_index_dtype(op, index, "l")
    positions = index
    host = type(index) not in LIBRARIES
    if not host or (index.size and index.item(index.argmin()) < 0):
        positions = index + (index < 0) * input.size
    try:
        check_bounds(op, positions, input.size, 0)
    except RuntimeError:
        worst = index[(positions < 0) | (positions >= input.size)].flat[0]
        raise IndexError(
            f"{op}: index {worst} is out of range for a tensor of {input.size} elements."
        ) from None
    return positions


@linear(
    batch=batch_indexing.flat_places,
    input=lambda g, input_shape, index: _take_adjoint(g, input_shape, index),
)
def take(xp: Namespace, input: Array, index: Array) -> Array:
    """The elements at the positions `index` of the flattened tensor, in the shape of `index`.

    >>> import pullback as torch
    >>> torch.take(torch.tensor([[1, 2], [3, 4]]), torch.tensor([0, -1]))
    tensor([1, 4])
    """
    return input.take(_check_positions("take", input, index))


@linear(
    batch=batch_indexing.flat_places,
    input=lambda g, index: take(g, index),
    node="PutBackward0",
    has_out=False,
)
def _take_adjoint(xp: Namespace, input: Array, shape: Shape, index: Array) -> Array:
    whole = xp.zeros(shape, input.dtype)
    add_at(xp, whole.reshape(-1), (index.reshape(-1),), (0,), input.reshape(-1))
    return whole


def _write_put(xp: Namespace, input: Array, index: Array, source: Array, accumulate: Any) -> None:
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"put: input is {from_numpy_dtype(input.dtype)}, source is "
            f"{from_numpy_dtype(source.dtype)}; they must be equal. Convert one of them with .to()."
        )
    if source.size != index.size:
        raise IndexError(
            f"put: {index.size} positions but {source.size} elements in source; give one for each."
        )
    positions = _check_positions("put", input, index).reshape(-1)
    flat = source.reshape(-1)
    if input.flags.c_contiguous:
        places, whole = (positions,), input.reshape(-1)
    else:
        places, whole = xp.unravel_index(positions, input.shape), input
    if accumulate:
        xp.add.at(whole, places, flat)
    else:
        whole[places] = flat


def _put_tangent(
    d_input: Any, d_source: Any, input: Any, index: Any, source: Any, accumulate: Any
) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    d_source = zeros_of(source) if d_source is None else d_source
    return put(d_input, index, d_source, accumulate)


@primitive(
    batch=batch_indexing.flat_places,
    input=lambda g, index, accumulate: g if accumulate else _cleared(g, index),
    source=lambda g, index, source_shape: take(g, index).reshape(source_shape),
    jvp=_put_tangent,
    has_out=False,
)
def put(xp: Namespace, input: Array, index: Array, source: Array, accumulate: Any = False) -> Array:
    """`input` with `source` at positions of the flattened tensor, written or added.

    >>> import pullback as torch
    >>> torch.put(torch.zeros(2, 2), torch.tensor([0, 3]), torch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    _write_put(xp, out, index, source, accumulate)
    return out


put_ = writing(put, _write_put)


@linear(batch=batch_indexing.flat_places, input=lambda g, index: _cleared(g, index), has_out=False)
def _cleared(xp: Namespace, input: Array, index: Array) -> Array:
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    out.reshape(-1)[index.reshape(-1)] = 0
    return out


# Finding positions -------------------------------------------------------------------------------


@primitive(exact_out=True, batch=refused, method=False, aten="nonzero.default", meta="by values")
@finds_indices()
def _nonzero(xp: Namespace, input: Array) -> Array:
    if not input.ndim:
        return xp.zeros((int(bool(input)), 0), "i8")
    found = input.nonzero()
    return found[0].reshape(-1, 1) if len(found) == 1 else xp.stack(found).T  # as torch's lies


@primitive(batch=refused, outputs="*", method=False, has_out=False, meta="by values")
@finds_indices()
def _nonzero_columns(xp: Namespace, input: Array) -> Any:
    found = input.reshape(input.shape or (1,)).nonzero()
    return list(found) if len(found) == 1 else [one.copy() for one in found]  # views of one array


@method
def nonzero(input: Any, *, as_tuple: bool = False, out: Any = None) -> Any:
    """Where `input` is not zero: a row of indices for each place, or a tuple of columns.

    >>> import pullback as torch
    >>> torch.nonzero(torch.tensor([0, 5, 7]))
    tensor([[1],
            [2]])
    """
    if not isinstance(as_tuple, bool):
        raise TypeError(f"nonzero(): as_tuple must be a bool, got {type(as_tuple).__name__}.")
    if as_tuple:
        return _nonzero_columns(input)
    return _nonzero(input) if out is None else _nonzero(input, out=out)


@method
def argwhere(input: Any) -> Any:
    """Where `input` is not zero: a row of indices for each place.

    >>> import pullback as torch
    >>> torch.argwhere(torch.tensor([[0, 1], [2, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    if (level := level_reading(input)) is not None:
        return each_example(level, argwhere, input)
    return _nonzero(input)


def _examples_as_rows(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    value = filled(split["input"], size)
    shape = tuple(value.shape[1:])
    return _static_rows(value.reshape((size, math.prod(shape))), shape, **options)


def _more_rows(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    return op.function(filled(split["input"], size), **options)


@primitive(batch=_more_rows, method=False, has_out=False)
def _static_rows(xp: Namespace, input: Array, shape: Any, size: int, fill_value: int) -> Array:
    """`nonzero_static` of flattened tensors of `shape` along the last dimension."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative, got {size}.")
    found = input.reshape(math.prod(input.shape[:-1]), input.shape[-1]) != 0
    row, place = found.nonzero()
    number = (found.cumsum(1) - 1)[row, place]
    first = number < size
    rows = xp.full((len(found), size, len(shape)), fill_value, "i8")
    if shape:
        rows[row[first], number[first]] = xp.stack(xp.unravel_index(place[first], shape), -1)
    return rows.reshape(*input.shape[:-1], size, len(shape))


@primitive(batch=_examples_as_rows)
def nonzero_static(xp: Namespace, input: Array, *, size: int, fill_value: int = -1) -> Array:
    """As `nonzero`, in exactly `size` rows: cut off, or filled up with `fill_value`.

    >>> import pullback as torch
    >>> torch.nonzero_static(torch.tensor([0, 3, 4]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    flat = input.reshape(-1)
    return _static_rows.op.forward(  # type: ignore[attr-defined]  # declared above
        xp, flat, input.shape, size, fill_value
    )


@primitive(batch=batch_indexing.whole, outputs="*", method=False, has_out=False)
def _unravel(xp: Namespace, indices: Array, shape: Shape) -> Any:
    columns = []
    for size in reversed(shape):
        columns.append(indices % size)
        indices = indices // size
    return columns[::-1]


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a flattened tensor as a tuple of indices, one per dimension of `shape`.

    >>> import pullback as torch
    >>> torch.unravel_index(torch.tensor([5]), (2, 3))
    (tensor([1]), tensor([2]))
    """
    if not isinstance(indices, Tensor):
        raise errors.not_a_tensor("unravel_index", "indices", indices)
    if indices._array.dtype.kind not in "iu":
        raise TypeError(f"unravel_index: indices must be integers, got {indices.dtype}.")
    if isinstance(shape, Tensor):
        raise TypeError(
            "unravel_index: shape must be an int or a sequence of ints, got a Tensor; use "
            "shape.tolist()."
        )
    sizes = as_shape(shape, 0, "unravel_index")
    if any(size < 0 for size in sizes):
        raise ValueError(f"unravel_index: a shape has no negative sizes, got {sizes}.")
    made: tuple[Tensor, ...] = _unravel(indices, sizes)
    return made
