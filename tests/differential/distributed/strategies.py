"""Ten steps of each strategy by two processes, on torch's gloo or on ours: rank 0 prints losses."""

import json

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH, WORDS, WIDTH, TOKENS, MICRO = 10, 8, 12, 8, 4, 4


class Block(nn.Module):
    """A layer of a transformer, with heads of two numbers each."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def attend(self, x):
        batch, length, _ = x.shape
        heads = [
            layer(x).view(batch, length, -1, 2).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        ]
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, WORDS)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x.mean((2, 3)))))


def made(kind):
    """The same model on both sides, in four parts one after the other."""
    if kind == "transformer":
        parts = [nn.Embedding(WORDS, WIDTH), Block(), Block(), nn.Linear(WIDTH, WORDS)]
    else:
        first = nn.Sequential(nn.Conv2d(2, 5, 3), nn.ReLU())
        second = nn.Sequential(nn.Conv2d(5, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU())
        parts = [first, second, nn.AvgPool2d(2), Head()]
    model = nn.Sequential(*parts).double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            count = torch.arange(parameter.numel(), dtype=torch.float64) * 1.7 + number
            parameter.copy_(0.4 * torch.sin(count).reshape(parameter.shape) + 0.1)
    return model


def batch(kind, step, rows=slice(None)):
    if kind == "transformer":
        count = torch.arange(BATCH * TOKENS).reshape(BATCH, TOKENS) + step
        x, y = count * count % WORDS, (count * 7 + 3) % WORDS
    else:
        count = torch.arange(BATCH * 2 * 64, dtype=torch.float64) + 31 * step
        x, y = torch.sin(count * count).reshape(BATCH, 2, 8, 8), torch.arange(BATCH) % WORDS
    return x[rows], y[rows]


def loss_of(scores, y):
    return nn.functional.cross_entropy(scores.flatten(0, -2), y.flatten())


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def trained(kind, model, optimizer, rows=slice(None)):
    """Of each step the mean of the ranks' losses."""
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch(kind, step, rows)
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        found.append(total.item() / dist.get_world_size())
    return found


def own_rows():
    share = BATCH // dist.get_world_size()
    return slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)


def alone(kind):
    model = made(kind)
    return trained(kind, model, adam(model.parameters()))


def ddp(kind):
    model = DistributedDataParallel(made(kind))
    return trained(kind, model, adam(model.parameters()), own_rows())


def zero(kind):
    model = DistributedDataParallel(made(kind))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    return trained(kind, model, optimizer, own_rows())


def sharded(kind):
    model, mesh = made(kind), dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model[0], model[1], model):
        fully_shard(part, mesh=mesh)
    return trained(kind, model, adam(model.parameters()), own_rows())


def tensor_parallel(kind):
    model, mesh = made(kind), dist.init_device_mesh("cpu", (dist.get_world_size(),))
    columns = ("q", "k", "v", "up") if kind == "transformer" else ("up",)
    rows = ("out", "down") if kind == "transformer" else ("down",)
    plan = {name: ColwiseParallel() for name in columns}
    plan |= {name: RowwiseParallel() for name in rows}
    for part in (model[1], model[2]) if kind == "transformer" else (model[3],):
        parallelize_module(part, mesh, plan)
    over, rest = [], []
    for parameter in model.parameters():
        (over if hasattr(parameter, "placements") else rest).append(parameter)
    optimizer = torch.optim.AdamW([{"params": over}, {"params": rest}], lr=0.01)
    return trained(kind, model, optimizer)


def pipeline(kind, schedule, each):
    """`each` stages a rank; the last rank tells the losses."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model, count = made(kind), each * size
    share = len(model) // count
    numbers = range(rank, count, size)
    own = [model[n * share : (n + 1) * share] for n in numbers]
    device = torch.device("cpu")
    stages = [PipelineStage(one, n, count, device) for one, n in zip(own, numbers, strict=True)]
    runs = schedule(stages if each > 1 else stages[0], MICRO, loss_fn=loss_of)
    weights = [p for one in own for p in one.parameters()]
    optimizer = adam(weights)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch(kind, step)
        losses = []
        last = {"target": y, "losses": losses} if rank == size - 1 else {}
        runs.step(*((x,) if rank == 0 else ()), **last)
        optimizer.step()
        total = sum(losses, torch.zeros((), dtype=torch.float64)).detach() / MICRO
        dist.broadcast(total, size - 1)
        found.append(total.item())
    return found


WAYS = {
    "alone": alone,
    "ddp": ddp,
    "zero": zero,
    "fully_shard": sharded,
    "tensor parallel": tensor_parallel,
    "gpipe": lambda kind: pipeline(kind, ScheduleGPipe, 1),
    "1f1b": lambda kind: pipeline(kind, Schedule1F1B, 1),
    "interleaved": lambda kind: pipeline(kind, ScheduleInterleaved1F1B, 2),
}


def main():
    dist.init_process_group("gloo")
    kinds = ("transformer", "convolutional")
    found = {f"{way}, {kind}": act(kind) for way, act in WAYS.items() for kind in kinds}
    if dist.get_rank() == 0:
        print("found", json.dumps(found), flush=True)
    dist.barrier()  # torch: who leaves while another is in a call may bring it down
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
