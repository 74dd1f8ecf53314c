"""Arrays seen through other strides.

The geometry that views, their adjoints and in-place writes share.

A geometry is `(shape, strides, offset)`, the last two counted in elements.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy
from numpy import ndarray

from pullback.core.arrays import LIBRARIES, Array

Geometry: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]


def lie_alike(a: Array, b: Array) -> bool:
    """Whether arrays of one shape have the same steps in memory."""
    same: bool = a.strides == b.strides
    return same


def root(array: Array) -> Array:
    """The array that owns the memory."""
    while isinstance(array.base, type(array)):
        array = array.base
    return array


# An array's object begins as any object does; the pointer to its first element follows.
_pointer_at = ctypes.c_size_t.from_address
_HEAD = object.__basicsize__


def _stated(array: Any) -> int:
    """The address as NumPy's interface states it, in five times the time."""
    pointer: int = array.__array_interface__["data"][0]
    return pointer


def _can_be_read() -> bool:
    """Whether this interpreter and this NumPy lay their objects out so."""
    if sys.implementation.name != "cpython" or ndarray.__basicsize__ < _HEAD + ctypes.sizeof(
        ctypes.c_size_t
    ):
        return False
    tried = [numpy.zeros(3), numpy.zeros((4, 4), "f4")[1:, ::-1]]
    return all(_pointer_at(id(one) + _HEAD).value == _stated(one) for one in tried)


_IS_READ = _can_be_read()


def address(array: Array) -> int:
    """Where the first element is."""
    if LIBRARIES and type(array) in LIBRARIES:
        return LIBRARIES[type(array)].address(array)
    if _IS_READ and isinstance(array, ndarray):
        return _pointer_at(id(array) + _HEAD).value
    return _stated(array)


def distance(array: Array, whole: Array) -> int:
    """How many bytes the first element of an array lies behind that of another."""
    if _IS_READ and array.__class__ is ndarray is whole.__class__:
        there: int = _pointer_at(id(array) + _HEAD).value
        return there - _pointer_at(id(whole) + _HEAD).value
    return address(array) - address(whole)


def element_strides(array: Array) -> tuple[int, ...]:
    """Strides counted in elements."""
    size = array.itemsize
    return tuple([stride // size for stride in array.strides])


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def storage_offset(array: Array) -> int:
    """Elements from the start of the memory to the first one."""
    owner = root(array)
    if owner is array:
        return 0
    return (address(array) - address(owner)) // int(array.itemsize)


def restrided(array: Array, shape: Any, strides: Any, offset: int = 0) -> Array:
    """A writable view of the memory of `array`, strides and offset in bytes from its first element.

    The ndarray constructor is seven times faster than `as_strided`, and refuses to leave the
    memory.
    """
    if LIBRARIES and type(array) in LIBRARIES:
        return LIBRARIES[type(array)].window(array, shape, strides, offset)
    if array.flags.c_contiguous and offset >= 0:
        return ndarray(shape, array.dtype, array, offset, strides)
    owner = root(array)
    memory = _row_major(owner)
    if memory is not None:
        start = address(array) - address(owner) + offset
        return ndarray(shape, array.dtype, memory, start, strides)
    shifted = numpy.lib.stride_tricks.as_strided(array, (1,) * array.ndim)
    return numpy.lib.stride_tricks.as_strided(shifted, shape, strides, writeable=True)


def on_storage(array: Array, geometry: Geometry) -> Array:
    """The memory behind `array` seen with a geometry counted from the memory's start."""
    shape, strides, offset = geometry
    size = array.itemsize
    return on_bytes(array, shape, tuple([s * size for s in strides]), offset * size)


def on_bytes(array: Array, shape: tuple[int, ...], steps: tuple[int, ...], offset: int) -> Array:
    """As `on_storage`, of strides and an offset in bytes."""
    if array.__class__ is ndarray and array.base is None and array.flags.c_contiguous:
        given: Any = array
    else:
        owner = root(array)
        if LIBRARIES and type(array) in LIBRARIES:
            return LIBRARIES[type(array)].window(owner, shape, steps, offset)
        memory = _row_major(owner)
        given = owner if memory is None else memory
        numbers = None if type(array) is ndarray else getattr(array, "numbers", None)
        if numbers is not None:
            seen: Any = ndarray.__new__(type(array), shape, object, given, offset, steps)
            seen.numbers = numbers  # of the same class, whose elements are on the same memory
            return seen
    if 0 in shape:  # may begin anywhere: one more dimension, which nobody reads, leads there
        return ndarray((*shape, 2), array.dtype, given, 0, (*steps, offset))[..., 1]
    return ndarray(shape, array.dtype, given, offset, steps)


def in_order(owner: Array) -> Array:
    """The same memory with its dimensions in order; a window on foreign memory as it is."""
    ordered = _row_major(owner)
    return owner if ordered is None else ordered


def _row_major(owner: Array) -> Array | None:
    """The same memory with its dimensions in order, as a buffer must have them."""
    if owner.flags.c_contiguous:
        return owner
    ordered = owner.transpose(sorted(range(owner.ndim), key=owner.strides.__getitem__)[::-1])
    return ordered if ordered.flags.c_contiguous else None


def geometry_of(array: Array) -> Geometry:
    """Shape, strides and offset of an array on the memory it belongs to."""
    return array.shape, element_strides(array), storage_offset(array)


def extent(geometry: Geometry) -> int:
    """How many elements of memory, from its start, a geometry touches."""
    shape, strides, offset = geometry
    if 0 in shape:
        return offset
    return offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def may_overlap(geometry: Geometry) -> bool:
    """Whether two indices may stand on one place (never False when they do)."""
    shape, strides, _ = geometry
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def relaid(geometry: Geometry, base: Array) -> Geometry:
    """The geometry of a view, given relative to `base`, as it is on a row-major copy of `base`."""
    return moved(geometry, base.shape, element_strides(base), contiguous_strides(base.shape))


def moved(
    geometry: Geometry, sizes: tuple[int, ...], own: Sequence[int], given: Sequence[int]
) -> Geometry:
    """The geometry of a view of strides `own`, as it is where the same sizes have others."""
    shape, strides, offset = geometry
    sides = zip(own, given, sizes, strict=True)
    by_stride = sorted(((s, o) for s, o, n in sides if n > 1 and s), reverse=True)

    def elsewhere(distance: int) -> int:
        total = 0
        for stride, new_stride in by_stride:
            steps, distance = divmod(distance, stride)
            total += steps * new_stride
        return total

    return shape, tuple(elsewhere(stride) for stride in strides), elsewhere(offset)
