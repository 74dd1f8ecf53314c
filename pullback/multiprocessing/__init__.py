"""Distributed: Python's `multiprocessing`, with tensors that travel through shared memory.

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

_STRATEGIES = frozenset(("file_descriptor", "file_system"))
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The words that `set_sharing_strategy` takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The word that was last given; memory is shared by file descriptors, whichever it is."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Take the word, and go on sharing memory by file descriptors.

    Blocks with names, which are what "file_system" means in torch, would stay behind when a
    process is killed. Where there are too many open files, `ulimit -n` has to be raised.

    >>> set_sharing_strategy("file_system")
    >>> get_sharing_strategy()
    'file_system'
    >>> set_sharing_strategy("file_descriptor")
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(
            f"set_sharing_strategy: there is no strategy {new_strategy!r}, only "
            f"{' and '.join(sorted(_STRATEGIES))}."
        )
    _strategy = new_strategy


def __getattr__(name: str) -> Any:
    return getattr(_standard, name)


init_reductions()

__dir__ = _only_public(globals(), "pool queue reductions spawn")
