"""Custom Functions that are declared traceable: their operators are in the graph (K-13)."""

import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo.utils import counters

import pullback as torch
from tests.compiled.backward.compilers import Compiler
from tests.compiled.backward.test_whole import leaf


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    module.reset()


class Power(torch.autograd.Function):
    """Saves an input, a result, and a number."""

    allowed_in_graph = True
    ran = 0

    @staticmethod
    def forward(ctx, x, n):
        y = x**n
        ctx.save_for_backward(x, y)
        ctx.n = n
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        Power.ran += 1
        return g * ctx.n * y / x, None


class Opaque(Power):
    allowed_in_graph = False


def test_operators_of_a_traceable_function_are_in_the_graph():
    """Also with hooks at it; and it runs when it is captured, not again."""
    for hook in (None, lambda g: g * 2):
        compiler = Compiler()
        for n in (3, 3, 3):
            x = torch.rand(4, requires_grad=True)
            y = Power.apply(x.exp(), n)
            if hook is not None:
                y.register_hook(hook)
            factor = 1 if hook is None else 2
            with module._enable(compiler):
                before = Power.ran
                y.sum().backward()
            if len(compiler.calls) > 1:
                assert Power.ran == before
            torch.testing.assert_close(x.grad, factor * 3 * (3 * x).exp())
        assert len(compiler.graphs) == 1
        assert "call_backward" not in compiler.targets()
        assert any("div" in name for name in map(str, compiler.targets()))


def test_what_is_on_the_context_is_a_part_of_the_key():
    compiler = Compiler()
    for n in (3, 4, 3):
        x = torch.rand(4, requires_grad=True)
        with module._enable(compiler):
            Power.apply(x, n).sum().backward()
        torch.testing.assert_close(x.grad, n * x ** (n - 1))
    assert len(compiler.graphs) == 2


def test_other_sizes_hit():
    compiler = Compiler()
    for size in (4, 6, 9):
        x = torch.rand(size, requires_grad=True)
        with module._enable(compiler):
            Power.apply(x.sin(), 2).mean().backward()
        torch.testing.assert_close(x.grad, (2 * x.sin() * x.cos()).detach() / size)
    assert len(compiler.graphs) == 1


def test_functions_are_declared_by_allow_in_graph_too():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def names():
        compiler, x = Compiler(), leaf(3)
        with module._enable(compiler):
            Twice.apply(x).sum().backward()
        assert x.grad.eq(2).all()
        module.reset()
        return compiler.targets()

    assert "call_backward" in names()
    assert torch.compiler.allow_in_graph(Twice) is Twice
    assert "call_backward" not in names()


@pytest.mark.parametrize(
    "why", ["an object", "hooks that pack", "undeclared", "not a tensor's value"]
)
def test_what_cannot_be_told_stays_a_call(why):
    class Odd(Power):
        @staticmethod
        def backward(ctx, g):
            if why == "not a tensor's value" and float(g.sum()) > 100:
                return g * 0, None
            return Power.backward(ctx, g)

    cls = Opaque if why == "undeclared" else Odd
    compiler, x = Compiler(), torch.rand(4, requires_grad=True)
    if why == "hooks that pack":
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (t,), lambda pair: pair[0]):
            y = cls.apply(x, 3)
    else:
        y = cls.apply(x, 3)
    if why == "an object":
        y.grad_fn.thing = object()
    with module._enable(compiler):
        if why == "not a tensor's value":
            with pytest.warns(UserWarning, match="the engine runs this backward"):
                y.sum().backward()
        else:
            y.sum().backward()
    torch.testing.assert_close(x.grad, 3 * x**2)
    assert why == "not a tensor's value" or "call_backward" in compiler.targets()


def test_a_saved_tensor_that_a_hook_changes_is_the_engines_error():
    """K-14"""
    x = torch.rand(4, requires_grad=True)
    saved = x.sin()

    def hook(g):
        saved.detach().add_(1)

    y = Power.apply(saved, 3)
    y.register_hook(hook)
    with module._enable(Compiler()), pytest.raises(RuntimeError, match="modified by an inplace"):
        y.exp().sum().backward()
    assert any("departure" in name for name in counters["compiled_autograd"])
