"""A short form of the faults that `make stress` puts in, and that its checks can fail."""

import os
import re
import subprocess
import sys

import pytest

import pullback as torch
from stress import faults, forks, works

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="faults are tried in forks")
EXPECTED = [[2.0]]


def test_faults_leave_nothing_changed_and_the_next_run_right():
    """Issue 15, item 2: a few of the 30,000 steps of the long form, in a process that is fresh."""
    command = [sys.executable, "-m", "stress", "faults", "--seed", "15", "--calls", "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"interrupt, warm +\d\d", done.stdout), done.stdout


@pytest.mark.parametrize("name", ["custom_function", "custom_operator"])
def test_an_interrupt_at_any_step_of_the_users_own_operators_leaves_nothing_changed(name):
    """Right after the mode was set for the user's forward, it was not put back."""
    expected = works.WORKS[name]()
    works.WORKS[name]()
    with faults.silent_finalizers():
        for at in range(1, faults.steps_of(name, "interrupt") + 1):
            wrong = faults.judged(name, faults.attempt(name, "interrupt", at), expected)
            torch.set_grad_enabled(True)
            assert wrong is None, at


@pytest.fixture
def broken(monkeypatch):
    """A program with one mistake; gives what is found for a fault at each of its steps."""

    def found(work):
        monkeypatch.setitem(works.WORKS, "broken", work)
        outcomes = [faults.attempt("broken", "error", at) for at in range(1, 25)]
        torch.set_grad_enabled(True)
        return [faults.judged("broken", one, EXPECTED) for one in outcomes]

    return found


def test_a_mode_that_a_fault_leaves_changed_is_found(broken):
    def work():
        torch.set_grad_enabled(False)
        torch.ones(1) + torch.ones(1)
        torch.set_grad_enabled(True)
        return EXPECTED

    assert any(said and "left behind grad mode" in said for said in broken(work))


def test_a_swallowed_fault_with_other_numbers_is_found(broken):
    def work():
        try:
            return [(torch.ones(1) + torch.ones(1)).tolist()]
        except RuntimeError:
            return [[0.0]]

    assert any(said and "swallowed" in said for said in broken(work))


def test_a_fault_that_breaks_the_next_run_is_found(broken):
    spoiled = []

    def work():
        try:
            return [[0.0]] if spoiled else [(torch.ones(1) + torch.ones(1)).tolist()]
        except RuntimeError:
            spoiled.append(True)
            raise

    assert any(said and "afterwards" in said for said in broken(work))


def test_a_process_that_dies_or_waits_for_ever_is_told(monkeypatch):
    assert forks.in_a_fork(lambda: os._exit(1)) == "died"
    monkeypatch.setattr(forks, "STUCK", 0.2)
    assert forks.in_a_fork(lambda: __import__("time").sleep(60)) == "stuck"
