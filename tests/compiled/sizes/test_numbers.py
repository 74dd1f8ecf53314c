"""Numbers among the arguments that change are inputs of the program from their second value on."""

import threading
import types

import numpy as np
import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.counting import counters

pytest.importorskip("llvmlite")
F = nn.functional
VALUES = (0.3, 0.7, 0.0, 1.0, -1.0, 2.0, 0.5, -0.0, -2.5, 3.0, 1e-30, 1e6, 0.125)


@pytest.fixture(autouse=True)
def _fresh():
    torch.manual_seed(0)
    counters.clear()


def check(function, compiled, *args):
    results = []
    for one in (function, compiled):
        tensors = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        made = one(*args)
        outs = [made]
        if made.requires_grad:
            outs += torch.autograd.grad(made.square().sum(), tensors)
        results.append(outs)
    for ours, eager in zip(*results, strict=True):
        assert ours.dtype == eager.dtype
        a, b = ours.detach().numpy(), eager.detach().numpy()
        if a.dtype == bool:
            assert (a == b).all()
        else:
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6 * max(1, abs(args[-1])) ** 2)


PROGRAMS = {
    "sum": lambda x, t: x + t,
    "difference": lambda x, t: t - x * 2,
    "product": lambda x, t: (x * t).tanh(),
    "quotient": lambda x, t: x / (t * t + 1.5),
    "numerator": lambda x, t: t / (x * x + 1),
    "power": lambda x, t: (x * x + 0.5) ** t,
    "alpha": lambda x, t: torch.add(x, x.sin(), alpha=t),
    "value": lambda x, t: torch.addcmul(x, x, x, value=t),
    "quotient's value": lambda x, t: torch.addcdiv(x, x, x * x + 1, value=t),
    "between": lambda x, t: torch.lerp(x, x * 3, t),
    "clamped": lambda x, t: x.clamp(min=t),
    "clamped on both sides": lambda x, t: x.clamp(-abs(t), abs(t)),
    "comparison": lambda x, t: x > t,
    "equality": lambda x, t: (x == t).float() + x,
    "chosen": lambda x, t: torch.where(x > t, x, t),
    "slope": lambda x, t: F.leaky_relu(x, t),
    "exponential": lambda x, t: F.elu(x, abs(t) + 0.1),
    "shrunk": lambda x, t: F.hardshrink(x, abs(t)),
    "temperature": lambda x, t: (x / (abs(t) + 0.5)).softmax(-1),
    "twice": lambda x, t: x * t - (t + 1) * x.exp() + t * 2,
    "decision": lambda x, t: x * t if t > 0.4 else x - t,
    "rounded": lambda x, t: x * round(t) + t,
    "of a size too": lambda x, t: (x * t).sum() / (x.shape[0] * t * t + 1),
}


@pytest.mark.filterwarnings("ignore:.*none fits this call")  # where a number decides much
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_number_that_changes_gives_what_eager_gives(name):
    """At values that operators treat by themselves, too (0, 1, -1, 2)."""
    function = PROGRAMS[name]
    f = torch.compile(function, backend="llvm")
    x = torch.randn(5, 7, requires_grad=True)
    for value in VALUES:
        if name == "power" and abs(value) > 10:
            continue
        check(function, f, x, value)
    assert not counters["errors"]


def test_a_changed_number_captures_nothing(monkeypatch):
    """The second value makes one program for all; later ones only fill its table."""
    f = torch.compile(PROGRAMS["twice"], backend="llvm")
    x = torch.randn(5, 7, requires_grad=True)
    for value in (0.3, 0.7):
        check(PROGRAMS["twice"], f, x, value)
    known = dict(counters["compile"])
    assert (known["captures"], known["families"]) == (1, 1), counters["sizes"]
    for number in range(20):
        check(PROGRAMS["twice"], f, x, 0.01 + number / 7)
    assert counters["compile"]["captures"] == 1
    assert counters["compile"]["families"] == 1


def test_counts_vary_too():
    def step(x, n):
        return x * n + x / (n + 1)

    f = torch.compile(step, backend="llvm")
    x = torch.randn(5, requires_grad=True)
    for n in range(30):
        check(step, f, x, n)
    assert counters["compile"]["captures"] <= 3  # 0 and 1 have programs of their own


def test_what_is_no_number_like_the_others_is_told_apart():
    f = torch.compile(lambda x, t: x * t, backend="llvm")
    x = torch.ones(3)
    for value in (0.5, 0.25, 2, True, 3, float("inf"), 4.0):
        assert f(x, value).tolist() == [float(value)] * 3
    assert np.isnan(f(x, float("nan")).numpy()).all()
    assert f(x, torch.tensor(3.0)).tolist() == [3.0] * 3


def test_zeros_keep_their_signs():
    """They are equal as keys, and are no numbers that vary."""
    found = [0.0]

    def work(x, t):
        return x * t, x * found[0]

    f = torch.compile(work, backend="llvm")
    x = torch.ones(3)
    for value in (0.5, 0.25, 0.0, -0.0, 0.75, -0.0, 0.0, 0.5):
        found[0] = -value
        for ours, eager in zip(f(x, value), work(x, value), strict=True):
            assert np.array_equal(np.signbit(ours.numpy()), np.signbit(eager.numpy())), value
            assert torch.equal(ours, eager)


def test_options_of_other_operators_keep_their_numbers():
    """`topk`'s k decides what is done: each has a program, and later ones run eagerly."""
    f = torch.compile(lambda x, k: (x * 2).topk(k).values, backend="llvm")
    x = torch.randn(4, 20)
    for k in (2, 3, 5, 7, 3, 20):
        assert torch.equal(f(x, k), (x * 2).topk(k).values)
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        f(x, 21)


def test_threads_do_not_see_each_others_numbers():
    """The table of a program is filled and run under a lock."""
    f = torch.compile(lambda x, t: (x * t).sum(), backend="llvm")
    x = torch.ones(16)
    with torch.no_grad():
        for value in (0.5, 0.25, 2.5):
            f(x, value)
    wrong = []

    def work(first):
        with torch.no_grad():
            for n in range(1500):
                value = first + n % 13
                if f(x, value).item() != 16 * value:
                    wrong.append(value)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0.5, 100.25, 1000.75)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


class Settings:
    """What a function reads besides its arguments."""

    rate = 0.5
    count = 3


def test_numbers_that_the_function_finds_vary_too():
    """In a dict, at an object, in a list of a closure."""
    table, listed, settings = {"rate": 0.1}, [2.0], Settings()

    def work(x):
        return (x * table["rate"] + listed[0]).tanh() / settings.rate * settings.count

    f = torch.compile(work, backend="llvm")
    x = torch.randn(5, requires_grad=True)
    for turn in range(12):
        table["rate"], listed[0] = 0.1 / (turn + 1), 2.5 - turn
        settings.rate, settings.count = 1.5 ** (turn - 3), 3 + turn
        agree(work, f, x)
    assert counters["compile"]["captures"] == 1
    assert counters["compile"]["families"] == 1
    # One of them alone, of another kind, and gone.
    table["rate"] = 0.77
    agree(work, f, x)
    settings.count = 2.5
    agree(work, f, x)
    settings.count = True
    agree(work, f, x)
    del table["rate"]
    with pytest.raises(KeyError):
        f(x)
    table["rate"] = torch.tensor(3.0)
    agree(work, f, x)


def agree(function, compiled, x):
    """Results and gradients of both."""
    results = []
    for one in (function, compiled):
        made = one(x)
        results.append([made, *torch.autograd.grad(made.sum(), x)])
    for ours, eager in zip(*results, strict=True):
        assert torch.allclose(ours, eager, rtol=1e-4, atol=1e-6)


def test_other_changes_outside_are_still_seen():
    """A number that varies is no excuse for what else is read."""
    state = {"rate": 0.1, "how": "sin", "shift": torch.ones(3)}

    def work(x):
        made = x * state["rate"] + state["shift"]
        return made.sin() if state["how"] == "sin" else made.cos()

    f = torch.compile(work, backend="llvm")
    x = torch.randn(3)
    for turn in range(8):
        state["rate"] = 0.1 + turn
        if turn == 4:
            state["how"] = "cos"
        if turn == 6:
            state["shift"] = torch.zeros(3)
        assert torch.allclose(f(x), work(x), rtol=1e-4, atol=1e-6), turn


def test_a_schedule_of_the_optimizer_makes_one_program():
    """The learning rate is read from the optimizer's groups in each step."""

    def build():
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x, y):
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return net, optimizer, step

    (ours, first, step), (eager, second, wanted) = build(), build()
    f = torch.compile(step, backend="llvm")
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    for one in (step, wanted):  # which makes the optimizer's state
        one(x, y)
    for turn in range(12):
        for one in (first, second):
            one.param_groups[0]["lr"] = 0.1 / (1 + turn)
        assert torch.allclose(f(x, y), wanted(x, y), rtol=1e-4)
    for a, b in zip(ours.parameters(), eager.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-5)
    assert counters["compile"]["captures"] <= 2


def test_two_numbers_of_which_one_cannot_vary_are_both_compared():
    f = torch.compile(lambda x, pair: x * float(2.0 in pair), backend="llvm")
    x = torch.ones(3)
    for pair in [(2.0, 3.0), (3.0, 2.0), (2.0, 3.0), (7.0, 3.0), (8.0, 9.0), (9.0, 2.0)]:
        assert f(x, list(pair)).tolist() == [float(2.0 in pair)] * 3


@pytest.mark.parametrize("use", [lambda x, k: x * k, lambda x, k: x + k * 2, lambda x, k: x > k])
def test_a_whole_number_that_no_tensor_can_hold_raises_as_it_does_in_eager(use):
    f = torch.compile(use, backend="llvm")
    x = torch.tensor([1, 3])
    for k in (2, 5, 7):
        assert torch.equal(f(x, k), use(x, k))
    for k in (2**63, 2**64 - 1, 2**70):
        with pytest.raises(RuntimeError, match="does not fit"):
            f(x, k)
    assert torch.equal(f(x, 11), use(x, 11))
    wide = torch.tensor([1.0, 3.0])
    for k in (2, 5, 2**70):
        assert torch.equal(f(wide, k), use(wide, k))


def test_a_counter_that_no_tensor_can_hold_any_more_raises_as_it_does_in_eager(backend):
    state = types.SimpleNamespace(n=2)

    def squared(x):
        state.n = state.n * state.n
        return x * state.n

    f = torch.compile(squared, backend=backend)
    for _ in range(5):
        assert torch.equal(f(torch.tensor([1])), torch.tensor([state.n]))
    with pytest.raises(RuntimeError, match="does not fit"):
        f(torch.tensor([1]))
    assert state.n == 2**64


def test_quotients_and_rests_of_numbers_that_vary():
    def use(x, k):
        return x * (k // 2) + k % 3, x / (2 // k) if k < 2 else x

    f = torch.compile(use, backend="llvm")
    x = torch.tensor([1.0, 2.0])
    for k in (2.5, 3.5, -7.25, 1.5, 1.75, 100.5):
        assert all(map(torch.equal, f(x, k), use(x, k)))


def test_a_number_from_outside_that_decides_otherwise_is_guarded_in_every_family(backend):
    state = {"k": 70}
    f = torch.compile(lambda x: x * max(state["k"] - 90, 0), backend=backend)
    for n, state["k"] in ((101, 70), (106, 80), (110, 90), (110, 99), (200, 100), (101, 120)):
        x = torch.linspace(0.1, 3.0, n)
        assert torch.equal(f(x), x * max(state["k"] - 90, 0)), state
