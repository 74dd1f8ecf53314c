"""Programs for all sizes: written once, cast for sizes as they come."""

import numpy as np
import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.counting import counters

pytest.importorskip("llvmlite")

from pullback.compiled.llvm import module
from pullback.compiled.llvm import mould as moulds


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    counters.clear()


def written(monkeypatch):
    """A list that grows with every program that is written."""
    found = []
    begin = module.ModuleText.__init__

    def counted(self, *args, **kwargs):
        found.append(1)
        begin(self, *args, **kwargs)

    monkeypatch.setattr(module.ModuleText, "__init__", counted)
    return found


def decode(x, cache):
    """A step of attention over a cache that grows."""
    k = torch.cat([cache, x], 1)
    return nn.functional.scaled_dot_product_attention(x, k, k)


def test_no_text_is_written_for_a_size_that_decides_alike(monkeypatch):
    """Lengths of a cache are words of a table."""
    f = torch.compile(decode, backend="llvm")
    x = torch.randn(2, 1, 16)
    with torch.no_grad():
        for n in (3, 5, 14, 15, 16, 40):
            f(x, torch.randn(2, n, 16))
        found = written(monkeypatch)
        for n in (2, 4, 6, 7, 17, 31, 32, 33, 63, 64, 65, 127, 200, 500, 1000):
            cache = torch.randn(2, n, 16)
            ours, eager = f(x, cache).numpy(), decode(x, cache).numpy()
            np.testing.assert_allclose(ours, eager, rtol=2e-5, atol=1e-6)
    assert counters["compile"]["captures"] == 1
    assert not found
    assert not counters["errors"]


def test_sizes_that_decide_otherwise_have_another_mould(monkeypatch):
    """A length that is equal to another size, or that needs another loop, is not mixed up."""
    f = torch.compile(lambda x, y: (x @ y).sum(0), backend="llvm")
    for n in (5, 9, 7, 8, 3, 2, 31, 33, 64, 700, 2000, 4100):
        x, y = torch.randn(4, n), torch.randn(n, 8)
        np.testing.assert_allclose(f(x, y).numpy(), (x @ y).sum(0).numpy(), rtol=2e-3, atol=1e-4)


def test_kernels_between_native_parts_are_those_of_the_size():
    """Opaque steps, their checks and their random numbers follow the size of the call."""

    def step(x, y):
        noise = torch.rand(x.shape[0], 1)
        z = (x * noise).sort(0).values.cumsum(0) * 2
        return nn.functional.cross_entropy(z, y)

    f = torch.compile(step, backend="llvm")
    for n in (4, 6, 9, 33, 5, 70):
        x, y = torch.randn(n, 7, requires_grad=True), torch.randint(0, 7, (n,))
        results = []
        for one in (step, f):
            torch.manual_seed(n)
            loss = one(x, y)
            results.append([loss, *torch.autograd.grad(loss, x)])
        for ours, eager in zip(*results, strict=True):
            np.testing.assert_allclose(
                ours.detach().numpy(), eager.detach().numpy(), rtol=2e-5, atol=1e-6
            )
    with pytest.raises(IndexError):
        f(torch.randn(8, 7, requires_grad=True), torch.full((8,), 7))
    assert not counters["errors"]


def test_a_cast_is_looked_at_as_a_program_of_its_size():
    """Profilers and explanations see the steps of the sizes that ran."""
    f = torch.compile(lambda x: (x.tanh() * 2).sum(0), backend="llvm")
    for n in (4, 6, 9):
        f(torch.randn(n, 7))
    (family,) = f.families.found
    (program,) = family.entries[(6,)].programs()
    assert isinstance(program, moulds.Cast)
    assert program.plan.steps[0].domain == (6, 7)
    with torch.profiler.profile() as seen:
        x = torch.randn(9, 7)
        assert torch.allclose(f(x), (x.tanh() * 2).sum(0))
    assert any("loop" in event.key for event in seen.key_averages())


def test_tensors_without_elements_are_left_to_eager_kernels():
    """Whether a tensor is empty is one of the decisions by sizes."""

    def work(x):
        return x[3:].sum(0) + x[:0].sum(0) + (x[:, :0] @ x[:, :0].t()).sum()

    f = torch.compile(work, backend="llvm")
    g = torch.compile(lambda x: x[3:].exp().sum(0) * 2, backend="llvm")
    for n in (5, 7, 4, 3, 9, 3, 33):
        x = torch.randn(n, 6)
        assert torch.allclose(f(x), work(x), rtol=1e-4, atol=1e-5)
        assert torch.allclose(g(x), x[3:].exp().sum(0) * 2, rtol=1e-4, atol=1e-5)
    assert not counters["errors"]


def test_writes_of_a_family_happen_in_place():
    """What a program writes over is written at every size."""
    weight = torch.zeros(7)

    def step(x):
        weight.add_(x.sum(0))
        return x * weight

    f = torch.compile(step, backend="llvm")
    wanted = torch.zeros(7)
    with torch.no_grad():
        for n in (4, 6, 9, 33, 5):
            x = torch.randn(n, 7)
            wanted += x.sum(0)
            assert torch.allclose(f(x), x * wanted, rtol=1e-4, atol=1e-5)
            assert torch.allclose(weight, wanted, rtol=1e-4, atol=1e-5)
