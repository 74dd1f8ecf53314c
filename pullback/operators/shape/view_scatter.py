"""A tensor with one of its views replaced: select_scatter, slice_scatter and their like.

narrow_copy, the one view operator that copies, is here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core import errors
from pullback.core.arrays import Array, namespace
from pullback.core.tensor import Tensor
from pullback.operators.arrays.formats import copy_kept
from pullback.operators.arrays.strides import contiguous_strides, extent, restrided
from pullback.operators.arrays.strides import storage_offset as offset_of
from pullback.operators.batching import together
from pullback.operators.declare import Dim, Namespace, method, primitive
from pullback.operators.options import check_int, numpy_spelled
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.shape import batch as batch_shapes
from pullback.operators.shape.joining import narrow
from pullback.operators.shape.restriding import _restride
from pullback.operators.shape.views import _slice_adjoint, diagonal, select, slice_along
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "as_strided_scatter diagonal_scatter narrow_copy select_scatter slice_scatter"}


def _replaced(op: str, input: Array, src: Array, part_of: Callable[[Array], Array]) -> Array:
    """A copy of `input`, with `src` in the part that `part_of` finds in it."""
    out = copy_kept(namespace(input), input)
    part = part_of(out)
    if part.shape != src.shape:
        raise RuntimeError(
            f"{op}: src has shape {src.shape}, but the part to be replaced has shape {part.shape}; "
            "they must be equal."
        )
    part[...] = src
    return out


def _matched(op: str, input: Any, src: Any) -> Any:
    """`src` in the dtype of `input`."""
    if not isinstance(src, Tensor):
        raise errors.not_a_tensor(op, "src", src)
    return astype(src, input._array.dtype)


def _tangent(function: Any, d_input: Any, d_src: Any, input: Any, src: Any, *place: Any) -> Any:
    d_input = zeros_of(input) if d_input is None else d_input
    return function(d_input, zeros_of(src) if d_src is None else d_src, *place)


# One position ------------------------------------------------------------------------------------


@primitive(
    batch=together,
    input=lambda g, dim, index: _select_scatter(g, zeros_of(select(g, dim, index)), dim, index),
    src=lambda g, dim, index: select(g, dim, index),
    jvp=lambda d_input, d_src, input, src, dim, index: _tangent(
        _select_scatter, d_input, d_src, input, src, dim, index
    ),
    node="SelectScatterBackward0",
    aten="select_scatter.default",
)
def _select_scatter(xp: Namespace, input: Array, src: Array, dim: Dim, index: int) -> Array:
    size = input.shape[dim] if input.ndim else 0
    if not -size <= index < size:
        raise IndexError(
            f"select_scatter: index {index} is out of range for dimension {dim} of shape "
            f"{input.shape}."
        )
    place = (slice(None),) * dim + (index, ...)
    return _replaced("select_scatter", input, src, lambda whole: whole[place])


@method
@numpy_spelled
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """`input` with `src` at position `index` of dimension `dim`.

    >>> import pullback as torch
    >>> torch.select_scatter(torch.zeros(2, 2), torch.tensor([5.0, 6.0]), 0, 1)
    tensor([[0., 0.],
            [5., 6.]])
    """
    return _select_scatter(input, _matched("select_scatter", input, src), dim, index)


# A range of positions ----------------------------------------------------------------------------


def _write_slice(g: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    return _slice_scatter(g, zeros_of(slice_along(g, dim, start, end, step)), dim, start, end, step)


@primitive(
    batch=together,
    input=_write_slice,
    src=lambda g, dim, start, end, step: slice_along(g, dim, start, end, step),
    jvp=lambda d_input, d_src, input, src, dim, start, end, step: _tangent(
        _slice_scatter, d_input, d_src, input, src, dim, start, end, step
    ),
    node="SliceScatterBackward0",
    aten="slice_scatter.default",
    aten_defaults={"end": None, "step": 1},
)
def _slice_scatter(
    xp: Namespace, input: Array, src: Array, dim: Dim, start: Any, end: Any, step: int
) -> Array:
    place = (slice(None),) * dim + (slice(start, end, step),)
    return _replaced("slice_scatter", input, src, lambda whole: whole[place])


@method
@numpy_spelled
def slice_scatter(
    input: Any,
    src: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
    *,
    out: Any = None,
) -> Any:
    """`input` with `src` at the positions `start` to `end` of dimension `dim`, every `step`-th.

    >>> import pullback as torch
    >>> torch.slice_scatter(torch.zeros(4), torch.tensor([1.0, 2.0]), 0, 1, 3)
    tensor([0., 1., 2., 0.])
    """
    if input.ndim == 0:
        raise IndexError("slice_scatter: a 0-d tensor cannot be sliced; it has no dimension.")
    check_int(step, "slice_scatter", "step")
    if step <= 0:
        raise RuntimeError(f"slice_scatter: step must be positive, got {step}.")
    src = _matched("slice_scatter", input, src)
    if out is not None:
        return _slice_scatter(input, src, dim, start, end, step, out=out)
    return _slice_scatter(input, src, dim, start, end, step)


# A diagonal --------------------------------------------------------------------------------------


@primitive(
    batch=together,
    input=lambda g, offset, dim1, dim2: _diagonal_scatter(
        g, zeros_of(diagonal(g, offset, dim1, dim2)), offset, dim1, dim2
    ),
    src=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
    jvp=lambda d_input, d_src, input, src, offset, dim1, dim2: _tangent(
        _diagonal_scatter, d_input, d_src, input, src, offset, dim1, dim2
    ),
    node="DiagonalScatterBackward0",
    aten="diagonal_scatter.default",
    aten_defaults={"offset": 0, "dim1": 0, "dim2": 1},
)
def _diagonal_scatter(
    xp: Namespace, input: Array, src: Array, offset: int, dim1: Dim, dim2: Dim
) -> Array:
    def part_of(whole: Array) -> Array:
        part = whole.diagonal(offset, dim1, dim2)
        part.flags.writeable = True  # NumPy hands diagonals out read-only
        return part

    return _replaced("diagonal_scatter", input, src, part_of)


@method
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """`input` with `src` on the diagonal of two dimensions; `src` has the diagonal last.

    >>> import pullback as torch
    >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.tensor([5.0, 6.0]))
    tensor([[5., 0.],
            [0., 6.]])
    """
    src = _matched("diagonal_scatter", input, src)
    return _diagonal_scatter(input, src, offset, dim1, dim2)


# Any strides -------------------------------------------------------------------------------------


def _strided_part(whole: Array, geometry: Any) -> Array:
    shape, strides, offset = geometry
    size = whole.itemsize
    return restrided(whole, shape, tuple(stride * size for stride in strides), offset * size)


def _read_strided(g: Any, geometry: Any) -> Any:
    own = (tuple(g.shape), contiguous_strides(tuple(g.shape)), 0)
    return _restride(g, own, geometry)


@primitive(
    batch=batch_shapes.strided_scatter,
    input=lambda g, geometry: _strided_scatter(g, zeros_of(_read_strided(g, geometry)), geometry),
    src=lambda g, geometry: _read_strided(g, geometry),
    jvp=lambda d_input, d_src, input, src, geometry: _tangent(
        _strided_scatter, d_input, d_src, input, src, geometry
    ),
    node="AsStridedScatterBackward0",
)
def _strided_scatter(xp: Namespace, input: Array, src: Array, geometry: Any) -> Array:
    return _replaced("as_strided_scatter", input, src, lambda whole: _strided_part(whole, geometry))


@method
def as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """`input` with `src` where `as_strided` with these arguments would look.

    Needs row-major memory, as strides are counted on it; places that come twice get one of the
    values.

    >>> import pullback as torch
    >>> torch.as_strided_scatter(torch.zeros(4), torch.tensor([1.0, 2.0]), (2,), (2,))
    tensor([1., 0., 2., 0.])
    """
    return _strided_scatter(
        input,
        _matched("as_strided_scatter", input, src),
        _geometry_on(input._array, tuple(size), tuple(stride), storage_offset),
    )


def _geometry_on(
    array: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int | None
) -> Any:
    """The geometry counted from the tensor's own first element."""
    if not array.flags.c_contiguous:
        raise RuntimeError(
            "as_strided_scatter: the input must be contiguous; call contiguous() on it first."
        )
    start = 0 if offset is None else offset - offset_of(array)
    geometry = (size, stride, start)
    if start < 0 or (0 not in size and extent(geometry) > array.size):
        raise RuntimeError(
            f"as_strided_scatter: sizes {size}, strides {stride} and offset {offset} lead outside "
            f"of a tensor of {array.size} elements."
        )
    return geometry


# A copy ------------------------------------------------------------------------------------------


@primitive(
    input=lambda g, input_shape, dim, start, length: _slice_adjoint(
        g, input_shape, dim, start, start + length, 1
    ),
    jvp=lambda d_input, dim, start, length: _narrow_copy(d_input, dim, start, length),
    node="NarrowCopyBackward0",
)
def _narrow_copy(xp: Namespace, input: Array, dim: Dim, start: int, length: int) -> Array:
    return input[(slice(None),) * dim + (slice(start, start + length),)].copy()


@method
@numpy_spelled
def narrow_copy(input: Any, dim: int, start: int, length: int, *, out: Any = None) -> Any:
    """As `narrow`, in new memory.

    >>> import pullback as torch
    >>> torch.narrow_copy(torch.tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])
    """
    if isinstance(input, Tensor) and isinstance(dim, int) and dim >= input.ndim:
        raise RuntimeError(  # an IndexError in all others; torch's
            f"narrow_copy: there is no dimension {dim}, shape is {tuple(input.shape)}."
        )
    if input._layout is None:
        narrow(input, dim, start, length)  # refuses what does not fit
    size = input.shape[dim]
    first = start + size if start < 0 else start
    given = {} if out is None else {"out": out}
    return _narrow_copy(input, dim, first, length, **given)
