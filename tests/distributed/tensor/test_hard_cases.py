"""Where parts are empty, uneven, negative or written to: what is easily wrong without a word."""

import copy

import numpy
import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from pullback.distributed.tensor.experimental import implicit_replication
from pullback.distributed.tensor.parallel import ColwiseParallel, parallelize_module

# Whatever has no rule is computed on the whole, and says so once in a process.
pytestmark = pytest.mark.filterwarnings("ignore:.*has no rule:UserWarning")

F = torch.nn.functional
WHOLE = torch.arange(12.0, dtype=torch.float64).reshape(4, 3) / 7 - 0.5
LAYOUTS = [Replicate(), Shard(0), Shard(1)]


def over(*shape):
    return init_device_mesh("cpu", shape or (dist.get_world_size(),))


def spread(tensor, *where, mesh=None):
    return distribute_tensor(tensor.clone(), mesh or over(), where, src_data_rank=None)


def of_sums(tensor):
    """Sums over ranks whose parts have other signs than the whole."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    part = tensor + 1.5 if rank == 0 else torch.full_like(tensor, -1.5 if rank == last else 0.0)
    return DTensor.from_local(part, over(), [Partial()], shape=tensor.shape)


def same(got, wanted, about=""):
    got = got.full_tensor() if isinstance(got, DTensor) else got
    torch.testing.assert_close(
        got.detach(), wanted.detach(), equal_nan=True, msg=lambda m: f"{about}: {m}"
    )


@pytest.mark.parametrize("name", ["t_", "unsqueeze_", "squeeze_", "transpose_", "resize_", "set_"])
def test_a_tensor_over_a_mesh_keeps_its_shape_and_says_so(name):
    arguments = {"unsqueeze_": (0,), "transpose_": (0, 1), "resize_": (2, 3)}

    def one():
        for where in LAYOUTS:
            x = spread(WHOLE, where)
            given = (x + 1,) if name == "set_" else arguments.get(name, ())
            with pytest.raises(NotImplementedError, match=f"{name}.*keeps its shape"):
                getattr(x, name)(*given)
            same(x, WHOLE)

    dist.threads.run(one, 2)


def test_data_takes_the_parts_of_another_tensor():
    def one():
        x = spread(WHOLE, Shard(0)).requires_grad_()
        x.data = x.data * 3
        same(x, WHOLE * 3)
        same(x + 1, WHOLE * 3 + 1)
        x.data = spread(WHOLE.float(), Shard(1))
        assert x.placements == (Shard(1),)
        assert x.dtype is x.to_local().dtype is torch.float32
        (x * 2).sum().backward()
        assert x.grad.full_tensor().tolist() == [[2.0] * 3] * 4
        with pytest.raises(TypeError, match="distribute_tensor"):
            x.data = WHOLE
        layer = parallelize_module(torch.nn.Linear(3, 4), over(), ColwiseParallel()).double()
        assert layer.weight.to_local().dtype is torch.float64
        assert layer(WHOLE).dtype is torch.float64

    dist.threads.run(one, 2)


def test_views_of_empty_parts_are_written_to_on_all_ranks_alike():
    def one():
        x = spread(WHOLE[:2], Shard(0))  # two of the ranks have nothing
        x.t().add_(1)
        same(x, WHOLE[:2] + 1)
        x[:, 1:].mul_(0)
        leaf = spread(WHOLE, Shard(1)).requires_grad_()
        y = leaf * 2
        y[2].mul_(3)
        y.square().sum().backward()
        return leaf.grad.full_tensor()

    leaf = WHOLE.clone().requires_grad_()
    y = leaf * 2
    y[2].mul_(3)
    y.square().sum().backward()
    for found in dist.threads.run(one, 4):
        same(found, leaf.grad)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4])
def test_reductions_of_few_rows_over_a_mesh_of_two_dimensions(rows):
    acts = {
        "sum": lambda x: x.sum(-2, keepdim=True),
        "mean": lambda x: x.mean(0),
        "mean of all": lambda x: x.mean(),
        "norm": lambda x: x.norm(),
        "norms": lambda x: torch.linalg.vector_norm(x, 3, dim=-2),
        "prod": lambda x: x.prod(0),
        "prod of all": lambda x: x.prod(),
        "all": lambda x: (x > 0).all(),
        "logsumexp": lambda x: x.logsumexp((0, 1)),
        "var": lambda x: x.var(0, unbiased=False),
    }
    if rows:
        acts |= {
            "amax": lambda x: x.amax(0),
            "both": lambda x: x.amax((-1, -2), keepdim=True),
            "argmax": lambda x: x.argmax(-2),
            "topk": lambda x: x.topk(1, 0)[0],
            "median": lambda x: x.median(0)[1],
        }
    whole = WHOLE[:rows]

    def one():
        mesh = over(2, 2)
        for first in LAYOUTS:
            for second in LAYOUTS:
                x = spread(whole, first, second, mesh=mesh)
                for name, act in acts.items():
                    same(act(x), act(whole), (name, first, second))

    dist.threads.run(one, 4)


ACTS = {
    "relu": lambda x: x.relu(),
    "abs": lambda x: x.abs(),
    "maximum": lambda x: torch.maximum(x, x * 2),
    "where": lambda x: torch.where(x > 0, x, -x),
    "fill": lambda x: x.masked_fill(x > 0, 1.0),
    "clear": lambda x: x.masked_fill(x > 0, 0.0),
    "pad": lambda x: F.pad(x, (1, 1), value=2.0),
    "floor": lambda x: torch.div(x, 0.3, rounding_mode="floor"),
    "subtract": lambda x: 1 - x,
    "share": lambda x: x / x.sum(),
    "product": lambda x: x @ x.t(),
    "norm": lambda x: x.norm(),
    "mean": lambda x: x.mean(-1),
    "into": lambda x: x.clone().add_(1).mul_(2),
    "addmm": lambda x: torch.addmm(x[:, :1].expand(4, 4), x, x.t()),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.unsqueeze(0)] * 3),
    "l1": lambda x: F.l1_loss(x, x * 2),
    "pool": lambda x: F.max_pool1d(x, 2),
    "half": lambda x: x.float(),
    "dropout": lambda x: F.dropout(x, 0.0) + F.dropout(x, 1.0),
}


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("ranks", [2, 4])
def test_sums_over_ranks_are_added_before_what_is_not_linear(name, ranks):
    act = ACTS[name]
    leaf = WHOLE.clone().requires_grad_()
    wanted = act(leaf)
    wanted.sum().backward()

    def one():
        x = of_sums(WHOLE).detach().requires_grad_()
        out = act(x)
        same(out, wanted)
        out.sum().backward()
        same(x.grad, leaf.grad)

    dist.threads.run(one, ranks)


@pytest.mark.parametrize("where", [Replicate(), Shard(0), Shard(1), Shard(2)], ids=str)
def test_batch_norm_moves_its_running_statistics(where):
    images = torch.linspace(-1, 2, 120, dtype=torch.float64).reshape(6, 4, 5).sin()
    layer = torch.nn.BatchNorm1d(4).double()
    alone = copy.deepcopy(layer)
    wanted = [alone(images), alone.eval()(images)]

    def one():
        spread_out = distribute_module(copy.deepcopy(layer), over())
        same(spread_out(spread(images, where)), wanted[0])
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            same(getattr(spread_out, name), getattr(alone, name), name)
        same(spread_out.eval()(spread(images, where)), wanted[1])

    dist.threads.run(one, 2)


SCORES = torch.linspace(-2, 2, 24, dtype=torch.float64).reshape(4, 6).sin() * 3


@pytest.mark.parametrize("where", LAYOUTS, ids=str)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_of_classes_that_are_ruled_out(where, reduction):
    scores = SCORES.clone()
    scores[:, 0] = -float("inf")
    targets = torch.tensor([1, 5, -100, 2])
    scores.requires_grad_()
    wanted = F.cross_entropy(scores, targets, reduction=reduction)
    wanted.sum().backward()

    def one():
        x = spread(scores.detach(), where).requires_grad_()
        with implicit_replication():
            found = F.cross_entropy(x, targets, reduction=reduction)
            found.sum().backward()
        same(found, wanted)
        same(x.grad, scores.grad)

    dist.threads.run(one, 2)


@pytest.mark.parametrize("where", LAYOUTS, ids=str)
@pytest.mark.parametrize("wrong", [6, -1])
def test_targets_and_indices_out_of_range_are_refused(where, wrong):
    def one():
        with implicit_replication():
            x = spread(SCORES, where)
            with pytest.raises((IndexError, RuntimeError)):
                F.cross_entropy(x, torch.tensor([wrong] * 4))
            with pytest.raises((IndexError, RuntimeError)):
                x.gather(1, torch.tensor([[wrong]] * 4))
            with pytest.raises((IndexError, RuntimeError)):
                F.embedding(torch.tensor([wrong]), x)

    dist.threads.run(one, 2)


@pytest.mark.parametrize("where", LAYOUTS, ids=str)
def test_rows_of_zeros_are_counted_from_the_end(where):
    rows, index = SCORES[:, :3], torch.tensor([[0, 3, 2], [2, 2, 1]])
    for options in ({"padding_idx": -1}, {"padding_idx": -2, "scale_grad_by_freq": True}):
        table = rows.clone().requires_grad_()
        F.embedding(index, table, **options).square().sum().backward()

        def one(options=options, table=table):
            own = spread(rows, where).requires_grad_()
            for lies in (Replicate(), Shard(0), Shard(1)):
                own.grad = None
                out = F.embedding(spread(index, lies), own, **options)
                same(out, F.embedding(index, table, **options))
                out.square().sum().backward()
                same(own.grad, table.grad)

        dist.threads.run(one, 2)


def test_a_view_of_another_dtype():
    def one():
        for where in LAYOUTS:
            same(spread(WHOLE.float(), where).view(torch.int32), WHOLE.float().view(torch.int32))

    dist.threads.run(one, 2)


def test_values_are_not_to_be_had_past_the_class():
    def one():
        x = spread(WHOLE, Shard(0))
        for leave in (numpy.asarray, numpy.array, torch.from_dlpack):
            with pytest.raises(RuntimeError, match="has no array"):
                leave(x)

    dist.threads.run(one, 2)


def test_adafactor_has_the_steps_of_one_process():
    def trained(leaf):
        optimizer = torch.optim.Adafactor([leaf], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (leaf**3).sum().backward()
            optimizer.step()
        return leaf

    def one(where):
        same(trained(torch.nn.Parameter(spread(WHOLE, where))), wanted)

    wanted = trained(torch.nn.Parameter(WHOLE.clone()))
    for where in LAYOUTS:
        dist.threads.run(one, 2, where)
