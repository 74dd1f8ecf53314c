"""Adadelta: steps in the scale of the steps before."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.checks import arguments, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, average_square_in, counter, decayed
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    rho, eps = options["rho"], options["eps"]
    state["step"] += 1
    g = decayed(x, g, options)
    average_square_in(state["square_avg"], g, rho)
    delta = (state["acc_delta"] + eps).sqrt() / (state["square_avg"] + eps).sqrt() * g
    average_square_in(state["acc_delta"], delta, rho)
    x.sub_(delta * options["lr"])


class Adadelta(ElementwiseOptimizer):
    """Steps as large as those before were, measured against the gradients before.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adadelta([x])
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.9968, 1.9968], requires_grad=True)
    """

    _rule = staticmethod(_rule)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        learning_rate(lr)
        if not 0 <= rho <= 1:
            raise ValueError(f"rho must be between 0 and 1; it is {rho}.")
        not_negative(eps=eps, weight_decay=weight_decay)
        names = "lr rho eps weight_decay maximize capturable foreach differentiable"
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": counter(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}


adadelta = on_lists(
    "adadelta",
    _rule,
    "params grads square_avgs acc_deltas state_steps",
    "capturable foreach differentiable has_complex",
    "lr rho eps weight_decay maximize",
)
