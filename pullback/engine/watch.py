"""Lets somebody look at every node that a pass runs, as a profiler does.

One name, read once per pass: while it is None, passes run as if this module did not exist.
"""

from __future__ import annotations

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
