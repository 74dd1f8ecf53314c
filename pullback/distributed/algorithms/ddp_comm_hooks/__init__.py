"""Hooks for `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from enum import Enum as _Enum
from functools import partial as _partial
from typing import Any as _Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)

__all__: list[str] = ["DDPCommHookType", "register_ddp_comm_hook"]


class DDPCommHookType(_Enum):
    """The hooks, by name.

    >>> from pullback.distributed.algorithms.ddp_comm_hooks import DDPCommHookType
    >>> DDPCommHookType.FP16_COMPRESS.value.func.__name__
    'fp16_compress_hook'
    """

    ALLREDUCE = _partial(default_hooks.allreduce_hook)
    FP16_COMPRESS = _partial(default_hooks.fp16_compress_hook)
    BF16_COMPRESS = _partial(default_hooks.bf16_compress_hook)
    POWER_SGD = _partial(powerSGD_hook.powerSGD_hook)
    NOOP = _partial(debugging_hooks.noop_hook)
    POST_LOCAL_SGD = _partial(post_localSGD_hook.post_localSGD_hook)


def register_ddp_comm_hook(
    comm_hook_type: DDPCommHookType, model: _Any, state: _Any = None
) -> None:
    """Register a hook, by name, for a model.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.algorithms import ddp_comm_hooks as hooks
    >>> def average():
    ...     model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    ...     hooks.register_ddp_comm_hook(hooks.DDPCommHookType.ALLREDUCE, model)
    ...     model(torch.tensor([[dist.get_rank() + 1.0]])).sum().backward()
    ...     return model.module.weight.grad.item()
    >>> dist.threads.run(average, 2)
    [1.5, 1.5]
    """
    hook = comm_hook_type.value.func
    model.register_comm_hook(state, hook)


__dir__ = _only_public(globals(), "debugging_hooks default_hooks post_localSGD_hook powerSGD_hook")
