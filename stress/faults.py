"""Faults at every step of a program: nothing wrong is returned, nothing is stuck, no state stays.

Afterwards the modes must be those of before, and the program must give its numbers again. Warm, in
a process that has run the program before, each fault has a fork, made at its step of a run that
goes on without it. Cold, in one that has used nothing yet, faults come one after another in few
forks (`chains.py`). What a step is says `stepping.py`.

A minute or two reaches every step of the warm programs; the cold ones take one or two hours.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import time
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

from stress import chains
from stress.forks import STUCK, answer, in_a_fork
from stress.report import Report
from stress.state import changed, state
from stress.stepping import KINDS, stepping, where
from stress.works import WORKS

Act = Callable[[int, FrameType], None]


class Outcome(NamedTuple):
    """How a disturbed run ended: what it returned or raised, and what it left behind."""

    returned: Any
    raised: str
    left: list[str]
    again: Any  # what the program gives afterwards, or how it fails
    where: str


def steps_of(name: str, kind: str) -> int:
    """How many steps a run of a program has."""
    count = 0

    def note(number: int, frame: FrameType) -> None:
        nonlocal count
        count = number

    with stepping(KINDS[kind], note):
        WORKS[name]()
    return count


def _run(name: str, kind: str, act: Act, place: Callable[[], str]) -> Outcome:
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
        again: Any = WORKS[name]()
    except Exception as error:
        again = f"{type(error).__name__}: {error}"
    return Outcome(returned, raised, left, again, place())


def _raise(kind: str, number: int) -> None:
    sys.setprofile(None)
    raise KINDS[kind].error(f"put in at step {number}")


def attempt(name: str, kind: str, at: int) -> Outcome:
    """Run a program with one fault, then without, in this process."""
    places: list[str] = [""]

    def act(number: int, frame: FrameType) -> None:
        if number == at:
            places.append(where(frame))
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
    mouth: int | None = None  # where a child writes
    at, place = 0, ""

    def act(number: int, frame: FrameType) -> None:
        nonlocal mouth, at, place
        if number not in chosen or time.monotonic() > end:
            return
        at, place = number, where(frame)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            mouth = writing
            _raise(kind, number)
        os.close(writing)
        told = answer(child, reading)
        if isinstance(told, str):
            told = Tried(at, f"{name}: {told}", place, swallowed=False)
        tried.append(told)

    try:
        outcome = _run(name, kind, act, lambda: place)
        if mouth is not None:
            wrong = judged(name, outcome, expected)
            with os.fdopen(mouth, "wb") as pipe:
                pickle.dump(Tried(at, wrong, place, not outcome.raised), pipe)
    finally:
        if mouth is not None:
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


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Steps of all programs, as many as the time allows, in an order that the seed shuffles."""
    report = Report("faults", seed)
    if not hasattr(os, "fork"):
        report.counts["this system has no fork: nothing tried"] = 1
        return report
    draw = random.Random(seed)
    with warnings.catch_warnings(), silent_finalizers():
        warnings.simplefilter("ignore")
        _cold(report, draw, time.monotonic() + seconds / 2, calls and max(calls // 20, 1))
        for work in WORKS.values():
            work()
            work()
        _warm(report, draw, time.monotonic() + seconds / 2, calls)
    return report


def _shares(draw: random.Random, end: float, calls: int | None) -> Iterator[tuple[str, str, float]]:
    """Programs and kinds in some order, each with the end of its share of the time."""
    pairs = [(name, kind) for name in WORKS for kind in KINDS]
    draw.shuffle(pairs)
    pairs = pairs[:calls]
    for done, (name, kind) in enumerate(pairs):
        now = time.monotonic()
        if now > end:
            break
        yield name, kind, now + (end - now) / (len(pairs) - done)


_TURN = 0.006  # seconds of a fault in a chain, about


def _cold(report: Report, draw: random.Random, end: float, calls: int | None) -> None:
    """Chains of faults for each program and kind, until every step was tried or its time is over.

    Places that no other program had go first. If the time is too short for all steps, those that
    are tried are drawn.
    """
    taken: dict[str, set[int]] = {kind: set() for kind in KINDS}
    known: dict[str, set[int]] = {kind: set() for kind in KINDS}
    for name, kind, share in _shares(draw, end, calls):
        expected = in_a_fork(WORKS[name])
        places = in_a_fork(partial(chains.steps_of, name, kind))
        fit = int(max(share - time.monotonic(), 0) / _TURN) + 1
        if calls is not None:
            fit = min(fit, -(-calls // len(WORKS) // len(KINDS)))
        new, rest = _new_places(places, taken[kind], draw)
        chosen = [set(new[:fit]), set(rest[: max(fit - len(new), 0)])]
        tried = _chained(report, name, kind, chosen, expected, share)
        known[kind].update(places.values())
        taken[kind].update(places[step] for step in tried)
        report.counts["steps, cold"] += len(places)
    report.counts["places, cold"] = sum(map(len, known.values()))
    report.counts["places tried, cold"] = sum(map(len, taken.values()))


def _new_places(
    places: dict[chains.Step, int], taken: set[int], draw: random.Random
) -> tuple[list[chains.Step], list[chains.Step]]:
    """A step for each place that was not taken, and the other steps; both in some order."""
    steps = list(places)
    draw.shuffle(steps)
    of_place = {places[step]: step for step in steps if places[step] not in taken}
    new = list(of_place.values())
    return new, list(places.keys() - set(new))


def _chained(
    report: Report,
    name: str,
    kind: str,
    chosen: list[set[chains.Step]],
    expected: Any,
    end: float,
) -> list[chains.Step]:
    """Put faults in at the chosen steps, the first set of them first; those that were tried."""
    tried: list[chains.Step] = []
    for targets in chosen:
        while targets and time.monotonic() < end:
            # One chain is not given all the time: what a stuck one tried is lost with it.
            turn_end = min(end, time.monotonic() + 60)
            task = partial(chains.chain, name, kind, targets, expected, turn_end)
            told = in_a_fork(task, turn_end - time.monotonic() + 2 * STUCK)
            if isinstance(told, str):
                report.found(f"{name}: {told}", f"{kind}, cold: a chain of faults")
                break
            report.counts[f"{kind}, cold"] += len(told.tried)
            report.counts["swallowed, right all the same"] += told.swallowed
            if told.wrong:
                report.found(told.wrong, f"{kind}, cold, after faults at {', '.join(told.where)}")
            if not told.tried:
                break
            targets.difference_update(told.tried)
            tried += told.tried
    return tried


def _warm(report: Report, draw: random.Random, end: float, calls: int | None) -> None:
    """Faults at steps of programs that this process has run before, each in a fork."""
    for name, kind, share in _shares(draw, end, calls):
        began = time.monotonic()
        expected = in_a_fork(WORKS[name])
        fit = int((share - began) / (time.monotonic() - began)) + 1  # a fault takes less than that
        steps = in_a_fork(partial(steps_of, name, kind))
        if calls is not None:
            fit = min(fit, -(-calls // len(WORKS) // len(KINDS)))
        chosen = set(draw.sample(range(1, steps + 1), min(fit, steps)))
        report.counts["steps, warm"] += steps
        _swept(report, name, kind, chosen, expected, share)


def _swept(
    report: Report, name: str, kind: str, chosen: set[int], expected: Any, end: float
) -> None:
    """Put faults in at the chosen steps of one program, and note what went wrong."""
    task = partial(sweep, name, kind, chosen, expected, end)
    tried = in_a_fork(task, end - time.monotonic() + 2 * STUCK)
    if isinstance(tried, str):
        report.found(f"{name}: {tried}", f"{kind}, warm: the run without a fault")
        return
    for one in tried:
        report.counts[f"{kind}, warm"] += 1
        report.counts["swallowed, right all the same"] += one.swallowed and not one.wrong
        if one.wrong:
            report.found(one.wrong, f"{kind} at step {one.at} of {name}, warm ({one.where})")


@contextmanager
def silent_finalizers() -> Iterator[None]:
    """A fault inside a finalizer has nobody to go to, and Python would print it."""
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        yield
    finally:
        sys.unraisablehook = before
