"""Works on user-defined functions."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work


@work(
    "custom Function, 1000 applications, forward and backward",
    needs=("autograd.Function.save_for_backward",),
)
def custom_function(torch: ModuleType) -> Program:
    """A product written by the user, saving both factors."""

    class Product(torch.autograd.Function):  # type: ignore[name-defined, misc]  # a class of either library
        """x * w with its gradient by hand."""

        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
            x, w = ctx.saved_tensors
            return g * w, g * x

    rng = np.random.default_rng(5)
    leaves = [
        torch.tensor(rng.standard_normal(10), requires_grad=True),
        torch.tensor(rng.uniform(0.99, 1.01, 10), requires_grad=True),
    ]

    def run(nothing: None) -> None:
        x, w = leaves
        for _ in range(1000):
            x = Product.apply(x, w)
        x.sum().backward()

    return Program(prepare=lambda: clear_grad(leaves), run=run, answer=lambda _: grads(leaves))
