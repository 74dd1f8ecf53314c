"""Models that sharded training is tried on, with batches for ten steps; for ranks of every kind."""

import threading

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import fully_shard

STEPS, BATCH = 10, 8


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 8)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(8, 2, 18, dropout=0.0, batch_first=True)
            for _ in range(2)
        )
        self.head = torch.nn.Linear(8, 11)

    def parts(self):
        return [*self.blocks]

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Convolutional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Sequential(torch.nn.Conv2d(2, 5, 3), torch.nn.ReLU())
        self.second = torch.nn.Sequential(torch.nn.Conv2d(5, 6, 3), torch.nn.GroupNorm(2, 6))
        self.head = torch.nn.Linear(6, 11)

    def parts(self):
        return [self.first, self.second]

    def forward(self, x):
        return self.head(self.second(self.first(x)).mean((2, 3)))


_building = threading.Lock()


def made(kind, seed=5):
    """The same model each time; ranks that are threads share one generator, so one by one."""
    with _building:
        torch.manual_seed(seed)
        return kind()


def batch(kind, step, rows=slice(None)):
    generator = torch.Generator().manual_seed(step)
    if kind is Transformer:
        x = torch.randint(0, 11, (BATCH, 4), generator=generator)
        y = torch.randint(0, 11, (BATCH, 4), generator=generator)
    else:
        x = torch.randn(BATCH, 2, 8, 8, generator=generator)
        y = torch.randint(0, 11, (BATCH,), generator=generator)
    return x[rows], y[rows]


def loss_of(model, kind, step, rows=slice(None)):
    x, y = batch(kind, step, rows)
    return torch.nn.functional.cross_entropy(model(x).flatten(0, -2), y.flatten())


def alone(kind, clip=None):
    """The losses of one process."""
    model = made(kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, kind, step)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        found.append(loss.item())
    return found


def own_rows():
    rank, size = dist.get_rank(), dist.get_world_size()
    return slice(rank * BATCH // size, (rank + 1) * BATCH // size)


def sharded(kind, clip=None, mesh=None, **options):
    """The losses of all ranks together, each with its part of a batch."""
    model = made(kind)
    for part in (*model.parts(), model):
        fully_shard(part, mesh=mesh, **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, kind, step, own_rows())
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        found.append(total.item())
    return found
