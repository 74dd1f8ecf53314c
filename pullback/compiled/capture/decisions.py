"""Decisions by values: what a captured function asks of its own tensors while it runs.

`if loss > 1`, `int(n)`, an argument check of a distribution: the answer decides what the function
does next, so the capture computes it, goes on with it and writes it down. A call of the program
computes those values first, by a program of their own; another answer is another branch, and that
has a program of its own. What was computed for the answers is handed to the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.steps import Call, Value, live
from pullback.core.mode import current, get_mode
from pullback.operators.random.generator import default_generator

if TYPE_CHECKING:
    from pullback.compiled.capture.capture import Captured

__all__ = ["Answers", "parted"]

_MOST = 64  # decisions of one capture


class Answers:
    """Computes values while a capture runs, as eager does."""

    def __init__(self, known: dict[int, Any]) -> None:
        """`known`: real arrays by number of the value, filled as tensors are found."""
        self.known = known
        # Captures draw too, for the shapes of results: what decides has the caller's numbers.
        self.stream = default_generator.get_state()
        self.checks: list[tuple[int, Value, Any]] = []  # calls before it, value, answer

    def of(self, tracer: Any, value: Value, why: str) -> Any:
        """The array of a value that decides; floats do not, two programs round them otherwise."""
        if value.dtype.kind not in "biu" or value.bytes > value.dtype.itemsize:
            raise CannotCapture(why)
        if len(self.checks) >= _MOST:
            raise CannotCapture(f"more than {_MOST} decisions by values")
        mode = get_mode()
        try:
            current.set(tracer.interpreter.real_mode)  # in which nothing is traced
            answer = self._computed(tracer, value)
        finally:
            current.set(mode)
        self.checks.append((len(tracer.calls), value, answer.item()))
        return answer

    def _computed(self, tracer: Any, value: Value) -> Any:
        for array, _, one in tracer.constants.values():
            self.known.setdefault(one.number, array)
        # Those that draw random numbers too, in their order, as a program will draw them.
        calls = live(tracer.calls, [value])
        if any(call.random and call.kwargs.get("generator") is not None for call in calls):
            raise CannotCapture("a decision after numbers of a generator of one's own")
        draws = any(call.random for call in calls)
        before = default_generator.get_state() if draws else None
        if draws:
            default_generator.set_state(self.stream)
        for call in calls:
            if call.results[0].number not in self.known:
                made = call.run(self.known)
                self.known.update(zip([one.number for one in call.results], made, strict=True))
        if before is not None:
            self.stream = default_generator.get_state()
            default_generator.set_state(before)
        return numpy.asarray(self.known[value.number])


def parted(captured: Captured) -> tuple[list[Call], list[Value], Captured]:
    """The calls that decide, what the rest takes over from them, and the rest as a capture."""
    from pullback.compiled.capture.capture import Input

    last = captured.checks[-1][0]
    first = live(captured.calls[:last], [value for _, value, _ in captured.checks])
    early = set(map(id, first))
    made = {one.number: one for call in first for one in call.results}
    rest = [call for call in captured.calls if id(call) not in early]
    forward = sum(id(call) not in early for call in captured.calls[: captured.forward])
    read = {one.number for call in rest for one in call.inputs}
    read |= {one.value.number for one in captured.outputs if one.kind == "value"}
    read |= {value.number for _, value in (*captured.writes, *captured.gradients)}
    read |= {value.number for _, value in captured.stores if value is not None}
    taken = [made[number] for number in sorted(read & made.keys())]
    inputs = [*captured.inputs, *(Input("early", value, n) for n, value in enumerate(taken))]
    return first, taken, replace(captured, calls=rest, forward=forward, inputs=inputs)
