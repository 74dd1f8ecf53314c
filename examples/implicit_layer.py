"""A layer defined by an equation: its output is the fixed point of an iteration.

Backward never sees the iteration. By the implicit function theorem the gradient is where a linear
iteration comes to rest, with products by the Jacobian from `torch.func.vjp`. Memory does not grow
with the number of iterations, in either direction.
"""

import pullback as torch

# isort: split
import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOAL = 0.95


def at_rest(
    f: Callable[[torch.Tensor], torch.Tensor], z: torch.Tensor, most: int = 60
) -> torch.Tensor:
    """Iterate `f` until it moves no more."""
    for _ in range(most):
        new = f(z)
        if (new - z).abs().max() < 1e-5:
            return new
        z = new
    return z


class FixedPoint(torch.autograd.Function):
    """z = cell(z, x), differentiated as an equation."""

    @staticmethod
    def forward(ctx: Any, cell: Any, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        """Find z; remember it and x, and nothing of the way."""
        z = at_rest(lambda z: cell(z, x), torch.zeros_like(x))
        ctx.cell = cell
        ctx.save_for_backward(x, z)
        return z

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Solve u = g + u J for u, then carry u through one application of the cell."""
        x, z = ctx.saved_tensors
        _, times_jacobian = torch.func.vjp(lambda z: ctx.cell(z, x), z)
        u = at_rest(lambda u: g + times_jacobian(u)[0], g)
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            parameters = tuple(ctx.cell.parameters())
            once = ctx.cell(z.detach(), x)
        return None, *torch.autograd.grad(once, (x, *parameters), u)


class Cell(torch.nn.Module):
    """One application; the weight is kept small enough for the iteration to come to rest."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.turn = torch.nn.Linear(width, width, bias=False)

    def forward(self, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The next state."""
        weight = self.turn.weight
        size = torch.linalg.matrix_norm(weight)
        return torch.tanh(z @ (0.9 * weight / size.clamp(min=0.9)).T + x)


class Network(torch.nn.Module):
    """Into the width, to rest, and out."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.inwards = torch.nn.Linear(2, width)
        self.cell = Cell(width)
        self.outwards = torch.nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A logit for each point."""
        z = FixedPoint.apply(self.cell, self.inwards(x), *self.cell.parameters())
        return self.outwards(z).squeeze(1)


def moons(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on two interleaved half circles."""
    angle = math.pi * torch.rand(count)
    label = (torch.arange(count) % 2).float()
    sign = 1 - 2 * label
    x = torch.stack([torch.cos(angle) * sign + label, torch.sin(angle) * sign + 0.5 * label], dim=1)
    return x + 0.12 * torch.randn(count, 2), label


def train(model: Network, x: torch.Tensor, y: torch.Tensor, steps: int) -> list[float]:
    """Fit the network."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    history = []
    for _ in range(steps):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


@torch.no_grad()
def draw(path: Path, model: Network, x: torch.Tensor, y: torch.Tensor) -> None:
    """The plane as the network sees it."""
    from matplotlib.figure import Figure

    side = 120
    h, v = torch.meshgrid(
        torch.linspace(-1.6, 2.6, side), torch.linspace(-1.2, 1.7, side), indexing="xy"
    )
    chance = torch.sigmoid(model(torch.stack([h, v], dim=-1).view(-1, 2))).view(side, side)
    figure = Figure(figsize=(5.2, 3.8), dpi=90, layout="constrained")
    axes = figure.subplots()
    axes.contourf(h.numpy(), v.numpy(), chance.numpy(), levels=20, cmap="RdBu_r", alpha=0.7)
    axes.scatter(*x.T.numpy(), c=y.numpy(), s=8, cmap="RdBu_r", edgecolors="white", linewidths=0.3)
    axes.set(title="a layer that is the solution of an equation", xticks=[], yticks=[])
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Check the gradient of the layer, train, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    model = Network()
    x, y = moons(300)
    history = train(model, x, y, options.steps)
    x_new, y_new = moons(500)
    with torch.no_grad():
        share = ((model(x_new) > 0) == (y_new > 0.5)).float().mean().item()
    print(f"loss       {history[0]:.3f} at first, {history[-1]:.4f} after {options.steps} steps")
    print(f"accuracy   {share:.1%} on new points (goal: {GOAL:.0%})")
    if options.picture:
        draw(options.picture, model, x, y)
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
