"""Marks in a device's work, and the times between them on the host's clock."""

from __future__ import annotations

from time import perf_counter_ns as now
from typing import Any, NamedTuple

from pullback.operators.cuda.found import found

__all__ = ["Marks", "Span"]


class Span(NamedTuple):
    """From when to when a device had work, in nanoseconds of the host's clock."""

    start: int
    end: int
    device: int
    stream: int


class Marks:
    """Events behind what streams have by now; their times are known once the device is there."""

    def __init__(self) -> None:
        self._cuda: Any = found.cupy.cuda
        self._base: dict[int, tuple[Any, int]] = {}
        self._begin(self._cuda.Device().id)

    def _begin(self, number: int) -> None:
        """An event whose time the host knows."""
        base = self._cuda.Event(block=False, disable_timing=False)
        base.record(self._cuda.get_current_stream())
        base.synchronize()
        self._base[number] = base, now()

    def mark(self) -> Any:
        """A mark on the current stream; None while it is captured."""
        cuda = self._cuda
        stream = cuda.get_current_stream()
        if stream.is_capturing():
            return None
        number = cuda.Device().id
        if number not in self._base:
            self._begin(number)
        event = cuda.Event(block=False, disable_timing=False)
        event.record(stream)
        return event, number, int(stream.ptr)

    def span(self, first: Any, last: Any) -> Span | None:
        """The time between two marks, waited for; None where one is missing."""
        if first is None or last is None or first[1] != last[1]:
            return None
        event, number, stream = first
        base, begin = self._base[number]
        last[0].synchronize()
        elapsed = self._cuda.get_elapsed_time
        start, end = (begin + int(elapsed(base, one) * 1e6) for one in (event, last[0]))
        return Span(start, max(start, end), number, stream)
