"""Rprop: steps by the sign of the gradient, longer as long as it stays the same."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import full_like, zeros_like
from pullback.operators.indexing.selection import where
from pullback.optim.checks import arguments, learning_rate
from pullback.optim.elementwise import ElementwiseOptimizer, counter, is_followed
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    shorter, longer = options["etas"]
    state["step"] += 1
    g = -g if options["maximize"] else g
    before, size = state["prev"], state["step_size"]
    agreement = g * before
    turned = agreement < 0
    changed = where(agreement > 0, size * longer, where(turned, size * shorter, size))
    size.copy_(changed.clamp(*options["step_sizes"]))
    # Where the sign has just changed the step went too far: wait there.
    g = where(turned, zeros_like(g), g)
    x.sub_(g.sign() * size)
    before.copy_(g)


class Rprop(ElementwiseOptimizer):
    """Resilient propagation, for gradients over all of the data.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Rprop([x], lr=0.1)
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
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        learning_rate(lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"etas must be a number below 1 and one above; they are {etas}.")
        names = "lr etas step_sizes foreach maximize differentiable capturable"
        super().__init__(params, arguments(locals(), names))

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = group["lr"] if is_followed(group["lr"]) else float(group["lr"])
        start = lr * (1 + 1j) if p.is_complex() else lr
        size = zeros_like(p) + start if is_followed(lr) else full_like(p.detach(), start)
        return {"step": counter(), "prev": zeros_like(p), "step_size": size}


rprop = on_lists(
    "rprop",
    _rule,
    "params grads prevs step_sizes state_steps",
    "foreach capturable maximize differentiable has_complex",
    "step_size_min step_size_max etaminus etaplus",
)
