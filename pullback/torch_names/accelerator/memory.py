"""Memory of the accelerator: everything here needs one."""

from __future__ import annotations

from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("empty_cache", "empty_host_cache", "get_memory_info", "max_memory_allocated"),
    *("max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats"),
    *("reset_accumulated_memory_stats", "reset_peak_memory_stats"),
]

globals().update(Kind("accelerator", RuntimeError).refusals(" ".join(__all__)))

__dir__ = _only_public(globals())
