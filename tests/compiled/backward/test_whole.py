"""A compiler of the user's gets a whole pass: operators, and all of a user's code as calls."""

import warnings

import numpy as np
import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo.utils import counters

import pullback as torch
from pullback.core import overriding
from tests.compiled.backward.compilers import Compiler
from tests.compiled.backward.graphs_with_hooks import TABLE, at_random, same, seen, shown


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    module.reset()


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


# Whose user code does what no graph could tell: the pass goes on without the compiler's function.
DEPARTING = {"that_adds_another", "that_swaps_data", "a_step_inside", "without_gradient",
             "of_functions", "of_one_result"}  # fmt: skip


@pytest.mark.parametrize("how", ["backward", "twice", "grad", "inputs"])
@pytest.mark.parametrize("build", TABLE, ids=lambda f: f.__name__)
def test_user_code_sees_what_it_sees_on_the_engine(build, how):
    """K-9, K-11, K-12, K-13, K-17, K-33"""
    compiler = Compiler()
    if build.__name__ in DEPARTING:  # after some departures the engine is given such passes
        warnings.simplefilter("ignore", UserWarning)
    for seed in range(4):
        theirs = seen(build, how, seed)
        with module._enable(compiler):
            ours = seen(build, how, seed)
        same(ours, theirs, 1e-6)
    found = counters["compiled_autograd"]
    if overriding.answering:
        return
    assert compiler.graphs
    if build.__name__ not in DEPARTING:
        assert not [name for name in found if name.startswith(("fallback", "departure"))]


@pytest.mark.parametrize("how", ["backward", "twice", "grad", "inputs"])
@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_with_user_code_in_them(seed, how):
    build = at_random(seed)
    compiler = Compiler()
    for values in range(3):
        theirs = seen(build, how, values)
        with module._enable(compiler):
            ours = seen(build, how, values)
        same(ours, theirs, 1e-5)


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / 2

    @staticmethod
    def backward(ctx, g):
        assert len(ctx.saved_tensors) == 1
        return g / 2


def with_everything(x, w):
    """A loss with hooks of every sort, a custom Function and packed values; and the hooks."""
    hooks = {}

    def named(name):
        def hook(*given):
            hooks.setdefault("ran", []).append(name)

        hooks[name] = hook
        return hook

    h = Halved.apply(x * w)
    h.register_hook(named("tensor"))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: ("packed", t), lambda pair: pair[1]):
        y = h.sin()
    y.grad_fn.register_prehook(named("pre"))
    y.grad_fn.register_hook(named("post"))
    y.retain_grad()
    w.register_hook(named("leaf"))
    w.register_post_accumulate_grad_hook(named("accumulated"))
    return (y * 2.0).sum(), y, hooks


def test_one_graph_has_all_of_a_pass_in_order():
    """K-8, K-9, K-13"""
    compiler = Compiler()
    x, w = leaf(3), leaf(3)
    loss, y, hooks = with_everything(x, w)
    ctx = y.grad_fn.next_functions[0][0]
    with module._enable(compiler):
        loss.backward()
    ((inputs, _, _, lifted, packed),) = compiler.calls
    calls = [name for name in compiler.targets() if name.startswith(("call", "exec", "unpack"))]
    assert calls == [
        "call_retain_grad", "call_hook", "unpack", "call_node", "call_hook", "call_hook",
        "call_backward", "call_accumulate_grad", "call_hook", "call_accumulate_grad", "call_hook",
        "exec_final_callbacks",
    ]  # fmt: skip
    assert hooks.pop("ran") == ["pre", "post", "tensor", "leaf", "accumulated"]
    assert all(hook in lifted for hook in hooks.values())
    assert any(one is ctx for one in lifted)
    assert len(packed) == 1
    assert packed[0][0] == "packed"
    assert any(one is x for one in inputs)
    assert any(one is w for one in inputs)
    kinds = [n.kwargs.get("hook_type") for n in compiler.graphs[0].graph.nodes
             if n.target is not None and "hook_type" in n.kwargs]  # fmt: skip
    assert kinds == ["pre_hook", "post_hook", "tensor_pre_hook", "tensor_pre_hook",
                     "post_acc_grad_hook"]  # fmt: skip
    assert compiler.graphs[0].graph.output_node().args == ([],)
    torch.testing.assert_close(x.grad, w * (x * w / 2).cos())


def test_other_hooks_and_contexts_hit_and_one_more_misses():
    """K-23"""
    compiler = Compiler()
    for _ in range(3):
        x, w = leaf(3), leaf(3)
        loss, _, hooks = with_everything(x, w)
        with module._enable(compiler):
            loss.backward()
        assert len(hooks["ran"]) == 5
        torch.testing.assert_close(w.grad, x * (x * w / 2).cos())
    loss, y, _ = with_everything(leaf(3), leaf(3))
    y.register_hook(lambda g: None)
    with module._enable(compiler):
        loss.backward()
    found = counters["compiled_autograd"]
    assert (found["captures"], found["hits"], len(compiler.graphs)) == (2, 2, 2)


def test_the_existing_gradient_of_a_leaf_is_an_input():
    """K-8, K-15: None where there is none, and no part of the key."""
    compiler, x = Compiler(), leaf(3)
    with module._enable(compiler):
        (x * 3).sum().backward()
        held = x.grad
        (x * 3).sum().backward()
    assert None in compiler.calls[0][0]
    assert any(one is held for one in compiler.calls[1][0])
    assert held is x.grad
    assert x.grad.eq(6).all()
    assert len(compiler.graphs) == 1


def test_a_function_that_gives_no_gradient_is_learned():
    """K-13, K-31: the first pass goes on without the graph, and nobody's code runs twice."""
    ran = []

    class Partial(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            ran.append("backward")
            return g * 2, None

    compiler = Compiler()
    for _ in range(3):
        x, y, z = leaf(3), leaf(3), leaf(3)
        h = z * 1.5
        h.register_hook(lambda g: ran.append("hook") or g * 2)
        h = h * z.detach()
        with module._enable(compiler):
            (Partial.apply(x.sin(), y.exp()) + h).sum().backward()
        assert y.grad is None
        torch.testing.assert_close(x.grad, 2 * x.cos())
        torch.testing.assert_close(z.grad, 3 * z)
        assert sorted(ran) == ["backward", "hook"] * 1
        ran.clear()
    assert len(compiler.graphs) == 2
    assert counters["compiled_autograd"]["captures"] == 2
    assert sum(n for name, n in counters["compiled_autograd"].items() if "departure" in name) == 1


def test_a_function_that_gives_gradients_now_and_then_is_the_engines():
    """K-31"""
    gives = [True]

    class Sometimes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if gives[0] else None

    x = leaf(3)
    with module._enable(Compiler()), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(10):
            gives[0] = number % 2 == 0
            x.grad = None
            Sometimes.apply(x.exp()).sum().backward()
            assert (x.grad is None) == (not gives[0])
    assert any("gives no gradient" in str(one.message) for one in told)


@pytest.mark.parametrize("wrong", [lambda g: 1 / 0, lambda g: g[:1]])
def test_errors_leave_what_the_engine_leaves(wrong):
    """K-32, K-33, K-34"""

    def run():
        torch.manual_seed(1)
        x, y, z = leaf(3), leaf(3), leaf(3)
        h = (x * y).sin()
        h.register_hook(wrong)
        root = (h * z).exp().sum()
        with pytest.raises((ZeroDivisionError, RuntimeError)) as raised:
            root.backward()
        with pytest.raises(RuntimeError) as again:
            root.backward()
        return str(raised.value), str(again.value)[:60], [shown(t.grad) for t in (x, y, z)]

    theirs = run()
    with module._enable(Compiler()):
        same(run(), theirs, 1e-6)


def test_a_function_that_leaves_a_hook_out_is_refused():
    x = leaf(3)
    h = x * 2
    h.register_hook(lambda g: g)
    with (
        module._enable(lambda graph_module: lambda *lists: []),
        pytest.raises(RuntimeError, match="left out calls"),
    ):
        h.sum().backward()


def test_a_stored_gradient_that_the_graph_keeps_is_the_engines():
    """K-14: adding to it is an error of the engine, and would be a wrong number in a graph."""
    x = leaf(3)
    (x * 2).sum().backward()
    loss = (x.sin() * x.grad).sum() + (x * 2).sum()
    with module._enable(Compiler()), pytest.warns(UserWarning, match="keeps for its backward"):
        loss.backward()
    np.testing.assert_allclose(x.grad._array, 4 + 2 * np.cos(x.detach()._array), rtol=1e-6)
