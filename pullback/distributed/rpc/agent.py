"""A worker: it serves calls on threads of its own, and knows the others by name.

Workers are the ranks of the thread engine. What a call needs of the caller (its default group, its
autograd context) travels with it.
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections.abc import Callable
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Any

from pullback.distributed import world
from pullback.distributed.autograd import contexts
from pullback.distributed.autograd.messages import receive, send
from pullback.distributed.rpc.wire import pack, unpack
from pullback.futures import Future

__all__ = ["Agent", "WorkerInfo", "current_agent", "current_or_none"]

_agent: ContextVar[Agent | None] = ContextVar("pullback_rpc_agent", default=None)
DEFAULT_TIMEOUT = 60.0


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's name and number."""

    name: str
    id: int


def current_or_none() -> Agent | None:
    """The worker that this thread works for, if it does."""
    return _agent.get()


def current_agent() -> Agent:
    """The worker that this thread works for."""
    agent = _agent.get()
    if agent is None:
        raise RuntimeError("There is no RPC here yet: call distributed.rpc.init_rpc() first.")
    return agent


@dataclass
class Directory:
    """All workers of a job."""

    by_name: dict[str, Agent] = field(default_factory=dict)
    by_id: dict[int, Agent] = field(default_factory=dict)


class Agent:
    """One worker."""

    def __init__(self, info: WorkerInfo, directory: Directory, home: Any, timeout: float) -> None:
        self.info = info
        self.directory = directory
        self.timeout = timeout
        self.contexts = contexts.Container(self, info.id)
        self.gone: str | None = None
        self._home = home  # the world of the rank
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._running = 0
        self._hands: list[queue.SimpleQueue[Any]] = []
        self.idle = threading.Condition(self._lock)

    def enter(self) -> None:
        """Let this thread work for the worker."""
        _agent.set(self)

    def find(self, to: Any) -> Agent:
        """A worker by name, number or info."""
        if isinstance(to, WorkerInfo):
            to = to.id
        known = (self.directory.by_id if isinstance(to, int) else self.directory.by_name).get(to)
        if known is None:
            names = ", ".join(sorted(self.directory.by_name))
            raise ValueError(f"There is no worker {to!r}; there are {names}.")
        return known

    # ------------------------------------------------------------------ calls

    def call(
        self, to: Any, function: Callable[..., Any], args: Any, kwargs: Any, *, keep: bool = False
    ) -> Future[Any]:
        """Start a call; a future of its result here, or with `keep` of one that stays there."""
        target = self.find(to)
        if not callable(function):
            raise TypeError(f"rpc: a function is called, got {type(function).__name__}.")
        data, tensors, others = pack((tuple(args or ()), dict(kwargs or {})))
        context_id = contexts.current_id()
        message = send(self, context_id, tensors, target.info.id)
        future: Future[Any] = Future()

        def serve() -> None:
            given, named = unpack(data, receive(target, context_id, message, self.info.id), others)
            result = function(*given, **named)
            if keep:
                future.set_result(result)
                return
            back, out, rest = pack(result)
            reply = send(target, context_id, out, self.info.id)
            future.set_result(unpack(back, receive(self, context_id, reply, target.info.id), rest))

        target.submit(serve, future, context_id)
        return future

    def submit(
        self, act: Callable[[], None], future: Future[Any], context_id: int | None = None
    ) -> None:
        """Do something on a thread of this worker; what it raises goes to the future."""
        with self._lock:
            if self.gone is not None:
                raise RuntimeError(f"worker {self.info.name!r} is gone: {self.gone}.")
            self._waiting.add(future)
            self._running += 1
            hand = self._hands.pop() if self._hands else None
        if hand is None:
            hand = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(hand,), daemon=True).start()
        hand.put((act, future, context_id))

    def _work(self, hand: queue.SimpleQueue[Any]) -> None:
        """A thread that does one thing after the other; as many as there were calls at once."""
        while (task := hand.get()) is not None:
            Context().run(self._run, *task)
            del task
            with self._lock:
                if self.gone is not None:
                    return
                self._hands.append(hand)

    def _run(self, act: Callable[[], None], future: Future[Any], context_id: int | None) -> None:
        _agent.set(self)
        world._of_thread.set(self._home)
        contexts.enter(context_id)
        try:
            act()
        except Exception as error:
            trace = traceback.format_exc()
            error.add_note(f"On worker {self.info.name!r}:\n{trace}")
            self._fail(future, error)
        finally:
            with self._lock:
                self._waiting.discard(future)
                self._running -= 1
                self.idle.notify_all()

    def _fail(self, future: Future[Any], error: Exception) -> None:
        with self._lock:  # when the worker dies the future is failed by that
            if not future.done():
                future.set_exception(error)

    def drain(self) -> None:
        """Wait until no call runs."""
        with self._lock:
            while self._running:
                self.idle.wait(1.0)

    def die(self, reason: str) -> None:
        """Refuse calls from now on, and fail those that run."""
        with self._lock:
            if self.gone is not None:
                return
            self.gone = reason
            waiting, self._waiting = self._waiting, set()
            for hand in self._hands:
                hand.put(None)
            self._hands.clear()
            for future in waiting:
                if not future.done():
                    future.set_exception(RuntimeError(f"worker {self.info.name!r} died: {reason}."))


def waited(future: Future[Any], timeout: float, what: str) -> Any:
    """The result of a call, or an error when time is up."""
    until = time.monotonic() + timeout
    with future._done:
        while not future.done():
            left = until - time.monotonic()
            if left <= 0:
                raise RuntimeError(f"{what} was not answered within {timeout} s.")
            future._done.wait(left)
    return future.value()
