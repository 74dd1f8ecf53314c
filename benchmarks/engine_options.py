"""What the engine's options cost and gain: `python -m benchmarks.engine_options`.

Not a comparison with torch, which has neither: `detect_nan` against the same program without it,
and a wide graph on two threads against the same graph on one. BLAS is held to one thread. Rounds
of both sides take turns, and the median of the ratios is shown, so that a busy machine disturbs
both alike.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pullback
from benchmarks.process import ONE_THREAD

torch: Any = pullback  # its names are found when asked for

ROUNDS = 15
STEPS = 40  # in one round: the context is entered once for a whole training


def median_ratio(
    first: Callable[[], Any], second: Callable[[], Any], clock: Callable[[], float]
) -> float:
    """Time of `first` over time of `second`."""
    ratios = []
    for _ in range(ROUNDS):
        times = []
        for work in (first, second):
            start = clock()
            work()
            times.append(clock() - start)
        ratios.append(times[0] / times[1])
    return statistics.median(ratios)


def perceptron(batch: int, width: int) -> Callable[[], None]:
    """A training step of three layers."""
    x = torch.randn(batch, width)
    weights = [torch.randn(width, width) * 0.05 for _ in range(3)]
    for weight in weights:
        weight.requires_grad_()

    def step() -> None:
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        y.square().mean().backward()
        for weight in weights:
            weight.grad = None

    return step


def chain(length: int) -> Callable[[], None]:
    """Small operators, where the engine itself is the cost."""
    x = torch.ones(10, requires_grad=True)

    def step() -> None:
        y = x
        for _ in range(length):
            y = y * 0.5 + 0.5
        y.sum().backward()
        x.grad = None

    return step


def time_detect_nan(step: Callable[[], None]) -> float:
    """How many times as long a step takes with detect_nan on."""

    def repeated(context: Any) -> Callable[[], None]:
        def work() -> None:
            with context:
                for _ in range(STEPS):
                    step()

        return work

    for _ in range(2):
        step()
    return median_ratio(
        repeated(torch.autograd.detect_nan()), repeated(nullcontext()), time.process_time
    )


def wide_graph(branches: int, size: int, depth: int) -> Any:
    """Branches of matrix products that know nothing of one another."""
    x = torch.randn(size, size, requires_grad=True)
    weights = [torch.randn(size, size) * 0.03 for _ in range(branches)]
    total = []
    for weight in weights:
        weight.requires_grad_()
        y = x
        for _ in range(depth):
            y = y @ weight
        total.append(y.sum())
    return sum(total)


def time_threads(branches: int, size: int, depth: int) -> float:
    """How many times as fast two threads are as one, by wall time."""
    loss = wide_graph(branches, size, depth)

    def run(threads: int) -> Callable[[], None]:
        def work() -> None:
            torch.autograd.set_backward_threads(threads)
            try:
                loss.backward(retain_graph=True)
            finally:
                torch.autograd.set_backward_threads(1)

        return work

    run(2)()
    return median_ratio(run(1), run(2), time.perf_counter)


def main() -> None:
    """Print one line for each measurement."""
    print(
        f"detect_nan, perceptron 128 x 256: {time_detect_nan(perceptron(128, 256)):.2f}x the time"
    )
    print(f"detect_nan, perceptron 16 x 64: {time_detect_nan(perceptron(16, 64)):.2f}x the time")
    print(f"detect_nan, chain of 400 small operators: {time_detect_nan(chain(200)):.2f}x the time")
    if (os.cpu_count() or 1) > 1:
        speed = time_threads(branches=8, size=512, depth=3)
        print(f"set_backward_threads(2), 8 branches of products: {speed:.2f}x as fast")


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is loaded, so start again
        again = [sys.executable, "-m", "benchmarks.engine_options"]
        os.execve(sys.executable, again, {**os.environ, **ONE_THREAD})
    main()
