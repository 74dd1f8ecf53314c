"""Failures at every step of capturing and compiling: the call runs eagerly, eager stays usable."""

import sys
import threading

import numpy as np
import pytest

import pullback as torch
from pullback import nn
from pullback.compiled import backends
from pullback.compiled.capture.tracer import Tracer
from pullback.compiled.counting import counters
from pullback.compiled.lower.program import Lowered
from pullback.compiled.python.program import PythonProgram
from pullback.core.mode import PLAIN, get_mode


class InjectedError(Exception):
    """Raised where nobody expects it."""


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2))


def step(net, x):
    return net(x).square().sum()


def state_of(net, x):
    """What must not change, or be left on arrays without data."""
    tensors = [x, *net.parameters(), *net.buffers()]
    assert all(type(one._array) is np.ndarray for one in tensors)
    return [one._array.copy() for one in tensors], [one._version for one in tensors]


@pytest.mark.parametrize("fail_at", range(0, 60, 3))
def test_a_failure_at_any_operator_of_a_capture_is_undone(fail_at, monkeypatch):
    net, x = model(), torch.randn(5, 3)
    before = state_of(net, x)
    seed = torch.get_rng_state()
    entered = Tracer.enter
    count = iter(range(10**6))

    def failing(self, *args, **kwargs):
        if next(count) == fail_at:
            raise InjectedError
        return entered(self, *args, **kwargs)

    monkeypatch.setattr(Tracer, "enter", failing)
    compiled = torch.compile(step, backend="python")
    made = compiled._new_entry((net, x), {}, [net, x])
    monkeypatch.undo()
    assert get_mode() is PLAIN
    assert torch.equal(torch.get_rng_state(), seed)
    after = state_of(net, x)
    for a, b in zip(before[0], after[0], strict=True):
        np.testing.assert_array_equal(a, b)
    assert before[1] == after[1]
    if made is None:
        assert any("InjectedError" in reason for reason in compiled.reasons)
    compiled.clear()
    compiled(net, x).backward()
    assert all(p.grad is not None for p in net.parameters())


def lines_of(module_prefix, function):
    """Run a function; count the lines of a part of the package that it runs."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if frame.f_globals.get("__name__", "").startswith(module_prefix):
            if event == "line":
                count += 1
            return trace
        return None

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize("part", ["capture", "lower", "llvm", "python", "runtime", "sizes"])
def test_a_failure_at_any_line_leaves_eager_usable(part, monkeypatch):
    """At twenty lines, spread over each part: the call gives eager's result."""
    name = f"pullback.compiled.{part}"
    x = torch.randn(5, 3)
    w = torch.randn(3, 2, requires_grad=True)

    def loss(x):
        return ((x @ w).tanh() ** 2).sum()

    (wanted,) = torch.autograd.grad(loss(x), w)

    def whole():
        compiled = torch.compile(loss)
        for n in (5, 4, 3):
            made = compiled(x[:n] if n < 5 else x)
            made.backward()
            w.grad = None

    whole()
    total = lines_of(name, whole)
    if not total:
        pytest.skip(f"nothing of {name} runs here")
    for at in range(0, total, max(total // 20, 1)):
        _fail_at_line(name, at, whole)
        w.grad = None
        assert get_mode() is PLAIN
        assert type(w._array) is np.ndarray
        assert type(x._array) is np.ndarray
        (got,) = torch.autograd.grad(loss(x), w)
        assert torch.equal(got, wanted)
    counters["errors"].clear()


def _fail_at_line(prefix, at, function):
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith(prefix):
            return None
        if event == "line":
            count += 1
            if count == at + 1:
                raise InjectedError
        return trace

    sys.settrace(trace)
    try:
        function()
    except InjectedError:
        pass
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("target", [Lowered, PythonProgram])
def test_a_back_end_that_fails_is_replaced_or_raises(target, monkeypatch):
    def failing(*args, **kwargs):
        raise InjectedError("no")

    monkeypatch.setattr(target, "__init__", failing)
    f = torch.compile(lambda x: x * 2 + 1, backend="llvm" if backends.is_available() else "python")
    if target is Lowered and backends.is_available():
        assert f(torch.ones(3)).eq(3).all()
        assert any("InjectedError" in reason for reason in counters["errors"])
        counters["errors"].clear()
    monkeypatch.undo()
    assert torch.compile(lambda x: x * 2 + 1)(torch.ones(3)).eq(3).all()


def test_threads_capture_and_run_side_by_side(backend):
    """Functions of their own, one that they share, and sizes that change meanwhile."""
    shared = torch.compile(lambda x: (x.sin() * x).sum(), backend=backend)
    wrong = []

    def work(number):
        own = torch.compile(lambda x: x * number, backend=backend)
        for turn in range(12):
            x = torch.full((2 + (turn + number) % 5,), float(number), requires_grad=True)
            made = shared(x)
            made.backward()
            slope = x.sin() + x * x.cos()
            if not torch.allclose(x.grad, slope) or not own(x.detach()).eq(number * number).all():
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
