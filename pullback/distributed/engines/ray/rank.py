"""A rank that is a Ray actor: it runs the program, and serves requests beside it."""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import time
from collections.abc import Callable
from typing import Any

from pullback.futures import Future

__all__ = ["Rank"]

_PATIENCE = 30.0  # seconds in which a program must have called init_rpc
_served_by: list[Any] = []  # the worker of this process, once init_rpc has made it


def serve_with(agent: Any) -> None:
    """Let the requests that come to this actor be this worker's."""
    _served_by[:] = [agent]


class Rank:
    """The actor. Its methods are coroutines, so that requests are served while the program runs."""

    async def place(self) -> tuple[str, int, int]:
        """An address and a free port here, and the number of the process."""
        import ray

        host = ray.util.get_node_ip_address()
        with socket.socket() as probe:
            probe.bind((host, 0))
            return host, int(probe.getsockname()[1]), os.getpid()

    async def main(
        self, variables: dict[str, str], function: Callable[..., Any], args: tuple[Any, ...]
    ) -> Any:
        """Run the program, on a thread of its own, with these environment variables."""
        os.environ.update(variables)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, _run, function, args)

    async def serve(self, data: bytes) -> bytes:
        """One request of another worker."""
        from pullback.distributed.engines.ray.peer import answered

        loop = asyncio.get_running_loop()
        there = asyncio.Event()
        future: Future[Any] = Future()
        future._when_done(lambda _: loop.call_soon_threadsafe(there.set))
        try:
            (await _worker()).accept(pickle.loads(data), future)
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        await there.wait()
        return answered(future)


async def _worker() -> Any:
    """The worker of this actor; others may be there, and ask, a little earlier."""
    until = time.monotonic() + _PATIENCE
    while not _served_by:
        if time.monotonic() > until:
            raise RuntimeError("This actor is no RPC worker: it has not called init_rpc().")
        await asyncio.sleep(0.005)
    return _served_by[0]


def _run(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    from pullback.distributed import world
    from pullback.distributed.rpc.agent import current_or_none

    try:
        return function(*args)
    finally:
        agent = current_or_none()
        if agent is not None:
            agent.die("its program has ended")
        if world.current_world() is not None:
            world.destroy_process_group()
