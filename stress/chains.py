"""Faults one after another in one process: every step of a cold run, without a cold run for each.

A fault at a step ends a program's run. The next run finds loaded what the last had finished, comes
to the step after and gets a fault there; and so on, until no step is left and the numbers come out.
What a fault breaks shows at once, as an error that nobody put in, or at the end. A fork for each
step would load again all that the program uses: 50 to 400 ms, where a turn of a chain takes five.

A step is known by the functions that it is inside of, each with its line, and by how often it came
in this run. Where a fault lets the next run leave something out, steps are counted otherwise than
without it: what was missed so is for another chain, in another process.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple

from stress import forks
from stress.state import changed, state
from stress.stepping import KINDS, Kind, is_ours, is_step, where
from stress.works import WORKS

Step = tuple[int, int]  # which, and the how-many-th of its run
Act = Callable[[Step, FrameType], None]


class Watch:
    """Tells `act` of the steps of a run; where `act` raised, it goes on once that was handled."""

    def __init__(self, kind: Kind, act: Act) -> None:
        self._layout, self._act = kind, act
        self._seen: Counter[int] = Counter()
        self._root: FrameType | None = None  # whose calls are the outermost that count

    @contextmanager
    def on(self) -> Iterator[None]:
        """Watch the calls that the block makes."""
        self._root = sys._getframe(2)
        sys.setprofile(self._hook([0]))
        try:
            yield
        finally:
            sys.settrace(None)
            sys.setprofile(None)

    def _hook(self, inside: list[int]) -> Callable[[FrameType, str, Any], None]:
        """A function for `setprofile`; `inside` has a number for each function that runs."""
        kind, seen, act = self._layout, self._seen, self._act

        def step(frame: FrameType, event: str, arg: Any) -> None:
            if event == "call":
                inside.append(self._inner(inside, frame))
            elif event == "return":
                if len(inside) > 1:
                    inside.pop()
                return
            if is_step(kind, frame, event, arg):
                name = "" if event == "call" else arg.__name__
                place = hash((inside[-1], frame.f_lineno, name))
                seen[place] += 1
                act((place, seen[place]), frame)

        return step

    @staticmethod
    def _inner(inside: list[int], frame: FrameType) -> int:
        """The number of a function's frame inside of others."""
        code: CodeType = frame.f_code
        line = frame.f_back.f_lineno if frame.f_back and len(inside) > 1 else 0
        return hash((inside[-1], line, code.co_filename, code.co_firstlineno))

    def resume_after(self, fault: BaseException) -> None:
        """Go on at the next call after this error is handled: Python ends the hook that raises."""

        def resume(frame: FrameType, event: str, arg: Any) -> None:
            if _is_handled(fault):
                return
            sys.settrace(None)
            frames = []
            at = frame.f_back  # the hook is told of this very call next
            while at is not None and at is not self._root:
                frames.append(at)
                at = at.f_back
            inside = [0]
            for one in reversed(frames):
                inside.append(self._inner(inside, one))
            sys.setprofile(self._hook(inside))

        sys.settrace(resume)


def _is_handled(fault: BaseException) -> bool:
    """Whether what runs now is a handler of this error, or of one that came of it."""
    at = sys.exc_info()[1]
    while at is not None and at is not fault:
        at = at.__context__
    return at is fault


_DEPTH = 4  # functions of a place: with all of them, nearly every step would be one of its own


def steps_of(name: str, kind: str) -> dict[Step, int]:
    """The steps of a run of a program, in this process, with the place of each.

    A place is a line with its callers. Programs have many in common.
    """
    found: dict[Step, int] = {}

    def note(step: Step, frame: FrameType) -> None:
        place: list[tuple[str, int]] = []
        at: FrameType | None = frame
        while at is not None and len(place) < _DEPTH:
            if is_ours(at.f_code):
                place.append((at.f_code.co_filename, at.f_lineno))
            at = at.f_back
        found[step] = hash(tuple(place))

    with Watch(KINDS[kind], note).on():
        WORKS[name]()
    return found


class Chain(NamedTuple):
    """What came of a chain: the steps tried, what went wrong at last, and how it went."""

    tried: list[Step]
    wrong: str | None
    where: list[str]  # the last faults before it
    swallowed: int
    complete: bool  # the last run met no target


class _Stuck(BaseException):
    """A run that takes longer than any should."""


def _stop(*_: Any) -> None:
    raise _Stuck


def chain(name: str, kind: str, targets: set[Step], expected: Any, end: float) -> Chain:
    """Run a program with a fault at the first of the targets it meets, again and again."""
    left = set(targets)
    tried: list[Step] = []
    places: list[str] = []
    swallowed = 0

    def act(step: Step, frame: FrameType) -> None:
        if step in left:
            left.discard(step)
            tried.append(step)
            places.append(where(frame))
            fault = KINDS[kind].error("put in")
            watch.resume_after(fault)
            raise fault

    signal.signal(signal.SIGALRM, _stop)
    while time.monotonic() < end:
        before, known = state(), len(tried)
        watch = Watch(KINDS[kind], act)
        signal.setitimer(signal.ITIMER_REAL, forks.STUCK)
        returned, raised = None, ""
        try:
            with watch.on():
                returned = WORKS[name]()
        except (Exception, KeyboardInterrupt) as error:
            raised = f"{type(error).__name__}: {error}"
        except _Stuck:
            return Chain(tried, f"{name}: stuck", places[-3:], swallowed, complete=False)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        faults = len(tried) - known
        wrong = _judged(name, changed(before, state()), raised, faults, returned == expected)
        if wrong:
            return Chain(tried, wrong, places[-3:], swallowed, complete=False)
        swallowed += faults - bool(raised)
        if not faults:
            return Chain(tried, None, [], swallowed, complete=True)
    return Chain(tried, None, [], swallowed, complete=False)


def _judged(name: str, left: list[str], raised: str, faults: int, is_right: bool) -> str | None:
    """What is wrong with a run that had so many faults; None if nothing is."""
    if left:
        return f"{name}: left behind {', '.join(one.partition(':')[0] for one in left)}"
    if raised and not faults:
        return f"{name}: afterwards {raised}"
    if not raised and not is_right:
        return (
            f"{name}: {'swallowed a fault and returned' if faults else 'afterwards'} other numbers"
        )
    return None
