"""A worker: it takes requests, serves them on threads of its own, and knows the others as peers.

A request is plain data: its kind, who asks, in which autograd context, and a body. What a kind does
is said where it belongs (`serves`): calls in `calls`, references in `rref`, the backward pass in
`distributed.autograd.engine`. A peer is how a request gets to another worker: threads of this
process here, sockets in `sockets`, Ray actors in `actors`.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
import traceback
from collections.abc import Callable
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from pullback.distributed import world
from pullback.distributed.autograd import contexts
from pullback.futures import Future

__all__ = [
    "Agent",
    "Peer",
    "Request",
    "WorkerInfo",
    "current_agent",
    "current_or_none",
    "serves",
    "waited",
]

_of_thread: ContextVar[Agent | None] = ContextVar("pullback_rpc_agent", default=None)
_of_process: Agent | None = None
DEFAULT_TIMEOUT = 60.0


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's name and number."""

    name: str
    id: int


class Request(NamedTuple):
    """What one worker asks of another."""

    kind: str
    sender: int
    context_id: int | None
    body: Any


class _Kind(NamedTuple):
    act: Callable[..., Any]
    first: Callable[[Agent, Request], None] | None
    at_once: bool
    later: bool


_kinds: dict[str, _Kind] = {}


def serves(
    kind: str,
    *,
    first: Callable[[Agent, Request], None] | None = None,
    at_once: bool = False,
    later: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what a kind of request does.

    It runs on a thread of the worker; `first` before that, in the order in which requests of one
    sender come, and with `at_once` all of it does: then it must be quick, and wait for nobody. With
    `later` that too, and the answer is given by whoever settles the future that it gets.
    """

    def take(act: Callable[..., Any]) -> Callable[..., Any]:
        _kinds[kind] = _Kind(act, first, at_once, later)
        return act

    return take


def current_or_none() -> Agent | None:
    """The worker that this thread works for, or else this process."""
    return _of_thread.get() or _of_process


def current_agent() -> Agent:
    """The worker that this thread works for, or else this process."""
    agent = _of_thread.get() or _of_process
    if agent is None:
        raise RuntimeError("There is no RPC here yet: call distributed.rpc.init_rpc() first.")
    return agent


class Peer:
    """A worker as the others see it; a transport says how a request gets there."""

    shares_memory = False

    def __init__(self, info: WorkerInfo) -> None:
        self.info = info

    def ask(self, request: Request, future: Future[Any]) -> None:
        """Hand a request over; its answer goes to the future."""
        raise NotImplementedError

    def close(self) -> None:
        """Say good-bye; nothing is asked after that."""


class _Neighbour(Peer):
    """A worker that is a thread of this process."""

    shares_memory = True

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.info)
        self._agent = agent

    def ask(self, request: Request, future: Future[Any]) -> None:
        self._agent.accept(request, future)


class Directory:
    """All workers of a job, as one of them sees them."""

    def __init__(self) -> None:
        self.by_name: dict[str, Peer] = {}
        self.by_id: dict[int, Peer] = {}
        self.meetings: Any = None  # of all workers; the one with the number 0 has them

    def add(self, peer: Peer) -> None:
        """Make a worker known."""
        self.by_name[peer.info.name] = self.by_id[peer.info.id] = peer


class Agent:
    """One worker."""

    def __init__(
        self,
        info: WorkerInfo,
        directory: Directory,
        timeout: float = DEFAULT_TIMEOUT,
        home: Any = None,
        device_maps: Any = None,
    ) -> None:
        from pullback.distributed.rpc.kept import Kept

        self.info = info
        self.directory = directory
        self.timeout = timeout
        self.device_maps = device_maps  # `options.DeviceMaps`
        self.contexts = contexts.Container(self, info.id)
        self.kept = Kept(self)
        self.numbers = itertools.count()
        self.gone: str | None = None
        self.at_end: list[Callable[[], None]] = []
        self._home = home  # the world of the rank, where ranks are threads
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        self._running = 0
        self._hands: list[queue.SimpleQueue[Any]] = []
        self.idle = threading.Condition(self._lock)

    def enter(self) -> None:
        """Let this thread work for the worker; where ranks are processes, all threads."""
        global _of_process
        if self._home is None:
            _of_process = self
        else:
            _of_thread.set(self)

    def leave(self) -> None:
        """Work for nobody."""
        global _of_process
        _of_thread.set(None)
        if _of_process is self:
            _of_process = None

    def as_neighbour(self) -> Peer:
        """This worker as those in the same process see it."""
        return _Neighbour(self)

    def find(self, to: Any) -> Peer:
        """A worker by name, number or info."""
        if isinstance(to, WorkerInfo):
            to = to.id
        known = (self.directory.by_id if isinstance(to, int) else self.directory.by_name).get(to)
        if known is None:
            names = ", ".join(sorted(self.directory.by_name))
            raise ValueError(f"There is no worker {to!r}; there are {names}.")
        return known

    # ------------------------------------------------------------------ asking

    def ask(
        self, to: Any, kind: str, body: Any = None, context_id: int | None = None
    ) -> Future[Any]:
        """Ask a worker for something; a future of the answer."""
        future: Future[Any] = Future()
        request = Request(kind, self.info.id, context_id, body)
        if to == self.info.id:
            self.accept(request, future)
        else:
            self.find(to).ask(request, future)
        return future

    def settle(self, future: Future[Any], well: bool, value: Any) -> None:
        """An answer has come: a thread that reads answers must not be the one to act on it."""

        def act() -> None:
            with contextlib.suppress(RuntimeError):  # failed in this moment
                if well:
                    future.set_result(value)
                else:
                    future.set_exception(value)

        if future._callbacks and self.gone is None:  # which may wait for answers themselves
            self.submit(act, Future())
        else:
            act()

    # ------------------------------------------------------------------ serving

    def accept(self, request: Request, future: Future[Any]) -> None:
        """Take a request; its answer, or what went wrong, goes to the future."""
        kind = _kinds[request.kind]
        if self.gone is not None:
            raise RuntimeError(f"worker {self.info.name!r} is gone: {self.gone}.")
        if kind.first is not None:
            kind.first(self, request)
        if kind.later:
            kind.act(self, request, future)
            return
        if kind.at_once:
            future.set_result(kind.act(self, request))
            return
        self.submit(lambda: future.set_result(kind.act(self, request)), future, request.context_id)

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
        _of_thread.set(self)
        if self._home is not None:
            world._of_thread.set(self._home)
        contexts.enter(context_id)
        try:
            act()
        except Exception as error:
            trace = traceback.format_exc()
            if not hasattr(error, "_pullback_worker"):  # the first who says so was there
                error._pullback_worker = self.info.name  # type: ignore[attr-defined]  # a note on the error
                error.add_note(f"On worker {self.info.name!r}:\n{trace}")
            self._fail(future, error)
        finally:
            with self._lock:
                self._waiting.discard(future)
                self._running -= 1
                self.idle.notify_all()

    def _fail(self, future: Future[Any], error: Exception) -> None:
        with contextlib.suppress(RuntimeError):  # when the worker dies that fails the future
            if not future.done():
                future.set_exception(error)

    # ------------------------------------------------------------------ ending

    def drain(self, timeout: float) -> None:
        """Wait until no call runs."""
        until = time.monotonic() + timeout
        with self._lock:
            while self._running:
                left = until - time.monotonic()
                if left <= 0:
                    raise RuntimeError(
                        f"rpc.shutdown(): {self._running} call(s) still run on worker "
                        f"{self.info.name!r} after {timeout} s."
                    )
                self.idle.wait(min(left, 1.0))

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
            self._fail(future, RuntimeError(f"worker {self.info.name!r} died: {reason}."))
        self.kept.close()
        for act in self.at_end:
            act()
        self.at_end.clear()
        self.leave()


def waited(future: Future[Any], timeout: float, what: str) -> Any:
    """The result of a call, or an error when time is up; 0 seconds are for ever."""
    until = time.monotonic() + timeout if timeout else None
    with future._done:
        while not future.done():
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise RuntimeError(f"{what} was not answered within {timeout} s.")
            future._done.wait(left)
    try:
        return future.value()
    finally:
        del future  # an error knows this frame: with the future in it that were a cycle
