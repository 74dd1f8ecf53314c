"""Shapes: the public forms of the views, and what rearranges elements into new memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from pullback.core.dtype import dtype
from pullback.core.layout import (
    contiguous_format,
    empty_in_order,
    is_in_format,
    memory_format,
    order_of,
    preserve_format,
)
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.operators.arithmetic import conj
from pullback.operators.declare import (
    METHODS,
    Array,
    Namespace,
    elementwise,
    method,
    view,
)
from pullback.operators.naming import shown_as
from pullback.operators.options import as_dim, as_required_dims, as_shape, numpy_spelled
from pullback.operators.views import (
    _expand,
    _permute,
    _reshape_alias,
    _squeeze,
    _squeeze_all,
    _unsafe_view,
    _view,
    alias,
    as_strided,
    completed_shape,
    diagonal,
    select,
    slice_along,
    t,
    transpose,
    unfold,
    unsqueeze,
)

__all__ = [
    "alias",
    "as_strided",
    "atleast_1d",
    "broadcast_to",
    "clone",
    "contiguous",
    "diagonal",
    "expand",
    "expand_as",
    "flatten",
    "movedim",
    "permute",
    "ravel",
    "reshape",
    "reshape_as",
    "select",
    "slice_along",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unflatten",
    "unfold",
    "unsqueeze",
    "view_as",
]

METHODS["as_strided"] = as_strided


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """`x.view(2, 3)` and `x.view((2, 3))` mean the same."""
    if len(sizes) == 1 and type(sizes[0]) is not int and isinstance(sizes[0], Iterable):
        sizes = tuple(sizes[0])
    return sizes


def spread(name: str, function: Callable[..., Any]) -> None:
    """A method that takes its sizes one by one or as a sequence."""

    def called(self: Any, *sizes: Any) -> Any:
        return function(self, _sizes(sizes))

    called.__name__ = called.__qualname__ = name
    called.__doc__ = function.__doc__
    METHODS[name] = called


# Another shape -----------------------------------------------------------------------------------


def view_method(self: Any, *size: Any, **named: Any) -> Any:
    """The same memory in another shape, or its bytes read as another dtype."""
    if size and type(size[0]) is int and not named:
        return _view(self, size)
    if named:
        size = (named.get("size", named.get("dtype")),)
    if len(size) == 1 and isinstance(size[0], dtype):
        return self if size[0] is self.dtype else view_as_dtype(self, size[0])
    return _view(self, _sizes(size))


METHODS["view"] = view_method


@view(method=False, strided=False)
def view_as_dtype(xp: Namespace, input: Array, dtype: Any) -> Array:
    """The memory of `input` read as another dtype; not differentiable, as in torch."""
    try:
        return input.view(dtype.numpy)
    except ValueError as error:
        raise RuntimeError(
            f"view: memory of shape {input.shape} and {input.itemsize} bytes per element cannot "
            "be read as "
            f"{dtype}: {error}"
        ) from None


def reshape(input: Any, shape: Any) -> Any:
    """The same elements in another shape: a view where strides allow it, else a copy."""
    if not isinstance(input, Tensor):
        return input.reshape(shape)
    array = input._array
    if array.flags.c_contiguous:
        return _view(input, shape)
    shape = completed_shape("reshape", array.size, as_shape(shape, 0, "reshape"))
    in_place = _reshapes_in_place(array, shape)
    return _reshape_alias(input, shape) if in_place else _unsafe_view(input, shape)


def _reshapes_in_place(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether strides alone can express the new shape: each run of merged dims must be dense."""
    dims = [(n, s) for n, s in zip(array.shape, array.strides, strict=True) if n != 1]
    if array.size == 0:
        return True
    merged: list[tuple[int, int]] = []  # runs that are dense in themselves: elements, last stride
    for n, s in dims:
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    wanted = [n for n in shape if n != 1]
    for run, _ in merged:
        filled = 1
        while filled < run and wanted:
            filled *= wanted.pop(0)
        if filled != run:
            return False
    return not wanted


spread("reshape", reshape)


@method
def view_as(input: Any, other: Any) -> Any:
    """`input` viewed in the shape of `other`."""
    return _view(input, tuple(other.shape))


@method
def reshape_as(input: Any, other: Any) -> Any:
    """`input` in the shape of `other`."""
    return reshape(input, tuple(other.shape))


@method
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge the dimensions from `start_dim` to `end_dim` into one."""
    shape = tuple(input.shape)
    start, end = as_dim(start_dim, len(shape), "flatten"), as_dim(end_dim, len(shape), "flatten")
    if start > end:
        raise RuntimeError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}.")
    if not shape:
        return reshape(input, (1,))
    if start == end:
        return input
    return reshape(input, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@method
def ravel(input: Any) -> Any:
    """All elements in one dimension."""
    return reshape(contiguous(input), (-1,))


@method
@numpy_spelled
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several."""
    shape = tuple(input.shape)
    at = as_dim(dim, len(shape), "unflatten")
    sizes = as_shape(sizes, 0, "unflatten")
    if not sizes:
        raise RuntimeError("unflatten: sizes is empty; name at least one.")
    try:
        sizes = completed_shape("unflatten", shape[at], sizes)
    except RuntimeError as error:
        raise RuntimeError(f"{error} (dimension {at} of shape {shape})") from None
    return _view(input, (*shape[:at], *sizes, *shape[at + 1 :]))


def expand(input: Any, size: Any) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size."""
    return _expand(input, as_shape(size, 0, "expand"))


def _expand_method(self: Any, *sizes: Any, implicit: bool = False) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size."""
    return _expand(self, _sizes(sizes))


METHODS["expand"] = _expand_method


@method
def expand_as(input: Any, other: Any) -> Any:
    """`input` expanded to the shape of `other`."""
    return _expand(input, tuple(other.shape))


@method
def broadcast_to(input: Any, size: Any) -> Any:
    """As `expand`, under NumPy's name."""
    return _expand(input, as_shape(size, 0, "broadcast_to"))


# Order of dimensions -----------------------------------------------------------------------------


def permute(input: Any, dims: Any) -> Any:
    """The dimensions in another order."""
    return _permute(input, dims)


spread("permute", permute)
swapaxes = swapdims = transpose


def reverse_dims(input: Any) -> Any:
    """`x.T`: the dimensions in reverse order."""
    if input.ndim not in (0, 2):
        warnings.warn(
            f"x.T on a tensor of {input.ndim} dimensions reverses them all; say x.mT for a batch "
            "of matrices, "
            "or x.permute(...) for this.",
            UserWarning,
            stacklevel=stacklevel(),
        )
    return _permute(input, tuple(reversed(range(input.ndim))))


def matrix_transpose(input: Any) -> Any:
    """`x.mT`: the last two dimensions exchanged."""
    if input.ndim < 2:
        raise RuntimeError(f"mT needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return transpose(input, -2, -1)


def conj_transpose(input: Any) -> Any:
    """`x.mH`: the last two dimensions exchanged, and conjugated."""
    if input.ndim < 2 and input.ndim != 0:
        raise RuntimeError(f"mH needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return conj(transpose(input, -2, -1) if input.ndim else input)


@method
def adjoint(input: Any) -> Any:
    """The conjugate transpose of the last two dimensions."""
    return conj_transpose(input)


@method
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to other places; the rest keep their order."""
    ndim = input.ndim
    taken = as_required_dims(source, ndim, "movedim")
    placed = as_required_dims(destination, ndim, "movedim")
    if len(taken) != len(placed):
        raise RuntimeError(
            f"movedim: {len(taken)} dims to move ({source}) but {len(placed)} places "
            f"({destination})."
        )
    if ndim == 0:
        return alias(input)
    order: list[int | None] = [None] * ndim
    for dim, place in zip(taken, placed, strict=True):
        order[place] = dim
    rest = iter(dim for dim in range(ndim) if dim not in taken)
    return _permute(input, tuple(next(rest) if dim is None else dim for dim in order))


moveaxis = movedim


@method
def squeeze(input: Any, dim: Any = None, *, axis: Any = None) -> Any:
    """Drop dimensions of size 1: all, or the named ones."""
    if axis is not None:
        dim = axis
    if dim is None:
        return _squeeze_all(input)
    return _squeeze(input, dim) if type(dim) is int else shown_as(_SEVERAL, _squeeze(input, dim))


_SEVERAL = "SqueezeBackward2"


# New memory --------------------------------------------------------------------------------------


@elementwise(input=lambda g: g, inplace=False, promote=None)
def clone(xp: Namespace, input: Array, *, memory_format: Any = None) -> Array:
    """A copy with memory of its own, in the same order of dimensions unless a format is given."""
    if memory_format is None or memory_format is preserve_format:
        return input.copy(order="K")
    if memory_format is contiguous_format:
        return input.copy(order="C")
    order = order_of("clone", memory_format, input.ndim)
    out = empty_in_order(xp, input.shape, input.dtype, order)
    out[...] = input
    return out


@method
def contiguous(input: Any, *, memory_format: memory_format = contiguous_format) -> Any:
    """The tensor itself if its memory is in the order of the format, row-major, else a copy."""
    array = input._array
    if memory_format is contiguous_format:
        return input if array.flags.c_contiguous else clone(input, memory_format=memory_format)
    if memory_format is preserve_format:
        return input
    order_of("contiguous", memory_format, array.ndim)  # refuses what is no order of these
    if is_in_format(array, memory_format):
        return input
    return clone(input, memory_format=memory_format)


def atleast_1d(*tensors: Any) -> Any:
    """0-d tensors become 1-d; others stay."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    made = tuple(reshape(one, (1,)) if one.ndim == 0 else one for one in tensors)
    return made[0] if len(made) == 1 else made
