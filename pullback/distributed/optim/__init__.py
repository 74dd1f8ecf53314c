"""Optimizers across ranks."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import only_public as _only_public

_HOME = {
    "DistributedOptimizer": "remote",
    "PostLocalSGDOptimizer": "post_localSGD_optimizer",
    "ZeroRedundancyOptimizer": "zero_redundancy_optimizer",
}

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


def __getattr__(name: str) -> _Any:
    if name in _HOME:
        return getattr(_import_module(f"pullback.distributed.optim.{_HOME[name]}"), name)
    raise _absent(__name__, name)


__dir__ = _only_public(globals(), "post_localSGD_optimizer zero_redundancy_optimizer")
