"""The step shared by optimizers whose update treats each element by itself.

An algorithm is a rule `rule(x, g, state, options)`, written once in tensor operators. It changes
`x` and the tensors of `state` in place, and never `g`. Counters in `state` ("step") are Python
numbers; the rule puts the new ones there. The same rule runs on flat buffers of many parameters
(`packing.py`), and on single tensors where autograd or somebody else wants to see the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.arrays import LIBRARIES
from pullback.core.mode import get_mode
from pullback.core.node import Leaf
from pullback.core.passes import running
from pullback.core.tensor import Tensor
from pullback.operators.create.data import tensor
from pullback.operators.pointwise.complex import view_as_real
from pullback.optim.on_device import DeviceStep, step_on_device
from pullback.optim.optimizer import (
    PLAIN_PARAMETERS,
    Optimizer,
    _device_dtype_check_for_fused,
    _get_scalar_dtype,
    _use_grad_for_differentiable,
    evaluated,
)
from pullback.optim.packing import Kernel, Plan, can_pack

__all__ = [
    *("ElementwiseOptimizer", "average_in", "average_square_in", "decayed", "step_each"),
    *("is_followed", "unwritten"),
]

Rule = Callable[[Any, Any, dict[str, Any], dict[str, Any]], None]
# Options that state dicts of earlier versions lack, with what was so before they existed.
LATE_OPTIONS = {
    "amsgrad": False,
    "capturable": False,
    "centered": False,
    "decoupled_weight_decay": False,
    "differentiable": False,
    "foreach": None,
    "fused": None,
    "maximize": False,
    "momentum": 0,
    "nesterov": False,
}
COUNTERS = ("step", "mu_product", "eta", "mu")  # of all algorithms: one number per parameter


class ElementwiseOptimizer(Optimizer):
    """An optimizer with a rule; subclasses say which, and what a parameter's first state is."""

    _rule: Rule
    # The rule on arrays, where that is worth having twice.
    _kernel: Kernel | None = None
    # The rule in one launch on a device, likewise.
    _on_device: DeviceStep | None = None
    # Whether the rule sees complex numbers as pairs of real ones.
    _as_real = True
    # Whether foreach=True has no meaning, rather than one that excludes differentiable=True.
    _ignores_foreach = False
    _plans: dict[int, Plan] | None = None

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults.get("differentiable"):
                raise RuntimeError("A fused step cannot be differentiable; choose one of the two.")
            if defaults.get("foreach"):
                raise RuntimeError("fused and foreach exclude each other; choose one of the two.")
            for group in self.param_groups:
                for p in group["params"]:
                    _device_dtype_check_for_fused(p)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._plans = None
        for group in self.param_groups:
            for name, value in LATE_OPTIONS.items():
                if name in self.defaults:
                    group.setdefault(name, value)
        for held in self.state.values():
            if isinstance(held, dict):
                for name in COUNTERS:
                    if name in held and not isinstance(held[name], Tensor):
                        held[name] = counter(held[name])

    def _new_state(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """What is remembered of a parameter before its first step."""
        raise NotImplementedError

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; `closure`, if given, first recomputes the loss, which is returned."""
        loss = None if closure is None else evaluated(closure)
        alone = running.get() is None  # no pass could still add to what is stored
        for number, group in enumerate(self.param_groups):
            params, grads = [], []
            for p in group["params"]:
                plain = p.__class__ in PLAIN_PARAMETERS and p._node.__class__ is Leaf and alone
                g = p._stored_grad if plain else p.grad
                if g is not None:
                    params.append(p)
                    grads.append(g)
            if params:
                self._step_group(number, group, params, grads)
        return loss

    def _step_group(
        self, number: int, group: dict[str, Any], params: list[Any], grads: list[Any]
    ) -> None:
        differentiable, capturable = bool(group.get("differentiable")), group.get("capturable")
        if differentiable or capturable:
            self._check_group(group, params)
        chosen: Iterable[int] = range(len(params))
        if LIBRARIES and self._on_device is not None and can_pack() and not differentiable:
            name = type(self).__name__
            self._make_states(params, group)
            left = step_on_device(self._on_device, params, grads, self.state, group, name)
            if not left:
                return
            params, grads = [params[i] for i in left], [grads[i] for i in left]
            chosen = range(len(params))
        if can_pack() and not differentiable and not capturable:
            options = in_numbers(group)
            plan, needs = (self._plans or {}).get(number), self._needs_state(group)
            if plan is None or not plan.serves(params, self.state, needs_state=needs):
                plan = self._new_plan(number, params, needs_state=needs)
            chosen = plan.run(
                self._rule, self._kernel, grads, options, type(self).__name__, as_real=self._as_real
            )
        else:
            options = group
        for i in chosen:
            self._step_one(params[i], grads[i], options, differentiable)

    def _new_plan(self, number: int, params: list[Any], *, needs_state: bool) -> Plan:
        if self._plans is None:
            self._plans = {}
        self._make_states(params, self.param_groups[number])
        plan = Plan(params, self.state, COUNTERS, needs_state=needs_state)
        self._plans[number] = plan
        return plan

    def _needs_state(self, group: dict[str, Any]) -> bool:
        return True

    def _make_states(self, params: list[Any], group: dict[str, Any]) -> None:
        for p in params:
            if not self.state.get(p) and (made := self._new_state(p, group)):
                if group.get("capturable"):  # counts are where a replayed step changes them
                    made = {name: _beside(p, name, one) for name, one in made.items()}
                self.state[p].update(made)

    def _step_one(self, p: Any, g: Any, options: Any, differentiable: bool) -> None:
        self._make_states([p], options)
        if g.is_sparse:
            self._step_sparse(p, g, options)
            return
        state = self.state.get(p) or {}
        step_one(self._rule, p, g, state, options, self._as_real, differentiable)
        if state and p not in self.state:
            self.state[p].update(state)

    def _step_sparse(self, p: Any, g: Any, options: dict[str, Any]) -> None:
        raise RuntimeError(
            f"{type(self).__name__} cannot take sparse gradients; use SGD, Adagrad or SparseAdam."
        )

    def _check_group(self, group: dict[str, Any], params: list[Any]) -> None:
        if group.get("differentiable") and group.get("foreach") and not self._ignores_foreach:
            raise AssertionError("foreach=True cannot be recorded by autograd; leave it out.")
        if group.get("capturable") and any(p.device.type == "cpu" for p in params):
            raise AssertionError(
                "capturable=True is for parameters on an accelerator, and these are on the CPU."
            )


def step_one(
    rule: Rule,
    p: Any,
    g: Any,
    state: dict[str, Any],
    options: dict[str, Any],
    as_real: bool,
    differentiable: bool,
) -> None:
    """Run a rule on one parameter and its own state."""
    as_real = as_real and p.is_complex()
    is_captured = get_mode().tracing is not None or bool(options.get("capturable"))
    values: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    for name, value in state.items():
        if name in COUNTERS:
            followed = differentiable and isinstance(value, Tensor) and value.requires_grad
            values[name] = value if followed else _counted(value, is_captured=is_captured)
        elif isinstance(value, Tensor):
            # The graph of the step before keeps the old values.
            kept[name] = value.clone() if differentiable else value
            values[name] = view_as_real(kept[name]) if as_real else kept[name]
    if as_real:
        p, g = view_as_real(p), view_as_real(g)
    rule(p, g, values, options)
    for name, value in values.items():
        if name in kept:
            state[name] = kept[name]
        elif name in COUNTERS and name in state and (is_captured or not isinstance(value, Tensor)):
            _set_counter(state, name, value)
        else:
            state[name] = value


def _counted(value: Any, *, is_captured: bool) -> Any:
    """A count as a number; in a program that is being captured it stays a tensor, as it changes."""
    if not isinstance(value, Tensor):
        return value
    return value.double() if is_captured else value.item()


def _beside(p: Tensor, name: str, value: Any) -> Any:
    return value.to(p.device) if name in COUNTERS and isinstance(value, Tensor) else value


def _set_counter(state: dict[str, Any], name: str, value: Any) -> None:
    if isinstance(state[name], Tensor):
        with no_grad():
            if state[name].requires_grad:  # its history is not that of the new number
                state[name] = state[name].detach().clone()
            state[name].fill_(value)
    else:
        state[name] = value


def step_each(
    rule: Rule,
    params: list[Tensor],
    grads: list[Tensor],
    states: dict[str, list[Any]],
    options: dict[str, Any],
    *,
    as_real: bool = True,
) -> None:
    """What the functional forms do: the rule on each parameter, its state given as lists.

    A list shorter than the parameters (state that the options make no use of) is left out.
    """
    used = {name: tensors for name, tensors in states.items() if len(tensors) == len(params)}
    for number, (p, g) in enumerate(zip(params, grads, strict=True)):
        state = {name: tensors[number] for name, tensors in used.items()}
        step_one(rule, p, g, state, options, as_real, False)
        for name, tensors in used.items():
            if tensors[number] is None:
                tensors[number] = state.get(name)


def counter(value: float = 0.0) -> Tensor:
    """A count as a tensor of its own, as states hold it."""
    return tensor(float(value), dtype=_get_scalar_dtype())


def is_followed(option: Any) -> bool:
    """Whether a step that is recorded now leads gradients to this option."""
    return isinstance(option, Tensor) and option.requires_grad and get_mode().grad


def in_numbers(group: dict[str, Any]) -> dict[str, Any]:
    """Options with numbers where tensors were."""
    changed: dict[str, Any] = {}
    for name, value in group.items():
        if isinstance(value, Tensor):
            changed[name] = value.item()
        elif type(value) is tuple and value:
            changed[name] = tuple(map(_number, value))
    return {**group, **changed} if changed else group


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


# What rules are made of ---------------------------------------------------------------------------


def decayed(x: Any, g: Any, options: dict[str, Any]) -> Any:
    """The gradient to go down along: turned round to maximize, weight decay pulling it to zero."""
    if options["maximize"]:
        g = -g
    decay = options["weight_decay"]
    return g + unwritten(x, decay) * decay if _is_set(decay) else g


def unwritten(x: Any, *others: Any) -> Any:
    """`x` as it is now, for a product with others that may need it for their gradients."""
    return x.clone() if any(map(is_followed, others)) else x


def _is_set(value: Any) -> bool:
    return isinstance(value, Tensor) or value != 0


def average_in(average: Any, value: Any, keep: Any) -> None:
    """Let a running average forget a little and take a new value in."""
    if isinstance(keep, Tensor):
        average.mul_(keep).add_(value * (1 - keep))
    else:
        average.mul_(keep).add_(value, alpha=1 - keep)


def average_square_in(average: Any, value: Any, keep: Any) -> None:
    """The same with the value's square."""
    average_in(average, value * value, keep)
