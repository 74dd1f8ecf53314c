"""Kernels of the steps that are no operators: casts, and parts of memory that is written."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES, namespace

__all__ = ["astype", "laid_out", "part", "with_part"]


def astype(array: Any, dtype: Any) -> Any:
    """The array in another dtype, as the engine and promotion cast."""
    return array.astype(dtype)


def part(array: Any, shape: Any, strides: Any, offset: int, own: Any) -> Any:
    """A part of memory by geometry; `own` are the strides that the geometry was taken on."""
    return _window(laid_out(array, own), shape, strides, offset, writeable=False)


def with_part(array: Any, value: Any, strides: Any, offset: int, own: Any) -> Any:
    """A copy of the array, with a part of it replaced."""
    whole = laid_out(array, own, copy=True)
    _window(whole, value.shape, strides, offset)[...] = value
    return whole


def laid_out(array: Any, strides: Any, *, copy: bool = False) -> Any:
    """The array with these strides, in elements; itself where it has them."""
    size = array.itemsize
    if not copy and tuple(stride // size for stride in array.strides) == tuple(strides):
        return array
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    memory = namespace(array).empty(span if array.size else 0, array.dtype)
    whole = _window(memory, array.shape, strides, 0)
    whole[...] = array
    return whole


def _window(array: Any, shape: Any, strides: Any, offset: int, *, writeable: bool = True) -> Any:
    """A view of an array's memory by geometry, in elements from its first one."""
    size = int(array.itemsize)
    steps = tuple(s * size for s in strides)
    library = LIBRARIES.get(type(array))
    if library is not None:
        return library.window(array, shape, steps, offset * size)
    as_strided = numpy.lib.stride_tricks.as_strided
    pairs = zip(array.shape, array.strides, strict=True)
    extent = 1 + sum((n - 1) * (s // size) for n, s in pairs) if array.size else 0
    flat = as_strided(array, (extent,), (size,), writeable=writeable)
    return as_strided(flat[offset:], shape, steps, writeable=writeable)
