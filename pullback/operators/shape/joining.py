"""Tensors taken apart along a dimension, and joined again: each is the other's adjoint."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy
from numpy import ndarray

from pullback.core.dtype import int64
from pullback.core.promotion import common_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays.direct import concatenate
from pullback.operators.arrays.formats import joined_in_order
from pullback.operators.arrays.row_major import in_order
from pullback.operators.conditions import at_most, given, host
from pullback.operators.declare import (
    Array,
    Arrays,
    Dim,
    Namespace,
    kernel,
    linear,
    method,
    primitive,
    quick,
    view,
)
from pullback.operators.options import (
    also_called,
    as_dim,
    as_int,
    as_shape,
    check_int,
    numpy_spelled,
)
from pullback.operators.shape import batch as batch_shapes
from pullback.operators.shape.reshaping import reshape
from pullback.operators.shape.views import slice_along

FOUND_IN = {
    "torch": """
        cat chunk concat=cat concatenate=cat narrow split split_with_sizes stack
        tensor_split unsafe_chunk unsafe_split unsafe_split_with_sizes
    """
}


# Parts -------------------------------------------------------------------------------------------


@method
@numpy_spelled
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements of dimension `dim`, from `start` on.

    >>> import pullback as torch
    >>> torch.narrow(torch.tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """
    shape = input._array.shape
    at = as_dim(dim, len(shape), "narrow")
    if not shape:
        raise RuntimeError("narrow: a 0-d tensor has no dimension to narrow.")
    size = shape[at]
    if isinstance(start, Tensor) and (start.ndim or start._array.dtype.kind not in "iu"):
        raise RuntimeError("narrow: a start that is a tensor must be a 0-d tensor of integers.")
    start, length = as_int(start, "narrow", "start"), as_int(length, "narrow", "length")
    if not -size <= start <= size:
        raise IndexError(f"narrow: start {start} is outside of dimension {at} of size {size}.")
    first = start + size if start < 0 else start
    if length < 0 or first + length > size:
        raise RuntimeError(
            f"narrow: {length} elements from {first} on do not fit dimension {at} of size {size}."
        )
    return slice_along(input, at, first, first + length, 1)


# The parts are of one node, whose rule joins their gradients again.


@view(
    input=lambda g, dim: cat(g, dim),
    outputs="*",
    node="SplitWithSizesBackward0",
    method=False,
    aten="split_with_sizes.default",
    aten_defaults={"dim": 0},
)
def _split_with_sizes(xp: Namespace, input: Array, sizes: Any, dim: Dim) -> Any:
    before = (slice(None),) * dim
    parts, start = [], 0
    for size in sizes:
        stop = start + size
        parts.append(input[(*before, slice(start, stop))])
        start = stop
    return parts


@view(input=lambda g, dim: cat(g, dim), outputs="*", node="SplitBackward0", method=False)
def _split(xp: Namespace, input: Array, split_size: int, dim: Dim) -> Any:
    if not input.ndim:
        raise RuntimeError("split: a 0-d tensor has no dimension to split.")
    length = input.shape[dim]
    if split_size <= 0 and (split_size or length):
        raise RuntimeError(f"split: split_size must be positive, got {split_size}.")
    starts = range(0, length or 1, split_size or 1)
    if dim == 0:
        parts = []
        for start in starts:
            parts.append(input[start : start + split_size])  # noqa: PERF401 (few: a call is longer)
        return parts
    before = (slice(None),) * dim
    return [input[(*before, slice(start, start + split_size))] for start in starts]


@linear(input=lambda g, dim: cat(g, dim), outputs="*", node="UnsafeSplitBackward0", method=False)
def _unsafe_split(xp: Namespace, input: Array, split_size: int, dim: Dim) -> Any:
    parts = _split.op.forward(xp, input, split_size, dim)  # type: ignore[attr-defined]  # declared
    return [part.copy() for part in parts]


@linear(
    input=lambda g, dim: cat(g, dim),
    outputs="*",
    node="UnsafeSplitWithSizesBackward0",
    method=False,
    aten="unsafe_split_with_sizes.default",
    aten_defaults={"dim": 0},
)
def _unsafe_split_with_sizes(xp: Namespace, input: Array, sizes: Any, dim: Dim) -> Any:
    parts = _split_with_sizes.op.forward(xp, input, sizes, dim)  # type: ignore[attr-defined]  # declared
    return [part.copy() for part in parts]


@method
@numpy_spelled
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Views of the given sizes along `dim`.

    >>> import pullback as torch
    >>> torch.split_with_sizes(torch.arange(4), [1, 3])
    (tensor([0]), tensor([1, 2, 3]))
    """
    return _split_with_sizes(input, *_checked_sizes(input, split_sizes, dim))


@method
@numpy_spelled
def unsafe_split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """As `split_with_sizes`, of tensors that may be written to: they are no views.

    >>> import pullback as torch
    >>> torch.unsafe_split_with_sizes(torch.arange(4), [1, 3])
    (tensor([0]), tensor([1, 2, 3]))
    """
    return _unsafe_split_with_sizes(input, *_checked_sizes(input, split_sizes, dim))


def _checked_sizes(input: Any, split_sizes: Sequence[int], dim: int) -> tuple[Any, int]:
    """The sizes, which must add up, and the dimension."""
    shape = input._array.shape
    at = as_dim(dim, len(shape), "split")
    if not shape:
        raise RuntimeError("split: a 0-d tensor has no dimension to split.")
    sizes = as_shape(split_sizes, 0, "split")
    total = shape[at]
    if sum(sizes) != total or any(n < 0 for n in sizes):
        raise RuntimeError(
            f"split: sizes {list(sizes)} add up to {sum(sizes)}, but dimension {at} has size "
            f"{total}."
        )
    return sizes, at


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Views along `dim`: of one size each (the last may be smaller), or of the listed sizes.

    >>> import pullback as torch
    >>> torch.split(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if isinstance(split_size_or_sections, Tensor) and split_size_or_sections.ndim == 0:
        split_size_or_sections = int(split_size_or_sections)
    if isinstance(split_size_or_sections, int):
        check_int(split_size_or_sections, "split", "split_size_or_sections")
        return _split(tensor, split_size_or_sections, dim)
    if not isinstance(split_size_or_sections, Sequence):
        raise TypeError(
            "split(): argument `split_size_or_sections` must be an int or a sequence of ints, got "
            f"{type(split_size_or_sections).__name__}."
        )
    return split_with_sizes(tensor, split_size_or_sections, dim)


def _split_method(self: Any, split_size: Any, dim: int = 0) -> Any:
    """Views along `dim`: of `split_size` each (the last may be smaller), or of the listed sizes.

    >>> import pullback as torch
    >>> torch.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return split(self, split_size, dim)


_split_method.__name__ = _split_method.__qualname__ = "split"
method(_split_method)


@method
@numpy_spelled
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> Any:
    """As `split`, of tensors that may be written to: they are no views of each other's base.

    >>> import pullback as torch
    >>> torch.unsafe_split(torch.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    check_int(split_size, "unsafe_split", "split_size")
    return _unsafe_split(input, split_size, dim)


@method
@numpy_spelled
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """As `chunk`, of tensors that may be written to.

    >>> import pullback as torch
    >>> torch.unsafe_chunk(torch.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    size = _chunk_size("unsafe_chunk", input, chunks, dim)
    if not size:
        return _unsafe_split_with_sizes(input, (0,) * chunks, dim)
    return _unsafe_split(input, size, dim)


@method
def chunk(input: Any, chunks: int, dim: int = 0, *, axis: int | None = None) -> Any:
    """At most `chunks` views along `dim`, of equal size except perhaps the last.

    >>> import pullback as torch
    >>> torch.chunk(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    at = dim if axis is None else axis
    size = _chunk_size("chunk", input, chunks, at)
    return _split(input, size, at) if size else _split_with_sizes(input, (0,) * chunks, at)


def _chunk_size(op: str, input: Any, chunks: int, dim: int) -> int:
    """How many elements along `dim` a chunk has; the last may have fewer."""
    shape: tuple[int, ...] = input._array.shape
    if not shape:
        raise RuntimeError(f"{op}: a 0-d tensor has no dimension to split.")
    if chunks.__class__ is not int:
        check_int(chunks, op, "chunks")
    if chunks <= 0:
        raise RuntimeError(f"{op}: chunks must be positive, got {chunks}.")
    if not (dim.__class__ is int and 0 <= dim < len(shape)):
        dim = as_dim(dim, len(shape), op)
    return -(-shape[dim] // chunks)


@method
@numpy_spelled
@also_called(
    sections="indices_or_sections",
    indices="indices_or_sections",
    tensor_indices_or_sections="indices_or_sections",
)
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Views along `dim`: so many of nearly equal size, or cut at the given places.

    >>> import pullback as torch
    >>> torch.tensor_split(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    shape = input._array.shape
    at = as_dim(dim, len(shape), "tensor_split")
    if not shape:
        raise RuntimeError("tensor_split: a 0-d tensor has no dimension to split.")
    if isinstance(indices_or_sections, Tensor):
        given = indices_or_sections
        if given.dtype is not int64 or given.ndim > 1 or given.device.type != "cpu":
            raise RuntimeError(
                "tensor_split: a tensor of places must be int64, on the CPU, and have at most one "
                f"dimension; got {given.dtype} on {given.device}, shape {tuple(given.shape)}."
            )
        indices_or_sections = given.tolist()
    if type(indices_or_sections) not in (int, tuple, list):
        indices_or_sections = as_int(indices_or_sections, "tensor_split", "indices_or_sections")
    if isinstance(indices_or_sections, int):
        cuts = _even_cuts(shape[at], indices_or_sections)
    else:
        cuts = list(indices_or_sections)
    edges = [0, *cuts, shape[at]]
    return tuple(
        slice_along(input, at, start, stop, 1) for start, stop in itertools.pairwise(edges)
    )


_MOST_PARTS = 2**31


def _even_cuts(length: int, sections: int) -> list[int]:
    """Where to cut for parts of equal size, the first of them larger by one where need be."""
    if sections <= 0:
        raise RuntimeError(f"tensor_split: sections must be positive, got {sections}.")
    if sections > _MOST_PARTS:
        raise RuntimeError(f"tensor_split: there is no memory for {sections} views.")
    small, larger = divmod(length, sections)
    return [part * small + min(part, larger) for part in range(1, sections)]


def _together(g: Any, dim: int) -> Any:
    """The gradients of slices in one; a device sees where they are that already."""
    return stack(g, dim)


@view(input=lambda g, dim: _together(g, dim), outputs="*", aten="unbind.int")
def unbind(xp: Namespace, input: Array, dim: Dim = 0) -> Any:
    """The slices along `dim`, as a tuple of views.

    >>> import pullback as torch
    >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    if input.ndim == 0:
        raise IndexError("unbind: a 0-d tensor has no dimension to take apart.")
    if dim == 0 and input.ndim > 1:
        return list(input)
    before = (slice(None),) * dim
    return [input[(*before, i, ...)] for i in range(input.shape[dim])]


# Joins -------------------------------------------------------------------------------------------


def _listed(op: str, tensors: Any) -> Any:
    """The sequence of tensors that a join takes."""
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{op}(): argument `tensors` must be a tuple or list of Tensors, got a Tensor. Put the "
            f"tensors in a list, {op}([a, b]), or take one apart by unbind()."
        )
    return tuple(tensors)


def _with_zeros(tangents: Any, tensors: Any) -> list[Any]:
    """Tangents of a sequence, zeros for those that have none."""
    return [
        tensor.new_zeros(tensor.shape) if tangent is None else tangent
        for tangent, tensor in zip(tangents, tensors, strict=True)
    ]


def _common(arrays: Sequence[Any]) -> Sequence[Any]:
    """Arrays in torch's common dtype, which is not always NumPy's."""
    dtype = common_dtype(arrays)
    return [one.astype(dtype, copy=False) for one in arrays]


def _cat_adjoint(g: Any, tensors_shape: Any, dim: int) -> Any:
    if dim < 0:
        dim += g.ndim
    parts: list[Any] = []
    start = 0
    for shape in tensors_shape:
        if len(shape) == 1 and shape[0] == 0:  # the empty 1-d tensor that every cat accepts
            parts.append(slice_along(reshape(g, (-1,)), 0, 0, 0, 1))
            continue
        stop = start + shape[dim]
        parts.append(slice_along(g, dim, start, stop, 1))
        start = stop
    return parts


@primitive(
    casts_out=True,
    batch=batch_shapes.joined,
    tensors=lambda g, tensors_shape, dim: _cat_adjoint(g, tensors_shape, dim),
    jvp=lambda d_tensors, tensors, dim: cat(_with_zeros(d_tensors, tensors), dim),
    name="cat",
    node="CatBackward0",
    method=False,
    aten_defaults={"dim": 0},
)
def _cat(xp: Namespace, tensors: Arrays, dim: int) -> Array:
    join = concatenate
    for one in tensors:  # `are_plain` in line
        if type(one) is not ndarray:
            join = xp.concatenate
    try:
        joined = join(tensors, dim) if dim else join(tensors)
    except (ValueError, TypeError):  # shapes that do not fit, or dtypes that NumPy does not mix
        return _joined_with_care(xp, tensors, dim)
    # The dtype that all others fit into is torch's choice too; any other is looked at again.
    if joined.dtype is tensors[0].dtype and joined.flags.c_contiguous:
        return joined
    return _joined_with_care(xp, tensors, dim)


def _joined_with_care(xp: Namespace, arrays: Sequence[Any], dim: int) -> Array:
    arrays = _common(arrays)
    shaped = [one for one in arrays if one.shape != (0,)]  # which every cat accepts
    if not shaped:
        return arrays[0].copy()
    _check_joined(shaped, as_dim(dim, shaped[0].ndim, "cat"))
    return joined_in_order(xp.concatenate(shaped, dim), shaped)


def _check_joined(arrays: Sequence[Any], dim: int) -> None:
    """Refuse shapes that differ elsewhere than in `dim`."""
    shape = arrays[0].shape
    if not shape:
        raise RuntimeError("cat: 0-d tensors cannot be joined; use stack.")
    for number, one in enumerate(arrays):
        found = one.shape
        if found[:dim] != shape[:dim] or found[dim + 1 :] != shape[dim + 1 :]:
            raise RuntimeError(
                f"cat: sizes of tensors must match except in dimension {dim}; tensor 0 has shape "
                f"{shape}, tensor {number} has shape {found}."
            )


def cat(tensors: Any, dim: int = 0, *, out: Any = None, axis: int | None = None) -> Any:
    """Join tensors along an existing dimension.

    >>> import pullback as torch
    >>> torch.cat([torch.ones(2), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    if tensors.__class__ is not list and tensors.__class__ is not tuple:
        tensors = _listed("cat", tensors)
    if not tensors:
        raise ValueError("cat: expected a non-empty list of tensors.")
    at = dim if axis is None else axis
    if type(at) is not int:
        at = as_int(at, "cat", "dim")
    return _cat(tensors, at) if out is None else _cat(tensors, at, out=out)


quick(cat)  # here: mypy takes no decorated function in the rules above


_FEW = 16  # arrays: numpy.array takes 0.6 us for two, joined and taken apart they take 0.8


@primitive(
    casts_out=True,
    batch=batch_shapes.joined,
    tensors=lambda g, dim: unbind(g, dim if dim >= 0 else dim + g.ndim),
    jvp=lambda d_tensors, tensors, dim: stack(_with_zeros(d_tensors, tensors), dim),
    name="stack",
    node="StackBackward0",
    method=False,
    aten_defaults={"dim": 0},
)
def _stack(xp: Namespace, tensors: Arrays, dim: int) -> Array:
    shape = tensors[0].shape
    if not 0 <= dim <= len(shape):
        dim = as_dim(dim, len(shape) + 1, "stack")
    join = concatenate
    for one in tensors:
        if one.shape != shape:
            number = next(n for n, other in enumerate(tensors) if other is one)
            raise RuntimeError(
                f"stack: all tensors must have equal shapes; tensor 0 has {shape}, tensor {number} "
                f"has {one.shape}."
            )
        if type(one) is not ndarray:
            join = xp.concatenate
    try:
        stacked = _stacked(join, tensors, dim, shape)
    except TypeError:  # dtypes that NumPy does not mix
        return in_order(_stacked(join, _common(tensors), dim, shape))
    # As in `_cat`: the dtype that all others fit into is torch's choice too.
    if stacked.dtype is not tensors[0].dtype:
        stacked = _stacked(join, _common(tensors), dim, shape)
    return stacked if stacked.flags.c_contiguous else in_order(stacked)


@kernel(_stack, when=host & given(dim=0) & at_most(_FEW, "len(tensors)"), declines=True)
def _few_stacked(tensors: Sequence[Any]) -> Array | None:
    first = tensors[0]
    shape = first.shape
    for one in tensors:
        if one.shape != shape or type(one) is not ndarray:
            return None
    try:
        stacked = numpy.array(tensors)
    except TypeError:  # dtypes that NumPy does not mix
        return None
    return stacked if stacked.dtype is first.dtype else None


def _stacked(join: Any, arrays: Sequence[Any], dim: int, shape: tuple[int, ...]) -> Any:
    count = len(arrays)
    if dim < len(shape):  # joined along that dimension, and taken apart there
        return join(arrays, dim).reshape((*shape[:dim], count, *shape[dim:]))
    return join([one[..., None] for one in arrays], dim)


def stack(tensors: Any, dim: int = 0, *, out: Any = None, axis: int | None = None) -> Any:
    """Join tensors of one shape along a new dimension.

    >>> import pullback as torch
    >>> torch.stack([torch.ones(2), torch.zeros(2)])
    tensor([[1., 1.],
            [0., 0.]])
    """
    if tensors.__class__ is not list and tensors.__class__ is not tuple:
        tensors = _listed("stack", tensors)
    if not tensors:
        raise RuntimeError("stack: expected a non-empty list of tensors.")
    at = dim if axis is None else axis
    if type(at) is not int:
        at = as_int(at, "stack", "dim")
    return _stack(tensors, at) if out is None else _stack(tensors, at, out=out)


quick(stack)
