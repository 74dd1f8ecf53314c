"""Apple GPUs, under torch's names. There are none: questions get answers, work gets an error."""

from __future__ import annotations

from typing import Any

from pullback.backends import accelerators as _found
from pullback.core.listing import only_public as _only_public

from . import profiler as profiler

__all__ = [
    *("Event", "compile_shader", "current_allocated_memory", "device_count"),
    *("driver_allocated_memory", "empty_cache", "get_rng_state", "is_available", "load_metallib"),
    *("manual_seed", "profiler", "recommended_max_memory", "seed"),
    *("set_per_process_memory_fraction", "set_rng_state", "synchronize"),
]

_kind = _found.Kind("mps", RuntimeError)
is_available = _kind.is_available
device_count = _kind.device_count
manual_seed = _found.nothing
Event: Any = _kind.refusing_class("Event", __name__, RuntimeError)
globals().update(
    _kind.refusals(
        "compile_shader current_allocated_memory driver_allocated_memory empty_cache "
        "get_rng_state load_metallib recommended_max_memory seed set_per_process_memory_fraction "
        "set_rng_state synchronize"
    )
)

__dir__ = _only_public(globals(), "profiler")
