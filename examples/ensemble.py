"""Twenty networks trained at once by `vmap`: where they disagree, the prediction is uncertain.

The parameters of all networks are stacked: `vmap` calls them all, one backward gives all of their
gradients, and one optimizer moves them.
"""

import pullback as torch

# isort: split
import argparse
import sys
from pathlib import Path

from pullback.func import functional_call, stack_module_state, vmap

GOAL = 3.0
COUNT = 20


def network() -> torch.nn.Module:
    """One member of the ensemble."""
    return torch.nn.Sequential(
        *(torch.nn.Linear(1, 32), torch.nn.Tanh()),
        *(torch.nn.Linear(32, 32), torch.nn.Tanh()),
        torch.nn.Linear(32, 1),
    )


def measurements(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy values of a curve, with a gap in the middle where nothing was measured."""
    x = torch.cat([torch.rand(count // 2) * 1.5 - 3, torch.rand(count - count // 2) * 1.5 + 1.5])
    y = torch.sin(2 * x) + 0.3 * x + 0.1 * torch.randn(count)
    return x[:, None], y[:, None]


class Ensemble:
    """Stacked parameters of networks of one shape, called together."""

    def __init__(self, count: int) -> None:
        members = [network() for _ in range(count)]
        self.shape = members[0]
        self.parameters, self.buffers = stack_module_state(members)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """What each network says, networks first; `x` is shared, or has a part for each."""

        def one(parameters: dict, buffers: dict, x: torch.Tensor) -> torch.Tensor:
            return functional_call(self.shape, (parameters, buffers), (x,))

        shared = 0 if x.dim() == 3 else None
        return vmap(one, in_dims=(0, 0, shared))(self.parameters, self.buffers, x)


def train(ensemble: Ensemble, x: torch.Tensor, y: torch.Tensor, steps: int) -> list[float]:
    """Each network learns from a sample of its own (a bootstrap)."""
    drawn = torch.randint(0, len(x), (COUNT, len(x)))
    optimizer = torch.optim.Adam(ensemble.parameters.values(), lr=0.01)
    history = []
    for _ in range(steps):
        loss = (ensemble(x[drawn]) - y[drawn]).square().mean((1, 2))
        optimizer.zero_grad()
        loss.sum().backward()  # the networks share nothing, so the sum keeps their gradients apart
        optimizer.step()
        history.append(loss.mean().item())
    return history


def draw(path: Path, ensemble: Ensemble, x: torch.Tensor, y: torch.Tensor) -> None:
    """All networks, their mean and their spread."""
    from matplotlib.figure import Figure

    grid = torch.linspace(-4, 4, 300)[:, None]
    said = ensemble(grid).detach()[..., 0]
    mean, spread = said.mean(0), said.std(0)
    figure = Figure(figsize=(6.4, 3.6), dpi=90, layout="constrained")
    axes = figure.subplots()
    for curve in said:
        axes.plot(grid[:, 0], curve, color="#c3c7d6", linewidth=0.7)
    axes.fill_between(grid[:, 0], mean - 2 * spread, mean + 2 * spread, color="#3d6fb6", alpha=0.18)
    axes.plot(grid[:, 0], mean, color="#3d6fb6", linewidth=2)
    axes.scatter(x[:, 0], y[:, 0], s=9, color="#e0813c", zorder=3)
    axes.set(title="twenty networks, and where they do not know", ylim=(-3, 3))
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Train and compare the spread where nothing was measured with that where much was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    x, y = measurements(120)
    ensemble = Ensemble(COUNT)
    history = train(ensemble, x, y, options.steps)
    gap = ensemble(torch.linspace(-1, 1, 50)[:, None]).detach().std(0).mean().item()
    known = ensemble(x).detach().std(0).mean().item()
    print(f"loss       {history[0]:.3f} at first, {history[-1]:.4f} after {options.steps} steps")
    print(f"spread     {known:.3f} where measured, {gap:.3f} in the gap")
    print(f"ratio      {gap / known:.1f} (goal: {GOAL})")
    if options.picture:
        draw(options.picture, ensemble, x, y)
    return 0 if gap > GOAL * known else 1


if __name__ == "__main__":
    sys.exit(main())
