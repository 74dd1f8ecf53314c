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


_fork = _Fork()
_depth = threading.local()
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def nested(function: Callable[[], T]) -> T:
    """Run a pass; beyond so many levels on this thread, on a fresh one while this one waits."""
    depth: int = getattr(_depth, "value", 0)
    if depth >= _fork.levels:
        if _fork.lost_threads:
            raise RuntimeError(
                "backward() cannot run in this forked process: its parent had started threads for "
                "deeply nested passes, and a fork leaves threads behind. Start processes with the "
                "method 'spawn' or 'forkserver' of multiprocessing, or fork earlier."
            )
        # The context carries grad mode, hooks and everything else that a thread has of its own.
        context = contextvars.copy_context()
        return _threads().submit(context.run, _from_the_start, function).result()
    _depth.value = depth + 1
    try:
        return function()
    finally:
        _depth.value = depth


def _from_the_start(function: Callable[[], T]) -> T:
    sequence.arrive()
    _depth.value = 0
    return nested(function)


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
        _fork.levels, _fork.lost_threads = (
            -1,
            True,
        )  # the usual comparison finds it: no cost elsewhere
    _pool, _pool_lock = None, threading.Lock()


def running_levels() -> int:
    """How many passes run inside one another on this thread."""
    return getattr(_depth, "value", 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
