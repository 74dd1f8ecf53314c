"""Calls on other workers, whose tensors keep their gradients in a distributed autograd context.

Workers are ranks of the thread engine (`distributed.threads.run`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.explain.absent import all_absent as _all_absent
from pullback.core.listing import only_public as _only_public
from pullback.distributed import collectives, objects, world
from pullback.distributed.rpc.agent import (
    DEFAULT_TIMEOUT,
    Agent,
    Directory,
    WorkerInfo,
    current_agent,
    current_or_none,
    waited,
)
from pullback.distributed.rpc.rref import RRef
from pullback.futures import Future

__all__ = [
    "RRef",
    "WorkerInfo",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


def is_available() -> bool:
    """Always: workers may be threads."""
    return True


def init_rpc(
    name: str,
    backend: Any = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: Any = None,
    *,
    timeout: float = DEFAULT_TIMEOUT,
) -> None:
    """Become a worker called `name`. All ranks of the default group call this."""
    default = world.group_of(None)
    assert default is not None
    if not default.communicator.ranks_are_threads:
        raise NotImplementedError(
            "init_rpc: workers are the ranks of distributed.threads.run(); RPC between processes "
            "is not possible."
        )
    if current_or_none() is not None:
        raise RuntimeError("init_rpc() was called already; shutdown() ends that.")
    if rank not in (-1, default.rank()) or world_size not in (None, default.size()):
        raise ValueError(
            f"init_rpc: this is rank {default.rank()} of {default.size()}, not {rank} of "
            f"{world_size}."
        )
    names: list[Any] = [None] * default.size()
    objects.all_gather_object(names, name)
    if len(set(names)) < len(names):
        raise ValueError(f"init_rpc: every worker has a name of its own, got {names}.")
    shared: Any = default.communicator
    key = ("rpc", shared.room)
    home = world.current_world()
    assert home is not None
    with shared.room.world.changed:
        directory = shared.room.world.rooms.setdefault(key, Directory())
    agent = Agent(WorkerInfo(name, default.rank()), directory, home, timeout)
    directory.by_name[name] = directory.by_id[default.rank()] = agent
    agent.enter()
    home.at_end.append(lambda: agent.die("its rank has ended"))
    collectives.barrier()


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Stop being a worker; gracefully, when no worker has calls left."""
    from pullback.distributed.rpc import agent as agents

    agent = current_agent()
    if graceful:
        collectives.barrier()
        agent.drain()
        collectives.barrier()
    agent.die("it has shut down")
    agents._agent.set(None)


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """A worker's info; this one's without a name."""
    agent = current_agent()
    return agent.info if worker_name is None else agent.find(worker_name).info


def _named(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def rpc_sync(
    to: Any,
    func: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    timeout: float | None = None,
) -> Any:
    """Call a function on a worker and wait for the result; what it raises is raised here."""
    agent = current_agent()
    future = agent.call(to, func, args, kwargs)
    limit = timeout if timeout else agent.timeout
    return waited(future, limit, f"{_named(func)}() on {agent.find(to).info.name!r}")


def rpc_async(
    to: Any,
    func: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    timeout: float | None = None,
) -> Future[Any]:
    """Call a function on a worker; a future of the result."""
    return current_agent().call(to, func, args, kwargs)


def remote(
    to: Any,
    func: Callable[..., Any],
    args: Any = None,
    kwargs: Any = None,
    timeout: float | None = None,
) -> RRef:
    """Call a function on a worker, where the result stays; an RRef to it."""
    agent = current_agent()
    cell = agent.call(to, func, args, kwargs, keep=True)
    return RRef._of(agent.find(to), cell)


__getattr__ = _all_absent(__name__)

__dir__ = _only_public(globals())
