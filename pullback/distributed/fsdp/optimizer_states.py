"""FSDP's older calls for an optimizer's state: whole, in parts, from one rank, by names or numbers.

They are methods of `FullyShardedDataParallel`; states are in the forms of its `optim_state_dict`
and `optim_state_dict_to_load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.fsdp.api import OptimStateKeyType
from pullback.distributed.objects import broadcast_object_list
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.layouts import part_of
from pullback.distributed.world import get_global_rank, get_rank
from pullback.nn.modules.module import Module

__all__ = ["OptimizerStates", "loadable_state", "names_by_number", "shown_state"]


def names_by_number(model: Module, optim: Any, groups: Any = None) -> dict[int, str]:
    """What each of the optimizer's parameters is called, by its number in a state dict."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    if optim is not None:
        groups = optim.param_groups
    given = list(model.parameters() if groups is None else groups)
    every = []
    for one in given:
        every += list(one["params"]) if isinstance(one, Mapping) else [one]
    return {number: names[id(parameter)] for number, parameter in enumerate(every)}


def shown_state(model: Module, optim: Any, given: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """An optimizer's state dict with parameters by names, and tensors whole or in parts."""
    names = names_by_number(model, optim)

    def shown(value: Any) -> Any:
        if isinstance(value, DTensor):
            return value.full_tensor() if whole else value
        return value.detach().clone() if isinstance(value, Tensor) else value

    state = {
        names[number]: {name: shown(value) for name, value in held.items()}
        for number, held in given["state"].items()
    }
    groups = [
        {**one, "params": [names[number] for number in one["params"]]}
        for one in given["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


def loadable_state(model: Module, names: dict[int, str], given: dict[str, Any]) -> dict[str, Any]:
    """A state by names, whole or in parts, as this rank's optimizer loads it."""
    numbers = {name: number for number, name in names.items()}
    parameters = dict(model.named_parameters())

    def part(name: str, value: Any) -> Any:
        if isinstance(value, DTensor):
            return value.detach().clone()  # the optimizer that it came from goes on, too
        own = parameters[name]
        whole = isinstance(value, Tensor)
        if not whole or not isinstance(own, DTensor) or value.shape != own.shape:
            return value
        mesh, where = own.device_mesh, own.placements
        return DTensor(part_of(value, mesh, where), mesh, where, own.shape)

    state = {
        numbers[name]: {key: part(name, value) for key, value in held.items()}
        for name, held in given["state"].items()
    }
    groups = [
        {**one, "params": [numbers[name] for name in one["params"]]}
        for one in given["param_groups"]
    ]
    return {"state": state, "param_groups": groups}


class OptimizerStates:
    """The methods; each rank calls them."""

    @staticmethod
    def full_optim_state_dict(
        model: Module,
        optim: Any,
        optim_input: Any = None,
        rank0_only: bool = True,
        group: Any = None,
    ) -> dict[str, Any]:
        """The optimizer's whole state by names; empty on all ranks but the first, unless told."""
        found = shown_state(model, optim, optim.state_dict(), whole=True)
        return {} if rank0_only and get_rank(group) != 0 else found

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """The same, in parts."""
        return shown_state(model, optim, optim.state_dict(), whole=False)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any],
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """Of a whole state, which every rank has, what this rank's optimizer loads."""
        names = names_by_number(model, optim, optim_input)
        return loadable_state(model, names, full_optim_state_dict)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: Module, optim: Any
    ) -> dict[str, Any]:
        """Of a state in parts, what this rank's optimizer loads."""
        return loadable_state(model, names_by_number(model, optim), sharded_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> dict[str, Any]:
        """Of a whole state, which the first rank has, what each rank's optimizer loads."""
        first = get_rank(group) == 0
        sent = [full_optim_state_dict if first else None]
        broadcast_object_list(sent, src=get_global_rank(group, 0), group=group)
        if sent[0] is None:
            raise ValueError("scatter_full_optim_state_dict: the first rank gives the whole state.")
        return OptimizerStates.shard_full_optim_state_dict(sent[0], model, optim_input, optim)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any],
        optim_state_key_type: OptimStateKeyType,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """The same state, with parameters by names or by numbers."""
        names = names_by_number(model, optim, optim_input)
        wants_names = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        if not wants_names and optim_state_key_type is not OptimStateKeyType.PARAM_ID:
            raise ValueError(f"There are PARAM_NAME and PARAM_ID, got {optim_state_key_type!r}.")
        other: dict[Any, Any] = names if wants_names else {n: k for k, n in names.items()}
        known = set(other.values())

        def renamed(key: Any) -> Any:
            return key if key in known else other[key]

        state = {renamed(key): value for key, value in optim_state_dict["state"].items()}
        groups = [
            {**one, "params": [renamed(key) for key in one["params"]]}
            for one in optim_state_dict["param_groups"]
        ]
        return {"state": state, "param_groups": groups}
