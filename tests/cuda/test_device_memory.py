"""Device memory handed to an MPI that takes it: on a stand-in for MPI whose ranks are threads."""
# ruff: noqa: N802 (methods of the stand-in have MPI's names)

import os
import subprocess
import sys
import threading
import types
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import numpy
import pytest

from pullback.distributed.call import Call
from pullback.distributed.engines.device_memory import DirectCommunicator, over_devices, probe
from pullback.distributed.engines.mpi import MPICommunicator
from pullback.distributed.engines.staged import StagedCommunicator
from pullback.distributed.engines.threads import ThreadCommunicator, ThreadWorld
from pullback.distributed.reduction import ReduceOp
from tests.cuda import stand_in

pytestmark = pytest.mark.usefixtures("library")
SIZE = 3


class Done:
    """A request, or a matched message."""

    def __init__(self, receive=None):
        self.Recv = receive

    def Test(self):
        return True


class Comm:
    """MPI's buffer calls, carried by threads; `seen` has what kind of memory each was given.

    The memory of device arrays is reached behind their back: by itself the stand-in lets nothing
    out of a device but by `get()`, which it counts.
    """

    def __init__(self, threads, seen):
        self.threads, self.seen = threads, seen

    def _memory(self, name, buffer):
        array = buffer[0] if isinstance(buffer, list) else buffer
        on_device = isinstance(array, stand_in.ndarray)
        self.seen.append((name, "device" if on_device else "host", waits[threading.get_ident()]))
        return array._a if on_device else array

    def __getattr__(self, name):
        """Get_rank, Get_size and what ends a communicator."""
        known = {"Get_rank": self.threads.rank, "Get_size": self.threads.size, "Free": None}
        return lambda: known[name]

    def Split_type(self, kind):
        return self

    def Iprobe(self, source, tag, status):
        """Nobody has given up a call."""
        return False

    def Iallreduce(self, mine, out, op):
        out[...] = mine
        self.threads.all_reduce(call("Iallreduce"), out, op)
        return Done()

    def Allreduce(self, _in_place, buffer, op):
        self.threads.all_reduce(call("Allreduce"), self._memory("all_reduce", buffer), op)

    def Reduce(self, buffer, out, op, root):
        total = self._memory("reduce", buffer).copy()
        self.threads.reduce(call("Reduce"), total, op, root)
        if out is not None:
            self._memory("reduce", out)[...] = total

    def Bcast(self, buffer, root):
        self.threads.broadcast(call("Bcast"), self._memory("broadcast", buffer), root)

    def Allgather(self, buffer, out):
        rows = self._memory("all_gather", out).reshape(SIZE, -1)
        self.threads.all_gather(call("Allgather"), rows, self._memory("all_gather", buffer))

    def Gather(self, buffer, out, root):
        rows = None if out is None else self._memory("gather", out).reshape(SIZE, -1)
        self.threads.gather(call("Gather"), rows, self._memory("gather", buffer), root)

    def Scatter(self, rows, out, root):
        given = None if rows is None else self._memory("scatter", rows).reshape(SIZE, -1)
        self.threads.scatter(call("Scatter"), self._memory("scatter", out), given, root)

    def Reduce_scatter_block(self, rows, out, op):
        given = self._memory("reduce_scatter", rows).reshape(SIZE, -1)
        target = self._memory("reduce_scatter", out)
        self.threads.reduce_scatter(call("Reduce_scatter"), target.reshape(-1), given, op)

    def Alltoall(self, mine, out):
        self.threads.all_to_all(call("Alltoall"), out, [1] * SIZE, mine, [1] * SIZE)

    def Alltoallv(self, given, out):
        array, target = self._memory("all_to_all", given), self._memory("all_to_all", out)
        self.threads.all_to_all(call("Alltoallv"), target, out[1], array, given[1])

    def Isend(self, buffer, peer, tag):
        self.threads.send(call("send"), self._memory("send", buffer).copy(), peer, tag)
        return Done()

    def Improbe(self, source, tag, status):
        def receive(buffer):
            memory = self._memory("receive", buffer)
            self.threads.receive(call("recv"), memory, source, tag)

        status.Get_source, status.Get_count = (lambda: source), (lambda _: 8)
        return Done(receive)


waits = Counter()  # how often each thread has waited for a stream


def call(name):
    return Call(name, "", 20.0)


def fake_mpi(kinds="mpi,system"):
    names = {"SUM": "SUM", "PROD": "PRODUCT", "MIN": "MIN", "MAX": "MAX"}
    names |= {name: name for name in ("BAND", "BOR", "BXOR")}
    operations = {name: ReduceOp[own] for name, own in names.items()}
    info = types.SimpleNamespace(Get=lambda key: {"mpi_memory_alloc_kinds": kinds}.get(key))
    world = types.SimpleNamespace(Get_info=lambda: info)
    more = {"COMM_TYPE_SHARED": 0, "IN_PLACE": None, "ANY_SOURCE": -1, "BYTE": 1}
    return types.SimpleNamespace(
        **operations, **more, COMM_WORLD=world, Status=types.SimpleNamespace, __file__="/nothing"
    )


@pytest.fixture
def ranks(library, monkeypatch):
    """Run a function on each of three ranks of the stand-in; what they return, and what MPI saw."""
    if library.cupy is not stand_in.module:
        pytest.skip("an MPI that takes device memory is not to be had by a wheel")

    def waited(stream):
        waits[threading.get_ident()] += 1

    monkeypatch.setattr(stand_in.module.cuda.Stream, "synchronize", waited)

    def run(function, kinds="mpi,system,cuda:device"):
        world, results = ThreadWorld(SIZE), [None] * SIZE
        seen = [[] for _ in range(SIZE)]

        def rank(number):
            room = world.room("world", tuple(range(SIZE)))
            comm = Comm(ThreadCommunicator(room, number), seen[number])
            try:
                made = over_devices(MPICommunicator(fake_mpi(kinds), comm))
                results[number] = function(made, library.cupy)
            except BaseException as error:
                results[number] = error

        threads = [threading.Thread(target=rank, args=(n,)) for n in range(SIZE)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        for one in results:
            if isinstance(one, BaseException):
                raise one
        return results, seen

    return run


def everything(made, xp):
    """Each call once, with arrays of a device; what they hold in the end."""
    rank = made.rank

    def array(*values, dtype="float64"):
        return xp.asarray(numpy.array(values, dtype))

    x, mean, top = array(rank + 1.0, 2.0), array(float(rank)), array(float(rank))
    made.all_reduce(call("a"), x, ReduceOp.SUM)
    made.all_reduce(call("b"), mean, ReduceOp.AVG)
    made.reduce(call("c"), top, ReduceOp.MAX, 1)
    first = array(float(rank))
    made.broadcast(call("d"), first, 2)
    rows = xp.zeros((SIZE, 1))
    made.all_gather(call("e"), rows, array(float(rank)))
    gathered = xp.zeros((SIZE, 1)) if rank == 1 else None
    made.gather(call("f"), gathered, array(float(rank)), 1)
    part = array(0.0)
    made.scatter(call("g"), part, array(5.0, 6.0, 7.0).reshape(3, 1) if rank == 0 else None, 0)
    summed = array(0.0)
    made.reduce_scatter(call("h"), summed, array(1.0, 2.0, 3.0).reshape(3, 1), ReduceOp.SUM)
    out = array(0.0, 0.0, 0.0)
    given = array(0.0, 1.0, 2.0) + 10.0 * rank
    made.all_to_all(call("i"), out, [1] * SIZE, given, [1] * SIZE)
    got = array(0.0)
    if rank == 0:
        made.send(call("j"), array(9.0), 1, 5)
    elif rank == 1:
        made.receive(call("j"), got, 0, 5)
    results = (x, mean, top, first, rows, gathered, part, summed, out, got)
    return [None if one is None else one._a.reshape(-1).tolist() for one in results]


def wanted(rank):
    return [
        [6.0, 6.0],
        [1.0],
        [2.0] if rank == 1 else [float(rank)],
        [2.0],
        [0.0, 1.0, 2.0],
        [0.0, 1.0, 2.0] if rank == 1 else None,
        [5.0 + rank],
        [3.0 * (rank + 1)],
        [float(rank), 10.0 + rank, 20.0 + rank],
        [9.0] if rank == 1 else [0.0],
    ]


def test_device_memory_goes_to_mpi_as_it_is_once_its_stream_is_done(ranks):
    """B-7."""
    before = dict(stand_in.transfers)
    results, seen = ranks(everything)
    assert results == [wanted(rank) for rank in range(SIZE)]
    assert stand_in.transfers["to host"] == before["to host"]
    for calls in seen:
        data = [one for one in calls if one[0] != "all_gather" or one[1] == "device"]
        assert {memory for _, memory, _ in data} == {"device"}
        firsts = [next(group) for _, group in groupby(data, key=lambda one: one[0])]
        assert all(later[2] > earlier[2] for earlier, later in pairwise([("", "", 0), *firsts]))


def test_an_mpi_that_does_not_take_it_gets_host_memory(ranks):
    """B-7."""
    results, seen = ranks(everything, "mpi,system")
    assert results == [wanted(rank) for rank in range(SIZE)]
    assert {memory for calls in seen for _, memory, _ in calls} == {"host"}


@pytest.mark.parametrize(("dtype", "value"), [("float16", 3.0), ("bool", True)])
def test_what_mpi_cannot_add_is_staged(ranks, dtype, value):
    """B-7."""

    def one(made, xp):
        assert type(made) is DirectCommunicator
        x = xp.ones(2, dtype)
        made.all_reduce(call("a"), x, ReduceOp.SUM)
        total = xp.ones(2, dtype)
        made.reduce(call("b"), total, ReduceOp.SUM, 0)
        part = xp.ones(1, dtype)
        made.reduce_scatter(call("c"), part, xp.ones((SIZE, 1), dtype), ReduceOp.SUM)
        return [one._a.tolist() for one in (x, total, part)]

    results, seen = ranks(one)
    assert results[0] == [[value] * 2, [value] * 2, [value]]
    assert {memory for calls in seen for _, memory, _ in calls} == {"host"}


def test_the_probe_asks_the_library_and_can_be_overridden(monkeypatch):
    """B-7."""
    monkeypatch.delenv("MPIR_CVAR_ENABLE_GPU", raising=False)
    monkeypatch.delenv("PULLBACK_MPI_DEVICE_MEMORY", raising=False)
    aware, plain = fake_mpi("mpi,system,cuda:device"), fake_mpi()
    assert probe(aware)
    assert not probe(plain)
    asked = []
    library = types.SimpleNamespace(MPIX_Query_cuda_support=lambda: asked.append(1) or 1)
    monkeypatch.setattr("ctypes.CDLL", lambda path: library)
    assert probe(plain)
    assert asked == [1]
    monkeypatch.setenv("MPIR_CVAR_ENABLE_GPU", "0")
    assert not probe(aware)
    monkeypatch.setenv("PULLBACK_MPI_DEVICE_MEMORY", "1")
    assert probe(plain)
    monkeypatch.setenv("PULLBACK_MPI_DEVICE_MEMORY", "0")
    assert not probe(aware)
    monkeypatch.setenv("PULLBACK_MPI_DEVICE_MEMORY", "perhaps")
    with pytest.raises(ValueError, match="is 1, 0 or auto, got 'perhaps'"):
        probe(plain)


def test_other_engines_are_staged():
    """B-7."""
    room = ThreadWorld(1).room("world", (0,))
    assert type(over_devices(ThreadCommunicator(room, 0))) is StagedCommunicator


def test_the_wheels_mpi_answers_the_probe():
    """B-7: MPICH of the `mpi` extra is built without CUDA."""
    pytest.importorskip("mpi4py", reason="pullback[mpi]")
    code = """
from mpi4py import MPI
from pullback.distributed.engines.device_memory import probe
print(probe(MPI), MPI.Get_library_version().split()[0])
"""
    known = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "MPI"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**known, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    if "MPICH" not in done.stdout:
        pytest.skip("another MPI")
    assert done.stdout.split() == ["False", "MPICH"]
