"""`torch.Stream` and `torch.Event`: queues of work and points in them, whatever the device.

On the CPU all work is done when a call returns: nothing waits. For a GPU they are those of
`torch.cuda`, which exist where there is one.
"""

from __future__ import annotations

from typing import Any

from pullback.core.device import CPU, as_device, require_available

__all__ = ["Event", "Stream"]


class Stream:
    """A queue of work on a device.

    Example:
        >>> import pullback as torch
        >>> stream = torch.Stream()
        >>> stream.query(), stream.device
        (True, device(type='cpu'))
    """

    stream_id = 0
    device_type = 0
    device_index = -1

    def __new__(cls, device: Any = None, *, priority: int = 0, **options: Any) -> Any:
        """One of this device; a GPU's has a class of its own."""
        place = require_available(as_device(device))
        if place.type == "cuda":
            from importlib import import_module

            return import_module("pullback.cuda").Stream(place, priority, **options)
        return super().__new__(cls)

    def __init__(self, device: Any = None, *, priority: int = 0, **options: Any) -> None:
        """Streams of the CPU have nothing to set."""
        self.device = CPU

    def query(self) -> bool:
        """Whether all work is done: it is."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Any) -> None:
        """Refused: there are no events on a CPU."""
        raise _no_events("wait_stream")

    def record_event(self, event: Any = None) -> Any:
        """Refused: there are no events on a CPU."""
        raise _no_events("record_event")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return type(other) is Stream

    def __hash__(self) -> int:
        return hash((Stream, self.stream_id))

    def __repr__(self) -> str:
        return "torch.Stream device_type=cpu, device_index=-1, stream_id=0"


class Event:
    """A point in a stream, to wait for or to measure time from.

    Example:
        >>> import pullback as torch
        >>> torch.Event().query()
        True
    """

    event_id = 0

    def __new__(cls, device: Any = None, **options: Any) -> Any:
        """One of this device; a GPU's has a class of its own."""
        place = require_available(as_device(device))
        if place.type == "cuda":
            from importlib import import_module

            return import_module("pullback.cuda").Event(**options)
        return super().__new__(cls)

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **options: Any) -> None:
        """Events of the CPU are always reached."""
        self.device = CPU
        self._timed = enable_timing

    def query(self) -> bool:
        """Whether it is reached: it is."""
        return True

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def record(self, stream: Any = None) -> None:
        """Refused: there are no events on a CPU."""
        raise _no_events("record")

    def elapsed_time(self, end_event: Any) -> float:
        """Refused: nothing was recorded."""
        if not self._timed:
            raise ValueError("elapsed_time: both events need enable_timing=True.")
        raise _no_events("elapsed_time")

    def __repr__(self) -> str:
        flag = int(self._timed)
        return f"torch.Event device_type=cpu, device_index=-1, event_flag={flag}, event_id=0"


def _no_events(what: str) -> RuntimeError:
    return RuntimeError(
        f"{what}: a CPU has no events, its work is done when a call returns. Measure time with "
        "time.perf_counter()."
    )
