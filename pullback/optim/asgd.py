"""ASGD: gradient descent that keeps the average of where it has been."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.checks import arguments, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, counter, decayed, is_followed
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["ASGD", "asgd"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    lr, lambd = options["lr"], options["lambd"]
    step = state["step"] = state["step"] + 1
    g = decayed(x, g, options)
    rate, weight, average = state["eta"], state["mu"], state["ax"]
    x.mul_(1 - lambd * rate).sub_(g * rate)
    if not isinstance(weight, Tensor) and weight == 1:
        average.copy_(x)
    else:
        average.add_((x - average) * weight)
    state["eta"] = lr / (1 + lambd * lr * step) ** options["alpha"]
    since = step - options["t0"]
    state["mu"] = 1 / (since.clamp(min=1) if isinstance(since, Tensor) else max(1.0, since))


class ASGD(ElementwiseOptimizer):
    """Averaged gradient descent; the average, from step `t0` on, is in `state[p]["ax"]`.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.ASGD([x], lr=0.1, lambd=0)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[x]["ax"]
    tensor([0.8000, 1.6000])
    """

    _rule = staticmethod(_rule)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        learning_rate(lr)
        not_negative(weight_decay=weight_decay)
        names = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = group["lr"]
        return {
            "step": counter(),
            "eta": lr.clone() if is_followed(lr) else counter(float(lr)),
            "mu": counter(1.0),
            "ax": zeros_like(p),
        }


asgd = on_lists(
    "asgd",
    _rule,
    "params grads axs mus etas state_steps",
    "foreach maximize differentiable capturable has_complex",
    "lambd lr t0 alpha weight_decay",
)
