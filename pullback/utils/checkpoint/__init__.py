"""Trading time for memory: what a function saves for backward is recomputed when needed.

| file | what |
|---|---|
| `entry` | checkpoint(), checkpoint_sequential() |
| `nonreentrant`, `frames` | the variant on an ordinary graph |
| `reentrant` | the variant with a backward inside backward |
| `states`, `settings`, `groups`, `debug` | random numbers, overrides, shared re-runs, logs |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.utils.checkpoint.entry import checkpoint, checkpoint_sequential
from pullback.utils.checkpoint.errors import CheckpointError
from pullback.utils.checkpoint.groups import GraphExecGroup
from pullback.utils.checkpoint.reentrant import (
    CheckpointFunction,
    check_backward_validity,
    detach_variable,
)
from pullback.utils.checkpoint.settings import (
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)
from pullback.utils.checkpoint.states import DefaultDeviceType, get_device_states, set_device_states

if TYPE_CHECKING:
    from pullback.utils.selective_checkpoint import (
        SAC_IGNORED_OPS,
        CheckpointPolicy,
        SelectiveCheckpointContext,
        create_selective_checkpoint_contexts,
    )

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

# Policies name operators, which takes the library of their overloads: loaded when asked for.
_SELECTIVE = (
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "_CachedTorchDispatchMode",
    "_CachingTorchDispatchMode",
    "create_selective_checkpoint_contexts",
)


def __getattr__(name: str) -> Any:
    if name not in _SELECTIVE:
        raise absent(__name__, name)
    return getattr(import_module("pullback.utils.selective_checkpoint"), name)


__dir__ = _only_public(globals())
