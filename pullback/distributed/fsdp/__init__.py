"""`torch.distributed.fsdp`: models of which each rank keeps a part.

`parameters` are parts and wholes, `groups` gather and reduce them, `state` says when; `fully_shard`
is what users call, and `fully_sharded_data_parallel` the older class around it.
"""

from __future__ import annotations

from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.distributed.fsdp.api import *
from pullback.distributed.fsdp.fully_shard import (
    FSDPModule,
    UnshardHandle,
    fully_shard,
    register_fsdp_forward_method,
)
from pullback.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel
from pullback.distributed.fsdp.policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__: list[str] = _defined(globals())
__dir__ = _only_public(globals())
