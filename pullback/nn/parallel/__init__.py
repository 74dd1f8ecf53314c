"""Modules on several devices: with one device, or none, they are simply called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public
from pullback.nn.parallel.data_parallel import DataParallel, data_parallel
from pullback.nn.parallel.parallel_apply import parallel_apply
from pullback.nn.parallel.replicate import replicate
from pullback.nn.parallel.scatter_gather import gather, scatter

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
]


def __getattr__(name: str) -> Any:
    if name in ("DistributedDataParallel", "distributed"):
        module = import_module("pullback.nn.parallel.distributed")
        return module if name == "distributed" else module.DistributedDataParallel
    raise absent(__name__, name)


__dir__ = _only_public(globals(), "scatter_gather")
