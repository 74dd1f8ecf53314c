"""Contexts: on each worker, what one distributed backward pass has to know.

That is the tensors that were sent and received while it was entered, with the peer of each, and the
gradients of this worker's leaves, which are here and not in `.grad`.
"""

from __future__ import annotations

import itertools
import logging
import threading
from contextvars import ContextVar
from typing import Any

__all__ = ["Container", "Context", "current_id", "enter"]

_current: ContextVar[int | None] = ContextVar("pullback_distributed_context", default=None)
_BITS = 48  # of the counter; above it are those of the worker
_REMEMBERED = 4096  # contexts that have been left, for messages that come late
_log = logging.getLogger("pullback.distributed")


def current_id() -> int | None:
    """The context that this thread is in."""
    return _current.get()


def enter(context_id: int | None) -> None:
    """Put this thread into a context, or out of any."""
    _current.set(context_id)


class Sent:
    """Tensors that have gone to a peer: where gradients that come back go on from."""

    def __init__(self, edges: list[Any], devices: list[Any], peer: int) -> None:
        self.edges = edges
        self.devices = devices  # where each was, and its gradient goes
        self.peer = peer

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes of this worker's graph that gradients go on to, as a node has them."""
        return tuple((edge.node, edge.output_nr) for edge in self.edges)

    def name(self) -> str:
        """What torch calls the node."""
        return "torch::distributed::autograd::SendRpcBackward"


class Received:
    """Tensors that have come from a peer: where gradients go back to it."""

    def __init__(self, edges: list[Any], like: list[Any], peer: int) -> None:
        self.edges = edges
        self.like = like  # shape and dtype of each
        self.peer = peer

    # This worker's graph ends here.
    next_functions: tuple[tuple[Any, int], ...] = ()

    def name(self) -> str:
        """What torch calls the node."""
        return "torch::distributed::autograd::RecvRpcBackward"


class Context:
    """One context on one worker."""

    def __init__(self, context_id: int) -> None:
        self.id = context_id
        self.known: set[int] = set()
        self.sends: dict[int, Sent] = {}
        self.receives: dict[int, Received] = {}
        self.gradients: dict[Any, Any] = {}
        self.lock = threading.RLock()
        self.running: Any = None  # the pass under way here

    def _context_id(self) -> int:
        return self.id

    def _known_worker_ids(self) -> set[int]:
        return set(self.known)

    def _send_functions(self) -> dict[int, Sent]:
        return dict(self.sends)

    def _recv_functions(self) -> dict[int, Received]:
        return dict(self.receives)


class Container:
    """The contexts of one worker."""

    def __init__(self, agent: Any, worker: int) -> None:
        self._agent = agent
        self._worker = worker
        self._known: dict[int, Context] = {}
        self._left: dict[int, None] = {}
        self._lock = threading.Lock()
        self._context_ids = itertools.count()
        self._message_ids = itertools.count()

    def new(self) -> Context:
        """A context that begins here."""
        made = self.of(self._worker << _BITS | next(self._context_ids))
        assert made is not None
        return made

    def message_id(self) -> int:
        """A number for a pair of sent and received tensors, unlike any other worker's."""
        return self._worker << _BITS | next(self._message_ids)

    def of(self, context_id: int | None) -> Context | None:
        """A context by its number, made at the first contact; None when it has been left."""
        if context_id is None:
            return None
        with self._lock:
            known = self._known.get(context_id)
            if known is None and context_id not in self._left:
                known = self._known[context_id] = Context(context_id)
        if known is None:
            _log.debug("A message for autograd context %d came after it was left.", context_id)
        return known

    def met(self, context_id: int, worker: int) -> None:
        """Remember that a context has to do with a worker."""
        known = self.of(context_id)
        if known is not None:
            known.known.add(worker)

    def need(self, context_id: int) -> Context:
        """A context that is there, or an error."""
        known = self._known.get(context_id)
        if known is None:
            raise RuntimeError(
                f"There is no autograd context {context_id} on worker "
                f"{self._agent.info.name!r}: it was never entered here, or has been left."
            )
        return known

    def has(self, context_id: int) -> bool:
        """Whether a context is there."""
        return context_id in self._known

    def left(self, context_id: int) -> bool:
        """Whether a context was here and has been left; what comes for it is to be ignored."""
        return context_id in self._left

    def release(self, context_id: int) -> set[int]:
        """Forget a context; which workers it had to do with."""
        with self._lock:
            known = self._known.pop(context_id, None)
            self._left[context_id] = None
            if len(self._left) > _REMEMBERED:
                del self._left[next(iter(self._left))]
        return set() if known is None else known.known

    def __len__(self) -> int:
        return len(self._known)

    def running(self) -> int:
        """How many passes are under way."""
        return sum(one.running is not None for one in list(self._known.values()))
