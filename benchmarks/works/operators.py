"""Works on operators that users define."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work

NEEDS = ("library.custom_op",)


def defined(torch: ModuleType) -> Any:
    """A product whose kernel and formula are a user's."""

    def product(x: Tensor, w: Tensor) -> Tensor:
        return x * w

    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return g * w, g * x

    op = torch.library.custom_op(
        "benchmarks::product", product, mutates_args=(), schema="(Tensor x, Tensor w) -> Tensor"
    )
    op.register_autograd(backward, setup_context=setup_context)
    return op


def _leaves(torch: ModuleType, size: int) -> list[Tensor]:
    rng = np.random.default_rng(5)
    return [
        torch.tensor(rng.standard_normal(size), requires_grad=True),
        torch.tensor(rng.uniform(0.99, 1.01, size), requires_grad=True),
    ]


@work("custom operator, 1000 calls, forward and backward", needs=NEEDS)
def custom_operator(torch: ModuleType) -> Program:
    """The work `custom-function`, with an operator in the place of the Function."""
    product = defined(torch)
    leaves = _leaves(torch, 10)

    def run(nothing: None) -> None:
        x, w = leaves
        for _ in range(1000):
            x = product(x, w)
        x.sum().backward()

    return Program(prepare=lambda: clear_grad(leaves), run=run, answer=lambda _: grads(leaves))


@work("custom operator, 1000 calls, nothing recorded", needs=NEEDS)
def custom_operator_plain(torch: ModuleType) -> Program:
    """What an operator costs where autograd has nothing to do."""
    product = defined(torch)
    first, factor = (leaf.detach() for leaf in _leaves(torch, 10))

    def run(nothing: None) -> Tensor:
        x = first
        for _ in range(1000):
            x = product(x, factor)
        return x

    return Program(run=run, answer=lambda result: [result])
