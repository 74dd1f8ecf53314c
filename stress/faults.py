"""Faults at every step of a program: nothing wrong is returned, nothing is stuck, no state stays.

A step is a call of a function of pullback's, or one that it makes of C. At the n-th step an error,
a lack of memory or an interrupt is raised, each where Python can meet it: an interrupt comes at the
start of a function and after a call of C, never between two lines. Afterwards the modes must be
those of before, and the program must give its numbers again. Each in a fork: cold, of a process
that has used nothing yet, and warm, of one that has run the program before.
"""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import numpy

import pullback
from stress.report import Report
from stress.state import changed, state
from stress.works import WORKS

STUCK = 20.0  # seconds for a program that takes milliseconds
_OURS = (os.path.dirname(pullback.__file__) + os.sep, "<pullback")


class FaultError(RuntimeError):
    """An error that no code of ours expects."""


class Kind(NamedTuple):
    """What is raised, and at which events of the interpreter."""

    error: type[BaseException]
    events: frozenset[str]


KINDS = {
    "error": Kind(FaultError, frozenset({"call"})),
    "memory": Kind(MemoryError, frozenset({"c_call"})),
    "interrupt": Kind(KeyboardInterrupt, frozenset({"call", "c_return"})),
}
# One moment nobody can guard: the block is over, and `__exit__` has not begun.
_UNGUARDED = "__exit__"


class Outcome(NamedTuple):
    """How a disturbed run ended: what it returned or raised, and what it left behind."""

    returned: Any
    raised: str
    left: list[str]
    again: Any  # what the program gives afterwards, or how it fails
    where: str


def _asks_for_memory(function: Any) -> bool:
    """Whether a C function is one of NumPy's, which make arrays."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, numpy.ndarray | numpy.ufunc) or "numpy" in (function.__module__ or "")


@contextmanager
def disturbed(kind: Kind, at: int | None) -> Iterator[list[Any]]:
    """Raise at the `at`-th step of ours, or never; gives the number of steps, and where it was."""
    count: list[Any] = [0, ""]

    def step(frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if (
            event in kind.events
            and (kind.error is not MemoryError or _asks_for_memory(arg))
            and code.co_filename.startswith(_OURS)
            and not (event == "call" and code.co_name == _UNGUARDED)
        ):
            count[0] += 1
            if count[0] == at:
                count[1] = f"{code.co_filename}:{frame.f_lineno}"
                sys.setprofile(None)
                raise kind.error(f"put in at step {at}")

    sys.setprofile(step)
    try:
        yield count
    finally:
        sys.setprofile(None)


def steps_of(name: str, kind: str) -> int:
    """How many steps a run of a program has."""
    with disturbed(KINDS[kind], None) as count:
        WORKS[name]()
    return int(count[0])


def attempt(name: str, kind: str, at: int) -> Outcome:
    """Run a program with one fault, then without."""
    before = state()
    returned, raised = None, ""
    try:
        with disturbed(KINDS[kind], at) as steps:
            returned = WORKS[name]()
    except (Exception, KeyboardInterrupt) as error:
        raised = type(error).__name__
    left = changed(before, state())
    try:
        again = WORKS[name]()
    except Exception as error:
        again = f"{type(error).__name__}: {error}"
    return Outcome(returned, raised, left, again, steps[1])


def judged(name: str, outcome: Outcome, expected: Any) -> str | None:
    """What is wrong with an outcome; None if nothing is."""
    if outcome.left:
        return f"{name}: left behind {', '.join(one.partition(':')[0] for one in outcome.left)}"
    if not outcome.raised and outcome.returned != expected:
        return f"{name}: swallowed the fault and returned other numbers"
    if outcome.again != expected:
        said = outcome.again if isinstance(outcome.again, str) else "other numbers"
        return f"{name}: afterwards {said}"
    return None


def _in_a_fork(task: Callable[[], Any]) -> Any:
    """What a task gives in a child process; the text 'stuck' or 'died' if it gives nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(task(), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    content, end = b"", time.monotonic() + STUCK
    with os.fdopen(reading, "rb") as pipe:
        while select.select([pipe], [], [], max(end - time.monotonic(), 0))[0]:
            if not (more := os.read(pipe.fileno(), 1 << 20)):
                break
            content += more
        else:
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if time.monotonic() > end:
        return "stuck"
    return pickle.loads(content) if content else "died"


def _tried(report: Report, name: str, kind: str, at: int, warmth: str, expected: Any) -> None:
    place = f"{kind} at step {at} of {name}, {warmth}"
    outcome = _in_a_fork(lambda: attempt(name, kind, at))
    if isinstance(outcome, str):
        report.found(f"{name}: {outcome}", place)
        return
    report.counts[f"{kind}, {warmth}"] += 1
    report.counts["swallowed, right all the same"] += not outcome.raised
    if wrong := judged(name, outcome, expected):
        report.found(wrong, f"{place} ({outcome.where})")


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Steps of all programs in an order that the seed shuffles, until the time is over."""
    report = Report("faults", seed)
    if not hasattr(os, "fork"):
        report.counts["this system has no fork: nothing tried"] = 1
        return report
    draw = random.Random(seed)
    with warnings.catch_warnings(), _silent_finalizers():
        warnings.simplefilter("ignore")
        # A cold run loads what it uses, which takes a hundred times as long.
        _round(report, draw, "cold", time.monotonic() + seconds / 2, calls and max(calls // 20, 1))
        for work in WORKS.values():
            work()
            work()
        _round(report, draw, "warm", time.monotonic() + seconds / 2, calls)
    return report


def _round(report: Report, draw: random.Random, warmth: str, end: float, calls: int | None) -> None:
    """Faults of one warmth: that of this process."""
    pairs = [(name, kind) for name in WORKS for kind in KINDS]
    draw.shuffle(pairs)
    expected: dict[str, Any] = {}
    places: list[tuple[str, str, int]] = []
    for name, kind in pairs[:calls]:
        if name not in expected:
            expected[name] = _in_a_fork(WORKS[name])
        count = _in_a_fork(partial(steps_of, name, kind))
        places += [(name, kind, at) for at in range(1, count + 1)]
    report.counts[f"steps, {warmth}"] = len(places)
    draw.shuffle(places)
    for name, kind, at in places[:calls]:
        if time.monotonic() > end:
            break
        _tried(report, name, kind, at, warmth, expected[name])


@contextmanager
def _silent_finalizers() -> Iterator[None]:
    """A fault inside a finalizer has nobody to go to, and Python would print it."""
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        yield
    finally:
        sys.unraisablehook = before
