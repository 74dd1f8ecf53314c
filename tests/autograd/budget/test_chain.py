"""The schedule of a chain is the best there is: against all schedules, for short chains."""

from functools import lru_cache

import numpy
import pytest

import pullback as torch
from pullback.autograd.budget.chain import Chain
from pullback.autograd.graph import memory_budget


def least(sizes, seconds, rooms, bound):
    """The least time to serve a chain from the last value to the first, by trying everything."""

    @lru_cache(None)
    def serve(first, last, free):
        if first > last:
            return 0.0
        best = numpy.inf
        walked, room = 0.0, 0
        for k in range(first, last + 1):
            walked += seconds[k]
            beside = sizes[first - 1] if k == first and first else 0
            room = max(room, rooms[k] - beside)
            if free >= max(room, sizes[k]):
                rest = serve(k + 1, last, free - sizes[k]) + serve(first, k - 1, free)
                best = min(best, walked + rest)
        return best

    return serve(0, len(sizes) - 1, bound)


@pytest.mark.parametrize("seed", range(30))
def test_the_table_has_the_least_time(seed):
    rng = numpy.random.default_rng(seed)
    count = int(rng.integers(2, 8))
    sizes = [int(one) for one in rng.integers(1, 6, count)]
    seconds = [float(one) for one in rng.uniform(0.1, 3, count)]
    rooms = [size + before for before, size in zip([0, *sizes], sizes, strict=False)]
    bound = int(rng.integers(max(rooms), sum(sizes) + 2))
    chain = Chain(sizes, seconds, rooms, bound)
    assert all(size % chain.unit == 0 for size in sizes)  # so nothing is rounded
    wanted = least(tuple(sizes), tuple(seconds), tuple(rooms), bound)
    assert chain.seconds == pytest.approx(wanted)


def test_what_is_kept_fits():
    chain = Chain([4] * 30, [1.0] * 30, [8] * 30, 30)
    assert 4 * len(chain.forward) <= 30
    assert 4 * len(chain.kept_on_way(3, 20, 17)) <= 17
    assert chain.kept_on_way(3, 20, 17)[-1] == 20


def test_a_long_chain_grows_as_revolve_says():
    """With room for c values and r runs of each, (c + r)! / (c! r!) values can be served."""
    count, room = 35, 4
    chain = Chain([1] * count, [1.0] * count, [1] * count, room)
    assert chain.seconds <= 4 * count  # three runs of each would serve 35 with four kept


def test_chains_of_operators_follow_the_schedule():
    x = torch.linspace(-1, 1, 1000).requires_grad_()
    budget = memory_budget(5 * 4000, spill=False)
    for _ in range(3):
        with budget:
            y = x
            for _ in range(40):
                y = y.sin()
        y.sum().backward()
    assert budget.last.plan == "planned: best for a chain"
    assert budget.last.calls <= budget.steps[0].calls
