"""Groups of a user's own back end (`Backend.register_backend`), behind the methods of an engine."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.tensor import wrap
from pullback.distributed import options
from pullback.distributed.call import Call
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.reduction import ReduceOp

__all__ = ["UsersCommunicator"]


def _waited(work: Any) -> None:
    if work is not None:
        work.wait()


class UsersCommunicator(Communicator):
    """The ranks of a group that the user's program made."""

    def __init__(self, engine: str, group: Any, rank: int, size: int) -> None:
        self.engine, self.inner = engine, group
        self.rank, self.size = rank, size

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        given = options.AllreduceOptions(reduceOp=op)
        _waited(self.inner.allreduce([wrap(array)], given))

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        given = options.ReduceOptions(rootRank=root, reduceOp=op)
        _waited(self.inner.reduce([wrap(array)], given))

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        _waited(self.inner.broadcast([wrap(array)], options.BroadcastOptions(rootRank=root)))

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        rows = out.reshape(self.size, *array.shape)
        places = [wrap(row) for row in rows]
        _waited(self.inner.allgather([places], [wrap(array)], options.AllgatherOptions()))

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        places = (
            [] if out is None else [[wrap(row) for row in out.reshape(self.size, *array.shape)]]
        )
        _waited(self.inner.gather(places, [wrap(array)], options.GatherOptions(rootRank=root)))

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        given = [] if rows is None else [[wrap(row) for row in rows]]
        _waited(self.inner.scatter([wrap(out)], given, options.ScatterOptions(rootRank=root)))

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        given = options.ReduceScatterOptions(reduceOp=op)
        _waited(self.inner.reduce_scatter([wrap(out)], [[wrap(row) for row in rows]], given))

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        given = options.AllToAllOptions()
        _waited(self.inner.alltoall_base(wrap(out), wrap(array), out_sizes, sizes, given))

    def exchange(self, call: Call, data: bytes) -> list[bytes]:
        sizes = numpy.empty((self.size, 1), numpy.int64)
        self.all_gather(call, sizes, numpy.array([len(data)], numpy.int64))
        mine = numpy.zeros(int(sizes.max()), numpy.uint8)
        mine[: len(data)] = numpy.frombuffer(data, numpy.uint8)
        rows = numpy.empty((self.size, mine.size), numpy.uint8)
        self.all_gather(call, rows, mine)
        return [row[: int(size)].tobytes() for row, size in zip(rows, sizes[:, 0], strict=True)]

    def barrier(self, call: Call) -> None:
        _waited(self.inner.barrier(options.BarrierOptions()))

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        _waited(self.inner.send([wrap(array)], peer, tag))

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        if peer is None:
            work = self.inner.recv_anysource([wrap(array)], tag)
            _waited(work)
            return int(work._source_rank())
        _waited(self.inner.recv([wrap(array)], peer, tag))
        return peer

    def split(self, call: Call, ranks: list[int], name: str) -> Communicator | None:
        if ranks == list(range(self.size)):
            return self
        raise NotImplementedError(f"{self.engine!r}: groups of some ranks are not possible.")
