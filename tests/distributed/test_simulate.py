"""The cost model: its formulas, and what ranks with injected delays really take."""

import time

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import simulate
from pullback.distributed.simulate import Job, Network


def test_formulas():
    network = Network(latency=1.0, bandwidth=10.0)
    assert simulate.all_reduce_seconds(80, 4, network, "ring") == pytest.approx(6 * (1 + 2))
    assert simulate.all_reduce_seconds(80, 4, network, "tree") == pytest.approx(4 * (1 + 8))
    assert simulate.all_reduce_seconds(80, 4, network, "rabenseifner") == pytest.approx(4 + 12)
    assert simulate.all_reduce_seconds(80, 4, network) == pytest.approx(16)
    assert simulate.all_reduce_seconds(80, 1, network) == 0
    with pytest.raises(ValueError, match="1 rank or more"):
        simulate.all_reduce_seconds(1, 0, network)


def ring_all_reduce(x):
    """By messages: each rank hands parts on to its right, first adding, then as they are."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = list(x.chunk(size))
    for phase in range(2 * (size - 1)):
        sent, got = parts[(rank - phase) % size], torch.zeros_like(parts[0])
        work = dist.isend(sent, (rank + 1) % size)
        dist.recv(got, (rank - 1) % size)
        work.wait()
        mine = (rank - phase - 1) % size
        parts[mine] = parts[mine] + got if phase < size - 1 else got
    return torch.cat(parts)


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_a_ring_of_threads_with_delays_takes_what_the_model_says(ranks):
    network = Network(latency=0.02, bandwidth=5e5)  # slow, beside what a busy machine adds

    def delay(_rank, name, size):
        return network.latency + size / network.bandwidth if name == "send" else 0.0

    def one():
        x = torch.ones(8000)
        dist.barrier()
        started = time.perf_counter()
        result = ring_all_reduce(x)
        assert result.tolist() == [float(ranks)] * 8000
        return time.perf_counter() - started

    predicted = simulate.all_reduce_seconds(32000, ranks, network, "ring")
    for _ in range(8):  # a machine that others use only adds
        took = max(dist.threads.run(one, ranks, delay=delay))
        assert took >= predicted
        if took < 1.6 * predicted:
            break
    assert took < 1.6 * predicted


def test_overlap_helps_where_messages_are_slow_and_never_hurts():
    job, network = Job(100e6, 0.3), Network()
    for ranks in (2, 16, 128, 1024, 4096):
        early = job.efficiency(ranks, network, overlap=True)
        late = job.efficiency(ranks, network, overlap=False)
        assert late < early <= 1
    assert job.efficiency(4096, network, overlap=False) < 0.65
    assert sum(job.buckets()) == pytest.approx(100e6)


def test_the_table_and_the_plot_reach_4096_ranks(capsys):
    simulate.main(["--megabytes", "10", "--seconds", "0.1"])
    printed = capsys.readouterr().out
    assert "ranks   all-reduce   early   at the end" in printed
    assert " 4096 " in printed
    assert " 4096 |###" in printed
