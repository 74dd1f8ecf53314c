"""Adamax: Adam with a decaying largest gradient in place of the average of squares."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.operators.pointwise.extrema import maximum
from pullback.optim.checks import arguments, betas_below_one, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, average_in, counter, decayed
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    beta1, beta2 = options["betas"]
    step = state["step"] = state["step"] + 1
    g = decayed(x, g, options)
    mean, largest = state["exp_avg"], state["exp_inf"]
    average_in(mean, g, beta1)
    largest.copy_(maximum(largest * beta2, g.abs() + options["eps"]))
    x.sub_((mean / largest).mul_(options["lr"] / (1 - beta1**step)))


class Adamax(ElementwiseOptimizer):
    """Adam by the largest gradient, which fades, instead of the root of squares.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adamax([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    _rule = staticmethod(_rule)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        learning_rate(lr)
        not_negative(eps=eps, weight_decay=weight_decay)
        betas_below_one(betas)
        names = "lr betas eps weight_decay foreach maximize differentiable capturable"
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": counter(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}


adamax = on_lists(
    "adamax",
    _rule,
    "params grads exp_avgs exp_infs state_steps",
    "foreach maximize differentiable capturable has_complex",
    "eps beta1 beta2 lr weight_decay",
)
