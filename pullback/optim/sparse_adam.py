"""SparseAdam: Adam for sparse gradients, which changes only the rows that have one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.checks import betas_below_one
from pullback.optim.optimizer import (
    Optimizer,
    ParamsT,
    _to_scalar,
    _use_grad_for_differentiable,
    evaluated,
)

__all__ = ["SparseAdam", "sparse_adam"]


class SparseAdam(Optimizer):
    """Adam whose averages move only where a gradient is; for embeddings with `sparse=True`.

    Dense gradients are refused. The step count is a number, not a tensor, as in torch.

    >>> import pullback as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> optimizer = torch.optim.SparseAdam([x])
    >>> x.grad = torch.ones(3)
    >>> optimizer.step()
    Traceback (most recent call last):
    RuntimeError: SparseAdam takes sparse gradients only; use Adam for dense ones.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(f"lr as a tensor has one element; this one has {lr.numel()}.")
        if not lr > 0:
            raise ValueError(f"lr (the learning rate) must be above 0; it is {lr}.")
        if not eps > 0:
            raise ValueError(f"eps must be above 0; it is {eps}.")
        betas_below_one(betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        for group in self.param_groups:
            if any(p.is_sparse for p in group["params"]):
                raise ValueError("SparseAdam is for dense parameters with sparse gradients.")

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; `closure`, if given, first recomputes the loss, which is returned."""
        loss = evaluated(closure)
        for group in self.param_groups:
            stepped = [(p, p.grad) for p in group["params"] if p.grad is not None]
            if not all(g.is_sparse for _, g in stepped):
                raise RuntimeError(
                    "SparseAdam takes sparse gradients only; use Adam for dense ones."
                )
            for p, g in stepped:
                _step_rows(p, g.coalesce(), self._state_of(p), group)
        return loss

    def _state_of(self, p: Tensor) -> dict[str, Any]:
        state: dict[str, Any] = self.state[p]
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        state["step"] += 1
        return state


def _step_rows(p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
    """Adam on the elements that a coalesced gradient names; the averages of others stay."""
    rows, values = tuple(g._indices()), g._values()
    if values.numel() == 0:
        return
    values = -values if group["maximize"] else values
    beta1, beta2 = group["betas"]
    step = state["step"]
    mean = state["exp_avg"][rows] * beta1 + values * (1 - beta1)
    square = state["exp_avg_sq"][rows] * beta2 + values * values * (1 - beta2)
    state["exp_avg"][rows] = mean
    state["exp_avg_sq"][rows] = square
    rate = _to_scalar(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
    p[rows] -= mean / (square.sqrt() + group["eps"]) * rate


def sparse_adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[int],
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float,
    maximize: bool,
) -> None:
    """One step of SparseAdam on tensors, averages and step counts given as lists."""
    group = {"lr": lr, "betas": (beta1, beta2), "eps": eps, "maximize": maximize}
    lists = zip(params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True)
    for p, g, mean, square, step in lists:
        state = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
        _step_rows(p, g.coalesce(), state, group)
