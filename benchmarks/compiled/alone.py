"""What is measured of pullback alone: first results, compilation, threads, captured passes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["MEASURES", "Measure", "measured", "table", "two_threads"]


@dataclass(frozen=True)
class Measure:
    """A program that prints numbers; their median is held against a bar."""

    title: str
    text: str
    bar: float
    unit: str
    at_most: bool = True  # else the bar is what must be reached
    runs: int = 5

    def reached(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value <= self.bar if self.at_most else value >= self.bar


_CHAIN = """
import time
import pullback as torch

x = torch.ones(10, dtype=torch.float64, requires_grad=True)

def chain(x):
    y = x
    for _ in range(500):
        y = y * 1.0001 + 0.001
    return y.sum()
"""
_START = (
    _CHAIN
    + """
torch.compile(chain, fullgraph=True)(x).backward()
print(time.process_time())
"""
)
_LSTM = """
import time
import pullback as torch
from benchmarks.compiled.works import _lstm

function, leaves = _lstm(torch)
torch.compile(function, fullgraph=True)(*leaves).backward()
print(time.process_time())
"""
_KERNEL = """
import time
import pullback as torch
from pullback.compiled.llvm.machine import Code

x = torch.ones(4096, 1024)
slope = torch.func.grad(lambda x: torch.nn.functional.gelu(x).sum())
f = torch.compile(slope, fullgraph=True, backend="llvm")
f(x)
text = f.entries[0].programs()[0].text
Code(text, keep=False)
start = time.process_time()
Code(text, keep=False)
print((time.process_time() - start) * 1e3)
"""
_PASSES = (
    _CHAIN
    + """
def seconds(context):
    times = []
    for _ in range(40):
        loss = chain(x)
        x.grad = None
        start = time.process_time()
        if context is None:
            loss.backward()
        else:
            with context:
                loss.backward()
        times.append(time.process_time() - start)
    return sorted(times)[10]

context = torch.compiler.compiled_autograd(fallback="error")
seconds(context)
print(seconds(None) / seconds(context))
"""
)
_THREADS = """
import time
import pullback as torch
from benchmarks.compiled import works

program = works.{name}(torch)
for _ in range(3):
    program.run(None)
times = []
for _ in range(40):
    start = time.perf_counter()
    program.run(None)
    times.append(time.perf_counter() - start)
print(min(times))
"""

MEASURES = [
    Measure("process start to first compiled result, chain", _START, 0.6, "s"),
    Measure("process start to first result, LSTM objective", _LSTM, 2.0, "s", runs=3),
    Measure("gelu and its slope as machine code", _KERNEL, 25, "ms"),
    Measure("backward of a chain, engine over captured", _PASSES, 1.8, "x", at_most=False, runs=3),
]


def _printed(text: str, *, threads: int = 1) -> float:
    """What a program prints, in a process of its own that keeps no code on disk."""
    environment = {**os.environ, "PULLBACK_CACHE": "0", "PULLBACK_THREADS": str(threads),
                   "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.getcwd()}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def measured(one: Measure) -> float:
    """The median of a few runs; a first one writes the bytecode."""
    _printed(one.text)
    return statistics.median(_printed(one.text) for _ in range(one.runs))


def two_threads(name: str, runs: int = 3) -> float:
    """Wall time of one thread over that of two, by the least times of runs in turn."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(runs):
        for threads, found in times.items():
            found.append(_printed(_THREADS.format(name=name), threads=threads))
    return min(times[1]) / min(times[2])


def table(show: Callable[[str], None]) -> int:
    """All of it, a line each; how many bars were missed."""
    missed = 0
    for one in MEASURES:
        value = measured(one)
        missed += not one.reached(value)
        sign = "<=" if one.at_most else ">="
        short = "" if one.reached(value) else "short"
        show(f"{one.title:48s} {value:8.3g} {one.unit:3s} {sign} {one.bar:g} {short}")
    for name in ("large", "gelu", "softmax"):
        value = two_threads(name)
        missed += value < 1.7
        short = "short" if value < 1.7 else ""
        show(f"{f'two threads over one, {name}':48s} {value:8.3g} x   >= 1.7 {short}")
    return missed
