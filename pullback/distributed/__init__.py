"""Distributed: collectives, data parallelism and distributed autograd, across processes.

`engines` carry numbers between ranks; `collectives` put torch's names on them; `ddp` averages
gradients; `rpc` and `autograd` follow gradients through remote calls. Loading this package loads no
engine.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.distributed.backend import *
from pullback.distributed.coalescing import _coalescing_manager
from pullback.distributed.collectives import *
from pullback.distributed.constants import default_pg_timeout
from pullback.distributed.debug_levels import *
from pullback.distributed.errors import *
from pullback.distributed.group import ProcessGroup, ProcessGroupGloo, Work
from pullback.distributed.groups import *
from pullback.distributed.messages import *
from pullback.distributed.not_here import add as _add_not_here
from pullback.distributed.objects import *
from pullback.distributed.options import *
from pullback.distributed.reduction import ReduceOp, _make_nccl_premul_sum
from pullback.distributed.rendezvous import register_rendezvous_handler, rendezvous
from pullback.distributed.store import *
from pullback.distributed.world import *

_PARTS = (
    *(
        "_functional_collectives",
        "algorithms",
        "autograd",
        "checkpoint",
        "ddp",
        "device_mesh",
        "fsdp",
    ),
    *("distributed_c10d", "launch", "nn", "optim", "pipelining", "ray", "rpc", "run"),
    *("simulate", "tensor", "threads"),
)
_ELSEWHERE = {
    "GradBucket": "ddp.buckets",
    "DeviceMesh": "device_mesh",
    "init_device_mesh": "device_mesh",
}

_add_not_here(__name__)


def __getattr__(name: str) -> _Any:
    if name in _PARTS:
        return _import_module(f"pullback.distributed.{name}")
    if name in _ELSEWHERE:
        return getattr(_import_module(f"pullback.distributed.{_ELSEWHERE[name]}"), name)
    raise _absent(__name__, name)


__all__: list[str] = _defined(globals())
__dir__ = _only_public(
    globals(),
    "DeviceMesh GradBucket algorithms autograd checkpoint device_mesh distributed_c10d "
    "init_device_mesh launch nn optim rpc run ",
)
