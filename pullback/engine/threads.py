"""Threads of passes: deep re-entrance, and how many threads one pass may use.

A backward inside a backward inside ... continues on another thread's stack.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from pullback.core import sequence

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")

# A level takes about ten Python frames of ours besides the user's; the interpreter allows 1000.
LEVELS_PER_THREAD = 30
# What never ends must end before memory does: a level takes about 20 kB.
MOST_LEVELS = 20_000


class _SideBySide:
    """How many threads one pass may use, the calling one included; for the whole process."""

    __slots__ = ("threads",)

    def __init__(self) -> None:
        self.threads = 1


side_by_side = _SideBySide()


class _Fork:
    """How deep passes nest on one thread: not at all in a child without its parent's threads."""

    __slots__ = ("levels", "lost_threads")

    def __init__(self) -> None:
        self.levels = LEVELS_PER_THREAD
        self.lost_threads = False


fork = _Fork()
_depth = threading.local()
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def nested(function: Callable[[], T]) -> T:
    """Run a pass; beyond so many levels on this thread, on a fresh one while this one waits."""
    depth: int = getattr(_depth, "value", 0)
    if depth >= fork.levels:
        if fork.lost_threads:
            raise RuntimeError(
                "backward() cannot run in this forked process: its parent had started threads for "
                "deeply nested passes, and a fork leaves threads behind. Start processes with the "
                "method 'spawn' or 'forkserver' of multiprocessing, or fork earlier."
            )
        return _on_another_thread(function)
    _depth.value = depth + 1
    try:
        return function()
    finally:
        _depth.value = depth


class _Line:
    """The threads of passes inside one another; all but the last wait for the next."""

    __slots__ = ("idents", "lock")

    def __init__(self) -> None:
        self.idents: list[int] = []
        self.lock = threading.Lock()

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise an exception in the thread that works."""
        import ctypes  # only here, and slow to load

        with self.lock:  # a thread leaves the line under it, so none is hit that went on
            if self.idents:
                raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
                raise_in(ctypes.c_ulong(self.idents[-1]), ctypes.py_object(kind))


def _on_another_thread(function: Callable[[], T]) -> T:
    line: _Line = getattr(_depth, "line", None) or _Line()
    # The context carries grad mode, hooks and everything else that a thread has of its own.
    context = contextvars.copy_context()
    future = _threads().submit(context.run, _from_the_start, function, line)
    try:
        return future.result()
    except BaseException as error:
        if not (future.done() and future.exception() is error):
            # An interrupt came to the thread that waits: it is meant for the one that works.
            line.interrupt(type(error))
            future.exception()
        raise


def _from_the_start(function: Callable[[], T], line: _Line) -> T:
    sequence.arrive()
    _depth.value = 0
    _depth.line = line
    with line.lock:
        line.idents.append(threading.get_ident())
    try:
        return nested(function)
    finally:
        with line.lock:
            line.idents.pop()
        _depth.line = None


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None:
            from concurrent.futures import ThreadPoolExecutor  # loads logging; few need it

            sequence.arrive()

            _pool = ThreadPoolExecutor(max_workers=100_000, thread_name_prefix="pullback-nested")
        return _pool


def _forget_pool() -> None:
    global _pool, _pool_lock
    if _pool is not None:
        fork.levels, fork.lost_threads = (
            -1,
            True,
        )  # the usual comparison finds it: no cost elsewhere
    _pool, _pool_lock = None, threading.Lock()


def running_levels() -> int:
    """How many passes run inside one another on this thread."""
    return getattr(_depth, "value", 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
