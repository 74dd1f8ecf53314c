"""AdamW: Adam with weight decay beside the gradient."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.optim.adam import Adam, _rule
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["AdamW", "adamw"]


class AdamW(Adam):
    """Adam with decoupled weight decay, which shrinks the parameters directly.

    First `p = p * (1 - lr * weight_decay)`, then the step of `Adam` without penalty.

    Args:
        params: Parameters, or a list of dicts, each a group with options of its own.
        lr: Learning rate, about the size of a step.
        betas: Decay rates of the averages of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: By how much parameters shrink, times `lr`, at each step.
        amsgrad: Whether to divide by the largest average of squares so far.
        maximize: Whether to ascend.
        foreach: Whether to update all parameters together; chosen if not given.
        capturable: Whether steps can be captured in a CUDA graph.
        differentiable: Whether the step itself is recorded.
        fused: Whether to run the update as one kernel where there is one.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.AdamW([x], lr=0.1, weight_decay=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8500, 1.8000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # a state dict of before decay could be coupled
            group["decoupled_weight_decay"] = True


adamw = on_lists(
    "adamw",
    _rule,
    "params grads exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
    "foreach capturable differentiable fused grad_scale found_inf has_complex",
    "amsgrad beta1 beta2 lr weight_decay eps maximize",
    fixed={"decoupled_weight_decay": True},
)
