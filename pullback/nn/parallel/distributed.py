"""`torch.nn.parallel.distributed`: where torch keeps DistributedDataParallel."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    # A layer above this one: found by name, when somebody asks.
    return getattr(import_module("pullback.distributed.ddp"), name)
