"""Pieces of large kernels on several threads: the same results, to the last bit."""

import os
import sys
import threading

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import threads
from pullback.operators.arrays.threads import default_count, each, in_order, setting, side_by_side

F = torch.nn.functional
WORKS = {
    "gelu": lambda x: F.gelu(x),
    "silu": lambda x: F.silu(x),
    "softmax": lambda x: x.softmax(1),
    "softmax over channels": lambda x: x.reshape(8, 16, -1).softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "layer norm": lambda x: F.layer_norm(x, (x.shape[1],), x[0] * 0.1 + 1, x[1]),
    "batch norm": lambda x: F.batch_norm(x.reshape(8, 16, 4, -1), None, None, training=True),
    "group norm": lambda x: F.group_norm(x.reshape(8, 16, 4, -1), 4),
    "convolution": lambda x: F.conv2d(
        x.reshape(8, 16, 64, 64), x[0, :1152].reshape(8, 16, 3, 3), x[1, :8], padding=1
    ),
    "strided convolution": lambda x: F.conv2d(
        x.reshape(8, 16, 64, 64), x[0, :1152].reshape(8, 16, 3, 3), stride=2
    ),
    "cross entropy": lambda x: F.cross_entropy(x, torch.arange(len(x))),
    "max pooling": lambda x: F.max_pool2d(x.reshape(8, 16, 64, 64), 3, 2, 1),
    "average pooling": lambda x: F.avg_pool2d(x.reshape(8, 16, 64, 64), 2),
    "average pooling of overlapping windows": lambda x: F.avg_pool2d(
        x.reshape(8, 16, 64, 64), 3, 2, 1, count_include_pad=False
    ),
}


@pytest.fixture
def threads_of():
    before = setting.count
    yield lambda count: setattr(setting, "count", count)
    setting.count = before


def results(work, x):
    x = x.detach().requires_grad_()
    out = work(x)
    (g,) = torch.autograd.grad((out * out).sum(), x)
    return [out.detach().numpy(), g.numpy()]


@pytest.mark.parametrize("name", WORKS)
def test_results_do_not_depend_on_the_number_of_threads(name, threads_of):
    torch.manual_seed(0)
    x = torch.randn(256, 2048)
    threads_of(1)
    expected = results(WORKS[name], x)
    for count in (2, 5):
        threads_of(count)
        for ours, theirs in zip(results(WORKS[name], x), expected, strict=True):
            assert ours.tobytes() == theirs.tobytes()


def test_several_threads_take_part(threads_of):
    threads_of(2)
    both = threading.Barrier(2, timeout=20)
    seen = set()

    def work(_):
        both.wait()
        seen.add(threading.get_ident())

    each(work, range(2))
    assert len(seen) == 2


def test_one_thread_stays_on_its_own(threads_of):
    threads_of(1)
    seen = set()
    each(lambda _: seen.add(threading.get_ident()), range(5))
    assert seen == {threading.get_ident()}


def test_results_come_in_the_order_of_the_pieces(threads_of):
    for count in (1, 3):
        threads_of(count)
        assert list(in_order(lambda n: n * n, range(20))) == [n * n for n in range(20)]


def test_errors_arrive_and_end_the_rest(threads_of):
    threads_of(2)
    done = []

    def work(number):
        done.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match=r"\d"):
        each(work, range(100))
    assert len(done) <= 2


def test_pieces_inside_of_pieces_do_not_wait_for_each_other(threads_of):
    threads_of(3)
    made = in_order(lambda n: sum(in_order(lambda k: n * k, range(6))), range(6))
    assert list(made) == [15 * n for n in range(6)]


def test_neighbours_stay_on_one_thread(threads_of):
    threads_of(2)
    both = threading.Barrier(2, timeout=20)
    seen = {}

    def work(piece):
        if piece in (0, 4):
            both.wait()  # so that each thread begins with its own half
        seen[piece] = threading.get_ident()

    each(work, range(8))
    assert seen[0] == threading.get_ident() != seen[4]


def test_an_interrupt_leaves_only_when_the_others_are_through(threads_of):
    threads_of(2)
    both = threading.Barrier(2, timeout=20)
    ended = threading.Event()

    def slow():
        both.wait()
        ended.wait(0.2)
        ended.set()

    def interrupted():
        both.wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([interrupted, slow])
    assert ended.is_set()
    test_several_threads_take_part(threads_of)


def test_as_many_threads_as_set_work_for_all_callers(threads_of):
    threads_of(2)
    both, started = threading.Barrier(2, timeout=20), threads._started
    side_by_side([both.wait, lambda: (both.wait(), each(lambda _: None, range(8)))])
    assert threads._started <= max(started, 1)


def test_floating_point_warnings_are_those_of_the_caller(threads_of):
    threads_of(3)
    with numpy.errstate(divide="ignore"):
        each(lambda _: numpy.ones(4) / 0.0, range(8))
    with numpy.errstate(divide="raise"), pytest.raises(FloatingPointError):
        each(lambda _: numpy.ones(4) / 0.0, range(8))


def test_the_environment_decides_first_then_idle_processors(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert default_count() == 7
    for name in threads._ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (2.6, 0, 0), raising=False)
    assert default_count() == 5
    monkeypatch.setattr(os, "getloadavg", lambda: (40.0, 0, 0), raising=False)
    assert default_count() == 1


def test_in_a_browser_there_is_one_thread_whatever_was_set(monkeypatch, threads_of):
    threads_of(2)
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setattr(threading.Thread, "start", None)  # it would raise
    monkeypatch.setattr(threads, "_share", None)
    gone = []
    each(gone.append, range(4))
    assert gone == [0, 1, 2, 3]
    assert list(in_order(lambda x: x + 1, range(3))) == [1, 2, 3]


def test_a_forked_child_starts_threads_of_its_own(threads_of):
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    threads_of(2)
    each(lambda _: None, range(4))
    assert threads._started
    threads._forget_helpers()
    assert list(in_order(lambda n: -n, range(4))) == [0, -1, -2, -3]
