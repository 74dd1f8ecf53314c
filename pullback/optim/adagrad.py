"""Adagrad: steps that shrink with the sum of all squared gradients."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import full_like
from pullback.optim.checks import arguments, learning_rate, not_negative
from pullback.optim.elementwise import ElementwiseOptimizer, counter, decayed
from pullback.optim.on_lists import on_lists
from pullback.optim.optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


def _rate(state: dict[str, Any], options: dict[str, Any]) -> Any:
    """The learning rate of this step, which is counted."""
    step = state["step"] = state["step"] + 1
    return options["lr"] / (1 + (step - 1) * options["lr_decay"])


def _rule(x: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    rate = _rate(state, options)
    g = decayed(x, g, options)
    state["sum"].add_(g * g)
    x.sub_((g / (state["sum"].sqrt() + options["eps"])).mul_(rate))


class Adagrad(ElementwiseOptimizer):
    """Steps divided by the root of the sum of squared gradients; takes sparse gradients too.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.Adagrad([x], lr=0.1)
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
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        learning_rate(lr)
        not_negative(
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        names = (
            "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
            "differentiable fused"
        )
        super().__init__(params, arguments(locals(), names))
        for group in self.param_groups:
            self._make_states(group["params"], group)

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = group["initial_accumulator_value"]
        start = complex(start, start) if p.is_complex() else start
        return {"step": counter(), "sum": full_like(p.detach(), start)}

    def share_memory(self) -> None:
        """Move the state to memory that processes share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    def _step_sparse(self, p: Any, g: Any, options: dict[str, Any]) -> None:
        if options["weight_decay"] != 0:
            raise RuntimeError(
                "Adagrad takes sparse gradients only without weight decay, which would make every "
                "element change."
            )
        state = self.state[p]
        counted = {"step": state["step"].item()}
        rate = _rate(counted, options)
        state["step"].fill_(counted["step"])
        g = g.coalesce()
        rows, values = tuple(g._indices()), g._values()
        values = -values if options["maximize"] else values
        state["sum"][rows] += values * values
        p[rows] -= values / (state["sum"][rows].sqrt() + options["eps"]) * rate


adagrad = on_lists(
    "adagrad",
    _rule,
    "params grads state_sums state_steps",
    "fused grad_scale found_inf has_sparse_grad foreach differentiable has_complex",
    "lr weight_decay lr_decay eps maximize",
)
