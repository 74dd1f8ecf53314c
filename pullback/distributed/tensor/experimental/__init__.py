"""`torch.distributed.tensor.experimental`: functions on parts, attention over long sequences."""

from __future__ import annotations

from typing import Any as _Any

from pullback.core.explain.absent import all_refusing as _all_refusing
from pullback.distributed.tensor.experimental._attention import context_parallel
from pullback.distributed.tensor.experimental.local_map import local_map
from pullback.distributed.tensor.implicit import implicit_replication

__all__ = ["context_parallel", "implicit_replication", "local_map"]


def __getattr__(name: str) -> _Any:
    return _all_refusing(__name__, ("register_sharding",))(name)
