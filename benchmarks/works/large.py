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


@work(
    "24 layers of linear and gelu (512 wide, batch 1024), forward and backward",
    needs=("nn.functional.linear", "nn.functional.gelu"),
    rounds=5,
)
def deep_mlp(torch: ModuleType) -> Program:
    """Nearly all of it products of large matrices."""
    rng = np.random.default_rng(17)
    x = torch.tensor(rng.standard_normal((1024, 512), dtype=np.float32))
    weights = [
        torch.tensor(rng.standard_normal((512, 512), dtype=np.float32) / 16, requires_grad=True)
        for _ in range(24)
    ]
    biases = [torch.zeros(512, requires_grad=True) for _ in weights]
    leaves = [*weights, *biases]

    def run(nothing: None) -> None:
        y = x
        for weight, bias in zip(weights, biases, strict=True):
            y = torch.nn.functional.gelu(torch.nn.functional.linear(y, weight, bias))
        y.mean().backward()

    return Program(prepare=lambda: clear_grad(leaves), run=run, answer=lambda _: grads(leaves))
