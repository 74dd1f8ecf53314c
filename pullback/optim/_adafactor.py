"""Adafactor: squared gradients of matrices remembered by row and column sums alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.limits import finfo
from pullback.core.tensor import Tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.checks import arguments, learning_rate, not_negative, real_and_dense
from pullback.optim.elementwise import counter
from pullback.optim.optimizer import (
    Optimizer,
    ParamsT,
    _to_scalar,
    _use_grad_for_differentiable,
    evaluated,
)

__all__ = ["Adafactor", "adafactor"]


def _step(p: Any, g: Any, state: dict[str, Any], options: dict[str, Any]) -> None:
    """One step of one parameter; `state` has "variance", or "row_var" and "col_var"."""
    lr, (eps1, eps2) = _to_scalar(options["lr"]), options["eps"]
    eps1 = finfo(p.dtype).eps if eps1 is None else eps1
    state["step"] += 1
    step = state["step"].item()
    g = -g if options["maximize"] else g
    size = _root_mean_square(p)
    rate = max(eps2, size) * min(lr, step**-0.5)
    if options["weight_decay"] != 0:
        p.mul_(1 - lr * options["weight_decay"])
    square = _estimate(g, state, step ** options["beta2_decay"], eps1)
    update = square.clamp(min=eps1 * eps1).rsqrt() * g
    clipped = max(1.0, _root_mean_square(update) / options["d"])
    p.sub_(update * (rate / clipped))


def _root_mean_square(x: Any) -> float:
    """NaN of nothing, as a mean is."""
    size = float(x.numel())
    return float(x.norm(2).item()) / size**0.5 if size else float("nan")


def _estimate(g: Any, state: dict[str, Any], share: float, eps1: float) -> Any:
    """The average of squares with this gradient's in it; of matrices, from rows and columns."""
    if g.dim() < 2:
        variance = state["variance"]
        variance.lerp_(g * g, share)
        return variance
    rows, columns = state["row_var"], state["col_var"]
    square = g * g
    rows.lerp_(square.mean(-1, keepdim=True), share)
    columns.lerp_(square.mean(-2, keepdim=True), share)
    return rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps1)


class Adafactor(Optimizer):
    """Adaptive steps in little memory: a matrix's squares are kept as a row and a column.

    Steps are relative to the size of the parameter, and clipped.

    >>> import pullback as torch
    >>> x = torch.ones(3, 2, requires_grad=True)
    >>> optimizer = torch.optim.Adafactor([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> [tuple(optimizer.state[x][name].shape) for name in ("row_var", "col_var")]
    [(3, 1), (1, 2)]
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        learning_rate(lr)
        if not beta2_decay <= 0:
            raise ValueError(f"beta2_decay cannot be positive; it is {beta2_decay}.")
        if eps[0] is not None:
            not_negative(eps1=eps[0])
        not_negative(eps2=eps[1], weight_decay=weight_decay)
        if not d >= 1:
            raise ValueError(f"d, the clipping threshold, must be at least 1; it is {d}.")
        names = "lr beta2_decay eps d weight_decay foreach maximize"
        super().__init__(params, arguments(locals(), names))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
        for held in self.state.values():
            if "step" in held and not isinstance(held["step"], Tensor):
                held["step"] = counter(held["step"])

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; `closure`, if given, first recomputes the loss, which is returned."""
        loss = evaluated(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    _step(p, real_and_dense(p.grad, "Adafactor"), self._state_of(p), group)
        return loss

    def _state_of(self, p: Any) -> dict[str, Any]:
        state: dict[str, Any] = self.state[p]
        if not state:
            state["step"] = counter()
            if p.dim() < 2:
                state["variance"] = zeros_like(p)
            else:
                *outer, height, width = p.shape
                state["row_var"] = p.new_zeros((*outer, height, 1))
                state["col_var"] = p.new_zeros((*outer, 1, width))
        return state


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float,
    eps2: float,
    maximize: bool,
) -> None:
    """One step of Adafactor on tensors and their state given as lists."""
    options = arguments(locals(), "lr beta2_decay d weight_decay maximize") | {"eps": (eps1, eps2)}
    names = ("row_var", "col_var", "variance", "step")
    lists = (row_vars, col_vars, variances, state_steps)
    for p, g, *values in zip(params, grads, *lists, strict=True):
        _step(p, real_and_dense(g, "Adafactor"), dict(zip(names, values, strict=True)), options)
