"""Futures: results, errors, callbacks, threads."""

import threading
import time

import pytest

from pullback.futures import Future, collect_all, wait_all


def done(value):
    future = Future()
    future.set_result(value)
    return future


def failed(error):
    future = Future()
    future.set_exception(error)
    return future


def test_a_result_is_set_once_and_can_be_waited_for_from_another_thread():
    future = Future()
    assert not future.done()
    with pytest.raises(RuntimeError, match="not done"):
        future.value()
    threading.Thread(target=lambda: (time.sleep(0.05), future.set_result(3))).start()
    assert future.wait() == 3
    assert future.done()
    with pytest.raises(RuntimeError, match="only once"):
        future.set_result(4)
    assert future.value() == 3


def test_errors_are_raised_by_whoever_asks():
    future = failed(ValueError("bad"))
    assert future.done()
    for ask in (future.wait, future.value):
        with pytest.raises(ValueError, match="bad"):
            ask()
    with pytest.raises(AssertionError, match="int"):
        Future().set_exception(3)


def test_then_makes_a_chain_now_or_later():
    future = Future()
    later = future.then(lambda f: f.value() + 1).then(lambda f: f.value() * 2)
    assert not later.done()
    future.set_result(3)
    assert later.wait() == 8
    assert future.then(lambda f: f.value()).value() == 3
    assert failed(ValueError()).then(lambda f: "rescued").wait() == "rescued"
    with pytest.raises(RuntimeError, match="bad"):
        failed(ValueError("bad")).then(lambda f: f.wait()).wait()


def test_errors_in_done_callbacks_are_printed_and_the_others_run(capsys):
    seen = []
    future = Future()
    future.add_done_callback(lambda f: 1 / 0)
    future.add_done_callback(lambda f: seen.append(f.value()))
    future.set_result(1)
    future.add_done_callback(lambda f: seen.append("at once"))
    assert seen == [1, "at once"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_all_together():
    one, two = done(1), Future()
    together = collect_all([one, two])
    assert not together.done()
    two.set_result(2)
    assert together.wait() == [one, two]
    assert wait_all([one, two]) == [1, 2]
    assert collect_all([]).wait() == wait_all([]) == []
    with pytest.raises(ValueError, match="bad"):
        wait_all([one, failed(ValueError("bad")), failed(KeyError())])


def test_devices_are_refused():
    with pytest.raises(ValueError, match="cpu"):
        Future(devices=["cpu"])
    assert Future[int]().done() is False
