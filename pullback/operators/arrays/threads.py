"""The pieces of one large kernel on several threads: NumPy lets others run while it computes.

Pieces are the same whatever the number of threads, and what is added up is added in the order of
the pieces: so results are the same to the last bit.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["default_count", "each", "in_order", "setting"]

T = TypeVar("T")
R = TypeVar("R")

_ENVIRONMENT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class _Setting:
    """How many threads a kernel may use, the calling one included.

    Args:
        count: What the user said; None if nothing.
        found: What was found to be free when a kernel first asked.
    """

    __slots__ = ("count", "found")

    def __init__(self) -> None:
        self.count: int | None = None
        self.found: int | None = None


setting = _Setting()
_pool: ThreadPoolExecutor | None = None
_MOST = 256
_lock = threading.Lock()


def default_count() -> int:
    """What the environment says, else the processors that nobody else uses."""
    for name in _ENVIRONMENT:
        if os.environ.get(name, "").isdecimal():
            return max(1, int(os.environ[name]))
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        usable = os.cpu_count() or 1
    # More threads than idle processors wait for each other: a small net took three times as long.
    busy = round(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0
    return max(1, usable - busy)


def each(function: Callable[[T], Any], pieces: Iterable[T]) -> None:
    """Call `function` with each of the pieces, which have nothing to do with each other."""
    pieces = list(pieces)
    if len(pieces) < 2 or _count() == 1:
        for piece in pieces:
            function(piece)
        return
    _share(function, pieces)


def in_order(function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
    """The results for each of the pieces, in their order; one by one where one thread works."""
    pieces = list(pieces)
    if len(pieces) < 2 or _count() == 1:
        return map(function, pieces)
    made: list[Any] = [None] * len(pieces)

    def keep(number: int) -> None:
        made[number] = function(pieces[number])

    _share(keep, list(range(len(pieces))))
    return iter(made)


def _count() -> int:
    if setting.count is not None:
        return setting.count
    if setting.found is None:
        setting.found = default_count()
    return setting.found


def _share(function: Callable[[T], Any], pieces: list[T]) -> None:
    """Take pieces until none is left, here and on other threads."""
    rest = deque(pieces)
    silence = numpy.geterr()

    def work() -> None:
        try:
            with numpy.errstate(**silence):  # which other threads do not know of
                while rest:
                    try:
                        piece = rest.popleft()
                    except IndexError:  # somebody was quicker
                        return
                    function(piece)
        except BaseException:
            rest.clear()  # nobody needs the others any more
            raise

    pool = _threads()
    helpers = [pool.submit(work) for _ in range(min(_count(), len(pieces)) - 1)]
    try:
        work()
    finally:
        # One that has not begun by now has nothing left to do: whoever waited for it could be the
        # one that it waits for.
        begun = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in begun]
    for error in errors:
        if error is not None:
            raise error


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            from concurrent.futures import ThreadPoolExecutor  # loads logging; few need it

            _pool = ThreadPoolExecutor(_MOST, "pullback-kernel")  # threads start when needed
        return _pool


def _forget_pool() -> None:
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
