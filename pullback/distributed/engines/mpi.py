"""Ranks that are processes joined by MPI, through mpi4py: any MPI library it was built for.

Before its data moves, a call's fingerprint is reduced without blocking: whoever differs, or does
not come in time, is found there, and the blocking call that follows finds everybody ready. It is
also what makes a timeout possible: MPI itself knows none. Reductions above 16 MB go in pieces,
which is 2 to 3 times as fast as whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy

from pullback.core.arrays import namespace
from pullback.distributed.call import Call, checking, gave_up_text, late_text, mismatch_text
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.engines.patience import Patience
from pullback.distributed.engines.waiting import wait_until
from pullback.distributed.errors import DistBackendError, missing_engine
from pullback.distributed.meeting import watch
from pullback.distributed.reduction import ReduceOp, working_dtype

__all__ = ["MPICommunicator", "load_mpi", "need_mpi"]

WHOLE_UP_TO = 16 << 20
PIECE = 4 << 20
_TEXT = 512  # bytes of a call's description that are exchanged when calls differ
_NOTES = 32700  # the tag of "I wait here", sent when somebody is late; user tags are below
_ARRIVED, _ALL_HERE = 32701, 32702
_JOINED, _ALL_JOINED = 32703, 32704  # the same for ranks that make a group by themselves


def need_mpi() -> None:
    """Refuse where mpi4py is not installed."""
    if find_spec("mpi4py") is None:
        raise missing_engine("mpi", "mpi4py mpich")


def load_mpi() -> Any:
    """mpi4py's module; importing it starts MPI."""
    need_mpi()
    try:
        from mpi4py import MPI
    except RuntimeError as error:  # no MPI library where mpi4py looks for one
        raise missing_engine("mpi", "mpi4py mpich") from error
    return MPI


def _operations(mpi: Any) -> dict[ReduceOp, Any]:
    return {
        ReduceOp.SUM: mpi.SUM,
        ReduceOp.AVG: mpi.SUM,
        ReduceOp.PRODUCT: mpi.PROD,
        ReduceOp.MIN: mpi.MIN,
        ReduceOp.MAX: mpi.MAX,
        ReduceOp.BAND: mpi.BAND,
        ReduceOp.BOR: mpi.BOR,
        ReduceOp.BXOR: mpi.BXOR,
    }


# Bools travel as bytes of 0 and 1; more than 1 is true again.
_OF_BOOLS = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}


def _bytes(array: Any) -> Any:
    """The same memory as bytes: what only moves needs no dtype that MPI knows."""
    return array.reshape(-1).view(numpy.uint8)


class MPICommunicator(Communicator):
    """The ranks of one group, seen from one process."""

    engine = "mpi"

    def __init__(
        self, mpi: Any, comm: Any, name: str = "the default group", ranks: Any = None
    ) -> None:
        self._mpi, self._comm = mpi, comm
        self._ops = _operations(mpi)
        self.rank, self.size, self.name = comm.Get_rank(), comm.Get_size(), name
        self._ranks: list[int] = list(range(self.size)) if ranks is None else ranks  # of the job
        self._calls = 0
        self._check = checking()
        self._mine = numpy.zeros(2, numpy.int64)
        self._least = numpy.zeros(2, numpy.int64)
        self.is_far = self._several_nodes()

    def _several_nodes(self) -> bool:
        node = self._comm.Split_type(self._mpi.COMM_TYPE_SHARED)
        far = bool(node.Get_size() != self.size)
        node.Free()
        return far

    def takes_device_memory(self) -> bool:
        from pullback.distributed.engines.device_memory import probe

        return probe(self._mpi)

    def _meet(self, call: Call) -> None:
        """Find out, before data moves, whether every rank is here with the same call."""
        call.number = self._calls
        self._calls += 1
        if not self._check or self.size == 1:
            return
        number = call.fingerprint()
        self._mine[0], self._mine[1] = number, -number
        request = self._comm.Iallreduce(self._mine, self._least, self._mpi.MIN)
        if not self._wait(request, call):
            raise DistBackendError(
                late_text(self.rank, self.name, call, self._who_is_missing(call), call.timeout)
            )
        if self._least[0] != -self._least[1]:
            self._tell_mismatch(call)
        if given_up := self._who_gave_up(call):
            raise DistBackendError(gave_up_text(self.rank, self.name, call, given_up))

    def _wait(self, request: Any, call: Call, peers: Sequence[int] | None = None) -> bool:
        if request.Test():
            return True
        return wait_until(request.Test, call.timeout, self._patience(call, peers))

    def _patience(self, call: Call, peers: Sequence[int] | None = None) -> Patience:
        ranks = self._ranks if peers is None else [self._ranks[peer] for peer in peers]
        return Patience(self.rank, self.name, call, ranks)

    def _tell_mismatch(self, call: Call) -> None:
        mine = numpy.zeros(_TEXT, numpy.uint8)
        text = str(call).encode()[:_TEXT]
        mine[: len(text)] = numpy.frombuffer(text, numpy.uint8)
        rows = numpy.zeros((self.size, _TEXT), numpy.uint8)
        self._wait(self._comm.Iallgather(mine, rows), Call(call.name, "", 5.0))
        texts = [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in rows]
        raise DistBackendError(mismatch_text(self.rank, self.name, texts))

    def _who_is_missing(self, call: Call) -> list[int]:
        """Ranks that wait tell one another so; who tells nothing is missing. Only on failure."""
        note = numpy.array([call.number], numpy.int64)
        others = [rank for rank in range(self.size) if rank != self.rank]
        kept = [self._comm.Isend(note, rank, _NOTES) for rank in others]
        heard: set[int] = set()
        until = time.monotonic() + 1.0
        status = self._mpi.Status()
        while time.monotonic() < until and len(heard) < len(others):
            if self._comm.Iprobe(self._mpi.ANY_SOURCE, _NOTES, status):
                source = status.Get_source()
                self._comm.Recv(numpy.empty(1, numpy.int64), source, _NOTES)
                heard.add(source)
            else:
                time.sleep(0.005)
        for request in kept:
            request.Test()
        return [rank for rank in others if rank not in heard]

    def _who_gave_up(self, call: Call) -> list[int]:
        """Ranks whose time was up before this one came: their fingerprint is here, they are not.

        Without a look at their notes the blocking call that follows would wait for ever. (Who gives
        up in the very moment in which the last rank comes is still waited for.)
        """
        found: list[int] = []
        status = self._mpi.Status()
        looks = 2  # the first may be what brings a note in
        while looks:
            if not self._comm.Iprobe(self._mpi.ANY_SOURCE, _NOTES, status):
                looks -= 1
                continue
            note = numpy.empty(1, numpy.int64)
            self._comm.Recv(note, status.Get_source(), _NOTES)
            if note[0] >= call.number:  # others are of calls that this rank waited for as well
                found.append(int(status.Get_source()))
        return sorted(found)

    def _reduced(self, array: Any, op: ReduceOp) -> tuple[Any, Any]:
        """What MPI can reduce of `array`, and its operation."""
        if array.dtype.kind == "b":
            return array.view(numpy.uint8), self._ops[_OF_BOOLS.get(op, op)]
        work = working_dtype(array.dtype)
        if work != array.dtype:
            return array.astype(work), self._ops[op]
        return array, self._ops[op]

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        self._meet(call)
        work, operation = self._reduced(array, op)
        flat = work.reshape(-1)
        if flat.nbytes <= WHOLE_UP_TO:
            self._comm.Allreduce(self._mpi.IN_PLACE, flat, operation)
        else:
            step = PIECE // flat.itemsize
            for start in range(0, flat.size, step):
                self._comm.Allreduce(self._mpi.IN_PLACE, flat[start : start + step], operation)
        if op is ReduceOp.AVG:
            flat /= self.size
        if work.dtype != array.dtype and array.dtype.kind != "b":  # it was a copy
            numpy.copyto(array, work, casting="unsafe")

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        self._meet(call)
        work, operation = self._reduced(array, op)
        flat = work.reshape(-1)
        step = max(1, PIECE // flat.itemsize)
        total = namespace(flat).empty_like(flat) if self.rank == root else None
        for start in range(0, flat.size, step):
            piece = slice(start, start + step)
            self._comm.Reduce(flat[piece], None if total is None else total[piece], operation, root)
        if total is not None:
            if op is ReduceOp.AVG:
                total /= self.size
            array.reshape(-1)[...] = total.view(array.dtype) if array.dtype.kind == "b" else total

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        self._meet(call)
        self._comm.Bcast(_bytes(array), root)

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        self._meet(call)
        self._comm.Allgather(_bytes(array), _bytes(out))

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        self._meet(call)
        self._comm.Gather(_bytes(array), None if out is None else _bytes(out), root)

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        self._meet(call)
        self._comm.Scatter(None if rows is None else _bytes(rows), _bytes(out), root)

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        self._meet(call)
        work, operation = self._reduced(rows, op)
        result = namespace(work).empty(out.shape, work.dtype)
        self._comm.Reduce_scatter_block(work, result, operation)
        if op is ReduceOp.AVG:
            result /= self.size
        out[...] = result.view(bool) if out.dtype.kind == "b" else result

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        self._meet(call)
        if self._check:
            self._check_pieces(call, out_sizes, sizes)
        row = array.itemsize * int(numpy.prod(array.shape[1:], dtype=numpy.int64))
        counts = [size * row for size in sizes]
        out_counts = [size * row for size in out_sizes]
        self._comm.Alltoallv([_bytes(array), counts], [_bytes(out), out_counts])

    def _check_pieces(self, call: Call, out_sizes: list[int], sizes: list[int]) -> None:
        came = numpy.empty(self.size, numpy.int64)
        self._comm.Alltoall(numpy.array(sizes, numpy.int64), came)
        wrong = numpy.array([came.tolist() != list(out_sizes)], numpy.int64)
        where = numpy.empty(self.size, numpy.int64)
        self._comm.Allgather(wrong, where)
        if where.any():
            ranks = numpy.flatnonzero(where).tolist()
            more = f"; here {out_sizes} are expected and {came.tolist()} sent" if wrong[0] else ""
            raise DistBackendError(
                f"rank {self.rank}: {call} of {self.name}: rank {ranks} expect other pieces than "
                f"the ranks send{more}."
            )

    def exchange(self, call: Call, data: bytes) -> list[bytes]:
        self._meet(call)
        sizes = numpy.empty(self.size, numpy.int64)
        self._comm.Allgather(numpy.array([len(data)], numpy.int64), sizes)
        out = numpy.empty(int(sizes.sum()), numpy.uint8)
        self._comm.Allgatherv(numpy.frombuffer(data, numpy.uint8), [out, sizes.tolist()])
        ends = numpy.cumsum(sizes)
        return [out[e - s : e].tobytes() for e, s in zip(ends, sizes, strict=True)]

    def barrier(self, call: Call) -> None:
        self._meet(call)
        if not self._check and not self._wait(self._comm.Ibarrier(), call):
            raise DistBackendError(late_text(self.rank, self.name, call, [], call.timeout))

    def monitored_barrier(self, call: Call) -> None:
        """The first rank hears from everyone, then answers: the error names who did not come."""
        self._assemble(call, list(range(self.size)), _ARRIVED, _ALL_HERE)

    def _assemble(self, call: Call, ranks: list[int], arrived: int, all_here: int) -> None:
        """Wait, within the call's time, until these ranks are here; only they take part."""
        first, *others = ranks
        token = numpy.zeros(1, numpy.uint8)
        if self.rank != first:
            self._comm.Isend(token, first, arrived)
            answered = self._comm.Irecv(token, first, all_here)
            if not self._wait(answered, call, ranks):
                answered.Cancel()
                raise DistBackendError(late_text(self.rank, self.name, call, [first], call.timeout))
            return
        waiting = {r: self._comm.Irecv(numpy.zeros(1, numpy.uint8), r, arrived) for r in others}
        if not wait_until(
            lambda: all(r.Test() for r in list(waiting.values())),
            call.timeout,
            self._patience(call, others),
        ):
            missing = [rank for rank, request in waiting.items() if not request.Test()]
            raise DistBackendError(late_text(self.rank, self.name, call, missing, call.timeout))
        for rank in others:
            self._comm.Send(token, rank, all_here)

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        request = self._comm.Isend(_bytes(array), peer, tag)
        if not self._wait(request, call, [peer]):
            request.Cancel()
            raise DistBackendError(late_text(self.rank, self.name, call, [peer], call.timeout))

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        source = self._mpi.ANY_SOURCE if peer is None else peer
        status = self._mpi.Status()
        found: list[Any] = []

        def probe() -> bool:
            message = self._comm.Improbe(source, tag, status)
            if message is not None:
                found.append(message)
            return message is not None

        peers = [] if peer is None else [peer]
        if not wait_until(probe, call.timeout, self._patience(call, peers)):
            missing = [] if peer is None else [peer]
            raise DistBackendError(late_text(self.rank, self.name, call, missing, call.timeout))
        giver, count = int(status.Get_source()), int(status.Get_count(self._mpi.BYTE))
        if count != array.nbytes:
            found[0].Recv(numpy.empty(count, numpy.uint8))
            raise DistBackendError(
                f"rank {self.rank}: {call} expects {array.nbytes} bytes, rank {giver} sent {count}."
            )
        found[0].Recv(_bytes(array))
        return giver

    def split(self, call: Call, ranks: list[int], name: str) -> Communicator | None:
        self._meet(call)
        if self.rank not in ranks:
            return None
        group = self._comm.Get_group().Incl(ranks)
        made = self._comm.Create_group(group, call.number % 30000)
        return MPICommunicator(self._mpi, made, name, [self._ranks[rank] for rank in ranks])

    def among(self, call: Call, ranks: list[int], name: str) -> Communicator:
        self._assemble(call, ranks, _JOINED, _ALL_JOINED)
        group = self._comm.Get_group().Incl(ranks)
        made = self._comm.Create_group(group, _JOINED)
        return MPICommunicator(self._mpi, made, name, [self._ranks[rank] for rank in ranks])

    def abort(self, reason: str) -> None:
        watch.tell(f"rank {self.rank}: {reason}")
        if "PULLBACK_JOINED" in os.environ:  # no mpiexec is there to end the others: our service is
            watch.leave()
        self._comm.Abort(1)

    def close(self) -> None:
        if self._comm != self._mpi.COMM_WORLD:
            self._comm.Free()
        elif (known := watch.current()) is not None:
            known.bye()
