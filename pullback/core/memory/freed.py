"""Memory that a program has given back and may ask for again, while tensors still look at it.

Sharded training frees the memory of gathered parameters so (`storage.resize_(0)`) and fills it anew
before the next use; views and saved values must find it at the same place. NumPy's arrays cannot be
moved, so the addresses stay reserved and the pages behind them go back to the system, which gives
fresh ones when they are next touched.
"""

from __future__ import annotations

import mmap
import sys
import weakref
from functools import cache
from typing import Any

from pullback.core.arrays import Array

__all__ = ["free", "restore", "size_of"]

# Arrays that own freed memory, by identity: arrays have no hash. The reference removes the entry.
_freed: dict[int, weakref.ref[Any]] = {}
_DONT_NEED = 4  # MADV_DONTNEED in Linux's mman.h


def size_of(owner: Array) -> int:
    """How many bytes an array has, 0 while they are given back."""
    if _freed:
        known = _freed.get(id(owner))
        if known is not None and known() is owner:
            return 0
    return int(owner.nbytes)


def free(owner: Array, address: int) -> None:
    """Give back the memory that an array owns; what is read there afterwards means nothing."""
    key = id(owner)
    _freed[key] = weakref.ref(owner, lambda _: _freed.pop(key, None))
    give_back = _madvise()
    if give_back is None or not owner.flags.owndata:  # shared with other processes, a file
        return
    first = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (address + owner.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        give_back(first, last - first, _DONT_NEED)


def restore(owner: Array) -> None:
    """Use the memory again; its contents are to be written first."""
    _freed.pop(id(owner), None)


@cache
def _madvise() -> Any:
    """The C library's function that gives pages back; None where we do not know it."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        found = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return found
