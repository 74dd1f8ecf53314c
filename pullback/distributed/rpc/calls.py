"""Calls of functions on other workers: what goes there, what is done there, what comes back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.distributed.autograd import contexts
from pullback.distributed.autograd.messages import Message, receive, send
from pullback.distributed.rpc import events
from pullback.distributed.rpc.agent import Agent, Peer, Request, WorkerInfo, serves, waited
from pullback.distributed.rpc.rref import RRef
from pullback.distributed.rpc.wire import Packed, pack, unpack
from pullback.futures import Future

__all__ = ["Answer", "called", "fetched", "named", "referred"]


class Answer(Future[Any]):
    """The result of a call, which is waited for no longer than the call's own limit."""

    def __init__(self, timeout: float, what: str) -> None:
        super().__init__()
        self._timeout, self._what = timeout, what

    def wait(self) -> Any:
        """Wait for the result; raise the error that came instead, or that none came in time."""
        try:
            return waited(self, self._timeout, self._what)
        finally:
            del self  # an error knows this frame: with the future in it that were a cycle


class _Call(NamedTuple):
    """The body of a request to call something."""

    packed: Packed
    message: Message
    number: int | None  # of the result, where it stays
    recorded: bool  # whether the asker profiles


class _Reply(NamedTuple):
    packed: Packed
    message: Message
    events: list[Any]


def named(function: Any) -> str:
    """What a function is called in messages."""
    return str(getattr(function, "__name__", None) or repr(function))


def _asked(
    agent: Agent, to: Any, function: Any, args: Any, kwargs: Any, number: int | None
) -> tuple[Peer, _Call, int | None, list[RRef]]:
    if not callable(function):
        raise TypeError(f"rpc: a function is called, got {type(function).__name__}.")
    peer = agent.find(to)
    given = (function, tuple(args or ()), dict(kwargs or {}))
    packed, tensors, lent = pack(given, agent, peer)
    context_id = contexts.current_id()
    message = send(agent, context_id, tensors, peer)
    return peer, _Call(packed, message, number, events.wanted()), context_id, lent


def called(
    agent: Agent,
    to: Any,
    function: Callable[..., Any],
    args: Any,
    kwargs: Any,
    limit: float,
    kind: str,
) -> Future[Any]:
    """Start a call; a future of its result here."""
    peer, body, context_id, lent = _asked(agent, to, function, args, kwargs, None)
    out = Answer(limit, f"{named(function)}() on {peer.info.name!r}")
    done = events.call(kind, named(function), agent.info.name, peer.info.name)
    _answered(agent, peer, "call", body, context_id, out, (lent, done))
    return out


def referred(
    agent: Agent, to: Any, function: Callable[..., Any], args: Any, kwargs: Any, limit: float
) -> RRef:
    """Start a call whose result stays there; a reference to it."""
    number = agent.kept.number()
    peer, body, context_id, lent = _asked(agent, to, function, args, kwargs, number)
    made = Answer(limit, f"{named(function)}() on {peer.info.name!r}")
    done = events.call("remote", named(function), agent.info.name, peer.info.name)
    _answered(agent, peer, "remote", body, context_id, made, (lent, done))
    return RRef._of(agent, peer.info, number, made)


def fetched(agent: Agent, owner: WorkerInfo, number: int, limit: float) -> Future[Any]:
    """Ask for a copy of a value that is kept elsewhere."""
    peer = agent.find(owner)
    out = Answer(limit, f"to_here() from {owner.name!r}")
    context_id = contexts.current_id()
    if context_id is not None:
        agent.contexts.met(context_id, owner.id)
    done = events.call("to_here", "value", agent.info.name, owner.name)
    _answered(agent, peer, "fetch", (number, limit), context_id, out, ([], done))
    return out


def _answered(
    agent: Agent,
    peer: Peer,
    kind: str,
    body: Any,
    context_id: int | None,
    out: Future[Any],
    until_then: tuple[list[RRef], Callable[[list[Any]], None]],
) -> None:
    """Ask, and turn the answer into the result that `out` promises."""
    raw: Future[Any] = Future()

    def finish(raw: Future[Any], until_then: Any = until_then) -> None:
        _lent, done = until_then
        error, reply = raw._error, raw._result
        done([] if reply is None else reply.events)
        if error is None:
            try:
                result = None if reply is None else _result(agent, peer, context_id, reply)
            except Exception as unreadable:
                error = unreadable.with_traceback(None)  # which knows this frame, and that `out`
        if error is None:
            out.set_result(result)
        else:
            out.set_exception(error)

    raw._when_done(finish)
    request = Request(kind, agent.info.id, context_id, body)
    if peer.info == agent.info:
        agent.accept(request, raw)
    else:
        peer.ask(request, raw)


def _result(agent: Agent, peer: Peer, context_id: int | None, reply: _Reply) -> Any:
    tensors = receive(agent, context_id, reply.message, peer)
    return unpack(reply.packed, tensors, agent)


# ------------------------------------------------------------------ on the other side


def _served(agent: Agent, request: Request, body: _Call) -> Any:
    peer = agent.find(request.sender)
    tensors = receive(agent, request.context_id, body.message, peer)
    function, args, kwargs = unpack(body.packed, tensors, agent)
    return function(*args, **kwargs)


def _reply(agent: Agent, request: Request, value: Any, recorded: list[Any]) -> _Reply:
    peer = agent.find(request.sender)
    packed, tensors, _ = pack(value, agent, peer, answers=True)
    return _Reply(packed, send(agent, request.context_id, tensors, peer), recorded)


@serves("call")
def _call(agent: Agent, request: Request) -> _Reply:
    body: _Call = request.body
    serve = functools.partial(_served, agent, request, body)
    value, recorded = events.served(serve, agent.info.id) if body.recorded else (serve(), [])
    return _reply(agent, request, value, recorded)


def _promise(agent: Agent, request: Request) -> None:
    agent.kept.promise(request.body.number)


@serves("remote", first=_promise)
def _remote(agent: Agent, request: Request) -> None:
    body: _Call = request.body
    assert body.number is not None
    try:
        cell: Future[Any] = agent.kept.cell(body.number)
    except RuntimeError:  # the reference is lost already, but the call is to be made
        cell = Future()
    try:
        cell.set_result(_served(agent, request, body))
    except Exception as error:
        cell.set_exception(error)
        raise


@serves("fetch")
def _fetch(agent: Agent, request: Request) -> _Reply:
    number, limit = request.body
    value = waited(agent.kept.cell(number), limit, "The value of an RRef")
    return _reply(agent, request, value, [])
