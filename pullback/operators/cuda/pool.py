"""CuPy's pool of memory, with what it was asked for: the most that arrays held, and who holds it.

Every array asks CuPy's allocator, which is one function of ours around the pool's. It adds sizes
up, so that it never thinks too little, and asks the pool (which goes through all blocks) only when
the sum is above the most so far: between two such questions the most cannot have changed. A program
that never asks for the most does not pay for each byte of it: until then the sum may be above by a
little. When the pool has nothing left, the error tells what holds memory, by the user's lines.
"""

from __future__ import annotations

from typing import Any

from pullback.core.faults import out_of_memory
from pullback.core.ports import ports
from pullback.operators.cuda.found import found

__all__ = ["Pool", "empty", "forget", "peak", "seen"]

_GRAIN = 512  # the pool rounds up to it
_LITTLE = 1 << 20  # bytes that the most may be wrong by before anybody has asked for it


class _Device:
    """What is known of one device's part."""

    __slots__ = ("little", "most", "most_had", "near")

    def __init__(self) -> None:
        self.near = 0  # at least what arrays hold
        self.most = self.most_had = 0
        self.little = _LITTLE


class Pool:
    """The allocator, while a CUDA device holds tensors."""

    def __init__(self, cupy: Any, count: int) -> None:
        self.cupy = cupy
        self.own: Any = cupy.get_default_memory_pool()
        self._before: Any = cupy.cuda.get_allocator()
        self.devices = [_Device() for _ in range(count)]
        self.malloc = self.counting(self.own)
        if self._before == self.own.malloc:  # a user's own allocator stays
            cupy.cuda.set_allocator(self.malloc)
        else:
            self._before = None

    def close(self) -> None:
        """Leave CuPy as it was."""
        if self._before is not None:
            self.cupy.cuda.set_allocator(self._before)

    def counting(self, pool: Any) -> Any:
        """A pool's `malloc` that counts to its device and explains its errors."""
        malloc, cuda = pool.malloc, self.cupy.cuda
        empty_handed = cuda.memory.OutOfMemoryError
        single = self.devices[0] if len(self.devices) == 1 else None

        def allocate(size: int) -> Any:
            try:
                memory = malloc(size)
            except empty_handed:
                raise self._explained(size) from None
            device = single or self.devices[cuda.Device().id]
            device.near += size + _GRAIN
            if device.near > device.most + device.little:
                self._look(device)
            return memory

        return allocate

    def _look(self, device: _Device) -> None:
        device.near = int(self.own.used_bytes())
        device.most = max(device.most, device.near)
        device.most_had = max(device.most_had, int(self.own.total_bytes()))

    def _explained(self, size: int) -> Exception:
        number = int(self.cupy.cuda.Device().id)
        free, whole = self.cupy.cuda.runtime.memGetInfo()
        return out_of_memory(
            f"cuda:{number}",
            wanted=size,
            held=int(self.own.used_bytes()),
            spare=int(self.own.total_bytes() - self.own.used_bytes()),
            free=int(free),
            whole=int(whole),
            holders=ports.memory_holders(number),
        )


def seen(number: int) -> tuple[int, int]:
    """Bytes in use, and bytes that the pool has, on a device."""
    pool = found.library.pool
    with found.cupy.cuda.Device(number):
        pool._look(pool.devices[number])
        return int(pool.own.used_bytes()), int(pool.own.total_bytes())


def peak(number: int) -> tuple[int, int]:
    """The most of both since the beginning, or since they were forgotten."""
    seen(number)
    device = found.library.pool.devices[number]
    device.little = 0
    return device.most, device.most_had


def forget(number: int) -> None:
    """Begin anew, with what is in use now."""
    device = found.library.pool.devices[number]
    device.most = device.most_had = device.little = 0
    seen(number)


def empty() -> None:
    """Give what no array holds back to the device."""
    found.library.pool.own.free_all_blocks()
