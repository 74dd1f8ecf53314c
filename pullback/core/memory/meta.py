"""Arrays that have a shape, strides and a dtype but no data: the memory of device "meta".

A `MetaArray` is a NumPy array on memory that costs nothing: pages of zeros that are reserved, never
written and shared by all. So everything that looks at arrays (strides, views, bases) works on it.
Writes to it do nothing; what operators compute with it is in operators/running/meta.py.
Loaded when a program first asks for the device.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy

from pullback.core import arrays, errors
from pullback.core.device import META
from pullback.core.layout import order_kept

__all__ = ["MARK", "MetaArray", "like", "of", "plain", "reserved_memory", "tiny"]

# A dtype with this note asks functions that make arrays for one without data.
MARK = {"device": "meta"}


class MetaArray(numpy.ndarray[Any, Any]):
    """An array without data; what is read from it are zeros."""

    _device = META
    __array_priority__ = 1.0  # `with_data.dot(without)` is one of these, and no zeros

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is Ellipsis:
            if numpy.shape(value) != self.shape:
                numpy.broadcast_shapes(numpy.shape(value), self.shape)
            return
        self[key]  # refuses what is outside

    def fill(self, value: Any) -> None:
        """Nothing: there is no data."""

    def __bool__(self) -> bool:
        raise errors.no_data("a decision by values")

    def item(self, *place: Any) -> Any:
        """Refused: there is no data."""
        raise errors.no_data("item()", RuntimeError)

    def tolist(self) -> Any:
        """Refused: there is no data."""
        raise errors.no_data("tolist()")

    def copy(self, order: Any = "C") -> MetaArray:
        """Another one, in this order of dimensions."""
        return of(self.shape, self.dtype, _order_of(self, order))

    def astype(self, dtype: Any, order: Any = "K", *args: Any, **kwargs: Any) -> MetaArray:
        """Another one, with this dtype."""
        return of(self.shape, numpy.dtype(dtype), _order_of(self, order))

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        targets = () if out is None else out
        _check_devices(ufunc, inputs)
        known = [plain(one) if isinstance(one, MetaArray) else one for one in inputs]
        if method == "__call__" and ufunc.signature is None:
            made = _elementwise(ufunc, known, kwargs)
        else:
            made = getattr(ufunc, method)(*known, **kwargs)
        if not targets:
            if isinstance(made, tuple):
                return tuple(like(one) for one in made)
            return like(made)
        for target, one in zip(targets, made if isinstance(made, tuple) else (made,), strict=False):
            if numpy.broadcast_shapes(one.shape, target.shape) != target.shape:
                raise ValueError(f"shape {one.shape} does not fit the output's {target.shape}")
        return targets[0] if len(targets) == 1 else targets

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        made = func(*_plain_tree(args), **{name: _plain_tree(v) for name, v in kwargs.items()})
        return _meta_tree(made)


def _check_devices(ufunc: Any, inputs: tuple[Any, ...]) -> None:
    """The fast path of an operator does not look at devices; here is the first chance to."""
    for number, one in enumerate(inputs):
        if type(one) is numpy.ndarray and one.ndim and one.dtype.kind not in "biu":
            raise errors.devices_differ(ufunc.__name__, f"operand {number + 1}")


def _plain_tree(value: Any) -> Any:
    if isinstance(value, MetaArray):
        return plain(value)
    if isinstance(value, list | tuple):
        return type(value)(_plain_tree(one) for one in value)
    return value


def _meta_tree(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return like(value)
    if isinstance(value, list | tuple):
        return [_meta_tree(one) for one in value]
    return value


arrays.NAMESPACES[MetaArray] = numpy


@cache
def reserved_memory() -> mmap.mmap:
    """As large a stretch of zero pages as the system lets us reserve; it takes no memory."""
    for bits in range(46, 29, -1):
        try:
            if hasattr(mmap, "PROT_READ"):
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
                return mmap.mmap(-1, 2**bits, flags, mmap.PROT_READ)
            return mmap.mmap(-1, 2 ** min(bits, 31), access=mmap.ACCESS_READ)
        except (OSError, OverflowError, ValueError):
            continue
    raise RuntimeError("The system reserves no address space for tensors on device 'meta'.")


def of(shape: Sequence[int], dtype: Any, order: Sequence[int] | None = None) -> MetaArray:
    """An array without data and gaps; `order` lists the dimensions from slowest to fastest."""
    dtype = numpy.dtype(dtype.type) if dtype.metadata else dtype
    strides = [0] * len(shape)
    step = dtype.itemsize
    for dim in reversed(range(len(shape)) if order is None else order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return strided(tuple(shape), dtype, tuple(strides))


def strided(shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]) -> MetaArray:
    """An array without data, with strides in bytes."""
    try:
        return MetaArray(shape, dtype, reserved_memory(), 0, strides)
    except (TypeError, ValueError):
        raise RuntimeError(
            f"A tensor of size {shape} on device 'meta' is larger than the address space."
        ) from None


def like(value: Any) -> MetaArray:
    """An array without data of another's shape, dtype and strides."""
    array = numpy.asarray(value)
    if any(stride < 0 for stride in array.strides):
        return of(array.shape, array.dtype)
    dtype = numpy.dtype(array.dtype.type) if array.dtype.metadata else array.dtype
    return strided(array.shape, dtype, array.strides)


def plain(array: MetaArray) -> numpy.ndarray[Any, Any]:
    """The zeros that it stands on, as a usual array that cannot be written."""
    return array.view(numpy.ndarray)


# Shapes ------------------------------------------------------------------------------------------


def tiny(
    array: numpy.ndarray[Any, Any], sizes: dict[int, int], value: int = 0
) -> numpy.ndarray[Any, Any]:
    """A small array of one value, same dtype and order of dimensions; `sizes` maps lengths."""
    shape = tuple(sizes.get(size, size) for size in array.shape)
    order = _order_of(array, "K") or range(array.ndim)
    made = numpy.full([shape[dim] for dim in order], value, array.dtype)
    return made.transpose(numpy.argsort(numpy.array(order, int)))


def _elementwise(ufunc: Any, inputs: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a ufunc, from a run on arrays of at most two elements per dimension."""
    shape = numpy.broadcast_shapes(*[numpy.shape(one) for one in inputs])
    small = [_shrunk(one) for one in inputs]
    made = ufunc(*small, **kwargs)
    if isinstance(made, tuple):
        return tuple(grown(one, shape) for one in made)
    return grown(made, shape)


def _shrunk(value: Any) -> Any:
    if not isinstance(value, numpy.ndarray):
        return value
    return tiny(value, {size: 2 for size in value.shape if size > 1}, 1)


def grown(made: Any, shape: tuple[int, ...]) -> MetaArray:
    """An array of `shape` with the dtype and order of dimensions of a small result."""
    small = numpy.asarray(made)
    return of(shape, small.dtype, _order_of(small, "K"))


def _order_of(array: numpy.ndarray[Any, Any], order: Any) -> list[int] | None:
    """Dimensions from slowest to fastest for NumPy's letters; None is row-major."""
    if order == "C" or order is None:
        return None
    if order == "F" or (order == "A" and array.flags.fnc):
        return list(reversed(range(array.ndim)))
    if order == "A":
        return None
    return list(order_kept(array)) if array.size else None
