"""Callbacks, questions about the running pass, logging and anomaly mode (rows E-132 to E-155)."""

from __future__ import annotations

import logging

import pytest

import pullback as torch
from pullback import _C
from pullback.autograd import Function, grad
from tests.leaves import double_leaf as leaf

pytestmark = pytest.mark.usefixtures("both_passes")

queue = torch.autograd.Variable._execution_engine.queue_callback


def test_callbacks_wait_for_a_pass():
    """E-132"""
    with pytest.raises(RuntimeError, match="during a backward"):
        queue(lambda: None)


def test_callbacks_run_at_the_end_in_order_with_those_that_they_queue():
    """E-132, E-133"""
    x = leaf(2.0)
    y = x * 2
    z = y * 3
    log = []

    def first():
        log.append(("first", x.grad.item(), _C._current_graph_task_id() >= 0))
        queue(lambda: log.append("queued by first"))

    z.register_hook(lambda g: queue(first))
    y.register_hook(lambda g: queue(lambda: log.append("second")))
    z.backward()
    assert log == [("first", 6, True), "second", "queued by first"]


def test_callbacks_of_a_nested_pass_are_its_own():
    """E-132, E-133"""
    x = leaf(2.0)
    y = x * 2
    log = []

    def nest(g):
        with torch.enable_grad():
            inner = leaf(1.0) * 2
        inner.register_hook(lambda g: queue(lambda: log.append("inner")))
        inner.backward()
        log.append("back")

    y.register_hook(nest)
    y.register_hook(lambda g: queue(lambda: log.append("outer")))
    y.backward()
    assert log == ["inner", "back", "outer"]


def test_callbacks_may_call_backward():
    """E-133"""
    x = leaf(2.0)
    y, other = x * 2, x * 5
    y.register_hook(lambda g: queue(other.backward))
    y.backward()
    assert x.grad.item() == 7


def test_callbacks_do_not_run_after_a_failure_and_stop_at_the_first_error():
    """E-133"""
    x = leaf(2.0)
    y = x * 2
    log = []
    y.register_hook(lambda g: queue(lambda: log.append(1)))
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert log == []
    y = x * 2
    y.register_hook(lambda g: queue(lambda: 1 / 0))
    y.register_hook(lambda g: queue(lambda: log.append(1)))
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert log == []


def test_pass_numbers_and_the_current_node():
    """E-134"""
    assert _C._current_graph_task_id() == -1
    assert _C._current_autograd_node() is None
    x = leaf(2.0)
    seen = []

    class Looks(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append((_C._current_graph_task_id(), _C._current_autograd_node() is ctx))
            return g * 2

    y = Looks.apply(x)
    z = y * 3

    def nest(g):
        outer = _C._current_graph_task_id()
        with torch.enable_grad():
            inner = leaf(1.0) * 2
        inner.register_hook(lambda g: seen.append((_C._current_graph_task_id() > outer, True)))
        inner.backward()
        seen.append(
            (_C._current_graph_task_id() == outer, _C._current_autograd_node() is z.grad_fn)
        )

    z.register_hook(nest)
    z.backward()
    assert seen[:2] == [(True, True), (True, True)]
    assert seen[2][1]
    assert _C._current_graph_task_id() == -1
    assert _C._current_autograd_node() is None


def test_unpack_hooks_know_the_node_and_the_pass():
    """E-134"""
    x = leaf(2.0)
    seen = []

    def unpack(t):
        seen.append((_C._current_graph_task_id() >= 0, _C._current_autograd_node()))
        return t

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        a = x.exp()
        b = a * x
        c = torch.stack([b, b]).sum().log()
    nodes = [c.grad_fn, b.grad_fn, b.grad_fn, a.grad_fn]
    c.backward()
    assert seen == [(True, node) for node in nodes]
    assert _C._current_autograd_node() is None


def test_checkpoints_are_invalid_inside_a_pruned_pass():
    """E-135"""
    valid = torch.autograd._is_checkpoint_valid
    assert valid()
    x = leaf(2.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(valid()))
    y.backward(retain_graph=True)
    y.backward(inputs=[x], retain_graph=True)
    grad(y, x, retain_graph=True)
    assert seen == [True, False, False]
    assert valid()


def test_nested_passes_inherit_the_pruning():
    """E-135"""
    valid = torch.autograd._is_checkpoint_valid
    x, w = leaf(2.0), leaf(1.0)
    y, z = x * 2, w * 2
    seen = []
    y.register_hook(lambda g: seen.append(valid()))
    z.register_hook(lambda g: y.backward())
    grad(z, w)
    assert seen == [False]


def test_whether_the_running_pass_keeps_the_graph():
    """E-136"""
    keeps = _C._autograd._get_current_graph_task_keep_graph
    assert keeps()
    y = leaf(2.0) * 2
    seen = []
    y.register_hook(lambda g: seen.append(keeps()))
    y.backward(retain_graph=True)
    y.backward()
    assert seen == [True, False]


def test_nodes_are_logged_on_demand(caplog):
    """E-137"""
    x = leaf(2.0)
    with caplog.at_level(logging.DEBUG, logger="pullback.autograd.graph"):
        (x * 2).exp().backward()
    text = caplog.text
    assert text.index("ExpBackward0") < text.index("MulBackward0") < text.index("AccumulateGrad")
    assert "float64[1]" in text
    caplog.clear()
    (x * 2).backward()
    assert caplog.text == ""


def test_anomaly_switches():
    """E-150"""
    assert not torch.is_anomaly_enabled()
    with pytest.warns(UserWarning, match="slow"):
        context = torch.autograd.detect_anomaly()
    with context:
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled()
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            assert not torch.is_anomaly_check_nan_enabled()
    assert not torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(True)
    assert torch.is_anomaly_enabled()
    torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()


def test_nodes_remember_the_stack_and_the_node_that_made_them():
    """E-151, E-152"""
    with torch.autograd.set_detect_anomaly(True):
        x = leaf(2.0)
        y = x**3
        stack = y.grad_fn.metadata["traceback_"]
        assert "y = x**3" in stack[-1]
        (g,) = grad(y, x, create_graph=True)
        assert g.grad_fn.metadata["parent_"] is y.grad_fn


def test_a_failure_shows_the_forward_call():
    """E-153"""
    x = leaf(2.0)
    with torch.autograd.set_detect_anomaly(True):
        y = x * 2  # the line to be shown
        y.register_hook(lambda g: 1 / 0)
        with (
            pytest.warns(UserWarning, match="the line to be shown"),
            pytest.raises(ZeroDivisionError),
        ):
            y.backward()
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.warns(UserWarning, match="No forward call"),
        pytest.raises(ZeroDivisionError),
    ):
        y.backward()


def test_nan_is_found_where_it_is_made():
    """E-154"""
    with torch.autograd.set_detect_anomaly(True):
        x = leaf(0.0)
        y = x.sqrt() * 0
        with pytest.warns(UserWarning, match="Sqrt"), pytest.raises(RuntimeError, match=r"Sqrt.*0"):
            y.backward()
        nan = torch.full((1,), float("nan"), dtype=torch.float64)
        (leaf(1.0) + 1).backward(torch.ones(1, dtype=torch.float64))
        x = leaf(1.0)
        x.backward(nan)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        x = leaf(0.0)
        (x.sqrt() * 0).backward()


def test_a_failing_second_derivative_shows_the_chain_of_forward_calls():
    """E-153"""
    with torch.autograd.set_detect_anomaly(True):
        x = leaf(2.0)
        y = x**3  # the first call
        (g,) = grad(y, x, create_graph=True)
        g.register_hook(lambda g: 1 / 0)
        with pytest.warns(UserWarning, match="call") as caught, pytest.raises(ZeroDivisionError):
            g.backward()
    texts = [str(one.message) for one in caught]
    assert len(texts) == 2
    assert "the first call" in texts[1]


def test_a_changed_value_points_to_the_shown_call():
    """E-155"""
    with torch.autograd.set_detect_anomaly(True):
        x = leaf(2.0)
        y = x * 1
        z = y * y  # reads the old value
        y.add_(1)
        with (
            pytest.warns(UserWarning, match="reads the old value"),
            pytest.raises(RuntimeError, match="version"),
        ):
            z.backward()
