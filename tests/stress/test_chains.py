"""Chains of faults try every step, go on where one was swallowed, and tell what is wrong."""

import contextlib
import os
import time

import pytest

import pullback as torch
from stress import chains, forks, works

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="faults are tried in forks")
EXPECTED = [[2.0]]


def chained(monkeypatch, work, kind="error"):
    """What a chain through all steps of a program gives, in a child."""
    monkeypatch.setitem(works.WORKS, "tried", work)

    def task():
        work()
        steps = chains.steps_of("tried", kind)
        return steps, chains.chain("tried", kind, set(steps), EXPECTED, time.monotonic() + 60)

    return forks.in_a_fork(task, 60)


def added():
    return [(torch.ones(1) + torch.ones(1)).tolist()]


@pytest.mark.parametrize("kind", ["error", "memory", "interrupt"])
def test_a_chain_tries_every_step(monkeypatch, kind):
    steps, told = chained(monkeypatch, added, kind)
    assert told.wrong is None
    assert told.complete
    assert len(set(steps)) == len(steps) > 0
    assert sorted(told.tried) == sorted(steps)


def test_steps_after_a_swallowed_fault_are_tried_too(monkeypatch):
    def work():
        with contextlib.suppress(RuntimeError):
            torch.ones(1) * 1
        return added()

    steps, told = chained(monkeypatch, work)
    assert told.wrong is None
    assert told.swallowed > 0
    assert sorted(told.tried) == sorted(steps)


def test_what_handles_a_fault_gets_none_itself(monkeypatch):
    def work():
        try:
            torch.ones(1) * 1
        finally:
            torch.ones(1) - 1
        return added()

    _, told = chained(monkeypatch, work)
    assert told.wrong is None
    assert told.swallowed == 0


def test_a_fault_that_breaks_the_next_run_is_found(monkeypatch):
    spoiled = []

    def work():
        if spoiled:
            raise ValueError("broken for good")
        try:
            return added()
        except RuntimeError:
            spoiled.append(True)
            raise

    _, told = chained(monkeypatch, work)
    assert told.wrong == "tried: afterwards ValueError: broken for good"
    assert told.where


def test_other_numbers_and_modes_left_changed_are_found(monkeypatch):
    def numbers():
        try:
            return added()
        except RuntimeError:
            return [[0.0]]

    def mode():
        torch.set_grad_enabled(False)
        made = added()
        torch.set_grad_enabled(True)
        return made

    assert "swallowed a fault" in chained(monkeypatch, numbers)[1].wrong
    assert "left behind grad mode" in chained(monkeypatch, mode)[1].wrong


def test_a_run_that_waits_for_ever_is_found(monkeypatch):
    monkeypatch.setattr(forks, "STUCK", 0.5)

    def work():
        try:
            return added()
        except RuntimeError:
            time.sleep(60)
            raise

    monkeypatch.setitem(works.WORKS, "tried", work)

    def task():
        steps = set(chains.steps_of("tried", "error"))
        return chains.chain("tried", "error", steps, EXPECTED, time.monotonic() + 60)

    assert forks.in_a_fork(task, 30).wrong == "tried: stuck"
