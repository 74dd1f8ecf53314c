"""Exchange among several CUDA devices: needs them."""

from __future__ import annotations

from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public

__all__ = [*("all_gather", "all_reduce", "broadcast", "reduce", "reduce_scatter")]

globals().update(Kind("cuda.nccl").refusals(" ".join(__all__)))

__dir__ = _only_public(globals())
