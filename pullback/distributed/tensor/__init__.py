"""`torch.distributed.tensor`: tensors that lie over the ranks of a mesh.

`placement_types` say how, `layouts` moves parts between ranks, `dtensor` is the class and
`dispatch` what operators do with it.
"""

from __future__ import annotations

import sys as _sys
from typing import Any as _Any

from pullback.core.explain.absent import all_refusing as _all_refusing
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.distributed.device_mesh import DeviceMesh, init_device_mesh
from pullback.distributed.tensor.dtensor import DTensor, distribute_tensor
from pullback.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

_NOT_YET = ("distribute_module", "empty", "full", "ones", "rand", "randn", "zeros")


def __getattr__(name: str) -> _Any:
    beside = _sys.modules.get(f"{__name__}.{name}")  # of those that only refuse
    return beside if beside is not None else _all_refusing(__name__, _NOT_YET)(name)


__all__: list[str] = _defined(globals())
__dir__ = _only_public(globals())
