"""A variational autoencoder: images encoded into two latent variables, and decoded again.

The images are rings and bars drawn by a formula, so nothing is downloaded. The random draw in
the middle is differentiated through `rsample`, and the divergence comes from `torch.distributions`.
"""

import pullback as torch

# isort: split
import argparse
import math
import sys
from pathlib import Path

from pullback.distributions import Normal, kl_divergence
from pullback.utils.data import DataLoader, TensorDataset

GOAL = 15.0
SIDE = 14


def pictures(count: int) -> torch.Tensor:
    """Rings of random size and bars of random direction, in grey."""
    ticks = torch.linspace(-1, 1, SIDE)
    x, y = torch.meshgrid(ticks, ticks, indexing="xy")
    size = 0.2 + 0.6 * torch.rand(count // 2, 1, 1)
    rings = torch.exp(-((torch.hypot(x, y) - size) ** 2) / 0.02)
    angle = math.pi * torch.rand(count - count // 2, 1, 1)
    bars = torch.exp(-((x * torch.sin(angle) - y * torch.cos(angle)) ** 2) / 0.02)
    return torch.cat([rings, bars]).reshape(count, SIDE * SIDE)


class Autoencoder(torch.nn.Module):
    """An encoder to a normal distribution in the plane, and a decoder from it."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(
            torch.nn.Linear(SIDE * SIDE, width), torch.nn.ReLU(), torch.nn.Linear(width, 4)
        )
        self.decoder = torch.nn.Sequential(
            *(torch.nn.Linear(2, width), torch.nn.ReLU()),
            *(torch.nn.Linear(width, width), torch.nn.ReLU()),
            torch.nn.Linear(width, SIDE * SIDE),
        )

    def encode(self, x: torch.Tensor) -> Normal:
        """Where a picture lies in the plane, and how surely."""
        mean, log_scale = self.encoder(x).chunk(2, dim=1)
        return Normal(mean, log_scale.exp())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The loss of each picture: what the decoder misses, and the price of the code."""
        code = self.encode(x)
        missed = torch.nn.functional.binary_cross_entropy_with_logits(
            self.decoder(code.rsample()), x, reduction="none"
        )
        price = kl_divergence(code, Normal(0.0, 1.0))
        return missed.sum(1) + price.sum(1)


def train(model: Autoencoder, data: torch.Tensor, epochs: int) -> list[float]:
    """Fit the model; the mean loss of each epoch."""
    loader = DataLoader(TensorDataset(data), batch_size=100, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.002)
    history = []
    for _ in range(epochs):
        total = 0.0
        for (batch,) in loader:
            loss = model(batch).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / len(loader)
        history.append(total)
    return history


@torch.no_grad()
def draw(path: Path, model: Autoencoder) -> None:
    """What the decoder makes of a grid of codes."""
    from matplotlib.figure import Figure

    count = 13
    ticks = torch.distributions.Normal(0.0, 1.0).icdf(torch.linspace(0.03, 0.97, count))
    codes = torch.cartesian_prod(ticks, ticks)
    made = torch.sigmoid(model.decoder(codes)).view(count, count, SIDE, SIDE)
    sheet = made.permute(0, 2, 1, 3).reshape(count * SIDE, count * SIDE)
    figure = Figure(figsize=(4.4, 4.4), dpi=90, layout="constrained")
    axes = figure.subplots()
    axes.imshow(sheet.numpy(), cmap="magma")
    axes.set(xticks=[], yticks=[], title="the plane of codes, decoded")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Train and say what a new picture costs; 0 when that is little."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    model = Autoencoder()
    history = train(model, pictures(2000), options.epochs)
    fresh = pictures(500)
    floor = torch.nn.functional.binary_cross_entropy(fresh, fresh, reduction="none").sum(1).mean()
    with torch.no_grad():
        over = (model(fresh).mean() - floor).item()
    print(f"training   {history[0]:.1f} at first, {history[-1]:.1f} after {options.epochs} epochs")
    print(f"new ones   {over:.1f} nats above what no model can beat (goal: {GOAL})")
    if options.picture:
        draw(options.picture, model)
    return 0 if over < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
