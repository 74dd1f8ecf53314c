"""Joining, splitting and repeating in torch's many spellings.

Plain functions of cat, stack and views.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core import errors, origin
from pullback.core.addresses import as_counts, finds_indices
from pullback.core.arrays import Array, is_wrong, namespace
from pullback.core.layout import contiguous_format, empty_like
from pullback.core.size import Size
from pullback.core.tensor import Tensor, wrap
from pullback.operators.batching import per_dim
from pullback.operators.create.constants import constant_like
from pullback.operators.declare import REQUIRED, Namespace, linear, method
from pullback.operators.indexing.assignment import getitem
from pullback.operators.indexing.rows import index_select
from pullback.operators.options import also_called, as_dim, as_int, numpy_spelled
from pullback.operators.running.by_example import each_example, level_reading
from pullback.operators.shape.joining import cat, stack, tensor_split
from pullback.operators.shape.reshaping import clone, expand, flatten, reshape, unsqueeze
from pullback.operators.shape.tiling import flip

FOUND_IN = {
    "torch": """
        atleast_2d atleast_3d broadcast_shapes broadcast_tensors cartesian_prod column_stack
        combinations dsplit dstack fliplr flipud hsplit hstack meshgrid repeat_interleave
        rot90 row_stack=vstack vsplit vstack
    """
}

concat = concatenate = cat


def _listed(op: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors given one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], Sequence):
        tensors = tuple(tensors[0])
    return _checked(op, tensors)


def _checked(op: str, tensors: Any) -> tuple[Any, ...]:
    """A sequence of tensors; TypeError where it is not one."""
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{op}(): argument `tensors` must be a tuple or list of Tensors, got a Tensor. Put the "
            f"tensors in a list, {op}([a, b]), or take one apart by unbind()."
        )
    for one in tensors:
        if not isinstance(one, Tensor):
            raise errors.not_a_tensor(op, "tensors", one)
    return tuple(tensors)


def _each(op: str, function: Any, tensors: tuple[Any, ...]) -> Any:
    made = tuple(function(one) for one in _listed(op, tensors))
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


def atleast_2d(*tensors: Any) -> Any:
    """Tensors of fewer than 2 dimensions get leading ones.

    >>> import pullback as torch
    >>> torch.atleast_2d(torch.tensor([1.0, 2.0])).shape
    torch.Size([1, 2])
    """
    return _each("atleast_2d", _as_matrix, tensors)


def _as_matrix(t: Any) -> Any:
    if t.ndim > 1:
        return t
    return unsqueeze(t, 0) if t.ndim else reshape(t, (1, 1))


def atleast_3d(*tensors: Any) -> Any:
    """Tensors of fewer than 3 dimensions get ones.

    A vector becomes (1, n, 1), a matrix (m, n, 1).

    >>> import pullback as torch
    >>> torch.atleast_3d(torch.tensor([1.0, 2.0])).shape
    torch.Size([1, 2, 1])
    """
    return _each("atleast_3d", _as_cube, tensors)


def _as_cube(t: Any) -> Any:
    if t.ndim > 2:
        return t
    if t.ndim == 2:
        return unsqueeze(t, 2)
    return unsqueeze(unsqueeze(t, 0), 2) if t.ndim else reshape(t, (1, 1, 1))


# Joining -----------------------------------------------------------------------------------------


def hstack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the second dimension; vectors along their only one.

    >>> import pullback as torch
    >>> torch.hstack([torch.tensor([1, 2]), torch.tensor([3])])
    tensor([1, 2, 3])
    """
    raised = [t if t.ndim else reshape(t, (1,)) for t in _joinable("hstack", tensors)]
    return cat(raised, 0 if raised[0].ndim == 1 else 1, out=out)


def vstack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the first dimension; vectors are rows.

    >>> import pullback as torch
    >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat([_as_matrix(t) for t in _joinable("vstack", tensors)], 0, out=out)


def dstack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the third dimension.

    >>> import pullback as torch
    >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    return cat([_as_cube(t) for t in _joinable("dstack", tensors)], 2, out=out)


def column_stack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the second dimension; vectors are columns.

    >>> import pullback as torch
    >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    tensors = _joinable("column_stack", tensors)
    return cat([reshape(t, (t.numel(), 1)) if t.ndim <= 1 else t for t in tensors], 1, out=out)


def _joinable(op: str, tensors: Any) -> tuple[Any, ...]:
    joined = _checked(op, tensors)
    if not joined:
        raise RuntimeError(f"{op}: expected a non-empty list of tensors.")
    return joined


# Splitting ---------------------------------------------------------------------------------------


_by_sections = also_called(sections="indices_or_sections", indices="indices_or_sections")


def _split_along(op: str, input: Any, parts: Any, dim: int, ndim: int) -> tuple[Tensor, ...]:
    if input.ndim < ndim:
        raise RuntimeError(
            f"{op}: needs at least {ndim} dimensions, got shape {tuple(input.shape)}."
        )
    if not isinstance(parts, tuple | list | Tensor):
        parts = as_int(parts, op, "indices_or_sections")
    if isinstance(parts, int) and (parts <= 0 or input.shape[dim] % parts):
        raise RuntimeError(
            f"{op}: dimension {dim} of size {input.shape[dim]} cannot be split into {parts} equal "
            "parts."
        )
    made: tuple[Tensor, ...] = tensor_split(input, parts, dim)
    return made


@method
@_by_sections
def hsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along the second dimension; a vector along its only one.

    >>> import pullback as torch
    >>> torch.hsplit(torch.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1],
            [3]]), tensor([[2],
            [4]]))
    """
    return _split_along("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


@method
@_by_sections
def vsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along the first dimension.

    >>> import pullback as torch
    >>> torch.vsplit(torch.tensor([[1, 2], [3, 4]]), 2)
    (tensor([[1, 2]]), tensor([[3, 4]]))
    """
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


@method
@_by_sections
def dsplit(input: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Split along the third dimension.

    >>> import pullback as torch
    >>> [part.shape for part in torch.dsplit(torch.zeros(1, 1, 4), 2)]
    [torch.Size([1, 1, 2]), torch.Size([1, 1, 2])]
    """
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


# Broadcasting and grids --------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes broadcast to.

    >>> import pullback as torch
    >>> torch.broadcast_shapes((3, 1), (4,))
    torch.Size([3, 4])
    """
    for shape in shapes:
        if not isinstance(shape, int | Sequence):
            raise RuntimeError(
                f"broadcast_shapes: shapes are ints, or tuples or lists of ints; got {shape!r}."
            )
    listed = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    if any(size < 0 for shape in listed for size in shape):
        raise ValueError(f"broadcast_shapes: a shape has no negative sizes, got {listed}.")
    try:
        return Size(numpy.broadcast_shapes(*listed))
    except ValueError:
        raise RuntimeError(f"broadcast_shapes: {listed} do not broadcast together.") from None


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    >>> import pullback as torch
    >>> torch.broadcast_tensors(torch.tensor([[1], [2]]), torch.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    listed = _listed("broadcast_tensors", tensors)
    shape = broadcast_shapes(*(t.shape for t in listed))
    return tuple(t if t.shape == shape else expand(t, shape) for t in listed)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids from vectors: one tensor per vector, all of the grid's shape.

    >>> import pullback as torch
    >>> rows, columns = torch.meshgrid(torch.tensor([1, 2]), torch.tensor([3, 4]), indexing="ij")
    >>> rows
    tensor([[1, 1],
            [2, 2]])
    >>> columns
    tensor([[3, 4],
            [3, 4]])
    """
    listed = _listed("meshgrid", tensors)
    if not listed:
        raise RuntimeError("meshgrid: needs at least one tensor.")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}.")
    if any(t.ndim > 1 for t in listed):
        raise RuntimeError("meshgrid: tensors must have at most one dimension.")
    for what in ("dtype", "device"):
        found = {str(getattr(t, what)) for t in listed}
        if len(found) > 1:
            raise RuntimeError(
                f"meshgrid: all tensors must have the same {what}, got "
                f"{' and '.join(sorted(found))}."
            )
    if indexing is None:
        warnings.warn(
            "meshgrid: give indexing='ij', which is meant without it, or 'xy', as NumPy has it.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    swapped = indexing == "xy" and len(listed) >= 2
    order = (1, 0, *range(2, len(listed))) if swapped else tuple(range(len(listed)))
    ordered = [listed[i] for i in order]
    shape = tuple(t.numel() for t in ordered)
    grids = [
        expand(reshape(t, (1,) * i + (-1,) + (1,) * (len(shape) - i - 1)), shape)
        for i, t in enumerate(ordered)
    ]
    return tuple(grids[i] for i in order)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of the elements of vectors, one per row.

    >>> import pullback as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    listed = _listed("cartesian_prod", tensors)
    if any(t.ndim != 1 for t in listed):
        raise RuntimeError("cartesian_prod: expects 1-d tensors.")
    if len(listed) == 1:
        return listed[0]
    return stack([flatten(grid) for grid in meshgrid(*listed, indexing="ij")], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of `r` elements of a vector, in order, one per row.

    >>> import pullback as torch
    >>> torch.combinations(torch.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"combinations: expects a 1-d tensor, got {input.ndim} dimensions.")
    if r < 0:
        raise RuntimeError(f"combinations: r must not be negative, got {r}.")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if r == 0:
        return getitem(input, slice(0, 0))
    places = numpy.array(list(choose(range(input.numel()), r)), dtype=numpy.int64).reshape(-1, r)
    return stack([index_select(input, 0, constant_like(input, column)) for column in places.T], 1)


# Repeating and turning ----------------------------------------------------------------------------


@method
@numpy_spelled
def repeat_interleave(
    input: Any, repeats: Any = REQUIRED, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Repeat each element (along `dim`) the given number of times, copies side by side.

    >>> import pullback as torch
    >>> torch.tensor([1, 2]).repeat_interleave(torch.tensor([1, 3]))
    tensor([1, 2, 2, 2])
    """
    if (level := level_reading(input if repeats is REQUIRED else repeats)) is not None:
        return each_example(level, repeat_interleave, input, repeats, dim, output_size=output_size)
    if repeats is REQUIRED:
        return wrap(_repeated(input._array, len(_counts(input)), output_size))
    if dim is None:
        input, dim = flatten(input), 0
    shape = input._array.shape
    if not shape:
        raise errors.bad_dim("repeat_interleave", dim, 0)
    at = as_dim(dim, len(shape), "repeat_interleave")
    if isinstance(repeats, Tensor):
        counts, size = _counts(repeats), shape[at]
        if counts.size not in (1, size):
            raise RuntimeError(
                f"repeat_interleave: {counts.size} repeats for dimension {at} of size {size}; give "
                "one each, or one for all."
            )
        return index_select(input, at, wrap(_repeated(counts, size, output_size)))
    repeats = as_int(repeats, "repeat_interleave", "repeats")
    return _all_repeated(input, repeats, at, output_size)


def _counts(repeats: Any) -> Array:
    """How often, as integers in one dimension."""
    counts = repeats._array
    if counts.dtype.char not in "ilq":
        raise NotImplementedError(
            f"repeat_interleave: repeats must be int32 or int64, got {repeats.dtype}."
        )
    if counts.ndim > 1:
        raise RuntimeError("repeat_interleave: repeats must have at most one dimension.")
    if is_wrong(counts < 0):
        raise RuntimeError("repeat_interleave: repeats must not be negative.")
    return counts.reshape(-1)


@finds_indices()
def _repeated(counts: Array, size: int, output_size: int | None) -> Array:
    """0 to `size`, each so many times."""
    xp = namespace(counts)
    places = xp.repeat(xp.arange(size), as_counts(counts))
    _check_output(len(places), output_size)
    return places


def _check_output(found: int, output_size: int | None) -> None:
    if output_size is not None and output_size != found:
        raise RuntimeError(
            f"repeat_interleave: output_size is {output_size}, but the repeats add up to {found}."
        )


def _all_repeated(input: Any, repeats: int, dim: int, output_size: int | None) -> Any:
    if repeats < 0:
        raise RuntimeError(f"repeat_interleave: repeats must not be negative, got {repeats}.")
    shape = input._array.shape
    _check_output(shape[dim] * repeats, output_size)
    spread = expand(unsqueeze(input, dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return flatten(clone(spread, memory_format=contiguous_format), dim, dim + 1)


@method
def fliplr(input: Any) -> Any:
    """Reverse the second dimension.

    >>> import pullback as torch
    >>> torch.fliplr(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return flip(input, (1,))


@method
def flipud(input: Any) -> Any:
    """Reverse the first dimension.

    >>> import pullback as torch
    >>> torch.flipud(torch.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if input.ndim < 1:
        raise RuntimeError("flipud: needs at least 1 dimension, got a 0-d tensor.")
    return flip(input, (0,))


@linear(
    batch=per_dim("dims"),
    input=lambda g, k, dims: _rot90(g, -k, dims),
    node="Rot90Backward0",
    has_out=False,
)
def _rot90(xp: Namespace, input: Array, k: int, dims: Any) -> Array:
    turns = k % 4
    turned = [slice(None)] * input.ndim
    for dim in {0: (), 1: dims[1:], 2: dims, 3: dims[:1]}[turns]:
        turned[dim] = slice(None, None, -1)
    if input.flags.c_contiguous or not turns:
        copied = input[tuple(turned)].copy()
    else:  # in the order in which it lay, as `flip`
        copied = empty_like(xp, input)
        copied[...] = input[tuple(turned)]
    return copied.swapaxes(*dims) if turns % 2 else copied


@method
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turn `k` times by 90 degrees, from the first of two dimensions to the second.

    >>> import pullback as torch
    >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"rot90: expects two dims, got {len(dims)}.")
    if input.ndim < 2:
        raise RuntimeError(f"rot90: needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    first, second = (as_dim(dim, input.ndim, "rot90") for dim in dims)
    if first == second:
        raise RuntimeError("rot90: the two dims must differ.")
    return _rot90(input, as_int(k, "rot90", "k"), (first, second))
