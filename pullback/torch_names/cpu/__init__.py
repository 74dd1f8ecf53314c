"""The CPU as a device among others, so that programs can treat all alike."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from pullback.core.explain.absent import as_imported as _as_imported
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count"),
    *("get_capabilities", "is_available", "is_initialized", "set_device", "stream", "synchronize"),
]


class Stream:
    """A queue of work: here all work is done when a call returns."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self, event: Any = None) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A point in a stream: always reached."""

    def query(self) -> bool:
        """Whether it is reached."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_default_stream = Stream()
_current_stream = _default_stream


class StreamContext:
    """Inside, a stream is the current one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.prev_stream = _default_stream

    def __enter__(self) -> None:
        global _current_stream
        if self.stream is not None:
            self.prev_stream, _current_stream = _current_stream, self.stream

    def __exit__(self, *error: object) -> None:
        global _current_stream
        if self.stream is not None:
            _current_stream = self.prev_stream


def stream(stream: Any) -> StreamContext:
    """Inside, `stream` is the current one."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The current stream."""
    return _current_stream


def synchronize(device: Any = None) -> None:
    """All work is done when a call returns: nothing to wait for.

    >>> import pullback as torch
    >>> torch.cpu.synchronize()
    >>> torch.cpu.is_available(), torch.cpu.device_count(), torch.cpu.current_device()
    (True, 1, 'cpu')
    """


def is_available() -> bool:
    """Whether there is a CPU."""
    return True


def is_initialized() -> bool:
    """Whether it runs."""
    return True


def device_count() -> int:
    """One: the CPU has no index."""
    return 1


def current_device() -> str:
    """The current device: the CPU."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is only one."""


def get_capabilities() -> Mapping[str, Any]:
    """What NumPy knows of the processor: the features that it found."""
    from pullback.backends.cpu import found_features

    return MappingProxyType({name.lower(): True for name in found_features()})


def __getattr__(name: str) -> Any:
    if name == "amp":
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {_as_imported('pullback.cpu')!r} has no attribute {name!r}")


__dir__ = _only_public(globals(), "amp")
