"""Train one small network on several ranks, and check it against one process with all the data.

    pullback launch -n 4 examples/ddp.py       processes, by MPI (pip install 'pullback[mpi]')
    python examples/ddp.py --threads 4         threads of one process, nothing to install

Every rank has its part of each batch. The mean of their gradients is the gradient of the whole
batch, so that the weights must end where those of one process do.
"""

import pullback as torch

# isort: split
import argparse
import sys

import pullback.distributed as dist
from pullback.nn.parallel import DistributedDataParallel
from pullback.utils.data import DataLoader, DistributedSampler, TensorDataset

EXAMPLES, BATCH, EPOCHS = 480, 48, 5
CLOSE = 1e-4


def data() -> TensorDataset:
    """Points in the plane, and whether they are inside a ring."""
    points = torch.rand(EXAMPLES, 2, generator=torch.Generator().manual_seed(0)) * 4 - 2
    radius = points.square().sum(1).sqrt()
    return TensorDataset(points, ((radius > 0.7) & (radius < 1.6)).float())


def network() -> torch.nn.Module:
    """A network that begins the same way everywhere."""
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, 32),
        torch.nn.Tanh(),
        torch.nn.Linear(32, 1),
    )
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def train(model: torch.nn.Module, rank: int, size: int) -> float:
    """Some epochs of Adam on this rank's part of the data; the last loss."""
    dataset = data()
    sampler = DistributedSampler(dataset, size, rank, shuffle=False)
    batches = DataLoader(dataset, batch_size=BATCH // size, sampler=sampler)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loss = torch.zeros(())
    for _ in range(EPOCHS):
        for points, inside in batches:
            optimizer.zero_grad()
            guess = model(points).squeeze(1)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(guess, inside)
            loss.backward()
            optimizer.step()
    return loss.item()


def check() -> int:
    """Train on all ranks; rank 0 compares with one process, and says how far they are apart."""
    model = network()
    train(DistributedDataParallel(model), dist.get_rank(), dist.get_world_size())
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    known = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(known, weights)
    if not all(torch.equal(one, weights) for one in known):
        print(f"rank {dist.get_rank()}: the ranks' weights differ", file=sys.stderr)
        return 1
    if dist.get_rank():
        return 0
    alone = network()
    loss = train(alone, 0, 1)
    same = torch.cat([parameter.detach().flatten() for parameter in alone.parameters()])
    apart = (weights - same).abs().max().item()
    print(
        f"{dist.get_world_size()} ranks with equal bits; from one process {apart:.1e} apart "
        f"(allowed: {CLOSE:.0e}); loss {loss:.3f}"
    )
    return int(apart > CLOSE)


def main(arguments: list[str] | None = None) -> int:
    """Run as one rank of a launcher's, or on threads."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=0, help="ranks that are threads")
    threads = parser.parse_args(arguments).threads
    if threads:
        return max(dist.threads.run(check, threads))
    dist.init_process_group()
    try:
        return check()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
