"""Shapes: the public forms of the views."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from functools import lru_cache
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.dtype import as_dtype, from_numpy_dtype
from pullback.core.dtype import dtype as DType  # noqa: N812 (`dtype` is an argument's name)
from pullback.core.memory.narrow import held
from pullback.core.tensor import Tensor
from pullback.operators.adapter import Adapter, adapted
from pullback.operators.arrays.strides import element_strides, storage_offset
from pullback.operators.declare import (
    METHODS,
    REQUIRED,
    Array,
    Namespace,
    method,
    view,
)
from pullback.operators.dispatch.dispatch import types_of
from pullback.operators.options import (
    as_dim,
    as_required_dims,
    as_shape,
    is_sequence,
    missing,
    numpy_named,
    numpy_spelled,
    operand,
)
from pullback.operators.shape.copies import clone, contiguous
from pullback.operators.shape.restriding import as_strided
from pullback.operators.shape.views import (
    _expand,
    _permute,
    _reshape_alias,
    _squeeze,
    _squeeze_all,
    _squeeze_dims,
    _unsafe_view,
    _view,
    alias,
    completed_shape,
    diagonal,
    select,
    slice_along,
    t,
    transpose,
    unfold,
    unsqueeze,
)

# Other families find all of reshaping here, also what is written in views.py, copies.py and
# restriding.py.
__all__ = [
    "alias",
    "as_strided",
    "clone",
    "contiguous",
    "diagonal",
    "select",
    "slice_along",
    "t",
    "transpose",
    "unfold",
    "unsqueeze",
]

FOUND_IN = {
    "torch": """
        atleast_1d broadcast_to flatten moveaxis=movedim movedim permute ravel reshape
        squeeze swapaxes unflatten
    """,
}

METHODS["as_strided"] = as_strided


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """`x.view(2, 3)` and `x.view((2, 3))` mean the same."""
    if len(sizes) == 1 and type(sizes[0]) is tuple:
        return sizes[0]
    if len(sizes) == 1 and type(sizes[0]) is not int and is_sequence(sizes[0]):
        if isinstance(sizes[0], Set | Mapping):
            raise errors.unordered("view", "size", sizes[0])
        sizes = tuple(sizes[0])
    return sizes


def spread(name: str, function: Callable[..., Any], usual: Any = None) -> None:
    """A method that takes its sizes one by one, as a sequence, or by name.

    `usual` is what the function comes to for a tuple of sizes, to be called at once.
    """
    direct = usual or function

    def called(self: Any, *sizes: Any, **named: Any) -> Any:
        if named or not sizes:
            return function(self, *sizes, **named)
        several = len(sizes) > 1 or sizes[0].__class__ is int
        return direct(self, sizes if several else _sizes(sizes))

    called.__name__ = called.__qualname__ = name
    called.__doc__ = function.__doc__
    METHODS[name] = called


# Another shape -----------------------------------------------------------------------------------


def view_method(self: Any, *size: Any, **named: Any) -> Any:
    """The same memory in another shape, or its bytes read as another dtype.

    >>> import pullback as torch
    >>> torch.arange(4).view(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if named:
        size = _named_size(*size, **named)
    if not size:
        raise TypeError("view(): takes a shape or a dtype, got neither.")
    if len(size) == 1 and isinstance(size[0], DType | type):
        wanted = as_dtype(size[0])
        if wanted is self.dtype:
            return self
        return view_as_dtype(self.detach() if self.requires_grad else self, wanted)
    return _view(self, _sizes(size))


view_method.__name__ = view_method.__qualname__ = "view"
# A size in a tuple of our own, that begins with an int: one or two need no call.
_LOOKED_AT = [
    "if len($size) > 2 or $size[-1].__class__ is not int:",
    "    $size = as_shape($size, 0, op.name)",
]
_SIZES_ONE_BY_ONE = Adapter(
    "$input, *$size, **$named",
    [
        "if $named or not $size or $size[0].__class__ is not int:",
        "    return otherwise($input, *$size, **$named)",
        *_LOOKED_AT,
    ],
    is_normal=True,
)
METHODS["view"] = adapted(_view, _SIZES_ONE_BY_ONE, view_method)


def _named_size(*, size: Any = None, dtype: Any = None) -> tuple[Any, ...]:
    """What is given by name: a shape, or a dtype."""
    if (size is None) == (dtype is None) or isinstance(size, DType):
        raise TypeError("view(): give either `size`, a shape, or `dtype`, a torch.dtype.")
    if dtype is not None:
        return (as_dtype(dtype),)
    return (size,)


@view(method=False, strided=False, aten="view.dtype")
def view_as_dtype(xp: Namespace, input: Array, dtype: Any) -> Array:
    """The memory of `input` read as another dtype; not differentiable, as in torch."""
    _check_places(input, dtype)
    try:
        return held(input.view(dtype.numpy))
    except ValueError as error:
        raise RuntimeError(
            f"view: memory of shape {input.shape} and {input.itemsize} bytes per element cannot "
            f"be read as {dtype}: {error}"
        ) from None


def _check_places(input: Array, dtype: Any) -> None:
    """Refuse to read larger elements where memory does not have them one after another.

    NumPy looks at the last dimension alone; a view must have an offset and strides in elements.
    """
    ratio = dtype.numpy.itemsize // input.itemsize
    if ratio < 2 or not input.size:
        return
    offset = storage_offset(input)
    steps = [stride for stride in element_strides(input)[:-1] if stride % ratio]
    if steps or offset % ratio:
        what = f"its stride {steps[0]}" if steps else f"its offset {offset} in the memory"
        raise RuntimeError(
            f"view: a tensor of {from_numpy_dtype(input.dtype)} cannot be read as {dtype}, whose "
            f"elements are {ratio} times as large: {what} is no multiple of {ratio}. clone() it "
            "first."
        )


def reshape(input: Any, shape: Any) -> Any:
    """The same elements in another shape: a view where strides allow it, else a copy.

    >>> import pullback as torch
    >>> torch.reshape(torch.arange(6), (2, -1))
    tensor([[0, 1, 2],
            [3, 4, 5]])

    >>> torch.arange(4).reshape(2, -1)
    tensor([[0, 1],
            [2, 3]])
    """
    if type(input) is numpy.ndarray:  # rules on arrays, who should not pay for the question below
        return input.reshape(shape)
    if not isinstance(input, Tensor):
        asks = bool(types_of((input,), {}))
        return _view(input, shape) if asks else input.reshape(shape)
    if type(shape) is int:
        raise errors.not_a_sequence("reshape", "shape", shape)
    array = input._array
    if array.flags.c_contiguous:
        try:
            return _view(input, shape)
        except (RuntimeError, TypeError) as error:
            raise errors.as_called(error, "reshape", "view") from None
    wanted = as_shape(shape, 0, "reshape")
    whole, in_place = _reshaped(array.shape, array.strides, wanted)
    return _reshape_alias(input, whole) if in_place else _unsafe_view(input, whole)


@lru_cache(maxsize=4096)  # a tenth of the time: heads of attention come in the same shapes
def _reshaped(
    old: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[tuple[int, ...], bool]:
    """The shape with its -1 worked out, and whether strides alone can express it.

    For that, each run of merged dims must be dense.
    """
    size = math.prod(old)
    shape = completed_shape("reshape", size, shape)
    return shape, size == 0 or _are_dense(old, strides, shape)


def _are_dense(old: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    dims = [(n, s) for n, s in zip(old, strides, strict=True) if n != 1]
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


def _reshape_method(self: Any, *shape: Any, **named: Any) -> Any:
    """The same elements in another shape: a view where strides allow it, else a copy.

    >>> import pullback as torch
    >>> torch.arange(6).reshape(2, -1).shape
    torch.Size([2, 3])
    """
    if named or not shape:
        return reshape(self, *shape, **named)
    if len(shape) == 1:
        shape = _sizes(shape)
    if not self._array.flags.c_contiguous:
        return reshape(self, shape)
    try:
        return _view(self, shape)
    except (RuntimeError, TypeError) as error:
        raise errors.as_called(error, "reshape", "view") from None


def _dense_reshape(xp: Namespace, array: Array, shape: tuple[int, ...]) -> Array:
    """The forward of `_view`, of memory without gaps; says that `reshape` was called."""
    try:
        return _view.op.forward(xp, array, shape)  # type: ignore[attr-defined]  # a declared operator
    except (RuntimeError, TypeError) as error:
        raise errors.as_called(error, "reshape", "view") from None


_reshape_method.__name__ = _reshape_method.__qualname__ = "reshape"
_SHAPE_ONE_BY_ONE = Adapter(
    "$input, *$size, **$named",
    [
        "if (",
        "    $named or not $size or $size[0].__class__ is not int",
        "    or not $input._array.flags.c_contiguous",
        "):",
        "    return otherwise($input, *$size, **$named)",
        *_LOOKED_AT,
    ],
    is_normal=True,
    inline="r if (r := a0.reshape($size)).shape == $size or -1 in $size "
    "else forward(numpy, a0, $size)",
)
METHODS["reshape"] = adapted(_view, _SHAPE_ONE_BY_ONE, _reshape_method, forward=_dense_reshape)


@method
@numpy_named
def view_as(input: Any, other: Any = REQUIRED, x2: Any = None) -> Any:
    """`input` viewed in the shape of `other`.

    >>> import pullback as torch
    >>> torch.arange(4).view_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return _view(input, _shape_of("view_as", other, x2))


@method
@numpy_named
def reshape_as(input: Any, other: Any = REQUIRED, x2: Any = None) -> Any:
    """`input` in the shape of `other`.

    >>> import pullback as torch
    >>> torch.arange(4).reshape_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return reshape(input, _shape_of("reshape_as", other, x2))


def _shape_of(op: str, other: Any, x2: Any) -> tuple[int, ...]:
    if x2 is not None:
        other = operand(op, "other", other, x2=x2)
    if other is REQUIRED:
        raise missing(op, "other")
    if not isinstance(other, Tensor):
        raise errors.not_a_tensor(op, "other", other)
    shape: tuple[int, ...] = other._array.shape
    return shape


@method
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge the dimensions from `start_dim` to `end_dim` into one.

    >>> import pullback as torch
    >>> torch.flatten(torch.zeros(2, 3, 4), 1).shape
    torch.Size([2, 12])
    """
    array = input._array
    shape = array.shape
    if start_dim == 0 and end_dim == -1:  # all of them
        if len(shape) == 1:
            return input
        whole = (array.size,)
        return _view(input, whole) if array.flags.c_contiguous else reshape(input, whole)
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
    """All elements in one dimension.

    >>> import pullback as torch
    >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])
    """
    return reshape(contiguous(input), (-1,))


@numpy_spelled
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several.

    >>> import pullback as torch
    >>> torch.zeros(6).unflatten(0, (2, 3)).shape
    torch.Size([2, 3])
    """
    return _unflatten(input, dim, sizes)


def _unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several.

    >>> import pullback as torch
    >>> torch.zeros(6).unflatten(0, (2, 3)).shape
    torch.Size([2, 3])
    """
    shape = input._array.shape
    at = as_dim(dim, len(shape), "unflatten")
    if type(sizes) is int:
        raise errors.not_a_sequence("unflatten", "sizes", sizes)
    sizes = as_shape(sizes, 0, "unflatten")
    if not shape or not sizes:
        raise RuntimeError(
            f"unflatten: sizes {sizes} for a tensor of shape {shape}; there must be a dimension "
            "to split, and at least one size."
        )
    try:
        sizes = completed_shape("unflatten", shape[at], sizes)
    except RuntimeError as error:
        raise RuntimeError(f"{error} (dimension {at} of shape {shape})") from None
    return _view(input, (*shape[:at], *sizes, *shape[at + 1 :]))


METHODS["unflatten"] = _unflatten  # which takes no other names for its arguments, as in torch


def expand(input: Any, size: Any, *, implicit: bool = False) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size.

    >>> import pullback as torch
    >>> torch.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return _expand(input, as_shape(size, 0, "expand"))


def _expand_method(self: Any, *size: Any, implicit: bool = False, **named: Any) -> Any:
    """Repeat dimensions of size 1 without copying; -1 keeps a size.

    >>> import pullback as torch
    >>> torch.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if named or not size:
        return expand(self, *size, **named)
    return _expand(self, size if len(size) > 1 else _sizes(size))


_expand_method.__name__ = _expand_method.__qualname__ = "expand"
METHODS["expand"] = adapted(
    _expand,
    Adapter(
        "$input, *$size, $implicit=False, **$named",
        [
            "if $named or not $size or $size[0].__class__ is not int:",
            "    return otherwise($input, *$size, **$named)",
            *_LOOKED_AT,
        ],
        is_normal=True,
    ),
    _expand_method,
)


@method
@numpy_named
def expand_as(input: Any, other: Any = REQUIRED, x2: Any = None) -> Any:
    """`input` expanded to the shape of `other`.

    >>> import pullback as torch
    >>> torch.tensor([1, 2]).expand_as(torch.zeros(2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return _expand(input, _shape_of("expand_as", other, x2))


def broadcast_to(input: Any, size: Any) -> Any:
    """As `expand`, under NumPy's name.

    >>> import pullback as torch
    >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    if type(size) is int:
        raise errors.not_a_sequence("broadcast_to", "size", size)
    return _expand(input, size)


spread("broadcast_to", broadcast_to, _expand)


# Order of dimensions -----------------------------------------------------------------------------


def permute(input: Any, dims: Any) -> Any:
    """The dimensions in another order.

    >>> import pullback as torch
    >>> torch.permute(torch.zeros(2, 3, 4), (2, 0, 1)).shape
    torch.Size([4, 2, 3])
    """
    return _permute(input, dims)


spread("permute", permute, _permute)


@method
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """As `transpose`, under NumPy's name.

    >>> import pullback as torch
    >>> torch.swapaxes(torch.zeros(2, 3), 0, 1).shape
    torch.Size([3, 2])
    """
    return transpose(input, axis0, axis1)


@method
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Move dimensions to other places; the rest keep their order.

    >>> import pullback as torch
    >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
    torch.Size([3, 4, 2])
    """
    ndim = input._array.ndim
    if type(source) is type(destination) is int and ndim:
        order = list(range(ndim))
        dim = order.pop(as_dim(source, ndim, "movedim"))
        order.insert(as_dim(destination, ndim, "movedim"), dim)
        return _permute(input, order)
    taken = as_required_dims(source, ndim, "movedim")
    placed = as_required_dims(destination, ndim, "movedim")
    if len(taken) != len(placed):
        raise RuntimeError(
            f"movedim: {len(taken)} dims to move ({source}) but {len(placed)} places "
            f"({destination})."
        )
    if ndim == 0:
        return alias(input)
    order = [dim for dim in range(ndim) if dim not in taken]
    for place, dim in sorted(zip(placed, taken, strict=True)):
        order.insert(place, dim)
    return _permute(input, order)


@method
def squeeze(input: Any, dim: Any = REQUIRED, *, axis: Any = REQUIRED) -> Any:
    """Remove dimensions of size 1: all of them, or those in `dim`.

    >>> import pullback as torch
    >>> torch.squeeze(torch.zeros(1, 3, 1)).shape
    torch.Size([3])
    """
    if dim.__class__ is int and axis is REQUIRED:
        return _squeeze(input, dim)
    if dim is REQUIRED:
        dim = axis
    if dim is REQUIRED:
        return _squeeze_all(input)
    return _squeeze_dims(input, dim) if isinstance(dim, Iterable) else _squeeze(input, dim)


def atleast_1d(*tensors: Any) -> Any:
    """0-d tensors become 1-d; others stay.

    >>> import pullback as torch
    >>> torch.atleast_1d(torch.tensor(3.0))
    tensor([3.])
    """
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    for one in tensors:
        if not isinstance(one, Tensor):
            raise errors.not_a_tensor("atleast_1d", "tensors", one)
    made = tuple(reshape(one, (1,)) if one.ndim == 0 else one for one in tensors)
    return made[0] if len(made) == 1 else made
