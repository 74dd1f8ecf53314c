"""Where arrays lie, whichever library holds them: who shares memory with whom."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES

__all__ = ["is_fixed", "owner_of", "share_memory", "span_of"]


def span_of(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    if type(array) is numpy.ndarray and array.flags.c_contiguous:
        start = array.__array_interface__["data"][0]
        return start, start + array.nbytes
    library = LIBRARIES.get(type(array))
    if library is None:
        return numpy.lib.array_utils.byte_bounds(array)
    start = library.address(array)
    pairs = list(zip(array.shape, array.strides, strict=True))
    low = sum((n - 1) * s for n, s in pairs if s < 0)
    high = sum((n - 1) * s for n, s in pairs if s > 0)
    return start + low, start + high + int(array.itemsize)


def share_memory(one: Any, other: Any) -> bool:
    """Whether two arrays may have memory in common."""
    if type(one) is type(other) and type(one) not in LIBRARIES:
        return bool(numpy.may_share_memory(one, other))
    if type(one) is not type(other) or not (one.size and other.size):
        return False
    (start, end), (begin, stop) = span_of(one), span_of(other)
    return start < stop and begin < end


def owner_of(array: Any) -> Any:
    """The array whose memory it looks at; itself if it has its own."""
    kind = numpy.ndarray if isinstance(array, numpy.ndarray) else type(array)
    base = array.base
    while base is not None:  # between an array and its view by strides stands an object of NumPy's
        if isinstance(base, kind):
            array = base
        base = getattr(base, "base", None)
    return array


def is_fixed(array: Any) -> bool:
    """Whether nobody may write to it."""
    return isinstance(array, numpy.ndarray) and not array.flags.writeable
