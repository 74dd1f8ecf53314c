"""Failures are loud and quick: each test asserts a text and a bound in seconds."""

import logging
import threading
import time

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed import call
from pullback.distributed.threads import Fault


def failing(function, ranks=3, **options):
    """The errors of all ranks, and the seconds it took."""
    started = time.monotonic()
    with pytest.raises(dist.RankErrors) as caught:
        dist.threads.run(function, ranks, **options)
    return caught.value, time.monotonic() - started


def all_reduce():
    dist.all_reduce(torch.ones(2))


def test_another_shape_on_one_rank_is_an_error_that_names_all_on_every_rank():
    """B-4."""

    def one():
        dist.all_reduce(torch.ones(3 if dist.get_rank() == 1 else 2))

    error, seconds = failing(one)
    assert seconds < 5
    assert set(error.errors) == {0, 1, 2}
    for rank, text in error.errors.items():
        assert str(text).startswith(f"rank {rank}: the ranks of the default group do not make")
        assert "rank 0, 2: all_reduce #0 (float32[2] SUM)" in str(text)
        assert "rank 1: all_reduce #0 (float32[3] SUM)" in str(text)


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        (lambda: dist.barrier(), "rank 1: barrier #0"),
        (
            lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.MAX),
            r"rank 1: all_reduce #0 (float32[2] MAX)",
        ),
        (
            lambda: dist.all_reduce(torch.ones(2, dtype=torch.float64)),
            "rank 1: all_reduce #0 (float64[2] SUM)",
        ),
        (lambda: dist.broadcast(torch.ones(2), 0), "rank 1: broadcast #0 (float32[2] from 0)"),
        (lambda: dist.new_group([0]), "rank 1: new_group #0 (ranks [0])"),
    ],
)
def test_another_call_on_one_rank_is_an_error(theirs, text):
    """B-4."""
    error, seconds = failing(lambda: theirs() if dist.get_rank() == 1 else all_reduce())
    assert seconds < 5
    assert all(text in str(one) for one in error.errors.values())


def test_an_exception_on_one_rank_ends_the_others():
    def one():
        if dist.get_rank() == 2:
            raise ValueError("boom")
        all_reduce()

    error, seconds = failing(one)
    assert seconds < 5
    assert error.first == 2
    assert isinstance(error.__cause__, ValueError)
    assert "rank 2 is gone (ValueError: boom)" in str(error.errors[0])
    assert "all_reduce #0 (float32[2] SUM)" in str(error.errors[1])


def test_a_rank_that_returns_early_ends_the_others():
    def one():
        if dist.get_rank() != 2:
            all_reduce()

    error, seconds = failing(one)
    assert seconds < 5
    assert "rank 2 is gone (its function has returned)" in str(error.errors[0])


def test_an_injected_fault_befalls_the_call_it_is_for():
    done = []

    def one():
        for _ in range(3):
            all_reduce()
            done.append(dist.get_rank())

    error, seconds = failing(one, faults={1: Fault(at_call=2, error=OSError("cable cut"))})
    assert seconds < 5
    assert sorted(done) == [0, 0, 1, 1, 2, 2]
    assert "rank 1: OSError: cable cut" in str(error)


def test_a_late_rank_is_named_when_time_is_up_and_is_told_too():
    """B-9."""
    error, seconds = failing(all_reduce, timeout=0.3, faults={1: Fault(at_call=0, seconds=2.0)})
    assert seconds < 2 + 5
    assert "waited 0.3 s for rank 1, which did not come" in str(error.errors[0])
    assert "rank 1: all_reduce #0" in str(error.errors[1])


def first_alone(act):
    """A program in which rank 0 acts, and the others stay, with nothing to say, until it has."""
    over = threading.Event()

    def one():
        if dist.get_rank():
            assert over.wait(20)
            return
        try:
            act()
        finally:
            over.set()

    return one


def test_a_message_that_never_comes_times_out():
    one = first_alone(lambda: dist.recv(torch.ones(2), 1))

    error, seconds = failing(one, 2, timeout=0.3)
    assert seconds < 5
    assert "recv #0 (float32[2] from 1, tag 0)" in str(error.errors[0])
    assert "for rank 1, which did not come" in str(error.errors[0])


def test_a_timeout_can_be_given_to_a_barrier():
    error, seconds = failing(first_alone(lambda: dist.monitored_barrier(timeout=0.2)), 2)
    assert seconds < 5
    assert "monitored_barrier #0 of the default group waited 0.2 s for rank 1" in str(error)


def test_long_waits_say_what_they_wait_for(monkeypatch, caplog):
    from pullback.distributed.engines import threads as engine

    monkeypatch.setattr(engine, "SPEAK_AFTER", 0.05)
    with caplog.at_level(logging.WARNING, "pullback.distributed"):
        dist.threads.run(all_reduce, 2, faults={1: Fault(at_call=0, seconds=1.5)})
    assert "rank 0: all_reduce #0 (float32[2] SUM) waits for rank [1]" in caplog.text


def test_the_fingerprint_can_be_switched_off(monkeypatch):
    assert call.checking()
    monkeypatch.setenv("PULLBACK_DISTRIBUTED_DEBUG", "off")
    assert not call.checking()


def test_fingerprints_differ_where_calls_do():
    def number(name, detail, at):
        made = call.Call(name, detail, 1.0)
        made.number = at
        return made.fingerprint()

    assert number("a", "b", 0) == number("a", "b", 0) < 2**62
    assert len({number("a", "b", 0), number("a", "b", 1), number("a", "c", 0)}) == 3


def test_wait_has_a_limit_of_its_own():
    """B-3, B-9."""
    waited = threading.Event()

    def one():
        if dist.get_rank() == 1:
            assert waited.wait(20)
        work = dist.all_reduce(torch.ones(1), async_op=True)
        if dist.get_rank() == 0:
            started = time.monotonic()
            with pytest.raises(dist.DistBackendError, match=r"was not done after 0\.1 s"):
                work.wait(0.1)
            assert time.monotonic() - started < 5
            waited.set()
        work.wait()

    dist.threads.run(one, 2)
