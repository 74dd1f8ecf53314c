"""Works of second order, by differentiating a gradient."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, work


@work("double backward through 300 small operators")
def double_backward(torch: ModuleType) -> Program:
    """The gradient of a gradient's sum, on ten elements."""
    rng = np.random.default_rng(3)
    x = torch.tensor(rng.standard_normal(10), requires_grad=True)
    w = torch.tensor(rng.uniform(0.5, 1.0, 10), requires_grad=True)

    def run(nothing: None) -> Tensor:
        y = x
        for _ in range(100):
            y = (y * w + x).tanh()
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), (x, w))

    return Program(run=run, answer=list)


@work("Hessian-vector product of a small network")
def hvp(torch: ModuleType) -> Program:
    """Gradient with a graph, times a vector, and its gradient: 20-32-32-1, tanh, batch 16."""
    rng = np.random.default_rng(4)
    sizes = [20, 32, 32, 1]
    shapes = list(pairwise(sizes))
    weights = [
        torch.tensor(rng.standard_normal(shape) / shape[0] ** 0.5, requires_grad=True)
        for shape in shapes
    ]
    vectors = [torch.tensor(rng.standard_normal(shape)) for shape in shapes]
    x = torch.tensor(rng.standard_normal((16, 20)))

    def run(nothing: None) -> Tensor:
        out = x
        for weight in weights:
            out = (out @ weight).tanh()
        first = torch.autograd.grad((out**2).mean(), weights, create_graph=True)
        product = sum((g * v).sum() for g, v in zip(first, vectors, strict=True))
        return torch.autograd.grad(product, weights)

    return Program(run=run, answer=list)


def counts_model(torch: ModuleType) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """A negative binomial likelihood of counts, by the logarithms of its parameters."""
    rng = np.random.default_rng(31)
    counts = torch.tensor(rng.poisson(4.0, 40).astype(np.float64))
    x = torch.tensor(rng.standard_normal((40, 5)))

    def loss(theta: Tensor) -> Tensor:
        mean, shape = (x @ theta[:5]).exp(), theta[5].exp()
        chance = (mean / (mean + shape)).log() * counts + shape * (shape / (mean + shape)).log()
        return -((counts + shape).lgamma() - shape.lgamma() + chance).sum()

    return loss, torch.tensor(rng.standard_normal(6) * 0.1)


def _product(torch: ModuleType, name: str) -> Program:
    loss, theta = counts_model(torch)
    v = torch.ones(6, dtype=torch.float64)
    product = getattr(torch.autograd.functional, name)
    return Program(run=lambda _: product(loss, theta, v), answer=list)


@work("hvp of a probabilistic model", needs=("autograd.functional.hvp",))
def model_hvp(torch: ModuleType) -> Program:
    """Reverse over reverse, through functions of the gamma family."""
    return _product(torch, "hvp")


@work("vhp of a probabilistic model", needs=("autograd.functional.vhp",))
def model_vhp(torch: ModuleType) -> Program:
    """The same from the left."""
    return _product(torch, "vhp")
