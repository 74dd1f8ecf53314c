"""Schedules made of schedules: one after another, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from pullback.optim.lr_scheduler.base import LRScheduler, assign, checked, listed
from pullback.optim.lr_scheduler.plateau import ReduceLROnPlateau
from pullback.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Combined(LRScheduler):
    """What both have: schedulers of one optimizer, with their state dicts in its own."""

    _schedulers: Sequence[Any]

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows; the state dicts of its schedulers as a list."""
        hidden = ("optimizer", "_schedulers")
        state = {name: value for name, value in vars(self).items() if name not in hidden}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`."""
        rest = {name: value for name, value in state_dict.items() if name != "_schedulers"}
        vars(self).update(rest)
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


def _check_schedulers(name: str, schedulers: Sequence[Any], optimizer: Any) -> None:
    for place, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name}: scheduler {place} has no optimizer.")
        if scheduler.optimizer is not optimizer:
            raise ValueError(f"{name}: scheduler {place} belongs to another optimizer.")


class SequentialLR(_Combined):
    """One schedule after another; each begins anew at its milestone.

    >>> import pullback as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> warm = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.1, total_iters=2)
    >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.1, 0.1, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR needs at least one scheduler.")
        for place, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"SequentialLR: scheduler {place} is a ReduceLROnPlateau, whose step() wants a "
                    "metric."
                )
        _check_schedulers("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedulers have {len(schedulers) - 1} milestones "
                f"between them, not {len(milestones)}."
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = checked(optimizer)
        # Each set its first rates when it was made; undo that, and let the first do so again.
        for group in optimizer.param_groups:
            if "initial_lr" in group:
                assign(group, "lr", group["initial_lr"])
        for scheduler in schedulers:
            self.recursive_undo(scheduler)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back the first step of a scheduler, and of those it is made of."""
        one = self if sched is None else sched
        if isinstance(one, _Combined):
            for inner in one._schedulers:
                self.recursive_undo(inner)
        elif hasattr(one, "last_epoch"):
            one.last_epoch -= 1

    def step(self, epoch: int | None = None) -> None:
        """Go on by an epoch, with the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedules at once: each changes what those before it have set.

    >>> import pullback as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> halves = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    >>> tenths = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1)
    >>> schedule = torch.optim.lr_scheduler.ChainedScheduler([halves, tenths])
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.05]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler needs at least one scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        _check_schedulers("ChainedScheduler", schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = listed(self.optimizer, "lr")

    def step(self, epoch: int | None = None) -> None:
        """Step each schedule in turn."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = listed(self.optimizer, "lr")
