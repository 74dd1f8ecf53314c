"""Operators whose result shares its input's memory.

Their gradients are views of the gradient, or put it back into zeros: never into memory that values
live in.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy
from numpy import ndarray

from pullback.core import errors
from pullback.operators.arrays.strides import geometry_of, restrided
from pullback.operators.batching import per_dim, shifted
from pullback.operators.declare import Array, Dim, Dims, Namespace, Shape, linear, view
from pullback.operators.options import as_int, as_required_dims, as_shape
from pullback.operators.running import recording
from pullback.operators.shape import batch as batch_shapes

FOUND_IN = {"torch": "swapdims=transpose", "Tensor": "unfold"}

_WHOLE = (slice(None),)

# Whole tensor -----------------------------------------------------------------------------------


@view(input=lambda g: g, method=False)
def alias(xp: Namespace, input: Array) -> Array:
    """A new tensor on the same memory."""
    return input[...]


def completed_shape(op: str, size: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with its -1 worked out, for a tensor of `size` elements."""
    known = 1
    for n in shape:
        if n >= 0:
            known *= n
    if shape.count(-1) > 1 or any(n < -1 for n in shape):
        raise RuntimeError(
            f"{op}: shape {shape} is not one: at most one size may be -1 (to be worked out), no "
            "other may be negative."
        )
    if -1 not in shape:
        if known != size:
            raise RuntimeError(
                f"{op}: shape '{list(shape)}' is invalid for input of size {size}: it would hold "
                f"{known} elements."
            )
        return shape
    if known == 0 or size % known:
        raise RuntimeError(
            f"{op}: shape '{list(shape)}' is invalid for input of size {size}: -1 cannot be "
            "worked out."
        )
    return tuple(size // known if n == -1 else n for n in shape)


@view(
    input=lambda g, input_shape: g.reshape(input_shape),
    node="ViewBackward0",
    method=False,
    aten="view.default",
    # What was copied, on memory of its own, is for the forward to refuse, and so are negative sizes
    # other than -1, all of which NumPy works out.
    inline="r if ((base := (r := a0.reshape($size)).base) is a0 or base is a0.base is not None) "
    "and (r.shape == $size or -1 in $size) else forward(numpy, a0, $size)",
)
def _view(xp: Namespace, input: Array, size: Shape) -> Array:
    """The same elements in another shape, on the same memory."""
    try:
        result = input.reshape(size)
    except ValueError:
        completed_shape("view", input.size, size)  # says what is wrong with the shape
        raise
    if result.shape != size:
        completed_shape("view", input.size, size)  # NumPy works out any negative size
    if not input.flags.c_contiguous and not recording.shares_memory(result, input) and input.size:
        raise RuntimeError(
            f"view: shape {size} cannot be a view of a tensor of shape {input.shape} with strides "
            f"{geometry_of(input)[1]}: it would span two separate parts of memory. Use reshape() "
            "instead."
        )
    return result


@view(
    input=lambda g, input_shape: g.reshape(input_shape), node="ReshapeAliasBackward0", method=False
)
def _reshape_alias(xp: Namespace, input: Array, size: Shape) -> Array:
    """As `_view`, of memory with gaps or another order, where that is known to be possible."""
    return input.reshape(size)


@linear(
    input=lambda g, input_shape: g.reshape(input_shape),
    node="UnsafeViewBackward0",
    has_out=False,
    aten="_unsafe_view.default",
)
def _unsafe_view(xp: Namespace, input: Array, size: Shape) -> Array:
    return input.reshape(size)


# The engine sums what comes back to the input's shape.
@view(
    batch=batch_shapes.expanded,
    input=lambda g: g,
    node="ExpandBackward0",
    method=False,
    aten="expand.default",
)
def _expand(xp: Namespace, input: Array, size: Shape) -> Array:
    shape, strides = _expanded(input.shape, input.strides, size)
    if xp is numpy and input.flags.c_contiguous:  # `restrided` in line
        return ndarray(shape, input.dtype, input, 0, strides)
    return restrided(input, shape, strides)


@lru_cache(maxsize=1000)
def _expanded(
    own: tuple[int, ...], steps: tuple[int, ...], size: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape, and the strides in bytes, of what is expanded to `size`."""
    dim = extra = len(size) - len(own)
    if extra < 0 or (extra and min(size[:extra]) < 0):
        raise _not_expandable(own, size)
    shape, strides = list(size), [0] * extra + list(steps)
    for here in own:
        wanted = size[dim]
        if wanted == -1:
            shape[dim] = here
        elif wanted != here:
            if here != 1 or wanted < 0:
                raise _not_expandable(own, size)
            strides[dim] = 0
        dim += 1
    return tuple(shape), tuple(strides)


def _not_expandable(shape: tuple[int, ...], size: tuple[int, ...]) -> RuntimeError:
    """Why a tensor of `shape` cannot be expanded to `size`."""
    extra = len(size) - len(shape)
    if extra < 0:
        return RuntimeError(
            f"expand: {len(size)} sizes {size} for a tensor of {len(shape)} dimensions {shape}; "
            "give at least one size per dimension."
        )
    if min(size[:extra], default=0) < 0:
        return RuntimeError(
            f"expand: {size} has a negative size at a new dimension (shape {shape}); -1 keeps a "
            "size, so it can only stand where there is one."
        )
    dim = next(
        dim
        for dim, here in enumerate(shape, extra)
        if size[dim] not in (here, -1) and (here != 1 or size[dim] < 0)
    )
    if size[dim] < 0:
        return RuntimeError(
            f"expand: size {size[dim]} at dimension {dim} is negative; only -1, which keeps the "
            "size that is there, may be."
        )
    return RuntimeError(
        f"expand: size {shape[dim - extra]} at dimension {dim} cannot become {size[dim]}; only "
        f"size 1 can be expanded (shape {shape} to {size})."
    )


# Dimensions ---------------------------------------------------------------------------------------


@view(
    batch=batch_shapes.swapped,
    input=lambda g, dim0, dim1: transpose(g, dim0, dim1),
    aten="transpose.int",
    inline="a0.swapaxes($dim0, $dim1)",  # refused where there are no dimensions
)
def transpose(xp: Namespace, input: Array, dim0: Dim, dim1: Dim) -> Array:
    """Swap two dimensions; the result shares the memory of `input`.

    >>> import pullback as torch
    >>> torch.transpose(torch.zeros(2, 3, 4), 0, 2).shape
    torch.Size([4, 3, 2])
    """
    return input.swapaxes(dim0, dim1) if input.ndim else input[...]


@view(
    batch=batch_shapes.transposed,
    input=lambda g: t(g),
    inline="a0.T if a0.ndim <= 2 else forward(numpy, a0)",
)
def t(xp: Namespace, input: Array) -> Array:
    """The transpose of a tensor of at most two dimensions.

    >>> import pullback as torch
    >>> torch.t(torch.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"t: expects a tensor with at most 2 dimensions, got {input.ndim}; use mT or transpose."
        )
    return input.T


def _inverse(dims: tuple[int, ...]) -> list[int]:
    places = [0] * len(dims)
    for place, dim in enumerate(dims):
        places[dim] = place  # also where it counts from the end
    return places


@view(
    batch=batch_shapes.permuted,
    input=lambda g, dims: _permute(g, _inverse(dims)),
    node="PermuteBackward0",
    method=False,
    aten="permute.default",
    inline="a0.transpose($dims) if len($dims) == a0.ndim else forward(numpy, a0, $dims)",
)
def _permute(xp: Namespace, input: Array, dims: Any) -> Array:
    if len(dims) == input.ndim:
        try:
            return input.transpose(dims)
        except (ValueError, TypeError):
            as_required_dims(dims, input.ndim, "permute")  # says what is wrong with the dims
            raise
    as_shape(dims, 0, "permute")  # refuses what consists of other things than ints
    raise RuntimeError(
        f"permute: {len(dims)} dims {tuple(dims)} for a tensor of {input.ndim} dimensions; name "
        "each once."
    )


@view(
    batch=batch_shapes.unsqueezed,
    input=lambda g, dim: g.squeeze(dim),
    inline="a0[None] if $dim == 0 else forward(numpy, a0, $dim)",
)
def unsqueeze(xp: Namespace, input: Array, dim: int) -> Array:
    """Insert a dimension of size 1 at `dim`.

    >>> import pullback as torch
    >>> torch.unsqueeze(torch.zeros(3), 0).shape
    torch.Size([1, 3])
    """
    ndim = input.ndim + 1
    if type(dim) is not int:
        dim = as_int(dim, "unsqueeze", "dim")
    if not -ndim <= dim < ndim:
        raise IndexError(
            f"unsqueeze: dim {dim} is out of range for a tensor of {input.ndim} dimensions; use "
            f"{-ndim} to {ndim - 1}."
        )
    return input[None] if dim == 0 else input[(*_WHOLE * (dim % ndim), None)]


@view(
    batch=batch_shapes.squeezed,
    input=lambda g, input_shape: g.reshape(input_shape),
    node="SqueezeBackward0",
    method=False,
    aten="squeeze.default",
)
def _squeeze_all(xp: Namespace, input: Array) -> Array:
    return input.squeeze() if input.ndim else input[...]


@view(
    batch=batch_shapes.squeezed_at,
    input=lambda g, input_shape: g.reshape(input_shape),
    node="SqueezeBackward1",
    method=False,
    inline="a0.squeeze($dim) if a0.shape[$dim] == 1 else a0[...]",
)
def _squeeze(xp: Namespace, input: Array, dim: Dim) -> Array:
    return input.squeeze(dim) if input.ndim and input.shape[dim] == 1 else input[...]


@view(
    batch=per_dim("dim"),
    input=lambda g, input_shape: g.reshape(input_shape),
    node="SqueezeBackward2",
    method=False,
)
def _squeeze_dims(xp: Namespace, input: Array, dim: Dims) -> Array:
    dims = tuple(d for d in dim if input.ndim and input.shape[d] == 1)
    return input.squeeze(dims) if dims else input[...]


# Parts --------------------------------------------------------------------------------------------


@view(
    input=lambda g, input_shape, dim, index: _select_adjoint(g, input_shape, dim, index),
    aten="select.int",
)
def select(xp: Namespace, input: Array, dim: Dim, index: int) -> Array:
    """The slice at position `index` of dimension `dim`.

    >>> import pullback as torch
    >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])
    """
    if type(index) is int:
        try:
            return input[index, ...] if dim == 0 else input[(*_WHOLE * dim, index, ...)]
        except IndexError:
            pass  # said in our words below
    if input.ndim == 0:
        raise IndexError("select: a 0-d tensor has no dimension to select from.")
    size = input.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    try:
        # The ellipsis keeps a result of no dimensions a view and not a scalar.
        return input[(slice(None),) * dim + (index, ...)]
    except IndexError:
        raise errors.not_an_int("select", "index", index) from None


@linear(
    batch=shifted(("dim",), ("shape",)),
    g=lambda g, dim, index: select(g, dim, index),
    node="SelectBackwardBackward0",
)
def _select_adjoint(xp: Namespace, g: Array, shape: Any, dim: int, index: int) -> Array:
    whole = xp.zeros(shape, g.dtype)
    whole[(slice(None),) * dim + (index,)] = g
    return whole


@view(
    input=lambda g, input_shape, dim, start, stop, step: _slice_adjoint(
        g, input_shape, dim, start, stop, step
    ),
    node="SliceBackward0",
    method=False,
    aten="slice.Tensor",
)
def slice_along(
    xp: Namespace, input: Array, dim: Dim, start: Any = None, stop: Any = None, step: int = 1
) -> Array:
    """Elements `start` to `stop` (exclusive) of dimension `dim`, every `step`-th."""
    if dim == 0:
        return input[start:stop:step]
    return input[(*_WHOLE * dim, slice(start, stop, step))]


@linear(
    batch=shifted(("dim",), ("shape",)),
    g=lambda g, dim, start, stop, step: slice_along(g, dim, start, stop, step),
    node="SliceBackwardBackward0",
)
def _slice_adjoint(
    xp: Namespace, g: Array, shape: Any, dim: int, start: Any, stop: Any, step: int
) -> Array:
    whole = xp.zeros(shape, g.dtype)
    whole[(slice(None),) * dim + (slice(start, stop, step),)] = g
    return whole


@view(
    input=lambda g, input_shape, offset, dim1, dim2: _diagonal_adjoint(
        g, input_shape, offset, dim1, dim2
    )
)
def diagonal(xp: Namespace, input: Array, offset: int = 0, dim1: Dim = 0, dim2: Dim = 1) -> Array:
    """The diagonal of two dimensions, as the last dimension of the result.

    >>> import pullback as torch
    >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if dim1 == dim2:
        raise RuntimeError(f"diagonal: dim1 and dim2 are both {dim1}; they must differ.")
    return _writable(input.diagonal(offset, dim1, dim2), input)


def _writable(part: Array, whole: Array) -> Array:
    if getattr(whole.flags, "writeable", False):
        part.flags.writeable = True  # NumPy hands diagonals out read-only
    return part


@linear(
    batch=shifted(("dim1", "dim2"), ("shape",)),
    g=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
    node="DiagonalBackwardBackward0",
)
def _diagonal_adjoint(
    xp: Namespace, g: Array, shape: Any, offset: int, dim1: int, dim2: int
) -> Array:
    whole = xp.zeros(shape, g.dtype)
    _writable(whole.diagonal(offset, dim1, dim2), whole)[...] = g
    return whole


@view(
    batch=batch_shapes.flattened_unfold,
    input=lambda g, input_shape, dimension, size, step: _unfold_adjoint(
        g, input_shape, dimension, size, step
    ),
)
def unfold(xp: Namespace, input: Array, dimension: Dim, size: int, step: int) -> Array:
    """Windows of `size` elements, `step` apart, along `dimension`.

    They become the last dimension.

    >>> import pullback as torch
    >>> torch.arange(4).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    length = input.shape[dimension] if input.ndim else 1
    if size > length or size < 0 or step <= 0:
        raise RuntimeError(
            f"unfold: windows of size {size} and step {step} along a dimension of {length}; the "
            "size must be between 0 and that length, the step positive."
        )
    if input.ndim == 0:
        return restrided(input, (size,), (input.itemsize,))
    stride = input.strides[dimension]
    shape = list(input.shape)
    strides = list(input.strides)
    shape[dimension] = (length - size) // step + 1
    strides[dimension] = stride * step
    return restrided(input, (*shape, size), (*strides, stride))


@linear(
    batch=batch_shapes.unfold_adjoint,
    g=lambda g, dimension, size, step: unfold(g, dimension, size, step),
)
def _unfold_adjoint(
    xp: Namespace, g: Array, shape: Any, dimension: int, size: int, step: int
) -> Array:
    if not shape:
        return g.sum()  # one element at most
    whole = xp.zeros(shape, g.dtype)
    # One pass per place in the window: windows overlap, equal places of different windows do not.
    count = g.shape[dimension]
    for place in range(size):
        stop = place + (count - 1) * step + 1
        part = whole[(slice(None),) * dimension + (slice(place, max(stop, 0), step),)]
        part += g[..., place]
    return whole


# By these names other rooms use them: a leading underscore keeps an operator in its room.
expand_view = _expand
diagonal_adjoint = _diagonal_adjoint
unfold_adjoint = _unfold_adjoint
