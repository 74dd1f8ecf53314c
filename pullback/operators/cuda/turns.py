"""Streams in a backward pass: each node on the stream of its forward, and all of them in order.

While only the default stream is used nothing here runs. From the first other stream on, nodes note
the stream that is current when they are made, and a watcher of the engine switches to it for their
turn: the node's stream first waits for all that the pass has done so far, and the caller's stream
waits for the node. So a consumer never reads what is not written, memory that a node frees is not
written anew before its reader is done, and when the pass returns the caller's stream has waited for
every node. Nodes of two streams do not overlap: that is given up for it.
"""

from __future__ import annotations

import weakref
from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.core.ports import ports
from pullback.operators.cuda.found import found

__all__ = ["Turns", "hold", "noted", "several"]


class _Several:
    """Whether there is a stream besides the default one."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = False


several = _Several()
_streams: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def noted(node: Any) -> None:
    """Remember the stream that a node's forward ran on; the default one needs no note."""
    stream = found.cupy.cuda.get_current_stream()
    if stream.ptr:
        _streams[node] = stream


class Turns:
    """The watcher: a turn begins on the node's stream and ends on the caller's."""

    def start(self, node: Any) -> Any:
        """To the node's stream, behind all that the pass has done."""
        own = _streams.get(node)
        if own is None:
            return None
        caller = found.cupy.cuda.get_current_stream()
        if caller.ptr == own.ptr:
            return None
        own.wait_event(caller.record())
        own.use()
        return caller, own

    def ran(self, token: Any, gradients: Any, results: Any) -> Any:
        """Its work is on its way."""
        return token

    def finish(self, node: Any, token: Any) -> None:
        """Back to the caller's stream, which waits for it."""
        if token is None:
            return
        caller, own = token
        caller.use()
        caller.wait_event(own.record())


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
