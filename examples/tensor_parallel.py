"""Train one network whose weights are sharded over ranks, and check it against one process.

    pullback launch -n 4 examples/tensor_parallel.py       processes (pip install 'pullback[mpi]')
    python examples/tensor_parallel.py --threads 4         threads of one process

Each rank has half of the columns of the first matrix and half of the rows of the second ("tp"),
and half of those rows again with half of each batch ("dp"). No rank ever has the whole model
between steps, and the losses are those of one process.
"""

import pullback as torch

# isort: split
import argparse
import sys
import threading

import pullback.distributed as dist
from pullback.distributed.fsdp import fully_shard
from pullback.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

STEPS, BATCH = 20, 24
CLOSE = 1e-5
_building = threading.Lock()  # threads share one generator


def network() -> torch.nn.Module:
    """A network that begins the same way everywhere."""
    with _building:
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points, and what is to be found from them."""
    x = torch.rand(BATCH, 4, generator=torch.Generator().manual_seed(step))
    return x, x.prod(1, keepdim=True) * 10


def train(model: torch.nn.Module, rows: slice = slice(None)) -> list[torch.Tensor]:
    """Some steps of Adam on these rows of each batch; the losses."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for step in range(STEPS):
        x, y = batch(step)
        loss = torch.nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def in_parts() -> list[float]:
    """The losses where all ranks share the model and the data."""
    size = dist.get_world_size()
    shared = 2 if size % 2 == 0 else 1
    mesh = dist.init_device_mesh("cpu", (size // shared, shared), mesh_dim_names=("dp", "tp"))
    model = network()
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    parts = size // shared
    place = mesh.get_local_rank("dp")
    losses = train(model, slice(place * BATCH // parts, (place + 1) * BATCH // parts))
    for loss in losses:
        dist.all_reduce(loss, op=dist.ReduceOp.AVG, group=mesh.get_group("dp"))
    return [loss.item() for loss in losses]


def report(found: list[float], size: int) -> int:
    """Say how far the losses are from those of one process; 0 if they are close."""
    apart = max(abs(a - b.item()) for a, b in zip(found, train(network()), strict=True))
    print(f"{size} ranks: loss {found[0]:.4f} -> {found[-1]:.4f}, {apart:.1e} from one process")
    return 0 if apart < CLOSE else 1


def main(arguments: list[str]) -> int:
    """Train on threads, or as one of the processes of a job."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, help="how many threads are ranks")
    threads = parser.parse_args(arguments).threads
    if threads:
        return report(dist.threads.run(in_parts, threads)[0], threads)
    dist.init_process_group()
    found = in_parts()
    status = report(found, dist.get_world_size()) if dist.get_rank() == 0 else 0
    dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
