"""Train a small network to tell three spirals apart, check its gradient, and draw what it learned.

Written as one would write it for torch: only the first import differs.
"""

import pullback as torch

# isort: split
import argparse
import copy
import math
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from tqdm import tqdm

F = torch.nn.functional

COLORS = ["#3d6fb6", "#e0813c", "#4f9d69"]
INK = "#2b2d42"
GOAL = 0.97


def spirals(points: int, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """As many `points` on each of three interleaved spirals, in the plane, and their labels."""
    along = torch.linspace(0.1, 1.0, points)
    arms = []
    for arm in range(len(COLORS)):
        turn = (
            1.75 * math.pi * along + 2 * math.pi * arm / len(COLORS) + noise * torch.randn(points)
        )
        arms.append(torch.stack([along * torch.cos(turn), along * torch.sin(turn)], dim=1))
    labels = [torch.full((points,), arm) for arm in range(len(COLORS))]
    return torch.cat(arms), torch.cat(labels)


def network(sizes: list[int]) -> torch.nn.Module:
    """Linear layers with tanh between them."""
    layers: list[torch.nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [torch.nn.Linear(n_in, n_out), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int) -> list[float]:
    """Fit the network to the points; returns the mean loss of each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    history = []
    with tqdm(range(epochs), desc="training", unit="epoch") as bar:
        for _ in bar:
            total = 0.0
            for batch in torch.randperm(len(x)).split(100):
                loss = F.cross_entropy(model(x[batch]), y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item() * len(batch)
            schedule.step()
            history.append(total / len(x))
            bar.set_postfix(loss=f"{history[-1]:.4f}", refresh=False)
    return history


@torch.no_grad()
def accuracy(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """The share of points whose class the network gets right."""
    return (model(x).argmax(dim=1) == y).float().mean().item()


def central_differences(
    loss: Callable[[], torch.Tensor], parameter: torch.Tensor, step: float = 1e-6
) -> Iterator[float]:
    """The derivative of `loss` by each element of `parameter`, by moving it a little both ways."""
    flat = parameter.detach().view(-1)
    with torch.no_grad():
        for i in range(flat.numel()):
            kept = flat[i].item()
            flat[i] = kept + step
            above = loss().item()
            flat[i] = kept - step
            below = loss().item()
            flat[i] = kept
            yield (above - below) / (2 * step)


def gradient_error(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """The largest distance of backward's gradient from finite differences, in float64."""
    model, x = copy.deepcopy(model).double(), x.double()

    def loss() -> torch.Tensor:
        return F.cross_entropy(model(x), y)

    loss().backward()
    worst = 0.0
    for parameter in model.parameters():
        numeric = torch.tensor(list(central_differences(loss, parameter)), dtype=torch.float64)
        worst = max(worst, (parameter.grad.view(-1) - numeric).abs().max().item())
    return worst


@torch.no_grad()
def draw_regions(ax: Axes, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """The plane in the colour of its most likely class, paler where the network is unsure."""
    side, edge = 400, 1.15
    ticks = torch.linspace(-edge, edge, side)
    plane = torch.stack([ticks.expand(side, side), ticks[:, None].expand(side, side)], dim=-1)
    chance = torch.softmax(model(plane.view(-1, 2)), dim=1).view(side, side, -1)
    colors = torch.tensor([to_rgb(color) for color in COLORS])
    extent = (-edge, edge, -edge, edge)
    ax.imshow((1 - 0.45 * (1 - chance @ colors)).numpy(), extent=extent, origin="lower")
    winner = chance.argmax(dim=-1)
    for arm, color in enumerate(COLORS):
        region = (winner == arm).float().numpy()
        ax.contour(region, levels=[0.5], extent=extent, colors="white", linewidths=1.4)
        ax.scatter(*x[y == arm].T.numpy(), s=13, color=color, edgecolors="white", linewidths=0.4)
    ax.set(xticks=[], yticks=[], aspect="equal", xlim=(-edge, edge), ylim=(-edge, edge))
    ax.spines[:].set_visible(False)


def draw_history(ax: Axes, history: list[float]) -> None:
    """The loss of each epoch, on a logarithmic scale."""
    epochs = range(1, len(history) + 1)
    ax.plot(epochs, history, color=INK, linewidth=1.8)
    floor = 10.0 ** math.floor(math.log10(min(history)))
    ax.fill_between(epochs, history, floor, color=INK, alpha=0.08, linewidth=0)
    ax.set(yscale="log", ylim=(floor, 1.2 * max(history)))
    ax.set(xlabel="epoch", xlim=(1, max(2, len(history))))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.grid(visible=True, which="major", color="#d9dbe4", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def draw(
    path: Path, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, history: list[float]
) -> None:
    """Save the picture: what the network learned, beside how it got there."""
    figure = Figure(figsize=(11, 5), dpi=150, layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    draw_regions(left, model, x, y)
    draw_history(right, history)
    score = accuracy(model, x, y)
    left.set_title(f"decision boundary, test accuracy {score:.1%}", color=INK, pad=10)
    right.set_title(f"training loss, {history[-1]:.4f} at the end", color=INK, pad=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Train, check, draw, and say how it went; 0 when the network and its gradient are good."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("build"), help="folder of the picture")
    options = parser.parse_args(argv)

    torch.manual_seed(0)
    x, y = spirals(points=400, noise=0.25)
    x_test, y_test = spirals(points=150, noise=0.25)
    model = network([2, 32, 32, len(COLORS)])

    error = gradient_error(model, x[::40], y[::40])
    count = sum(p.numel() for p in model.parameters())
    start = time.perf_counter()
    history = train(model, x, y, options.epochs)
    seconds = time.perf_counter() - start
    score = accuracy(model, x_test, y_test)
    picture = options.out / "classifier.png"
    draw(picture, model, x_test, y_test, history)

    print(f"gradient   {count} parameters, at most {error:.1e} from finite differences")
    print(f"training   {options.epochs} epochs in {seconds:.1f} s, loss {history[-1]:.4f}")
    print(f"accuracy   {score:.1%} on {len(x_test)} unseen points (goal: {GOAL:.0%})")
    print(f"picture    {picture}")
    return 0 if score >= GOAL and error < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
