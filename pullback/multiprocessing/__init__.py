"""Python's `multiprocessing`, with tensors that go to other processes through shared memory.

Everything of the standard module is here. A tensor put into a queue, sent through a pipe or given
to a process is not copied on the way back and forth: sender and receiver see the same memory.

>>> import pullback.multiprocessing as mp
>>> mp.get_sharing_strategy()
'file_descriptor'
"""

from __future__ import annotations

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403 (its __all__ is the list)
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.multiprocessing import reductions
from pullback.multiprocessing.reductions import init_reductions
from pullback.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_standard.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]

_STRATEGY = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The ways to share memory: one, by file descriptors."""
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    """How memory is shared: by file descriptors, so that no block can be left behind."""
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Accept the one strategy that there is.

    >>> set_sharing_strategy("file_descriptor")
    """
    if new_strategy != _STRATEGY:
        raise ValueError(
            f"set_sharing_strategy: {new_strategy!r} is not to be had, only {_STRATEGY!r}: blocks "
            "with names would stay behind when a process is killed."
        )


def __getattr__(name: str) -> Any:
    return getattr(_standard, name)


init_reductions()

__dir__ = _only_public(globals(), "pool queue reductions spawn")
