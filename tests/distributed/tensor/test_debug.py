"""`CommDebugMode`: how often which collective is called, where, and on which rank."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import _functional_collectives as funcol
from pullback.distributed.fsdp import fully_shard
from pullback.distributed.tensor import DTensor, Replicate, Shard
from pullback.distributed.tensor.debug import CommDebugMode
from pullback.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from pullback.nn.parallel import DistributedDataParallel


def mesh():
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


def layers():
    linear = torch.nn.Linear
    return torch.nn.Sequential(linear(3, 4), torch.nn.ReLU(), linear(4, 5), linear(5, 2))


def test_collectives_are_counted_under_torchs_names():
    def one():
        x, two, ranks = torch.ones(1), torch.ones(2), mesh()
        with CommDebugMode() as mode:
            dist.all_reduce(x)
            dist.all_reduce(x, async_op=True).wait()
            dist.broadcast(x, 0)
            dist.all_gather_into_tensor(two, x)
            dist.all_gather([x.clone(), x.clone()], x)
            dist.reduce_scatter_tensor(x, two)
            dist.barrier()
            dist.all_to_all_single(two, two.clone())
            funcol.all_reduce(x, "sum", ranks)
            funcol.all_gather_tensor(x, 0, ranks)
            funcol.reduce_scatter_tensor(two, "sum", 0, ranks)
        dist.all_reduce(x)  # outside
        assert mode.get_total_counts() == 10
        return mode.get_comm_counts()

    wanted = {
        "c10d.allreduce_": 2,
        **dict.fromkeys(("c10d.broadcast_", "c10d._allgather_base_", "c10d.allgather_"), 1),
        **dict.fromkeys(("c10d._reduce_scatter_base_", "c10d.alltoall_base_"), 1),
        "c10d_functional.all_reduce": 1,
        "c10d_functional.all_gather_into_tensor": 1,
        "c10d_functional.reduce_scatter_tensor": 1,
    }
    assert dist.threads.run(one, 2) == [wanted] * 2


def test_sharded_training_has_torchs_counts_by_module():
    def one():
        model = layers()
        fully_shard([model[0], model[2]], reshard_after_forward=True)
        fully_shard(model)
        with CommDebugMode() as mode:
            model(torch.ones(2, 3)).sum().backward()
        table = mode.generate_comm_debug_tracing_table()
        return mode.get_comm_counts(), mode.comm_module_counts, table

    for counts, modules, table in dist.threads.run(one, 2):
        assert counts == {"c10d._allgather_base_": 3, "c10d._reduce_scatter_base_": 2}
        assert modules["FSDPSequential"]["forward"] == {"c10d._allgather_base_": 2}
        assert modules["FSDPSequential.0"]["forward"] == {"c10d._allgather_base_": 1}
        assert modules["Global"]["backward"] == {
            "c10d._allgather_base_": 1,
            "c10d._reduce_scatter_base_": 2,
        }
        assert "FSDPSequential.0\n      FORWARD PASS\n        *c10d._allgather_base_: 1" in table


def test_what_a_modules_own_hooks_call_is_the_modules(tmp_path):
    def one():
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
        parallelize_module(model, mesh(), {"0": ColwiseParallel(), "1": RowwiseParallel()})
        with CommDebugMode() as mode:
            model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        assert not model[1]._forward_hooks or len(model[1]._forward_hooks) == 1  # the style's
        assert list(mode.get_parameter_info()["Sequential.1"]) == ["weight", "bias"]
        path = tmp_path / f"{dist.get_rank()}.txt"
        mode.log_comm_debug_tracing_table_to_file(str(path))
        assert path.read_text() == mode.generate_comm_debug_tracing_table()
        return mode.get_comm_counts(), mode.comm_module_counts, mode.get_sharding_info()

    for counts, modules, placements in dist.threads.run(one, 2):
        reduced = {"c10d_functional.all_reduce": 1}
        assert counts == {"c10d_functional.all_reduce": 2}
        assert modules["Sequential.1"]["forward"] == reduced
        assert modules["Global"] == {"forward": reduced, "backward": reduced}
        assert placements["Sequential.0.weight"] == (Shard(0),)
        assert placements["Sequential.1.bias"] == (Replicate(),)


def test_buckets_and_changes_of_layout_are_counted():
    def one():
        model = DistributedDataParallel(torch.nn.Linear(2, 2))
        with CommDebugMode() as outer:
            model(torch.ones(2, 2)).sum().backward()
            with CommDebugMode() as inner:
                DTensor.from_local(torch.ones(2), mesh(), [Shard(0)]).full_tensor()
        return outer.get_comm_counts(), inner.get_comm_counts()

    gathered = {"c10d_functional.all_gather_into_tensor": 1}
    assert dist.threads.run(one, 2) == [({"c10d.allreduce_": 1, **gathered}, gathered)] * 2


def test_each_rank_counts_its_own_and_a_failed_module_is_left():
    def one():
        rank, mode = dist.get_rank(), CommDebugMode()
        model = torch.nn.Linear(2, 2)
        with mode:
            with pytest.raises(RuntimeError):
                model(torch.ones(3))
            for _ in range(3):
                dist.all_reduce(torch.ones(1))
            with pytest.raises(RuntimeError, match="counts already"), mode:
                pass
            if rank == 0:
                dist.send(torch.ones(1), 1)
            else:
                dist.recv(torch.ones(1), 0)
        assert not model._forward_hooks
        assert list(mode.comm_module_counts) == ["Global"]
        with mode:  # begins anew
            dist.reduce(torch.ones(1), 0)
        return mode.get_comm_counts()

    assert dist.threads.run(one, 2) == [{"c10d.reduce_": 1}] * 2
