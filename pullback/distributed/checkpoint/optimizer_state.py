"""States of optimizers by names of parameters: out of them, into them, and as one flat dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from pullback.operators.create.data import tensor
from pullback.operators.create.sizes import zeros_like
from pullback.optim.optimizer import Optimizer

__all__ = ["flattened", "ready", "state_of_optimizer", "to_optimizer", "unflattened"]


def ready(optimizer: Optimizer) -> None:
    """Give an optimizer the state that it makes in its first step, as it was before that step.

    It steps with gradients and learning rates of zero, so that parameters stay as they are.
    """
    inner: Any = optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer
    if inner.state:
        return
    trained = [p for group in inner.param_groups for p in group["params"] if p.requires_grad]
    before = [parameter.grad for parameter in trained]
    rates = [group.get("lr") for group in inner.param_groups]
    try:
        for parameter in trained:
            parameter.grad = zeros_like(parameter)
        for group, rate in zip(inner.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = tensor(0.0) if isinstance(rate, Tensor) else 0.0
        inner.step()
    finally:
        for parameter, gradient in zip(trained, before, strict=True):
            parameter.grad = gradient
        for group, rate in zip(inner.param_groups, rates, strict=True):
            if rate is not None:
                group["lr"] = rate
    for held in inner.state.values():
        if isinstance(held.get("step"), Tensor):
            held["step"].zero_()
        elif "step" in held:
            held["step"] = 0


def _by_number(optimizer: Optimizer) -> dict[str, Any]:
    """What the optimizer itself gives; of ZeRO this rank's share."""
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        return optimizer.local_state_dict()
    return optimizer.state_dict()


def state_of_optimizer(
    optimizer: Optimizer, names: Mapping[int, str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The state of each parameter, and the groups, by names; of ZeRO this rank's share."""
    written = _by_number(optimizer)
    named = _named(optimizer, names)
    state = {named[number]: held for number, held in written["state"].items()}
    groups = [
        {**group, "params": [named[number] for number in group["params"]]}
        for group in written["param_groups"]
    ]
    return state, groups


def _named(optimizer: Optimizer, names: Mapping[int, str]) -> list[str]:
    """What the optimizer's parameters are called, in its order."""
    every = [p for group in optimizer.param_groups for p in group["params"]]
    unknown = sum(id(p) not in names for p in every)
    if unknown:
        raise ValueError(
            f"{unknown} of {len(every)} parameters of the optimizer are none of the model's. After "
            "fully_shard and the like the model has others: make the optimizer after them."
        )
    return [names[id(p)] for p in every]


def to_optimizer(
    optimizer: Optimizer,
    given: Mapping[str, Any],
    names: Mapping[int, str],
    fitting: Callable[[Any, Any], Any],
    *,
    strict: bool,
) -> None:
    """Give an optimizer what of a state is of its parameters."""
    named = _named(optimizer, names)
    every = [p for group in optimizer.param_groups for p in group["params"]]
    group_of = {name: group for group in given["param_groups"] for name in group["params"]}
    state = {
        number: {key: fitting(value, parameter) for key, value in given["state"][name].items()}
        for number, (name, parameter) in enumerate(zip(named, every, strict=True))
        if name in given["state"]
    }
    groups = []
    first = 0
    for own in optimizer.param_groups:
        numbers = list(range(first, first + len(own["params"])))
        first += len(numbers)
        known = [group_of[named[n]] for n in numbers if named[n] in group_of]
        if strict and len(known) != len(numbers):
            missing = next(named[n] for n in numbers if named[n] not in group_of)
            raise RuntimeError(f"The optimizer's state has no group with {missing!r}.")
        if any(one is not known[0] for one in known):
            raise RuntimeError("Parameters of one group of the optimizer were in several groups.")
        options = known[0] if known else own
        groups.append({**options, "params": numbers})
    _check_complete(optimizer, state, named, strict=strict)
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _check_complete(
    optimizer: Optimizer, state: dict[int, Any], named: list[str], *, strict: bool
) -> None:
    """An optimizer that went on without a part of its state would go on wrong."""
    now = _by_number(optimizer)["state"]
    missing = [named[number] for number in now if number not in state]
    if missing and strict:
        raise RuntimeError(f"The optimizer's state has none for {', '.join(missing[:5])}.")


def flattened(state: Mapping[str, Any]) -> dict[str, Any]:
    """One dict, of names that say it all.

    >>> flattened({"state": {"w": {"step": 1}}, "param_groups": [{"lr": 0.1, "params": ["w"]}]})
    {'state.w.step': 1, 'param_groups.w.lr': 0.1}
    """
    made = {
        f"state.{name}.{key}": value
        for name, held in state["state"].items()
        for key, value in held.items()
    }
    for group in state["param_groups"]:
        options = {key: value for key, value in group.items() if key != "params"}
        for name in group["params"]:
            made.update({f"param_groups.{name}.{key}": value for key, value in options.items()})
    return made


def unflattened(flat: Mapping[str, Any]) -> dict[str, Any]:
    """What `flattened` was given, with a group for each set of parameters of equal options.

    >>> unflattened({"state.w.step": 1, "param_groups.w.lr": 0.1})
    {'state': {'w': {'step': 1}}, 'param_groups': [{'lr': 0.1, 'params': ['w']}]}
    """
    state: dict[str, Any] = {}
    options: dict[str, dict[str, Any]] = {}
    for path, value in flat.items():
        kind, _, rest = path.partition(".")
        name, _, key = rest.rpartition(".")
        table = {"state": state, "param_groups": options}.get(kind)
        if table is None or not name:
            raise ValueError(f"{path!r} is no name of an optimizer's flat state.")
        table.setdefault(name, {})[key] = value
    groups: list[dict[str, Any]] = []
    for name, own in options.items():
        for group in groups:
            if {key: value for key, value in group.items() if key != "params"} == own:
                group["params"].append(name)
                break
        else:
            groups.append({**own, "params": [name]})
    return {"state": state, "param_groups": groups}
