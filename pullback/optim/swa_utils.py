"""Averages of models: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.nn import Module
from pullback.nn.modules.batchnorm import _BatchNorm
from pullback.operators.create.data import tensor
from pullback.optim.lr_scheduler.base import LRScheduler, Rates, checked, one_per_group
from pullback.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

PARAM_LIST = tuple[Tensor, ...] | list[Tensor]


def _check_decay(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must be between 0 and 1; it is {decay}.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """Averages one tensor: the average keeps the part `decay` of itself.

    >>> import pullback as torch
    >>> average = torch.optim.swa_utils.get_ema_avg_fn(0.5)
    >>> average(torch.tensor(2.0), torch.tensor(4.0), 1)
    tensor(3.)
    """
    _check_decay(decay)

    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """Averages one tensor: all values so far count the same.

    >>> import pullback as torch
    >>> average = torch.optim.swa_utils.get_swa_avg_fn()
    >>> average(torch.tensor(2.0), torch.tensor(5.0), 2)
    tensor(3.)
    """

    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _averaging_in_place(average: Callable[..., Any]) -> Callable[..., None]:
    """The same for lists of tensors, which become the averages."""

    def update(averaged: PARAM_LIST, current: PARAM_LIST, num_averaged: Any) -> None:
        with no_grad():
            for mine, other in zip(averaged, current, strict=True):
                mine.copy_(average(mine, other, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Averages lists of tensors in place: the averages keep the part `decay` of themselves.

    >>> import pullback as torch
    >>> averages = [torch.tensor(2.0)]
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)(averages, [torch.tensor(4.0)], 1)
    >>> averages
    [tensor(3.)]
    """
    return _averaging_in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Averages lists of tensors in place: all values so far count the same.

    >>> import pullback as torch
    >>> averages = [torch.tensor(2.0)]
    >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(averages, [torch.tensor(5.0)], 2)
    >>> averages
    [tensor(3.)]
    """
    return _averaging_in_place(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those it is updated with.

    Averages weigh all updates the same, unless `avg_fn` (for one tensor) or `multi_avg_fn` (for
    all, in place) says otherwise. Buffers are copied; with `use_buffers` they are averaged too.

    >>> import pullback as torch
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> averaged = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = torch.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged(torch.ones(1)).detach()
    tensor([3.])
    """

    n_averaged: Tensor
    module: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Give avg_fn or multi_avg_fn, not both.")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's result."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of a model into the average."""
        mine, other = self._averaged_of(self.module), self._averaged_of(model)
        averaged = [one.detach() for one in mine]
        current = [p.detach().to(one.device) for one, p in zip(averaged, other, strict=True)]
        if self.n_averaged.item() == 0:
            for one, p in zip(averaged, current, strict=True):
                one.copy_(p)
        elif self.avg_fn is not None:
            for one, p in zip(averaged, current, strict=True):
                one.copy_(self.avg_fn(one, p, self.n_averaged.to(one.device)))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            update(averaged, current, self.n_averaged)
        if not self.use_buffers:
            for one, b in zip(self.module.buffers(), model.buffers(), strict=True):
                one.detach().copy_(b.detach())
        self.n_averaged += 1

    def _averaged_of(self, model: Any) -> list[Any]:
        if self.use_buffers:
            return list(chain(model.parameters(), model.buffers()))
        return list(model.parameters())


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's batch norms anew, from all of the data.

    Averaged parameters need that: the statistics belong to other parameters. Of batches that are
    lists or tuples the first item is the input.

    >>> import pullback as torch
    >>> model = torch.nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]])] * 2, model)
    >>> model.running_mean
    tensor([2.])
    """
    norms: list[Any] = [one for one in model.modules() if isinstance(one, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # all batches count the same
    try:
        with no_grad():
            for batch in loader:
                given = batch[0] if isinstance(batch, list | tuple) else batch
                model(given if device is None else given.to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


def _cosine(t: float) -> float:
    return (1 - math.cos(math.pi * t)) / 2


def _line(t: float) -> float:
    return t


_ANNEALINGS = {"cos": _cosine, "linear": _line}


class SWALR(LRScheduler):
    """From the rate as it stands to `swa_lr`, in `anneal_epochs`, and there it stays.

    >>> import pullback as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = torch.optim.swa_utils.SWALR(optimizer, 0.5, 2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 0.75, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = one_per_group("swa_lr", swa_lr, checked(optimizer))
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs is an integer from 0 up; it is {anneal_epochs!r}.")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        if anneal_strategy not in _ANNEALINGS:
            raise ValueError(f'anneal_strategy is "cos" or "linear"; it is {anneal_strategy!r}.')
        self._anneal_strategy = anneal_strategy
        self.anneal_func = _ANNEALINGS[anneal_strategy]

    def get_lr(self) -> Rates:
        """The rates as they stand, moved on towards `swa_lr`."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal, lr = group["swa_lr"], group["lr"]
            start = goal if before == 1 else (lr - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates

    def _part(self, step: int) -> float:
        """How much of the way is done."""
        return self.anneal_func(max(0.0, min(1.0, step / max(1, self.anneal_epochs))))

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows, but for the optimizer and the annealing function."""
        state = super().state_dict()
        del state["anneal_func"]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)


__dir__ = _only_public(globals(), "PARAM_LIST")
