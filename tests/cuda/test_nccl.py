"""Device tensors between ranks by NCCL: one rank where a device is, several on the stand-in."""

import threading
import time

import numpy
import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.call import Call
from pullback.distributed.engines.nccl import NcclCommunicator
from pullback.distributed.engines.threads import ThreadWorld
from pullback.distributed.reduction import ReduceOp
from tests.cuda import stand_in
from tests.cuda.stand_in import nccl

pytestmark = pytest.mark.usefixtures("library", "_has_nccl")


@pytest.fixture
def _has_nccl(library):
    if not dist.is_nccl_available():
        pytest.skip("needs a CuPy that was built with NCCL")


@pytest.fixture
def alone(_has_nccl):
    dist.init_process_group("nccl", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_engine_is_there():
    assert dist.is_nccl_available()
    assert dist.is_backend_available("nccl")


@pytest.mark.usefixtures("alone")
def test_one_rank_has_every_collective():
    assert dist.get_backend() == "nccl"
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    dist.all_reduce(x)
    dist.broadcast(x, 0)
    dist.reduce(x, 0)
    rows = [torch.empty(2, 3, device="cuda")]
    dist.all_gather(rows, x)
    out = torch.empty(2, 3, device="cuda")
    dist.all_gather_into_tensor(out, x)
    half = torch.empty(2, 3, device="cuda")
    dist.reduce_scatter_tensor(half, x)
    dist.scatter(half, [x], 0)
    dist.gather(x, rows, 0)
    same = torch.empty(2, 3, device="cuda")
    dist.all_to_all_single(same, x)
    for one in (rows[0], out, half, same):
        assert torch.equal(one.cpu(), torch.arange(6.0).reshape(2, 3))
    dist.all_reduce(x.T)  # is packed and put back
    on_host = torch.ones(2)
    dist.all_reduce(on_host)
    objects = [{"a": 1}]
    dist.broadcast_object_list(objects, 0)
    assert x.is_cuda
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert torch.equal(x.cpu(), torch.arange(6.0).reshape(2, 3))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("as_views", [False, True])
def test_data_parallel_training_of_one_rank_is_the_plain_one(as_views):
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    plain = plain.double().cuda()
    twin = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    twin = twin.double().cuda()
    twin.load_state_dict(plain.state_dict())
    parallel = torch.nn.parallel.DistributedDataParallel(
        twin, device_ids=[0], gradient_as_bucket_view=as_views
    )
    x = torch.randn(5, 4, dtype=torch.float64, device="cuda")
    for _ in range(2):
        for net in (plain, parallel):
            net.zero_grad()
            net(x).square().mean().backward()
    for one, other in zip(plain.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad)
    with pytest.raises(ValueError, match="a rank has one device"):
        torch.nn.parallel.DistributedDataParallel(twin, device_ids=[1])


def test_other_engines_name_this_one():
    dist.init_process_group("fake", rank=0, world_size=2)
    try:
        with pytest.raises(RuntimeError, match='init_process_group\\("nccl"\\)'):
            dist.all_reduce(torch.ones(2, device="cuda"))
    finally:
        dist.destroy_process_group()


# Several ranks: threads, each with a communicator of its own --------------------------------------


@pytest.fixture
def ranks(library):
    """Run a function on each of three ranks; what they return."""
    if library.cupy is not stand_in.module:
        pytest.skip("one device has one rank")

    def run(function, size=3):
        world = ThreadWorld(size)
        results = [None] * size

        def rank(number):
            from pullback.distributed.engines.threads import ThreadCommunicator

            host = ThreadCommunicator(world.room("world", tuple(range(size))), number)
            made = NcclCommunicator(host)
            try:
                results[number] = function(made, library.cupy)
            except BaseException as error:
                results[number] = error
            finally:
                made.close()

        threads = [threading.Thread(target=rank, args=(n,)) for n in range(size)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        for one in results:
            if isinstance(one, BaseException):
                raise one
        return results

    return run


def call(name, detail=""):
    return Call(name, detail, 20.0)


REDUCED = [
    ("float32", ReduceOp.SUM, [3.0, 6.0]),
    ("float32", ReduceOp.AVG, [1.0, 2.0]),
    ("float64", ReduceOp.PRODUCT, [0.0, 6.0]),
    ("int64", ReduceOp.MAX, [2, 3]),
    ("int32", ReduceOp.MIN, [0, 1]),
    ("float16", ReduceOp.SUM, [3.0, 6.0]),
    ("complex64", ReduceOp.SUM, [3.0, 6.0]),
    ("bool", ReduceOp.SUM, [True, True]),
    ("int16", ReduceOp.SUM, [3, 6]),
    ("uint8", ReduceOp.BXOR, [0 ^ 1 ^ 2, 1 ^ 2 ^ 3]),
]


@pytest.mark.parametrize(("dtype", "op", "expected"), REDUCED)
def test_reductions_of_several_ranks(ranks, dtype, op, expected):
    def program(comm, cupy):
        given = numpy.array([comm.rank, comm.rank + 1]).astype(dtype)
        every, mine = cupy.asarray(given), cupy.asarray(given)
        comm.all_reduce(call("all_reduce"), every, op)
        comm.reduce(call("reduce"), mine, op, 1)
        part = cupy.ndarray((1,), given.dtype)
        rows = cupy.asarray(numpy.repeat(given[1:], 3).reshape(3, 1))
        comm.reduce_scatter(call("reduce_scatter"), part, rows, op)
        return every.get(), mine.get(), part.get(), given

    results = ranks(program)
    for number, (every, mine, part, given) in enumerate(results):
        assert every.tolist() == expected
        assert mine.tolist() == (expected if number == 1 else given.tolist())
        assert part.tolist() == expected[1:]


def test_copies_between_several_ranks(ranks):
    def program(comm, cupy):
        rank = comm.rank
        x = cupy.asarray(numpy.full(2, rank, numpy.float32))
        rows = cupy.ndarray((3, 2), numpy.float32)
        comm.all_gather(call("all_gather"), rows, x)
        first = cupy.asarray(numpy.full(2, rank, numpy.float32))
        comm.broadcast(call("broadcast"), first, 2)
        gathered = cupy.ndarray((3, 2), numpy.float32) if rank == 1 else None
        comm.gather(call("gather"), gathered, x, 1)
        spread = cupy.ndarray((2,), numpy.float32)
        comm.scatter(call("scatter"), spread, rows if rank == 0 else None, 0)
        pieces = cupy.asarray(numpy.arange(6, dtype=numpy.float32) + 10 * rank)
        changed = cupy.ndarray((6,), numpy.float32)
        comm.all_to_all(call("all_to_all"), changed, [2, 2, 2], pieces, [2, 2, 2])
        part = comm.split(call("split"), [0, 2], "two")
        if part is not None:
            part.all_reduce(call("all_reduce"), x, ReduceOp.SUM)
        return [one if one is None else one.get().tolist()
                for one in (rows, first, gathered, spread, changed, x)]  # fmt: skip

    for rank, (rows, first, gathered, spread, changed, x) in enumerate(ranks(program)):
        assert rows == [[0, 0], [1, 1], [2, 2]]
        assert first == [2, 2]
        assert gathered == (rows if rank == 1 else None)
        assert spread == [rank, rank]
        assert changed == [10 * r + 2 * rank + i for r in range(3) for i in range(2)]
        assert x == ([1, 1] if rank == 1 else [2, 2])


def test_ranks_that_differ_are_told_before_nccl_would_hang(ranks):
    def program(comm, cupy):
        x = cupy.asarray(numpy.zeros(2 + comm.rank))
        comm.all_reduce(call("all_reduce", f"{x.shape}"), x, ReduceOp.SUM)

    with pytest.raises(dist.DistBackendError, match="do not make the same call"):
        ranks(program)


def test_two_ranks_send_and_receive(ranks):
    def program(comm, cupy):
        x = cupy.asarray(numpy.full(3, comm.rank + 1.0))
        comm.broadcast(call("broadcast"), cupy.asarray(numpy.zeros(1)), 0)
        if comm.rank == 0:
            comm.send(call("send"), x, 1, 0)
        else:
            assert comm.receive(call("receive"), x, 0, 0) == 0
        with pytest.raises(dist.DistBackendError, match="from a rank that is named"):
            comm.receive(call("receive"), x, None, 0)
        return x.get().tolist()

    assert ranks(program, 2) == [[1.0] * 3, [1.0] * 3]


class Hanging:
    """An event that does not come."""

    done = False

    def __init__(self, **_):
        pass

    def record(self, stream=None):
        pass


@pytest.fixture
def hanging(ranks, monkeypatch):
    """Calls that never end by themselves, as when a peer is lost."""
    monkeypatch.setattr(stand_in.module.cuda, "Event", Hanging)
    monkeypatch.setattr(nccl, "calls", [])
    monkeypatch.setattr(nccl, "faults", [])
    # Of the stand-in's calls none is under way any more; what hangs is only the event.
    note = nccl.calls.append
    monkeypatch.setattr(nccl.NcclCommunicator, "abort", lambda comm: note("abort"))
    return ranks


def test_an_error_of_nccl_aborts_the_communicator_and_is_told_with_rank_and_call(hanging):
    """B-6: NCCL is asked while a call is under way; who waits for it gets the error."""
    nccl.faults.append("remote process exited")

    def program(comm, cupy):
        x = cupy.asarray(numpy.ones(2))
        started = time.monotonic()
        for _ in range(2):  # the call itself, and one that comes after
            with pytest.raises(dist.DistBackendError) as caught:
                comm.all_reduce(call("all_reduce", "float64[2]"), x, ReduceOp.SUM)
        assert time.monotonic() - started < 5
        return str(caught.value)

    for rank, text in enumerate(hanging(program)):
        assert text.startswith(f"rank {rank}: all_reduce #")
        assert "NCCL says remote process exited; its communicator is aborted" in text
    assert nccl.calls.count("abort") == 3


def test_a_call_of_nccl_that_takes_too_long_is_aborted(hanging):
    """B-6, B-9."""

    def program(comm, cupy):
        started = time.monotonic()
        with pytest.raises(dist.DistBackendError, match=r"waited 0\.3 s for a rank, which did not"):
            comm.broadcast(Call("broadcast", "", 0.3), cupy.asarray(numpy.ones(2)), 0)
        assert time.monotonic() - started < 5

    hanging(program)
    assert nccl.calls.count("abort") == 3


def test_what_the_program_waits_for_itself_is_ended_too(hanging):
    """B-6: on the main thread a call returns at once, and the stream is waited for later."""

    def program(comm, cupy):
        x = cupy.asarray(numpy.ones(2))
        comm._ready(call("all_reduce"), x)
        comm._made[0].begun(Call("all_reduce", "", 0.2))
        comm._made[0]._thread.join(20)  # it has nothing to look after any more
        with pytest.raises(dist.DistBackendError, match=r"waited 0\.2 s"):
            comm.all_reduce(call("all_reduce"), x, ReduceOp.SUM)

    hanging(program)
    assert nccl.calls.count("abort") == 3
