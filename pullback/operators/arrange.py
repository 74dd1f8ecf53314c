"""Joining, splitting and repeating in torch's many spellings.

Plain functions of cat, stack and views.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.size import Size
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import method
from pullback.operators.indexing import getitem
from pullback.operators.joining import cat, stack, tensor_split
from pullback.operators.naming import shown_as
from pullback.operators.options import as_dim
from pullback.operators.rows import index_select
from pullback.operators.shape import expand, flatten, reshape, unsqueeze
from pullback.operators.tiling import flip
from pullback.operators.views import _permute

__all__ = [
    "atleast_2d",
    "atleast_3d",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "meshgrid",
    "repeat_interleave",
    "rot90",
    "row_stack",
    "vsplit",
    "vstack",
]

concat = concatenate = cat


def _listed(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors given one by one or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], Sequence):
        return tuple(tensors[0])
    return tensors


def _each(function: Any, tensors: tuple[Any, ...]) -> Any:
    made = tuple(function(one) for one in _listed(tensors))
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


def atleast_2d(*tensors: Any) -> Any:
    """Tensors of fewer than 2 dimensions get leading ones."""
    raised: dict[int, Any] = {0: lambda t: reshape(t, (1, 1)), 1: lambda t: unsqueeze(t, 0)}
    return _each(lambda t: raised[t.ndim](t) if t.ndim in raised else t, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors of fewer than 3 dimensions get ones.

    A vector becomes (1, n, 1), a matrix (m, n, 1).
    """
    raised: dict[int, Any] = {
        0: lambda t: reshape(t, (1, 1, 1)),
        1: lambda t: unsqueeze(unsqueeze(t, 0), 2),
        2: lambda t: unsqueeze(t, 2),
    }
    return _each(lambda t: raised[t.ndim](t) if t.ndim in raised else t, tensors)


# Joining -----------------------------------------------------------------------------------------


def hstack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the second dimension; vectors along their only one."""
    raised = _joinable("hstack", [t if t.ndim else reshape(t, (1,)) for t in tensors])
    return cat(raised, 0 if raised[0].ndim == 1 else 1, out=out)


def vstack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the first dimension; vectors are rows."""
    return cat(_joinable("vstack", [atleast_2d(t) for t in tensors]), 0, out=out)


row_stack = vstack


def dstack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the third dimension."""
    return cat(_joinable("dstack", [atleast_3d(t) for t in tensors]), 2, out=out)


def column_stack(tensors: Any, *, out: Any = None) -> Any:
    """Join along the second dimension; vectors are columns."""
    columns = [reshape(t, (t.numel(), 1)) if t.ndim <= 1 else t for t in tensors]
    return cat(_joinable("column_stack", columns), 1, out=out)


def _joinable(op: str, tensors: list[Any]) -> list[Any]:
    if not tensors:
        raise RuntimeError(f"{op}: expected a non-empty list of tensors.")
    return tensors


# Splitting ---------------------------------------------------------------------------------------


def _split_along(op: str, input: Any, parts: Any, dim: int, ndim: int) -> Any:
    if input.ndim < ndim:
        raise RuntimeError(
            f"{op}: needs at least {ndim} dimensions, got shape {tuple(input.shape)}."
        )
    if isinstance(parts, int) and (parts <= 0 or input.shape[dim] % parts):
        raise RuntimeError(
            f"{op}: dimension {dim} of size {input.shape[dim]} cannot be split into {parts} equal "
            "parts."
        )
    return tensor_split(input, parts, dim)


@method
def hsplit(input: Any, indices_or_sections: Any) -> Any:
    """Split along the second dimension; a vector along its only one."""
    return _split_along("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


@method
def vsplit(input: Any, indices_or_sections: Any) -> Any:
    """Split along the first dimension."""
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


@method
def dsplit(input: Any, indices_or_sections: Any) -> Any:
    """Split along the third dimension."""
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


# Broadcasting and grids
# ----------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that tensors of these shapes broadcast to."""
    listed = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    try:
        return Size(numpy.broadcast_shapes(*listed))
    except ValueError:
        raise RuntimeError(f"broadcast_shapes: {listed} do not broadcast together.") from None


def broadcast_tensors(*tensors: Any) -> Any:
    """All tensors expanded to their common shape."""
    listed = _listed(tensors)
    shape = broadcast_shapes(*(t.shape for t in listed))
    return tuple(t if t.shape == shape else expand(t, shape) for t in listed)


def meshgrid(*tensors: Any, indexing: str | None = None) -> Any:
    """Coordinate grids from vectors: one tensor per vector, all of the grid's shape."""
    listed = _listed(tensors)
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'ij' or 'xy', got {indexing!r}.")
    if any(t.ndim > 1 for t in listed):
        raise RuntimeError("meshgrid: tensors must have at most one dimension.")
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
    """All combinations of the elements of vectors, one per row."""
    listed = _listed(tensors)
    if any(t.ndim != 1 for t in listed):
        raise RuntimeError("cartesian_prod: expects 1-d tensors.")
    if len(listed) == 1:
        return listed[0]
    return stack([flatten(grid) for grid in meshgrid(*listed, indexing="ij")], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All choices of `r` elements of a vector, in order, one per row."""
    if input.ndim != 1:
        raise RuntimeError(f"combinations: expects a 1-d tensor, got {input.ndim} dimensions.")
    if r < 0:
        raise RuntimeError(f"combinations: r must not be negative, got {r}.")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(input.numel()), r))
    if not rows or r == 0:
        return (
            getitem(input, slice(0, 0)) if r == 0 else reshape(getitem(input, slice(0, 0)), (0, r))
        )
    places = wrap(numpy.array(rows, dtype=numpy.int64).reshape(-1))
    return reshape(index_select(input, 0, places), (len(rows), r))


# Repeating and turning ----------------------------------------------------------------------------


@method
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Repeat each element (of dimension `dim`) so many times, copies next to each other."""
    if repeats is None:
        return _places(input)
    if dim is None:
        input, dim = flatten(input), 0
    at = as_dim(dim, input.ndim, "repeat_interleave")
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError(f"repeat_interleave: repeats must not be negative, got {repeats}.")
        spread = expand(
            unsqueeze(input, at + 1), (*input.shape[: at + 1], repeats, *input.shape[at + 1 :])
        )
        size = input.shape[at] * repeats
        return reshape(spread, (*input.shape[:at], size, *input.shape[at + 1 :]))
    counts = numpy.broadcast_to(repeats._array.reshape(-1), (input.shape[at],))
    if (counts < 0).any():
        raise RuntimeError("repeat_interleave: repeats must not be negative.")
    return index_select(input, at, wrap(numpy.repeat(numpy.arange(input.shape[at]), counts)))


def _places(repeats: Any) -> Any:
    if repeats.ndim != 1 or repeats._array.dtype.kind not in "iu":
        raise RuntimeError("repeat_interleave: repeats must be a 1-d tensor of ints.")
    return wrap(numpy.repeat(numpy.arange(repeats.numel()), repeats._array))


@method
def fliplr(input: Any) -> Any:
    """Reverse the second dimension."""
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return flip(input, (1,))


@method
def flipud(input: Any) -> Any:
    """Reverse the first dimension."""
    if input.ndim < 1:
        raise RuntimeError("flipud: needs at least 1 dimension, got a 0-d tensor.")
    return flip(input, (0,))


@method
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turn `k` times by 90 degrees, from the first of two dimensions to the second."""
    if len(dims) != 2:
        raise RuntimeError(f"rot90: expects two dims, got {len(dims)}.")
    if input.ndim < 2:
        raise RuntimeError(f"rot90: needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    a, b = (as_dim(dim, input.ndim, "rot90") for dim in dims)
    if a == b:
        raise RuntimeError("rot90: the two dims must differ.")
    turns, node = k % 4, "Rot90Backward0"
    if turns == 0:
        return shown_as(node, input.clone())
    if turns == 2:
        return shown_as(node, flip(input, (a, b)))
    order = list(range(input.ndim))
    order[a], order[b] = b, a
    turned = flip(input, (b,)) if turns == 1 else flip(input, (a,))
    return shown_as(node, _permute(turned, tuple(order)))
