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

    _agent: Agent
    _owner: WorkerInfo
    _number: int
    _made: Future[Any] | None

    def __init__(self, value: Any, type_hint: Any = None) -> None:
        agent = current_agent()
        number = agent.kept.number()
        agent.kept.promise(number).set_result(value)
        self._set(agent, agent.info, number, None)

    def _set(self, agent: Agent, owner: WorkerInfo, number: int, made: Future[Any] | None) -> None:
        self._agent, self._owner, self._number, self._made = agent, owner, number, made
        agent.kept.watch()

    @classmethod
    def _of(
        cls, agent: Agent, owner: WorkerInfo, number: int, made: Future[Any] | None = None
    ) -> RRef:
        """A reference that the owner has counted already."""
        known = cls.__new__(cls)
        known._set(agent, owner, number, made)
        return known

    def __del__(self) -> None:
        agent = getattr(self, "_agent", None)
        if agent is not None:
            agent.kept.lose(self._owner.id, self._number)

    def __reduce__(self) -> Any:
        raise RuntimeError("An RRef goes to other workers as an argument of RPCs, not by pickle.")

    def _handed_on(self, agent: Agent) -> tuple[int, int]:
        """Have the owner count the reference that another worker is about to get."""
        if agent.info.id == self._owner.id:
            agent.kept.hold(self._number)
        else:
            counted = agent.ask(self._owner.id, "hold", self._number)
            waited(counted, agent.timeout, f"A reference to a value on {self._owner.name!r}")
        return self._owner.id, self._number

    def owner(self) -> WorkerInfo:
        """The worker that has the value."""
        return self._owner

    def owner_name(self) -> str:
        """Its name."""
        return self._owner.name

    def is_owner(self) -> bool:
        """Whether that is this one."""
        return current_agent().info == self._owner

    def confirmed_by_owner(self) -> bool:
        """Whether the owner has answered that the value is made."""
        return self._made is None or self._made.done()

    def _get_future(self) -> Future[Any]:
        """Done when the value is made; an error if its making failed."""
        if self._made is None:
            self._made = Future()
            self._made.set_result(None)
        return self._made

    def local_value(self) -> Any:
        """The value itself, on its owner."""
        if not self.is_owner():
            raise RuntimeError(
                f"local_value() is for the owner, {self.owner_name()!r}; here use to_here()."
            )
        agent = current_agent()
        return waited(agent.kept.cell(self._number), agent.timeout, "local_value()")

    def to_here(self, timeout: float | None = None) -> Any:
        """A copy of the value; in an autograd context its gradient finds back."""
        from pullback.distributed.rpc.calls import fetched

        agent = current_agent()
        limit = agent.timeout if timeout is None or timeout < 0 else timeout
        if agent.info == self._owner:
            return waited(agent.kept.cell(self._number), limit, "to_here()")
        return waited(
            fetched(agent, self._owner, self._number, limit),
            limit,
            f"to_here() from {self.owner_name()!r}",
        )

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
