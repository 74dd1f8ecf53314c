"""`Join`: ranks with fewer batches answer the collectives of the others until all have ended."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy

from pullback.core.listing import only_public as _only_public
from pullback.distributed.call import Call
from pullback.distributed.group import ProcessGroup
from pullback.distributed.reduction import ReduceOp

__all__ = ["Join", "JoinHook", "Joinable"]

_UNUSUAL = 1000  # answers to others after which a rank says so


class JoinHook:
    """What a rank does after its own inputs have ended."""

    def main_hook(self) -> None:
        """Answer the collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Do what is to be done when all have ended."""


class Joinable:
    """What can be joined: it has a hook, and says before its collectives that it still runs."""

    _join_config: Any = None

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hook of this rank."""
        raise NotImplementedError

    @property
    def join_device(self) -> Any:
        """Where its collectives run."""
        raise NotImplementedError

    @property
    def join_process_group(self) -> Any:
        """The group of its collectives."""
        raise NotImplementedError


class _Config:
    def __init__(self, enable: bool, throw: bool, first: bool, divide: bool) -> None:
        self.enable = enable
        self.throw_on_early_termination = throw
        self.is_first_joinable = first
        self.hooks_divide_by_initial = divide


class Join:
    """A context in which ranks may have different numbers of inputs.

    Args:
        joinables: what makes collectives inside, in the order in which it does.
        enable: False makes the context do nothing.
        throw_on_early_termination: raise on all ranks when the first one has ended.
        kwargs: passed to the hooks.
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("Join: nothing to join.")
        self._joinables = list(joinables)
        self._enable = enable
        self._throw = throw_on_early_termination
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        divide = kwargs.get("divide_by_initial_world_size", True)
        for number, joinable in enumerate(joinables):
            joinable._join_config = _Config(enable, self._throw, number == 0, divide)
        self._group: ProcessGroup = joinables[0].join_process_group

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._enable and error is None:
                self._answer_others()
        finally:
            for joinable in self._joinables:
                joinable._join_config = None

    def _answer_others(self) -> None:
        last = True
        answered = 0
        while _count_running(self._group, 0) > 0:
            if self._throw:
                _count_running(self._group, 0)  # what the running ranks wait for
                raise RuntimeError(
                    f"rank {self._group.rank()}: its inputs have ended before those of others, "
                    "and throw_on_early_termination=True."
                )
            last = False
            for hook in self._hooks:
                hook.main_hook()
            answered += 1
            if answered == _UNUSUAL:
                warnings.warn(
                    f"rank {self._group.rank()} has answered {answered} iterations of other ranks "
                    "since its own inputs ended; are they that uneven?",
                    UserWarning,
                    stacklevel=3,
                )
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Say, before an iteration's collectives, that this rank still runs."""
        config = joinable._join_config
        if config is None or not config.enable or not config.is_first_joinable:
            return
        group = joinable.join_process_group
        running = _count_running(group, 1)
        if config.throw_on_early_termination and running < group.size():
            _count_running(group, 0)
            raise RuntimeError(
                f"rank {group.rank()}: the inputs of another rank have ended, and "
                "throw_on_early_termination=True."
            )


def _count_running(group: ProcessGroup, mine: int) -> int:
    count = numpy.array([mine], numpy.int64)
    call = Call("Join", "ranks that still run", group.timeout)
    group.do(call, lambda: group.communicator.all_reduce(call, count, ReduceOp.SUM), later=False)
    return int(count[0])


__dir__ = _only_public(globals())
