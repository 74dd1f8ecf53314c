"""The engine that talks to nobody: one process plays a rank of a world of any size.

Collectives do to the tensors what they would if every other rank had given the same as this one;
for measuring shapes, memory and time of a program without its peers.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.distributed.call import Call
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.reduction import ReduceOp, reduce_in_order

__all__ = ["FakeCommunicator"]


class FakeCommunicator(Communicator):
    """A rank whose peers all give what it gives."""

    engine = "fake"
    may_be_staged = False  # it neither sends nor copies

    def __init__(self, rank: int, size: int, name: str = "the default group") -> None:
        self.rank, self.size, self.name = rank, size, name

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        if op is ReduceOp.SUM:
            array *= self.size
        elif op is ReduceOp.PRODUCT or op is ReduceOp.BXOR:
            numpy.copyto(array, reduce_in_order([array] * self.size, op))

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        if root == self.rank:
            self.all_reduce(call, array, op)

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        """Nothing: the root's is the same."""

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        out.reshape(self.size, -1)[:] = array.reshape(-1)

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        if out is not None:
            self.all_gather(call, out, array)

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        if rows is not None:
            numpy.copyto(out, rows[self.rank])

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        numpy.copyto(out, rows[self.rank])
        self.all_reduce(call, out, op)

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        start = sum(sizes[: self.rank])
        own = array[start : start + sizes[self.rank]]
        at = 0
        for size in out_sizes:
            out[at : at + size] = numpy.resize(own, (size, *own.shape[1:]))
            at += size

    def exchange(self, call: Call, data: bytes) -> list[bytes]:
        return [data] * self.size

    def barrier(self, call: Call) -> None:
        """Nobody to wait for."""

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        """Nobody takes it."""

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        return self.rank if peer is None else peer

    def split(self, call: Call, ranks: list[int], name: str) -> Communicator | None:
        if self.rank not in ranks:
            return None
        return FakeCommunicator(ranks.index(self.rank), len(ranks), name)

    def among(self, call: Call, ranks: list[int], name: str) -> Communicator:
        return FakeCommunicator(ranks.index(self.rank), len(ranks), name)
