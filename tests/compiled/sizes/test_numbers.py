"""Numbers among the arguments that change are inputs of the program from their second value on."""

import threading

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
