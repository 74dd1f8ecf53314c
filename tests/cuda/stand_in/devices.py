"""The stand-in's `cupy.cuda`: devices, streams, events and memory, with nothing behind them.

Work is done when it is asked for, so streams only have names; the time between two events is the
host's. Memory is counted: every array that owns its memory asks the current allocator for it, and a
pool with a limit refuses as CuPy's does. New arrays are on the current device, as CuPy's are, and
work on another device's arrays is refused: where CuPy reaches over to the other device, results
would be on the wrong one.
"""

from __future__ import annotations

import contextlib
import itertools
import time
import types
from typing import Any

import numpy

__all__ = ["Device", "cuda", "current", "memory_of", "pool"]

_GRAIN = 512  # CuPy rounds up to it
_addresses = itertools.count(1 << 20, 1 << 20)


class _Current:
    """What is the current one; the stand-in has one thread's view for all."""

    def __init__(self) -> None:
        self.device, self.count = 0, 1
        self.streams: dict[int, Any] = {}
        self.allocator: Any = None


current = _Current()


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""

    def __init__(self, status: int, text: str = "cudaErrorIllegalAddress") -> None:
        self.status = status
        super().__init__(text)


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


class Device:
    compute_capability = "90"
    # What the next wait reports, as a kernel that failed before would.
    fault: Any = None

    def __init__(self, id: int | None = None) -> None:
        self.id = current.device if id is None else int(id)
        if not 0 <= self.id < current.count:
            raise CUDARuntimeError(101, "cudaErrorInvalidDevice: invalid device ordinal")

    def use(self) -> None:
        current.device = self.id

    def synchronize(self) -> None:
        fault, Device.fault = Device.fault, None
        if fault is not None:
            raise fault

    def __enter__(self):
        self._before = current.device
        self.use()
        return self

    def __exit__(self, *error):
        current.device = self._before

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return self.id


class Stream:
    null: Any = None

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=0) -> None:
        self.ptr = 0 if null else next(_addresses)
        self.device_id = current.device

    done = True

    def use(self):
        current.streams[current.device] = self
        return self

    def synchronize(self) -> None:
        Device().synchronize()

    def record(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event) -> None:
        pass

    def is_capturing(self) -> bool:
        return False


Stream.null = Stream(null=True)


class ExternalStream(Stream):
    def __init__(self, ptr, device_id=-1) -> None:
        self.ptr, self.device_id = ptr, device_id


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False) -> None:
        self.ptr, self.timed = next(_addresses), not disable_timing
        self.at: Any = None

    done = True

    def record(self, stream=None) -> None:
        self.at = time.perf_counter_ns()

    def synchronize(self) -> None:
        Device().synchronize()


def get_elapsed_time(start: Event, end: Event) -> float:
    if not (start.timed and end.timed):
        raise CUDARuntimeError(400, "cudaErrorInvalidResourceHandle")
    return (end.at - start.at) / 1e6


def get_current_stream(device_id=-1):
    number = current.device if device_id < 0 else device_id
    return current.streams.get(number, Stream.null)


# Memory -------------------------------------------------------------------------------------------


class _Memory:
    """Bytes of a pool, given back with the last array that has them."""

    def __init__(self, owner: Any, size: int) -> None:
        self.owner, self.size, self.device_id = owner, size, current.device
        self.owner.used[self.device_id] += size
        self.owner.total[self.device_id] = max(
            self.owner.total[self.device_id], self.owner.used[self.device_id]
        )

    def __del__(self):
        self.owner.used[self.device_id] -= self.size


class MemoryPool:
    def __init__(self, allocator=None) -> None:
        self.used, self.total = numpy.zeros(8, numpy.int64), numpy.zeros(8, numpy.int64)
        self.limit = 0

    def malloc(self, size: int):
        rounded = -(-size // _GRAIN) * _GRAIN
        used = int(self.used[current.device])
        if self.limit and used + rounded > self.limit:
            raise OutOfMemoryError(f"Out of memory allocating {rounded:,} bytes")
        return types.SimpleNamespace(mem=_Memory(self, rounded), ptr=next(_addresses))

    def used_bytes(self) -> int:
        return int(self.used[current.device])

    def total_bytes(self) -> int:
        return int(self.total[current.device])

    def free_bytes(self) -> int:
        return self.total_bytes() - self.used_bytes()

    def free_all_blocks(self, stream=None) -> None:
        self.total[:] = self.used

    def get_limit(self) -> int:
        return self.limit

    def set_limit(self, size=None, fraction=None) -> None:
        self.limit = int(fraction * _WHOLE) if size is None else size


_WHOLE = 1 << 34
pool = MemoryPool()
current.allocator = pool.malloc


def memory_of(size: int) -> Any:
    """What an array of so many bytes holds."""
    return current.allocator(size)


def set_allocator(allocator=None) -> None:
    current.allocator = allocator


@contextlib.contextmanager
def using_allocator(allocator=None):
    before, current.allocator = current.allocator, allocator
    try:
        yield
    finally:
        current.allocator = before


def alloc_pinned_memory(size: int) -> Any:
    return bytearray(size)


class _Runtime:
    CUDARuntimeError = CUDARuntimeError

    @staticmethod
    def getDeviceCount():  # noqa: N802 (CuPy's name)
        return current.count

    @staticmethod
    def getDeviceProperties(number):  # noqa: N802
        return {
            "name": b"stand-in", "major": 9, "minor": 0, "totalGlobalMem": _WHOLE,
            "multiProcessorCount": 132, "l2CacheSize": 1 << 20, "warpSize": 32,
            "maxThreadsPerMultiProcessor": 2048, "sharedMemPerBlock": 48 << 10,
        }  # fmt: skip

    @staticmethod
    def free(address):
        assert address == 0

    @staticmethod
    def memGetInfo():  # noqa: N802
        return _WHOLE - pool.total_bytes(), _WHOLE

    @staticmethod
    def deviceCanAccessPeer(one, other):  # noqa: N802
        return 1


from tests.cuda.stand_in import kernels, nccl

cuda = types.SimpleNamespace(
    runtime=_Runtime, Device=Device, is_available=lambda: True, Stream=Stream, Event=Event,
    ExternalStream=ExternalStream, get_current_stream=get_current_stream,
    get_elapsed_time=get_elapsed_time, MemoryPool=MemoryPool, set_allocator=set_allocator,
    get_allocator=lambda: current.allocator, using_allocator=using_allocator, alloc=memory_of,
    alloc_pinned_memory=alloc_pinned_memory, nccl=nccl,
    driver=types.SimpleNamespace(launchKernel=kernels.launch_kernel),
    memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
)  # fmt: skip
