"""The distributed backward pass.

First it is marked: from the roots on, workers tell one another which of the tensors they sent will
get a gradient. Then gradients flow. A worker that has all gradients it waits for runs one local
pass, which serves its leaves and whatever goes back to others. Where something goes back to others
before all is there (a value that went to a worker and came home again), a local pass for just that
runs first. A pass's gradients join the context's when all workers have finished; if one fails they
are dropped everywhere.

What a pass costs is round trips between workers. Marks and gradients that go back to the worker
that asks are in the answer to it, and who keeps nothing is not waited for at the end: through one
call that are two.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.autograd import grad
from pullback.autograd.graph import get_gradient_edge
from pullback.core.node import AccumulateGrad, walk
from pullback.core.tensor import Tensor
from pullback.distributed.autograd.contexts import Context
from pullback.distributed.autograd.messages import landed, taken
from pullback.distributed.ddp.reducer import average_in_context
from pullback.distributed.rpc.agent import Agent, Request, current_agent, serves, waited
from pullback.futures import Future
from pullback.operators.create.sizes import ones, zeros

__all__ = ["backward", "everywhere"]

_log = logging.getLogger("pullback.distributed")
_CLEANING = 5.0  # seconds that other workers have to answer when something is cleared away
_WAITING = "A worker's part of the pass"


class _Parcel(NamedTuple):
    """The gradients of one message, on their way to the worker that had sent it."""

    to: int
    message: int
    arrays: list[Any]


class _Pass:
    """One backward pass on one worker."""

    def __init__(self, context: Context, *, everything: bool) -> None:
        self.context = context
        # Sends that will get a gradient; the roots are under the number None.
        self.awaited: dict[int | None, list[Any]] = {}
        self.arrived: dict[int | None, list[Any]] = {}
        self.shipped: set[int] = set()
        self.staged: dict[Any, Any] = {}
        self.reach: dict[int | None, tuple[set[int], list[Tensor]]] = {}
        self.keep = False
        if everything:  # the fast way: all that was sent is taken to get a gradient
            for number, sent in context.sends.items():
                self.expect(number, sent.edges)

    def expect(self, number: int | None, edges: list[Any]) -> set[int]:
        """Await gradients for edges; the receives that they lead to."""
        if number not in self.awaited:
            self.awaited[number] = edges
            self.reach[number] = self._reached(edges)
        return self.reach[number][0]

    def _reached(self, edges: list[Any]) -> tuple[set[int], list[Tensor]]:
        receives = {
            edge.node: number
            for number, received in self.context.receives.items()
            for edge in received.edges
        }
        found: set[int] = set()
        leaves: list[Tensor] = []
        for node in walk(iter([edge.node for edge in edges])):
            if node in receives:
                found.add(receives[node])
            elif isinstance(node, AccumulateGrad):
                leaves.append(node.variable)
        return found, leaves

    @property
    def complete(self) -> bool:
        return self.awaited.keys() == self.arrived.keys()

    def ready(self) -> list[int]:
        """Receives whose gradients nothing that has not arrived can change."""
        waiting = self.awaited.keys() - self.arrived.keys()
        blocked = {number for one in waiting for number in self.reach[one][0]}
        reached = {number for one in self.arrived for number in self.reach[one][0]}
        return sorted(reached - blocked - self.shipped)

    def run(self) -> list[tuple[int, list[Any]]]:
        """A local pass for what can be known by now; gradients to ship, by message."""
        numbers = self.ready()
        leaves = self._leaves() if self.complete else []
        inputs: list[Any] = [
            edge for number in numbers for edge in self.context.receives[number].edges
        ]
        inputs += [get_gradient_edge(leaf) for leaf in leaves]
        self.shipped.update(numbers)
        if not inputs:
            return []
        roots, given = [], []
        for number, gradients in self.arrived.items():
            roots += self.awaited[number]
            given += gradients
        found = list(
            grad(
                roots, inputs, given, retain_graph=self.keep or not self.complete, allow_unused=True
            )
        )
        for leaf, gradient in zip(leaves, found[len(found) - len(leaves) :], strict=True):
            if gradient is not None:
                self.staged[leaf] = gradient
        return self._parted(numbers, found)

    def _leaves(self) -> list[Tensor]:
        """This worker's leaves; not those at which the graph of a received tensor begins."""
        starts = {
            id(node.variable)
            for received in self.context.receives.values()
            for edge in received.edges
            for node in walk(iter([edge.node]))
            if isinstance(node, AccumulateGrad)
        }
        found = {id(leaf): leaf for _, leaves in self.reach.values() for leaf in leaves}
        return [leaf for key, leaf in found.items() if key not in starts]

    def _parted(self, numbers: list[int], found: list[Any]) -> list[tuple[int, list[Any]]]:
        out, start = [], 0
        for number in numbers:
            like = self.context.receives[number].like
            part = found[start : start + len(like)]
            start += len(like)
            filled = [
                zeros(shape, dtype=dtype) if one is None else one.detach()
                for one, (shape, dtype) in zip(part, like, strict=True)
            ]
            out.append((number, filled))
        return out


def backward(
    context_id: int, roots: Sequence[Tensor], retain_graph: bool = False, *, mode: str = "smart"
) -> None:
    """Gradients of the sum of the roots, in the contexts of all workers they lead to.

    `mode="fast"` takes every tensor that was sent to have a part in the roots, and skips the
    messages that would find out; an unused result is then an error.
    """
    agent = current_agent()
    context = agent.contexts.need(context_id)
    edges = _checked(list(roots))
    if mode not in ("smart", "fast"):
        raise ValueError(f"mode is 'smart' or 'fast', got {mode!r}.")
    with context.lock:
        if context.running is not None:
            raise RuntimeError(f"A backward pass runs already in context {context_id}.")
        context.running = _Pass(context, everything=mode == "fast")
        context.running.keep = retain_graph
        receives = context.running.expect(None, edges)
    try:
        if mode == "smart":
            _mark_all(agent, context, receives, retain_graph)
        start = [ones(root.shape, dtype=root.dtype, device=root.device) for root in roots]
        parts = _ship(agent, context, _run(agent, context, None, start))
        _finish(agent, context_id, parts, mode)
    except Exception as error:
        everywhere(agent, context_id, "drop")
        raise RuntimeError(f"The distributed backward pass failed{_told(error)}") from error


def _checked(roots: list[Tensor]) -> list[Any]:
    if not roots:
        raise RuntimeError("distributed backward: there are no roots.")
    for number, root in enumerate(roots):
        if not root.requires_grad:
            raise RuntimeError(f"distributed backward: roots[{number}] does not require grad.")
        if root.numel() != 1:
            raise RuntimeError(
                f"distributed backward: roots[{number}] has {root.numel()} elements, not 1."
            )
        if root.grad_fn is None:
            raise RuntimeError(f"distributed backward: roots[{number}] has no grad_fn.")
    return [get_gradient_edge(root) for root in roots]


def _told(error: BaseException) -> str:
    where = getattr(error, "_pullback_worker", None)
    place = "" if where is None else f" on {where}"
    return f"{place}: {type(error).__name__}: {error}"


def _all(agent: Agent, futures: list[Future[Any]]) -> set[Any]:
    """All answers together; the first error, when all have answered."""
    together: set[Any] = set()
    failed: Exception | None = None
    for future in futures:
        try:
            together |= waited(future, agent.timeout, _WAITING)
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return together


# ------------------------------------------------------------------ marking


def _mark_all(agent: Agent, context: Context, receives: set[int], keep: bool) -> None:
    """Tell workers which of the tensors that they sent will get a gradient, from step to step."""
    here = agent.info.id
    told: set[tuple[int, int]] = set()
    found = {(context.receives[number].peer, number) for number in receives}
    while fresh := found - told:
        told |= fresh
        numbers: dict[int, list[int]] = {}
        for worker, number in sorted(fresh):
            numbers.setdefault(worker, []).append(number)
        asked = [
            agent.ask(worker, "mark", (context.id, those, keep))
            for worker, those in numbers.items()
            if worker != here
        ]
        found = _mark_here(context, numbers.get(here, []), keep) | _all(agent, asked)


@serves("mark")
def _mark(agent: Agent, request: Request) -> set[tuple[int, int]]:
    context_id, numbers, keep = request.body
    return _mark_here(agent.contexts.need(context_id), numbers, keep)


def _mark_here(context: Context, numbers: list[int], keep: bool) -> set[tuple[int, int]]:
    """Await gradients for these messages; those to be marked in turn, with who has sent them."""
    with context.lock:
        running = _joined(context, keep, everything=False)
        return {
            (context.receives[reached].peer, reached)
            for number in numbers
            for reached in running.expect(number, _sent(context, number).edges)
        }


def _joined(context: Context, keep: bool, *, everything: bool) -> _Pass:
    if context.running is None:
        context.running = _Pass(context, everything=everything)
        context.running.keep = keep
    running: _Pass = context.running
    return running


def _sent(context: Context, number: int) -> Any:
    if number not in context.sends:
        raise RuntimeError(f"Context {context.id} has sent no message {number} from here.")
    return context.sends[number]


# ------------------------------------------------------------------ gradients


def _run(agent: Agent, context: Context, number: int | None, given: list[Any]) -> list[_Parcel]:
    """Gradients have arrived: run what can be run; what goes on to whom."""
    with context.lock:
        running: _Pass = context.running
        running.arrived[number] = given
        outgoing = running.run()
    parcels = []
    for message, gradients in outgoing:
        peer = agent.find(context.receives[message].peer)
        arrays = [taken(one, copied=peer.shares_memory) for one in gradients]
        parcels.append(_Parcel(peer.info.id, message, arrays))
    return parcels


def _arrived(agent: Agent, context: Context, parcel: _Parcel, keep: bool) -> list[_Parcel]:
    """The same for gradients that come from another worker."""
    with context.lock:
        sent = _sent(context, parcel.message)
        if parcel.message in _joined(context, keep, everything=True).arrived:
            _log.debug(
                "The gradients of message %d of context %d came twice.", parcel.message, context.id
            )
            return []
    given = [landed(*one) for one in zip(parcel.arrays, sent.devices, strict=True)]
    return _run(agent, context, parcel.message, given)


def _ship(agent: Agent, context: Context, parcels: list[_Parcel]) -> dict[int, bool]:
    """Send gradients on, and what comes of those that return; who had a part, and keeps some.

    Answers are taken in the order of the questions, so that a worker goes on with the first while
    another has the second.
    """
    running: _Pass = context.running
    parts: dict[int, bool] = {}
    waiting: deque[Future[Any]] = deque()
    failed: Exception | None = None

    def send(parcels: list[_Parcel]) -> None:
        for one in parcels:
            waiting.append(agent.ask(one.to, "carry", (context.id, one, running.keep)))

    send(parcels)
    while waiting:
        try:
            there, returned = waited(waiting.popleft(), agent.timeout, _WAITING)
            for worker, keeps in there.items():
                parts[worker] = keeps or parts.get(worker, False)
            for one in returned if failed is None else ():
                send(_arrived(agent, context, one, running.keep))
        except Exception as error:
            failed = failed or error
    if failed is not None:
        raise failed
    parts[agent.info.id] = bool(running.staged)
    return parts


@serves("carry")
def _carry(agent: Agent, request: Request) -> tuple[dict[int, bool], list[_Parcel]]:
    """Take gradients; who had a part in what came of them, and what returns to the asker."""
    context_id, parcel, keep = request.body
    if agent.contexts.left(context_id):
        agent.contexts.of(context_id)  # which says so to the log
        return {}, []
    context = agent.contexts.need(context_id)
    parcels = _arrived(agent, context, parcel, keep)
    if any(one.to != request.sender for one in parcels):  # those to others may take long
        return _ship(agent, context, parcels), []
    return {agent.info.id: bool(context.running.staged)}, parcels


# ------------------------------------------------------------------ the end of a pass


def _finish(agent: Agent, context_id: int, parts: dict[int, bool], mode: str) -> None:
    """All messages are answered: check that nobody waits, then let gradients join the contexts'."""
    if mode == "fast":  # otherwise what is awaited is known to come
        asked = [agent.ask(worker, "misses", context_id) for worker in sorted(parts)]
        missing = _all(agent, asked)
        if missing:
            raise RuntimeError(
                f"no gradient came for the messages {sorted(missing)}: results of calls that the "
                "roots do not depend on, which mode='fast' does not allow."
            )
    others = []
    for worker in sorted(parts.keys() - {agent.info.id}):
        if parts[worker]:
            others.append(agent.ask(worker, "commit", context_id))
        else:  # nothing is lost, and the next that it is asked comes after this
            agent.ask(worker, "drop", context_id)
    _commit_here(agent, context_id)
    _all(agent, others)


@serves("misses", at_once=True)
def _misses(agent: Agent, request: Request) -> set[int]:
    running = agent.contexts.need(request.body).running
    return {n for n in running.awaited.keys() - running.arrived.keys() if n is not None}


@serves("commit")
def _commit(agent: Agent, request: Request) -> set[int]:
    _commit_here(agent, request.body)
    return set()


def _commit_here(agent: Agent, context_id: int) -> None:
    """A pass has succeeded everywhere: its gradients are the context's."""
    context = agent.contexts.need(context_id)
    with context.lock:
        staged = context.running.staged
        fresh = {leaf: _before_hooks(leaf, gradient) for leaf, gradient in staged.items()}
        for leaf, gradient in fresh.items():
            before = context.gradients.get(leaf)
            context.gradients[leaf] = gradient if before is None else before + gradient
        context.running = None
    average_in_context(context.gradients, set(fresh))
    for leaf, gradient in fresh.items():
        for hook in _hooks_of(leaf, "post_hooks"):
            hook((), (gradient,))


def _hooks_of(leaf: Tensor, kind: str) -> list[Any]:
    """Hooks of a leaf's accumulator: what they wait for happens in the context here."""
    cold = AccumulateGrad.of(leaf)._cold
    return [] if cold is None else list((getattr(cold, kind) or {}).values())


def _before_hooks(leaf: Tensor, gradient: Any) -> Any:
    for hook in _hooks_of(leaf, "pre_hooks"):
        changed = hook((gradient,))
        if changed is not None:
            gradient = changed[0] if isinstance(changed, tuple) else changed
    return gradient


def everywhere(agent: Agent, context_id: int, kind: str) -> None:
    """Ask every worker that a context has been to to drop its pass, or to release it.

    A worker that does not answer, or is dead, has nothing to keep: this never fails.
    """
    seen, waiting = {agent.info.id}, {agent.info.id}
    until = time.monotonic() + _CLEANING
    while waiting:
        futures = []
        for worker in sorted(waiting):
            with contextlib.suppress(Exception):
                futures.append(agent.ask(worker, kind, context_id))
        found: set[int] = set()
        for future in futures:
            with contextlib.suppress(Exception):
                left = max(0.01, until - time.monotonic())
                found |= waited(future, left, kind)
        waiting = found - seen
        seen |= found


@serves("drop", at_once=True)
def _drop(agent: Agent, request: Request) -> set[int]:
    if not agent.contexts.has(request.body):
        return set()
    context = agent.contexts.need(request.body)
    context.running = None
    return set(context.known)


@serves("release", at_once=True)
def _release(agent: Agent, request: Request) -> set[int]:
    return agent.contexts.release(request.body)
