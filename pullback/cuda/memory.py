"""Memory of CUDA devices, as CuPy's pool counts it; nothing in use where there is no device.

"Allocated" is what arrays hold, "reserved" what the pool has of the device.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public
from pullback.cuda._running import cupy, index_of, is_there, needs_device
from pullback.operators.cuda import pool

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
# What CuPy's pool has no counterpart for.
globals().update(
    _kind.refusals(
        "caching_allocator_alloc caching_allocator_delete change_current_allocator "
        "list_gpu_processes memory_snapshot reset_accumulated_host_memory_stats "
        "reset_peak_host_memory_stats use_mem_pool"
    )
)
CUDAPluggableAllocator: Any = _kind.refusing_class("CUDAPluggableAllocator", __name__, RuntimeError)
MemPool: Any = _kind.refusing_class("MemPool", __name__, RuntimeError)


def caching_allocator_enable(value: bool = True) -> None:
    """The pool is always used; nothing happens."""


def memory_allocated(device: Any = None) -> int:
    """Bytes that arrays hold on a device.

    >>> import pullback as torch
    >>> torch.cuda.memory_allocated(), len(torch.cuda.memory_stats())
    (0, 0)
    """
    return pool.seen(index_of(device, "memory_allocated"))[0] if is_there() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that the pool has of a device."""
    return pool.seen(index_of(device, "memory_reserved"))[1] if is_there() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that arrays held."""
    return pool.peak(index_of(device, "max_memory_allocated"))[0] if is_there() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that the pool had."""
    return pool.peak(index_of(device, "max_memory_reserved"))[1] if is_there() else 0


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def empty_cache() -> None:
    """Give memory that no array holds back to the device; nothing happens without one."""
    if is_there():
        pool.empty()


@needs_device
def reset_peak_memory_stats(device: Any = None) -> None:
    """Let peaks begin with what is in use now."""
    pool.forget(index_of(device, "reset_peak_memory_stats"))


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
reset_accumulated_memory_stats = reset_peak_memory_stats


@needs_device
def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free bytes of a device, and all of its bytes."""
    library = cupy("mem_get_info()")
    with library.cuda.Device(index_of(device, "mem_get_info")):
        free, whole = library.cuda.runtime.memGetInfo()
    return int(free), int(whole)


@needs_device
def get_allocator_backend() -> str:
    """Whose pool it is."""
    return "cupy"


@needs_device
def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of the device's memory that the pool may have."""
    library = cupy("get_per_process_memory_fraction()")
    limit = library.get_default_memory_pool().get_limit()
    return 1.0 if not limit else float(limit) / mem_get_info(device)[1]


@needs_device
def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let the pool have no more than a part of the device's memory."""
    if not isinstance(fraction, float) or not 0 <= fraction <= 1:
        raise ValueError(f"A fraction is a float between 0 and 1, got {fraction!r}.")
    library = cupy("set_per_process_memory_fraction()")
    with library.cuda.Device(index_of(device, "set_per_process_memory_fraction")):
        library.get_default_memory_pool().set_limit(fraction=fraction)


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Counters of the pool; none where there is no device."""
    if not is_there():
        return OrderedDict()
    number = index_of(device, "memory_stats")
    (used, held), (most, most_held) = pool.seen(number), pool.peak(number)
    return OrderedDict(
        {
            "allocated_bytes.all.current": used,
            "allocated_bytes.all.peak": most,
            "reserved_bytes.all.current": held,
            "reserved_bytes.all.peak": most_held,
        }
    )


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same, a dict for each part of a name."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *parts, last = name.split(".")
        place = nested
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


@needs_device
def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The counters as a table."""
    return "\n".join(f"{name:<32}{value:>16,}" for name, value in memory_stats(device).items())


def host_memory_stats() -> OrderedDict[str, Any]:
    """Counters of pinned host memory: none are kept."""
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Counters of pinned host memory: none are kept."""
    return {}


__dir__ = _only_public(globals())
