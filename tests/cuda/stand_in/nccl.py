"""The stand-in's `cupy.cuda.nccl`: ranks are threads, which meet in a room of their name.

Calls block until all ranks have come, read and write memory by pointer, and are as strict as NCCL:
counts and types must be the same everywhere.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import Any

import numpy

__all__ = ["NcclCommunicator", "calls", "get_unique_id", "groupEnd", "groupStart"]

available = True
calls: list[str] = []
faults: list[str] = []  # what the next question for errors is answered with
_TYPES: dict[int, Any] = {
    0: "i1", 1: "u1", 2: "i4", 3: "u4", 4: "i8", 5: "u8", 6: "f2", 7: "f4", 8: "f8",
}  # fmt: skip
_names = itertools.count(1)
_rooms: dict[bytes, _Room] = {}
_enter = threading.Lock()
_own = threading.local()


def get_unique_id() -> bytes:
    return next(_names).to_bytes(128, "little")


class _Room:
    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=20)
        self.given: dict[int, Any] = {}


def _memory(pointer: int, count: int, kind: int) -> Any:
    dtype = numpy.dtype(_TYPES[kind])
    bytes_ = (ctypes.c_char * (count * dtype.itemsize)).from_address(pointer)
    return numpy.frombuffer(bytes_, dtype)


def groupStart() -> None:  # noqa: N802 (CuPy's name)
    _own.waiting = []


def groupEnd() -> None:  # noqa: N802 (CuPy's name)
    waiting, _own.waiting = _own.waiting, None
    if waiting:
        waiting[0][0]._exchange(waiting)


class NcclCommunicator:
    def __init__(self, ndev: int, commId: bytes, rank: int) -> None:  # noqa: N803 (CuPy's name)
        assert isinstance(commId, bytes)
        assert len(commId) == 128
        with _enter:
            self._room = _rooms.setdefault(commId, _Room(ndev))
        self.rank, self.size = rank, ndev

    def _all(self, name: str, value: Any, about: Any) -> list[Any]:
        """What every rank gives; all say the same about it."""
        calls.append(name)
        room = self._room
        room.given[self.rank] = (name, about), value
        room.barrier.wait()
        came = [room.given[rank] for rank in range(self.size)]
        room.barrier.wait()
        assert all(one[0] == came[0][0] for one in came), [one[0] for one in came]
        return [one[1] for one in came]

    @staticmethod
    def _reduced(arrays: list[Any], op: int) -> Any:
        if op == 4:
            return (sum(arrays[1:], arrays[0].copy()) / len(arrays)).astype(arrays[0].dtype)
        ufunc = (numpy.add, numpy.multiply, numpy.maximum, numpy.minimum)[op]
        total = arrays[0].copy()
        for one in arrays[1:]:
            total = ufunc(total, one)
        return total

    def allReduce(self, send, recv, count, kind, op, stream):  # noqa: N802 (CuPy's name)
        given = _memory(send, count, kind).copy()
        came = self._all("allReduce", given, (count, kind, op))
        _memory(recv, count, kind)[...] = self._reduced(came, op)

    def reduce(self, send, recv, count, kind, op, root, stream):
        came = self._all("reduce", _memory(send, count, kind).copy(), (count, kind, op, root))
        if self.rank == root:
            _memory(recv, count, kind)[...] = self._reduced(came, op)

    def broadcast(self, send, recv, count, kind, root, stream):
        came = self._all("broadcast", _memory(send, count, kind).copy(), (count, kind, root))
        _memory(recv, count, kind)[...] = came[root]

    def allGather(self, send, recv, count, kind, stream):  # noqa: N802 (CuPy's name)
        came = self._all("allGather", _memory(send, count, kind).copy(), (count, kind))
        _memory(recv, count * self.size, kind)[...] = numpy.concatenate(came)

    def reduceScatter(self, send, recv, count, kind, op, stream):  # noqa: N802 (CuPy's name)
        given = _memory(send, count * self.size, kind).copy()
        came = self._all("reduceScatter", given, (count, kind, op))
        mine = slice(self.rank * count, (self.rank + 1) * count)
        _memory(recv, count, kind)[...] = self._reduced(came, op)[mine]

    def send(self, at, count, kind, peer, stream):
        self._later("send", at, count, kind, peer)

    def recv(self, at, count, kind, peer, stream):
        self._later("recv", at, count, kind, peer)

    def _later(self, *what: Any) -> None:
        if getattr(_own, "waiting", None) is None:
            self._exchange([(self, *what)])
        else:
            _own.waiting.append((self, *what))

    def _exchange(self, waiting: list[Any]) -> None:
        sent = [(peer, _memory(at, count, kind).copy())
                for _, name, at, count, kind, peer in waiting if name == "send"]  # fmt: skip
        came = self._all("exchange", sent, None)
        for _, name, at, count, kind, peer in waiting:
            if name == "recv":
                (mine,) = [data for to, data in came[peer] if to == self.rank]
                _memory(at, count, kind)[...] = mine

    def check_async_error(self) -> None:
        if faults:
            raise RuntimeError(faults[0])

    def abort(self) -> None:
        calls.append("abort")
        self._room.barrier.abort()

    def destroy(self) -> None:
        pass
