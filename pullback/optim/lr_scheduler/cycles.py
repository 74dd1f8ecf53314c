"""Schedules that go up and down: CyclicLR, OneCycleLR, cosines with restarts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from pullback.optim.lr_scheduler.base import LRScheduler, Rates, assign, checked, one_per_group
from pullback.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]


def _momentum_name(optimizer: Any) -> bool:
    """Whether momentum is the first of `betas`; refused if there is none to cycle."""
    defaults = optimizer.defaults
    if "momentum" not in defaults and "betas" not in defaults:
        raise ValueError(
            "cycle_momentum=True needs an optimizer with momentum or betas; pass "
            "cycle_momentum=False."
        )
    return "betas" in defaults


def _set_momentum(group: dict[str, Any], momentum: float, *, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


# CyclicLR -----------------------------------------------------------------------------------------


def _triangular(x: float) -> float:
    return 1.0


def _triangular2(x: float) -> float:
    scale: float = 1 / (2.0 ** (x - 1))
    return scale


def _exp_range(gamma: float, x: float) -> float:
    scale: float = gamma**x
    return scale


class CyclicLR(LRScheduler):
    """Between `base_lr` and `max_lr`, up in `step_size_up` steps and down again, over and over.

    The height of later cycles is scaled: not ("triangular"), halved each time ("triangular2"), by
    powers of `gamma` ("exp_range"), or by `scale_fn`. Momentum goes the other way.

    >>> import pullback as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked(optimizer)
        base_lrs = one_per_group("base_lr", base_lr, optimizer)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                assign(group, "lr", lr)
        self.max_lrs = one_per_group("max_lr", max_lr, optimizer)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                f'mode is "triangular", "triangular2" or "exp_range"; it is {mode!r}, and there is '
                "no scale_fn."
            )
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _start_momentum(self, base_momentum: Any, max_momentum: Any) -> None:
        self.use_beta1 = _momentum_name(self.optimizer)
        self.base_momentums = one_per_group("base_momentum", base_momentum, self.optimizer)
        self.max_momentums = one_per_group("max_momentum", max_momentum, self.optimizer)
        ends = zip(self.max_momentums, self.base_momentums, strict=True)
        for (most, least), group in zip(ends, self.optimizer.param_groups, strict=True):
            _set_momentum(group, most, use_beta1=self.use_beta1)
            group["max_momentum"], group["base_momentum"] = most, least

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        if self.mode == "exp_range":
            self._scale_fn_ref: Any = partial(_exp_range, self.gamma)
            self.scale_mode = "iterations"
        else:
            self._scale_fn_ref = _triangular if self.mode == "triangular" else _triangular2
            self.scale_mode = "cycle"

    def scale_fn(self, x: float) -> float:
        """The height of a cycle: of its number, or of the step, as `scale_mode` says."""
        custom = self._scale_fn_custom
        return self._scale_fn_ref(x) if custom is None else custom(x)

    def get_lr(self) -> Rates:
        """The rates of this step of the cycle; momentum is set on the way."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        part = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, strict=True)
            for (least, most), group in zip(ends, self.optimizer.param_groups, strict=True):
                momentum = most - (most - least) * part * scale
                _set_momentum(group, momentum, use_beta1=self.use_beta1)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [base + (most - base) * part * scale for base, most in pairs]

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows; of a `scale_fn` that is an object, its attributes."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        custom = state.pop("_scale_fn_custom")
        plain = custom is None or isinstance(custom, FunctionType)
        state["_scale_fn_custom"] = None if plain else vars(custom).copy()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a `state_dict()`."""
        rest = dict(state_dict)
        saved = rest.pop("_scale_fn_custom", None)
        super().load_state_dict(rest)
        if saved is not None:
            vars(self._scale_fn_custom).update(saved)
        self._init_scale_fn()


# OneCycleLR ---------------------------------------------------------------------------------------


def _along_cosine(start: Any, end: Any, part: float) -> Any:
    return end + (start - end) / 2.0 * (1 + math.cos(math.pi * part))


def _along_line(start: Any, end: Any, part: float) -> Any:
    return (end - start) * part + start


_ANNEALINGS = {"cos": _along_cosine, "linear": _along_line}


class OneCycleLR(LRScheduler):
    """One cycle over the whole training: warm up to `max_lr`, then anneal far below the start.

    The rate rises from `max_lr / div_factor` to `max_lr`, then falls to `max_lr / div_factor /
    final_div_factor`; momentum moves in the opposite direction. Call `step` after each batch.

    Args:
        optimizer: Optimizer whose rates are set.
        max_lr: Largest rate, one or one for each parameter group.
        total_steps: Number of steps; or give `epochs` and `steps_per_epoch`.
        epochs: Number of epochs.
        steps_per_epoch: Batches of an epoch.
        pct_start: Share of the steps in which the rate rises.
        anneal_strategy: Shape of rise and fall: "cos" or "linear".
        cycle_momentum: Whether momentum goes against the rate, from `max_momentum` to
            `base_momentum` and back.
        base_momentum: Smallest momentum, at the largest rate.
        max_momentum: Largest momentum.
        div_factor: `max_lr` divided by the first rate.
        final_div_factor: First rate divided by the last.
        three_phase: Whether to fall to the first rate as fast as it rose, and then to the last.
        last_epoch: Index of the last step done, to resume; -1 starts anew.

    >>> import pullback as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> rates = []
    >>> for _ in range(9):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> [round(lr, 2) for lr in rates]
    [0.04, 0.52, 1.0, 0.95, 0.81, 0.61, 0.39, 0.19, 0.05]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not (isinstance(pct_start, float) and 0 <= pct_start <= 1):
            raise ValueError(f"pct_start is a float between 0 and 1; it is {pct_start!r}.")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase=three_phase)
        if anneal_strategy not in _ANNEALINGS:
            raise ValueError(f'anneal_strategy is "cos" or "linear"; it is {anneal_strategy!r}.')
        self._anneal_func_type = anneal_strategy
        highest = one_per_group("max_lr", max_lr, optimizer)
        if last_epoch == -1:
            for most, group in zip(highest, optimizer.param_groups, strict=True):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_name(optimizer)
            if last_epoch == -1:
                self._start_momentum(base_momentum, max_momentum)
        super().__init__(optimizer, last_epoch)

    def _start_momentum(self, base_momentum: Any, max_momentum: Any) -> None:
        mosts = one_per_group("max_momentum", max_momentum, self.optimizer)
        leasts = one_per_group("base_momentum", base_momentum, self.optimizer)
        ends = zip(mosts, leasts, strict=True)
        for (most, least), group in zip(ends, self.optimizer.param_groups, strict=True):
            _set_momentum(group, most, use_beta1=self.use_beta1)
            group["max_momentum"], group["base_momentum"] = most, least

    _annealing_cos = staticmethod(_along_cosine)  # torch's names
    _annealing_linear = staticmethod(_along_line)

    def _anneal_func(self, start: Any, end: Any, pct: float) -> Any:
        return _ANNEALINGS[self._anneal_func_type](start, end, pct)

    def get_lr(self) -> Rates:
        """The rates of this step; momentum is set on the way."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"OneCycleLR was made for {self.total_steps} steps, and this is step {step}."
            )
        begin = 0.0
        last = self._schedule_phases[-1]
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is last:
                break
            begin = phase["end_step"]
        part = (step - begin) / (phase["end_step"] - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._anneal_func(*ends, part), use_beta1=self.use_beta1)
        return [
            self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], part)
            for group in groups
        ]


def _total_steps(total: Any, epochs: Any, per_epoch: Any) -> int:
    if total is not None:
        return _positive("total_steps", total)
    if epochs is None or per_epoch is None:
        raise ValueError("Give total_steps, or both epochs and steps_per_epoch.")
    return _positive("epochs", epochs) * _positive("steps_per_epoch", per_epoch)


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} is a positive integer; it is {value!r}.")
    return value


def _phase(end_step: float, lr: tuple[str, str], momentum: tuple[str, str]) -> dict[str, Any]:
    return {
        "end_step": end_step,
        "start_lr": lr[0],
        "end_lr": lr[1],
        "start_momentum": momentum[0],
        "end_momentum": momentum[1],
    }


def _phases(total: int, part: float, *, three_phase: bool) -> list[dict[str, Any]]:
    """When each phase ends, and between which of a group's rates and momenta it goes."""
    down, up = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
    top = float(part * total) - 1
    first = _phase(top, ("initial_lr", "max_lr"), down)
    if not three_phase:
        return [first, _phase(total - 1, ("max_lr", "min_lr"), up)]
    return [
        first,
        _phase(float(2 * part * total) - 2, ("max_lr", "initial_lr"), up),
        _phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum", "max_momentum")),
    ]


# Restarts -----------------------------------------------------------------------------------------


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down half a cosine in `T_0` epochs, then from the top again, each time `T_mult` as long.

    `step` takes parts of an epoch too: `step(epoch + batch / batches)`.

    >>> import pullback as torch
    >>> optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> [round(lr, 6) for lr in rates]
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 (torch's name)
        T_mult: int = 1,  # noqa: N803 (torch's name)
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"T_0 is a positive integer; it is {T_0!r}.")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"T_mult is an integer of at least 1; it is {T_mult!r}.")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"eta_min is a number; it is a {type(eta_min).__name__}.")
        self.T_0 = T_0
        self.T_i: float = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """The rates at this part of the cosine."""
        self._warn_outside_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by an epoch, or to any point in time."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        elif epoch < 0:
            raise ValueError(f"epoch cannot be negative; it is {epoch}.")
        else:
            self._find_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        with self._within_step():
            rates = self.get_lr()
        self._set_rates(rates)

    def _find_cycle(self, epoch: float) -> None:
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            passed = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            begin = self.T_0 * (self.T_mult**passed - 1) / (self.T_mult - 1)
            self.T_i, self.T_cur = self.T_0 * self.T_mult**passed, epoch - begin
