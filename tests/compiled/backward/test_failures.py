"""What goes wrong in captured backward passes: nothing is consumed, nothing is half done."""

import numpy as np
import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo.utils import counters

import pullback as torch
from pullback.compiler import compiled_autograd


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    module.reset()


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


@pytest.mark.parametrize("fallback", ["warn", "silent", "error"])
def test_changed_and_freed_values_are_refused_as_by_the_engine(fallback):
    """K-14: with the engine's error alone, whatever is said of other passes."""
    x, w = leaf(3), torch.randn(3)
    with compiled_autograd(backend="python", fallback=fallback):
        y = (x * w).sum()
        w.add_(1)
        with pytest.raises(RuntimeError, match=r"modified by an inplace|changed in place"):
            y.backward()
        z = (x * w).sum()
        z.backward()
        with pytest.raises(RuntimeError, match=r"second time|freed"):
            z.backward()


def test_anomaly_detection_refuses_a_stored_nan_up_front():
    """K-18"""
    x = leaf(3)
    x.grad = torch.tensor([0.0, float("nan"), 0.0])
    y = x.exp().sum()
    with compiled_autograd(backend="python", fallback="silent"):
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            y.backward(retain_graph=True)
        before = x.grad.clone()
        with (
            torch.autograd.set_detect_anomaly(True),
            pytest.raises(RuntimeError, match="before this backward pass begins"),
        ):
            y.backward()
    assert torch.equal(x.grad[0], before[0])


def test_clearing_is_refused_inside_a_pass():
    """K-30"""
    x = leaf(3)
    x.register_hook(lambda g: module.clear_cache())
    with pytest.raises(RuntimeError, match="in use"):
        x.sum().backward()
    assert module.is_cache_empty()

    def compiler(graph_module):
        def run(*lists):
            with pytest.raises(RuntimeError, match="in use"):
                module.clear_cache()
            return graph_module(*lists)

        return run

    y = leaf(3)
    with module._enable(compiler):
        y.exp().sum().backward()
    assert not module.is_cache_empty()
    module.clear_cache()
    assert module.is_cache_empty()


def test_a_hook_that_fails_fails_as_on_the_engine():
    """K-33, K-34"""
    x = leaf(3)
    y = x.exp()
    y.register_hook(lambda g: 1 / 0)
    with compiled_autograd(backend="python", fallback="silent"), pytest.raises(ZeroDivisionError):
        y.sum().backward()
    z = x.exp()
    z.register_hook(lambda g: g[:1])
    with (
        compiled_autograd(backend="python", fallback="silent"),
        pytest.raises(RuntimeError, match="changed the size"),
    ):
        z.sum().backward()
    x.grad = None
    x.exp().sum().backward()
    np.testing.assert_allclose(x.grad._array, x.exp()._array)


@pytest.mark.parametrize(
    "wrong",
    [
        list,
        lambda: [torch.ones(2)],
        lambda: [torch.ones(3, dtype=torch.float64)],
        lambda: [torch.ones(3)] * 2,
        lambda: [3],
    ],
)
def test_results_that_are_not_the_graphs_are_refused(wrong):
    """K-8, K-32, K-33: by a replay that fails nothing is consumed."""
    x = leaf(3)
    y = x.exp().sum()
    with module._enable(lambda graph_module: lambda *lists: wrong()):
        with pytest.raises(RuntimeError, match="gave results of shapes and dtypes"):
            torch.autograd.grad(y, x)
        # The graph of backward() gives nothing, and adds to .grad itself.
        said = "left out calls" if wrong is list else "gave results of shapes and dtypes"
        with pytest.raises(RuntimeError, match=said):
            y.backward()
    assert x.grad is None
    assert not module.in_compiled_autograd_region
    y.backward()
    assert torch.equal(x.grad, x.exp())


def test_a_compiler_that_fails_shows_the_graph():
    """K-35"""

    def compiler(graph):
        raise ValueError("no")

    x = leaf(3)
    with module._enable(compiler), pytest.raises(ValueError, match="no") as caught:
        x.exp().sum().backward()
    assert "aten" in "".join(caught.value.__notes__)
    x.exp().sum().backward()
    assert torch.equal(x.grad, x.exp())


@pytest.mark.parametrize("fallback", ["warn", "silent", "error"])
def test_a_back_end_that_fails_is_told_of_as_the_block_says(fallback, recwarn):
    """K-35"""

    def compiler(graph, examples):
        raise ValueError("no")

    for hook in (False, True):
        x = leaf(3)
        y = x.exp()
        if hook:
            y.register_hook(lambda g: g * 2)
        with compiled_autograd(backend=compiler, fallback=fallback):
            if fallback == "error":
                with pytest.raises(ValueError, match="no") as caught:
                    y.sin().sum().backward()
                assert "aten" in "".join(caught.value.__notes__)
            else:
                y.sin().sum().backward()
                torch.testing.assert_close(x.grad, (1 + hook) * y.cos() * y)
    told = [one for one in recwarn if "its compiler raised ValueError: no" in str(one.message)]
    assert bool(told) == (fallback == "warn")


def test_the_same_back_end_in_another_block_finds_its_programs():
    """K-21"""
    made = []

    def compiler(graph, examples):
        made.append(graph)
        return graph

    for _ in range(3):
        x = leaf(3)
        with compiled_autograd(backend=compiler):
            x.exp().sum().backward()
        assert torch.equal(x.grad, x.exp())
    assert len(made) == 1


def test_a_pass_inside_a_compiler_names_what_helps():
    """K-6"""
    x, y = leaf(3), leaf(3)

    def careless(graph):
        y.exp().sum().backward()
        return graph

    def careful(graph):
        with module._disable():
            y.exp().sum().backward()
        return graph

    loss = x.exp().sum()
    with module._enable(careless), pytest.raises(NotImplementedError, match="_disable"):
        loss.backward()
    assert y.grad is None
    with module._enable(careful):
        loss.backward()
    assert torch.equal(x.grad, x.exp())
    assert torch.equal(y.grad, y.exp())


def test_nothing_is_kept_alive_by_graphs_for_compilers():
    """K-29"""
    import gc
    import weakref

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x, w = leaf(3), torch.randn(3)
    h = (x * w).sin()
    hook = lambda g: None  # noqa: E731 (one that can be referred to)
    h.register_hook(hook)
    root = Twice.apply(h).exp().sum()
    with module._enable(lambda graph: graph):
        root.backward()
    watched = [weakref.ref(one) for one in (x, w, h, hook, root.grad_fn, h.grad_fn)]
    del x, w, h, hook, root
    gc.collect()
    assert [one() for one in watched] == [None] * 6
    assert not module.is_cache_empty()


def test_a_pass_that_cannot_be_captured_is_tried_once():
    """K-28, K-31"""
    table = torch.nn.Embedding(5, 2, sparse=True)

    def compiler(graph):
        return graph

    for _ in range(3):
        with (
            module._enable(compiler),
            pytest.warns(UserWarning, match="the engine runs this backward"),
        ):
            table(torch.tensor([1, 1, 3])).sum().backward()
    assert table.weight.grad.to_dense()[1].eq(6).all()
    assert counters["compiled_autograd"]["captures"] == 1
