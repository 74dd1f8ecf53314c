"""`RRef`: a value that lives on one worker, held from any."""

from __future__ import annotations

from typing import Any

from pullback.distributed.rpc.agent import Agent, WorkerInfo, current_agent, waited
from pullback.futures import Future

__all__ = ["RRef"]


class RRef:
    """A reference to a value on its owner.

    >>> import pullback.distributed as dist
    >>> from pullback.distributed import rpc
    >>> def main():
    ...     rpc.init_rpc(f"worker{dist.get_rank()}")
    ...     if dist.get_rank() == 0:
    ...         total = rpc.remote("worker1", max, args=([1, 2],)).to_here()
    ...     else:
    ...         total = None
    ...     rpc.shutdown()
    ...     return total
    >>> dist.threads.run(main, 2)
    [2, None]
    """

    _travels_whole = True

    def __init__(self, value: Any, type_hint: Any = None) -> None:
        self._owner = current_agent()
        self._cell: Future[Any] = Future()
        self._cell.set_result(value)

    @classmethod
    def _of(cls, owner: Agent, cell: Future[Any]) -> RRef:
        made = cls.__new__(cls)
        made._owner, made._cell = owner, cell
        return made

    def __reduce__(self) -> Any:
        raise RuntimeError("An RRef goes to other workers as an argument of RPCs, not by pickle.")

    def owner(self) -> WorkerInfo:
        """The worker that has the value."""
        return self._owner.info

    def owner_name(self) -> str:
        """Its name."""
        return self._owner.info.name

    def is_owner(self) -> bool:
        """Whether that is this one."""
        return current_agent() is self._owner

    def confirmed_by_owner(self) -> bool:
        """Whether the value is there."""
        return self._cell.done()

    def local_value(self) -> Any:
        """The value itself, on its owner."""
        if not self.is_owner():
            raise RuntimeError(
                f"local_value() is for the owner, {self.owner_name()!r}; here use to_here()."
            )
        return self._cell.wait()

    def to_here(self, timeout: float | None = None) -> Any:
        """A copy of the value; in an autograd context its gradient finds back."""
        agent = current_agent()
        limit = agent.timeout if timeout is None else timeout
        if agent is self._owner:
            return waited(self._cell, limit, "to_here()")
        cell = self._cell
        future = agent.call(self._owner.info, lambda: cell.wait(), (), {})
        return waited(future, limit, f"to_here() from {self.owner_name()!r}")

    def rpc_sync(self, timeout: float | None = None) -> _Proxy:
        """Methods of the value, called on its owner, waited for."""
        return _Proxy(self, "sync", timeout)

    def rpc_async(self, timeout: float | None = None) -> _Proxy:
        """Methods of the value, called on its owner; futures of their results."""
        return _Proxy(self, "async", timeout)

    def remote(self, timeout: float | None = None) -> _Proxy:
        """Methods of the value, called on its owner; RRefs to their results."""
        return _Proxy(self, "remote", timeout)

    def __repr__(self) -> str:
        return f"RRef(owner={self.owner_name()!r})"


def _call_method(rref: RRef, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return getattr(rref.local_value(), name)(*args, **kwargs)


class _Proxy:
    def __init__(self, rref: RRef, way: str, timeout: float | None) -> None:
        self._rref, self._way, self._timeout = rref, way, timeout

    def __getattr__(self, name: str) -> Any:
        from pullback.distributed import rpc

        start = {"sync": rpc.rpc_sync, "async": rpc.rpc_async, "remote": rpc.remote}[self._way]
        rref, timeout = self._rref, self._timeout

        def method(*args: Any, **kwargs: Any) -> Any:
            given = {} if timeout is None else {"timeout": timeout}
            return start(rref.owner(), _call_method, (rref, name, args, kwargs), **given)

        return method
