"""`torch.distributed.tensor`: tensors that lie over the ranks of a mesh.

`placement_types` say how, `layouts` moves parts between ranks, `dtensor` is the class and
`dispatch` what operators do with it, by `rules/`; `parallel/` shares out a module's matrices.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.distributed.device_mesh import DeviceMesh, init_device_mesh
from pullback.distributed.tensor.distribute import distribute_module
from pullback.distributed.tensor.dtensor import DTensor, distribute_tensor
from pullback.distributed.tensor.factories import empty, full, ones, rand, randn, zeros
from pullback.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

_PARTS = {  # which load when they are asked for
    "debug": f"{__name__}.debug",
    "device_mesh": "pullback.distributed.device_mesh",
    "experimental": f"{__name__}.experimental",
    "parallel": f"{__name__}.parallel",
}


def __getattr__(name: str) -> _Any:
    if name in _PARTS:
        return _import_module(_PARTS[name])
    raise _absent(__name__, name)


__all__: list[str] = _defined(globals())
__dir__ = _only_public(globals())
