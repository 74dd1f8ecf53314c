"""`torch.distributed.checkpoint.state_dict`: states under names that do not depend on wrappers.

What DDP, FSDP, checkpoint wrappers and compile put into names is left out, and an optimizer's state
is by names of parameters instead of numbers: so it fits the model however it is spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.checkpoint.optimizer_state import (
    flattened,
    ready,
    state_of_optimizer,
    to_optimizer,
    unflattened,
)
from pullback.distributed.ddp.module import DistributedDataParallel
from pullback.distributed.fsdp.api import StateDictType
from pullback.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
from pullback.distributed.fsdp.state import state_of
from pullback.distributed.objects import broadcast_object_list
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.layouts import part_of
from pullback.distributed.world import get_rank, is_initialized
from pullback.nn.modules.module import Module
from pullback.optim.optimizer import Optimizer

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

_WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")


@dataclass
class StateDictOptions:
    """How states are given and taken.

    Attributes:
        full_state_dict: whole tensors, instead of each rank's parts.
        cpu_offload: in main memory; with `full_state_dict` the first rank alone gets anything.
        ignore_frozen_params: leave out parameters that are not trained.
        keep_submodule_prefixes: names of `submodules` begin with theirs.
        strict: names that are missing, or too many, are errors.
        broadcast_from_rank0: the first rank has whole tensors, and gives them to all.
        flatten_optimizer_state_dict: one flat dict, with names such as `state.weight.exp_avg`.
        dsd_fqn_modifiers: taken; no module here renames what is in it.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"

    def __post_init__(self) -> None:
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("broadcast_from_rank0=True wants full_state_dict=True.")


def _plain(model: Module, name: str) -> str:
    """A name of the model's state dict without what wrappers have put in it."""
    kept = []
    inner: Any = model
    for part in name.split("."):
        if isinstance(inner, FullyShardedDataParallel) and part not in _WRAPPERS:
            inner = inner.module  # which its state dict leaves out already
        of_wrapper = part in _WRAPPERS or (
            part == "module" and isinstance(inner, DistributedDataParallel)
        )
        if not of_wrapper:
            kept.append(part)
        inner = inner._modules.get(part) if isinstance(inner, Module) else None
    return ".".join(kept)


def _parts_only(model: Module) -> ExitStack:
    """Have sharded modules show their parts."""
    for module in model.modules():
        if (state := state_of(module)) is not None:
            state.group.give_back()
    stack = ExitStack()
    if any(isinstance(one, FullyShardedDataParallel) for one in model.modules()):
        kind = StateDictType.SHARDED_STATE_DICT
        stack.enter_context(FullyShardedDataParallel.state_dict_type(model, kind))
    return stack


def _names(model: Module) -> dict[int, str]:
    """What each parameter is called, by its id."""
    names = {}
    for name, parameter in model.named_parameters():
        names[id(parameter)] = _plain(model, name)
    return names


def _frozen(model: Module) -> set[str]:
    return {_plain(model, name) for name, p in model.named_parameters() if not p.requires_grad}


def _shown(options: StateDictOptions) -> Callable[[Any], Any]:
    """What is given for a tensor."""

    def shown(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if options.full_state_dict and isinstance(value, DTensor):
            value = value.full_tensor()
        return value.cpu() if options.cpu_offload and value.device.type != "cpu" else value

    return shown


def _is_left_out(options: StateDictOptions) -> bool:
    only_first = options.full_state_dict and options.cpu_offload
    return only_first and is_initialized() and get_rank() != 0


def get_model_state_dict(
    model: Module,
    *,
    submodules: Iterable[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The model's state, by names that no wrapper is in.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.state_dict import get_model_state_dict
    >>> model = torch.compile(torch.nn.Linear(1, 1))
    >>> list(get_model_state_dict(model))
    ['weight', 'bias']
    """
    options = options or StateDictOptions()
    with no_grad(), _parts_only(model):
        found = {_plain(model, name): value for name, value in model.state_dict().items()}
        if options.ignore_frozen_params:
            found = {name: found[name] for name in found.keys() - _frozen(model)}
        if submodules is not None:
            found = _below(model, set(submodules), found, options.keep_submodule_prefixes)
        shown = _shown(options)
        made = {name: shown(value) for name, value in found.items()}
    return {} if _is_left_out(options) else made


def _below(model: Module, chosen: set[Module], found: dict[str, Any], keep: bool) -> dict[str, Any]:
    made = {}
    for path, module in model.named_modules():
        prefix = _plain(model, path) + "."
        for name, value in found.items():
            if module in chosen and name.startswith(prefix):
                made[name if keep else name.removeprefix(prefix)] = value
    return made


def get_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Iterable[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:
    """The state of optimizers, by names of parameters. One that has none yet gets an empty one.

    That of a `ZeroRedundancyOptimizer` is each rank's share: a checkpoint has all of them.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> model = torch.nn.Linear(1, 1)
    >>> state = get_optimizer_state_dict(model, torch.optim.Adam(model.parameters()))
    >>> list(state["state"]), state["param_groups"][0]["params"]
    (['weight', 'bias'], ['weight', 'bias'])
    """
    options = options or StateDictOptions()
    with no_grad(), _parts_only(model):
        names, shown = _names(model), _shown(options)
        left_out = _frozen(model) if options.ignore_frozen_params else set()
        if submodules is not None:
            meant = {id(p) for module in submodules for p in module.parameters()}
            left_out |= {name for place, name in names.items() if place not in meant}
        made: dict[str, Any] = {"state": {}, "param_groups": []}
        for optimizer in _listed(optimizers):
            ready(optimizer)
            state, groups = state_of_optimizer(optimizer, names)
            for name in state.keys() - left_out:
                made["state"][name] = {key: shown(value) for key, value in state[name].items()}
            for group in groups:
                kept = [name for name in group["params"] if name not in left_out]
                made["param_groups"].append({**group, "params": kept})
        order = {name: place for place, name in enumerate(names.values())}
        made["state"] = dict(sorted(made["state"].items(), key=lambda one: order[one[0]]))
    if _is_left_out(options):
        return {}
    return flattened(made) if options.flatten_optimizer_state_dict else made


def _listed(optimizers: Optimizer | Iterable[Optimizer]) -> tuple[Optimizer, ...]:
    return (optimizers,) if isinstance(optimizers, Optimizer) else tuple(optimizers)


def get_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    submodules: Iterable[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and of its optimizers, to be saved, or to be filled by `load`.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.state_dict import get_state_dict
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> [list(one) for one in get_state_dict(model, optimizer)]
    [['weight', 'bias'], ['state', 'param_groups']]
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def _from_first(state: Any, options: StateDictOptions) -> Any:
    """What the first rank has, on all of them."""
    if not options.broadcast_from_rank0 or not is_initialized():
        return state
    sent = [state if get_rank() == 0 else None]
    broadcast_object_list(sent, src=0)
    return sent[0]


def _fitting(value: Any, target: Any) -> Any:
    """A whole tensor as the part of it that belongs where the target lies."""
    whole = isinstance(value, Tensor) and not isinstance(value, DTensor)
    if not whole or not isinstance(target, DTensor) or value.shape != target.shape:
        return value
    mesh, where = target.device_mesh, target.placements
    return DTensor(part_of(value, mesh, where), mesh, where, target.shape)


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Give the model what `get_model_state_dict` gave, whole or in parts.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.state_dict import set_model_state_dict
    >>> model = torch.compile(torch.nn.Linear(1, 1))
    >>> set_model_state_dict(model, {"weight": torch.ones(1, 1), "bias": torch.zeros(1)})
    <All keys matched successfully>
    """
    options = options or StateDictOptions()
    with no_grad(), _parts_only(model):
        left = dict(_from_first(model_state_dict, options))
        taken = {}
        for name, target in model.state_dict().items():
            plain = _plain(model, name)
            if plain in left:
                taken[name] = _fitting(left.pop(plain), target)
        return model.load_state_dict({**taken, **left}, strict=options.strict)


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Give optimizers what `get_optimizer_state_dict` gave, whole, in parts, or flat.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.state_dict import *
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> state = get_optimizer_state_dict(model, optimizer)
    >>> state["param_groups"][0]["lr"] = 0.5
    >>> set_optimizer_state_dict(model, optimizer, state)
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """
    options = options or StateDictOptions()
    with no_grad(), _parts_only(model):
        given = _from_first(optim_state_dict, options)
        if "param_groups" not in given:
            given = unflattened(given)
        names = _names(model)
        for optimizer in _listed(optimizers):
            ready(optimizer)
            to_optimizer(optimizer, given, names, _fitting, strict=options.strict)


def set_state_dict(
    model: Module,
    optimizers: Optimizer | Iterable[Optimizer],
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Give a model and its optimizers what `get_state_dict` gave.

    >>> import pullback as torch
    >>> from pullback.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    >>> model = torch.nn.Linear(1, 1)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> states = get_state_dict(model, optimizer)
    >>> set_state_dict(model, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
    <All keys matched successfully>
    """
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


# torch's name; libraries that write states in a format of their own import it.
_init_optim_state = ready

__dir__ = _only_public(globals())
