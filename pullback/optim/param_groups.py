"""Parameter groups: what users may pass as parameters, and what is kept of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor

__all__ = ["completed", "listed", "required"]


class _RequiredParameter:
    """Stands, among the defaults, for an option that each group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def listed(params: Any) -> list[dict[str, Any]]:
    """The groups that an optimizer was given; bare tensors, or pairs with names, are one group."""
    if isinstance(params, Tensor):
        raise TypeError(
            "An optimizer takes an iterable of tensors, or of dicts with options, and got a single "
            "tensor: write [tensor]."
        )
    given = list(params)
    if not given:
        raise ValueError("An optimizer needs at least one parameter, and got an empty list.")
    return given if isinstance(given[0], dict) else [{"params": given}]


def completed(
    group: dict[str, Any], defaults: dict[str, Any], others: list[dict[str, Any]]
) -> dict[str, Any]:
    """The group checked, with its parameters as a list and the defaults filled in."""
    if not isinstance(group, dict):
        raise TypeError(f"A parameter group is a dict, got {type(group).__name__}.")
    _list_params(group)
    for param in group["params"]:
        _check_param(param, differentiable=bool(defaults.get("differentiable")))
    for name, default in defaults.items():
        if default is required and name not in group:
            raise ValueError(f"A parameter group must say what {name} is: it has no default.")
        group.setdefault(name, default)
    _check_apart(group, others)
    return group


def _list_params(group: dict[str, Any]) -> None:
    """Make `params` a list, and take names that came with the tensors out into `param_names`."""
    params = group["params"]
    if isinstance(params, Tensor):
        group["params"] = [params]
    elif isinstance(params, set):
        raise TypeError(
            "The parameters are in a set, whose order changes between runs; an optimizer's state "
            "goes by order. Use a list."
        )
    else:
        group["params"] = list(params)
    params = group["params"]
    named = [isinstance(one, tuple) for one in params]
    if any(named):
        if not all(named):
            raise ValueError("Either all parameters come with a name or none, as (name, tensor).")
        group["param_names"] = [name for name, _ in params]
        group["params"] = [param for _, param in params]


def _check_param(param: Any, *, differentiable: bool) -> None:
    if not isinstance(param, Tensor):
        raise TypeError(f"Only tensors can be optimized; one parameter is {type(param).__name__}.")
    if not (differentiable or param.is_leaf or param.retains_grad):
        raise ValueError(
            "A parameter is the result of a computation, and an optimizer changes leaves: pass the "
            "tensor it was computed from, or x.detach().requires_grad_()."
        )


def _check_apart(group: dict[str, Any], others: list[dict[str, Any]]) -> None:
    """Each parameter belongs to one group, once."""
    params = group["params"]
    mine = _ids(params)
    if len(mine) < len(params):
        warnings.warn(
            "A parameter is twice in one group of an optimizer, and will be stepped twice; this "
            "will be an error in future.",
            UserWarning,
            stacklevel=stacklevel(),
        )
    if others and ("param_names" in others[0]) != ("param_names" in group):
        raise ValueError(
            "Either all parameter groups have names or none: this one differs from those before."
        )
    for other in others:
        if not mine.isdisjoint(_ids(other["params"])):
            raise ValueError("A parameter is in more than one group of the optimizer.")


def _ids(params: Iterable[Any]) -> set[int]:
    return {id(param) for param in params}
