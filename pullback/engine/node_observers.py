"""Lets somebody look at every node that a pass runs, as a profiler does.

One name, read once per pass: while it is None, passes run as if this module did not exist.
`operators/dispatch/observers.py` is the same for operator calls.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol


class NodeObserver(Protocol):
    """Who looks on. Each node calls these three, in this order; `ran` not if it fails."""

    def start(self, node: Any) -> Any:
        """A node's turn has come; the result is handed to the others."""

    def ran(self, token: Any, gradients: Any, results: Any) -> Any:
        """It returned `results` for what had arrived; the result takes the token's place."""

    def finish(self, node: Any, token: Any) -> None:
        """Its results are where they go, or it failed."""


class _Nobody:
    """For a pass during which the observer went away."""

    def start(self, node: Any) -> Any:
        """A node's turn."""

    def ran(self, token: Any, gradients: Any, results: Any) -> Any:
        """It ran."""

    def finish(self, node: Any, token: Any) -> None:
        """It is over."""


NOBODY = _Nobody()

observer: NodeObserver | None = None
_observers: list[NodeObserver] = []
_change = threading.RLock()


def add(one: NodeObserver) -> None:
    """Show `one` every node that a pass runs, from the next pass on."""
    with _change:
        _observers.append(one)
        _switch()


def remove(one: NodeObserver) -> None:
    """Show it nothing any more."""
    with _change:
        if one in _observers:
            _observers.remove(one)
        _switch()


def _switch() -> None:
    global observer
    several = len(_observers) > 1
    observer = _Together(tuple(_observers)) if several else next(iter(_observers), None)


class _Together:
    """Several watchers as one."""

    def __init__(self, watchers: tuple[NodeObserver, ...]) -> None:
        self.watchers = watchers

    def start(self, node: Any) -> Any:
        return [one.start(node) for one in self.watchers]

    def ran(self, token: Any, gradients: Any, results: Any) -> Any:
        pairs = zip(self.watchers, token, strict=True)
        return [one.ran(its, gradients, results) for one, its in pairs]

    def finish(self, node: Any, token: Any) -> None:
        for one, its in zip(self.watchers, token, strict=True):
            one.finish(node, its)


class Turn:
    """One turn that somebody is shown, outside of the loops that call the observer themselves."""

    __slots__ = ("node", "observer", "token")

    def __init__(self, node: Any) -> None:
        self.observer: Any = observer or NOBODY
        self.node = node
        self.token = self.observer.start(node)

    def ran(self, gradients: Any, results: Any) -> None:
        """The node returned `results`."""
        self.token = self.observer.ran(self.token, gradients, results)

    def finish(self) -> None:
        """Its results are where they go, or it failed."""
        self.observer.finish(self.node, self.token)
