"""A program for torch's gloo and for ours, by two processes: rank 0 prints what it has found."""

import json

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def values(*shape, start=0):
    count = torch.arange(float(torch.Size(shape).numel())) + start
    return torch.sin(count).reshape(shape)


def collectives(rank, size):
    x = values(3, start=rank)
    dist.all_reduce(x)
    top = values(3, start=rank)
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    rows = [torch.zeros(2) for _ in range(size)]
    dist.all_gather(rows, values(2, start=rank))
    part = torch.zeros(2)
    dist.scatter(part, [values(2, start=k) for k in range(size)] if rank == 0 else None, src=0)
    dist.broadcast(part, 1)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    return [x.tolist(), top.tolist(), [row.tolist() for row in rows], part.tolist(), objects]


def recorded(rank):
    """Through a collective, to its gradient."""
    from torch.distributed.nn import functional

    x = values(3, start=rank).requires_grad_()
    y = functional.all_reduce(x * x)
    (y * (rank + 1)).sum().backward()
    return [y.tolist(), x.grad.tolist()]


def meshes(rank):
    """What a mesh says of itself, and what it refuses."""
    mesh = dist.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    flat = mesh._flatten("all")
    said = [repr(one) for one in (mesh, mesh["tp"], flat, dist.init_device_mesh("cpu", (2,)))]
    said += [mesh.get_local_rank("tp"), list(mesh.get_coordinate()), mesh["tp"].mesh.tolist()]
    said += [dist.get_process_group_ranks(flat.get_group()), list(mesh.shape), mesh == mesh["tp"]]
    for wrong in (
        *(lambda: mesh["tp", "dp"], lambda: mesh["pp"], mesh.get_group, mesh.get_local_rank),
        lambda: mesh.get_group("pp"),
        lambda: dist.init_device_mesh("cpu", (2,), mesh_dim_names=("a", "b")),
        lambda: dist.init_device_mesh("cpu:0", (2,)),
    ):
        try:
            wrong()
        except Exception as error:
            said.append(type(error).__name__)
    return said


def training(rank, size, **options):
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(values(*parameter.shape, start=number + rank))  # those of rank 0 count
    parallel = DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        optimizer.zero_grad()
        parallel(values(3, 4, start=10 * step + rank)).square().mean().backward()
        if step == 1:
            with parallel.no_sync():
                parallel(values(3, 4, start=rank)).square().mean().backward()
            parallel(values(3, 4, start=-rank)).square().mean().backward()
        optimizer.step()
    found = [tensor.flatten().tolist() for p in model.parameters() for tensor in (p, p.grad)]
    everybody = [None] * size
    dist.all_gather_object(everybody, found)
    assert all(one == everybody[0] for one in everybody), "ranks differ"
    return found


def fully_sharded(rank, size):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (size,))
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(values(*parameter.shape, start=number))
    for part in (model[0], model):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for step in range(4):
        optimizer.zero_grad()
        model.set_requires_gradient_sync(step != 1)
        model(values(3, 4, start=10 * step + rank)).square().mean().backward()
        if step == 1:
            model.set_requires_gradient_sync(True)
            model(values(3, 4, start=rank)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
    assert list(model[0].weight.to_local().shape) == [3 - rank, 4]
    return [p.full_tensor().flatten().tolist() for p in model.parameters()]


def in_parts(rank, size):
    """Matrices shared out over ranks, and scores by classes: weights after some steps."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        loss_parallel,
        parallelize_module,
    )

    mesh = dist.init_device_mesh("cpu", (size,))
    model = torch.nn.Sequential(
        *(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 4), torch.nn.Linear(4, 8))
    )
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(values(*parameter.shape, start=number))
    scores = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "3": scores}
    parallelize_module(model, mesh, plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    found = []
    for step in range(4):
        optimizer.zero_grad()
        with loss_parallel():
            made = model(values(3, 4, start=10 * step))
            loss = torch.nn.functional.cross_entropy(made, torch.tensor([step, 7, 2]))
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        found.append(loss.full_tensor().item())
    return [found, *(p.full_tensor().flatten().tolist() for p in model.parameters())]


def laid_out(size):
    """How results of operators lie."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    mesh = dist.init_device_mesh("cpu", (size,))
    x = distribute_tensor(values(4, 6), mesh, [Shard(0)])
    w = distribute_tensor(values(3, 6), mesh, [Replicate()])
    p = DTensor.from_local(values(4, 6), mesh, [Partial()])
    made = [
        *(x * 2, x + x, x.exp(), x.sum(), x.sum(1), x.t(), x.view(2, 2, 6), x.unsqueeze(0)),
        *(x.softmax(1), x.softmax(0), torch.nn.functional.linear(x, w), x.t() @ x, w @ x.t()),
        *(p * 2, p + 2, p + p, torch.nn.functional.gelu(p), p + x, torch.cat([x, x], 1)),
    ]
    return [
        [[type(where).__name__, getattr(where, "dim", 0)] for where in one.placements]
        for one in made
    ]


def buffers(rank):
    """Statistics of rank 1: when it takes those of rank 0, and when it does not."""
    model = torch.nn.BatchNorm1d(1)
    parallel = DistributedDataParallel(model)
    x = torch.tensor([[1.0], [2.0 + rank]])
    means = []

    def forward():
        parallel(x).sum().backward()
        means.append(model.running_mean.item())

    forward()
    with parallel.no_sync():
        forward()
    forward()
    forward()
    with torch.no_grad():
        parallel(x)
    forward()
    everybody = [None, None]
    dist.all_gather_object(everybody, means)
    return everybody[1]


def joined(rank):
    """Rank 1 has fewer batches."""
    model = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(values(1, 2))
    parallel = DistributedDataParallel(model)
    with parallel.join():
        for step in range(3 - rank):
            parallel.zero_grad()
            parallel(values(3, 2, start=step + rank)).square().mean().backward()
            with torch.no_grad():
                model.weight -= 0.1 * model.weight.grad
    return model.weight.tolist()


def compressed(rank):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(values(*parameter.shape))
    parallel = DistributedDataParallel(model)
    parallel.register_comm_hook(None, default_hooks.fp16_compress_hook)
    parallel(values(3, 4, start=rank)).square().mean().backward()
    return [parameter.grad.tolist() for parameter in model.parameters()]


def refused(rank):
    """The types of errors."""
    x = torch.ones(2)
    model = torch.nn.Linear(2, 2)
    views = DistributedDataParallel(model, gradient_as_bucket_view=True)
    views(torch.ones(1, 2)).sum().backward()
    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
    tries = [
        lambda: dist.init_process_group("gloo"),
        lambda: dist.all_reduce([x]),
        lambda: dist.all_gather([x], x),
        lambda: dist.send(x, rank),
        lambda: dist.new_group([0, 0]),
        lambda: model.weight.grad.detach_(),
        lambda: DistributedDataParallel(frozen),
        lambda: views.register_comm_hook(None, 3),
        lambda: dist.all_gather([x, torch.ones(3)], x),
        lambda: dist.scatter(x, None, src=rank),
        lambda: dist.gather(x, [x, x], dst=1 - rank),
        lambda: dist.reduce_scatter(x, [x]),
        lambda: dist.all_reduce(x, op=dist.ReduceOp.BOR),
        lambda: dist.all_gather_into_tensor(torch.ones(3), x),
        lambda: dist.new_group([7]),
    ]
    found = []
    for act in tries:
        try:
            act()
        except Exception as error:
            found.append(type(error).__name__)
        else:
            found.append("nothing")
    return found


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {
        "collectives": collectives(rank, size),
        "recorded": recorded(rank),
        "training": training(rank, size),
        "views": training(rank, size, gradient_as_bucket_view=True),
        "unused": training(rank, size, find_unused_parameters=True),
        "static": training(rank, size, static_graph=True),
        "sharded": fully_sharded(rank, size),
        "in_parts": in_parts(rank, size),
        "laid_out": laid_out(size),
        "buffers": buffers(rank),
        "joined": joined(rank),
        "compressed": compressed(rank),
        "refused": refused(rank),
        "meshes": meshes(rank),
    }
    if rank == 0:
        print("found", json.dumps(found), flush=True)
    dist.barrier()  # torch: who leaves while another is in a call may bring it down
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
