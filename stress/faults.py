"""Faults at every step of a program: nothing wrong is returned, nothing is stuck, no state stays.

A step is a call of a function of pullback's, or one that it makes of C. At the n-th step an error,
a lack of memory or an interrupt is raised, each where Python can meet it: an interrupt comes at the
start of a function and after a call of C, never between two lines. Afterwards the modes must be
those of before, and the program must give its numbers again. Each in a fork, made at that step of a
run that goes on without the fault: cold, in a process that has used nothing yet, and warm, in one
that has run the program before.

Warm, a minute or two reaches every step. Cold, steps are many and the run afterwards loads all that
is missing: places that were not tried yet go first, where a place is a line with its callers.
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
from collections import Counter
from collections.abc import Callable, Container, Iterator
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


Place = tuple[tuple[str, int], ...]  # the innermost functions of ours, and the lines they are at
Act = Callable[[int, FrameType], None]
_DEPTH = 4  # functions of a place: with all of them, nearly every step would be one of its own


def _asks_for_memory(function: Any) -> bool:
    """Whether a C function is one of NumPy's, which make arrays."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, numpy.ndarray | numpy.ufunc) or "numpy" in (function.__module__ or "")


@contextmanager
def stepping(kind: Kind, act: Act) -> Iterator[None]:
    """Call `act` with the number and the frame of each step of ours; it may raise there."""
    count = 0

    def step(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        code = frame.f_code
        if (
            event in kind.events
            and (kind.error is not MemoryError or _asks_for_memory(arg))
            and code.co_filename.startswith(_OURS)
            and not (event == "call" and code.co_name == _UNGUARDED)
        ):
            count += 1
            act(count, frame)

    sys.setprofile(step)
    try:
        yield
    finally:
        sys.setprofile(None)


def places_of(name: str, kind: str) -> list[Place]:
    """Where each step of a run of a program is."""
    found: list[Place] = []

    def note(number: int, frame: FrameType) -> None:
        place: list[tuple[str, int]] = []
        at: FrameType | None = frame
        while at is not None and len(place) < _DEPTH:
            if at.f_code.co_filename.startswith(_OURS):
                place.append((at.f_code.co_filename, at.f_lineno))
            at = at.f_back
        found.append(tuple(place))

    with stepping(KINDS[kind], note):
        WORKS[name]()
    return found


def _run(name: str, kind: str, act: Act, where: Callable[[], str]) -> Outcome:
    """Run a program that `act` may disturb, then again without."""
    before = state()
    returned, raised = None, ""
    try:
        with stepping(KINDS[kind], act):
            returned = WORKS[name]()
    except (Exception, KeyboardInterrupt) as error:
        raised = type(error).__name__
    left = changed(before, state())
    try:
        again = WORKS[name]()
    except Exception as error:
        again = f"{type(error).__name__}: {error}"
    return Outcome(returned, raised, left, again, where())


def _raise(kind: str, number: int) -> None:
    sys.setprofile(None)
    raise KINDS[kind].error(f"put in at step {number}")


def attempt(name: str, kind: str, at: int) -> Outcome:
    """Run a program with one fault, then without, in this process."""
    places: list[str] = [""]

    def act(number: int, frame: FrameType) -> None:
        if number == at:
            places.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
            _raise(kind, number)

    return _run(name, kind, act, lambda: places[-1])


class Tried(NamedTuple):
    """One fault: at which step, what was wrong with the outcome, and whether it was swallowed."""

    at: int
    wrong: str | None
    where: str
    swallowed: bool


def sweep(name: str, kind: str, chosen: Container[int], expected: Any, end: float) -> list[Tried]:
    """Run a program once; at each chosen step a child gets the fault, and tells how it ended."""
    tried: list[Tried] = []
    answer: int | None = None  # where a child writes
    at, place = 0, ""

    def act(number: int, frame: FrameType) -> None:
        nonlocal answer, at, place
        if number not in chosen or time.monotonic() > end:
            return
        at, place = number, f"{frame.f_code.co_filename}:{frame.f_lineno}"
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            answer = writing
            _raise(kind, number)
        os.close(writing)
        told = _answer(child, reading)
        if isinstance(told, str):
            told = Tried(at, f"{name}: {told}", place, swallowed=False)
        tried.append(told)

    try:
        outcome = _run(name, kind, act, lambda: place)
        if answer is not None:
            wrong = judged(name, outcome, expected)
            with os.fdopen(answer, "wb") as pipe:
                pickle.dump(Tried(at, wrong, place, not outcome.raised), pipe)
    finally:
        if answer is not None:
            os._exit(0)
    return tried


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


def _in_a_fork(task: Callable[[], Any], seconds: float | None = None) -> Any:
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
    return _answer(child, reading, seconds)


def _answer(child: int, reading: int, seconds: float | None = None) -> Any:
    """What a child writes into its end of a pipe."""
    content, end = b"", time.monotonic() + (STUCK if seconds is None else seconds)
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


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Steps of all programs, as many as the time allows, in an order that the seed shuffles."""
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
    """Faults of one warmth, that of this process; each program and kind has its share of time."""
    pairs = [(name, kind) for name in WORKS for kind in KINDS]
    draw.shuffle(pairs)
    pairs = pairs[:calls]
    taken: dict[str, Counter[Place]] = {kind: Counter() for kind in KINDS}
    for done, (name, kind) in enumerate(pairs):
        share = (end - time.monotonic()) / (len(pairs) - done)
        if share <= 0:
            break
        began = time.monotonic()
        expected = _in_a_fork(WORKS[name])
        fit = int(share / (time.monotonic() - began)) + 1  # about what a fault takes, at most
        places = _in_a_fork(partial(places_of, name, kind))
        if calls is not None:
            fit = min(fit, -(-calls // len(pairs)))
        chosen = _first(places, fit, draw, taken[kind])
        report.counts[f"steps, {warmth}"] += len(places)
        _swept(report, name, kind, warmth, chosen, expected, time.monotonic() + share)
    report.counts[f"places, {warmth}"] = sum(map(len, taken.values()))
    report.counts[f"places tried, {warmth}"] = sum(len(+one) for one in taken.values())


def _first(places: list[Place], count: int, draw: random.Random, taken: Counter[Place]) -> set[int]:
    """Numbers of steps, those first whose place was taken the least; they are counted as taken."""
    numbers = list(range(1, len(places) + 1))
    draw.shuffle(numbers)
    turns = {}
    waiting = Counter(taken)
    for number in numbers:
        place = places[number - 1]
        turns[number] = waiting[place]
        waiting[place] += 1
    chosen = set(sorted(numbers, key=turns.__getitem__)[:count])
    for number, place in enumerate(places, 1):
        taken[place] += number in chosen  # those of the others are known too, at 0
    return chosen


def _swept(
    report: Report, name: str, kind: str, warmth: str, chosen: set[int], expected: Any, end: float
) -> None:
    """Put faults in at the chosen steps of one program, and note what went wrong."""
    task = partial(sweep, name, kind, chosen, expected, end)
    tried = _in_a_fork(task, end - time.monotonic() + 2 * STUCK)
    if isinstance(tried, str):
        report.found(f"{name}: {tried}", f"{kind}, {warmth}: the run without a fault")
        return
    for one in tried:
        report.counts[f"{kind}, {warmth}"] += 1
        report.counts["swallowed, right all the same"] += one.swallowed and not one.wrong
        if one.wrong:
            report.found(one.wrong, f"{kind} at step {one.at} of {name}, {warmth} ({one.where})")


@contextmanager
def _silent_finalizers() -> Iterator[None]:
    """A fault inside a finalizer has nobody to go to, and Python would print it."""
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        yield
    finally:
        sys.unraisablehook = before
