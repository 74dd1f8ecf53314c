"""What ranks do together for a checkpoint: each its part, and all hear when one has failed."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.core.listing import only_public as _only_public
from pullback.distributed.checkpoint.api import WRAPPED_EXCEPTION, CheckpointException
from pullback.distributed.objects import all_gather_object
from pullback.distributed.world import group_of, is_initialized

__all__: list[str] = []

T = TypeVar("T")
R = TypeVar("R")


class Ranks:
    """The ranks of a group, of which one coordinates; a single one where there are no groups."""

    def __init__(
        self, process_group: Any = None, *, alone: bool = False, coordinator: int = 0
    ) -> None:
        self.group: Any = None
        if not alone and is_initialized():
            self.group = group_of(process_group)
            if self.group is None:
                raise ValueError("This rank is not in the process group.")
        self.rank = 0 if self.group is None else self.group.rank()
        self.size = 1 if self.group is None else self.group.size()
        self.coordinator = coordinator
        self.is_coordinator = self.rank == coordinator

    def all(self, what: str, step: Callable[[], T]) -> list[T]:
        """What a step gives on each rank; an error on all of them where it failed on any."""
        mine = _tried(step)
        every = [mine]
        if self.size > 1:
            every = [None] * self.size  # type: ignore[list-item]  # filled below
            all_gather_object(every, _sendable(mine), self.group)
        failures = {rank: one.error for rank, one in enumerate(every) if one.error is not None}
        if failures:
            own = mine.error
            raise CheckpointException(what, failures) from (own[0] if own else None)
        return [one.value for one in every]

    def first(self, what: str, step: Callable[[], T]) -> T:
        """What a step gives on the coordinator, for all."""
        return self.all(what, lambda: step() if self.is_coordinator else None)[self.coordinator]  # type: ignore[return-value]

    def share(self, what: str, step: Callable[[], T], central: Callable[[list[T]], list[R]]) -> R:
        """What the coordinator makes, for each rank, of what a step gives on all."""
        every = self.all(what, step)
        return self.first(what, lambda: central(every))[self.rank]


class _Tried:
    """What a step has given, or failed of."""

    def __init__(self, value: Any = None, error: WRAPPED_EXCEPTION | None = None) -> None:
        self.value, self.error = value, error


def _tried(step: Callable[[], Any]) -> _Tried:
    try:
        return _Tried(step())
    except (Exception, CheckpointException) as error:
        trace = traceback.extract_tb(error.__traceback__)
        plain = [(one.filename, one.lineno or 0, one.name, one.line) for one in trace]
        return _Tried(error=(error, traceback.StackSummary.from_list(plain)))


def _sendable(tried: _Tried) -> _Tried:
    """With an error that arrives: not all exceptions come out of a pickle again."""
    if tried.error is None:
        return tried
    error, trace = tried.error
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _Tried(error=(error, [tuple(one) for one in trace]))


__dir__ = _only_public(globals())
