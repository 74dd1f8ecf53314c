"""In which order nodes run, and that it is always the same (rows E-62 to E-68)."""

from __future__ import annotations

import pytest

import pullback as torch
from pullback import _C
from pullback.autograd import Function, backward

pytestmark = pytest.mark.usefixtures("both_passes")


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def watch(log, **tensors):
    for name, tensor in tensors.items():
        if tensor.is_leaf:
            tensor.register_post_accumulate_grad_hook(lambda _, name=name: log.append(name))
        else:
            tensor.grad_fn.register_prehook(lambda _, name=name: log.append(name))


class Nothing(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return None


def test_a_node_runs_once_when_all_have_delivered_even_nothing():
    """E-62"""
    x = leaf(2.0)
    y = x * 1
    log = []
    y.register_hook(lambda g: log.append(g.item()))
    (Nothing.apply(y) + y * 3 + y * 4).backward()
    assert log == [7]
    assert x.grad.item() == 7


def test_the_newest_node_runs_first_and_leaves_before_everything():
    """E-63"""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2
    b = a * y
    log = []
    watch(log, x=x, y=y, a=a, b=b)
    b.backward()
    assert log == ["b", "y", "a", "x"]


def test_several_roots_are_ordered_by_age_not_by_position():
    """E-64"""
    x = leaf(2.0)
    a, b, c = x * 2, x * 3, x * 4
    log = []
    watch(log, a=a, b=b, c=c)
    backward([b, a, c])
    assert log == ["c", "b", "a"]


def test_equal_numbers_run_in_a_fixed_order(monkeypatch):
    """E-65"""
    from pullback.core.node import numbering

    monkeypatch.setattr(numbering, "changed", False)
    orders = set()
    for _ in range(3):
        x = leaf(2.0)
        a, b, c = x * 2, x * 3, x * 4
        for t in (a, b, c):
            t.grad_fn._set_sequence_nr(10)
        log = []
        watch(log, a=a, b=b, c=c)
        (a + b + c).backward()
        orders.add(tuple(log))
        assert x.grad.item() == 9
    assert len(orders) == 1


def test_results_repeat_bit_by_bit():
    """E-67"""
    results = set()
    for _ in range(3):
        x = torch.linspace(0.1, 1.7, 9, requires_grad=True)
        y = x.sin() * 1.1
        for k in range(30):
            y = y + (x * (0.1 * k)).exp() * y.cos()
        y.sum().backward()
        results.add(x.grad.numpy().tobytes())
    assert len(results) == 1


def test_the_order_can_be_asked_for():
    """E-68"""
    x, y = leaf(2.0), leaf(3.0)
    a = x * 2
    b = a * y
    orders = []
    b.register_hook(lambda g: orders.append(_C._current_graph_task_execution_order()))
    with pytest.raises(RuntimeError, match="multithreading"):
        b.backward(retain_graph=True)
    with torch.autograd.set_multithreading_enabled(False):
        b.backward()
    assert [type(node).__name__ for node in orders[0]] == [
        "MulBackward0",
        "AccumulateGrad",
        "MulBackward0",
        "AccumulateGrad",
    ]
    assert orders[0][1].variable is y
    assert orders[0][3].variable is x
    with pytest.raises(RuntimeError, match="during a backward"):
        _C._current_graph_task_execution_order()
