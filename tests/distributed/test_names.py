"""Torch's inner calls: methods of groups, back ends of users, debug levels, meeting places."""

import threading

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import _functional_collectives as funcol


def test_groups_have_collectives_as_methods_that_give_works():

    def one():
        group, rank = dist.group.WORLD, dist.get_rank()
        x = torch.tensor([rank + 1.0])
        group.allreduce([x]).wait()
        assert x.item() == 3.0
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        y = torch.tensor([float(rank)])
        group.allreduce(y, options).wait()
        assert y.item() == 1.0
        group.broadcast(
            [y := torch.tensor([float(rank)])], dist.BroadcastOptions(rootRank=1)
        ).wait()
        assert y.item() == 1.0
        group.reduce([z := torch.ones(1)], dist.ReduceOptions(rootRank=0)).wait()
        assert z.item() == 2.0 - rank
        rows = [torch.zeros(1), torch.zeros(1)]
        group.allgather([rows], [torch.tensor([float(rank)])]).wait()
        assert [row.item() for row in rows] == [0.0, 1.0]
        flat = torch.zeros(2)
        group._allgather_base(flat, torch.tensor([float(rank)])).wait()
        assert flat.tolist() == [0.0, 1.0]
        part = torch.zeros(1)
        group.reduce_scatter([part], [[torch.ones(1), 2 * torch.ones(1)]]).wait()
        assert part.item() == 2.0 * (rank + 1)
        group._reduce_scatter_base(part, torch.tensor([1.0, 2.0])).wait()
        assert part.item() == 2.0 * (rank + 1)
        group.scatter([part], [[torch.ones(1), 5 * torch.ones(1)]] if rank == 0 else [], 0).wait()
        assert part.item() == 1.0 + 4 * rank
        group.gather([rows] if rank == 0 else [], [torch.tensor([7.0 + rank])], 0).wait()
        assert rank or [row.item() for row in rows] == [7.0, 8.0]
        out = torch.zeros(2)
        group.alltoall_base(out, torch.tensor([10.0 * rank, 10.0 * rank + 1])).wait()
        assert out.tolist() == [float(rank), 10.0 + rank]
        group.alltoall(rows, [torch.tensor([1.0 * rank])] * 2).wait()
        group.allreduce_coalesced([torch.ones(1), torch.ones(2)]).wait()
        several = [[torch.zeros(1), torch.zeros(2)] for _ in range(group.size())]
        mine = [torch.tensor([float(rank)]), torch.full((2,), float(rank))]
        group.allgather_coalesced(several, mine).wait()
        assert [[one.tolist() for one in row] for row in several] == [
            [[float(r)], [float(r)] * 2] for r in range(group.size())
        ]
        flat = [torch.zeros(2), torch.zeros(4)]
        group.allgather_into_tensor_coalesced(flat, mine).wait()
        assert [one.tolist() for one in flat] == [[0.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
        group.reduce_scatter_tensor_coalesced(mine, flat).wait()
        assert [one.tolist() for one in mine] == [[2.0 * rank], [2.0 * rank] * 2]
        group.barrier().wait()
        group.monitored_barrier()
        if rank == 0:
            group.send([torch.ones(1)], 1, 3).wait()
        else:
            work = group.recv([got := torch.zeros(1)], 0, 3)
            work.synchronize()
            assert got.item() == 1.0
            assert work._source_rank() == 0
        group.set_timeout(5.0)
        return group.timeout

    assert dist.threads.run(one, 2) == [5.0, 5.0]


def test_one_of_several_coalesced_calls_that_fails_is_told():
    def one():
        rank = dist.get_rank()
        outs = [[torch.zeros(1 + rank), torch.zeros(1)] for _ in range(2)]  # the first differ
        given = [torch.zeros(1 + rank), torch.zeros(1)]
        work = dist.all_gather_coalesced(outs, given, async_op=True)
        with pytest.raises(dist.DistBackendError, match="all_gather"):
            work.wait()

    dist.threads.run(one, 2)


def test_a_back_end_of_the_users_carries_collectives():

    class Mirror:
        """One rank, whose partners all give what it gives."""

        def __init__(self, store, rank, size, timeout):
            self.size = size

        def allreduce(self, tensors, options):
            tensors[0].mul_(self.size if options.reduceOp is dist.ReduceOp.SUM else 1)

        def broadcast(self, tensors, options):
            self.root = options.rootRank

        def allgather(self, outputs, inputs, options):
            for out in outputs[0]:
                out.copy_(inputs[0])

        def barrier(self, options):
            self.waited = True

    dist.Backend.register_backend("mirror", Mirror)
    with pytest.raises(RuntimeError, match="already"):
        dist.Backend.register_backend("mirror", Mirror)
    dist.init_process_group("mirror", rank=0, world_size=3, store=dist.HashStore())
    try:
        assert dist.get_backend() == dist.Backend.MIRROR == "mirror"
        x = torch.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [3.0, 3.0]
        dist.broadcast(x, 2)
        dist.barrier()
        objects = [None] * 3
        dist.all_gather_object(objects, {"a": 1})
        assert objects == [{"a": 1}] * 3
    finally:
        dist.destroy_process_group()


def test_threads_of_ones_own_are_ranks_by_a_store_that_they_share():
    found = {}
    store = dist.HashStore()

    def one(rank):
        dist.init_process_group("threads", rank=rank, world_size=2, store=store)
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x)
        found[rank] = x.item(), dist.get_backend()
        dist.destroy_process_group()

    ranks = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert found == {0: (3.0, "threads"), 1: (3.0, "threads")}
    with pytest.raises(ValueError, match="give both"):
        dist.init_process_group("threads", store=store)


def test_levels_of_debugging_are_set_and_read(monkeypatch):
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
    dist.set_debug_level_from_env()
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL
    dist.set_debug_level(dist.DebugLevel.OFF)
    assert dist.get_debug_level() is dist.DebugLevel.OFF
    with pytest.raises(TypeError):
        dist.set_debug_level("OFF")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
    with pytest.raises(RuntimeError, match="one of OFF, INFO, DETAIL"):
        dist.set_debug_level_from_env()


def test_processes_meet_by_an_address(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set"):
        dist.rendezvous("env://")
    with pytest.raises(ValueError, match="needs rank and world_size"):
        dist.rendezvous("tcp://127.0.0.1:1")
    with pytest.raises(RuntimeError, match="nobody handles"):
        dist.rendezvous("pigeon://loft", 0, 1)
    store, rank, size = next(dist.rendezvous("tcp://127.0.0.1:0?rank=0&world_size=1"))
    store.set("a", "b")
    assert (rank, size, store.get("a")) == (0, 1, b"b")
    store.close()


def test_collectives_are_in_the_profiler_under_torchs_names():

    def one():
        dist.all_reduce(torch.ones(3))
        dist.all_gather_into_tensor(torch.zeros(4), torch.ones(2))
        dist.all_reduce(torch.ones(3), async_op=True).wait()
        dist.barrier()

    with torch.profiler.profile() as profiler:
        dist.threads.run(one, 2)
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts["c10d::allreduce_"] == counts["threads:all_reduce"] == 4
    assert counts["c10d::_allgather_base_"] == counts["threads:all_gather"] == 2
    assert counts["c10d::barrier"] == 2


def test_functional_collectives_take_meshes_names_and_ranks():
    def one():
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x = torch.tensor([float(dist.get_rank())])
        pair = mesh.get_group("tp")
        assert (
            funcol.all_reduce(x, "sum", (mesh, 1)).item()
            == funcol.all_reduce(x, "sum", pair.group_name).item()
            == funcol.all_reduce(x, "sum", mesh["tp"]).item()
        )
        assert funcol.all_reduce(x, "sum", mesh).item() == 6.0
        assert (
            funcol.all_reduce(x, "sum", [[0, 1], [2, 3]]).item()
            == funcol.all_reduce(x, "sum", pair.ranks, tag="x").item()
        )
        with pytest.raises(ValueError, match="no group of ranks"):
            funcol.all_reduce(x, "sum", [0, 3])
        return funcol.all_reduce(x, "sum", (mesh, 0)).item()

    assert dist.threads.run(one, 4) == [2.0, 4.0, 2.0, 4.0]


def test_configurations_of_back_ends_are_told():
    assert repr(dist.BackendConfig("cpu:gloo,cuda:nccl")) == "cpu:gloo,cuda:nccl"
    assert repr(dist.BackendConfig("nccl")) == "cuda:nccl"
    with pytest.raises(ValueError, match="device:name"):
        dist.BackendConfig("cpu:gloo,cpu:mpi")
    with pytest.raises(ValueError, match="No back end"):
        dist.get_default_backend_for_device("tpu")
    assert dist.threads.run(lambda: (dist.new_group([0]), dist.get_pg_count())[1], 1) == [2]
    assert dist.get_pg_count() == 0


def test_there_is_nothing_to_destroy_before_the_beginning():
    with pytest.raises(AssertionError, match="no default process group"):
        dist.destroy_process_group()


def test_several_tensors_are_gathered_at_once():

    def one():
        rank = float(dist.get_rank())
        found = [[torch.zeros(2), torch.zeros(3)] for _ in range(2)]
        dist.all_gather_coalesced(found, [torch.full((2,), rank), torch.full((3,), -rank)])
        with pytest.raises(RuntimeError, match="a list for each of 2 ranks"):
            dist.all_gather_coalesced(found[:1], [torch.zeros(2), torch.zeros(3)])
        return [[t.tolist() for t in row] for row in found]

    assert dist.threads.run(one, 2)[1] == [
        [[0.0] * 2, [-0.0] * 3],
        [[1.0] * 2, [-1.0] * 3],
    ]


def test_calls_can_be_coalesced():

    def one():
        x, y = torch.ones(1), torch.ones(2)
        with dist._coalescing_manager():
            dist.all_reduce(x)
            dist.all_reduce(y)
        with dist._coalescing_manager(async_ops=True) as calls:
            dist.all_reduce(x, async_op=True)
        calls.wait()
        return x.item(), y.tolist()

    assert dist.threads.run(one, 2) == [(4.0, [2.0, 2.0])] * 2


def test_gathering_and_scattering_have_torchs_newer_names():
    def one():
        rank = float(dist.get_rank())
        found, mine = torch.zeros(2), torch.zeros(1)
        dist.all_gather_single(found, torch.tensor([rank]))
        dist.reduce_scatter_single(mine, torch.tensor([1.0, 2.0]))
        pair = dist.group.WORLD
        x = torch.tensor([rank, 2.0], requires_grad=True)
        whole = funcol.all_gather_single_autograd(x, 0, pair)
        (part,) = funcol.reduce_scatter_single_coalesced([whole], "sum", [0], pair)
        part.sum().backward()
        return found.tolist(), mine.item(), part.tolist(), x.grad.tolist()

    assert dist.threads.run(one, 2) == [
        ([0.0, 1.0], 2.0, [0.0, 4.0], [2.0, 2.0]),
        ([0.0, 1.0], 4.0, [2.0, 4.0], [2.0, 2.0]),
    ]
