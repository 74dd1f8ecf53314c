"""`t[key]` and `t[key] = value`.

The basic part of a key (ints, slices, None, `...`) is a chain of views; the advanced part (index
tensors, masks) is one operator on the result of the basic part, and always a copy. Unlike in NumPy an
int is never an index array: `x[0, :, index]` is `x[0][:, index]`.

An assignment writes into the view that the basic part names. Its history, a `CopySlices`, is entered
directly where the key is basic, without making the views: they would be dropped at once.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import F32, F64, Array
from pullback.core.mode import fast, get_mode
from pullback.core.node import Leaf, next_seq
from pullback.core.origin import getframe, user_frame
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import bump
from pullback.core.view import DEFAULT, View, edge_of
from pullback.operators import inplace
from pullback.operators.arithmetic import zeros_of
from pullback.operators.convert import astype
from pullback.operators.copy import _copy, _refill, copy_, fill_, store
from pullback.operators.declare import METHODS, Arrays, Namespace, Shape, linear, primitive
from pullback.operators.inplace import has_overlap
from pullback.operators.keys import BASIC, as_index, items_of, plain_slice, spans
from pullback.operators.nodes import node_class
from pullback.operators.scatter_kernels import add_at, index_key
from pullback.operators.shape import reshape
from pullback.operators.strides import address
from pullback.operators.views import alias, select, slice_along, unsqueeze
from pullback.operators.writes import (
    check_no_partial_overlap,
    is_plain_write,
    number_array,
    writing,
)

__all__ = ["getitem", "index_put", "index_put_", "setitem"]


# Operators ---------------------------------------------------------------------------------------


def _taken(xp: Namespace, input: Array, indices: Any, dims: Any) -> Array:
    """What the indices name, in row-major memory."""
    index, dim = indices[0], dims[0]
    try:
        if len(indices) > 1 or dim == 0 or index.dtype.kind == "b":
            result = input[index_key(input.ndim, indices, dims)]
            return result if result.flags.c_contiguous else result.copy()
        return input.take(index, dim)
    except IndexError as error:
        raise _explained(input, indices, dims, error) from None


def _placed(xp: Namespace, g: Array, indices: Any, dims: Any, shape: Any) -> Array:
    """Zeros with `g` added where the indices point."""
    whole = xp.zeros(shape, g.dtype)
    add_at(xp, whole, indices, dims, g)
    return whole


# Up to two indices are inputs of their own, since operators on sequences are called more slowly.


def _given(*indices: Any) -> tuple[Any, ...]:
    return tuple(index for index in indices if index is not None)


@linear(
    input=lambda g, input_shape, dims, first, second: _place(g, input_shape, dims, first, second),
    node="IndexBackward0",
    has_out=False,
)
def _index(
    xp: Namespace, input: Array, dims: Any, first: Array, second: Array | None = None
) -> Array:
    return _taken(xp, input, _given(first, second), dims)


@linear(
    input=lambda g, dims, first, second: _index(g, dims, first, second),
    node="IndexPutBackward0",
    has_out=False,
)
def _place(
    xp: Namespace,
    input: Array,
    shape: Shape,
    dims: Any,
    first: Array,
    second: Array | None = None,
) -> Array:
    return _placed(xp, input, _given(first, second), dims, shape)


@linear(
    input=lambda g, input_shape, dims, indices: _place_many(g, input_shape, dims, indices),
    node="IndexBackward0",
    has_out=False,
)
def _index_many(xp: Namespace, input: Array, dims: Any, indices: Arrays) -> Array:
    return _taken(xp, input, indices, dims)


@linear(
    input=lambda g, dims, indices: _index_many(g, dims, indices),
    node="IndexPutBackward0",
    has_out=False,
)
def _place_many(
    xp: Namespace, input: Array, shape: Shape, dims: Any, indices: Arrays
) -> Array:
    return _placed(xp, input, indices, dims, shape)


@linear(input=lambda g, dims, indices: _clear(g, dims, indices), has_out=False)
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
    input=lambda g, dims, accumulate, indices: g if accumulate else _clear(g, dims, indices),
    values=lambda g, dims, indices: _index_many(g, dims, indices),
    jvp=_put_tangent,
    node="IndexPutBackward0",
    has_out=False,
)
def _index_put_many(
    xp: Namespace, input: Array, values: Array, dims: Any, accumulate: Any, indices: Arrays
) -> Array:
    out = input.copy()
    _write_index_put(xp, out, values, dims, accumulate, indices)
    return out


@primitive(
    input=lambda g, dims, accumulate, first, second: (
        g if accumulate else _clear(g, dims, _given(first, second))
    ),
    values=lambda g, dims, first, second: _index(g, dims, first, second),
    jvp=lambda d_input, d_values, input, values, dims, accumulate, first, second: _put_tangent(
        d_input, d_values, input, values, dims, accumulate, _given(first, second)
    ),
    node="IndexPutBackward0",
    has_out=False,
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
    out = input.copy()
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
    key = index_key(input.ndim, indices, dims)
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


def _explained(input: Array, indices: Any, dims: Any, error: IndexError) -> IndexError:
    """NumPy's refusal of index arrays, with the sizes that matter."""
    for index, dim in zip(indices, dims, strict=True):
        if index.dtype.kind == "b" or dim >= input.ndim:
            continue
        size = input.shape[dim]
        outside = index[(index < -size) | (index >= size)]
        if outside.size:
            return IndexError(
                f"index {outside.flat[0]} is out of bounds for dimension {dim} with size {size} (the "
                f"indexed tensor has shape {input.shape}); indices go from {-size} to {size - 1}."
            )
    listed = ", ".join(str(index.shape) for index in indices)
    return IndexError(f"index tensors of shapes {listed} for a tensor of shape {input.shape}: {error}")


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
    checked, dims = _put_arguments(input, indices, values)
    if len(checked) <= 2:
        return _index_put(input, values, dims, bool(accumulate), *checked)
    return _index_put_many(input, values, dims, bool(accumulate), checked)


def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """In-place form of `index_put`: changes the tensor itself."""
    checked, dims = _put_arguments(input, indices, values)
    return _put(input, checked, values, dims, accumulate=accumulate)


METHODS["index_put"], METHODS["index_put_"] = index_put, index_put_


def _put(input: Any, indices: Any, values: Any, dims: Any, *, accumulate: Any = False) -> Any:
    if len(indices) <= 2:
        return _put_into(input, values, dims, bool(accumulate), *indices)
    return _put_many_into(input, values, dims, bool(accumulate), indices)


def _put_arguments(input: Any, indices: Any, values: Any) -> tuple[Any, Any]:
    if isinstance(indices, Tensor) or not isinstance(indices, Sequence):
        raise TypeError(
            "index_put(): argument `indices` must be a tuple of Tensors, got "
            f"{type(indices).__name__}."
        )
    checked, dims, dim = [], [], 0
    for index in indices:
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
    _check_count(input, dim)
    _check_masks(input, checked, dims)
    if not isinstance(values, Tensor):
        raise errors.not_a_tensor("index_put", "values", values)
    _check_dtype(input, values)
    return tuple(checked), tuple(dims)


def _check_dtype(input: Any, values: Any) -> None:
    if values._array.dtype != input._array.dtype:
        raise RuntimeError(
            f"index_put: the written tensor is {input.dtype}, the values are {values.dtype}; they must "
            "be equal. Convert the values with .to()."
        )


def _check_count(input: Any, named: int) -> None:
    if named > input._array.ndim:
        raise IndexError(
            f"too many indices: {named} dimensions are named, but the tensor has {input._array.ndim} "
            f"(shape {input._array.shape})."
        )


def _check_masks(input: Any, indices: Any, dims: Any) -> None:
    for index, dim in zip(indices, dims, strict=True):
        array, shape = index._array, input._array.shape
        if array.dtype.kind == "b" and array.shape != shape[dim : dim + array.ndim]:
            raise IndexError(
                f"a mask of shape {array.shape} at dimension {dim} does not match the indexed tensor of "
                f"shape {shape}; a mask must have the sizes of the dimensions it covers."
            )


# Reading -----------------------------------------------------------------------------------------


def getitem(self: Any, key: Any) -> Any:
    """`t[key]`: a view for ints, slices, None and `...`; a copy as soon as a tensor indexes."""
    kind = type(key)
    if kind is int:
        return select(self, 0, key)
    if kind is slice:
        return _sliced(self, 0, key)
    part, indices, dims = _basic_part(self, items_of(key))
    if not dims:
        return alias(self) if part is self else part
    if len(dims) <= 2:
        return _index(part, tuple(dims), *indices)
    return _index_many(part, tuple(dims), tuple(indices))


def _sliced(tensor: Any, dim: int, item: slice) -> Any:
    if tensor._array.ndim == 0:
        raise IndexError("a 0-d tensor cannot be sliced; it has no dimension.")
    return slice_along(tensor, dim, *plain_slice(item))


def _basic_part(tensor: Any, items: list[Any]) -> tuple[Any, list[Any], list[int]]:
    """The views that a key asks for, and the index tensors with the dims they are for."""
    named = sum(map(spans, items))
    _check_count(tensor, named)
    skipped = tensor._array.ndim - named
    part, dim = tensor, 0
    indices: list[Any] = []
    dims: list[int] = []
    for item in items:
        kind = type(item)
        if kind is int:
            part = select(part, dim, item)
        elif kind is slice:
            part = part if _is_whole(item, part._array.shape[dim]) else _sliced(part, dim, item)
            dim += 1
        elif item is Ellipsis:
            dim += skipped
        elif item is None:
            part = unsqueeze(part, dim)
            dim += 1
        elif kind is bool:
            part = unsqueeze(part, dim)
            indices.append(wrap(numpy.zeros(int(item), "i8")))
            dims.append(dim)
            dim += 1
        else:
            indices.append(item)
            dims.append(dim)
            dim += spans(item)
    _check_masks(part, indices, dims)
    return part, indices, dims


def _is_whole(item: slice, size: int) -> bool:
    if item.start is None and item.stop is None and item.step is None:
        return True
    return plain_slice(item)[2] == 1 and slice(*plain_slice(item)).indices(size) == (0, size, 1)


# Assignment --------------------------------------------------------------------------------------


def setitem(self: Any, key: Any, value: Any) -> None:
    """`t[key] = value`: writes into the tensor's memory; the value is broadcast and cast."""
    kind = type(key)
    if type(value) in _NUMBERS and (kind is int or (kind is slice and key.step is None)):
        array = self._array
        dtype = array.dtype
        small = dtype is F64 or (dtype is F32 and -_LARGE < value < _LARGE)
        if small and is_plain_write(self):
            try:
                array[key] = value
            except (IndexError, TypeError):
                pass  # said in our words below
            else:
                bump(self, "__setitem__")
                return
    if kind is bool:
        if key:
            _assign(unsqueeze(self, 0), value)
        return
    items = items_of(key)
    if BASIC.issuperset(map(type, items)) and items.count(...) <= 1:
        _assign_basic(self, items, value)
    else:
        _assign_indexed(self, items, value)


def _assign_basic(self: Any, items: list[Any], value: Any) -> None:
    """Assign by a key of ints, slices, None and `...`."""
    named = sum(map(spans, items))
    _check_count(self, named)
    key = [slice(*plain_slice(item)) if type(item) is slice else item for item in items]
    if Ellipsis not in items:
        key.append(...)  # keeps a part of no dimensions an array
    try:
        part = self._array[tuple(key)]
    except IndexError as error:
        raise IndexError(f"{error} (the tensor has shape {self._array.shape})") from None
    if part.shape == self._array.shape and _SLICES.issuperset(map(type, items)):
        _assign(self, value)
        return
    if isinstance(value, Tensor) and _is_itself(self, part, value):
        bump(self, "__setitem__")  # `t[key] += y` has already written there
        return
    mode = get_mode()
    if mode is fast.no_grad or (mode is fast.plain and self._node.__class__ is not View):
        _assign_part(self, tuple(key), part, value)
    else:
        _assign(_basic_part(self, items)[0], value)


def _is_itself(self: Any, part: Array, value: Any) -> bool:
    """Whether `value` is a view of exactly `part`, so that writing it changes nothing."""
    info, own = value._node, self._node
    return (
        info.__class__ is View
        and info.base is (own.base if own.__class__ is View else self)
        and info.creation is DEFAULT
        and info.node.__class__ is not Leaf
        and value._array.shape == part.shape
        and value._array.strides == part.strides
        and value._array.dtype is part.dtype
        and address(value._array) == address(part)
    )


def _assign(target: Any, value: Any) -> None:
    """Write `value` over all of `target`."""
    if not isinstance(value, Tensor):
        number = _checked_number(target, value)
        value = wrap(number_array("__setitem__", number, target._array.dtype))
    if value._array.ndim == 0:
        fill_(target, value)
    else:
        copy_(target, _trimmed(value, target._array.ndim))


def _checked_number(target: Any, value: Any) -> Any:
    if isinstance(value, numbers.Number) and not isinstance(value, numpy.inexact):
        return value
    if isinstance(value, float | complex):  # numpy.float64 and numpy.complex128 are these as well
        return value
    raise TypeError(
        f"cannot assign a {type(value).__name__} to a tensor of {target.dtype}; assign a tensor or a "
        "Python number (torch.as_tensor() makes tensors of lists and arrays)."
    )


def _trimmed(value: Any, ndim: int) -> Any:
    """`value` without leading dimensions of size 1, where it has more dimensions than its place."""
    shape = value._array.shape
    extra = len(shape) - ndim
    if extra <= 0 or any(size != 1 for size in shape[:extra]):
        return value
    return reshape(value, shape[extra:])


def _assign_part(self: Any, key: tuple[Any, ...], part: Array, value: Any) -> None:
    """Write to `part`, a view of the tensor's array, and enter that in the tensor's history."""
    if isinstance(value, Tensor):
        value = _trimmed(value, part.ndim)
        source, tracked = value._array, value.requires_grad
    else:
        source = number_array("__setitem__", _checked_number(self, value), part.dtype)
        tracked = False
    if 0 in part.strides and has_overlap(part):
        raise errors.overlapping_write("__setitem__")
    if self.is_inference():
        _assign(getitem(self, key), value)  # refuses, and says why
        return
    recorded = get_mode().grad and part.dtype.kind in "fcV" and (tracked or self.requires_grad)
    if recorded and self._node.__class__ is Leaf:
        raise errors.leaf_view_written("__setitem__")
    check_no_partial_overlap("__setitem__", part, source)
    edge = edge_of(value) if recorded and tracked else None
    store(part, source)
    bump(self, "__setitem__")
    if recorded:
        _record(self, key, part, source.dtype, edge)


def _record(self: Any, key: tuple[Any, ...], part: Array, dtype: Any, edge: Any) -> None:
    """Make the write of `part`, from a source of `dtype` that `edge` leads to, the history."""
    if edge is None:
        inner: Any = node_class(_refill.op)()
        inner._edges = (None,)
    else:
        inner = node_class(_copy.op)()  # type: ignore[attr-defined]  # a declared operator
        inner._edges = (None, edge)
        inner.s_src_dtype = dtype
    inner._cold = None
    inner._g_shape, inner._g_dtype = part.shape, part.dtype
    frame = user_frame(getframe(1))
    inner._code, inner._lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
    inner._seq = next_seq()
    node = CopySlices()
    node._cold = None
    node.inner = inner
    node.key = key
    node._edges = (edge_of(self), *inner._edges[1:])
    node._g_shape, node._g_dtype = self._array.shape, self._array.dtype
    node._code, node._lasti = inner._code, inner._lasti
    node._seq = next_seq()
    inplace._move_retention(self, node)
    self._node = node


class CopySlices(inplace.CopySlices):
    """A write to what a basic key names: as its parent, with the key saying where."""

    __slots__ = ("key",)

    key: tuple[Any, ...]

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arrays: a copy of the base's gradient, its slice replaced."""
        whole = numpy.array(g, order="C")
        part = whole[self.key]
        results = self._inner()._run(part.copy(), edges)
        part[...] = 0 if results[0] is None else results[0]
        return (whole, *results[1:])

    def _part(self, whole: Tensor) -> Tensor:
        return getitem(whole, self.key)  # type: ignore[no-any-return]


def _assign_indexed(self: Any, items: list[Any], value: Any) -> None:
    """Assign by a key with index tensors or masks."""
    part, indices, dims = _basic_part(self, items)
    if not dims:
        _assign(part, value)
        return
    if not isinstance(value, Tensor):
        number = _checked_number(self, value)
        value = wrap(number_array("__setitem__", number, self._array.dtype))
    elif value._array.ndim:
        leading = [dim for dim, size in enumerate(value._array.shape) if size != 1]
        value = _trimmed(value, value._array.ndim - (leading[0] if leading else value._array.ndim))
    elif len(indices) == 1 and indices[0]._array.dtype.kind == "b":
        value = astype(value, self._array.dtype)
    _check_dtype(self, value)
    _put(part, tuple(indices), value, tuple(dims))


_NUMBERS = frozenset((int, float))
_LARGE = 3e38  # below the largest float32
_SLICES = frozenset((slice, type(Ellipsis)))

# Python's brackets, for methods.py.
DUNDERS = {"__getitem__": getitem, "__setitem__": setitem}
