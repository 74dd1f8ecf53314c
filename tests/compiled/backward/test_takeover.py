"""Backward passes of eager graphs as programs: the engine's results, hits and refusals."""

import numpy as np
import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.backward.takeover import clear_cache, compiled_autograd, is_cache_empty
from pullback.compiled.counting import counters


@pytest.fixture(autouse=True)
def _fresh():
    clear_cache()
    counters["compiled_autograd"].clear()


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8),
                         nn.Linear(8, 3))  # fmt: skip


def grads(model):
    return [p.grad._array.copy() for p in model.parameters()]


def test_gradients_are_the_engines_and_later_passes_hit(backend):
    model, other = net(), net()
    for seed in range(3):
        torch.manual_seed(seed)
        x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 1, 0])
        with compiled_autograd(backend=backend, fallback="error"):
            nn.functional.cross_entropy(model(x), y).backward()
        nn.functional.cross_entropy(other(x), y).backward()
        for ours, wanted in zip(grads(model), grads(other), strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)
    assert counters["compiled_autograd"]["captures"] == 1
    assert counters["compiled_autograd"]["hits"] == 2


def test_other_sizes_and_options_are_other_programs(backend):
    x = torch.ones(3, requires_grad=True)
    with compiled_autograd(backend=backend, fallback="error"):
        (x**2).sum().backward()
        (x**3).sum().backward()
        (x[:2] ** 3).sum().backward()
    assert counters["compiled_autograd"]["captures"] == 3
    np.testing.assert_allclose(x.grad._array, [2 + 3 + 3, 2 + 3 + 3, 2 + 3])


def test_grad_gives_what_is_asked_for(backend):
    x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
    with compiled_autograd(backend=backend, fallback="error"):
        y = (x * w).sin().sum()
        (g,) = torch.autograd.grad(y, [w])
    np.testing.assert_allclose(g._array, np.cos([2.0, 2, 2]), rtol=1e-6)
    assert x.grad is None


def test_graphs_are_freed_and_retained_as_by_the_engine(backend):
    x = torch.ones(3, requires_grad=True)
    with compiled_autograd(backend=backend, fallback="silent"):
        y = (x * x).sum()
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match=r"second time|freed"):
            y.backward()
    np.testing.assert_allclose(x.grad._array, [4.0, 4, 4])


def test_a_changed_saved_tensor_is_the_engines_error(backend):
    x, c = torch.ones(3, requires_grad=True), torch.ones(3)
    y = (x * c).sum()
    c.add_(1)
    with (
        compiled_autograd(backend=backend, fallback="silent"),
        pytest.raises(RuntimeError, match="modified by an inplace"),
    ):
        y.backward()


def test_hooks_run_between_programs(backend):
    x = torch.ones(3, requires_grad=True)
    seen = []
    x.register_hook(seen.append)
    with compiled_autograd(backend=backend, fallback="error"):
        for _ in range(3):
            (x * x).sum().backward()
    assert len(seen) == 3
    assert x.grad.eq(6).all()
    assert counters["compiled_autograd"]["captures"] == 1
    assert counters["compiled_autograd"]["hits"] == 2


def test_blocks_nest_and_end(backend):
    x = torch.ones(3, requires_grad=True)
    with compiled_autograd(backend=backend):
        with compiled_autograd(backend="python"):
            (x * x).sum().backward()
        (x * x).sum().backward()
    captures = counters["compiled_autograd"]["captures"]
    (x * x * x).sum().backward()
    assert counters["compiled_autograd"]["captures"] == captures
    assert not is_cache_empty()


def test_double_backward_inside_is_left_to_the_engine(backend):
    x = torch.tensor(2.0, requires_grad=True)
    with compiled_autograd(backend=backend, fallback="error"):
        (g,) = torch.autograd.grad(x**3, x, create_graph=True)
        (h,) = torch.autograd.grad(g, x)
    assert float(h) == 12
