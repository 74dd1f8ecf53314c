"""What threads gain, and what they cost: `python -m benchmarks.threads`, on a quiet machine.

Large kernels on two threads of ours (`set_num_threads(2)`) against one, forward and backward, by
wall time: the bar is 1.7. Then passes of an MLP from eight threads of the user's at once against
the same number from one: 1.0 is flat. Torch stands beside it where it is installed, and NumPy by
hand: a bare product in two halves, the start of a thread included, and a bare MLP, which pays as we
do for the interpreter's lock: NumPy lets it go and takes it again at each call. BLAS is held to one
thread. Both sides take turns.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy

import pullback
from benchmarks.engine_options import ROUNDS, median_ratio
from benchmarks.process import ONE_THREAD, is_installed

BAR = 1.7
USERS = 8
PASSES = 240  # of the MLP, whoever makes them
WORKS = 4  # in a round, one after the other as in a program


def large_works(torch: Any) -> dict[str, Callable[[], Any]]:
    """Name and one forward and backward pass of each."""
    functional = torch.nn.functional
    torch.manual_seed(0)
    rows = torch.randn(4096, 1024, requires_grad=True)
    images = torch.randn(16, 32, 64, 64, requires_grad=True)
    kernel = torch.randn(32, 32, 3, 3, requires_grad=True)

    def of(leaf: Any, function: Callable[[Any], Any]) -> Callable[[], Any]:
        incoming = torch.ones_like(function(leaf).detach())
        return lambda: torch.autograd.grad(function(leaf), leaf, incoming)

    other = torch.randn(4096, 1024)

    return {
        "product alone": lambda: (other * other,),
        "elementwise": of(rows, lambda x: (x * 1.5 + 0.5).tanh() * x),
        "gelu": of(rows, functional.gelu),
        "softmax": of(rows, lambda x: functional.softmax(x, -1)),
        "layer norm": of(rows, lambda x: functional.layer_norm(x, (1024,))),
        "batch norm": of(images, lambda x: functional.batch_norm(x, None, None, training=True)),
        "convolution": of(images, lambda x: functional.conv2d(x, kernel, padding=1)),
        "max pooling": of(images, lambda x: functional.max_pool2d(x, 2)),
        "average pooling": of(images, lambda x: functional.avg_pool2d(x, 2)),
    }


class ByHand:
    """What bare NumPy does: a product in as many parts as there are threads, and an MLP."""

    def __init__(self) -> None:
        draw = numpy.random.default_rng(0).standard_normal
        self.threads = 1
        self.large = draw((4096, 1024), "f")
        self.x, *self.weights = (draw((64, 64), "f") * numpy.float32(0.1) for _ in range(3))
        self.biases = [draw(64, "f") for _ in range(2)]

    def set_num_threads(self, number: int) -> None:
        """Let products use so many threads."""
        self.threads = number

    def product(self) -> Any:
        """Of a large array and itself."""
        x, out = self.large, numpy.empty_like(self.large)
        step = len(x) // self.threads
        parts = [slice(start, start + step) for start in range(0, len(x), step)]
        others = [
            threading.Thread(target=numpy.multiply, args=(x[part], x[part], out[part]))
            for part in parts[1:]
        ]
        for one in others:
            one.start()
        numpy.multiply(x[parts[0]], x[parts[0]], out[parts[0]])
        for one in others:
            one.join()
        return out

    def passes(self, count: int) -> None:
        """Forward and backward of the MLP below."""
        (first, second), (bias, other_bias) = self.weights, self.biases
        for _ in range(count):
            inner = numpy.tanh(self.x.dot(first.T) + bias)
            out = numpy.tanh(inner.dot(second.T) + other_bias)
            (out * out).mean()
            g = out * numpy.float32(2 / out.size) * (1 - out * out)
            g.T.dot(inner)
            g.sum(0)
            g = g.dot(second) * (1 - inner * inner)
            g.T.dot(self.x)
            g.sum(0)


def gain(torch: Any, work: Callable[[], Any]) -> float:
    """How many times as fast two threads are as one, in rounds of several works."""

    def timed(threads: int) -> float:
        torch.set_num_threads(threads)
        work()  # threads that slept for long wake slowly
        start = time.perf_counter()
        for _ in range(WORKS):
            work()
        return time.perf_counter() - start

    try:
        return statistics.median([timed(1) / timed(2) for _ in range(ROUNDS)])
    finally:
        torch.set_num_threads(1)


def mlp_passes(torch: Any) -> Callable[[int], None]:
    """Makes so many passes of a small MLP."""
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()
    )
    parameters = list(net.parameters())

    def passes(count: int) -> None:
        for _ in range(count):
            torch.autograd.grad(net(x).square().mean(), parameters)

    return passes


def flatness(passes: Callable[[int], None], clock: Callable[[], float]) -> float:
    """What passes take from one thread over what as many take from several."""

    def users() -> None:
        threads = [threading.Thread(target=passes, args=(PASSES // USERS,)) for _ in range(USERS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    users()
    return median_ratio(lambda: passes(PASSES), users, clock)


def line(name: str, figures: list[float], bar: object) -> None:
    """Print a row."""
    print(f"{name:24s}" + "".join(f"{one:14.2f}" for one in figures) + f"   {bar}", flush=True)


def main() -> int:
    """Print a line for each; 1 if a bar is missed."""
    libraries: dict[str, Any] = {"pullback": pullback}
    if is_installed("torch"):
        import torch

        libraries["torch"] = torch
        torch.set_num_threads(1)
    missed, by_hand = 0, ByHand()
    names = [*libraries, "NumPy by hand"]
    print(f"{'on two threads':24s}" + "".join(f"{name:>14s}" for name in names) + "   bar")
    works = {name: large_works(library) for name, library in libraries.items()}
    for work in works["pullback"]:
        gains = [gain(library, works[name][work]) for name, library in libraries.items()]
        missed += gains[0] < BAR
        line(work, gains + [gain(by_hand, by_hand.product)] * (work == "product alone"), BAR)
    users = [*map(mlp_passes, libraries.values()), by_hand.passes]
    for what, clock in (("processor", time.process_time), ("wall", time.perf_counter)):
        line(f"MLP, {USERS} users, {what}", [flatness(one, clock) for one in users], "flat")
    return int(missed > 0)


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is loaded, so start again
        again = [sys.executable, "-m", "benchmarks.threads"]
        os.execve(sys.executable, again, {**os.environ, **ONE_THREAD})
    sys.exit(main())
