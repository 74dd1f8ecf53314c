"""Streams and events of CUDA devices, under torch's names; making one needs a device.

Work on one stream runs in order; streams run beside each other, and events order them. In a pass of
`backward` each node runs on the stream of its forward (operators/cuda/backward_streams.py).
"""

from __future__ import annotations

from typing import Any

from pullback.core.device import device as _device
from pullback.core.listing import only_public as _only_public
from pullback.core.ports import ports
from pullback.cuda._running import cupy, index_of, is_there, needs_device
from pullback.engine import node_observers
from pullback.operators.cuda import backward_streams

__all__ = [
    *("Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream"),
    *("get_stream_from_external", "set_stream", "stream"),
]


_watcher = backward_streams.NodeStreams()


def _begin() -> None:
    """There is a second stream: nodes are noted from now on, and passes look."""
    if not backward_streams.several.used:
        backward_streams.several.used = True
        node_observers.add(_watcher)


def _end() -> None:
    """No second stream is used any more: for tests."""
    backward_streams.several.used = False
    node_observers.remove(_watcher)


ports.fill(watch_streams=_begin)


class Stream:
    """A queue of work on a device.

    Args:
        device: Where; the current device for None.
        priority: The lower the number, the sooner its work is chosen.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        library = cupy("Stream()", RuntimeError)
        number = index_of(device, "Stream")
        with library.cuda.Device(number):
            self._own: Any = library.cuda.Stream(non_blocking=True, priority=priority)
        self.device_index, self.priority = number, priority
        _begin()

    @classmethod
    def _of(cls, own: Any, number: int) -> Stream:
        made = object.__new__(cls)
        made._own, made.device_index, made.priority = own, number, 0
        return made

    device_type = 1

    @property
    def device(self) -> _device:
        """Where the stream is."""
        return _device("cuda", self.device_index)

    @property
    def cuda_stream(self) -> int:
        """The stream's address, as CUDA knows it."""
        return int(self._own.ptr)

    stream_id = cuda_stream
    _as_parameter_ = cuda_stream

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        self._own.synchronize()

    def query(self) -> bool:
        """Whether all its work is done."""
        return bool(self._own.done)

    def record_event(self, event: Event | None = None) -> Event:
        """An event behind all work that the stream has by now."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Let what comes wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Let what comes wait for all work that another stream has by now."""
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        self._before = current_stream(self.device_index)
        self._own.use()
        return self

    def __exit__(self, *error: object) -> None:
        self._before._own.use()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return (
            f"<torch.cuda.Stream device=cuda:{self.device_index} cuda_stream={self.cuda_stream:#x}>"
        )


class ExternalStream(Stream):
    """A stream that another library has made, by its address."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        library = cupy("ExternalStream()", RuntimeError)
        self.device_index = index_of(device, "ExternalStream")
        self.priority = 0
        self._own = library.cuda.ExternalStream(stream_ptr, self.device_index)
        _begin()


class Event:
    """A mark in a stream's work: to wait for, and to measure time between.

    Args:
        enable_timing: Whether `elapsed_time` is asked for.
        blocking: Whether `synchronize` sleeps instead of asking again and again.
        interprocess: Refused: events of other processes are not known here.
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        library = cupy("Event()", RuntimeError)
        if interprocess:
            raise NotImplementedError("Event: events of other processes are not known here.")
        self._own: Any = library.cuda.Event(block=blocking, disable_timing=not enable_timing)
        self._recorded = False

    def record(self, stream: Stream | None = None) -> None:
        """Mark where a stream is now; the current one for None."""
        self._own.record(_own(stream))
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        """Let what comes on a stream wait for this event."""
        if self._recorded:
            _own(stream).wait_event(self._own)

    def query(self) -> bool:
        """Whether all work before it is done."""
        return not self._recorded or bool(self._own.done)

    def synchronize(self) -> None:
        """Wait until all work before it is done."""
        if self._recorded:
            self._own.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; both with `enable_timing`."""
        library = cupy("Event.elapsed_time()")
        return float(library.cuda.get_elapsed_time(self._own, end_event._own))

    @property
    def cuda_event(self) -> int:
        """The event's address, as CUDA knows it."""
        return int(self._own.ptr)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


def _own(stream: Stream | None) -> Any:
    return cupy("current_stream()").cuda.get_current_stream() if stream is None else stream._own


class StreamContext:
    """Inside, work goes to a stream; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before: Any = None

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = current_stream(self.stream.device_index)
            self.stream._own.use()

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            self._before._own.use()


def stream(stream: Stream | None) -> StreamContext:
    """Inside, work goes to a stream; None changes nothing.

    >>> import pullback as torch
    >>> with torch.cuda.stream(None):
    ...     pass
    """
    return StreamContext(stream)


@needs_device
def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to now."""
    number = index_of(device, "current_stream")
    return Stream._of(cupy("current_stream()").cuda.get_current_stream(number), number)


@needs_device
def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to unless told otherwise."""
    return Stream._of(cupy("default_stream()").cuda.Stream.null, index_of(device, "default_stream"))


def set_stream(stream: Stream | None) -> None:
    """Send work to a stream from here on; nothing happens for None."""
    if stream is not None and is_there():
        stream._own.use()


@needs_device
def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that another library has made."""
    return ExternalStream(data_ptr, device)


__dir__ = _only_public(globals())
