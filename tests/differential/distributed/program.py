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


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {
        "collectives": collectives(rank, size),
        "recorded": recorded(rank),
        "training": training(rank, size),
        "views": training(rank, size, gradient_as_bucket_view=True),
        "unused": training(rank, size, find_unused_parameters=True),
    }
    if rank == 0:
        print("found", json.dumps(found), flush=True)
    dist.barrier()  # torch: who leaves while another is in a call may bring it down
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
