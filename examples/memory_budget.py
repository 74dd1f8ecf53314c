"""Train a deep network in a fraction of the memory its graph would need, with identical results.

One object, used at each step: the first step measures what is saved and what it costs to compute it
again, the others follow a plan.
"""

import pullback as torch

# isort: split
import argparse
import sys
from pathlib import Path
from typing import Any

nn = torch.nn


def network(depth: int, width: int) -> nn.Sequential:
    """Linear maps, norms and activations."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*layers)


def trained(budget: object, depth: int, steps: int) -> list[float]:
    """The losses of a few steps, inside a budget or, for None, without one."""
    torch.manual_seed(0)
    net = network(depth, 128)
    x, wanted = torch.randn(256, 128), torch.randn(256, 128)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with budget if budget is not None else torch.enable_grad():
            loss = nn.functional.mse_loss(net(x), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def draw(path: Path, steps: dict[str, Any]) -> None:
    """What each budget held at most at once, and what it computed again for that."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3), dpi=90, layout="constrained")
    for axes, title, colour, sizes in zip(
        figure.subplots(1, 2),
        ("held at once, MiB", "computed again, MiB"),
        ("#3d6fb6", "#e0813c"),
        zip(*((one.peak, one.recomputed) for one in steps.values()), strict=True),
        strict=True,
    ):
        bars = axes.bar(list(steps), [size / 2**20 for size in sizes], color=colour)
        axes.bar_label(bars, fmt="%.1f")
        axes.set(title=title, xlabel="budget")
        axes.margins(y=0.12)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> int:
    """Compare training with and without budgets; 0 if all losses are the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(arguments)
    plain = trained(None, options.depth, options.steps)
    whole = torch.autograd.graph.memory_budget("1 GiB")
    same = trained(whole, options.depth, options.steps) == plain
    print(f"saved for backward: {whole.last.saved / 2**20:.1f} MiB")
    done = {"none": whole.last}
    for share in (2, 4, 8):
        budget = torch.autograd.graph.memory_budget(whole.last.saved // share)
        same &= trained(budget, options.depth, options.steps) == plain
        print(f"1/{share}: {budget.last}")
        done[f"1/{share} of it"] = budget.last
    if options.picture:
        draw(options.picture, done)
    print("the losses are the same bits" if same else "the losses differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
