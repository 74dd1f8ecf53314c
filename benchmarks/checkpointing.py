"""What checkpointing costs and saves: a deep network, step by step with and without it."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from types import ModuleType

import numpy as np

from benchmarks.memory import peak_bytes
from benchmarks.program import Tensor, clear_grad
from benchmarks.works.nets import parameter

LAYERS = 24
CUTS = (0, 4, 8, 12, 16, 20, LAYERS)  # each part but the last is checkpointed
NEEDS = ("nn.functional.linear", "utils.checkpoint")
ROUNDS = 7

Step = Callable[[], None]


def steps(torch: ModuleType, width: int, batch: int) -> tuple[Step, Step]:
    """A step of gradients, checkpointed and plain, on the same parameters."""
    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    linear = torch.nn.functional.linear
    rng = np.random.default_rng(24)
    weights = [parameter(torch, rng, width, width) for _ in range(LAYERS)]
    x = torch.tensor(rng.standard_normal((batch, width), dtype=np.float32))

    def layers(start: int, end: int) -> Callable[[Tensor], Tensor]:
        def apply(t: Tensor) -> Tensor:
            for weight in weights[start:end]:
                t = linear(t.relu(), weight)
            return t

        return apply

    def finish(t: Tensor) -> None:
        (t**2).mean().backward()
        clear_grad(weights)

    def checkpointed() -> None:
        t = x
        for start, end in pairwise(CUTS[:-1]):
            t = checkpoint(layers(start, end), t, use_reentrant=False)
        t = layers(CUTS[-2], LAYERS)(t)
        finish(t)

    def plain() -> None:
        finish(layers(0, LAYERS)(x))

    return checkpointed, plain


def checkpoint_cost(torch: ModuleType, quick: bool) -> dict[str, float]:
    """Memory and time of checkpointed steps, over those of plain ones."""
    width, batch = (64, 512) if quick else (256, 4096)
    for step in steps(torch, width, batch // 16):  # loads what the library loads at first use
        step()
    checkpointed, plain = steps(torch, width, batch)
    before = peak_bytes()
    # In this order: a peak only ever rises.
    checkpointed()
    saved = peak_bytes() - before
    plain()
    whole = peak_bytes() - before
    return {"memory": saved / max(whole, 1), "time": time_ratio(checkpointed, plain)}


def time_ratio(ours: Step, theirs: Step) -> float:
    """Median over rounds of one step's processor time over the other's."""
    ratios = []
    for _ in range(ROUNDS):
        first, second = seconds(ours), seconds(theirs)
        ratios.append(first / second)
    return float(np.median(ratios))


def seconds(step: Step) -> float:
    """Processor time of a step."""
    start = time.process_time()
    step()
    return time.process_time() - start
