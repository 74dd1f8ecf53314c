"""Works on the functional transforms."""

from __future__ import annotations

from collections.abc import Callable
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


def reprojection(torch: ModuleType) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """The reprojection error of ADBench for one observation, and 200 of them."""
    rng = np.random.default_rng(14)
    count = 200
    cameras = torch.tensor(rng.standard_normal((count, 11)) * 0.1 + 0.5)
    points = torch.tensor(rng.standard_normal((count, 3)) + 2.0)
    seen = torch.tensor(rng.standard_normal((count, 2)))

    def residual(camera: Tensor, point: Tensor, seen: Tensor) -> Tensor:
        rotation, centre, focal = camera[:3], camera[3:6], camera[6]
        middle, radial = camera[7:9], camera[9:11]
        angle = (rotation * rotation).sum().sqrt()
        axis = rotation / angle
        x = point - centre
        crossed = torch.stack([axis[1] * x[2] - axis[2] * x[1], axis[2] * x[0] - axis[0] * x[2],
                               axis[0] * x[1] - axis[1] * x[0]])  # fmt: skip
        turned = x * angle.cos() + crossed * angle.sin()
        turned = turned + axis * (axis * x).sum() * (1 - angle.cos())
        flat = turned[:2] / turned[2]
        square = (flat * flat).sum()
        bent = flat * (1 + radial[0] * square + radial[1] * square * square)
        return bent * focal + middle - seen

    return residual, [cameras, points, seen]


@work("bundle adjustment by vmap: objective", needs=("func.vmap",))
def bundle_objective(torch: ModuleType) -> Program:
    """All residuals at once."""
    residual, given = reprojection(torch)
    mapped = torch.func.vmap(residual)
    return Program(run=lambda _: mapped(*given), answer=lambda out: [out])


@work("bundle adjustment by vmap: Jacobian", needs=("func.vmap", "func.jacrev"))
def bundle_jacobian(torch: ModuleType) -> Program:
    """By camera and point, for each observation."""
    residual, given = reprojection(torch)
    mapped = torch.func.vmap(torch.func.jacrev(residual, argnums=(0, 1)))
    return Program(run=lambda _: mapped(*given), answer=list)


@work("a vmap level over three operators", needs=("func.vmap",))
def vmap_level(torch: ModuleType) -> Program:
    """What mapping costs where there is next to nothing to map."""
    x = torch.tensor(np.random.default_rng(17).standard_normal((10, 5)))
    mapped = torch.func.vmap(lambda row: (row * 2).sin().sum())
    return Program(run=lambda _: mapped(x), answer=lambda out: [out])
