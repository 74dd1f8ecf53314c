"""Compiled programs against eager: random ones at several sizes, and long lives of a few.

A random program of `programs.py` is one function of its leaves; it is compiled by each back end and
must give what eager gives, for the sizes drawn and for larger ones. Then a few functions are called
a hundred thousand times: results stay right, and memory stays where it was.
"""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy

import pullback as torch
from pullback.compiled.backends import is_available
from pullback.compiled.counting import counters
from stress.programs import SINGLE, Step, drawn
from stress.report import Report

BACKENDS = ("python", "llvm") if is_available() else ("python",)
LIFE = 100_000
GROWTH = 4 << 20  # bytes that a long life may leave behind: pools of the interpreter


def function_of(steps: list[Step]) -> Callable[..., Any]:
    """The steps as a function of tensors."""
    functions = [(eval(f"lambda a, b: {step.text}", {"torch": torch}), step.uses) for step in steps]

    def program(*leaves: Any) -> Any:
        made = [leaf * 1 for leaf in leaves]
        for function, (a, b) in functions:
            made.append(function(made[a], made[b]))
        return sum((one.double() * 1).sum() for one in made), made[-1] * 1

    return program


def outcome(function: Callable[..., Any], arrays: list[Any]) -> list[Any] | None:
    """Results and gradients as arrays; None where it raises."""
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    try:
        total, last = function(*leaves)
        grads = torch.autograd.grad(total, leaves, allow_unused=True)
    except Exception:
        return None
    listed = [total.detach(), last.detach(), *grads]
    return [None if one is None else one._array for one in listed]


def grown(array: Any, by: int) -> Any:
    """The same with a longer first dimension."""
    if not array.ndim or array.shape[0] < 2:
        return array
    return numpy.concatenate([array, *[array[-1:] * (n + 0.5) for n in range(by)]]).astype(
        array.dtype
    )


def difference(ours: Any, eager: Any) -> str | None:
    """In what two outcomes differ."""
    if (ours is None) is not (eager is None):
        return "one side raises"
    for number, (a, b) in enumerate(zip(ours or (), eager or (), strict=True)):
        if (a is None) is not (b is None):
            return f"result {number} is None on one side"
        if a is None:
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {number}: {a.dtype}{a.shape} and not {b.dtype}{b.shape}"
        scale = float(numpy.abs(b[numpy.isfinite(b)]).max(initial=1)) if b.size else 1
        if not numpy.allclose(a, b, SINGLE, SINGLE * scale, equal_nan=True):
            return f"result {number}: other values"
    return None


def _jumps(step: Step) -> bool:
    """Whether the last digit of a value may decide what comes out."""
    words = (".floor", ".sign", ">", "remainder", "sort", "max", "clamp", "relu", "abs")
    return any(word in step.text for word in words)


def compare(report: Report, leaves: list[Any], steps: list[Step], number: int) -> None:
    """One program, by each back end, at three sizes."""
    function = function_of(steps)
    for backend in BACKENDS:
        compiled = torch.compile(function, backend=backend)
        for by in (0, 0, 2, 5, 11):
            arrays = [grown(array, by) for array in leaves]
            what = difference(outcome(compiled, arrays), outcome(function, arrays))
            report.counts["calls"] += 1
            if what is not None and backend == "llvm" and any(map(_jumps, steps)):
                report.counts["differ where rounding decides"] += 1
                return
            if what is not None:
                texts = ", ".join(step.text for step in steps)
                report.found(f"{backend}: {what}", f"{texts}, grown by {by}  # program {number}")
                return
        report.counts["families"] += len(compiled.families.found)


# Long lives --------------------------------------------------------------------------------------


def _lives() -> dict[str, Callable[[int], Any]]:
    """Functions of a number, each of which is one call by another way in."""
    w = torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_()
    state = torch.zeros(3)

    def loss(x: Any) -> Any:
        return ((x @ w).tanh() ** 2).sum()

    def several(x: Any) -> Any:
        return (x @ w).sin(), x.sum(0)

    def writing(x: Any) -> Any:
        state.mul_(0.5).add_(x.sum(0)[:3])
        return state * 2

    made: dict[str, Callable[[int], Any]] = {}
    for backend in BACKENDS:
        compiled = [torch.compile(one, backend=backend) for one in (loss, several, writing)]
        xs = [torch.full((n, 4), 0.1 * n) for n in (2, 3, 5, 7)]

        def step(number: int, compiled: Any = compiled, xs: Any = xs) -> Any:
            x = xs[number % len(xs)]
            w.grad = None
            compiled[0](x).backward()
            first, second = compiled[1](x)
            (first.sum() + second.sum()).backward()
            return w.grad.sum().item() + compiled[2](x).sum().item() * 0

        made[backend] = step
    return made


def resident() -> int:
    """Bytes of memory that this process holds."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0


def live(report: Report, calls: int, end: float) -> None:
    """Call for as long as there is time; results repeat, memory does not grow."""
    start = time.monotonic()
    for turn, (backend, step) in enumerate(_lives().items(), start=1):
        last = start + (end - start) * turn / len(BACKENDS)
        wanted = [step(number) for number in range(8)][4:]
        for number in range(500):
            step(number)
        before = resident()
        number = 0
        while number < calls and time.monotonic() < last:
            got = step(number)
            if abs(got - wanted[number % 4]) > SINGLE:
                report.found(f"{backend}: other results", f"call {number}: {got}")
                break
            number += 1
        report.counts[f"{backend}: calls of a life"] += number
        growth = resident() - before
        if growth > GROWTH:
            report.found(f"{backend}: memory grows", f"{growth} bytes in {number} calls")


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Half of the time for random programs, the rest for long lives."""
    report = Report("compiled", seed)
    start = time.monotonic()
    counters["errors"].clear()  # of those before, in the same process
    number = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while time.monotonic() < start + seconds / 2 and (calls is None or number < calls):
            leaves, steps = drawn(random.Random(f"{seed}:{number}"))
            compare(report, leaves, steps, number)
            number += 1
        report.counts["programs"] = number
        live(report, LIFE if calls is None else calls, start + seconds)
    for reason, count in counters["errors"].items():
        report.found(f"not compiled: {reason}", f"{count} times")
    return report
