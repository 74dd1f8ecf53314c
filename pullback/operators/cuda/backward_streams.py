"""Streams in a backward pass: each node on the stream of its forward, and all of them in order.

While only the default stream is used nothing here runs. From the first other stream on, nodes note
the stream that is current when they are made, and a watcher of the engine switches to it for their
turn: the node's stream first waits for all that the pass has done so far, and the caller's stream
waits for the node. So a consumer never reads what is not written, memory that a node frees is not
written anew before its reader is done, and when the pass returns the caller's stream has waited for
every node. Nodes of two streams do not overlap: that is given up for it. Where there are several
devices nodes note theirs as well, and their turns are on it: CuPy's results are on the current one.
"""

from __future__ import annotations

import weakref
from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.core.ports import ports
from pullback.operators.cuda.found import found

__all__ = ["NodeStreams", "hold", "noted", "several"]


class _Several:
    """Whether there is a stream besides the default one, and whether a pass has gone to another."""

    __slots__ = ("crossed", "used")

    def __init__(self) -> None:
        self.used = self.crossed = False


several = _Several()
_streams: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_devices: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def noted(node: Any, number: int | None = None) -> None:
    """Remember the stream that a node's forward ran on; the default one needs no note.

    And its device, where there are several.
    """
    cuda = found.cupy.cuda
    if number is not None:
        _devices[node] = number
    stream = cuda.get_current_stream() if number is None else cuda.get_current_stream(number)
    if stream.ptr:
        _streams[node] = stream


class NodeStreams:
    """The watcher: a turn begins on the node's stream and ends on the caller's."""

    def start(self, node: Any) -> Any:
        """To the node's device and stream, behind all that the pass has done."""
        number = _devices.get(node)
        if number is not None:
            return self._start_on(number, node)
        own = _streams.get(node)
        if own is None:
            return None
        caller = found.cupy.cuda.get_current_stream()
        if caller.ptr == own.ptr:
            return None
        several.crossed = True
        own.wait_event(caller.record())
        own.use()
        return caller, own, None

    @staticmethod
    def _start_on(number: int, node: Any) -> Any:
        cuda = found.cupy.cuda
        caller, before = cuda.get_current_stream(), cuda.Device()
        there = cuda.Device(number)
        own = _streams.get(node)
        if there.id == before.id and (own is None or own.ptr == caller.ptr):
            return None
        several.crossed = True
        event = caller.record()
        there.use()
        before_there = cuda.get_current_stream()
        own = before_there if own is None else own
        own.wait_event(event)
        own.use()
        return caller, own, (before, there, before_there)

    def ran(self, token: Any, gradients: Any, results: Any) -> Any:
        """Its work is on its way."""
        return token

    def finish(self, node: Any, token: Any) -> None:
        """Back to the caller's stream, which waits for it."""
        if token is None:
            return
        caller, own, devices = token
        event = own.record()
        if devices is not None:
            before, _, before_there = devices
            before_there.use()
            before.use()
        caller.use()
        caller.wait_event(event)


# Memory that another stream reads ---------------------------------------------------------------

_held: list[tuple[Any, Any]] = []


def hold(array: Any, stream: Any) -> None:
    """Keep an array alive until a stream has done all that it has by now (`record_stream`)."""
    if type(array) in LIBRARIES:
        keep(array, stream)


def keep(array: Any, stream: Any) -> None:
    """The same, for an array of the host too."""
    _held[:] = [pair for pair in _held if not pair[0].done]
    _held.append((stream.record(), array))


ports.fill(held_for=hold)
