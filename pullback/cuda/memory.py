"""Memory of CUDA devices: nothing in use where there is no device."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from pullback.accelerator.found import Kind, nothing, zero
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete"),
    *("caching_allocator_enable", "change_current_allocator", "empty_cache"),
    *("get_allocator_backend", "get_per_process_memory_fraction", "host_memory_stats"),
    *("host_memory_stats_as_nested_dict", "list_gpu_processes", "max_memory_allocated"),
    *("max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated"),
    *("memory_cached", "memory_reserved", "memory_snapshot", "memory_stats"),
    *("memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_host_memory_stats"),
    *("reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached"),
    *("reset_peak_host_memory_stats", "reset_peak_memory_stats"),
    *("set_per_process_memory_fraction", "use_mem_pool"),
]

_kind = Kind("cuda")
memory_allocated = memory_cached = memory_reserved = zero
max_memory_allocated = max_memory_cached = max_memory_reserved = zero
empty_cache = caching_allocator_enable = nothing
globals().update(
    _kind.refusals(
        "caching_allocator_alloc caching_allocator_delete change_current_allocator "
        "get_allocator_backend get_per_process_memory_fraction list_gpu_processes mem_get_info "
        "memory_snapshot memory_summary reset_accumulated_host_memory_stats "
        "reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached "
        "reset_peak_host_memory_stats reset_peak_memory_stats set_per_process_memory_fraction "
        "use_mem_pool"
    )
)
CUDAPluggableAllocator: Any = _kind.refusing_class("CUDAPluggableAllocator", __name__, RuntimeError)
MemPool: Any = _kind.refusing_class("MemPool", __name__, RuntimeError)


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counters of the allocator: none.

    >>> import pullback as torch
    >>> torch.cuda.memory_allocated(), len(torch.cuda.memory_stats())
    (0, 0)
    """
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Counters of the allocator: none."""
    return {}


def host_memory_stats() -> OrderedDict[str, Any]:
    """Counters of pinned host memory: none."""
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Counters of pinned host memory: none."""
    return {}


__dir__ = _only_public(globals())
