"""NumPy's own BLAS library: the functions that NumPy does not show, and how many threads it uses.

NumPy's extension module is the way there. Where that leads nowhere (another BLAS, another system),
callers do without.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["forget", "library", "on_one_thread", "set_threads", "threads"]

_KERNELS = ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath")
_NAMES = (
    *("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads"),
    *("openblas_{}_num_threads64_", "openblas_{}_num_threads"),
)


@cache
def library() -> Any:
    """The library that NumPy has loaded, or None."""
    module = next((sys.modules[name] for name in _KERNELS if name in sys.modules), None)
    try:
        return ctypes.CDLL(module.__file__) if module is not None else None
    except (AttributeError, OSError, TypeError):  # built in, or not to be opened again
        return None


@cache
def _counting() -> tuple[Any, Any] | None:
    """What tells the number of threads, and what sets it."""
    for name in _NAMES:
        get, put = (getattr(library(), name.format(verb), None) for verb in ("get", "set"))
        if get is not None and put is not None:
            get.argtypes, get.restype = (), ctypes.c_int
            put.argtypes, put.restype = (ctypes.c_int,), None
            return get, put
    return None


def threads() -> int | None:
    """On how many threads products run; None where that is not known."""
    known = _counting()
    return None if known is None else known[0]()


def set_threads(number: int) -> bool:
    """Let products run on so many threads; False where BLAS cannot be told."""
    known = _counting()
    if known is not None:
        known[1](number)
    return known is not None


class _Inside:
    """How many kernels share out products, and how many threads each of those had before."""

    __slots__ = ("before", "depth", "lock")

    def __init__(self) -> None:
        self.lock, self.depth, self.before = threading.Lock(), 0, 1


_inside = _Inside()


def forget() -> None:
    """In a forked child, where no kernel is at work."""
    global _inside
    if _inside.depth and _inside.before > 1:
        set_threads(_inside.before)
    _inside = _Inside()


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Products run on the thread that asks for them: pieces are on several threads already.

    A step of a small convolutional net on two threads: 17 ms, and 25 where BLAS took two for each.
    """
    with _inside.lock:
        if not _inside.depth:
            _inside.before = threads() or 1
            if _inside.before > 1:
                set_threads(1)
        _inside.depth += 1
    try:
        yield
    finally:
        with _inside.lock:
            _inside.depth -= 1
            if not _inside.depth and _inside.before > 1:
                set_threads(_inside.before)
