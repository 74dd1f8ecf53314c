"""Devices: which is the current one, what it is, and waiting for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pullback.core.tensor import Tensor
from pullback.cuda._running import KIND, cupy, index_of, needs_device

__all__ = [
    *("can_device_access_peer", "cudart", "current_device", "device", "device_of"),
    *("get_device_capability", "get_device_name", "get_device_properties", "init", "set_device"),
    *("synchronize", "_lazy_init"),
]


class device:  # noqa: N801 (torch's name)
    """Inside, one device is the current one; none for -1."""

    def __init__(self, device: Any) -> None:
        self.idx = KIND.index_of(device, "device")
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx < 0:
            return
        library = cupy("device", RuntimeError)
        self.prev_idx = int(library.cuda.Device().id)
        library.cuda.Device(self.idx).use()

    def __exit__(self, *error: object) -> None:
        if self.prev_idx >= 0:
            cupy("device").cuda.Device(self.prev_idx).use()


class device_of(device):  # noqa: N801 (torch's name)
    """Inside, the device of a tensor is the current one; nothing happens for others."""

    def __init__(self, obj: Any) -> None:
        there = isinstance(obj, Tensor) and obj.is_cuda
        super().__init__(obj.get_device() if there else -1)


def set_device(device: Any) -> None:
    """Make a device the current one; nothing happens for -1."""
    number = KIND.index_of(device, "set_device")
    if number >= 0:
        cupy("set_device()").cuda.Device(number).use()


@needs_device
def current_device() -> int:
    """The number of the device that "cuda" alone means."""
    return int(cupy("current_device()").cuda.Device().id)


@needs_device
def synchronize(device: Any = None) -> None:
    """Wait until a device has done all its work."""
    cupy("synchronize()").cuda.Device(index_of(device, "synchronize")).synchronize()


@needs_device
def init() -> None:
    """Start CUDA, if that has not happened."""


@needs_device
def _lazy_init() -> None:
    """The same."""


@needs_device
def get_device_properties(device: Any = None) -> Any:
    """What a device is: name, memory, multiprocessors, version."""
    number = index_of(device, "get_device_properties")
    known = cupy("get_device_properties()").cuda.runtime.getDeviceProperties(number)
    return SimpleNamespace(
        name=known["name"].decode(),
        major=known["major"],
        minor=known["minor"],
        total_memory=known["totalGlobalMem"],
        multi_processor_count=known["multiProcessorCount"],
        L2_cache_size=known["l2CacheSize"],
        warp_size=known["warpSize"],
        max_threads_per_multi_processor=known["maxThreadsPerMultiProcessor"],
        shared_memory_per_block=known["sharedMemPerBlock"],
    )


@needs_device
def get_device_name(device: Any = None) -> str:
    """How a device is called."""
    return str(get_device_properties(device).name)


@needs_device
def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The version of what a device can do."""
    known = get_device_properties(device)
    return known.major, known.minor


@needs_device
def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one device reads the memory of another."""
    first, second = (index_of(one, "can_device_access_peer") for one in (device, peer_device))
    if first == second:
        return False
    return bool(cupy("can_device_access_peer()").cuda.runtime.deviceCanAccessPeer(first, second))


@needs_device
def cudart() -> Any:
    """CUDA's runtime, as CuPy has it."""
    return cupy("cudart()").cuda.runtime
