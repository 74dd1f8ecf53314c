"""RMSprop: steps divided by the root of the average of squared gradients."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.checks import arguments, learning_rate, not_negative
from pullback.optim.elementwise import (
    ElementwiseOptimizer,
    average_in,
    average_square_in,
    counter,
    decayed,
)
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    alpha = options["alpha"]
    state["step"] += 1
    g = decayed(x, g, options)
    square = state["square_avg"]
    average_square_in(square, g, alpha)
    if options["centered"]:
        mean = state["grad_avg"]
        average_in(mean, g, alpha)
        square = square - mean * mean
    direction = g / (square.sqrt() + options["eps"])
    if options["momentum"] > 0:
        direction = state["momentum_buffer"].mul_(options["momentum"]).add_(direction)
    x.sub_(direction * options["lr"])


class RMSprop(ElementwiseOptimizer):
    """Steps divided by the root of averaged squares of the gradient.

    With gradient `g`: `v = alpha * v + (1 - alpha) * g**2`, then `p = p - lr * g / (sqrt(v) +
    eps)`. `centered` subtracts the square of the averaged gradient from `v`, which gives the
    variance.

    Args:
        params: Parameters, or a list of dicts, each a group with options of its own.
        lr: Learning rate.
        alpha: Decay rate of the average.
        eps: Added to the denominator.
        weight_decay: Coefficient of the L2 penalty.
        momentum: Weight of the past steps; 0 keeps no buffer.
        centered: Whether to divide by the standard deviation.
        capturable: Whether steps can be captured in a CUDA graph.
        foreach: Whether to update all parameters together; chosen if not given.
        maximize: Whether to ascend.
        differentiable: Whether the step itself is recorded.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.RMSprop([x], lr=0.01)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    _rule = staticmethod(_rule)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        learning_rate(lr)
        not_negative(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        names = (
            "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        )
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        names = ["square_avg"]
        names += ["momentum_buffer"] if group["momentum"] > 0 else []
        names += ["grad_avg"] if group["centered"] else []
        return {"step": counter(), **{name: zeros_like(p) for name in names}}


rmsprop = on_lists(
    "rmsprop",
    _rule,
    "params grads square_avgs grad_avgs momentum_buffer_list state_steps",
    "foreach maximize differentiable capturable has_complex",
    "lr alpha eps weight_decay momentum centered",
)
