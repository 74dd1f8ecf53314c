"""Captured passes and classes with `__torch_dispatch__`: only their tensors matter."""

from typing import ClassVar

import pytest
from pullback._dynamo import compiled_autograd as module
from pullback._dynamo.utils import counters

import pullback as torch
from pullback.compiler import compiled_autograd
from pullback.utils._pytree import tree_map


def as_it_is(graph):
    return graph


BLOCKS = {
    "program": lambda: compiled_autograd(backend="python", fallback="error"),
    "compiler": lambda: module._enable(as_it_is),
}


class Wrapped(torch.Tensor):
    """Computes with what it wraps, and writes down what it is asked."""

    asked: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(str(func))
        opened = tree_map(lambda t: t.inner if isinstance(t, cls) else t, (args, kwargs or {}))
        made = func(*opened[0], **opened[1])
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, made)


class Opened(torch.autograd.Function):
    """Gives a wrapper as its gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return Wrapped(g * 2)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.fixture(params=BLOCKS)
def block(request):
    module.reset()
    Wrapped.asked.clear()
    return BLOCKS[request.param]


def counted(word):
    return {key: n for key, n in counters["compiled_autograd"].items() if word in key}


def test_a_class_without_tensors_in_the_pass_changes_nothing(block):
    alive = Wrapped(torch.ones(2))
    for _ in range(3):
        x = torch.tensor([0.1, 0.2], requires_grad=True)
        with block():
            Twice.apply(x.sin()).exp().sum().backward()
        (expected,) = torch.autograd.grad((2 * x.sin()).exp().sum(), x)
        assert type(x.grad) is torch.Tensor
        torch.testing.assert_close(x.grad, expected)
    assert counters["compiled_autograd"]["captures"] == 1
    assert counters["compiled_autograd"]["hits"] == 2
    assert not counted("fallback")
    assert not counted("departure")
    assert alive.shape == (2,)


@pytest.mark.parametrize("again", [False, True])
def test_a_wrapper_from_a_users_backward_goes_on_to_the_leaves(block, again):
    """As on the engine: it sees the operators of the nodes that come after it."""

    def root(x):
        h = x.sin()
        return (Opened.apply(h) + h).exp().sum() if again else Opened.apply(h).exp().sum()

    x = torch.tensor([0.1, 0.2], requires_grad=True)
    root(x).backward()
    expected, asked = x.grad, list(Wrapped.asked)
    assert type(expected) is Wrapped
    for _ in range(2):
        Wrapped.asked.clear()
        x.grad = None
        with block():
            root(x).backward()
        assert type(x.grad) is Wrapped
        assert torch.equal(x.grad.inner, expected.inner)
        # The last one is how `.grad` takes it: as it is, or as a copy.
        assert Wrapped.asked[:-1] == asked[:-1]
        assert "aten.mul.Tensor" in asked
        Wrapped.asked.clear()
        with block():
            (g,) = torch.autograd.grad(root(x), x)
        assert type(g) is Wrapped
        assert torch.equal(g.inner, expected.inner)
