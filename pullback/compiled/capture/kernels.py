"""Kernels of the steps that are no operators: casts, and parts of memory that is written."""

from __future__ import annotations

from typing import Any

import numpy

__all__ = ["astype", "laid_out", "part", "with_part"]


def astype(array: Any, dtype: Any) -> Any:
    """The array in another dtype, as the engine and promotion cast."""
    return array.astype(dtype)


def part(array: Any, shape: Any, strides: Any, offset: int, own: Any) -> Any:
    """A part of memory by geometry; `own` are the strides that the geometry was taken on."""
    array = laid_out(array, own)
    size = array.itemsize
    flat = numpy.lib.stride_tricks.as_strided(array, (_extent(array),), (size,), writeable=False)
    return numpy.lib.stride_tricks.as_strided(
        flat[offset:], shape, tuple(s * size for s in strides), writeable=False
    )


def with_part(array: Any, value: Any, strides: Any, offset: int, own: Any) -> Any:
    """A copy of the array, with a part of it replaced."""
    whole = laid_out(array, own, copy=True)
    size = whole.itemsize
    flat = numpy.lib.stride_tricks.as_strided(whole, (_extent(whole),), (size,))
    numpy.lib.stride_tricks.as_strided(
        flat[offset:], value.shape, tuple(s * size for s in strides)
    )[...] = value
    return whole


def laid_out(array: Any, strides: Any, *, copy: bool = False) -> Any:
    """The array with these strides, in elements; itself where it has them."""
    size = array.itemsize
    if not copy and tuple(stride // size for stride in array.strides) == tuple(strides):
        return array
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    memory = numpy.empty(span if array.size else 0, array.dtype)
    whole = numpy.lib.stride_tricks.as_strided(
        memory, array.shape, tuple(s * size for s in strides)
    )
    whole[...] = array
    return whole


def _extent(array: Any) -> int:
    if not array.size:
        return 0
    pairs = zip(array.shape, array.strides, strict=True)
    reach: int = sum((n - 1) * (s // int(array.itemsize)) for n, s in pairs)
    return 1 + reach
