"""What a pass with inputs= leaves out (rows E-69 to E-74)."""

from __future__ import annotations

import pytest

import pullback as torch
from pullback import _C
from pullback.autograd import Function, grad
from tests.leaves import double_leaf as leaf

pytestmark = pytest.mark.usefixtures("both_passes")


def test_only_nodes_on_the_way_to_an_input_run():
    """E-69"""
    x, w = leaf(2.0), leaf(3.0)
    a, b = x * x, w * w
    ran = []
    b.register_hook(lambda g: ran.append("b"))
    a.register_hook(lambda g: ran.append("a"))
    c = a * b
    c.backward(inputs=[x])
    assert ran == ["a"]
    assert w.grad is None
    b.backward()  # its saved values are still there
    assert w.grad.item() == 6


def test_grad_captures_without_running_the_inputs_node_and_backward_runs_it():
    """E-70"""
    x = leaf(2.0)
    y = x * x
    z = y * y
    grad(z, y)
    grad(y, x, retain_graph=True)
    (y * 3).backward(inputs=[y])
    with pytest.raises(RuntimeError, match="retain_graph"):
        grad(y, x)


def test_builtin_nodes_skip_pruned_edges():
    """E-71"""
    x, w = leaf(2.0), leaf(3.0)
    y = x * w
    seen = []
    y.grad_fn.register_hook(lambda i, o: seen.append([g is None for g in i]))
    grad(y, x)
    assert seen == [[False, True]]


def test_custom_functions_do_not_see_the_pruning():
    """E-71"""
    asked = []

    class Mul(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            asked.append(ctx.needs_input_grad)
            return g * b, g * a

    x, w = leaf(2.0), leaf(3.0)
    assert grad(Mul.apply(x, w), x)[0].item() == 3
    assert asked == [(True, True)]
    assert w.grad is None


def test_a_leaf_outside_every_graph_is_unreachable():
    """E-72"""
    x, other = leaf(2.0), leaf(1.0)
    y = x * torch.ones(1)
    assert grad(y, [other, x], allow_unused=True)[0] is None


def test_gradient_of_a_base_leaf_through_a_write_to_a_view():
    """E-73"""
    x, value = leaf(1.0, 2.0), leaf(5.0)
    base = x * 1
    view = base[:1]
    view.mul_(value)
    assert grad(view.sum(), x, retain_graph=True)[0].tolist() == [5, 0]
    assert grad(base.sum(), x, retain_graph=True)[0].tolist() == [5, 1]
    assert grad(base.sum(), value)[0].tolist() == [1]


def test_asking_whether_a_node_will_run():
    """E-74"""
    x, w = leaf(2.0), leaf(3.0)
    a, b = x * 2, w * 2
    c = a * b
    answers = []

    def ask(g):
        nodes = (c.grad_fn, a.grad_fn, b.grad_fn)
        answers.extend(_C._will_engine_execute_node(node) for node in nodes)
        with pytest.raises(RuntimeError, match="captured"):
            _C._will_engine_execute_node(a.grad_fn.next_functions[0][0])

    c.register_hook(ask)
    grad(c, x)
    assert answers == [True, True, False]
    with pytest.raises(RuntimeError, match="backward pass"):
        _C._will_engine_execute_node(c.grad_fn)
