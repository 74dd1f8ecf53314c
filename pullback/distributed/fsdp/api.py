"""`torch.distributed.fsdp.api`: what `FullyShardedDataParallel` may be told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from pullback.core.listing import only_public as _only_public

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "OptimStateKeyType",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(Enum):
    """What is sharded: all, all but parameters between forward and backward, or nothing."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are gathered in backward. Taken: far ranks always gather early."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What `state_dict()` gives: whole tensors, or parts."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """By what parameters are called in an optimizer's state."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """In which dtypes modules compute, and gradients and buffers are."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass
class CPUOffload:
    """Taken: parts lie in main memory anyway."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """How state dicts are made."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors, on all ranks or on the first alone."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """What each rank has."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Parts, as DTensors."""

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig:
    """How state dicts of optimizers are made."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors, on all ranks or on the first alone."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """What each rank has."""


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Parts, as DTensors."""

    _use_dtensor: bool = True


@dataclass
class StateDictSettings:
    """What holds for a model's state dicts now."""

    state_dict_type: StateDictType = StateDictType.FULL_STATE_DICT
    state_dict_config: Any = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: Any = field(default_factory=FullOptimStateDictConfig)


__dir__ = _only_public(globals())
