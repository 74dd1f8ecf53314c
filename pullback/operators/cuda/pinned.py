"""Host memory that stays where it is, so that a device copies from it while the host goes on."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.ports import ports
from pullback.operators.arrays.strides import root
from pullback.operators.cuda.found import found

__all__ = ["is_pinned", "pinned", "space"]

# Arrays that own such memory, by identity.
_owners: dict[int, weakref.ref[Any]] = {}


def pinned(array: Array) -> Array:
    """A copy of a host array in pinned memory, in the order of rows."""
    if is_pinned(array):
        return array
    copy = space(array.shape, array.dtype)
    copy[...] = array
    return copy


def space(shape: tuple[int, ...], dtype: Any) -> Array:
    """A host array in pinned memory that nobody has written to."""
    size = math.prod(shape) * dtype.itemsize
    memory = found.cupy.cuda.alloc_pinned_memory(max(size, 1))
    owner = numpy.frombuffer(memory, numpy.uint8, size)
    key = id(owner)
    _owners[key] = weakref.ref(owner, lambda _: _owners.pop(key, None))
    return owner.view(dtype).reshape(shape)


def is_pinned(array: Array) -> bool:
    """Whether a host array's memory is pinned."""
    if not _owners or type(array) is not numpy.ndarray:
        return False
    known = _owners.get(id(root(array)))
    return known is not None and known() is not None


ports.fill(pinned=pinned, is_pinned=is_pinned)
