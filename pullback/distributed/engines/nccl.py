"""Ranks with a CUDA device each: device arrays go by CuPy's NCCL, all else by another engine.

The other engine (MPI, or none for a single rank) joins the ranks, carries host arrays and objects,
and compares every call's fingerprint before data moves: NCCL itself hangs where ranks differ. Work
is put on the current stream of the device, in order with what is there; nobody waits for it. What
NCCL cannot reduce (bits, complex products, int16) goes through the host.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.device import CPU, holder_of
from pullback.core.ports import ports
from pullback.distributed.call import Call, checking
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.engines.nccl_watch import Watched
from pullback.distributed.engines.over_host import OverHost
from pullback.distributed.errors import DistBackendError
from pullback.distributed.reduction import ReduceOp, working_dtype
from pullback.installed import install_command
from pullback.operators.cuda.found import found

__all__ = ["NcclCommunicator", "is_available", "need_nccl"]

# NCCL's numbers, which are part of its interface.
_TYPES = {"b": 0, "B": 1, "i": 2, "I": 3, "l": 4, "q": 4, "L": 5, "Q": 5, "e": 6, "f": 7, "d": 8}
_BYTES = 1
_REAL = {"F": "f", "D": "d"}
_OPS = {ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3, ReduceOp.AVG: 4}
# Of bools as bytes of 0 and 1.
_OF_BOOLS = {
    ReduceOp.SUM: ReduceOp.MAX,
    ReduceOp.PRODUCT: ReduceOp.MIN,
    ReduceOp.BAND: ReduceOp.MIN,
    ReduceOp.BOR: ReduceOp.MAX,
}


def is_available() -> bool:
    """Whether CuPy has NCCL and a device is here."""
    return holder_of("cuda") is not None and _nccl() is not None


def _nccl() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy warns where the library is missing: we say so
        nccl: Any = getattr(found.cupy.cuda, "nccl", None)
        if nccl is None:  # a part that CuPy does not load by itself, and that not every build has
            with suppress(ImportError):
                nccl = import_module(f"{found.cupy.__name__}.cuda.nccl")
    return nccl if nccl is not None and nccl.available else None


def need_nccl() -> None:
    """An error that names what is missing."""
    if holder_of("cuda") is None:
        raise RuntimeError(
            f"backend='nccl' needs a CUDA device: {found.reason}. Use backend='mpi' without one."
        )
    if _nccl() is None:
        raise RuntimeError(
            "backend='nccl' needs CuPy with NCCL: " + install_command("nvidia-nccl-cu13") + "."
        )


class NcclCommunicator(OverHost):
    """The ranks of one group, seen from one of them."""

    engine = "nccl"

    def __init__(self, host: Communicator) -> None:
        super().__init__(host)
        self._made: dict[int, Watched] = {}  # NCCL's communicators by device

    # --------------------------------------------------------------------------------- beginnings

    def _ready(self, call: Call, array: Any) -> tuple[Any, int]:
        """NCCL's communicator on the array's device, and its current stream; all ranks come."""
        number = int(array.device.id)
        known = self._made.get(number)
        if known is not None:
            known.check()  # first: who has found it broken does not come
        if checking():
            self.host.barrier(call)
        if known is None:
            nccl = _nccl()
            own = nccl.get_unique_id() if self.rank == 0 else b""
            begin = Call("nccl", "the communicator's name", call.timeout)
            name = self.host.exchange(begin, own)[0]
            made = nccl.NcclCommunicator(self.size, name, self.rank)
            known = self._made[number] = Watched(made, self.rank, self.name)
        return known.comm, int(found.cupy.cuda.get_current_stream().ptr)

    def _finish(self, call: Call, array: Any) -> None:
        """In a thread of the group's own the result is waited for: its stream is nobody else's."""
        known = self._made[int(array.device.id)]
        event = known.begun(call)
        if threading.current_thread() is not threading.main_thread():
            known.wait(event, call)

    # ---------------------------------------------------------------------------------- reductions

    def _reducible(self, array: Any, op: ReduceOp) -> tuple[Any, int, int] | None:
        """Elements as NCCL takes them, its type and its operation; None where it has none."""
        kind = array.dtype.char
        if kind == "?":
            op, array = _OF_BOOLS.get(op, op), array.view(numpy.uint8)
        elif kind in _REAL and op in (ReduceOp.SUM, ReduceOp.AVG):
            array = array.reshape(-1).view(_REAL[kind])
        else:
            work = working_dtype(array.dtype)
            array = array if work == array.dtype else array.astype(work)
        number = _TYPES.get(array.dtype.char)
        if number is None or op not in _OPS:
            return None
        return array, number, _OPS[op]

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        if type(array) not in LIBRARIES:
            self.host.all_reduce(call, array, op)
            return
        taken = self._reducible(array, op)
        if taken is None:
            _through_host(array, lambda own: self.host.all_reduce(call, own, op))
            return
        work, kind, operation = taken
        with found.cupy.cuda.Device(array.device.id):
            comm, stream = self._ready(call, array)
            at = work.data.ptr
            comm.allReduce(at, at, work.size, kind, operation, stream)
            _written(array, work)
            self._finish(call, array)

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        if type(array) not in LIBRARIES:
            self.host.reduce(call, array, op, root)
            return
        taken = self._reducible(array, op)
        if taken is None:
            _through_host(array, lambda own: self.host.reduce(call, own, op, root))
            return
        work, kind, operation = taken
        with found.cupy.cuda.Device(array.device.id):
            comm, stream = self._ready(call, array)
            out = found.cupy.ndarray(work.shape, work.dtype)  # others keep what they gave
            given = work.data.ptr, out.data.ptr, work.size, kind, operation, root, stream
            comm.reduce(*given)
            if self.rank == root:
                _written(array, out)
            self._finish(call, array)

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        if type(out) not in LIBRARIES:
            self.host.reduce_scatter(call, out, rows, op)
            return
        taken = self._reducible(rows, op)
        if taken is None:
            given = ports.placed(rows, CPU)
            _through_host(out, lambda own: self.host.reduce_scatter(call, own, given, op))
            return
        work, kind, operation = taken
        with found.cupy.cuda.Device(out.device.id):
            comm, stream = self._ready(call, out)
            made = found.cupy.ndarray((work.size // self.size,), work.dtype)
            given = work.data.ptr, made.data.ptr, made.size, kind, operation, stream
            comm.reduceScatter(*given)
            _written(out, made)
            self._finish(call, out)

    # -------------------------------------------------------------------------------------- copies

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        if type(array) not in LIBRARIES:
            self.host.broadcast(call, array, root)
            return
        with found.cupy.cuda.Device(array.device.id):
            comm, stream = self._ready(call, array)
            at = array.data.ptr
            comm.broadcast(at, at, array.nbytes, _BYTES, root, stream)
            self._finish(call, array)

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        if type(array) not in LIBRARIES:
            self.host.all_gather(call, out, array)
            return
        with found.cupy.cuda.Device(array.device.id):
            comm, stream = self._ready(call, array)
            comm.allGather(array.data.ptr, out.data.ptr, array.nbytes, _BYTES, stream)
            self._finish(call, array)

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        if type(array) not in LIBRARIES:
            self.host.gather(call, out, array, root)
            return
        step = array.nbytes
        gives = [(root, array.data.ptr, step)]
        takes = [] if out is None else [(r, out.data.ptr + r * step, step) for r in self._ranks()]
        self._pass_on(call, array, gives, takes)

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        if type(out) not in LIBRARIES:
            self.host.scatter(call, out, rows, root)
            return
        step = out.nbytes
        gives = [] if rows is None else [(r, rows.data.ptr + r * step, step) for r in self._ranks()]
        self._pass_on(call, out, gives, [(root, out.data.ptr, step)])

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        if type(array) not in LIBRARIES:
            self.host.all_to_all(call, out, out_sizes, array, sizes)
            return
        row = array.itemsize * int(numpy.prod(array.shape[1:], dtype=numpy.int64))
        gives, takes = _pieces(array, sizes, row), _pieces(out, out_sizes, row)
        self._pass_on(call, array, gives, takes)

    def _ranks(self) -> range:
        return range(self.size)

    def _pass_on(
        self,
        call: Call,
        array: Any,
        gives: list[tuple[int, int, int]],
        takes: list[tuple[int, int, int]],
    ) -> None:
        """Send and receive at once: peers, addresses and bytes."""
        nccl = _nccl()
        with found.cupy.cuda.Device(array.device.id):
            comm, stream = self._ready(call, array)
            nccl.groupStart()
            try:
                for peer, at, size in gives:
                    if size:
                        comm.send(at, size, _BYTES, peer, stream)
                for peer, at, size in takes:
                    if size:
                        comm.recv(at, size, _BYTES, peer, stream)
            finally:
                nccl.groupEnd()
            self._finish(call, array)

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        if type(array) not in LIBRARIES:
            self.host.send(call, array, peer, tag)
            return
        self._between_two(call, array, lambda comm, *more: comm.send(*more), peer)

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        if type(array) not in LIBRARIES:
            return self.host.receive(call, array, peer, tag)
        if peer is None:
            raise DistBackendError(
                f"rank {self.rank}: {call}: NCCL receives from a rank that is named; give src=."
            )
        self._between_two(call, array, lambda comm, *more: comm.recv(*more), peer)
        return peer

    def _between_two(self, call: Call, array: Any, act: Any, peer: int) -> None:
        """No fingerprint: the others do not come. The group must have met before."""
        known = self._made.get(int(array.device.id))
        if known is None:
            raise DistBackendError(
                f"rank {self.rank}: {call}: all ranks must make one collective call on their "
                "devices before two of them send and receive, so that NCCL knows them."
            )
        with found.cupy.cuda.Device(array.device.id):
            stream = int(found.cupy.cuda.get_current_stream().ptr)
            known.check()
            act(known.comm, array.data.ptr, array.nbytes, _BYTES, peer, stream)
            self._finish(call, array)

    # ------------------------------------------------------------------------------- by the others

    def split(self, call: Call, ranks: list[int], name: str) -> Communicator | None:
        made = self.host.split(call, ranks, name)
        return None if made is None else NcclCommunicator(made)

    def among(self, call: Call, ranks: list[int], name: str) -> Communicator:
        return NcclCommunicator(self.host.among(call, ranks, name))

    def abort(self, reason: str) -> None:
        for known in self._made.values():
            known.close(abort=True)
        self.host.abort(reason)

    def close(self) -> None:
        made, self._made = self._made, {}
        for known in made.values():
            known.close()
        self.host.close()


def _pieces(array: Any, sizes: list[int], row: int) -> list[tuple[int, int, int]]:
    at, found_pieces = int(array.data.ptr), []
    for peer, size in enumerate(sizes):
        found_pieces.append((peer, at, size * row))
        at += size * row
    return found_pieces


def _written(array: Any, work: Any) -> None:
    """What was reduced in another dtype or by its parts goes back."""
    if work.data.ptr != array.data.ptr:
        by_parts = array.dtype.kind in "bc"
        array[...] = (work.view(array.dtype) if by_parts else work).reshape(array.shape)


def _through_host(array: Any, act: Any) -> None:
    own = numpy.ascontiguousarray(ports.placed(array, CPU))
    act(own)
    array[...] = found.cupy.asarray(own)
