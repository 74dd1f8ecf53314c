"""The log-likelihood of a mixture of Gaussians: writes at index tensors, einsum, logsumexp."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, work

PARTS, POINTS, WIDTH = 5, 200, 3
NEEDS = ("einsum", "logsumexp", "diag_embed")


def mixture(torch: ModuleType, *, recorded: bool) -> tuple[list[Tensor], Callable[[], Tensor]]:
    """The parameters, and the objective: triangles below diagonals, means, and weights."""
    rng = np.random.default_rng(16)

    def drawn(*shape: int) -> Tensor:
        return torch.tensor(rng.standard_normal(shape), requires_grad=recorded)

    below, diagonal = drawn(PARTS, WIDTH * (WIDTH - 1) // 2), drawn(PARTS, WIDTH)
    means, weights = drawn(PARTS, WIDTH), drawn(PARTS)
    points = torch.tensor(rng.standard_normal((POINTS, WIDTH)))
    rows, columns = (torch.tensor(one) for one in np.tril_indices(WIDTH, -1))

    def objective() -> Tensor:
        low = torch.zeros(PARTS, WIDTH, WIDTH, dtype=torch.float64)
        low[:, rows, columns] = below
        low = low + torch.diag_embed(diagonal.exp())
        far = torch.einsum("kij,nkj->nki", low, points[:, None] - means)
        inner = weights + diagonal.sum(1) - 0.5 * (far**2).sum(2)
        return torch.logsumexp(inner, 1).sum() - POINTS * torch.logsumexp(weights, 0)

    return [below, diagonal, means, weights], objective


@work("mixture of Gaussians: objective", needs=NEEDS)
def mixture_objective(torch: ModuleType) -> Program:
    """Without gradients."""
    _, objective = mixture(torch, recorded=False)
    return Program(run=lambda _: objective(), answer=lambda loss: [loss])


@work("mixture of Gaussians: gradient", needs=NEEDS)
def mixture_gradient(torch: ModuleType) -> Program:
    """By all parameters."""
    leaves, objective = mixture(torch, recorded=True)
    return Program(
        run=lambda _: torch.autograd.grad(objective(), leaves), answer=lambda found: list(found)
    )
