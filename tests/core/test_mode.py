"""Modes are per thread, nest, and come back after exceptions."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import pullback as torch
from pullback.core import mode


def test_no_grad_records_nothing_and_comes_back():
    x = torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_mode_is_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), torch.no_grad():
        raise ZeroDivisionError
    assert torch.is_grad_enabled()


def test_new_threads_start_enabled():
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(torch.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_usual_modes_are_the_singletons_that_the_fast_path_knows():
    torch.ones(1).mul(1)
    assert mode.get_mode() is mode.PLAIN
    with torch.no_grad():
        assert mode.get_mode() is mode.NO_GRAD
        with torch.enable_grad():
            assert mode.get_mode() is mode.PLAIN


def test_decorators_work_on_functions_and_generators():
    @torch.no_grad()
    def off():
        return torch.is_grad_enabled()

    @torch.no_grad
    def bare():
        return torch.is_grad_enabled()

    @torch.no_grad()
    def generator():
        received = yield torch.is_grad_enabled()
        yield (received, torch.is_grad_enabled())
        return "done"

    assert off() is False
    assert bare() is False
    running = generator()
    assert next(running) is False
    assert torch.is_grad_enabled()
    assert running.send("hello") == ("hello", False)
    with pytest.raises(StopIteration) as end:
        next(running)
    assert end.value.value == "done"


def test_set_grad_enabled_acts_at_once_and_as_a_context():
    with torch.set_grad_enabled(False):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with pytest.raises(TypeError):
        torch.set_grad_enabled(1)


def test_inference_tensors_have_no_version_and_cannot_be_saved():
    with torch.inference_mode():
        t = torch.ones(2)
        assert t.is_inference()
    with pytest.raises(RuntimeError, match="inference"):
        _ = t._version
    x = torch.ones(2, requires_grad=True)
    assert (x + t).requires_grad
    with pytest.raises(RuntimeError, match="inference"):
        x * t
    with pytest.raises(RuntimeError, match="inference"):
        t.add_(1)


def test_numpy_stays_silent_in_every_thread_that_uses_us():
    def divide():
        return (torch.ones(1) / torch.zeros(1)).item()

    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread = threading.Thread(target=lambda: results.append(divide()))
        thread.start()
        thread.join()
        assert divide() == np.inf
    assert results == [np.inf]


def test_a_detour_takes_operators_off_their_fast_path_and_back():
    mode.detour("a test", needed=True)
    try:
        assert mode.fast.plain is None
        x = torch.ones(2, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    finally:
        mode.detour("a test", needed=False)
    assert mode.fast.plain is mode.PLAIN
