"""Learn the dynamics of a system: a network is the right-hand side of a differential equation.

The solver (Runge-Kutta, fourth order) is ordinary code, and the gradient flows back through all of
its steps. Short pieces of a path are enough to learn from; then the law is followed for long.
"""

import pullback as torch

# isort: split
import argparse
import sys
from pathlib import Path

GOAL = 0.1


class Law(torch.nn.Module):
    """dy/dt as a network of the position and its cube."""

    def __init__(self) -> None:
        super().__init__()
        self.straight = torch.nn.Linear(4, 2)
        self.bent = torch.nn.Sequential(
            torch.nn.Linear(4, 32), torch.nn.Softplus(), torch.nn.Linear(32, 2)
        )

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """The velocity at each position."""
        known = torch.cat([y, y**3 / 4], dim=-1)
        return self.straight(known) + self.bent(known)


def step(law: torch.nn.Module, y: torch.Tensor, dt: float) -> torch.Tensor:
    """One step of the classical Runge-Kutta method."""
    a = law(y)
    b = law(y + dt / 2 * a)
    c = law(y + dt / 2 * b)
    d = law(y + dt * c)
    return y + dt / 6 * (a + 2 * b + 2 * c + d)


def integrate(law: torch.nn.Module, y: torch.Tensor, dt: float, steps: int) -> torch.Tensor:
    """The path from `y`: the positions after each step."""
    path = [y]
    for _ in range(steps):
        path.append(step(law, path[-1], dt))
    return torch.stack(path)


class Truth(torch.nn.Module):
    """The spiral that is to be learnt: cubic, slowly falling inwards."""

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """The velocity at each position."""
        return y**3 @ torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


def train(law: Law, path: torch.Tensor, dt: float, steps: int) -> list[float]:
    """Fit short pieces of the path, all starting points in one batch."""
    optimizer = torch.optim.Adam(law.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history = []
    length = 8
    for _ in range(steps):
        starts = torch.randint(0, len(path) - length, (64,))
        wanted = torch.stack([path[starts + i] for i in range(length + 1)])
        loss = (integrate(law, path[starts], dt, length) - wanted).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        history.append(loss.item())
    return history


def draw(path: Path, truth: torch.Tensor, learnt: torch.Tensor, law: Law) -> None:
    """Both paths over the learnt field."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4.4), dpi=90, layout="constrained")
    axes = figure.subplots()
    ticks = torch.linspace(-2.2, 2.2, 22)
    x, y = torch.meshgrid(ticks, ticks, indexing="xy")
    with torch.no_grad():
        field = torch.nn.functional.normalize(law(torch.stack([x, y], dim=-1).view(-1, 2)))
    axes.quiver(x.reshape(-1), y.reshape(-1), *field.T.numpy(), color="#c3c7d6", width=0.003)
    axes.plot(*truth.T.numpy(), color="#3d6fb6", linewidth=5, alpha=0.35, label="truth")
    axes.plot(*learnt.T.numpy(), color="#e0813c", linewidth=1.6, label="learnt")
    axes.legend(frameon=False, loc="upper right")
    axes.set(title="a law of motion, learnt from its path", aspect="equal")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Learn the law and follow it from the start; 0 when the two paths stay together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    dt, start = 0.05, torch.tensor([2.0, 0.0])
    with torch.no_grad():
        truth = integrate(Truth(), start, dt, 300)
    law = Law()
    history = train(law, truth, dt, options.steps)
    with torch.no_grad():
        learnt = integrate(law, start, dt, 300)
    error = (learnt - truth).abs().mean().item()
    print(f"loss       {history[0]:.3f} at first, {history[-1]:.5f} after {options.steps} steps")
    print(f"error      {error:.4f} in the mean along the whole path (goal: {GOAL})")
    if options.picture:
        draw(options.picture, truth, learnt, law)
    return 0 if error < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
