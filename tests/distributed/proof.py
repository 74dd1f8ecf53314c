"""Ways to train over ranks, each for ten steps, to be compared with one process; for any ranks."""

import json
import sys
from contextlib import nullcontext

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import FullyShardedDataParallel, fully_shard
from pullback.distributed.optim import ZeroRedundancyOptimizer
from pullback.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleInterleaved1F1B,
)
from pullback.nn.parallel import DistributedDataParallel
from pullback.utils.checkpoint import checkpoint
from tests.distributed.fsdp.models import (
    BATCH,
    STEPS,
    Convolutional,
    Transformer,
    batch,
    loss_of,
    made,
    own_rows,
)

KINDS = {"transformer": Transformer, "convolutional": Convolutional}


def ddp(kind):
    model = DistributedDataParallel(made(kind))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def zero(kind):
    model = DistributedDataParallel(made(kind))
    return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)


def sharded(kind):
    model = made(kind)
    for part in (*model.parts(), model):
        fully_shard(part)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def fsdp(kind):
    model = FullyShardedDataParallel(made(kind), use_orig_params=True)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


class Again(torch.nn.Module):
    """A part whose activations are computed again."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def combined(kind, again, compiled, shards):
    """A model with parts that are sharded, computed again, compiled, or all of it."""
    model = made(kind)
    places = model.blocks if kind is Transformer else model
    names = range(2) if kind is Transformer else ("first", "second")
    for name in names:
        part = places[name] if kind is Transformer else getattr(model, name)
        if shards:
            fully_shard(part)
        if compiled:
            part = torch.compile(part)
        if again:
            part = Again(part)
        if kind is Transformer:
            places[name] = part
        else:
            setattr(model, name, part)
    if shards:
        fully_shard(model)
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def losses(kind, model, optimizer, rows=slice(None), cast=None):
    """Of each step; with ranks, the mean over them."""
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        with nullcontext() if cast is None else torch.autocast("cpu", cast):
            loss = loss_of(model, kind, step, rows)
        loss.backward()
        optimizer.step()
        total = loss.detach().float()
        if dist.is_initialized():
            dist.all_reduce(total, op=dist.ReduceOp.AVG)
        found.append(total.item())
    return found


def spread(make, name):
    kind = KINDS[name]
    return losses(kind, *make(kind), own_rows())


def stages_of(kind, count):
    """The model in as many parts as there are stages; where there are more, some do nothing."""
    model = made(kind)
    if kind is Transformer:
        parts = [model.embed, *model.blocks, model.head]
    else:
        mean = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        parts = [model.first, model.second, mean, model.head]
    share = len(parts) / count
    return [
        torch.nn.Sequential(*parts[int(n * share) : int((n + 1) * share)]) for n in range(count)
    ]


def pipeline(name, several=False):
    """The mean of the microbatches' losses, on the last rank; it tells the others."""
    kind, rank, size = KINDS[name], dist.get_rank(), dist.get_world_size()
    count = 2 * size if several else size
    parts = stages_of(kind, count)
    stages = [PipelineStage(parts[n], n, count) for n in range(rank, count, size)]

    def loss(output, y):
        return torch.nn.functional.cross_entropy(output.flatten(0, -2), y.flatten())

    made = ScheduleInterleaved1F1B if several else Schedule1F1B
    schedule = made(stages if several else stages[0], 4, loss_fn=loss)
    weights = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.Adam(weights or [torch.nn.Parameter(torch.ones(1))], lr=0.01)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch(kind, step)
        each = []
        named = {"target": y, "losses": each} if stages[-1].is_last else {}
        schedule.step(*((x,) if rank == 0 else ()), **named)
        optimizer.step()
        total = sum(each, torch.zeros(())) / 4
        dist.broadcast(total, size - 1)
        found.append(total.item())
    return found


WAYS = {
    "ddp": lambda name: spread(ddp, name),
    "zero": lambda name: spread(zero, name),
    "fully_shard": lambda name: spread(sharded, name),
    "fsdp": lambda name: spread(fsdp, name),
    "pipeline": pipeline,
    "interleaved": lambda name: pipeline(name, several=True),
}


def alone(name, cast=None):
    kind = KINDS[name]
    model = made(kind)
    return losses(kind, model, torch.optim.Adam(model.parameters(), lr=0.01), cast=cast)


assert BATCH % 4 == 0  # ranks and microbatches are equally large, so means of means are means

if __name__ == "__main__":  # under a launcher: all of it, the losses by rank 0
    dist.init_process_group()
    told = {f"{way} {name}": run(name) for way, run in WAYS.items() for name in KINDS}
    if dist.get_rank() == 0:
        sys.stdout.write(f"losses {json.dumps(told)}\n")
    dist.destroy_process_group()
