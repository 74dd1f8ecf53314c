"""Programs that are replayed: which memory they read, what they give, and when they do not."""

import pytest

import pullback as torch
from pullback.compiled.counting import counters
from pullback.compiled.cuda import graphed


class Graphs:
    """Stands for CUDA graphs, which only a device has: a replay is the work again, in its memory.

    The work is done when it is captured, too; its results are spoilt, for no graph has any yet.
    """

    def __init__(self):
        self.captures = self.replays = 0

    def captured(self, run):
        self.captures += 1
        made = run()
        for one in made:
            one[...] = -1

        def replay():
            self.replays += 1
            for one, again in zip(made, run(), strict=True):
                one[...] = again

        return replay, made


@pytest.fixture
def graphs(monkeypatch):
    made = Graphs()
    monkeypatch.setattr(graphed, "captured", made.captured)
    return made


def test_the_second_call_is_captured_and_later_ones_replay_it(graphs):
    """K-69"""
    w = torch.randn(5, 3, device="cuda")
    f = torch.compile(lambda x: (x @ w).tanh(), backend="cudagraphs", fullgraph=True, dynamic=False)
    results = []
    kept = []
    for _ in range(5):
        x = torch.randn(4, 5, device="cuda")
        kept.append(x)  # so that the next one lies elsewhere
        results.append((f(x), (x @ w).tanh()))
    for ours, wanted in results:  # later replays leave earlier results alone
        torch.testing.assert_close(ours.cpu(), wanted.cpu(), rtol=1e-5, atol=1e-6)
    assert graphs.replays == 4
    assert graphs.captures == 1


def test_a_parameter_that_stays_is_read_where_it_is_and_one_that_moves_is_copied(graphs):
    w = torch.randn(3, device="cuda")
    f = torch.compile(lambda x: x * w, backend="cudagraphs", dynamic=False)
    x = torch.randn(3, device="cuda")
    for _ in range(3):
        f(x)
    w.mul_(2)
    torch.testing.assert_close(f(x).cpu(), (x * w).cpu())
    assert graphs.captures == 1
    w.set_(torch.randn(3, device="cuda"))
    for _ in range(2):
        torch.testing.assert_close(f(x).cpu(), (x * w).cpu())
    assert graphs.captures == 2


def test_gradients_and_writes_are_as_without_graphs(graphs):
    w = torch.randn(3, device="cuda", requires_grad=True)
    total = torch.zeros(3, device="cuda")

    def loss(x):
        total.add_(x)
        return (x * w).sin().sum()

    f = torch.compile(loss, backend="cudagraphs", dynamic=False)
    seen = torch.zeros(3)
    for _ in range(4):
        x = torch.randn(3, device="cuda")
        seen += x.cpu()
        f(x).backward()
        torch.testing.assert_close(w.grad.cpu(), (x * (x * w).cos()).detach().cpu())
        torch.testing.assert_close(total.cpu(), seen)
        w.grad = None
    assert graphs.replays


def test_work_that_cannot_be_captured_runs_as_it_is(monkeypatch):
    def refuse(run):
        raise RuntimeError("it waits for the device")

    monkeypatch.setattr(graphed, "captured", refuse)
    counters["cudagraphs"].clear()
    f = torch.compile(lambda x: x + 1, backend="cudagraphs", dynamic=False)
    for number in range(3):
        x = torch.full((2,), float(number), device="cuda")
        assert f(x).tolist() == [number + 1.0] * 2
    assert counters["cudagraphs"] == {"RuntimeError: it waits for the device": 1}


def test_tensors_of_the_host_have_programs_of_the_host(graphs):
    f = torch.compile(lambda x: x * 2, backend="cudagraphs")
    for _ in range(3):
        assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    assert not graphs.captures
