"""Ranks with fewer batches: the others' collectives are answered, and all end with one model."""

import time

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.nn.parallel import DistributedDataParallel as DDP


def train(batches, **options):
    model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=False))
    torch.nn.init.ones_(model[0].weight)
    parallel = DDP(model, **options.pop("ddp", {}))
    seen = []
    with parallel.join(**options):
        for _ in range(batches[dist.get_rank()]):
            parallel.zero_grad()
            parallel(torch.ones(1, 1)).sum().backward()
            seen.append(model[0].weight.grad.item())
            with torch.no_grad():
                model[0].weight -= 0.1 * model[0].weight.grad
    return seen, model[0].weight.item()


@pytest.mark.parametrize("ddp", [{}, {"find_unused_parameters": True}, {"overlap": True}])
def test_a_rank_that_has_ended_counts_as_zeros(ddp):
    """B-36."""
    (first, a), (second, b) = (
        dist.threads.run(train, 2, (3, 1), timeout=5.0)
        if not ddp
        else (dist.threads.run(lambda: train((3, 1), ddp=dict(ddp)), 2, timeout=5.0))
    )
    assert first == [1.0, 0.5, 0.5]
    assert second == [1.0]
    assert a == b == pytest.approx(0.8)


def test_or_the_mean_is_over_those_that_run():
    def one():
        return train((3, 1), divide_by_initial_world_size=False)

    (first, a), (_, b) = dist.threads.run(one, 2, timeout=5.0)
    assert first == [1.0, 1.0, 1.0]
    assert a == b == pytest.approx(0.7)


def test_early_ends_can_be_errors_on_all_ranks():
    def one():
        with pytest.raises(RuntimeError, match=r"rank \d: .*throw_on_early_termination"):
            train((3, 1), throw_on_early_termination=True)

    started = time.monotonic()
    dist.threads.run(one, 2, timeout=5.0)
    assert time.monotonic() - started < 5


def test_join_can_be_switched_off():
    def one():
        return train((2, 2), enable=False)

    assert dist.threads.run(one, 2)[0][0] == [1.0, 1.0]
