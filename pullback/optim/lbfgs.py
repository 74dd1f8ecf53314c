"""LBFGS: Newton-like steps from the last few changes of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import float32

from pullback.core.tensor import Tensor
from pullback.operators.pointwise.complex import view_as_real
from pullback.operators.shape.joining import cat
from pullback.optim.checks import learning_rate
from pullback.optim.line_search import Point, cubic_minimum, strong_wolfe
from pullback.optim.optimizer import (
    Optimizer,
    ParamsT,
    _to_scalar,
    _use_grad_for_differentiable,
    evaluated,
)

__all__ = ["LBFGS"]

_LEAST_CURVATURE = 1e-10  # along a step whose change of gradient is remembered


class LBFGS(Optimizer):
    """Limited-memory BFGS: a quasi-Newton method for smooth problems without noise.

    The inverse Hessian is approximated by the last `history_size` steps and changes of gradient.
    One `step` makes up to `max_iter` iterations; it needs a closure that zeroes the gradients,
    computes the loss, calls `backward` and returns the loss, and calls it as often as it wants. All
    parameters are in one group: the method sees them as one vector.

    Args:
        params: Parameters, all in one group.
        lr: Length of the step; with a line search, the first one tried.
        max_iter: Most iterations of one `step`.
        max_eval: Most calls of the closure in one `step`; `max_iter * 5 // 4` if not given.
        tolerance_grad: Stop when no element of the gradient is larger.
        tolerance_change: Stop when the loss, or every parameter, changes by less.
        history_size: How many past steps to remember.
        line_search_fn: "strong_wolfe" searches the length of each step, which is safer; None takes
            `lr`.

    >>> import pullback as torch
    >>> x = torch.tensor([-1.0, 2.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=50)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> first = optimizer.step(closure)
    >>> x.detach().round(decimals=3)
    tensor([1., 1.])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        learning_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS sees all parameters as one vector: one group, without options.")
        self._params: list[Any] = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # ------------------------------------------------------------------ one vector

    def _numel(self) -> int:
        return sum(2 * p.numel() if p.is_complex() else p.numel() for p in self._params)

    def _gather_flat_grad(self) -> Any:
        return cat([_flat(p, p.grad) for p in self._params])

    def _add_grad(self, step_size: float, direction: Any) -> None:
        """Move all parameters along the direction."""
        offset = 0
        for p in self._params:
            real = view_as_real(p) if p.is_complex() else p
            count = real.numel()
            real.add_(direction[offset : offset + count].view_as(real), alpha=float(step_size))
            offset += count

    def _clone_param(self) -> list[Any]:
        return [p.clone() for p in self._params]

    def _set_param(self, params_data: list[Any]) -> None:
        for p, value in zip(self._params, params_data, strict=True):
            p.copy_(value)

    def _point(self, closure: Callable[[], float], x: list[Any], t: float, d: Any) -> Point:
        """Loss and gradient a step away; the parameters return to `x`."""
        self._add_grad(t, d)
        loss = closure()
        g = self._gather_flat_grad()
        self._set_param(x)
        return Point(t, loss, g, _number(g.dot(d)))

    # ------------------------------------------------------------------ stepping

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any]) -> Any:
        """Take up to `max_iter` steps; `closure` computes loss and gradients. Returns the first."""
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = evaluated(closure)
        state["func_evals"] += 1
        g = self._gather_flat_grad()
        if _largest(g) > group["tolerance_grad"]:
            self._iterate(state, group, lambda: float(evaluated(closure)), float(first), g)
        return first

    def _iterate(
        self,
        state: dict[str, Any],
        group: dict[str, Any],
        closure: Callable[[], float],
        loss: float,
        g: Any,
    ) -> None:
        """Steps until one of the limits or tolerances is reached."""
        evaluations = 1
        for number in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            d = state["d"] = _direction(state, g, group["history_size"])
            # The next direction's memory is made from these.
            state["prev_flat_grad"], state["prev_loss"] = g.clone(), loss
            t = _to_scalar(group["lr"])
            if state["n_iter"] == 1:
                total = _number(g.abs().sum())
                t = min(1.0, 1.0 / total) * t if total else t
            state["t"] = float(t)
            slope = _number(g.dot(d))
            if slope > -group["tolerance_change"]:
                return
            last = number == group["max_iter"]
            if group["line_search_fn"] is not None:
                left = group["max_eval"] - evaluations
                start = Point(0.0, loss, g, slope)
                point, tried = self._search(closure, start, t, d, group, left)
                t, loss, g = float(point.t), point.loss, point.g
                state["t"] = t
                self._add_grad(t, d)
            else:
                self._add_grad(t, d)
                tried = 0 if last else 1
                if not last:
                    loss, g = closure(), self._gather_flat_grad()
            evaluations += tried
            state["func_evals"] += tried
            if last or evaluations >= group["max_eval"] or _largest(g) <= group["tolerance_grad"]:
                return
            if _largest(d * t) <= group["tolerance_change"]:
                return
            if abs(loss - state["prev_loss"]) < group["tolerance_change"]:
                return

    def _search(
        self,
        closure: Callable[[], float],
        start: Point,
        t: float,
        d: Any,
        group: dict[str, Any],
        most: int,
    ) -> tuple[Point, int]:
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError(
                f'line_search_fn is "strong_wolfe" or None; it is {group["line_search_fn"]!r}.'
            )
        x = self._clone_param()
        return strong_wolfe(
            lambda length: self._point(closure, x, length, d),
            start,
            t,
            group["tolerance_change"],
            most,
            largest=_number(d.abs().max()),
        )


def _flat(p: Any, g: Any) -> Any:
    """A parameter's gradient as real numbers in a row; zeros, if it has none."""
    if g is None:
        g = p.new_zeros(p.shape)
    elif g.is_sparse:
        g = g.to_dense()
    return (view_as_real(g) if g.is_complex() else g).reshape(-1)


def _number(x: Any) -> Any:
    """A number that rounds as its tensor does: torch computes with tensors here."""
    return float32(x.item()) if x._array.dtype == float32 else x.item()


def _largest(x: Any) -> float:
    return float(x.abs().max().item())


def _direction(state: dict[str, Any], g: Any, history_size: int) -> Any:
    """Where to go: the gradient through the approximate inverse Hessian that `state` remembers."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -g
    _remember(state, g, history_size)
    changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    weights = state.setdefault("al", [None] * history_size)
    q = -g
    for i in reversed(range(len(changes))):
        weights[i] = steps[i].dot(q) * ro[i]
        q.sub_(changes[i] * weights[i])
    d = q * state["H_diag"]
    for i in range(len(changes)):
        d.add_(steps[i] * (weights[i] - changes[i].dot(d) * ro[i]))
    return d


def _remember(state: dict[str, Any], g: Any, history_size: int) -> None:
    """Keep the last step and the change of gradient along it, if the loss curves upwards there."""
    change = g - state["prev_flat_grad"]
    step = state["d"] * state["t"]
    curvature = change.dot(step)
    if curvature.item() <= _LEAST_CURVATURE:
        return
    if len(state["old_dirs"]) == history_size:
        for name in ("old_dirs", "old_stps", "ro"):
            state[name].pop(0)
    state["old_dirs"].append(change)
    state["old_stps"].append(step)
    state["ro"].append(1.0 / curvature)
    state["H_diag"] = curvature / change.dot(change)


def _cubic_interpolate(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: Any = None
) -> float:
    """Where the cubic through two points with slopes is least, under torch's inner name."""
    return cubic_minimum(
        Point(x1, float(f1), None, float(g1)), Point(x2, float(f2), None, float(g2)), bounds
    )


def _strong_wolfe(
    obj_func: Callable[[Any, float, Any], tuple[Any, Any]],
    x: Any,
    t: float,
    d: Any,
    f: Any,
    g: Any,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Any, Any, float, int]:
    """The line search under torch's inner name: loss, gradient, step, and how many tries."""

    def at(length: float) -> Point:
        loss, gradient = obj_func(x, float(length), d)
        return Point(length, float(loss), gradient, _number(gradient.dot(d)))

    start = Point(0.0, float(f), g, _number(gtd) if isinstance(gtd, Tensor) else gtd)
    largest = _number(d.abs().max())
    wolfe = c1, c2
    found, tries = strong_wolfe(
        at, start, t, tolerance_change, max_ls, largest=largest, wolfe=wolfe
    )
    return found.loss, found.g, float(found.t), tries
