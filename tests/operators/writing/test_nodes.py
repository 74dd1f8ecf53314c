"""Nodes: rules that share work are run as one, where several gradients are wanted."""

from __future__ import annotations

import pytest

import pullback as torch
from pullback.operators import declare
from pullback.operators.declare import Array, Namespace, primitive

calls: list[str] = []


@pytest.fixture
def product():
    """A product that notes which of its rules run."""

    def both(edges, g, input, other):
        calls.append("fused_backward")
        return [
            None if edge is None else g * b for edge, b in zip(edges, (other, input), strict=True)
        ]

    def of_input(g, input, other):
        assert g.shape  # rules that ask for shapes are called, not written out
        calls.append("input")
        return g * other

    def of_other(g, input):
        assert g.shape
        calls.append("other")
        return g * input

    def _noted_product(xp: Namespace, input: Array, other: Array) -> Array:
        return xp.multiply(input, other)

    made = primitive(input=of_input, other=of_other, fused_backward=both, has_out=False)(
        _noted_product
    )
    calls.clear()
    yield made
    del declare.OPERATORS["_noted_product"]


def test_gradients_that_share_work_are_computed_jointly(product):
    a, b = (torch.tensor([2.0, value], requires_grad=True) for value in (3.0, 5.0))
    ga, gb = torch.autograd.grad(product(a, b).sum(), (a, b))
    assert (ga.tolist(), gb.tolist()) == ([2, 5], [2, 3])
    assert calls == ["fused_backward"]


def test_a_gradient_wanted_alone_comes_from_its_own_rule(product):
    a, b = (torch.tensor([2.0, value], requires_grad=True) for value in (3.0, 5.0))
    y = product(a, b).sum()
    torch.autograd.grad(y, a, retain_graph=True)
    torch.autograd.grad(y, b)
    torch.autograd.grad(product(a, b.detach()).sum(), a)
    assert calls == ["input", "other", "input"]


def test_gradients_with_history_come_from_the_rules(product):
    a, b = (torch.tensor([2.0, value], requires_grad=True) for value in (3.0, 5.0))
    ga, gb = torch.autograd.grad(product(a, b).sum(), (a, b), create_graph=True)
    assert "fused_backward" not in calls
    assert torch.autograd.grad((ga * gb).sum(), (a, b))[0].tolist() == [2, 5]
