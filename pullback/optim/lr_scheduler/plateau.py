"""`ReduceLROnPlateau`: a lower rate when a metric has stopped getting better."""

from __future__ import annotations

import warnings
from math import inf
from typing import Any

from pullback.core.origin import stacklevel
from pullback.optim.lr_scheduler.base import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    assign,
    checked,
    listed,
)
from pullback.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Multiply the learning rate by `factor` when a metric has stopped improving.

    Call `step(metric)` after each epoch. After more than `patience` epochs in a row without a new
    best one, the rate is lowered.

    Args:
        optimizer: Optimizer whose rates are set.
        mode: "min" if the metric should fall, as a loss; "max" if it should rise, as an accuracy.
        factor: Factor of the rate, below 1.
        patience: Epochs without improvement to tolerate.
        threshold: By how much a metric must be better to count as new best.
        threshold_mode: Whether `threshold` is a share of the best ("rel") or a difference ("abs").
        cooldown: Epochs after a change in which nothing is counted.
        min_lr: Smallest rate, one or one for each parameter group.
        eps: Changes of the rate not above this are not made.

    >>> import pullback as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    best: float
    cooldown_counter: int
    num_bad_epochs: int

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ValueError(f"factor must be below 1; it is {factor}.")
        self.factor = factor
        self.optimizer = checked(optimizer)
        groups = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple):
            if len(min_lr) != groups:
                raise ValueError(f"min_lr has {len(min_lr)} values, the optimizer {groups} groups.")
            self.default_min_lr: float | None = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = listed(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f'mode is "min" or "max"; it is {mode!r}.')
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f'threshold_mode is "rel" or "abs"; it is {threshold_mode!r}.')
        self.mode_worse = inf if mode == "min" else -inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs do not count, as the rate has just been lowered."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # torch's
        """Look at the metric of an epoch; lower the rates if it was one bad epoch too many."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=stacklevel())
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = listed(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        self._fit_to_groups()
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, least)
            if before - after > self.eps:
                assign(group, "lr", after)

    def _fit_to_groups(self) -> None:
        """Groups may have been added since."""
        groups = len(self.optimizer.param_groups)
        if len(self.min_lrs) == groups:
            return
        if self.default_min_lr is None:
            raise RuntimeError(
                f"The optimizer has {groups} groups by now, and min_lr was given for "
                f"{len(self.min_lrs)}; set min_lrs to a list with one for each."
            )
        self.min_lrs = [self.default_min_lr] * groups

    def _is_better(self, a: float, best: float) -> bool:
        margin = self.threshold if self.mode == "max" else -self.threshold
        bound = best * (1 + margin) if self.threshold_mode == "rel" else best + margin
        return a > bound if self.mode == "max" else a < bound

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`."""
        vars(self).update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
