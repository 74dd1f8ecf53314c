"""What CuPy's pool has in use, and the most that anybody saw."""

from __future__ import annotations

from pullback.operators.cuda.found import found

__all__ = ["forget", "peak", "seen"]

_peaks: dict[int, tuple[int, int]] = {}


def seen(number: int) -> tuple[int, int]:
    """Bytes in use, and bytes that the pool has, on a device."""
    cupy = found.cupy
    with cupy.cuda.Device(number):
        pool = cupy.get_default_memory_pool()
        now = int(pool.used_bytes()), int(pool.total_bytes())
    before = _peaks.get(number, (0, 0))
    _peaks[number] = max(before[0], now[0]), max(before[1], now[1])
    return now


def peak(number: int) -> tuple[int, int]:
    """The most of both; the pool never gives back unasked, so what it has tells what was used."""
    seen(number)
    return _peaks[number]


def forget(number: int) -> None:
    """Begin anew."""
    _peaks.pop(number, None)
