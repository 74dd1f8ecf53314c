"""Exchange among several CUDA devices: needs them."""

from __future__ import annotations

from pullback.backends.accelerators import Kind

__all__ = [
    *("broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced"),
    *("scatter",),
]

globals().update(Kind("cuda.comm").refusals(" ".join(__all__)))
