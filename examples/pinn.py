"""Solve a differential equation with a network: derivatives of the network are part of the loss.

Burgers' equation u_t + u u_x = nu u_xx forms a shock out of a smooth wave. The network u(t, x) is
trained on the equation itself, with second derivatives by `torch.autograd.grad`.
"""

import pullback as torch

# isort: split
import argparse
import math
import sys
from pathlib import Path

GOAL = 0.02
VISCOSITY = 0.05


class Wave(torch.nn.Module):
    """u(t, x), by construction right at the start (a sine) and at both walls (zero)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(
            *(torch.nn.Linear(2, width), torch.nn.Tanh()),
            *(torch.nn.Linear(width, width), torch.nn.Tanh()),
            torch.nn.Linear(width, 1),
        )

    def forward(self, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The height of the wave at times `t` and places `x`."""
        bent = self.body(torch.stack([2 * t - 1, x], dim=1)).squeeze(1)
        return -torch.sin(math.pi * x) + t * (1 - x**2) * bent


def residual(wave: Wave, t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """How far the network is from obeying the equation, at each point."""
    t, x = t.requires_grad_(), x.requires_grad_()
    u = wave(t, x)
    u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    return u_t + u * u_x - VISCOSITY * u_xx


def reference(times: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The Cole-Hopf solution, by a sum over its integral: exact to plotting accuracy."""
    spread = torch.linspace(-6, 6, 801, dtype=torch.float64)
    rows = []
    for t in times.double().clamp(min=1e-6):
        y = places.double()[:, None] - spread * torch.sqrt(4 * VISCOSITY * t)
        weight = torch.exp(-torch.cos(math.pi * y) / (2 * math.pi * VISCOSITY) - spread**2)
        rows.append(-(torch.sin(math.pi * y) * weight).sum(1) / weight.sum(1))
    return torch.stack(rows).float()


def train(wave: Wave, steps: int) -> list[float]:
    """Minimise the residual at points drawn anew in each step."""
    optimizer = torch.optim.Adam(wave.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    history = []
    for _ in range(steps):
        t, x = torch.rand(256), 2 * torch.rand(256) - 1
        loss = residual(wave, t, x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        history.append(loss.item())
    return history


@torch.no_grad()
def solution(wave: Wave, times: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """The network on a grid of times and places."""
    t, x = torch.meshgrid(times, places, indexing="ij")
    return wave(t.reshape(-1), x.reshape(-1)).view(len(times), len(places))


def draw(path: Path, wave: Wave) -> None:
    """The whole solution as a map, and cuts through it beside the exact one."""
    from matplotlib.figure import Figure

    places = torch.linspace(-1, 1, 201)
    figure = Figure(figsize=(9, 3.4), dpi=90, layout="constrained")
    left, right = figure.subplots(1, 2)
    field = solution(wave, torch.linspace(0, 1, 101), places)
    image = left.imshow(field.T.numpy(), extent=(0, 1, -1, 1), aspect="auto", cmap="RdBu_r")
    left.set(xlabel="t", ylabel="x", title="u(t, x) of the network")
    figure.colorbar(image, ax=left)
    for t, color in zip((0.0, 0.25, 0.75), ("#3d6fb6", "#e0813c", "#4f9d69"), strict=True):
        right.plot(
            places, reference(torch.tensor([t]), places)[0], color=color, linewidth=4, alpha=0.3
        )
        right.plot(
            places, solution(wave, torch.tensor([t]), places)[0], color=color, label=f"t = {t}"
        )
    right.set(xlabel="x", title="network (thin) and exact (wide)")
    right.legend(frameon=False)
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Train and compare with the exact solution; 0 when they agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    wave = Wave()
    history = train(wave, options.steps)
    times, places = torch.linspace(0, 1, 21), torch.linspace(-1, 1, 101)
    error = (solution(wave, times, places) - reference(times, places)).abs().mean().item()
    print(f"residual   {history[0]:.3f} at first, {history[-1]:.5f} after {options.steps} steps")
    print(f"error      {error:.4f} in the mean over time and place (goal: {GOAL})")
    if options.picture:
        draw(options.picture, wave)
    return 0 if error < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
