"""Meta-learning (MAML): an initialization from which one gradient step solves a new task.

The outer gradient goes through the inner step, so it holds second derivatives; `torch.func` writes
both as functions and `vmap` runs all tasks of a batch at once.
"""

import pullback as torch

# isort: split
import argparse
import math
import sys
from pathlib import Path

from pullback.func import functional_call, grad, vmap

GOAL = 0.5
RATE = 0.02  # of the inner step
SHOTS = 10  # points that a new task shows

Parameters = dict[str, torch.Tensor]


class Curve(torch.nn.Sequential):
    """A small network from a number to a number."""

    def __init__(self) -> None:
        super().__init__(
            *(torch.nn.Linear(1, 32), torch.nn.Tanh()),
            *(torch.nn.Linear(32, 32), torch.nn.Tanh()),
            torch.nn.Linear(32, 1),
        )


def tasks(count: int) -> tuple[torch.Tensor, ...]:
    """Sine curves of random height and phase: points to learn from and points to be judged by."""
    height = 0.5 + 2 * torch.rand(count, 1, 1)
    phase = math.pi * torch.rand(count, 1, 1)
    x = 8 * torch.rand(count, 2 * SHOTS, 1) - 4
    y = height * torch.sin(x + phase)
    return x[:, :SHOTS], y[:, :SHOTS], x[:, SHOTS:], y[:, SHOTS:]


def loss(model: Curve, parameters: Parameters, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean square error of the network with these parameters."""
    return (functional_call(model, parameters, (x,)) - y).square().mean()


def adapted(
    model: Curve, start: Parameters, x: torch.Tensor, y: torch.Tensor, steps: int = 1
) -> Parameters:
    """The parameters after some steps on one task."""
    for _ in range(steps):
        slope = grad(lambda p: loss(model, p, x, y))(start)
        start = {name: p - RATE * slope[name] for name, p in start.items()}
    return start


def after_adapting(
    model: Curve, start: Parameters, *task: torch.Tensor, steps: int = 1
) -> torch.Tensor:
    """The mean loss over a batch of tasks, each judged after its own step."""

    def one(
        x: torch.Tensor, y: torch.Tensor, x_new: torch.Tensor, y_new: torch.Tensor
    ) -> torch.Tensor:
        return loss(model, adapted(model, start, x, y, steps), x_new, y_new)

    return vmap(one)(*task).mean()


def train(model: Curve, steps: int) -> list[float]:
    """Move the start so that a step from it helps."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    history = []
    for _ in range(steps):
        value = after_adapting(model, dict(model.named_parameters()), *tasks(16))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        history.append(value.item())
    return history


def draw(path: Path, model: Curve) -> None:
    """A new task before and after the steps."""
    from matplotlib.figure import Figure

    torch.manual_seed(5)
    x, y, *_ = (part[0] for part in tasks(1))
    grid = torch.linspace(-4, 4, 200)[:, None]
    start = dict(model.named_parameters())
    figure = Figure(figsize=(5.6, 3.6), dpi=90, layout="constrained")
    axes = figure.subplots()
    for count, color in ((0, "#c3c7d6"), (1, "#e0813c"), (5, "#3d6fb6")):
        moved = adapted(model, start, x, y, count)
        curve = functional_call(model, moved, (grid,)).detach()
        axes.plot(grid[:, 0], curve[:, 0], color=color, label=f"after {count} steps", linewidth=2)
    axes.scatter(x[:, 0], y[:, 0], color="#2b2d42", zorder=3, label="the task's points")
    axes.legend(frameon=False)
    axes.set(title="a new sine curve, learnt from ten points")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Train a start and judge it on new tasks; 0 when steps from it help enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    model = Curve()
    history = train(model, options.steps)
    start = {name: p.detach() for name, p in model.named_parameters()}
    new = tasks(100)
    before = after_adapting(model, start, *new, steps=0).item()
    after = after_adapting(model, start, *new, steps=5).item()
    print(f"training   {history[0]:.3f} at first, {history[-1]:.3f} after {options.steps} steps")
    print(f"new tasks  {before:.3f} from the start, {after:.3f} after five steps (goal: {GOAL})")
    if options.picture:
        draw(options.picture, model)
    return 0 if after < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
