"""What threads gain, and what they cost: `python -m benchmarks.threads`, on a quiet machine.

Large kernels on two threads of ours (`set_num_threads(2)`) against one, forward and backward, by
wall time: the bar is 1.7. Then passes of an MLP from eight threads of the user's at once against
the same number from one: 1.0 is flat; torch beside it where it is installed. BLAS is held to one
thread. Both sides take turns.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pullback
from benchmarks.engine_options import median_ratio
from benchmarks.process import ONE_THREAD, is_installed

BAR = 1.7
USERS = 8
PASSES = 240  # of the MLP, whoever makes them


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

    return {
        "elementwise": of(rows, lambda x: (x * 1.5 + 0.5).tanh() * x),
        "gelu": of(rows, functional.gelu),
        "softmax": of(rows, lambda x: functional.softmax(x, -1)),
        "layer norm": of(rows, lambda x: functional.layer_norm(x, (1024,))),
        "batch norm": of(images, lambda x: functional.batch_norm(x, None, None, training=True)),
        "convolution": of(images, lambda x: functional.conv2d(x, kernel, padding=1)),
        "max pooling": of(images, lambda x: functional.max_pool2d(x, 2)),
        "average pooling": of(images, lambda x: functional.avg_pool2d(x, 2)),
    }


def gain(torch: Any, work: Callable[[], Any]) -> float:
    """How many times as fast two threads are as one."""

    def on(threads: int) -> Callable[[], None]:
        def run() -> None:
            torch.set_num_threads(threads)
            work()

        return run

    for threads in (1, 2):
        on(threads)()
    try:
        return median_ratio(on(1), on(2), time.perf_counter)
    finally:
        torch.set_num_threads(1)


def flatness(torch: Any, clock: Callable[[], float]) -> float:
    """What passes take from one thread over what as many take from several."""
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh()
    )
    parameters = list(net.parameters())

    def passes(count: int) -> None:
        for _ in range(count):
            torch.autograd.grad(net(x).square().mean(), parameters)

    def users() -> None:
        threads = [threading.Thread(target=passes, args=(PASSES // USERS,)) for _ in range(USERS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    users()
    return median_ratio(lambda: passes(PASSES), users, clock)


def main() -> int:
    """Print a line for each; 1 if a bar is missed."""
    libraries: dict[str, Any] = {"pullback": pullback}
    if is_installed("torch"):
        import torch

        libraries["torch"] = torch
        torch.set_num_threads(1)
    missed = 0
    print(f"{'on two threads':24s}" + "".join(f"{name:>10s}" for name in libraries) + "   bar")
    works = {name: large_works(library) for name, library in libraries.items()}
    for work in works["pullback"]:
        gains = [gain(library, works[name][work]) for name, library in libraries.items()]
        missed += gains[0] < BAR
        print(f"{work:24s}" + "".join(f"{one:10.2f}" for one in gains) + f"   {BAR}", flush=True)
    for what, clock in (("processor", time.process_time), ("wall", time.perf_counter)):
        flat = [flatness(library, clock) for library in libraries.values()]
        row = f"MLP, {USERS} users, {what}"
        print(f"{row:24s}" + "".join(f"{one:10.2f}" for one in flat) + "   flat")
    return int(missed > 0)


if __name__ == "__main__":
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is loaded, so start again
        again = [sys.executable, "-m", "benchmarks.threads"]
        os.execve(sys.executable, again, {**os.environ, **ONE_THREAD})
    sys.exit(main())
