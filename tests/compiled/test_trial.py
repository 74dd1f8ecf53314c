"""Programs that take longer than the function itself are not kept."""

import pytest

import pullback as torch
from pullback.compiled import trial
from pullback.compiled.counting import counters
from pullback.compiled.explain import explain

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def _fresh():
    counters.clear()


def timed(monkeypatch, ours, theirs):
    """Let every trial find these times, in ns."""
    turns = {"now": 0}

    def taken(run):
        run()
        turns["now"] += 1
        return ours if turns["now"] % 2 else theirs

    monkeypatch.setattr(trial, "_taken", taken)


def small(x):
    return x.sort(0).values * 2


def test_a_slower_program_is_not_kept(monkeypatch):
    timed(monkeypatch, 9000, 5000)
    f = torch.compile(small)
    x = torch.randn(5)
    assert torch.equal(f(x), small(x))
    assert not f.entries
    assert f.reasons == ["the program takes 9.0 us, eager 5.0"]
    captures = counters["compile"]["captures"]
    assert torch.equal(f(x + 1), small(x + 1))
    assert counters["compile"]["captures"] == captures
    # Another size is another trial.
    timed(monkeypatch, 5000, 9000)
    assert torch.equal(f(torch.ones(7)), small(torch.ones(7)))
    assert len(f.entries) == 1


def test_the_choice_is_told_and_can_be_turned_off(monkeypatch):
    timed(monkeypatch, 9000, 5000)
    x = torch.randn(5)
    assert "the program takes 9.0 us, eager 5.0" in str(explain(small)(x))
    f = torch.compile(small, options={"never_slower": False})
    assert torch.equal(f(x), small(x))
    assert len(f.entries) == 1
    g = torch.compile(small, backend="llvm")  # who names a back end has it
    assert torch.equal(g(x), small(x))
    assert len(g.entries) == 1


def test_calls_that_change_something_run_once(monkeypatch):
    """Neither writes nor random numbers are done twice; gradients are not tried."""
    timed(monkeypatch, 9000, 5000)
    x = torch.zeros(5)
    f = torch.compile(lambda x: x.add_(1).sort().values)
    f(x)
    assert x.tolist() == [1.0] * 5
    torch.manual_seed(0)
    wanted = [torch.rand(5).sort().values for _ in range(3)]
    g = torch.compile(lambda x: torch.rand(5).sort().values + x)
    torch.manual_seed(0)
    for one in wanted:
        assert torch.equal(g(torch.zeros(5)), one)
    w = torch.randn(5, requires_grad=True)
    h = torch.compile(lambda x: (x * w).sort().values.sum())
    h(x).backward()
    assert torch.allclose(w.grad, x)
    assert not counters["compile"]["slower"]


def test_equal_calls_have_equal_bits():
    """The choice is made before the first result: no later call is another's."""
    f = torch.compile(lambda x: (x.exp() / 3).cumsum(0).tanh().sum())
    x = torch.randn(1000)
    first = f(x)
    assert all(torch.equal(f(x), first) for _ in range(20))
