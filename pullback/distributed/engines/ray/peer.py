"""Requests between workers that are Ray actors: each is a call of the other actor's `serve`."""

from __future__ import annotations

import contextlib
import pickle
import threading
from typing import Any

from pullback.distributed.engines.ray.loading import load_ray
from pullback.distributed.rpc.agent import Agent, Peer, Request, WorkerInfo
from pullback.distributed.rpc.sockets import portable
from pullback.futures import Future

__all__ = ["ActorPeer", "answered"]


class ActorPeer(Peer):
    """A worker in another actor."""

    def __init__(self, info: WorkerInfo, actor: str, agent: Agent) -> None:
        super().__init__(info)
        self._agent = agent
        self._handle = load_ray().get_actor(actor)
        self._lock = threading.Lock()
        self._asked: dict[Any, Future[Any]] = {}
        self._gone: str | None = None

    def ask(self, request: Request, future: Future[Any]) -> None:
        """Send a request; Ray keeps the order of one caller's."""
        if self._gone is not None:
            raise RuntimeError(f"worker {self.info.name!r} is gone: {self._gone}.")
        data = pickle.dumps(request, protocol=5)
        with self._lock:  # so that the order is that of the callers
            reference = self._handle.serve.remote(data)
            self._asked[reference] = future
        reference.future().add_done_callback(lambda done: self._answered(reference, done))

    def _answered(self, reference: Any, done: Any) -> None:
        with self._lock:
            future = self._asked.pop(reference, None)
        if future is None:
            return
        error = done.exception()
        if error is not None:
            self._gone = f"its actor ended ({type(error).__name__})"
            told = RuntimeError(f"worker {self.info.name!r} died: {self._gone}.")
            self._agent.settle(future, False, told)
            if self._agent.directory.meetings is not None:
                self._agent.directory.meetings.died(self.info.id, str(told).rstrip("."))
            return
        # Loaded from bytes: arrays are our own to write to, unlike those of Ray's store.
        self._agent.settle(future, *pickle.loads(done.result()))

    def close(self) -> None:
        """Ask nothing any more."""
        self._gone = self._gone or "this worker has shut down"
        with self._lock:
            asked, self._asked = self._asked, {}
        for future in asked.values():
            with contextlib.suppress(RuntimeError):  # settled in this moment
                future.set_exception(RuntimeError("rpc: this worker has shut down."))


def answered(done: Future[Any]) -> bytes:
    """What goes back for a request: the result, or its error."""
    error = done._error
    if error is None:
        try:
            return pickle.dumps((True, done._result), protocol=5)
        except Exception as unsent:
            error = unsent
    return pickle.dumps((False, portable(error)))
