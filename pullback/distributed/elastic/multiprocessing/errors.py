"""`torch.distributed.elastic.multiprocessing.errors`: the mark on a script's main function."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pullback.core.listing import only_public as _only_public

__all__ = ["ChildFailedError", "ProcessFailure", "record"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class ProcessFailure:
    """How a rank ended.

    Args:
        local_rank: Its number on this machine.
        pid: Its process.
        exitcode: What the process ended with; negative, the signal that ended it.
        error_file: Where it wrote down why.
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    message: str = field(init=False, default="")
    timestamp: int = field(init=False, default_factory=lambda: int(time.time()))


class ChildFailedError(Exception):
    """Ranks have failed; `failures` says by rank how each of them ended.

    >>> from pullback.distributed.elastic.multiprocessing.errors import (
    ...     ChildFailedError, ProcessFailure)
    >>> error = ChildFailedError("train.py", {1: ProcessFailure(1, 4711, 3, "")})
    >>> error.get_first_failure()[0], str(error)
    (1, 'train.py: rank 1 ended with exit code 3 (process 4711).')
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise AssertionError("ChildFailedError: needs at least one rank that failed.")
        self.name = name
        self.failures = failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        rank = min(self.failures, key=lambda rank: self.failures[rank].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "", section_delim: str = "") -> str:
        """All failures in words."""
        told = [
            f"rank {rank} ended with exit code {one.exitcode} (process {one.pid})"
            for rank, one in sorted(self.failures.items())
        ]
        return f"{self.name}: {', '.join(told)}."


def record(fn: F, error_handler: Any = None) -> F:
    """Mark the function whose errors the launcher tells; here it tells those of every rank.

    >>> from pullback.distributed.elastic.multiprocessing.errors import record
    >>> @record
    ... def main():
    ...     return "trained"
    >>> main()
    'trained'
    """
    if error_handler is not None:
        raise RuntimeError("record: errors are told by the launcher; error_handler is not used.")
    return fn


__dir__ = _only_public(globals())
