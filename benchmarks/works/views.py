"""Works on small tensors that share memory: views, in-place operators, writes into slices."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work


@work("1200 views of small tensors, forward and backward")
def view_chain(torch: ModuleType) -> Program:
    """Reshaped, transposed, widened and sliced, but never copied, 200 times over."""
    x = torch.tensor(np.arange(24.0), requires_grad=True)

    def run(nothing: None) -> None:
        y = x
        for _ in range(200):
            y = y.view(4, 6).transpose(0, 1).unsqueeze(0)[0].transpose(0, 1).view(24)
        y.sum().backward()

    return Program(prepare=lambda: clear_grad([x]), run=run, answer=lambda _: grads([x]))


@work("1200 views of small tensors, forward")
def view_chain_forward(torch: ModuleType) -> Program:
    """The same views, made only."""
    x = torch.tensor(np.arange(24.0), requires_grad=True)

    def run(nothing: None) -> Tensor:
        y = x
        for _ in range(200):
            y = y.view(4, 6).transpose(0, 1).unsqueeze(0)[0].transpose(0, 1).view(24)
        return y

    return Program(run=run, answer=lambda out: [out.detach()])


@work("rows picked from a small matrix, forward and backward")
def view_rows(torch: ModuleType) -> Program:
    """Many small views of one base, whose gradients must all be put back in their place."""
    x = torch.tensor(np.random.default_rng(7).standard_normal((50, 8)), requires_grad=True)

    def run(nothing: None) -> None:
        total = x[0]
        for row in range(1, 50):
            total = total + x[row] * x[row - 1]
        total.sum().backward()

    return Program(prepare=lambda: clear_grad([x]), run=run, answer=lambda _: grads([x]))


@work("1000 in-place operators, forward and backward")
def in_place(torch: ModuleType) -> Program:
    """One small tensor scaled and shifted in place."""
    rng = np.random.default_rng(8)
    leaves = [torch.tensor(rng.standard_normal(10), requires_grad=True) for _ in range(2)]

    def run(nothing: None) -> None:
        x, b = leaves
        y = x.clone()
        for _ in range(500):
            y.mul_(0.99).add_(b)
        y.sum().backward()

    return Program(prepare=lambda: clear_grad(leaves), run=run, answer=lambda _: grads(leaves))


@work("100 writes into slices, forward and backward")
def slice_writes(torch: ModuleType) -> Program:
    """A table filled row by row, each from the row before."""
    x = torch.tensor(np.random.default_rng(9).standard_normal(8), requires_grad=True)

    def run(nothing: None) -> None:
        table = torch.zeros(101, 8, dtype=torch.float64)
        row = x
        for index in range(100):
            row = row * 0.99 + 0.01
            table[index] = row
        table.sum().backward()

    return Program(prepare=lambda: clear_grad([x]), run=run, answer=lambda _: grads([x]))


def through_views(torch: ModuleType) -> tuple[list[Tensor], Callable[[], Tensor]]:
    """The leaves, and eight rounds of writes through four views of one tensor."""
    rng = np.random.default_rng(15)
    shapes = [(8, 8), (8, 4), (8,), (7, 8), (22,)]
    leaves = [torch.tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]
    x, a, b, c, d = leaves

    def written() -> Tensor:
        y = x.clone()
        for i in range(8):
            y[:, ::2].mul_(a)
            y[i].add_(b)
            y.t()[1:].mul_(c)
            y.view(-1)[::3].add_(d)
        return y

    return leaves, written


@work("32 writes through views of one tensor, forward")
def view_writes_forward(torch: ModuleType) -> Program:
    """Slices, rows, a transpose and strides; each write is in the history of the base."""
    _, written = through_views(torch)
    return Program(run=lambda _: written(), answer=lambda out: [out.detach()])


@work("32 writes through views of one tensor, forward and backward")
def view_writes(torch: ModuleType) -> Program:
    """The same, with the gradients of what was written."""
    leaves, written = through_views(torch)

    def run(nothing: None) -> None:
        written().sum().backward()

    return Program(prepare=lambda: clear_grad(leaves), run=run, answer=lambda _: grads(leaves))
