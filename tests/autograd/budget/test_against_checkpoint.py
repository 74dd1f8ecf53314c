"""A budget against checkpoints that were placed by hand, at equal memory of the process.

Work is counted, not timed: what each operator costs is a number of floating operations, which the
budget is given in place of its clock; what ran again is counted where it runs.
"""

import gc
import math
import sys
import tracemalloc
from collections import Counter

import pytest

import pullback as torch
from pullback.autograd.budget.array_store import ArrayStore
from pullback.operators.dispatch.observers import observe, stop
from pullback.utils.checkpoint import checkpoint, checkpoint_sequential
from tests.autograd.budget.nets import UNet

functional, nn = torch.nn.functional, torch.nn


def key_of(name, result):
    several = result if isinstance(result, tuple | list) else [result]
    return name, tuple(tuple(one.shape) for one in several)


VIEWS = frozenset({"_view", "_permute", "unbind", "transpose", "_unsafe_view"})


def work_of(name, result, operands):
    """Floating operations of products; elsewhere the time is that of some 64 for each element."""
    if name in VIEWS:
        return 0
    size = sum(math.prod(shape) for shape in key_of(name, result)[1])
    if name in ("linear", "convolution", "transposed_convolution"):
        weight = operands[1]
        return 2 * size * weight.numel() // weight.shape[name.startswith("transposed")]
    return 64 * size


class Calls:
    """Counts operator calls, by name and sizes of the results, and knows what work they are."""

    def __init__(self):
        self.made, self.work = Counter(), {}

    def enter(self, op, called):
        return called

    def leave(self, token, result, operands):
        if result is not None:
            key = key_of(token, result)
            self.made[key] += 1
            self.work[key] = work_of(token, result, operands)


def calls_of(step):
    calls = Calls()
    observe(calls)
    try:
        step()
    finally:
        stop(calls)
    return calls


def with_work_for_time(budget):
    """The same budget, which takes each operator for as slow as it is work."""
    recorder = budget._recorder

    def leave(token, result, operands):
        recorder._seconds = 0 if result is None else 1e-9 * work_of(token, result, operands)

    recorder.enter, recorder.leave = lambda op, called: called, leave
    return budget


def run_again_in(step, monkeypatch):
    """What a budget computes again in a step, counted where it does."""
    again, run = Counter(), ArrayStore.run

    def counted(self, call, have, *, may_write):
        arrays = run(self, call, have, may_write=may_write)
        again[key_of(call.name, arrays)] += 1
        return arrays

    with monkeypatch.context() as patch:
        patch.setattr(ArrayStore, "run", counted)
        step()
    return again


def python_calls_of(step):
    """How many functions of Python a step calls."""
    calls = 0

    def count(_frame, event, _arg):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        step()
    finally:
        sys.setprofile(before)
    return calls


def peak_of(step):
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def deep():
    layers = [one for _ in range(24) for one in (nn.Linear(128, 128), nn.LayerNorm(128), nn.GELU())]
    net, x = nn.Sequential(*layers), torch.randn(1024, 128)

    def by_hand(segments):
        return lambda: checkpoint_sequential(net, segments, x, use_reentrant=False).square().mean()

    return net, lambda: net(x).square().mean(), [by_hand(3), by_hand(6)]


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, length, width = x.shape
        each = self.into(self.before(x)).reshape(rows, length, 3, self.heads, width // self.heads)
        q, k, v = each.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 4, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(rows, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


def transformer():
    net, x = nn.Sequential(*(Block(32) for _ in range(24))), torch.randn(16, 64, 32)

    def by_hand(segments):
        return lambda: checkpoint_sequential(net, segments, x, use_reentrant=False).square().mean()

    return net, lambda: net(x).square().mean(), [by_hand(4), by_hand(8)]


def unet():
    net, x, wanted = UNet(8), torch.randn(4, 1, 48, 48), torch.randn(4, 1, 48, 48)
    outer = (net.down[0], net.up[1])

    def again(block, *given):
        return checkpoint(block, *given, use_reentrant=False)

    def only_outer(block, *given):
        return again(block, *given) if block in outer else block(*given)

    def by_hand(run):
        return lambda: functional.mse_loss(net(x, run), wanted)

    return net, by_hand(lambda block, *given: block(*given)), [by_hand(again), by_hand(only_outer)]


def step_of(net, loss, budget=None):
    def step():
        net.zero_grad()
        if budget is None:
            made = loss()
        else:
            with budget:
                made = loss()
        made.backward()

    step()  # what is loaded and measured once
    step()
    return step


@pytest.mark.parametrize("make", [deep, transformer, unet])
def test_less_work_is_done_again_at_equal_memory(make, monkeypatch):
    torch.manual_seed(0)
    net, loss, by_hand = make()
    plain = step_of(net, loss)
    once, whole = calls_of(plain), peak_of(plain)
    for placed in by_hand:
        theirs = step_of(net, placed)
        limit, extra = peak_of(theirs), calls_of(theirs).made - once.made
        assert limit < whole
        share = 0.88 * limit / whole
        while share > 0.1:
            budget = torch.autograd.graph.memory_budget(int(whole * share), spill=False)
            ours = step_of(net, loss, with_work_for_time(budget))
            if peak_of(ours) <= limit:
                break
            share -= 0.01
        assert share > 0.1, "no budget takes as little memory"
        again = run_again_in(ours, monkeypatch)
        assert budget.last.plan.startswith("planned")
        assert sum(again.values()) == budget.last.calls > 0
        by_us, by_them = (
            sum(once.work[key] * count for key, count in counts.items())
            for counts in (again, extra)
        )
        assert by_us < by_them


@pytest.mark.parametrize("make", [deep, unet])
def test_a_planned_step_keeps_its_books_in_few_calls(make):
    """For each operator, the first time or again."""
    torch.manual_seed(0)
    net, loss, _ = make()
    plain = step_of(net, loss)
    once, least = sum(calls_of(plain).made.values()), python_calls_of(plain)
    whole = torch.autograd.graph.memory_budget("1 GiB")
    step_of(net, loss, whole)
    for share in (2, 0.5):
        size = int(share * whole.last.saved)
        budget = torch.autograd.graph.memory_budget(size, spill=False)
        ours = step_of(net, loss, budget)
        ours()  # planned for the last time at its beginning
        more = python_calls_of(ours) - least
        assert budget.last.plan.startswith("planned")
        assert more < 95 * (once + budget.last.calls)
