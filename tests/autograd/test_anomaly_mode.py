"""Anomaly mode shows the forward call of what failed."""

from __future__ import annotations

import warnings

import pytest

import pullback as torch


def test_nodes_keep_the_stack_of_their_creation():
    x = torch.ones(1, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = x * 2
    assert "y = x * 2" in y.grad_fn.metadata["traceback_"][-1]
    assert "traceback_" not in (x * 2).grad_fn.metadata


def test_a_failing_backward_warns_with_the_forward_call():
    x = torch.ones(1, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = x.exp()
        z = y * 1.0
        z.register_hook(lambda g: 1 / 0)
        with pytest.warns(UserWarning, match="z = y"), pytest.raises(ZeroDivisionError):
            z.backward()


def test_nan_gradients_are_errors_that_name_the_node():
    x = torch.zeros(1, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        y = (x * 0).sqrt() * 0
        failing = pytest.raises(RuntimeError, match="SqrtBackward0")
        with pytest.warns(UserWarning, match="SqrtBackward0"), failing:
            y.sum().backward()


def test_check_nan_can_be_left_out():
    x = torch.zeros(1, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        ((x * 0).sqrt() * 0).sum().backward()
    assert x.grad.isnan().all()


def test_detect_anomaly_warns_that_it_is_slow_and_restores():
    with pytest.warns(UserWarning, match="slow"), torch.autograd.detect_anomaly():
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()


def test_without_a_stored_stack_the_warning_says_so():
    x = torch.ones(1, requires_grad=True)
    y = x * 1.0
    y.register_hook(lambda g: 1 / 0)
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ZeroDivisionError):
            y.backward()
    assert any("before the forward pass" in str(w.message) for w in caught)
