"""Compiled functions and backward passes against eager, at sizes and numbers that are rounded.

A case rounds a size or a number, and does something with what comes out: it scales, slices, cuts,
pads, decides. Or it calls an operator that rounds by itself. It stands in a function, or in what
runs when the backward pass arrives, and runs compiled at sizes small and large, near the multiples
at which a rounding jumps. Results and gradients must be eager's, or eager's kind of error.
"""

from __future__ import annotations

import contextlib
import random
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
from pullback._dynamo import compiled_autograd as whole_passes

import pullback as torch
from pullback.compiled.backends import is_available
from pullback.compiled.backward.takeover import compiled_autograd
from pullback.compiled.counting import counters
from stress.report import Report
from stress.roundings import ALIKE, FREE, OPERATORS, PLACES, ROUNDINGS, SOURCES

BACKENDS = ("eager", "eager", "python", "llvm") if is_available() else ("eager", "python")
NEAR = (1, 2, 3, 7, 16, 31, 32, 33, 63, 64, 65, 70, 80, 90, 99, 100, 101, 127, 128, 129, 150, 199,
        200, 201, 256, 299, 300, 517, 640, 1000)  # fmt: skip

WAYS = ("compiled", "compiled", "compiled", "compiled for all sizes", "pass", "pass for all sizes",
        "whole pass", "whole pass by changes")  # fmt: skip


class Case(NamedTuple):
    """A function, how it is compiled and what it is called with."""

    result: str
    place: str
    way: str
    backend: str
    calls: tuple[tuple[int, int], ...]
    grad: bool

    @property
    def text(self) -> str:
        """The function."""
        lines = PLACES[self.place].replace("{r}", self.result).splitlines()
        return "def f(x, k):\n" + "".join(f"    {line}\n" for line in lines)

    def shown(self) -> str:
        """The case to read."""
        return f"{self.text}# {self.way}, {self.backend}, grad={self.grad}: {self.calls}"


def drawn(luck: random.Random) -> Case:
    """A case by chance."""
    way = luck.choice(WAYS)
    if luck.random() < 0.35:
        result = luck.choice(OPERATORS)
    else:
        number = luck.choice(ROUNDINGS).replace("{n}", f"({luck.choice(SOURCES)})")
        result = luck.choice(ALIKE if luck.random() < 0.6 else FREE).replace("{n}", f"({number})")
    place = "plainly" if luck.random() < 0.3 else luck.choice(list(PLACES))
    grad = way not in WAYS[:4] or luck.random() < 0.5
    pool = [luck.choice(NEAR) for _ in range(6)]
    if luck.random() < 0.7:  # alike at first, so that a family is made before anything jumps
        start = luck.choice((3, 33, 65, 70, 101, 130))
        pool = [start, start + 5, start + 9, start + luck.randrange(24), *pool]
    numbers = luck.choice(([4], [4, 5, 9, 64, 100, 517, 2], [70, 80, 90, 99, 100, 200, 300]))
    calls = tuple((size, numbers[n % len(numbers)]) for n, size in enumerate(pool))
    return Case(result, place, way, luck.choice(BACKENDS), calls, grad)


def outcomes(case: Case, *, compiled: bool) -> list[Any]:
    """What each call gives: results and gradients as arrays, or a kind of error."""
    import math
    import operator

    state = {"k": 0}
    scope = {"torch": torch, "F": torch.nn.functional, "math": math, "STATE": state,
             "operator": operator}  # fmt: skip
    exec(compile(case.text, "<sizes>", "exec"), scope)
    function: Any = scope["f"]
    around: Callable[[], Any] = contextlib.nullcontext
    if compiled and case.way.startswith("compiled"):
        dynamic = True if case.way.endswith("sizes") else None
        function = torch.compile(function, backend=case.backend, dynamic=dynamic)
    elif compiled and case.way.startswith("pass"):
        dynamic = True if case.way.endswith("sizes") else None
        backend = "python" if case.backend == "eager" else case.backend
        around = lambda: compiled_autograd(backend, dynamic, "silent")  # noqa: E731
    elif compiled:
        dynamic = not case.way.endswith("changes")
        own = lambda module: module  # noqa: E731
        around = lambda: whole_passes._enable(own, dynamic=dynamic)  # noqa: E731
    found = []
    for size, number in case.calls:
        state["k"] = number
        x = torch.linspace(0.1, 3.0, size, requires_grad=case.grad)
        try:
            found.append(_called(function, x, number, around))
        except Exception as error:
            found.append(type(error).__name__)
    return found


def _called(function: Any, x: Any, number: int, around: Callable[[], Any]) -> Any:
    made = function(x, number)
    listed = list(made) if isinstance(made, tuple) else [made]
    if x.requires_grad:
        with around():
            sum((one.sum() for one in listed if one.requires_grad), x.sum()).backward()
        listed.append(x.grad)
    return [one.detach().numpy().copy() for one in listed]


def difference(ours: Any, eager: Any) -> str | None:
    """In what two calls differ."""
    if isinstance(ours, str) or isinstance(eager, str):
        return None if ours is eager or ours == eager else f"{_kind(ours)} and not {_kind(eager)}"
    for a, b in zip(ours, eager, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return "another shape"
        scale = float(numpy.abs(b[numpy.isfinite(b)]).max(initial=1)) if b.size else 1.0
        if not numpy.allclose(a, b, 1e-4, 1e-5 * scale, equal_nan=True):
            return "other values"
    return None


def _kind(outcome: Any) -> str:
    return outcome if isinstance(outcome, str) else "a result"


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Cases by chance for as long as there is time."""
    report = Report("sizes", seed)
    end = time.monotonic() + seconds
    number = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while time.monotonic() < end and (calls is None or number < calls):
            case = drawn(random.Random(f"{seed}:{number}"))
            torch._dynamo.reset()  # which forgets its counts too
            whole_passes.reset()
            ours, eager = outcomes(case, compiled=True), outcomes(case, compiled=False)
            report.counts["cases"] += 1
            report.counts["calls"] += len(ours)
            report.counts["calls that eager refuses"] += sum(isinstance(a, str) for a in eager)
            report.counts[case.way] += 1
            report.counts["families"] += counters["compile"]["families"]
            for at, pair in enumerate(zip(ours, eager, strict=True)):
                what = difference(*pair)
                if what is not None:
                    report.found(
                        f"{case.way}: {what}: {case.result}",
                        f"{case.shown()}  # call {at}, case {number}",
                    )
                    break
            number += 1
    return report
