"""Tensors taken apart along a dimension, and joined again: each is the other's adjoint."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pullback.core.promotion import common_dtype
from pullback.core.tensor import Tensor
from pullback.operators import batch_shapes
from pullback.operators.declare import (
    Array,
    Arrays,
    Dim,
    Namespace,
    linear,
    method,
    primitive,
    view,
)
from pullback.operators.options import as_dim, as_shape, numpy_spelled
from pullback.operators.shape import reshape
from pullback.operators.views import slice_along

__all__ = [
    "cat",
    "chunk",
    "narrow",
    "split",
    "split_with_sizes",
    "stack",
    "tensor_split",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
]


# Parts -------------------------------------------------------------------------------------------


@method
@numpy_spelled
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements of dimension `dim`, from `start` on."""
    at = as_dim(dim, input.ndim, "narrow")
    if input.ndim == 0:
        raise RuntimeError("narrow: a 0-d tensor has no dimension to narrow.")
    size = input.shape[at]
    start = int(start)
    if not -size <= start <= size:
        raise IndexError(f"narrow: start {start} is outside of dimension {at} of size {size}.")
    first = start + size if start < 0 else start
    if length < 0 or first + length > size:
        raise RuntimeError(
            f"narrow: {length} elements from {first} on do not fit dimension {at} of size {size}."
        )
    return slice_along(input, at, first, first + length, 1)


@view(
    input=lambda g, sizes, dim: cat(g, dim),
    outputs="*",
    node="SplitWithSizesBackward0",
    method=False,
)
def _split_with_sizes(xp: Namespace, input: Array, sizes: Any, dim: Dim) -> Any:
    parts, start = [], 0
    for size in sizes:
        parts.append(input[(slice(None),) * dim + (slice(start, start + size),)])
        start += size
    return parts


@view(input=lambda g, sizes, dim: cat(g, dim), outputs="*", node="SplitBackward0", method=False)
def _split(xp: Namespace, input: Array, sizes: Any, dim: Dim) -> Any:
    return _split_with_sizes.op.forward(xp, input, sizes, dim)  # type: ignore[attr-defined]


@linear(
    input=lambda g, sizes, dim: cat(g, dim),
    outputs="*",
    node="UnsafeSplitBackward0",
    method=False,
)
def _unsafe_split(xp: Namespace, input: Array, sizes: Any, dim: Dim) -> Any:
    parts = _split_with_sizes.op.forward(xp, input, sizes, dim)  # type: ignore[attr-defined]
    return [part.copy() for part in parts]


@method
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Views of the given sizes along `dim`."""
    at = as_dim(dim, input.ndim, "split")
    sizes = as_shape(split_sizes, 0, "split")
    total = input.shape[at] if input.ndim else 1
    if sum(sizes) != total or any(n < 0 for n in sizes):
        raise RuntimeError(
            f"split: sizes {list(sizes)} add up to {sum(sizes)}, but dimension {at} has size "
            f"{total}."
        )
    return _split_with_sizes(input, sizes, at)


@method
def split(
    input: Any, split_size: Any = None, dim: int = 0, *, split_size_or_sections: Any = None
) -> Any:
    """Views along `dim`: of `split_size` each (the last may be smaller), or of the listed sizes."""
    size = split_size if split_size is not None else split_size_or_sections
    if not isinstance(size, int):
        return split_with_sizes(input, size, dim)
    sizes, at = _equal_sizes(input, size, dim)
    return _split(input, sizes, at)


def _equal_sizes(input: Any, size: int, dim: int) -> tuple[tuple[int, ...], int]:
    """The sizes of the parts, and the dimension."""
    shape = input.shape
    if not shape:
        raise RuntimeError("split: a 0-d tensor has no dimension to split.")
    at = as_dim(dim, len(shape), "split")
    length = shape[at]
    if size < 0 or (size == 0 and length):
        raise RuntimeError(f"split: split_size must be positive, got {size}.")
    count = max(-(-length // size), 1) if size else 1
    return (size,) * (count - 1) + (length - size * (count - 1),), at


@method
def unsafe_split(input: Any, split_size: int, dim: int = 0) -> Any:
    """As `split`, of tensors that may be written to: they are no views of each other's base."""
    return _unsafe_split(input, *_equal_sizes(input, split_size, dim))


@method
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """As `chunk`, of tensors that may be written to."""
    return unsafe_split(input, *_chunk_size("unsafe_chunk", input, chunks, dim))


@method
@numpy_spelled
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """At most `chunks` views along `dim`, of equal size but for the last."""
    size, at = _chunk_size("chunk", input, chunks, dim)
    if size == 0:
        return _split_with_sizes(input, (0,) * chunks, at)
    sizes, at = _equal_sizes(input, size, at)
    return _split(input, sizes, at)


def _chunk_size(op: str, input: Any, chunks: int, dim: int) -> tuple[int, int]:
    shape = input.shape
    if not shape:
        raise RuntimeError(f"{op}: a 0-d tensor has no dimension to split.")
    if chunks <= 0:
        raise RuntimeError(f"{op}: chunks must be positive, got {chunks}.")
    at = as_dim(dim, len(shape), op)
    return -(-shape[at] // chunks), at


@method
@numpy_spelled
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Views along `dim`: so many of nearly equal size, or cut at the given places."""
    at = as_dim(dim, input.ndim, "tensor_split")
    if input.ndim == 0:
        raise RuntimeError("tensor_split: a 0-d tensor has no dimension to split.")
    length = input.shape[at]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0:
            raise RuntimeError(
                f"tensor_split: sections must be positive, got {indices_or_sections}."
            )
        small, larger = divmod(length, indices_or_sections)
        sizes = [small + (i < larger) for i in range(indices_or_sections)]
        cuts = [sum(sizes[:i]) for i in range(1, len(sizes))]
    else:
        cuts = list(indices_or_sections)
    edges = [0, *cuts, length]
    return tuple(
        slice_along(input, at, start, stop, 1) for start, stop in itertools.pairwise(edges)
    )


@view(input=lambda g, dim: stack(g, dim), outputs="*")
def unbind(xp: Namespace, input: Array, dim: Dim = 0) -> Any:
    """The slices along `dim`, as a tuple of views."""
    if input.ndim == 0:
        raise IndexError("unbind: a 0-d tensor has no dimension to take apart.")
    before = (slice(None),) * dim
    return [input[(*before, i, ...)] for i in range(input.shape[dim])]


# Joins -------------------------------------------------------------------------------------------


def _with_zeros(tangents: Any, tensors: Any) -> list[Any]:
    """Tangents of a sequence, zeros for those that have none."""
    return [
        tensor.new_zeros(tensor.shape) if tangent is None else tangent
        for tangent, tensor in zip(tangents, tensors, strict=True)
    ]


def _cat_adjoint(g: Any, tensors_shape: Any, dim: int) -> Any:
    parts: list[Any] = []
    start = 0
    for shape in tensors_shape:
        if tuple(shape) == (0,) and g.ndim != 1:  # the empty 1-d tensor that every cat accepts
            parts.append(slice_along(reshape(g, (-1,)), 0, 0, 0, 1))
            continue
        parts.append(slice_along(g, dim, start, start + shape[dim], 1))
        start += shape[dim]
    return parts


@primitive(
    batch=batch_shapes.joined,
    tensors=lambda g, tensors_shape, dim: _cat_adjoint(g, tensors_shape, dim),
    jvp=lambda d_tensors, tensors, dim: cat(_with_zeros(d_tensors, tensors), dim),
    name="cat",
    node="CatBackward0",
    method=False,
)
def _cat(xp: Namespace, tensors: Arrays, dim: int) -> Array:
    if _is_mixed(tensors):
        dtype = common_dtype(tensors)
        tensors = [one.astype(dtype, copy=False) for one in tensors]
    try:
        return xp.concatenate(tensors, dim)
    except ValueError:
        shaped = [one for one in tensors if one.shape != (0,)]  # which every cat accepts
        _check_joined(shaped, dim)
        return xp.concatenate(shaped, dim)


def _is_mixed(arrays: Sequence[Any]) -> bool:
    """Whether dtypes differ; torch's common one is not always NumPy's."""
    first = arrays[0].dtype
    for one in arrays:  # noqa: SIM110 (`any` over a generator takes twice as long)
        if one.dtype != first:
            return True
    return False


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
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("cat: expected a non-empty list of tensors.")
    at = dim if axis is None else axis
    if not (type(at) is int and 0 <= at < tensors[0].ndim):
        # The empty 1-d tensor that every cat accepts does not say which dimensions there are.
        shaped = [one for one in tensors if one.shape != (0,)]
        at = as_dim(at, (shaped or tensors)[0].ndim, "cat")
    return _cat(tensors, at) if out is None else _cat(tensors, at, out=out)


@primitive(
    batch=batch_shapes.joined,
    tensors=lambda g, dim: unbind(g, dim),
    jvp=lambda d_tensors, tensors, dim: stack(_with_zeros(d_tensors, tensors), dim),
    name="stack",
    node="StackBackward0",
    method=False,
)
def _stack(xp: Namespace, tensors: Arrays, dim: int) -> Array:
    shape = tensors[0].shape
    for number, one in enumerate(tensors):
        if one.shape != shape:
            raise RuntimeError(
                f"stack: all tensors must have equal shapes; tensor 0 has {shape}, tensor {number} "
                f"has {one.shape}."
            )
    if _is_mixed(tensors):
        dtype = common_dtype(tensors)
        tensors = [one.astype(dtype, copy=False) for one in tensors]
    where = (slice(None),) * dim + (None,)
    return xp.concatenate([one[where] for one in tensors], dim)


def stack(tensors: Any, dim: int = 0, *, out: Any = None, axis: int | None = None) -> Any:
    """Join tensors of one shape along a new dimension.

    >>> import pullback as torch
    >>> torch.stack([torch.ones(2), torch.zeros(2)])
    tensor([[1., 1.],
            [0., 0.]])
    """
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack: expected a non-empty list of tensors.")
    at = as_dim(dim if axis is None else axis, tensors[0].ndim + 1, "stack")
    return _stack(tensors, at) if out is None else _stack(tensors, at, out=out)
