"""Works on the functional transforms."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, work


@work("per-sample gradients, batch 64", needs=("func.vmap", "func.grad"))
def per_sample_gradients(torch: ModuleType) -> Program:
    """A gradient for each example of a 20-32-1 network, by mapping `grad` over the batch."""
    rng = np.random.default_rng(13)
    weights = (
        torch.tensor(rng.standard_normal((20, 32)) / 20**0.5),
        torch.tensor(rng.standard_normal((32, 1)) / 32**0.5),
    )
    x, y = torch.tensor(rng.standard_normal((64, 20))), torch.tensor(rng.standard_normal((64, 1)))

    def loss(weights: tuple[Tensor, Tensor], x: Tensor, y: Tensor) -> Tensor:
        first, second = weights
        return (((x @ first).tanh() @ second - y) ** 2).sum()

    mapped = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))
    return Program(run=lambda _: mapped(weights, x, y), answer=list)


@work("full Hessian of 50 parameters", needs=("func.hessian",))
def full_hessian(torch: ModuleType) -> Program:
    """Of a logistic loss."""
    rng = np.random.default_rng(14)
    x, w = torch.tensor(rng.standard_normal((40, 50))), torch.tensor(rng.standard_normal(50) / 7)
    hessian = torch.func.hessian(lambda w: (1 + (x @ w).exp()).log().mean())
    return Program(run=lambda _: hessian(w), answer=lambda out: [out])


@work("Jacobian, 100 x 100", needs=("func.jacrev",))
def jacobian(torch: ModuleType) -> Program:
    """Of one tanh layer."""
    rng = np.random.default_rng(15)
    w, x = (
        torch.tensor(rng.standard_normal((100, 100)) / 10),
        torch.tensor(rng.standard_normal(100)),
    )
    jacrev = torch.func.jacrev(lambda x: (w @ x).tanh())
    return Program(run=lambda _: jacrev(x), answer=lambda out: [out])


@work("jvp of an MLP", needs=("func.jvp",))
def jvp_mlp(torch: ModuleType) -> Program:
    """Forward mode through 64-128-128-10, batch 32."""
    rng = np.random.default_rng(16)
    sizes = [64, 128, 128, 10]
    weights = [
        torch.tensor(rng.standard_normal((inputs, outputs)) / inputs**0.5)
        for inputs, outputs in pairwise(sizes)
    ]
    x, dx = (torch.tensor(rng.standard_normal((32, 64))) for _ in range(2))

    def network(x: Tensor) -> Tensor:
        for weight in weights:
            x = (x @ weight).tanh()
        return x

    return Program(run=lambda _: torch.func.jvp(network, (x,), (dx,)), answer=list)
