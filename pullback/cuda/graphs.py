"""Captured sequences of GPU work: nothing to capture without a device."""

from __future__ import annotations

from typing import Any

from pullback.accelerator.found import Kind
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing"),
    *("make_graphed_callables",),
]

_kind = Kind("cuda")
CUDAGraph: Any = _kind.refusing_class("CUDAGraph", __name__, RuntimeError)
graph: Any = _kind.refusing_class("graph", __name__, RuntimeError)
globals().update(
    _kind.refusals(
        "graph_pool_handle is_current_stream_capturing make_graphed_callables", RuntimeError
    )
)

__dir__ = _only_public(globals())
