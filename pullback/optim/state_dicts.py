"""State dicts of optimizers: parameters by number instead of by themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pullback.core.tensor import Tensor

__all__ = ["fitted", "read", "written"]


def written(optimizer: Any) -> dict[str, Any]:
    """The state and the groups, parameters counted through all groups."""
    numbers: dict[int, int] = {}
    groups = []
    for group in optimizer.param_groups:
        packed = {name: value for name, value in group.items() if name != "params"}
        for param in group["params"]:
            numbers.setdefault(id(param), len(numbers))
        packed["params"] = [numbers[id(param)] for param in group["params"]]
        groups.append(packed)
    state = {
        (numbers[id(key)] if isinstance(key, Tensor) else key): value
        for key, value in optimizer.state.items()
    }
    return {"state": state, "param_groups": groups}


def read(optimizer: Any, state_dict: dict[str, Any]) -> dict[str, Any]:
    """What `__setstate__` takes: a state dict with the optimizer's own parameters in it."""
    groups, saved = optimizer.param_groups, state_dict["param_groups"]
    if len(groups) != len(saved):
        raise ValueError(
            f"The state dict has {len(saved)} parameter groups, the optimizer {len(groups)}."
        )
    for mine, other in zip(groups, saved, strict=True):
        if len(mine["params"]) != len(other["params"]):
            raise ValueError(
                f"A group of the state dict has {len(other['params'])} parameters where the "
                f"optimizer's has {len(mine['params'])}."
            )
    params = dict(zip(_chained(saved), _chained(groups), strict=True))
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, value in state_dict["state"].items():
        if key in params:
            state[params[key]] = _placed(optimizer, params[key], value, key, saved)
        else:
            state[key] = value
    updated = [_updated(mine, other) for mine, other in zip(groups, saved, strict=True)]
    return {"state": state, "param_groups": updated}


def _chained(groups: Iterable[dict[str, Any]]) -> Iterable[Any]:
    return (param for group in groups for param in group["params"])


def _updated(mine: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The options of the state dict, with the parameters (and names, if need be) of the group."""
    group = {**other, "params": mine["params"]}
    if "param_names" in mine and "param_names" not in other:
        group["param_names"] = mine["param_names"]
    return group


def _placed(
    optimizer: Any, param: Tensor, value: Any, number: Any, groups: Any, key: Any = None
) -> Any:
    """A value of the state dict as the parameter's, tensors anywhere inside it converted."""
    if isinstance(value, Tensor):
        return optimizer._process_value_according_to_param_policy(param, value, number, groups, key)
    if isinstance(value, dict):
        return {
            name: _placed(optimizer, param, inner, number, groups, name)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(_placed(optimizer, param, inner, number, groups) for inner in value)
    return value


def fitted(param: Tensor, value: Tensor, key: Any, *, beside: bool = False) -> Tensor:
    """A tensor of the state in its parameter's dtype; counters stay exact, in a dtype of their own.

    torch converts only where the parameter is floating point. With `beside` counters are on the
    parameter's device too.
    """
    if key == "step":
        return value.to(device=param.device) if beside else value
    if param.is_floating_point():
        return value.to(dtype=param.dtype, device=param.device)
    return value.to(device=param.device)
