"""Values that stay on their owner for as long as a worker holds a reference to them.

The owner counts references. Whoever hands one on has the owner count it first, so that the count is
never below what is in use; whoever loses one tells the owner, from a thread beside, since objects
die at any time and sending may have to wait.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import Any

from pullback.distributed.rpc.agent import Agent, Request, serves
from pullback.futures import Future

__all__ = ["Kept"]

_BITS = 48


class Kept:
    """The values of one worker that are referred to, and the references it has lost."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._cells: dict[int, Future[Any]] = {}
        self._counts: dict[int, int] = {}
        self._lock = threading.Lock()
        self._lost: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._teller: threading.Thread | None = None

    def number(self) -> int:
        """A number for a value, unlike any other worker's."""
        return self._agent.info.id << _BITS | next(self._agent.numbers)

    def promise(self, number: int) -> Future[Any]:
        """Keep a place for a value that one reference is to."""
        with self._lock:
            cell = self._cells[number] = Future()
            self._counts[number] = 1
        return cell

    def cell(self, number: int) -> Future[Any]:
        """The place of a value."""
        with self._lock:
            found = self._cells.get(number)
        if found is None:
            raise RuntimeError(
                f"Worker {self._agent.info.name!r} keeps no value {number}: nobody held it."
            )
        return found

    def hold(self, number: int) -> None:
        """Count one more reference."""
        with self._lock:
            if number in self._counts:
                self._counts[number] += 1

    def forget(self, number: int) -> None:
        """Count one less; a value that nobody refers to goes."""
        dropped = None
        with self._lock:
            left = self._counts.get(number, 0) - 1
            if left > 0:
                self._counts[number] = left
            else:
                self._counts.pop(number, None)
                dropped = self._cells.pop(number, None)
        del dropped  # what it holds may be a reference itself

    def __len__(self) -> int:
        return len(self._cells)

    # ------------------------------------------------------------------ lost references

    def lose(self, owner: int, number: int) -> None:
        """A reference has died here."""
        if self._agent.gone is None:
            self._lost.put((owner, number))

    def watch(self) -> None:
        """Have lost references told: wanted once there is one."""
        with self._lock:
            if self._teller is None and self._agent.gone is None:
                self._teller = threading.Thread(target=self._tell, daemon=True)
                self._teller.start()

    def _tell(self) -> None:
        while (lost := self._lost.get()) is not None:
            owner, number = lost
            with contextlib.suppress(Exception):  # an owner that is gone keeps nothing
                self._agent.ask(owner, "forget", number)

    def close(self) -> None:
        """Keep nothing any more."""
        self._lost.put(None)
        with self._lock:
            cells, self._cells = self._cells, {}
            self._counts.clear()
        del cells


@serves("hold", at_once=True)
def _hold(agent: Agent, request: Request) -> None:
    agent.kept.hold(request.body)


@serves("forget", at_once=True)
def _forget(agent: Agent, request: Request) -> None:
    agent.kept.forget(request.body)
