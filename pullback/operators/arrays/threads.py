"""The pieces of one large kernel on several threads: NumPy lets others run while it computes.

Pieces are the same whatever the number of threads, and what is added up is added in the order of
the pieces: so results are the same to the last bit.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from pullback.core.ports import ports
from pullback.core.process.alone import Servant
from pullback.operators.arrays import blas

__all__ = [
    "count",
    "default_count",
    "each",
    "in_order",
    "leave_others_alone",
    "setting",
    "side_by_side",
]

T = TypeVar("T")
R = TypeVar("R")

_ENVIRONMENT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class _Setting:
    """How many threads a kernel may use, the calling one included.

    Args:
        count: What the user said; None if nothing.
        found: What was found to be free when a kernel first asked.
        splits: Whether written lines ask for large arrays, to share them out too.
    """

    __slots__ = ("count", "found", "splits")

    def __init__(self) -> None:
        self.count: int | None = None
        self.found: int | None = None
        self.splits = False


setting = _Setting()


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


def leave_others_alone() -> None:
    """On a busy machine, let products use the processors that nobody else does, as kernels do.

    The user has said otherwise where the environment has a number.
    """
    if not any(os.environ.get(name) for name in _ENVIRONMENT):
        free = default_count()
        if free < (os.cpu_count() or 1) and free < (blas.threads() or 1):
            blas.set_threads(free)


def each(function: Callable[[T], Any], pieces: Iterable[T]) -> None:
    """Call `function` with each of the pieces, which have nothing to do with each other."""
    pieces = list(pieces)
    if len(pieces) < 2 or count() == 1:
        for piece in pieces:
            function(piece)
        return
    _share(function, pieces)


def in_order(function: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
    """The results for each of the pieces, in their order; one by one where one thread works."""
    pieces = list(pieces)
    if len(pieces) < 2 or count() == 1:
        return map(function, pieces)
    made: list[Any] = [None] * len(pieces)

    def keep(number: int) -> None:
        made[number] = function(pieces[number])

    _share(keep, list(range(len(pieces))))
    return iter(made)


def count() -> int:
    """How many threads a kernel may use now; in a browser there is one, whatever was set."""
    if sys.platform in ("emscripten", "wasi"):
        return 1
    if setting.count is not None:
        return setting.count
    if setting.found is None:
        setting.found = default_count()
    return setting.found


def _share(function: Callable[[T], Any], pieces: list[T]) -> None:
    """Go through the pieces here and on other threads.

    Neighbours stay on one thread, and so in its cache.
    """
    if not setting.splits:
        ports.split_large()  # this program has large arrays
    many = min(count(), len(pieces))
    cuts = [len(pieces) * number // many for number in range(many + 1)]
    parts = [deque(pieces[start:end]) for start, end in pairwise(cuts)]

    def work(number: int) -> None:
        try:
            for piece in _taken(parts, number):
                function(piece)
        except BaseException:
            for part in parts:
                part.clear()  # nobody needs the others any more
            raise

    side_by_side([partial(work, number) for number in range(many)])


def _taken(parts: list[deque[T]], number: int) -> Iterator[T]:
    """Pieces of one's own part from its start, then of the other parts from their ends."""
    for part in (parts[number], *parts):
        take = part.popleft if part is parts[number] else part.pop
        while part:
            try:
                piece = take()
            except IndexError:  # somebody was quicker
                break
            yield piece


def side_by_side(works: list[Callable[[], Any]]) -> None:
    """Do the first work here and the others on other threads, as far as some are free.

    A work may be left out: it must find nothing to do once another one is through.
    """
    helpers = [helper for work in works[1:] if (helper := _free_helper()) is not None]
    with blas.on_one_thread():
        _with_helpers(works, helpers)


def _with_helpers(works: list[Callable[[], Any]], helpers: list[_Helper]) -> None:
    for helper, work in zip(helpers, works[1:], strict=False):
        helper.start(work)
    try:
        works[0]()
    finally:
        errors = [helper.finish() for helper in helpers]
    for error in errors:
        if error is not None:
            raise error


class _Helper:
    """A thread that waits for work; two locks hand it over, in half the time of a queue.

    Both are held while there is nothing: letting `go` go starts the work, `done` ends it.
    """

    def __init__(self) -> None:
        self.go, self.done = threading.Lock(), threading.Lock()
        self.work: Callable[[], Any] | None = None
        self.error: BaseException | None = None
        self.go.acquire()
        self.done.acquire()
        Servant(target=self._run, name="pullback-kernel", daemon=True).start()

    def start(self, work: Callable[[], Any]) -> None:
        # The caller's context has its way with floating-point warnings.
        self.work = partial(contextvars.copy_context().run, work)
        self.go.release()

    def finish(self) -> BaseException | None:
        """Wait for the work, and be free again; the error that it ended in, if it did.

        What has not begun by now has nothing left to do, and whoever waited for it could be the one
        that it waits for.
        """
        if not self.go.acquire(blocking=False):
            try:
                self.done.acquire()
            except BaseException as interrupt:
                self.done.acquire()  # the work writes to the caller's arrays
                self.error = interrupt
        self.work, error, self.error = None, self.error, None
        _free.append(self)
        return error

    def _run(self) -> None:
        while True:
            self.go.acquire()
            try:
                assert self.work is not None
                self.work()
            except BaseException as error:  # which is the caller's
                self.error = error
            self.done.release()


_free: list[_Helper] = []
_started = 0
_lock = threading.Lock()


def _free_helper() -> _Helper | None:
    """A thread that waits; there are as many as kernels may use in all, however many callers."""
    global _started
    with suppress(IndexError):
        return _free.pop()
    with _lock:
        if _started >= count() - 1:
            return None
        _started += 1
    return _Helper()


def _forget_helpers() -> None:
    global _free, _started, _lock
    _free, _started, _lock = [], 0, threading.Lock()
    blas.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)
