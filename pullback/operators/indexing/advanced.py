"""Index tensors and masks: the operators behind the advanced part of a key, and index_put.

`dims` says where each index tensor stands; the dims that none stands at are taken whole. Results
follow NumPy's rule: the indexed dims are replaced in their place, or move to the front where others
lie between them. Always copies, in row-major memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from pullback.core import errors
from pullback.core.arrays import Array
from pullback.core.overriding import Overridden
from pullback.core.tensor import Tensor
from pullback.core.version import bump
from pullback.operators.arrays.formats import copy_kept
from pullback.operators.arrays.scatter import add_at, index_key
from pullback.operators.declare import METHODS, Arrays, Namespace, Shape, linear, primitive
from pullback.operators.indexing import batch as batch_indexing
from pullback.operators.indexing.keys import as_index, check_count, check_masks, spans
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.running.overlap import check_apart
from pullback.operators.running.writes import is_plain_write, writing

FOUND_IN = {"torch": "index_put index_put_"}


def _taken(xp: Namespace, input: Array, indices: Any, dims: Any) -> Array:
    """What the indices name, in row-major memory."""
    try:
        if len(indices) == 1 and indices[0].dtype.kind != "b":
            return input.take(indices[0], dims[0])  # a quarter of the time that brackets take
        first = indices[0]
        if len(indices) == 1 and first.shape == input.shape and dims[0] == 0:  # a mask of it all
            return input[first]
        result = input[index_key(input.ndim, indices, dims)]
        return result if result.flags.c_contiguous else result.copy()
    except IndexError as error:
        raise _explained(input, indices, dims, error) from None


def _placed(xp: Namespace, g: Array, indices: Any, dims: Any, shape: Any) -> Array:
    """Zeros with `g` added where the indices point."""
    whole = xp.zeros(shape, g.dtype)
    add_at(xp, whole, indices, dims, g)
    return whole


# Up to two indices are inputs of their own, since operators on sequences are called more slowly.


def _given(first: Any, second: Any) -> tuple[Any, ...]:
    return (first,) if second is None else (first, second)


@linear(
    batch=batch_indexing.taken(lambda: _index_many),
    input=lambda g, input_shape, dims, first, second: _place(g, input_shape, dims, first, second),
    node="IndexBackward0",
    has_out=False,
)
def _index(
    xp: Namespace, input: Array, dims: Any, first: Array, second: Array | None = None
) -> Array:
    return _taken(xp, input, _given(first, second), dims)


@linear(
    batch=batch_indexing.placed(lambda: _place_many),
    input=lambda g, dims, first, second: _index(g, dims, first, second),
    node="IndexPutBackward0",
    has_out=False,
)
def _place(
    xp: Namespace, input: Array, shape: Shape, dims: Any, first: Array, second: Array | None = None
) -> Array:
    return _placed(xp, input, _given(first, second), dims, shape)


@linear(
    batch=batch_indexing.taken(lambda: _index_many),
    input=lambda g, input_shape, dims, indices: _place_many(g, input_shape, dims, indices),
    node="IndexBackward0",
    has_out=False,
)
def _index_many(xp: Namespace, input: Array, dims: Any, indices: Arrays) -> Array:
    return _taken(xp, input, indices, dims)


@linear(
    batch=batch_indexing.placed(lambda: _place_many),
    input=lambda g, dims, indices: _index_many(g, dims, indices),
    node="IndexPutBackward0",
    has_out=False,
)
def _place_many(xp: Namespace, input: Array, shape: Shape, dims: Any, indices: Arrays) -> Array:
    return _placed(xp, input, indices, dims, shape)


@linear(
    batch=batch_indexing.cleared,
    input=lambda g, dims, indices: _clear(g, dims, indices),
    has_out=False,
)
def _clear(xp: Namespace, input: Array, dims: Any, indices: Arrays) -> Array:
    """`input` with zeros where the indices point."""
    out = input.copy()
    out[index_key(input.ndim, indices, dims)] = 0
    return out


def _put_tangent(
    d_input: Any, d_values: Any, input: Any, values: Any, dims: Any, accumulate: Any, indices: Any
) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    d_values = zeros_of(values) if d_values is None else d_values
    return _index_put_many(d_input, d_values, dims, accumulate, indices)


@primitive(
    batch=batch_indexing.put(lambda: _index_put_many),
    input=lambda g, dims, accumulate, indices: g if accumulate else _clear(g, dims, indices),
    values=lambda g, dims, indices: _index_many(g, dims, indices),
    jvp=_put_tangent,
    node="IndexPutBackward0",
    has_out=False,
    meta="like first",
)
def _index_put_many(
    xp: Namespace, input: Array, values: Array, dims: Any, accumulate: Any, indices: Arrays
) -> Array:
    out = copy_kept(xp, input)
    _write_index_put(xp, out, values, dims, accumulate, indices)
    return out


@primitive(
    batch=batch_indexing.put(lambda: _index_put_many),
    input=lambda g, dims, accumulate, first, second: (
        g if accumulate else _clear(g, dims, _given(first, second))
    ),
    values=lambda g, dims, first, second: _index(g, dims, first, second),
    jvp=lambda d_input, d_values, input, values, dims, accumulate, first, second: _put_tangent(
        d_input, d_values, input, values, dims, accumulate, _given(first, second)
    ),
    node="IndexPutBackward0",
    has_out=False,
    meta="like first",
)
def _index_put(
    xp: Namespace,
    input: Array,
    values: Array,
    dims: Any,
    accumulate: Any,
    first: Array,
    second: Array | None = None,
) -> Array:
    out = copy_kept(xp, input)
    _write_index_put(xp, out, values, dims, accumulate, _given(first, second))
    return out


def _write_index_put_few(
    xp: Namespace,
    input: Array,
    values: Array,
    dims: Any,
    accumulate: Any,
    first: Array,
    second: Array | None,
) -> None:
    _write_index_put(xp, input, values, dims, accumulate, _given(first, second))


def _write_index_put(
    xp: Namespace, input: Array, values: Array, dims: Any, accumulate: Any, indices: Any
) -> None:
    first_dim = len(indices) == 1 and dims[0] == 0
    key = indices[0] if first_dim else index_key(input.ndim, indices, dims)
    try:
        if not accumulate:
            input[key] = values
            return
        if not input.size or not all(index.size for index in indices):
            return
        input[key]  # raises for an index out of bounds, before anything is added
        add_at(xp, input, indices, dims, values)
    except IndexError as error:
        raise _explained(input, indices, dims, error) from None
    except ValueError:
        if not getattr(input.flags, "writeable", True):
            raise errors.read_only("index_put_") from None
        raise RuntimeError(
            f"values of shape {values.shape} cannot be broadcast to {input[key].shape}, the shape "
            "of what the indices name."
        ) from None


def _explained(input: Array, indices: Any, dims: Any, error: IndexError) -> IndexError:
    """NumPy's refusal of index arrays, with the sizes that matter."""
    for index, dim in zip(indices, dims, strict=True):
        if index.dtype.kind == "b" or dim >= input.ndim:
            continue
        size = input.shape[dim]
        outside = index[(index < -size) | (index >= size)]
        if outside.size:
            return IndexError(
                f"index {outside.flat[0]} is out of bounds for dimension {dim} with size {size} "
                f"(the indexed tensor has shape {input.shape}); indices go from {-size} to "
                f"{size - 1}."
            )
    listed = ", ".join(str(index.shape) for index in indices)
    return IndexError(
        f"index tensors of shapes {listed} for a tensor of shape {input.shape}: {error}"
    )


def index(input: Any, indices: Any, dims: Any) -> Any:
    """What index tensors at `dims` name; the arguments are checked already."""
    if len(indices) <= 2:
        return _index(input, tuple(dims), *indices)
    return _index_many(input, tuple(dims), tuple(indices))


_put_into = writing(_index_put, _write_index_put_few, "index_put_")
_put_many_into = writing(_index_put_many, _write_index_put, "index_put_")


def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """`input` with `values` at the places that the index tensors name, overwritten or added.

    >>> import pullback as torch
    >>> x, rows = torch.zeros(2, 2), torch.tensor([0, 0])
    >>> torch.index_put(x, (rows,), torch.tensor(1.0), accumulate=True)
    tensor([[2., 2.],
            [0., 0.]])
    """
    return index_put_at(input, _all_given(indices), values, accumulate)


def index_put_at(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """As `index_put`, and a None among the indices takes its dimension whole."""
    checked, dims = _put_arguments(input, indices, values)
    if len(checked) <= 2:
        return _index_put(input, values, dims, bool(accumulate), *checked)
    return _index_put_many(input, values, dims, bool(accumulate), checked)


def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """In-place form of `index_put`: changes the tensor itself.

    >>> import pullback as torch
    >>> torch.zeros(3).index_put_((torch.tensor([0, 2]),), torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    return index_put_at_(input, _all_given(indices), values, accumulate)


def _all_given(indices: Any) -> Any:
    if isinstance(indices, Sequence) and any(one is None for one in indices):
        raise TypeError("index_put(): `indices` must consist of Tensors, got a NoneType.")
    return indices


def index_put_at_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """As `index_put_`, and a None among the indices takes its dimension whole."""
    checked, dims = _put_arguments(input, indices, values)
    return put_at(input, checked, values, dims, accumulate=accumulate)


METHODS["index_put"], METHODS["index_put_"] = index_put, index_put_


def put_at(input: Any, indices: Any, values: Any, dims: Any, *, accumulate: Any = False) -> Any:
    """Put values in place; the arguments are checked already."""
    arrays = _plain_arrays(indices)
    if arrays is not None and not accumulate and is_plain_write(input, values):
        check_apart("index_put_", input._array, values._array, *arrays)
        _write_index_put(None, input._array, values._array, dims, accumulate, arrays)
        bump(input, "index_put_")
        return input
    if arrays is None:
        _check_have_data(input, indices)
    if len(indices) <= 2:
        return _put_into(input, values, dims, bool(accumulate), *indices)
    return _put_many_into(input, values, dims, bool(accumulate), indices)


def _check_have_data(input: Any, indices: Any) -> None:
    """Refuse to write to memory at places that nobody knows."""
    if input._overrides or input.device.type == "meta":
        return
    for number, one in enumerate(indices):
        if not one._overrides and one.device.type == "meta":
            raise errors.no_data(f"index_put_ at the places of index {number}", RuntimeError)


def _plain_arrays(indices: Any) -> list[Array] | None:
    """Their arrays; None where a class overrides calls, or one has no data that could be read."""
    arrays = []
    try:
        for one in indices:
            array = one._plain
            if type(array) is not ndarray and isinstance(array, ndarray):
                return None
            arrays.append(array)
    except Overridden:
        return None
    return arrays


def _put_arguments(input: Any, indices: Any, values: Any) -> tuple[Any, Any]:
    if isinstance(indices, Tensor) or not isinstance(indices, Sequence):
        raise TypeError(
            "index_put(): argument `indices` must be a tuple of Tensors, got "
            f"{type(indices).__name__}."
        )
    checked, dims, dim = [], [], 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        if not isinstance(index, Tensor):
            raise TypeError(
                f"index_put(): `indices` must consist of Tensors, got a {type(index).__name__}."
            )
        index = as_index(index)
        checked.append(index)
        dims.append(dim)
        dim += spans(index)
    if not checked:
        raise RuntimeError("index_put: `indices` is empty; give at least one index tensor.")
    check_count(input, dim)
    check_masks(input, checked, dims)
    if not isinstance(values, Tensor):
        raise errors.not_a_tensor("index_put", "values", values)
    check_dtype(input, values)
    return tuple(checked), tuple(dims)


def check_dtype(input: Any, values: Any) -> None:
    """Refuse values of another dtype than the tensor they are put into."""
    if values._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"index_put: the written tensor is {input.dtype}, the values are {values.dtype}; they "
            "must be equal. Convert the values with .to()."
        )
