"""Who says when models are averaged: every so many steps, after a warm-up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.algorithms.model_averaging.utils import (
    average_parameters_or_parameter_groups,
)
from pullback.distributed.world import group_of

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager:
    """Counts steps; what it does in which is its class's affair."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = group_of(process_group)
        self.step = 0

    def average_parameters(self, params: Any) -> None:
        """Count a step, and average if it is one for that."""
        raise NotImplementedError


class PeriodicModelAverager(ModelAverager):
    """Averages every `period` steps, from step `warmup_steps` on.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> def apart():
    ...     p = torch.nn.Parameter(torch.tensor([float(dist.get_rank())]))
    ...     p.grad = torch.zeros(1)
    ...     averager, found = PeriodicModelAverager(period=2), []
    ...     for _ in range(2):
    ...         p.data.add_(1)
    ...         averager.average_parameters([p])
    ...         found.append(p.item())
    ...     return found
    >>> dist.threads.run(apart, 2)
    [[1.5, 2.5], [1.5, 2.5]]
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0 or period < 1:
            raise ValueError(
                f"A period is 1 or more steps after 0 or more, got {period} after {warmup_steps}."
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Tensor] | Iterable[dict[str, Any]]) -> None:
        """Count a step, and average if it is one for that."""
        due = self.step >= self.warmup_steps
        if due and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1


__dir__ = _only_public(globals())
