"""Device arrays through an engine that carries host arrays: by way of pinned memory.

For ranks that share a device, which NCCL refuses, and where there is no NCCL. A group gets this
around its own communicator when the first tensor on a device comes; until then it costs nothing.
Copies are on the current stream of the array's device, and waited for.
"""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.distributed.call import Call
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.engines.over_host import OverHost
from pullback.distributed.reduction import ReduceOp
from pullback.operators.cuda.found import found
from pullback.operators.cuda.pinned import space

__all__ = ["StagedCommunicator"]


class StagedCommunicator(OverHost):
    """Another communicator that takes device arrays too."""

    def __init__(self, host: Communicator) -> None:
        super().__init__(host)
        self.engine = host.engine

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        own = _fetched(array)
        self.host.all_reduce(call, own, op)
        _put(array, own)

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        own = _fetched(array)
        self.host.reduce(call, own, op, root)
        if self.rank == root:
            _put(array, own)

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        own = _fetched(array) if self.rank == root else _space(array)
        self.host.broadcast(call, own, root)
        if self.rank != root:
            _put(array, own)

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        own = _space(out)
        self.host.all_gather(call, own, _fetched(array))
        _put(out, own)

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        own = _space(out)
        self.host.gather(call, own, _fetched(array), root)
        _put(out, own)

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        own = _space(out)
        self.host.scatter(call, own, _fetched(rows), root)
        _put(out, own)

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        own = _space(out)
        self.host.reduce_scatter(call, own, _fetched(rows), op)
        _put(out, own)

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        own = _space(out)
        self.host.all_to_all(call, own, out_sizes, _fetched(array), sizes)
        _put(out, own)

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        self.host.send(call, _fetched(array), peer, tag)

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        own = _space(array)
        sender = self.host.receive(call, own, peer, tag)
        _put(array, own)
        return sender

    def split(self, call: Call, ranks: list[int], name: str) -> Communicator | None:
        made = self.host.split(call, ranks, name)
        return None if made is None else type(self)(made)

    def among(self, call: Call, ranks: list[int], name: str) -> Communicator:
        return type(self)(self.host.among(call, ranks, name))

    def abort(self, reason: str) -> None:
        self.host.abort(reason)

    def close(self) -> None:
        self.host.close()


def _space(array: Any) -> Any:
    """Where the host's part of the work happens: host arrays themselves, or memory beside."""
    return array if type(array) not in LIBRARIES else space(array.shape, array.dtype)


def _fetched(array: Any) -> Any:
    """The same, with what is in the array."""
    own = _space(array)
    if own is not array:
        with array.device:
            array.get(out=own)
    return own


def _put(array: Any, own: Any) -> None:
    """What has come goes to the device."""
    if own is not array:
        with array.device:
            array.set(own)
            found.cupy.cuda.get_current_stream().synchronize()  # before `own` is let go
