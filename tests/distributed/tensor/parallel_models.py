"""A transformer whose matrices are shared out over ranks; losses of ten steps, for every engine."""

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.fsdp import fully_shard
from pullback.distributed.tensor import Replicate, Shard
from pullback.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from pullback.utils.checkpoint import checkpoint
from tests.distributed.fsdp.models import made

STEPS, BATCH, WORDS, WIDTH, TOKENS = 10, 4, 12, 8, 4


class Block(torch.nn.Module):
    """A layer of a transformer with matrices of its own for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = torch.nn.Linear(WIDTH, 16), torch.nn.Linear(16, WIDTH)

    def attend(self, x):
        batch, length, _ = x.shape
        heads = [
            layer(x).view(batch, length, -1, 2).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        ]
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(2))
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS)
        self.checkpoints = False

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return self.head(self.norm(x))


def batch(step, rows=slice(None)):
    generator = torch.Generator().manual_seed(step)
    x = torch.randint(0, WORDS, (BATCH, TOKENS), generator=generator)
    y = torch.randint(0, WORDS, (BATCH, TOKENS), generator=generator)
    return x[rows], y[rows]


def loss_of(scores, y):
    return torch.nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten())


def trained(model, rows=slice(None), clip=None, autocast=None):
    """The losses of ten steps; of DTensors the whole."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, y = batch(step, rows)
        with loss_parallel():
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bool(autocast)):
                loss = loss_of(model(x), y)
            loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        found.append(loss.full_tensor() if hasattr(loss, "full_tensor") else loss.detach())
    return found


def alone(**options):
    return [loss.item() for loss in trained(made(Model), **options)]


def tensor_parallel(model, mesh, *, sequence=False):
    """Share the model out: matrices by columns, then by rows; the scores by classes."""
    for block in model.blocks:
        plan = {name: ColwiseParallel() for name in ("q", "k", "v", "up")}
        plan |= {name: RowwiseParallel() for name in ("out", "down")}
        if sequence:
            plan |= {"norm1": SequenceParallel(), "norm2": SequenceParallel()}
            plan |= {
                name: ColwiseParallel(input_layouts=Shard(1)) for name in ("q", "k", "v", "up")
            }
            plan |= {name: RowwiseParallel(output_layouts=Shard(1)) for name in ("out", "down")}
        parallelize_module(block, mesh, plan)
    plan = {
        "embed": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    if sequence:
        plan["embed"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
        plan["norm"] = SequenceParallel()
        plan["head"] = ColwiseParallel(
            input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
        )
    return parallelize_module(model, mesh, plan)


def shared_out(*, sequence=False, checkpoints=False, **options):
    """Losses where all ranks share the matrices."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    model = tensor_parallel(made(Model), mesh, sequence=sequence)
    model.checkpoints = checkpoints
    return [loss.item() for loss in trained(model, **options)]


def in_two_ways(*, checkpoints=False, compiled=False, shape=(2, 2), **options):
    """Losses where batches and rows are shared out over "dp", matrices over "tp"."""
    mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
    model = tensor_parallel(made(Model), mesh["tp"])
    model.checkpoints = checkpoints
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh["dp"])
    if compiled:
        for place, block in enumerate(model.blocks):
            model.blocks[place] = torch.compile(block)
    rank, size = mesh.get_local_rank("dp"), shape[0]
    rows = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    found = []
    for loss in trained(model, rows, **options):
        total = loss.clone()
        dist.all_reduce(total, op=dist.ReduceOp.AVG, group=mesh.get_group("dp"))
        found.append(total.item())
    return found
