"""`graph.memory_timeline`: live bytes through forward and backward."""

import inspect

import pytest

import pullback as torch
from pullback.autograd.graph import memory_timeline


def step(w):
    big = w.exp()  # 40,000 bytes, kept for backward
    (big * 2).sum().backward()


def test_the_peak_names_the_line_that_holds_the_memory():
    w = torch.ones(10_000, requires_grad=True)
    run = memory_timeline(step, w)
    first = inspect.getsourcelines(step)[1] + 1
    line = next(iter(run.at_peak))
    assert any(line.startswith(f"test_timeline.py:{first}") for line in run.at_peak)
    assert "big = w.exp()" in "".join(run.at_peak)
    assert 80_000 <= run.peak <= 200_000
    assert sum(run.at_peak.values()) == run.peak
    assert line in repr(run)


def test_memory_goes_down_again_and_phases_are_told_apart():
    w = torch.ones(10_000, requires_grad=True)
    run = memory_timeline(step, w)
    assert run.moments[-1].bytes < run.peak
    phases = [moment.phase for moment in run]
    assert phases == sorted(phases, reverse=True)  # forward, then backward
    assert {"forward", "backward"} == set(phases)


def test_a_returned_loss_is_differentiated_but_not_twice():
    w = torch.ones(100, requires_grad=True)
    run = memory_timeline(lambda: w.exp().sum())
    assert run.result.ndim == 0
    assert w.grad is not None
    w.grad = None

    def whole():
        loss = w.exp().sum()
        loss.backward()
        return loss

    memory_timeline(whole)
    assert w.grad.tolist() == pytest.approx(w.exp().tolist())


def test_nothing_is_held_and_nobody_looks_on_afterwards():
    from pullback.engine import node_observers
    from pullback.operators.dispatch.observers import observers

    with pytest.raises(ZeroDivisionError):
        memory_timeline(lambda: 1 / 0)
    assert observers.active is None
    assert node_observers.observer is None


def test_the_page_has_the_curve_and_the_table(tmp_path):
    w = torch.ones(100, requires_grad=True)
    path = tmp_path / "memory.html"
    memory_timeline(step, w).save(path)
    text = path.read_text("utf-8")
    assert "<polyline" in text
    assert "big = w.exp()" in text
    assert "http" not in text
    with pytest.raises(ValueError, match="html"):
        memory_timeline(step, w).save(tmp_path / "memory.png")
