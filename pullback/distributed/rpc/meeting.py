"""All workers together: at the beginning, and before they part. Worker 0 counts who has come."""

from __future__ import annotations

import threading
from typing import Any

from pullback.distributed.rpc.agent import Agent, Request, serves, waited
from pullback.futures import Future

__all__ = ["Meetings", "meet"]


class Meetings:
    """On worker 0: who has come to which meeting, and who never will."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._come: dict[str, dict[int, Future[Any]]] = {}
        self._dead: dict[int, str] = {}
        self._lock = threading.Lock()

    def come(self, what: str, worker: int, future: Future[Any]) -> None:
        """A worker has come; its future is done when all have."""
        with self._lock:
            here = self._come.setdefault(what, {})
            here[worker] = future
            error = self._hopeless(what)
            if error is None and len(here) < self._size:
                return
            del self._come[what]
        _dismiss(here, error)

    def died(self, worker: int, reason: str) -> None:
        """A worker will not come any more: those who wait for it need not."""
        with self._lock:
            self._dead[worker] = reason
            ended = [(self._hopeless(what), here) for what, here in self._come.items()]
            self._come = {}
        for error, here in ended:
            _dismiss(here, error)

    def absent(self, what: str) -> list[int]:
        """Who has not come yet."""
        with self._lock:
            here = self._come.get(what, {})
            return [worker for worker in range(self._size) if worker not in here]

    def _hopeless(self, what: str) -> Exception | None:
        for reason in self._dead.values():
            return RuntimeError(f"{what}: {reason}.")
        return None


def _dismiss(here: dict[int, Future[Any]], error: Exception | None) -> None:
    """Let all go; worker 0 last, since it may end when it is let go."""
    for worker in sorted(here, reverse=True):
        if error is None:
            here[worker].set_result(None)
        else:
            here[worker].set_exception(error)


def meet(agent: Agent, what: str, timeout: float) -> None:
    """Wait until all workers call this; an error that names who died, or did not come."""
    answer = agent.ask(0, "meet", what)
    try:
        waited(answer, timeout, what)
    except RuntimeError:
        if answer.done():
            raise
        absent = waited(agent.ask(0, "absent", what), 1.0, f"{what}: worker 0")
        raise RuntimeError(f"{what}: worker(s) {absent} did not come within {timeout} s.") from None


@serves("meet", later=True)
def _meet(agent: Agent, request: Request, future: Future[Any]) -> None:
    agent.directory.meetings.come(request.body, request.sender, future)


@serves("absent", at_once=True)
def _absent(agent: Agent, request: Request) -> list[int]:
    absent: list[int] = agent.directory.meetings.absent(request.body)
    return absent
