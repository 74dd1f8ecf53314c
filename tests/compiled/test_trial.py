"""Programs that take longer than the function itself are not kept."""

import time
from types import SimpleNamespace

import pytest

import pullback as torch
from pullback.compiled import trial
from pullback.compiled.counting import counters
from pullback.compiled.explain import explain
from pullback.compiled.runtime.guards import Guards

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


class Clock:
    """A clock by which the first calls of a weighing take `ours`, later ones `theirs`, in ns."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs, self.asked = ours, theirs, 0

    def thread_time_ns(self):
        turn, is_end = divmod(self.asked, 2)
        self.asked += 1
        return (self.ours if turn % 10 < 5 else self.theirs) * is_end


class Counter:
    n = 0


def in_parts(x, log):
    scale = (x * 2).sum().item()
    log.append(scale)
    return x * scale


@pytest.mark.parametrize(("ours", "theirs"), [(9000, 5000), (5000, 9000)])
def test_functions_in_parts_are_weighed_over_their_first_calls(monkeypatch, ours, theirs):
    f, log = torch.compile(lambda x: in_parts(x, log)), []
    monkeypatch.setattr(trial, "time", Clock(ours, theirs))
    for turn in range(1, 15):
        x = torch.full((3,), float(turn))
        assert f(x).tolist() == [6.0 * turn * turn] * 3
        assert len(log) == turn  # each call happens once
    assert len(f.entries) == (ours < theirs)
    told = [one for one in f.reasons if "takes 9.0 us, eager 5.0" in one]
    assert len(told) == (ours > theirs)


def test_where_threads_have_no_time_of_their_own_the_clock_weighs(monkeypatch):
    """In a browser: there the third call of a compiled training step raised."""
    monkeypatch.setattr(trial, "time", SimpleNamespace(perf_counter_ns=time.perf_counter_ns))
    f, log = torch.compile(lambda x: in_parts(x, log)), []
    for turn in range(1, 15):
        assert f(torch.full((3,), 1.0)).tolist() == [6.0] * 3
        assert len(log) == turn
    g = torch.compile(lambda x: x * 2 + 1)
    assert all(g(torch.ones(2)).tolist() == [3.0, 3.0] for _ in range(5))


def test_functions_with_effects_are_weighed_too(monkeypatch):
    counter = Counter()

    def function(x):
        counter.n += 1
        return x * 2

    f = torch.compile(function)
    monkeypatch.setattr(trial, "time", Clock(9000, 5000))
    for turn in range(1, 15):
        assert f(torch.ones(3)).tolist() == [2.0] * 3
        assert counter.n == turn
    assert counters["compile"]["slower"] == 1
    assert "the program takes 9.0 us, eager 5.0" in f.reasons
    # The same function, where every program is wanted.
    f = torch.compile(function, options={"never_slower": False})
    for _ in range(14):
        f(torch.ones(3))
    assert f.entries


def test_no_more_programs_are_made_where_none_pays(monkeypatch):
    log = []
    f = torch.compile(lambda x: in_parts(x, log), dynamic=False)
    monkeypatch.setattr(trial, "time", Clock(9000, 5000))
    for size in range(2, 8):
        for _ in range(14):
            f(torch.ones(size))
    captures = counters["compile"]["captures"]
    for _ in range(3):
        assert f(torch.ones(9)).tolist() == [18.0] * 9
    assert counters["compile"]["captures"] == captures
    assert any("no more are made" in one for one in f.reasons)


def test_calls_of_several_kinds_are_told_apart():
    log = []
    f = torch.compile(lambda x, k: in_parts(x * k, log), dynamic=False)
    for turn in range(40):
        size, k = 2 + turn % 3, (1, 2.5, True)[turn % 3]
        assert f(torch.ones(size), k).tolist() == [2.0 * k * k * size] * size


def test_an_error_of_a_weighed_call_is_the_functions():
    def function(x, fails):
        s = x.sum().item()
        if fails[0]:
            raise KeyError(s)
        return x * s

    f, fails = torch.compile(function), [False]
    for turn in range(20):
        fails[0] = turn % 4 == 3
        if fails[0]:
            with pytest.raises(KeyError):
                f(torch.ones(2), fails)
        else:
            assert f(torch.ones(2), fails).tolist() == [2.0, 2.0]


def test_the_guards_are_a_part_of_what_a_program_costs(monkeypatch):
    inside, asked = [], []
    timed, miss = trial.Weighing.timed, Guards.miss

    def noted(self, run):
        inside.append(self.wants_program)
        try:
            return timed(self, run)
        finally:
            inside.pop()

    def looked(self, *args):
        asked.extend(inside)
        return miss(self, *args)

    monkeypatch.setattr(trial.Weighing, "timed", noted)
    monkeypatch.setattr(Guards, "miss", looked)
    state = {"calls": 0}

    @torch.compile
    def step(x):
        state["calls"] += 1
        return x.sort().values.sum().item()

    for _ in range(12):
        step(torch.rand(5))
    assert state["calls"] == 12
    assert asked.count(True) >= 5
    assert asked.count(False) == 0


@pytest.mark.filterwarnings("ignore")
def test_parts_that_use_up_their_gradients_are_weighed():
    w = torch.ones(3, requires_grad=True)

    def forward(x):
        y = (x * w).exp()
        return (y * y.max().item()).sum()

    def step(x):
        w.grad = None
        loss = forward(x)
        loss.backward()
        return loss.detach()

    used, handed_on = torch.compile(step), torch.compile(forward)
    for compiled in (used, handed_on):
        compiled(torch.ones(3))
        compiled(torch.ones(3))
    assert all(entry.weighing is not None for entry in used.entries[:1])
    assert all(entry.weighing is None for entry in handed_on.entries)


def test_calls_in_which_something_is_captured_are_not_timed():
    weighing = trial.Weighing()

    def captures():
        counters["compile"]["captures"] += 1

    weighing.timed(captures)
    assert weighing.wants_program
    for _ in range(5):
        assert weighing.wants_program
        weighing.timed(lambda: None)
    assert not weighing.wants_program
