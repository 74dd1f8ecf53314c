"""Captured backward passes, row by row of docs/spec/compiled.md (K-1 to K-36)."""

import gc
import threading
import weakref

import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo import config
from pullback._dynamo.utils import counters

import pullback as torch
from pullback import nn
from pullback.compiler import compiled_autograd
from tests.compiled.backward import compilers


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    module.reset()


class Compiler(compilers.Compiler):
    """Counts what the lists hold."""

    kept = staticmethod(len)


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def loss(x, w):
    return (x @ w).tanh().square().sum()


def both(run):
    """What a program gives on the engine, and inside the block."""
    made = []
    for inside in (False, True):
        torch.manual_seed(0)
        if inside:
            with compiled_autograd(backend="python", fallback="silent"):
                made.append(run())
        else:
            made.append(run())
    return made


def test_a_block_gives_passes_to_a_compiler():
    """K-1, K-8: five lists in, the asked gradients out; backward() asks for leaves."""
    compiler = Compiler()
    x, w = leaf(3, 4), leaf(4, 2)
    wanted = torch.autograd.grad(loss(x, w), [x, w])
    with module._enable(compiler):
        for _ in range(2):
            got = torch.autograd.grad(loss(x, w), [x, w])
            for a, b in zip(got, wanted, strict=True):
                assert torch.equal(a, b)
        loss(x, w).backward()
    assert torch.equal(x.grad, wanted[0])
    names = [n.name for n in compiler.graphs[0].graph.nodes if n.op == "placeholder"]
    assert names == ["inputs", "sizes", "scalars", "hooks", "packed_data"]
    assert len(compiler.calls) == 3
    assert counters["compiled_autograd"]["captures"] == len(compiler.graphs)
    loss(x, w).backward()
    assert len(compiler.calls) == 3  # outside of the block


def test_tensors_are_inputs_once():
    """K-8: the same tensor, saved by several nodes, is one input."""
    compiler = Compiler()
    x, w = leaf(3), torch.randn(3)
    with module._enable(compiler):
        (x * w * w * w).sum().backward()
    (count, *rest) = compiler.calls[0]
    assert count == 4  # the first gradient, w, the leaf and its .grad
    assert rest == [1, 0, 0, 0]  # the size that the gradient of a sum is stretched to


def test_blocks_nest_and_end_with_errors():
    """K-1: flags tell the state."""
    assert not module.compiled_autograd_enabled
    with module._enable(Compiler()):
        assert module.compiled_autograd_enabled
        with module._disable():
            assert not module.compiled_autograd_enabled
            leaf(2).sum().backward()
        with pytest.raises(ZeroDivisionError), module._enable(Compiler()):
            raise ZeroDivisionError
        assert module.compiled_autograd_enabled
    assert not module.compiled_autograd_enabled
    assert counters["compiled_autograd"]["captures"] == 0
    with pytest.raises(AttributeError):
        module.nothing


def test_a_block_inside_has_its_own_compiler():
    """K-1, K-2: the outer one is back afterwards; replays know that they are."""
    outer, inner, seen = Compiler(), Compiler(), []

    def looking(graph_module):
        def run(*lists):
            seen.append(module.in_compiled_autograd_region)
            return graph_module(*lists)

        return run

    x = leaf(3)
    with module._enable(outer):
        x.exp().sum().backward()
        with module._enable(inner):
            x.sin().sum().backward()
        x.cos().sum().backward()
    with module._enable(looking):
        x.exp().sum().backward()
    assert (len(outer.calls), len(inner.calls)) == (2, 1)
    assert seen == [True]
    assert not module.in_compiled_autograd_region


def test_a_disabled_block_can_be_respected():
    """K-1"""
    compiler = Compiler()
    with module._disable(), module._enable(compiler, ignore_active_disable_ctx=False):
        leaf(2).sum().backward()
    with module._disable(), module._enable(compiler):
        leaf(2).exp().sum().backward()
    assert len(compiler.calls) == 1


def test_a_setting_turns_it_on_in_compiled_code():
    """K-2: passes inside of compiled functions that run eagerly."""
    x = leaf(3)

    @torch.compile
    def step(x):
        total = (x * x).sum()
        if any(one.item() > -1 for one in [total]):  # in a generator, so that it runs eagerly
            total.backward()
        return total

    with config.patch(compiled_autograd=True):
        step(x)
        assert counters["compiled_autograd"]["captures"] == 1
    assert torch.equal(x.grad, 2 * x)
    assert not module.compiled_autograd_enabled


def test_the_public_block_names_its_policy():
    """K-3, K-31, K-36"""
    with pytest.raises(ValueError, match="fallback must be"):
        compiled_autograd(fallback="maybe")
    x = leaf(3)
    y = x.exp()
    y.register_hook(lambda g: g * 2)
    with (
        compiled_autograd(backend="python", fallback="error"),
        pytest.raises(NotImplementedError, match="hooks"),
    ):
        y.backward(torch.ones(3))
    assert x.grad is None  # nothing was consumed: K-32
    with compiled_autograd(backend="python"), pytest.warns(UserWarning, match="hooks"):
        y.backward(torch.ones(3))
    assert torch.equal(x.grad, 2 * x.exp())
    with module._enable(lambda graph: 3), pytest.raises(RuntimeError, match="has to return"):
        x.exp().sum().backward()


def test_graphs_cross_the_border_of_the_block():
    """K-4"""
    x = leaf(3)
    before = (x * x).sum()
    with compiled_autograd(backend="python"):
        before.backward()
        inside = (x * x).sum()
    inside.backward()
    assert torch.equal(x.grad, 4 * x)
    assert counters["compiled_autograd"]["captures"] == 1


def test_threads_have_their_own_switch():
    """K-5"""
    seen = []
    with compiled_autograd(backend="python"):
        thread = threading.Thread(target=lambda: seen.append(module.compiled_autograd_enabled))
        thread.start()
        thread.join()
    assert seen == [False]


def test_threads_capture_side_by_side():
    """K-5: each by its own compiler."""
    compilers, wrong = [Compiler() for _ in range(4)], []
    together = threading.Barrier(len(compilers))

    def work(compiler, power):
        x = torch.ones(3, requires_grad=True)
        with module._enable(compiler):
            together.wait()
            for _ in range(5):
                x.grad = None
                (x**power).sum().backward()
                if not x.grad.eq(power).all():
                    wrong.append(power)

    threads = [
        threading.Thread(target=work, args=(compiler, 2 + n))
        for n, compiler in enumerate(compilers)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
    assert [len(one.calls) for one in compilers] == [5] * 4


def test_a_pass_inside_a_pass_runs_on_the_engine():
    """K-6"""

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                (slope,) = torch.autograd.grad((inner * 2).sum(), inner)
            return g * slope

    x = leaf(3)
    with compiled_autograd(backend="python", fallback="silent"):
        Twice.apply(x).sum().backward()
    assert x.grad.eq(2).all()


def test_a_pass_inside_a_replay_runs_on_the_engine():
    """K-6: whatever a compiler's function does, only the pass around it is a program."""
    x, inner = leaf(3), leaf(3)
    seen = []

    def compiler(graph_module):
        def run(*lists):
            with torch.enable_grad():
                (g,) = torch.autograd.grad((inner * inner).sum(), inner)
            seen.append(torch.equal(g, 2 * inner))
            return graph_module(*lists)

        return run

    with module._enable(compiler):
        for _ in range(3):
            x.exp().sum().backward()
    assert seen == [True] * 3
    assert counters["compiled_autograd"]["captures"] == 1
    assert counters["compiled_autograd"]["hits"] == 2
    torch.testing.assert_close(x.grad, 3 * x.exp())


def test_captures_hits_and_fallbacks_are_counted():
    """K-7, K-27"""
    x = leaf(3)
    with compiled_autograd(backend="python", fallback="silent"):
        for n in (2, 2, 3):
            (x**n).sum().backward()
        y = x.exp()
        y.register_hook(lambda g: g)
        y.backward(torch.ones(3))
    found = counters["compiled_autograd"]
    assert (found["captures"], found["hits"]) == (2, 1)
    assert any("hooks" in name for name in found)
    assert "the first one" in module.compile_reasons[0]
    assert "3" in module.compile_reasons[1]


def test_hooks_and_accumulation_keep_their_order():
    """K-9, K-12, K-17, K-23: whatever runs the pass."""

    def run():
        seen = []
        x, w = leaf(3), leaf(3)
        h = x * w
        y = h.exp()
        h.retain_grad()
        h.register_hook(lambda g: seen.append("tensor h"))
        y.grad_fn.register_prehook(lambda g: seen.append("pre y"))
        h.grad_fn.register_hook(lambda a, b: seen.append("post h"))
        x.register_hook(lambda g: seen.append("tensor x"))
        x.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated x"))
        torch.autograd.graph.register_multi_grad_hook([x, w], lambda gs: seen.append("multi"))
        (y.sum() + h.sum()).backward()
        return seen, x.grad, w.grad, h.grad

    engine, inside = both(run)
    assert engine[0] == inside[0]
    assert len(engine[0]) >= 6
    for a, b in zip(engine[1:], inside[1:], strict=True):
        assert torch.equal(a, b)


def test_only_what_is_asked_for_is_computed():
    """K-10"""
    compiler = Compiler()
    x, w = leaf(3, 4), leaf(4, 2)
    wanted = torch.autograd.grad(loss(x, w), [x])
    with module._enable(compiler):
        got = torch.autograd.grad(loss(x, w), [x])
    assert torch.equal(got[0], wanted[0])
    both_of_them = Compiler()
    with module._enable(both_of_them):
        torch.autograd.grad(loss(x, w), [x, w])
    assert len(compiler.graphs[0].graph.nodes) < len(both_of_them.graphs[0].graph.nodes)


def test_gradients_of_tensors_inside_the_graph(backend):
    """K-10: asked for with leaves, without, and one of several results of a node."""

    def asked(x):
        y = x.exp()
        a, b = y.sin().chunk(2)
        z = (a * b * y[:2]).sum()
        return {
            "with a leaf": (z, [x, y]),
            "alone": (z, [y]),
            "one of two results": (z, [b, x]),
            "the other": (z, [a, x]),
            "the root": (z, [z, x]),
        }

    x = leaf(4)
    for name in asked(x):
        wanted = torch.autograd.grad(*asked(x)[name])
        for _ in range(3):
            with compiled_autograd(backend=backend, fallback="error"):
                got = torch.autograd.grad(*asked(x)[name])
            for ours, one in zip(got, wanted, strict=True):
                torch.testing.assert_close(ours, one)
    assert counters["compiled_autograd"]["captures"] == 5
    y = x.exp()
    y.retain_grad()
    with (
        compiled_autograd(backend=backend, fallback="error"),
        pytest.raises(NotImplementedError, match=r"inside the graph|hooks"),
    ):
        y.sin().sum().backward(inputs=[y])
    with compiled_autograd(backend=backend, fallback="silent"):
        y.sin().sum().backward(inputs=[y])
    torch.testing.assert_close(y.grad, y.cos())


def test_nothing_of_the_users_runs_while_a_pass_is_captured():
    """K-11, K-13: a custom Function's backward runs once, with real tensors."""
    seen = []

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            seen.append(float(g.sum()))
            return g * 3

    x = leaf(3)
    with compiled_autograd(backend="python", fallback="silent"):
        Custom.apply(x).sum().backward()
    assert seen == [3.0]
    assert x.grad.eq(3).all()


def test_saved_values_are_released_with_the_pass():
    """K-14, K-29: neither the cache nor the graph holds on to a tensor."""
    x = leaf(3)
    with compiled_autograd(backend="python", fallback="error"):
        for _ in range(3):
            w = torch.randn(3)
            y = (x * w).sum()
            alive = weakref.ref(w)
            y.backward()
            del w
            assert alive() is None
    assert not module.is_cache_empty()
    gc.collect()


def test_gradients_accumulate_as_by_the_engine():
    """K-15"""

    def run():
        x = leaf(3)
        for _ in range(3):
            (x * x).sum().backward()
        held = x.grad
        (x * x).sum().backward()
        return x.grad, held is x.grad

    engine, inside = both(run)
    assert torch.equal(engine[0], inside[0])
    assert engine[1] == inside[1]


def test_gradients_that_can_be_differentiated():
    """K-16: such passes are the engine's."""
    x = leaf(3)
    with compiled_autograd(backend="python"):
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(second, 6 * x)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float16, torch.float64])
def test_other_dtypes_give_the_engines_numbers(dtype, backend):
    """K-19"""
    x = torch.randn(4, dtype=dtype, requires_grad=True)
    wanted = torch.autograd.grad((x * x).sum().real, x)
    with compiled_autograd(backend=backend):
        got = torch.autograd.grad((x * x).sum().real, x)
    torch.testing.assert_close(got[0], wanted[0])


def test_sparse_gradients_are_right():
    """K-19"""
    table = nn.Embedding(5, 2, sparse=True)
    with compiled_autograd(backend="python", fallback="silent"):
        table(torch.tensor([1, 1, 3])).sum().backward()
    assert table.weight.grad.to_dense()[1].eq(2).all()


CHANGES = {
    "operator": (lambda x, w: (x * w).exp(), lambda x, w: (x * w).sin()),
    "option": (lambda x, w: (x * w) ** 2, lambda x, w: (x * w) ** 3),
    "type of an option": (lambda x, w: (x * w).exp() ** 2, lambda x, w: (x * w).exp() ** 2.5),
    "dimension": (lambda x, w: (x * w).sum(0), lambda x, w: (x * w).sum(1)),
    "alpha": (lambda x, w: torch.add(x, w, alpha=2), lambda x, w: torch.add(x, w, alpha=3)),
    "pattern": (lambda x, w: x * w + x, lambda x, w: x * w + w),
    "one tensor for two": (lambda x, w: x * w, lambda x, w: x * x),
    "order of edges": (lambda x, w: x.exp() - w.exp(), lambda x, w: w.exp() - x.exp()),
    "size": (lambda x, w: x * w, lambda x, w: x[:2] * w[:2]),
    "who needs gradients": (lambda x, w: x * w, lambda x, w: x * w.detach()),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_of_a_graph_misses(name, backend):
    """K-21, K-22, K-25: and what is the same again hits, along the trail."""
    first, second = CHANGES[name]
    x, w = leaf(4, 4), leaf(4, 4)
    for f in (first, second, first, second):
        wanted = torch.autograd.grad(f(x, w).sum(), [x, w], allow_unused=True)
        with compiled_autograd(backend=backend, fallback="error"):
            got = torch.autograd.grad(f(x, w).sum(), [x, w], allow_unused=True)
        for a, b in zip(got, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b)
    assert counters["compiled_autograd"]["captures"] == 2
    assert counters["compiled_autograd"]["hits"] == 2


def test_casts_are_captured(backend):
    """K-21, K-24: a dtype among the options of a node is part of the key, not a tensor's."""
    for dtype in (torch.float64, torch.float32, torch.float64):
        for n in (3, 4, 5, 6):
            x = leaf(n)
            with compiled_autograd(backend=backend, fallback="error"):
                (x.to(dtype).exp() * x.double()).sum().backward()
            torch.testing.assert_close(x.grad, x.exp() * (x + 1))


def test_origins_are_in_the_graph():
    """K-20"""
    compiler = Compiler()
    x = leaf(3)
    with module._enable(compiler):
        x.exp().sum().backward()
    traces = [n.meta.get("stack_trace") for n in compiler.graphs[0].graph.nodes]
    assert any(one and "test_enable.py" in one for one in traces)
