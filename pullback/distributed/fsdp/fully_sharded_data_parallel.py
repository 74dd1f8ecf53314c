"""`FullyShardedDataParallel`: the class that came before `fully_shard`, around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pullback.autograd.grad_mode import no_grad
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.device_mesh import DeviceMesh, init_device_mesh
from pullback.distributed.fsdp import api
from pullback.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    MixedPrecision,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from pullback.distributed.fsdp.fully_shard import fully_shard
from pullback.distributed.fsdp.optimizer_states import (
    OptimizerStates,
    loadable_state,
    names_by_number,
    shown_state,
)
from pullback.distributed.fsdp.policies import MixedPrecisionPolicy
from pullback.distributed.fsdp.state import ShardedState, state_of
from pullback.distributed.fsdp.wrap import chosen
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.world import get_rank, get_world_size, group_of
from pullback.nn.modules.module import Module
from pullback.nn.utils.clip_grad import clip_grad_norm_

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "FullyShardedDataParallel",
    "MixedPrecision",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictType",
]

_INNER = "_fsdp_wrapped_module"
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEEP_WHOLE = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


class FullyShardedDataParallel(OptimizerStates, Module):
    """Wraps a module of which each rank then keeps a part.

    `auto_wrap_policy` says which parts of it are gathered by themselves. Parameters are those of
    `use_orig_params=True`, one for each of the module's.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.fsdp import FullyShardedDataParallel
    >>> def train():
    ...     model = FullyShardedDataParallel(torch.nn.Linear(2, 2))
    ...     model(torch.ones(1, 2)).sum().backward()
    ...     return model.state_dict()["weight"].shape
    >>> dist.threads.run(train, 2)
    [torch.Size([2, 2]), torch.Size([2, 2])]
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Any = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Any = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = device_mesh or _mesh(process_group, strategy)
        ignored = {inner for one in ignored_modules or () for inner in one.modules()}
        left_out = {p for one in ignored for p in one.parameters()}
        left_out |= {p for one in ignored_states or () for p in _parameters_of(one)}
        options: dict[str, Any] = {"mesh": mesh, "ignored_params": left_out}
        if mixed_precision is not None:
            options["mp_policy"] = MixedPrecisionPolicy(
                mixed_precision.param_dtype,
                mixed_precision.reduce_dtype,
                cast_forward_inputs=mixed_precision.cast_root_forward_inputs,
            )
            if mixed_precision.buffer_dtype is not None:
                for buffer in module.buffers():
                    if buffer.is_floating_point():
                        buffer.data = buffer.data.to(mixed_precision.buffer_dtype)
        keeps_whole = strategy in _KEEP_WHOLE
        if auto_wrap_policy is not None:
            for part in chosen(module, auto_wrap_policy, ignored):
                if state_of(part) is None:
                    fully_shard(part, reshard_after_forward=not keeps_whole, **options)
        fully_shard(module, reshard_after_forward=False if keeps_whole else None, **options)
        setattr(self, _INNER, module)
        self._settings = StateDictSettings()
        self.register_load_state_dict_pre_hook(_with_prefix)

    @property
    def module(self) -> Module:
        """The wrapped module."""
        found: Module = getattr(self, _INNER)
        return found

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _INNER:
                raise
            return getattr(self.module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped module."""
        return self.module(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Parameters, by their names in the module that was wrapped."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_INNER}.", ""), parameter

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward passes keep whole gradients, which the next one outside reduces."""
        model: Any = self.module
        model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            model.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale gradients down to a total norm; what it was."""
        total = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return total.full_tensor() if isinstance(total, DTensor) else total

    # ------------------------------------------------------------------ states

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Whole tensors, or parts, as `state_dict_type` says; names as in the wrapped module."""
        found = super().state_dict(*args, **kwargs)
        settings = self._settings
        if settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError("state_dict: there are full and sharded ones, no local ones.")
        whole = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        only_first = whole and getattr(settings.state_dict_config, "rank0_only", False)
        for name in list(found):
            value = found.pop(name)
            value = value.full_tensor() if whole and isinstance(value, DTensor) else value
            if not only_first or get_rank() == 0:
                found[name.replace(f"{_INNER}.", "")] = value
        return found

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> StateDictSettings:
        """Say what state dicts of the models in a module are; what was said before."""
        whole = state_dict_type is StateDictType.FULL_STATE_DICT
        fresh = StateDictSettings(
            state_dict_type,
            state_dict_config or (FullStateDictConfig if whole else ShardedStateDictConfig)(),
            optim_state_dict_config
            or (FullOptimStateDictConfig if whole else ShardedOptimStateDictConfig)(),
        )
        before = StateDictSettings()
        for one in module.modules():
            if isinstance(one, FullyShardedDataParallel):
                before, one._settings = one._settings, fresh
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """What state dicts of the models in a module are."""
        found = [
            one._settings for one in module.modules() if isinstance(one, FullyShardedDataParallel)
        ]
        if any(one != found[0] for one in found):
            raise RuntimeError("get_state_dict_type: the models in this module differ in it.")
        return found[0] if found else StateDictSettings()

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: Any = None,
        optim_state_dict_config: Any = None,
    ) -> Iterator[None]:
        """The same for a while."""
        known = FullyShardedDataParallel
        before = known.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            known.set_state_dict_type(
                module,
                before.state_dict_type,
                before.state_dict_config,
                before.optim_state_dict_config,
            )

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Inside, parameters are whole; what is written to them counts, unless told otherwise."""
        if with_grads:
            raise NotImplementedError("summon_full_params: gradients stay parts.")
        root = module.module if isinstance(module, FullyShardedDataParallel) else module
        states = [s for m in (root.modules() if recurse else [root]) if (s := state_of(m))]
        with ExitStack() as back:
            for state in states:
                state.group.gather()
                back.callback(_put_back, state, writeback=writeback)
            yield

    @staticmethod
    def optim_state_dict(
        model: Module, optim: Any, optim_state_dict: dict[str, Any] | None = None, group: Any = None
    ) -> dict[str, Any]:
        """The optimizer's state by names of parameters; whole where `state_dict_type` says so."""
        given = optim.state_dict() if optim_state_dict is None else optim_state_dict
        whole = _settings_of(model).state_dict_type is StateDictType.FULL_STATE_DICT
        return shown_state(model, optim, given, whole=whole)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """What `optim_state_dict` gave, as this rank's `optimizer.load_state_dict` takes it."""
        found = loadable_state(model, names_by_number(model, optim), optim_state_dict)
        if load_directly:
            optim.load_state_dict(found)
        return found

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The models of this class in a module; with `root_only` those in no other of them.

        Parts that `auto_wrap_policy` chose are sharded by themselves, and are of their own class.
        """
        every = [one for one in module.modules() if isinstance(one, FullyShardedDataParallel)]
        inner = {id(below) for one in every for below in one.modules() if below is not one}
        return [one for one in every if not root_only or id(one) not in inner]


def _mesh(process_group: Any, strategy: ShardingStrategy) -> DeviceMesh:
    if isinstance(process_group, tuple):  # who shards, who replicates
        shards, replicas = (group_of(one) for one in process_group)
        if shards is None or replicas is None:
            raise ValueError("FullyShardedDataParallel: this rank is not in its groups.")
        size = shards.size()
        grid = [list(range(k * size, (k + 1) * size)) for k in range(replicas.size())]
        return DeviceMesh.from_group([replicas, shards], "cpu", grid)
    if strategy in _HYBRID:
        raise ValueError("A hybrid strategy needs device_mesh, or two process groups.")
    if process_group is not None:
        known = group_of(process_group)
        return DeviceMesh.from_group(known, "cpu")
    if strategy is ShardingStrategy.NO_SHARD:
        return init_device_mesh("cpu", (get_world_size(), 1))
    return init_device_mesh("cpu", (get_world_size(),))


def _parameters_of(state: Any) -> list[Tensor]:
    return list(state.parameters()) if isinstance(state, Module) else [state]


def _with_prefix(module: Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Names of the wrapped module, as they are inside this one."""
    for name in list(state):
        if name.startswith(prefix) and not name.startswith(f"{prefix}{_INNER}."):
            state[f"{prefix}{_INNER}.{name.removeprefix(prefix)}"] = state.pop(name)


def _put_back(state: ShardedState, *, writeback: bool) -> None:
    group = state.group
    if writeback:
        with no_grad():
            for one in group.parameters:
                one.sharded._local_tensor.copy_(one.whole.detach()[one.own])
    group.give_back()


def _settings_of(model: Module) -> StateDictSettings:
    for one in model.modules():
        if isinstance(one, FullyShardedDataParallel):
            return one._settings
    return StateDictSettings(StateDictType.SHARDED_STATE_DICT, api.ShardedStateDictConfig())


__dir__ = _only_public(globals())
