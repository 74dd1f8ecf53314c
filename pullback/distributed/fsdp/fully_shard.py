"""`fully_shard`: each rank keeps a part of a module's parameters, gradients and optimizer state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

from pullback.core.tensor import Tensor
from pullback.distributed.device_mesh import DeviceMesh, Line, init_device_mesh
from pullback.distributed.fsdp.groups import ParameterGroup
from pullback.distributed.fsdp.parameters import OWN, Place, ShardedParameter
from pullback.distributed.fsdp.policies import MixedPrecisionPolicy, OffloadPolicy
from pullback.distributed.fsdp.state import ShardedState, state_of
from pullback.distributed.group import ProcessGroup
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.layouts import same_everywhere
from pullback.distributed.tensor.placement_types import Shard
from pullback.distributed.world import get_world_size, init_process_group, is_initialized
from pullback.nn.modules.module import Module

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method"]


class UnshardHandle:
    """A gathering under way."""

    def __init__(self, group: ParameterGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Have the parameters whole."""
        if self._group is not None:
            self._group.gather()
            self._group = None


class FSDPModule:
    """What a module is besides, once `fully_shard` was called for it."""

    def _states(self, recurse: bool) -> Iterator[ShardedState]:
        assert isinstance(self, Module)
        every = (state_of(module) for module in (self.modules() if recurse else [self]))
        yield from dict.fromkeys(state for state in every if state is not None)

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Have the parameters whole, until `reshard()` or the end of a backward pass."""
        (state,) = self._states(recurse=False)
        state.group.begin_gathering(later=async_op)
        handle = UnshardHandle(state.group)
        if async_op:
            return handle
        handle.wait()
        return None

    def reshard(self) -> None:
        """Have parts alone."""
        (state,) = self._states(recurse=False)
        state.group.give_back()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: bool, *, recurse: bool = True
    ) -> None:
        """Whether backward passes reduce gradients; if not, whole ones wait for one that does."""
        for state in self._states(recurse):
            state.group.syncs = requires_gradient_sync

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Taken; what is under way is waited for in every pass."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are reduced over replicas too; if not, a later pass does it."""
        for state in self._states(recurse):
            state.group.reduces_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are given back between forward and backward."""
        for state in self._states(recurse):
            state.reshards_after_forward = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether parameters are given back after backward."""
        for state in self._states(recurse):
            state.reshards_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Which modules are gathered while this one's forward runs."""
        (state,) = self._states(recurse=False)
        state.next_forward = [s for m in modules for s in m._states(recurse=False)]

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Which modules are gathered while this one's backward runs."""
        (state,) = self._states(recurse=False)
        state.next_backward = [s for m in modules for s in m._states(recurse=False)]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """By what sums of gradients are divided, instead of by the number of ranks."""
        (state,) = self._states(recurse=False)
        state.group.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Taken; parameters are gathered all the same."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Taken; all reductions are sums."""


_classes: dict[type, type] = {}


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Any = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
) -> Any:
    """Let each rank keep a part of the module's parameters; they are gathered when they are used.

    Call it for the parts of a model that run one after the other, then for the model: each call
    takes the parameters that are not sharded yet. Ranks begin with the first rank's values. A mesh
    of two dimensions shards over the second and replicates over the first. Modules in a list are
    one group: gathered when the first is called, given back when all have run.

    `reshard_after_forward` may be a number of ranks: between forward and backward wholes are
    shared out among so many neighbours, who gather them again among themselves. With
    `shard_placement_fn` parameters are cut along other dimensions than rows, in equal parts.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.fsdp import fully_shard
    >>> def train():
    ...     model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Linear(4, 1))
    ...     for part in (*model, model):
    ...         fully_shard(part)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ...     model(torch.ones(1, 2)).sum().backward()
    ...     optimizer.step()
    ...     return model[0].weight.to_local().shape
    >>> dist.threads.run(train, 2)
    [torch.Size([2, 2]), torch.Size([2, 2])]
    """
    modules = _outermost(module) if isinstance(module, (list, tuple)) else [module]
    for one in modules:
        if state_of(one) is not None:
            raise ValueError(f"fully_shard was called for this {type(one).__name__} already.")
    if mesh is None:
        if not is_initialized():
            init_process_group()
        mesh = init_device_mesh("cpu", (get_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard takes a mesh of one dimension or two, got {mesh}.")
    reshard_after_forward, near = _between(reshard_after_forward, mesh)
    policy = mp_policy or MixedPrecisionPolicy()
    parameters = [
        ShardedParameter(
            *(name, _equal(tensor, mesh), places, mesh, policy.param_dtype),
            dim=_dim_of(name, tensor, shard_placement_fn),
        )
        for name, tensor, places in _unsharded(modules, mesh, ignored_params or set())
    ]
    group = ParameterGroup(parameters, mesh, policy, near)
    state = ShardedState(modules, group, reshard_after_forward)
    for one in modules:
        vars(one)["_fsdp_state"] = state
        before = type(one)
        if before not in _classes:
            _classes[before] = type(f"FSDP{before.__name__}", (FSDPModule, before), {})
        one.__class__ = _classes[before]
    return module


def _outermost(modules: Sequence[Module]) -> list[Module]:
    """Modules of a list that are in no other of it: these have all the parameters."""
    if not modules:
        raise ValueError("fully_shard: the list of modules is empty.")
    inner = {id(below) for one in modules for below in one.modules() if below is not one}
    found = [one for one in modules if id(one) not in inner]
    if len({id(one) for one in found}) != len(found):
        raise ValueError("fully_shard: a module is twice in the list.")
    return found


def _dim_of(name: str, tensor: Tensor, choose: Any) -> int:
    """Along which dimension a parameter is shared out: by rows, unless the user says otherwise."""
    placement = None if choose is None else choose(tensor)
    if placement is None:
        return 0
    if not isinstance(placement, Shard) or not -tensor.ndim <= placement.dim < tensor.ndim:
        raise ValueError(
            f"fully_shard: shard_placement_fn gives None or Shard(dim) of a dimension that the "
            f"parameter has; for {name} of shape {tuple(tensor.shape)} it gave {placement!r}."
        )
    return placement.dim % tensor.ndim


def _between(
    reshard: bool | int | None, mesh: DeviceMesh
) -> tuple[bool | None, ProcessGroup | None]:
    """Whether parameters are given back after forward, and the ranks that then keep pieces."""
    if reshard is None or isinstance(reshard, bool):
        return reshard, None
    ranks = mesh.size(-1)
    if not isinstance(reshard, int) or reshard < 1 or ranks % reshard:
        raise ValueError(
            f"fully_shard: reshard_after_forward is a bool, or a number of ranks that divides the "
            f"{ranks} ranks of the mesh; got {reshard!r}."
        )
    if reshard in (1, ranks):
        return reshard != 1, None
    line = mesh._lines[-1]
    if len(line.steps) > 1:
        raise NotImplementedError(
            "fully_shard: ranks of a dimension that several were flattened to are not parted; "
            "reshard_after_forward is a bool for such a mesh."
        )
    shards = mesh.get_group(mesh.ndim - 1)
    known: dict[int, Any] = vars(shards).setdefault("_near_ranks", {})
    if reshard not in known:
        near = Line([(reshard, line.steps[0][1])])
        known[reshard] = mesh._root._group_along(near, f"near_{reshard}")
    return True, known[reshard]


def _equal(tensor: Tensor, mesh: DeviceMesh) -> Tensor:
    if tensor.device.type == "meta":
        return tensor
    made: Tensor
    if isinstance(tensor, DTensor):
        local = same_everywhere(tensor._local_tensor, mesh)
        made = DTensor(local, tensor.device_mesh, tensor.placements, tuple(tensor.shape))
    else:
        made = same_everywhere(tensor, mesh)
    made.requires_grad_(tensor.requires_grad)
    vars(made).update({k: v for k, v in vars(tensor).items() if k not in OWN})
    return made


def _unsharded(
    modules: Sequence[Module], mesh: DeviceMesh, ignored: set[Any]
) -> list[tuple[str, Tensor, list[Place]]]:
    """Parameters that no call has taken yet, each with all the places where it is."""
    found: dict[int, tuple[str, Tensor, list[Place]]] = {}
    left_out = {id(one) for one in ignored}
    for number, module in enumerate(modules):
        above = [str(number)] if len(modules) > 1 else []
        for prefix, inner in module.named_modules():
            for name, tensor in inner._parameters.items():
                if tensor is None or _lies_over(tensor, mesh) or id(tensor) in left_out:
                    continue
                path = ".".join([*above, *([prefix] if prefix else []), name])
                found.setdefault(id(tensor), (path, tensor, []))[2].append((inner, name))
    return list(found.values())


def _lies_over(tensor: Tensor, mesh: DeviceMesh) -> bool:
    """Whether a parameter is sharded over this mesh already, and not over another alone."""
    if not isinstance(tensor, DTensor):
        return False
    shards = mesh._lines[-1].group
    return any(one.group is shards for one in tensor.device_mesh._lines)


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let another method than `forward` gather the parameters too.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.fsdp import fully_shard, register_fsdp_forward_method
    >>> class Twice(torch.nn.Linear):
    ...     def encode(self, x):
    ...         return 2 * self.forward(x)
    >>> def encoded():
    ...     model = fully_shard(Twice(2, 2))
    ...     register_fsdp_forward_method(model, "encode")
    ...     return model.encode(torch.ones(1, 2)).shape
    >>> dist.threads.run(encoded, 2)[0]
    torch.Size([1, 2])
    """
    state = state_of(module)
    if state is None:
        return
    before: Callable[..., Any] = getattr(module, method_name)

    @wraps(before)
    def method(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.before_forward(module, args, kwargs)
        return state.after_forward(module, args, before(*args, **kwargs))

    vars(module)[method_name] = method
