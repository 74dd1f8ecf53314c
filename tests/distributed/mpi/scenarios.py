"""What ranks that are processes do in the tests beside: `scenarios.py NAME`."""

import os
import signal
import sys
import time
from importlib.util import find_spec

import torch  # pullback: these run under `pullback run`
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

DTYPES = [
    *(torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64),
]
if find_spec("ml_dtypes") is not None:
    DTYPES.append(torch.bfloat16)


def collectives():
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        x = torch.full((3, 2), rank + 1, dtype=dtype).t()
        dist.all_reduce(x)
        assert x.tolist() == torch.full((2, 3), size * (size + 1) // 2, dtype=dtype).tolist()
        dist.broadcast(x, size - 1)
    flags = torch.tensor([rank == 0, False])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, False]
    mean = torch.tensor([float(rank)])
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert mean.item() == (size - 1) / 2
    at_root = torch.tensor([float(rank)])
    dist.reduce(at_root, 0, dist.ReduceOp.MAX)
    assert at_root.item() == (size - 1 if rank == 0 else rank)
    rows = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(rows, torch.full((2,), float(rank)))
    assert [row[0].item() for row in rows] == list(range(size))
    gathered = [torch.zeros(1) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.tensor([float(rank)]), gathered, dst=0)
    assert rank or [one.item() for one in gathered] == list(range(size))
    part = torch.zeros(1)
    dist.scatter(part, [torch.tensor([k * 2.0]) for k in range(size)] if rank == 0 else None, src=0)
    assert part.item() == 2 * rank
    dist.reduce_scatter_tensor(part, torch.arange(float(size)))
    assert part.item() == size * rank
    sizes = [k + 1 for k in range(size)]
    out = torch.zeros(size * (rank + 1))
    dist.all_to_all_single(out, torch.full((sum(sizes),), float(rank)), [rank + 1] * size, sizes)
    assert out[:: rank + 1].tolist() == list(range(size))
    empty = torch.zeros(0)
    dist.all_reduce(empty)
    dist.monitored_barrier()
    known = [None] * size
    dist.all_gather_object(known, "x" * rank)
    assert known == ["x" * k for k in range(size)]


def pieces():
    x = torch.arange(5_000_000.0) % 7 + dist.get_rank()
    dist.all_reduce(x)  # 20 MB
    size = dist.get_world_size()
    assert torch.equal(x, size * (torch.arange(5_000_000.0) % 7) + size * (size - 1) / 2)


def messages():
    rank, size = dist.get_rank(), dist.get_world_size()
    works = [dist.isend(torch.tensor([float(rank), k]), (rank + 1) % size) for k in range(3)]
    for k in range(3):
        got = torch.zeros(2)
        assert dist.recv(got, (rank - 1) % size) == (rank - 1) % size
        assert got.tolist() == [(rank - 1) % size, k]
    for work in works:
        work.wait()


def groups():
    rank = dist.get_rank()
    group = dist.new_group([0, 1])
    if rank < 2:
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        assert x.item() == 2
    works = [dist.all_reduce(torch.ones(100), async_op=True) for _ in range(5)]
    for work in works:
        work.wait()
    assert works[4].result()[0][0].item() == dist.get_world_size()
    names_of_groups()


def names_of_groups():
    world, rank, size = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    store = world.get_group_store()
    store.set(f"from {rank}", rank)
    store.barrier("set", size)
    assert store.get(f"from {size - 1 - rank}") == str(size - 1 - rank).encode()
    if rank < 2:  # they alone
        pair = world.split_group([1, 0])
        x = torch.tensor([1.0 + rank])
        pair.allreduce([x]).wait()
        assert (pair.rank(), x.item()) == (1 - rank, 3)
    alone = [dist.new_group([each]) for each in range(size)][rank]
    merged = alone.merge_remote_group(store, size)
    x = torch.ones(1)
    dist.all_reduce(x, group=merged)
    assert (merged.rank(), x.item()) == (rank, size)
    work = dist.all_reduce(x, async_op=True)
    assert work.get_future_result().wait() == 0
    if world.backend == "gloo":
        backend = world._get_backend(torch.device("cpu"))
        assert isinstance(backend, dist.ProcessGroupGloo)
        backend.allreduce([x]).wait()
    refused = ""
    try:
        dist.all_reduce(x, op=dist._make_nccl_premul_sum(2.0))
    except RuntimeError as error:
        refused = str(error)
    assert "PREMUL_SUM is for 'nccl'" in refused


def meshes():
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank == size - 1:
        alone = dist.new_group([rank], use_local_synchronization=True)
        assert alone.size() == 1
    pair = dist.new_group([0, 1], use_local_synchronization=True)
    assert (dist.get_rank(pair) >= 0) == (rank < 2)
    mesh = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    if mesh.get_coordinate() is not None:
        x = torch.tensor([1.0 * rank])
        dist.all_reduce(x, group=mesh.get_group("tp"))
        assert x.item() == 2 * (rank - rank % 2) + 1
        assert mesh["dp"].mesh.tolist() == list(range(rank % 2, size - size % 2, 2))
    assert mesh._flatten("all").size() == size - size % 2


def training():
    options = [{}, {"overlap": True}, {"gradient_as_bucket_view": True}]
    rank, size = dist.get_rank(), dist.get_world_size()
    for given in options:
        model = torch.nn.Sequential(
            torch.nn.Linear(300, 300), torch.nn.SyncBatchNorm(300), torch.nn.Linear(300, 2)
        )
        parallel = DistributedDataParallel(model, **given)
        optimizer = torch.optim.Adam(parallel.parameters())
        for step in range(3):
            generator = torch.Generator().manual_seed(100 * step + rank)
            optimizer.zero_grad()
            parallel(torch.randn(4, 300, generator=generator)).square().mean().backward()
            optimizer.step()
        bits = b"".join(
            t.detach().numpy().tobytes() for p in model.parameters() for t in (p, p.grad)
        )
        known = [None] * size
        dist.all_gather_object(known, bits)
        assert all(one == bits for one in known)


def sharded():
    from tests.distributed.fsdp import models

    for kind in (models.Transformer, models.Convolutional):
        wanted, found = models.alone(kind), models.sharded(kind)
        assert max(abs(a - b) for a, b in zip(wanted, found, strict=True)) < 1e-6, (wanted, found)
    if dist.get_world_size() == 4:
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        found = models.sharded(models.Convolutional, mesh=mesh)
        assert max(abs(a - b) for a, b in zip(wanted, found, strict=True)) < 1e-6, (wanted, found)


def parallel():
    """Matrices in parts, alone and with rows in parts; attention in parts."""
    from tests.distributed.tensor import parallel_models as models

    wanted = models.alone()
    size = dist.get_world_size()
    # A small part each: ranks that wait take the cores of those that compute.
    if size == 2:
        several = [models.shared_out(sequence=True)]
    else:
        several = [models.in_two_ways(shape=(2, size // 2))]
    for found in several:
        assert max(abs(a - b) for a, b in zip(wanted, found, strict=True)) < 1e-6, (wanted, found)
    from tests.distributed.tensor.test_context_parallel import attention, in_parts, operands

    found = in_parts({"is_causal": True})[0]
    torch.testing.assert_close(found, attention(*operands(), is_causal=True))
    torch.manual_seed(3)
    alone = torch.nn.functional.dropout(torch.ones(5, 4), 0.5)
    after = torch.rand(2)
    torch.manual_seed(3)
    x = distribute_tensor(torch.ones(5, 4), dist.init_device_mesh("cpu", (size,)), [Shard(0)])
    assert torch.equal(torch.nn.functional.dropout(x, 0.5).full_tensor(), alone)
    assert torch.equal(torch.rand(2), after)  # generators of all ranks went on alike


def gradients():
    x = torch.full((2,), dist.get_rank() + 1.0, dtype=torch.float64, requires_grad=True)
    y = dist.nn.functional.all_reduce(x, dist.ReduceOp.PRODUCT)
    (g,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    g.sum().backward()
    assert x.grad.isfinite().all()


def remote():
    from torch.distributed import autograd, rpc

    rank, size = dist.get_rank(), dist.get_world_size()
    rpc.init_rpc(f"worker{rank}")
    x = torch.tensor([rank + 1.0], requires_grad=True)
    with autograd.context() as context_id:
        y = rpc.rpc_sync(f"worker{(rank + 1) % size}", torch.square, (x,))
        autograd.backward(context_id, [y.sum()])
        assert autograd.get_gradients(context_id)[x].item() == 2 * (rank + 1)
    rpc.shutdown()


def everything():
    for one in (collectives, pieces, messages, groups, meshes, training, gradients, remote):
        one()


def fails():
    """The moment from which the test beside counts seconds."""
    sys.stdout.write(f"rank {dist.get_rank()} fails now\n")  # `print` writes in two pieces
    sys.stdout.flush()


def mismatch():
    fails()
    dist.all_reduce(torch.ones(dist.get_rank() + 1))


def exception():
    if dist.get_rank() == 1:
        fails()
        raise ValueError("boom")
    dist.all_reduce(torch.ones(2))


def death():
    if dist.get_rank() == 1:
        fails()
        os._exit(3)
    dist.all_reduce(torch.ones(2))


def killed():
    """In the middle of calls, by the system."""
    for step in range(1000):
        if dist.get_rank() == 1 and step == 20:
            fails()
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(2))


def early():
    """Rank 1 has fewer batches, and ends well."""
    for step in range(4 - 2 * (dist.get_rank() == 1)):
        if dist.get_rank() == 0 and step == 2:
            fails()
        dist.all_reduce(torch.ones(2))


def without_goodbye():
    dist.all_reduce(torch.ones(2))
    dist.destroy_process_group()
    os._exit(0)


def late():
    dist.barrier()  # so that starting is over
    fails()
    if dist.get_rank() == 1:
        time.sleep(60)
    dist.all_reduce(torch.ones(2))


def too_late():
    """Rank 1 comes when rank 0 has given up; both go on, also in that group."""
    impatient = dist.new_group(timeout=3.0)
    dist.barrier()
    if dist.get_rank() == 1:
        while not os.path.exists(os.environ["GIVEN_UP"]):
            time.sleep(0.01)
    try:
        dist.all_reduce(torch.ones(2), group=impatient)
    except dist.DistBackendError as error:
        sys.stdout.write(f"{error}\n")
        sys.stdout.flush()
    if dist.get_rank() == 0:
        open(os.environ["GIVEN_UP"], "w").close()
    for group in (None, impatient):
        total = torch.ones(2)
        dist.all_reduce(total, group=group)
        assert total.tolist() == [2.0, 2.0]


if __name__ == "__main__":
    name, method = sys.argv[1], dict(enumerate(sys.argv)).get(2)
    place = {} if method is None else {"rank": int(os.environ["RANK"]), "world_size": 2}
    timeout = 2.0 if name == "late" else 60.0
    dist.init_process_group("gloo", method, timeout=timeout, **place)
    globals()[name]()
    sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} did {name}\n")
    sys.stdout.flush()
    dist.destroy_process_group()
