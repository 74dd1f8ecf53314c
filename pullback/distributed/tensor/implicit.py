"""Whether tensors that do not lie over a mesh are taken for the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["implicit_replication", "takes_plain"]

_takes: ContextVar[bool] = ContextVar("pullback_implicit_replication", default=False)


def takes_plain() -> bool:
    """Whether they are."""
    return _takes.get()


@contextmanager
def implicit_replication() -> Iterator[None]:
    """Take plain tensors, where they meet a DTensor, for what all ranks have alike.

    >>> import pullback as torch
    >>> import pullback.distributed as dist
    >>> from pullback.distributed.tensor import Shard, distribute_tensor
    >>> from pullback.distributed.tensor.experimental import implicit_replication
    >>> def shifted():
    ...     mesh = dist.init_device_mesh("cpu", (2,))
    ...     x = distribute_tensor(torch.ones(2, 2), mesh, [Shard(0)])
    ...     with implicit_replication():
    ...         return (x + torch.tensor([1.0, 2.0])).to_local().tolist()
    >>> dist.threads.run(shifted, 2)[0]
    [[2.0, 3.0]]
    """
    before = _takes.get()
    try:
        _takes.set(True)
        yield
    finally:
        _takes.set(before)
