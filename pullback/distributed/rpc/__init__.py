"""Calls on other workers, whose tensors keep their gradients in a distributed autograd context.

Workers are processes (`pullback launch`, or RANK and WORLD_SIZE) that talk over sockets, actors of
Ray, or ranks of the thread engine (`distributed.threads.run`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import only_public as _only_public
from pullback.distributed.rpc.agent import (
    DEFAULT_TIMEOUT,
    Agent,
    WorkerInfo,
    current_agent,
    current_or_none,
)
from pullback.distributed.rpc.calls import called, referred
from pullback.distributed.rpc.options import (
    BackendType,
    RpcBackendOptions,
    TensorPipeRpcBackendOptions,
)
from pullback.distributed.rpc.rref import RRef
from pullback.futures import Future

__all__ = [
    "BackendType",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


def is_available() -> bool:
    """Always: workers are threads, or processes that talk over sockets."""
    return True


def init_rpc(
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: Any = None,
    *,
    timeout: float | None = None,
) -> None:
    """Become a worker called `name`; back when all are there.

    Where there is a default group its ranks are the workers. Otherwise they find one another by
    `rank`, `world_size` and `init_method` of the options, or by RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT, which `pullback launch` sets.
    """
    from pullback.distributed.autograd import engine
    from pullback.distributed.rpc.gathering import gathered

    if current_or_none() is not None:
        raise RuntimeError("init_rpc() was called already; shutdown() ends that.")
    if backend not in (None, BackendType.TENSORPIPE, "sockets", "threads"):
        raise ValueError(f"init_rpc: backend is BackendType.TENSORPIPE or None, got {backend!r}.")
    options = rpc_backend_options or TensorPipeRpcBackendOptions()
    limit = getattr(options, "rpc_timeout", DEFAULT_TIMEOUT) if timeout is None else timeout
    maps = getattr(options, "device_maps", {})
    gathered(name, rank, world_size, limit, maps, options.init_method).enter()


def _set_rpc_timeout(seconds: float) -> None:
    """How long calls wait from now on, where they do not say it themselves."""
    current_agent().timeout = float(seconds)


def get_rpc_timeout() -> float:
    """How long calls wait, where they do not say it themselves."""
    return float(current_agent().timeout)


def shutdown(graceful: bool = True, timeout: float = DEFAULT_TIMEOUT) -> None:
    """Stop being a worker; gracefully, when no worker has calls left."""
    from pullback.distributed.rpc.meeting import meet

    agent = current_agent()
    try:
        if graceful:
            meet(agent, "rpc.shutdown()", timeout)
            agent.drain(timeout or DEFAULT_TIMEOUT)
            meet(agent, "rpc.shutdown(), when all calls had ended", timeout)
    finally:
        agent.die("it has shut down")


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """A worker's info; this one's without a name."""
    agent = current_agent()
    return agent.info if worker_name is None else agent.find(worker_name).info


def _named(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def _limit(agent: Agent, timeout: float | None) -> float:
    """Seconds for a call: those that are given, or the worker's; 0 for no limit."""
    return agent.timeout if timeout is None or timeout < 0 else timeout


def rpc_sync(
    to: Any,
    func: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    timeout: float | None = None,
) -> Any:
    """Call a function on a worker and wait for the result; what it raises is raised here."""
    agent = current_agent()
    return called(agent, to, func, args, kwargs, _limit(agent, timeout), "rpc_sync").wait()


def rpc_async(
    to: Any,
    func: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    timeout: float | None = None,
) -> Future[Any]:
    """Call a function on a worker; a future of the result."""
    agent = current_agent()
    return called(agent, to, func, args, kwargs, _limit(agent, timeout), "rpc_async")


def remote(
    to: Any,
    func: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    timeout: float | None = None,
) -> RRef:
    """Call a function on a worker, where the result stays; an RRef to it."""
    agent = current_agent()
    return referred(agent, to, func, args, kwargs, _limit(agent, timeout))


if not TYPE_CHECKING:  # to type checkers it would mean that every name is there

    def __getattr__(name: str) -> Any:
        if name == "api":
            return _import_module("pullback.distributed.rpc.api")
        raise _absent(__name__, name)


__dir__ = _only_public(globals())
