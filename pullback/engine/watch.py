"""Lets somebody look at every node that a pass runs, as a profiler does.

One name, read once per pass: while it is None, passes run as if this module did not exist.
`operators/watching/observe.py` is the same for operator calls.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Watcher(Protocol):
    """Who looks on. Each node calls these three, in this order; `ran` not if it fails."""

    def start(self, node: Any) -> Any:
        """A node's turn has come; the result is handed to the others."""

    def ran(self, token: Any, gradients: Any, results: Any) -> Any:
        """It returned `results` for what had arrived; the result takes the token's place."""

    def finish(self, node: Any, token: Any) -> None:
        """Its results are where they go, or it failed."""


class _Nobody:
    """For a pass during which the watcher went away."""

    def start(self, node: Any) -> Any:
        """A node's turn."""

    def ran(self, token: Any, gradients: Any, results: Any) -> Any:
        """It ran."""

    def finish(self, node: Any, token: Any) -> None:
        """It is over."""


NOBODY = _Nobody()

watcher: Watcher | None = None
_watchers: list[Watcher] = []
_change = threading.RLock()


def add(one: Watcher) -> None:
    """Show `one` every node that a pass runs, from the next pass on."""
    with _change:
        _watchers.append(one)
        _switch()


def remove(one: Watcher) -> None:
    """Show it nothing any more."""
    with _change:
        if one in _watchers:
            _watchers.remove(one)
        _switch()


def _switch() -> None:
    global watcher
    several = len(_watchers) > 1
    watcher = _Together(tuple(_watchers)) if several else next(iter(_watchers), None)


class _Together:
    """Several watchers as one."""

    def __init__(self, watchers: tuple[Watcher, ...]) -> None:
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
    """One turn that somebody is shown, outside of the loops that call the watcher themselves."""

    __slots__ = ("node", "token", "watcher")

    def __init__(self, node: Any) -> None:
        self.watcher: Any = watcher or NOBODY
        self.node = node
        self.token = self.watcher.start(node)

    def ran(self, gradients: Any, results: Any) -> None:
        """The node returned `results`."""
        self.token = self.watcher.ran(self.token, gradients, results)

    def finish(self) -> None:
        """Its results are where they go, or it failed."""
        self.watcher.finish(self.node, self.token)
