"""Torch's modules for models larger than a machine, of which only the names are here.

Libraries import them to ask `isinstance(p, DTensor)` long before anybody has such a tensor. The
names are classes and functions that refuse, for the reason in `core/explain/absent.txt`; placements
and meshes alone are what they are in torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from pullback.core.explain.absent import all_refusing
from pullback.distributed import placements

__all__ = ["MODULES", "add"]

# Packages before what is in them.
MODULES = {
    "tensor": """
        DTensor distribute_module distribute_tensor empty full ones rand randn zeros
    """,
    "tensor._utils": "compute_local_shape_and_global_offset",
    "tensor.device_mesh": "",
    "tensor.experimental": "context_parallel implicit_replication local_map register_sharding",
    "tensor.parallel": """
        ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput
        PrepareModuleOutput RowwiseParallel SequenceParallel loss_parallel parallelize_module
    """,
    "tensor.parallel.style": """
        ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput
        PrepareModuleOutput RowwiseParallel SequenceParallel
    """,
    "tensor.placement_types": "DTensorSpec TensorMeta _StridedShard",
    "_tensor": "DTensor distribute_tensor",
    "_tensor.api": "DTensor distribute_module distribute_tensor",
    "_tensor.device_mesh": "",
    "_tensor.experimental": "context_parallel implicit_replication local_map register_sharding",
    "_tensor.placement_types": "DTensorSpec TensorMeta",
    "fsdp": """
        BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FullOptimStateDictConfig
        FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig
        MixedPrecision MixedPrecisionPolicy OffloadPolicy OptimStateDictConfig OptimStateKeyType
        ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictConfig
        StateDictSettings StateDictType UnshardHandle fully_shard register_fsdp_forward_method
    """,
    "fsdp.api": """
        BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig MixedPrecision
        ShardedOptimStateDictConfig ShardedStateDictConfig ShardingStrategy StateDictType
    """,
    "fsdp.fully_sharded_data_parallel": """
        BackwardPrefetch CPUOffload FullOptimStateDictConfig FullStateDictConfig
        FullyShardedDataParallel MixedPrecision ShardedOptimStateDictConfig ShardedStateDictConfig
        ShardingStrategy StateDictType
    """,
    "fsdp.sharded_grad_scaler": "ShardedGradScaler",
    "fsdp.wrap": """
        CustomPolicy ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy
        size_based_auto_wrap_policy transformer_auto_wrap_policy wrap
    """,
    "checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "checkpoint.state_dict": """
        StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict
        set_model_state_dict set_optimizer_state_dict set_state_dict
    """,
    "_composable": "contract replicate",
    "_composable.fsdp": "FSDPModule MixedPrecisionPolicy OffloadPolicy fully_shard",
    "pipelining": "PipelineStage Schedule1F1B ScheduleGPipe SplitPoint pipe_split pipeline",
}
_WITH_MESHES = ("tensor", "tensor.device_mesh", "_tensor", "_tensor.device_mesh")
_WITH_PLACEMENTS = ("tensor", "tensor.placement_types", "_tensor", "_tensor.placement_types")


def add(package: str) -> None:
    """Put these modules below a package, where import finds them."""
    for name, listed in MODULES.items():
        path = f"{package}.{name}"
        module = ModuleType(path, f"`torch.distributed.{name}`: not here; its names refuse.")
        holds = any(other.startswith(f"{name}.") for other in MODULES)
        module.__spec__ = ModuleSpec(path, None, is_package=holds)
        if holds:
            module.__path__ = []
        refused = all_refusing(path, tuple(listed.split()))
        module.__dict__["__getattr__"] = _with_meshes(refused) if name in _WITH_MESHES else refused
        if name in _WITH_PLACEMENTS:
            module.__dict__.update({kind: getattr(placements, kind) for kind in placements.__all__})
        sys.modules[path] = module
        above, _, last = path.rpartition(".")
        if above in sys.modules:  # `checkpoint`, which is here, loads later
            setattr(sys.modules[above], last, module)


def _with_meshes(refused: Callable[[str], Any]) -> Callable[[str], Any]:
    """Meshes, which load when asked for, before what is refused."""

    def found(name: str) -> Any:
        if name in ("DeviceMesh", "init_device_mesh"):
            return getattr(import_module("pullback.distributed.device_mesh"), name)
        return refused(name)

    return found
