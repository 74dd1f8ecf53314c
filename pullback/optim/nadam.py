"""NAdam: Adam that looks ahead along its momentum, as Nesterov does."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.adam import decoupled_or_decayed
from pullback.optim.checks import arguments, betas_below_one, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, average_in, average_square_in, counter
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    lr, (beta1, beta2) = options["lr"], options["betas"]
    step = state["step"] = state["step"] + 1
    g = decoupled_or_decayed(x, g, options)
    decay = options["momentum_decay"]
    now = beta1 * (1 - 0.5 * 0.96 ** (step * decay))
    then = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay))
    product = state["mu_product"] = state["mu_product"] * now
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    average_in(mean, g, beta1)
    average_square_in(square, g, beta2)
    root = (1 - beta2**step) ** 0.5
    denominator = square.sqrt() / root + options["eps"]
    ahead = g * ((1 - now) / (1 - product)) + mean * (then / (1 - product * then))
    x.sub_((ahead / denominator).mul_(lr))


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov's momentum, whose strength grows with the steps.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.NAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8944, 1.8944], requires_grad=True)
    """

    _rule = staticmethod(_rule)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        learning_rate(lr)
        not_negative(eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        betas_below_one(betas)
        names = (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize "
            "foreach capturable differentiable"
        )
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": counter(),
            "mu_product": counter(1.0),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }


nadam = on_lists(
    "nadam",
    _rule,
    "params grads exp_avgs exp_avg_sqs mu_products state_steps",
    "decoupled_weight_decay foreach capturable differentiable has_complex maximize",
    "beta1 beta2 lr weight_decay momentum_decay eps",
)
