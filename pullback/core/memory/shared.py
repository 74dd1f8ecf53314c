"""Memory that several processes see: anonymous blocks, and moving a tensor into one.

A block has no name from the moment it exists, only file descriptors and mappings, so the system
frees it with the last process that knows it: nothing is left in /dev/shm, whoever is killed when.
The blocks of `multiprocessing.shared_memory` have names, which a killed process leaves behind.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.layout import order_kept
from pullback.core.tensor import Tensor

_EMPTY = 1  # a mapping must have a byte
# The most references to an array that no other array or tensor sees: the tensor or the view, our
# variable, and the argument of getrefcount.
_ALONE = 3


class Block(mmap.mmap):
    """Shared memory of a given size; `fd` is what another process needs to map it too."""

    fd: int

    def __new__(cls, size: int, fd: int | None = None) -> Block:
        """Make one, or map the one that a file descriptor stands for."""
        made = anonymous_file(size) if fd is None else fd
        block = super().__new__(cls, made, max(size, _EMPTY))
        block.fd = made
        return block

    def __del__(self) -> None:
        # A process that was told to stop may have closed it in the meantime.
        fd, self.fd = getattr(self, "fd", -1), -1
        if fd >= 0:
            os.close(fd)


def anonymous_file(size: int) -> int:
    """A file descriptor of memory (or of a file without a name) of so many bytes, all zero."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pullback")
    else:
        import tempfile  # 6 ms, with all that it imports, and nobody else needs it

        fd, name = tempfile.mkstemp(prefix="pullback-")
        os.unlink(name)
    os.ftruncate(fd, max(size, _EMPTY))
    return fd


def owner(array: Array) -> Array:
    """The array that owns the memory of a view."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def block_of(array: Array) -> Block | None:
    """The block that an array lies in, if it does."""
    base: Any = owner(array).base
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, Block) else None


def shared_copy(array: Array) -> Array:
    """The same view of a copy of all the memory behind an array, in a block."""
    whole = owner(array)
    ordered = whole.transpose(order_kept(whole))
    if not ordered.flags.c_contiguous:  # a window on memory that somebody else gave us
        whole = array
        ordered = numpy.ascontiguousarray(array)
        strides, offset = ordered.strides, 0
    else:
        strides = array.strides
        offset = _address(array) - _address(ordered) if array.size else 0
    block = Block(ordered.nbytes)
    numpy.ndarray(ordered.shape, ordered.dtype, block)[...] = ordered
    return numpy.ndarray(array.shape, array.dtype, block, offset, strides)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def is_alone(tensor: Tensor) -> bool:
    """Whether no other tensor or array sees the memory of this one."""
    array = tensor._array
    if sys.getrefcount(array) > _ALONE:
        return False
    base = array.base
    return base is None or (isinstance(base, numpy.ndarray) and sys.getrefcount(base) <= _ALONE)


def move(tensor: Tensor) -> None:
    """Put a tensor's memory into a block. Other views of the old memory stay where they are."""
    if block_of(tensor._array) is None:
        tensor._array = shared_copy(tensor._array)
