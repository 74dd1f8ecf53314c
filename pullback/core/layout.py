"""Layouts and memory formats: torch's names for how elements lie in memory.

Its own file because programs may name any of them, while arrays have strides and nothing else:
`strided` is the only layout that can hold tensors, and a memory format is an order of dimensions.
"""

from __future__ import annotations

from typing import Any, NoReturn, final

import numpy

from pullback.core.arrays import Array, Namespace

# The public names; the functions below are for operators.
__all__ = [
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "jagged",
    "layout",
    "memory_format",
    "preserve_format",
    "sparse_bsc",
    "sparse_bsr",
    "sparse_coo",
    "sparse_csc",
    "sparse_csr",
    "strided",
]


class _Named:
    """A singleton that is its name; stays the same object through pickle and copy."""

    __slots__ = ("_name",)

    _name: str

    def __init__(self, *args: object, **options: object) -> None:
        kind = type(self).__name__
        raise TypeError(f"{kind} objects cannot be created; use the ones that there are")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"attribute {name!r} of {self} is read-only")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return named_layout, (self._name,)


@final
class layout(_Named):  # noqa: N801  torch's name
    """How a tensor stores its elements: `strided`, or one of five sparse ways.

    Example:
        >>> import pullback as torch
        >>> torch.zeros(2).layout
        torch.strided
    """

    __slots__ = ()


@final
class memory_format(_Named):  # noqa: N801  torch's name
    """Which dimension varies fastest in the memory of a tensor.

    Example:
        >>> import pullback as torch
        >>> torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride()
        (60, 1, 15, 3)
    """

    __slots__ = ()


_named: dict[str, _Named] = {}


def _make(cls: type[_Named], name: str) -> Any:
    made = object.__new__(cls)
    object.__setattr__(made, "_name", name)
    return _named.setdefault(name, made)


def named_layout(name: str) -> Any:
    """The layout or memory format of a given name; pickles of them load through this."""
    return _named[name]


strided: layout = _make(layout, "strided")
sparse_coo: layout = _make(layout, "sparse_coo")
sparse_csr: layout = _make(layout, "sparse_csr")
sparse_csc: layout = _make(layout, "sparse_csc")
sparse_bsr: layout = _make(layout, "sparse_bsr")
sparse_bsc: layout = _make(layout, "sparse_bsc")
jagged: layout = _make(layout, "jagged")
# No public name: to users nested tensors that are not jagged have layout torch.strided.
nested_strided: layout = _make(layout, "strided (nested)")
SPARSE = (sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)

contiguous_format: memory_format = _make(memory_format, "contiguous_format")
preserve_format: memory_format = _make(memory_format, "preserve_format")
channels_last: memory_format = _make(memory_format, "channels_last")
channels_last_3d: memory_format = _make(memory_format, "channels_last_3d")

# The dimensions from outermost to innermost, of images (N, C, H, W) and volumes.
_CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def order_of(op: str, format: memory_format, ndim: int) -> tuple[int, ...]:
    """The dimensions from outermost to innermost that a memory format other than preserve means."""
    if format is contiguous_format:
        return tuple(range(ndim))
    order = _CHANNELS_LAST.get(format)
    if not isinstance(format, memory_format):
        kind = type(format).__name__
        raise TypeError(f"{op}(): memory_format must be a torch.memory_format, got {kind}.")
    if order is None:
        raise RuntimeError(
            f"{op}: memory_format {format} does not say an order; use torch.contiguous_format, "
            "torch.channels_last or torch.channels_last_3d"
        )
    if len(order) != ndim:
        raise RuntimeError(
            f"{op}: {format} is for tensors of {len(order)} dimensions, this one has {ndim}"
        )
    return order


def is_in_format(array: Array, format: memory_format) -> bool:
    """Whether the elements fill memory without gaps in the order of `format`."""
    order = _CHANNELS_LAST.get(format)
    if order is None:
        return bool(array.flags.c_contiguous)
    return array.ndim == len(order) and bool(array.transpose(order).flags.c_contiguous)


def suggested_format(array: Array) -> memory_format:
    """The format that an array is in, as torch judges it: channels last if only that fits."""
    if array.flags.c_contiguous:
        return contiguous_format
    for format in _CHANNELS_LAST:
        if is_in_format(array, format):
            return format
    return contiguous_format


def order_kept(array: Array) -> tuple[int, ...]:
    """The dimensions from outermost to innermost that a copy keeps: by stride, largest first.

    An expanded dimension has no place in memory, so it keeps its place in the shape.
    """
    strides = array.strides
    placed = [dim for dim in range(array.ndim) if strides[dim]]
    by_stride = iter(sorted(placed, key=lambda dim: -abs(strides[dim])))
    return tuple(next(by_stride) if strides[dim] else dim for dim in range(array.ndim))


def strides_in_order(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of memory without gaps, the last dimension of `order` fastest."""
    strides = [1] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def empty_in_order(
    xp: Namespace, shape: tuple[int, ...], dtype: Any, order: tuple[int, ...]
) -> Array:
    """New memory in which the last dimension of `order` varies fastest."""
    if order == tuple(range(len(shape))):
        return xp.empty(shape, dtype)
    strides = strides_in_order(shape, order)
    return xp.ndarray(shape, dtype, strides=[step * dtype.itemsize for step in strides])


def cast_kept(array: Array, dtype: Any) -> Array:
    """A copy in another dtype that lies as torch's does: NumPy puts expanded dimensions last."""
    if 0 not in array.strides or type(array) is not numpy.ndarray:
        return array.astype(dtype)
    made = empty_like(numpy, array, numpy.dtype(dtype))
    made[...] = array
    return made


def empty_like(
    xp: Namespace, array: Array, dtype: Any = None, format: memory_format = preserve_format
) -> Array:
    """New memory of an array's shape and (unless given) dtype, laid out by `format`."""
    dtype = array.dtype if dtype is None else dtype
    if array.flags.c_contiguous and (format is preserve_format or format is contiguous_format):
        return xp.empty(array.shape, dtype)
    if format is preserve_format:
        return empty_in_order(xp, array.shape, dtype, order_kept(array))
    return empty_in_order(xp, array.shape, dtype, order_of("empty_like", format, array.ndim))
