"""Works where memory traffic is the cost."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from benchmarks.program import Program, clear_grad, grads, work

ELEMENTS = 4_000_000


@work("large elementwise chain (4M float32), forward and backward", rounds=11)
def elementwise(torch: ModuleType) -> Program:
    """Seven elementwise operators, and their rules, over arrays that fit in no cache."""
    rng = np.random.default_rng(6)
    leaves = [
        torch.tensor(rng.standard_normal(ELEMENTS, dtype=np.float32), requires_grad=True)
        for _ in range(2)
    ]

    def run(nothing: None) -> None:
        x, w = leaves
        y = x * torch.sigmoid(x)
        y = (y * w + x).tanh()
        (y * 0.5 - w).mean().backward()

    return Program(prepare=lambda: clear_grad(leaves), run=run, answer=lambda _: grads(leaves))
