"""Whether a program pays: it and the function are timed beside each other in its first calls.

A call that reads and changes nothing else runs twice, so the choice is made before its first result
is handed out: equal calls give equal bits. Others (in parts, with writes, effects, random numbers,
decisions) happen once: some of the first calls run as the program, some as the function, and then
the choice is made and kept. Calls that record gradients are not weighed, unless they use them up
themselves: half of their work comes later. `options={"never_slower": False}` takes every program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pullback.compiled.counting import counters
from pullback.compiled.parts.tree import Broken
from pullback.core.tensor import Tensor
from pullback.core.writer import define_once

__all__ = ["Weighing", "exact_outline", "is_slower", "may_be_tried", "must_be_weighed",
           "outline_test"]  # fmt: skip

_TURNS = 5
_MOST_WAITED = 20
_LONG = 1_000_000  # ns, from which on one turn must do
_FEW_CALLS = 8  # native programs of more operators always pay
_MARGIN = 1.0
_BY_VALUE = frozenset({bool, int, float, str, bytes, type(None)})


def exact_outline(args: Any) -> tuple[Any, ...] | None:
    """Sizes, dtypes and plain values of arguments; None where there is more to them."""
    made: list[Any] = []
    for one in args:
        if one.__class__ in _BY_VALUE:
            made.append((one.__class__, one))
        elif isinstance(one, Tensor):
            array = one._array
            made.append((array.shape, array.dtype, array.strides))
        else:
            return None
    return tuple(made)


def outline_test(outline: tuple[Any, ...]) -> Callable[[Any], bool]:
    """Whether arguments have an outline, asked in a third of the time that it takes to make one."""
    scope: dict[str, Any] = {"Tensor": Tensor}
    asked = [f"len(args) == {len(outline)}"]
    for place, one in enumerate(outline):
        scope[f"o{place}"] = one
        if len(one) == 2:  # a class and a value
            scope[f"c{place}"], scope[f"o{place}"] = one
            asked.append(f"(a := args[{place}]).__class__ is c{place} and a == o{place}")
            continue
        scope[f"s{place}"], scope[f"d{place}"], scope[f"t{place}"] = one
        asked.append(f"isinstance(args[{place}], Tensor) and (a := args[{place}]._array).shape == "
                     f"s{place} and ((d := a.dtype) is d{place} or d == d{place}) and "
                     f"a.strides == t{place}")  # fmt: skip
    text = f"def fits(args):\n    return {' and '.join(asked)}\n"
    made: Callable[[Any], bool] = define_once(text, scope, "outline", "fits")
    return made


def may_be_tried(entry: Any) -> bool:
    """Whether a call can run twice, and may be slower as a program."""
    captured = entry.captured
    if captured.tangents or captured.writes or captured.stores or entry.checks:
        return False
    if captured.effects is not None or captured.home is not captured.mode:
        return False
    if entry.library is not None or captured.is_spent or entry.shared is not None:
        return False
    if captured.effects is not None or captured.reached is not None or captured.numbers is not None:
        return False
    if isinstance(captured.tree, Broken):  # what comes behind this part may do anything
        return False
    if any(call.random for call in captured.calls):
        return False
    program = entry._program("plain")[0]
    return not getattr(program, "is_native", False) or len(captured.calls) <= _FEW_CALLS


def must_be_weighed(entry: Any, *, passes: bool) -> bool:
    """Whether a call cannot run twice, and may be slower as a program.

    `passes`: whether backward passes between its parts use what they record.
    """
    captured = entry.captured
    if (captured.tangents and not passes) or entry.library is not None or entry.shared is not None:
        return False
    if isinstance(captured.tree, Broken) or entry.checks or captured.reached is not None:
        return True
    program = entry._program("plain")[0]
    return not getattr(program, "is_native", False) or len(captured.calls) <= _FEW_CALLS


class Weighing:
    """Times of the first calls of one entry: some as the program, then some as the function."""

    def __init__(self) -> None:
        self._ours: list[int] = []
        self._theirs: list[int] = []
        self._waited = 0  # calls that were not timed

    @property
    def wants_program(self) -> bool:
        """Which of the two the next call is to be."""
        return len(self._ours) < _TURNS

    @property
    def is_over(self) -> bool:
        """Whether enough calls were timed."""
        return len(self._theirs) >= _TURNS

    def timed(self, run: Callable[[], Any]) -> Any:
        """What a call gives; its time is noted."""
        times = self._ours if self.wants_program else self._theirs
        captured, start = counters["compile"]["captures"], _now()
        made = run()
        taken = _now() - start
        if counters["compile"]["captures"] == captured or self._waited > _MOST_WAITED:
            times.append(taken)
        else:  # a part behind was made in it
            self._waited += 1
        return made

    def reason(self) -> str | None:
        """That the program takes longer, told with both times; else None."""
        return _told(min(self._ours), min(self._theirs))


def is_slower(run: Callable[[], Any], eager: Callable[[], Any]) -> str | None:
    """That a program takes longer than the function does, told with both times; else None."""
    ours = theirs = 0
    for turn in range(_TURNS):
        found = [_taken(one) for one in (run, eager)]
        if not turn or found[0] < ours:
            ours = found[0]
        if not turn or found[1] < theirs:
            theirs = found[1]
        if theirs > _LONG:
            break
    return _told(ours, theirs)


def _told(ours: int, theirs: int) -> str | None:
    if ours <= theirs * _MARGIN:
        return None
    return f"the program takes {ours / 1000:.1f} us, eager {theirs / 1000:.1f}"


def _taken(run: Callable[[], Any]) -> int:
    start = _now()
    run()
    return _now() - start


def _now() -> int:
    """This thread's time; where threads have none, as in a browser, that of the clock."""
    read = getattr(time, "thread_time_ns", None) or time.perf_counter_ns
    return read()
