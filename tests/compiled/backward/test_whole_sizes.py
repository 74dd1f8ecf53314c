"""Graphs for compilers of the user's whose sizes are inputs (K-24, K-26)."""

import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo.utils import counters

import pullback as torch
from pullback import nn
from pullback.nn import functional
from tests.compiled.backward.compilers import Compiler
from tests.compiled.backward.test_whole import Halved


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    module.reset()
    counters["sizes"].clear()


model = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 3))
weight = torch.linspace(-1, 1, 20).reshape(4, 5).requires_grad_()


def classified(n):
    hidden = model[:2](torch.randn(n, 5))
    hidden.register_hook(lambda g: g * 2)
    return functional.cross_entropy(model[2:](hidden), torch.randint(0, 3, (n,)))


def averaged(n):
    return ((torch.randn(n, 4) @ weight).softmax(-1) ** 2).mean()


def flattened(n):
    return ((torch.randn(n, 4) @ weight).reshape(-1).sin() * torch.randn(n * 5)).std()


def of_a_function(n):
    y = Halved.apply(torch.randn(n, 4) @ weight)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t,), lambda pair: pair[0]):
        y = y.exp()
    y.grad_fn.register_hook(lambda made, given: (made[0] * 2,))
    return (y * torch.randn(n, 1)).mean(0).sum()


def joined(n):
    a, b = (torch.randn(n, 4) @ weight).split([2, 3], 1)
    return torch.cat([a.t(), b.t()]).tanh().sum(1).prod() / n


def convolved(n):
    return (
        functional.max_pool2d(
            functional.conv2d(torch.randn(n, 1, 8, 8), weight.view(1, 1, 4, 5)), 2
        )
        .relu()
        .mean()
    )


LOSSES = {
    classified: list(model.parameters()), averaged: [weight], flattened: [weight],
    of_a_function: [weight], joined: [weight], convolved: [weight],
}  # fmt: skip


def passes(loss, parameters, sizes, **options):
    compiler = Compiler()
    for size in sizes:
        torch.manual_seed(3)
        wanted = torch.autograd.grad(loss(size), parameters)
        torch.manual_seed(3)
        with module._enable(compiler, **options):
            ours = torch.autograd.grad(loss(size), parameters)
        for one, other in zip(ours, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    return compiler


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
def test_a_new_batch_size_hits(loss):
    compiler = passes(loss, LOSSES[loss], (7, 9, 2, 40, 9, 13))
    assert len(compiler.graphs) == 1
    found = counters["compiled_autograd"]
    assert (found["captures"], found["hits"]) == (1, 5)
    assert not counters["sizes"]


def test_sizes_are_numbers_of_the_graph():
    """K-8, K-26: those that no operator asks for are left out."""
    compiler = passes(averaged, [weight], (7, 9))
    assert [call[1] for call in compiler.calls] == [[7], [9]]
    compiler = passes(lambda n: (torch.randn(n, 4) @ weight).sin().sum(0).prod(), [weight], (7, 8))
    assert len(compiler.graphs) == 1
    assert [len(call[1]) for call in compiler.calls] == [0, 0] or compiler.calls[1][1] == [8]


def test_leaves_may_vary():
    compiler = Compiler()
    for n in (4, 6, 11):
        x = torch.randn(n, requires_grad=True)
        with module._enable(compiler):
            (x.exp() * x).mean().backward()
        torch.testing.assert_close(x.grad, (x.exp() * (x + 1)).detach() / n)
    assert len(compiler.graphs) == 1


def test_two_sizes_that_vary_apart():
    def loss(sizes):
        a, b = sizes
        return ((torch.randn(a, b, 4) @ weight).tanh() * torch.randn(b, 5)).mean()

    sizes = ((7, 3), (2, 8), (9, 9), (10, 3))
    assert len(passes(loss, [weight], sizes).graphs) == 1


@pytest.mark.parametrize("sizes", [(7, 1, 8), (1, 7, 8), (6, 7, 8), (5, 6, 7, 9), (7, 0, 8)])
def test_sizes_that_choose_other_formulas_or_were_equal_by_chance(sizes):
    """K-26: 0, 1, and one that another dimension has too, have graphs of their own."""
    compiler = passes(averaged, [weight], sizes) if 0 not in sizes else passes(
        lambda n: (torch.randn(n, 4) @ weight).sum(), [weight], sizes
    )  # fmt: skip
    assert len(compiler.graphs) <= 3


def test_static_sizes_become_inputs_when_they_change():
    """K-24: with dynamic=False by one more capture, and only those that changed."""

    def loss(sizes):
        a, b = sizes
        return ((torch.randn(a, b, 4) @ weight).tanh() * torch.randn(b, 5)).mean()

    def graphs(*sizes):
        module.reset()
        return len(passes(loss, [weight], sizes, dynamic=False).graphs)

    assert graphs((7, 3), (7, 3)) == 1
    assert graphs((7, 3), (8, 3), (9, 3), (10, 3)) == 2
    assert graphs((7, 3), (8, 3), (9, 3), (9, 6), (10, 8), (11, 9)) == 3
    compiler = passes(loss, [weight], ((17, 3), (8, 3), (9, 3)), dynamic=False)
    assert [call[1] for call in compiler.calls] == [[], [8], [9]]


FACTORS = {
    "factor": lambda c: (weight * c).sin().sum(),
    "divisor": lambda c: (weight.exp() / c).sin().sum(),
    "alpha of a sum": lambda c: torch.add(weight.sin(), weight.exp(), alpha=c).prod(),
    "alpha of a difference": lambda c: torch.sub(weight.sin(), weight.exp(), alpha=c).prod(),
    "value": lambda c: torch.addcmul(weight, weight, weight, value=c).prod(),
    "two of them": lambda c: ((weight * c).tanh() * 2.5 / (c + 1)).sum(),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("numbers", [(0.1, 2.0, -3.7, 0.0, 1.0), (3, 5, 7)])
def test_factors_are_numbers_of_the_graph(name, numbers):
    """K-25: a rate that changes in each step hits."""
    compiler = passes(FACTORS[name], [weight], numbers)
    assert len(compiler.graphs) == 1
    assert all(len(call[2]) >= 1 for call in compiler.calls)
    module.reset()
    assert len(passes(FACTORS[name], [weight], numbers, dynamic=False).graphs) == 1


def test_a_number_that_is_no_size_is_captured_anew():
    """K-25"""
    x = torch.linspace(1, 2, 6, requires_grad=True)
    assert len(passes(lambda n: (x**n).sum(), [x], (2, 3, 4)).graphs) == 3


def test_a_loop_over_a_size_has_a_graph_for_each():
    def loss(n):
        return sum(
            one.sin().sum() * k for k, one in enumerate((torch.ones(n, 4) @ weight).unbind())
        )

    assert len(passes(loss, [weight], (3, 4, 3)).graphs) == 2
