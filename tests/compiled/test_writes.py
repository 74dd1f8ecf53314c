"""Writes, aliases and random numbers of a compiled function are those of eager."""

import pytest

import pullback as torch
from pullback import nn
from tests.compiled.closeness import close

# Writes and aliases ------------------------------------------------------------------------------


def test_writes_to_arguments_and_held_tensors_happen(compiled):
    """K-49"""
    total = torch.zeros(3)

    def f(x):
        total.add_(x)
        x.mul_(2)
        x[0] = 7
        return x + total

    g = compiled(f, fullgraph=True)
    x, mirror, sums = torch.ones(3), torch.ones(3), torch.zeros(3)
    for _ in range(3):
        version = x._version
        ours = g(x)
        assert x._version > version
        sums += mirror
        mirror *= 2
        mirror[0] = 7
        close(ours, mirror + sums)
        close(x, mirror)
        close(total, sums)


def test_writes_to_temporaries_are_functional(compiled):
    """K-48"""

    def f(x):
        y = x.clone()
        y.view(-1).add_(1)
        y[1] += x[0]
        z = torch.zeros(2, 3)
        z[0].copy_(y[1])
        y.t()[0].mul_(3)
        return y * 2, z

    x = torch.randn(2, 3)
    for ours, one in zip(compiled(f, fullgraph=True)(x), f(x), strict=True):
        close(ours, one)
    x.requires_grad_()
    for ours, one in zip(
        torch.autograd.grad(sum(t.sum() for t in compiled(f, fullgraph=True)(x)), x),
        torch.autograd.grad(sum(t.sum() for t in f(x)), x),
        strict=True,
    ):
        close(ours, one)


def test_an_argument_returned_is_the_same_object_and_a_view_looks_at_it(compiled):
    """K-50"""

    def f(x):
        return x, x[0], x.t(), x.detach()

    x = torch.ones(2, 3, requires_grad=True)
    same, row, turned, cut = compiled(f, fullgraph=True)(x)
    assert same is x
    assert row.requires_grad
    assert not cut.requires_grad
    assert row._base is x
    with torch.no_grad():
        x[0, 1] = 5
    assert row[1] == 5
    assert turned[1, 0] == 5
    assert cut[0, 1] == 5


def test_a_write_to_memory_that_another_argument_shares_is_left_to_eager(compiled):
    """K-51"""

    def f(a, b):
        a.add_(1)
        return b * 2

    g = compiled(f)
    close(g(torch.zeros(3), torch.zeros(3)), torch.zeros(3))
    memory = torch.zeros(4)
    close(g(memory[:3], memory[1:]), torch.tensor([2.0, 2.0, 0.0]))


WRITES = {
    "copy_": lambda y: y[1:].copy_(y[:-1]),
    "copy_ broadcast": lambda y: y.copy_(y[:1]),
    "copy_ of a transpose": lambda y: y.view(2, 2).t().copy_(y.view(2, 2)),
    "setitem": lambda y: y.__setitem__(slice(1, None), y[:-1]),
    "index_put_": lambda y: y.index_put_((torch.tensor([0, 1]),), y[1:3]),
    "index_add_": lambda y: y.index_add_(0, torch.tensor([0, 1]), y[1:3]),
    "scatter_": lambda y: y.scatter_(0, torch.tensor([0, 1]), y[1:3]),
    "out=": lambda y: torch.add(y[1:], 1, out=y[:-1]),
    "add_": lambda y: y[1:].add_(y[:-1]),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_reads_a_part_of_its_memory_is_refused_as_by_eager(compiled, name):
    def f(x):
        y = x * 1
        WRITES[name](y)
        return y

    for g in (f, compiled(f)):
        with pytest.raises(RuntimeError, match="share one memory location"):
            g(torch.arange(4.0))


def test_a_write_from_another_part_of_its_memory_is_captured(compiled):
    def f(x):
        y = x * 1
        y[:2].copy_(y[2:])
        y[2:] = y[:2] * 3
        return y

    close(compiled(f, fullgraph=True)(torch.arange(4.0)), f(torch.arange(4.0)))


def test_batch_norm_updates_its_statistics(compiled):
    one, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    f = compiled(one, fullgraph=True)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(8, 3)
        close(f(x), other(x))
    close(one.running_mean, other.running_mean)
    assert one.num_batches_tracked == other.num_batches_tracked == 3
    one.eval()
    other.eval()
    close(f(x), other(x))


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_gradient_is_forgotten_though_there_was_none_at_the_first_call(compiled, by_hand):
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], 0.1)

    def f(x):
        if by_hand:
            w.grad = None
        else:
            optimizer.zero_grad()
        return (x * w).sum()

    g = compiled(f)
    for turn in range(1, 5):
        g(torch.full((3,), float(turn))).backward()
        close(w.grad, torch.full((3,), float(turn)))
    assert g.entries


def test_a_gradient_is_forgotten_before_a_break_though_there_was_none(compiled):
    layer = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)

    def step(x):
        optimizer.zero_grad()
        loss = layer(x).pow(2).mean()
        value = loss.item()
        loss.backward()
        return value

    f = compiled(step, options={"never_slower": False})
    for turn in range(1, 5):
        x = torch.full((4, 3), float(turn))
        f(x)
        expected = torch.autograd.grad(layer(x).pow(2).mean(), layer.weight)[0]
        close(layer.weight.grad, expected)


# Randomness --------------------------------------------------------------------------------------


def test_random_numbers_come_from_the_same_stream(compiled):
    """K-52"""
    layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    def f(x):
        return layers(x) + torch.rand(2) + torch.randn_like(x[:, :2])

    g = compiled(f, fullgraph=True)
    x = torch.randn(3, 4)
    torch.manual_seed(5)
    wanted = [f(x) for _ in range(3)]
    torch.manual_seed(5)
    for one in wanted:
        close(g(x), one)
    torch.manual_seed(5)
    close(g(x), wanted[0])


def test_out_of_a_dtype_that_cannot_take_the_result_raises(compiled):
    f = compiled(lambda x, out: torch.add(x, 1, out=out))
    x = torch.tensor([1.5, 2.0])
    for dtype in (torch.float32, torch.float64):
        assert f(x, torch.zeros(2, dtype=dtype)).tolist() == [2.5, 3.0]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can't be cast"):
            f(x, torch.zeros(2, dtype=torch.int64))
