"""`LRScheduler`: counts steps and sets each group's learning rate to what `get_lr` says."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "_LRScheduler"]

Rates = list[Any]  # of numbers or tensors, one for each group

EPOCH_DEPRECATION_WARNING = (
    "step() of a scheduler was told the epoch; schedulers count by themselves, and this argument "
    "is going away. Call step() without it."
)


class LRScheduler:
    """What all schedules have: `step`, `get_last_lr`, state dicts.

    A schedule of one's own writes `get_lr`, from `self.last_epoch`, `self.base_lrs` and the rates
    in `self.optimizer.param_groups`.

    >>> import pullback as torch
    >>> class Halving(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base * 0.5**self.last_epoch for base in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(optimizer)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    optimizer: Any
    last_epoch: Any
    base_lrs: Rates
    _last_lr: Rates

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param_groups[{number}] has no 'initial_lr', from which a schedule resumes at "
                    f"epoch {last_epoch}: load the optimizer's state dict first, or start with "
                    "last_epoch=-1 and load the scheduler's state dict."
                )
        self.base_lrs = listed(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows, but for the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`."""
        vars(self).update(state_dict)

    def get_last_lr(self) -> Rates:
        """The rates that the last step has set."""
        return self._last_lr

    def get_lr(self) -> Rates:
        """The rates of the current epoch, one for each group; a schedule writes this."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr() of its own.")

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch and set its rates."""
        if self._step_count == 1:
            _check_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=stacklevel())
        self._update_lr(epoch)

    def _update_lr(self, epoch: Any = None) -> None:
        with self._within_step():
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                rates = self.get_lr() if closed is None else closed()
        self._set_rates(rates)

    def _set_rates(self, rates: Rates) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=False):
            assign(group, "lr", rate)
        self._last_lr = listed(self.optimizer, "lr")

    @contextmanager
    def _within_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _warn_outside_step(self) -> None:
        """`get_lr` answers for the step that calls it; for users there is another method."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "get_lr() computes the rates of a step; use get_last_lr() to read them.",
                UserWarning,
                stacklevel=stacklevel(),
            )

    def _current(self) -> Rates:
        """The groups' rates as they stand."""
        return [group["lr"] for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The name that `LRScheduler` once had."""


def checked(optimizer: Any) -> Any:
    """The optimizer, if it is one."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"A scheduler wants an Optimizer, got {type(optimizer).__name__}.")
    return optimizer


def listed(optimizer: Any, name: str) -> Rates:
    """An option of each group; tensors copied, as they are changed in place."""
    return _copied([group[name] for group in optimizer.param_groups])


def _copied(values: Iterable[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


def assign(group: dict[str, Any], name: str, value: Any) -> None:
    """Set an option; a tensor stays the same tensor."""
    if isinstance(group[name], Tensor):
        group[name].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[name] = value


def one_per_group(name: str, value: Any, optimizer: Any) -> list[Any]:
    """A number for all groups, or a list with one for each; tensors copied."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return _copied([value] * groups)
    if len(value) != groups:
        raise ValueError(f"{name} has {len(value)} values, and the optimizer {groups} groups.")
    return _copied(value)


def watch_steps(optimizer: Any) -> None:
    """Have the optimizer note that it stepped, so that a schedule can tell who was first."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    function = getattr(optimizer.step, "__func__", None)
    if function is None:  # somebody's own function in its place
        return
    owner = weakref.ref(optimizer)  # the optimizer holds this function: no cycle

    @functools.wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        this = owner()
        this._opt_called = True  # type: ignore[union-attr]  # alive: it was just called
        return function(this, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # a function's attribute
    optimizer.step = step


def _check_order(optimizer: Any) -> None:
    """Warn, at a schedule's first step, if the optimizer has made none: a rate was skipped."""
    if not hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        message = (
            "optimizer.step was replaced after the scheduler was made, so the scheduler cannot "
            "see whether it is called first, as it should be."
        )
    elif not getattr(optimizer, "_opt_called", False):
        message = (
            "The scheduler's step() is called before the optimizer's, so the first learning rate "
            "is never used. Call optimizer.step() first, then scheduler.step()."
        )
    else:
        return
    warnings.warn(message, UserWarning, stacklevel=stacklevel())
