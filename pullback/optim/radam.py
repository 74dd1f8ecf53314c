"""RAdam: Adam that does without the average of squares until enough of them were seen."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.operators.indexing.selection import where
from pullback.optim.adam import decoupled_or_decayed
from pullback.optim.checks import arguments, betas_below_one, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, average_in, average_square_in, counter
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["RAdam", "radam"]

_ENOUGH = 5  # the length of the average from which its variance is trusted


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    lr, (beta1, beta2) = options["lr"], options["betas"]
    step = state["step"] = state["step"] + 1
    g = decoupled_or_decayed(x, g, options)
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    average_in(mean, g, beta1)
    average_square_in(square, g, beta2)
    rate = lr / (1 - beta1**step)
    correction = 1 - beta2**step
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / correction
    if isinstance(length, Tensor):  # both ways, as nobody may look which one it is
        enough = length > _ENOUGH
        rectified = _rectified(where(enough, length, longest), longest, correction)
        straight = mean / (square.sqrt() + options["eps"])
        x.sub_(where(enough, straight * rectified, mean).mul_(rate))
    elif length <= _ENOUGH:
        x.sub_(mean * rate)
    else:
        rate = rate * _rectified(length, longest, correction)
        x.sub_((mean / (square.sqrt() + options["eps"])).mul_(rate))


def _rectified(length: Any, longest: float, correction: Any) -> Any:
    """What the rate is scaled by, once the average of squares is long enough to be trusted."""
    scaled = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return (scaled * correction) ** 0.5


class RAdam(ElementwiseOptimizer):
    """Rectified Adam: its first steps are momentum alone.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.RAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    _rule = staticmethod(_rule)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        learning_rate(lr)
        not_negative(eps=eps, weight_decay=weight_decay)
        betas_below_one(betas)
        names = (
            "lr betas eps weight_decay maximize foreach capturable "
            "decoupled_weight_decay differentiable"
        )
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": counter(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}


radam = on_lists(
    "radam",
    _rule,
    "params grads exp_avgs exp_avg_sqs state_steps",
    "decoupled_weight_decay foreach differentiable capturable has_complex maximize",
    "beta1 beta2 lr weight_decay eps",
)
