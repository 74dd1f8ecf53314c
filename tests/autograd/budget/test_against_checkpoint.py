"""A budget against checkpoints that were placed by hand, at equal memory of the process."""

import gc
import tracemalloc
from collections import Counter

import pytest

import pullback as torch
from pullback.operators.dispatch.observers import observe, stop
from pullback.utils.checkpoint import checkpoint, checkpoint_sequential
from tests.autograd.budget.nets import UNet

functional, nn = torch.nn.functional, torch.nn


class Calls:
    """Counts operator calls, by name and sizes of the results."""

    def __init__(self):
        self.made = Counter()

    def enter(self, op, called):
        return called

    def leave(self, token, result, operands):
        if result is not None:
            several = result if isinstance(result, tuple | list) else [result]
            self.made[token, tuple(tuple(one.shape) for one in several)] += 1


def calls_of(step):
    calls = Calls()
    observe(calls)
    try:
        step()
    finally:
        stop(calls)
    return calls.made


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


@pytest.mark.parametrize("make", [deep, unet])
def test_less_time_is_spent_on_computing_again_at_equal_memory(make):
    torch.manual_seed(0)
    net, loss, by_hand = make()

    def step_of(loss, budget=None):
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

    plain = step_of(loss)
    once, whole = calls_of(plain), peak_of(plain)
    for placed in by_hand:
        theirs = step_of(placed)
        limit, extra = peak_of(theirs), calls_of(theirs) - once
        assert limit < whole
        share = 0.88 * limit / whole
        while share > 0.1:
            budget = torch.autograd.graph.memory_budget(int(whole * share), spill=False)
            if peak_of(step_of(loss, budget)) <= limit:
                break
            share -= 0.02
        assert share > 0.1, "no budget takes as little memory"
        # The same measure for both: how long each call takes at its quickest.
        seconds = budget._recorder.trace.seconds
        assert all(key in seconds for key in extra if "standardise" in key[0])
        by_them = sum(seconds.get(key, 0) * count for key, count in extra.items())
        assert budget.last.seconds < by_them
