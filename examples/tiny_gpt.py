"""A transformer that learns to add: causal attention, embeddings, and a sampler, in a page.

It sees sums such as `17+58=75`, the result written backwards so that carries come in order, and is
asked for sums that it never saw.
"""

import pullback as torch

# isort: split
import argparse
import sys
from pathlib import Path

import numpy

F = torch.nn.functional
GOAL = 0.9
SYMBOLS = "0123456789+="
LENGTH = 9  # "17+58=570": two numbers of two digits, the sum backwards with three


class Block(torch.nn.Module):
    """Attention to what came before, then a small network; each adds to what flows through."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attend = torch.nn.Linear(width, 3 * width)
        self.mix = torch.nn.Linear(width, width)
        self.think = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape, with each place knowing more of those before it."""
        n, length, width = x.shape
        parts = self.attend(self.first(x)).view(n, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mix(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.think(self.second(x))


class GPT(torch.nn.Module):
    """Symbols in, and for each place the next symbol out."""

    def __init__(self, width: int = 48, heads: int = 3, blocks: int = 2) -> None:
        super().__init__()
        self.symbol = torch.nn.Embedding(len(SYMBOLS), width)
        self.place = torch.nn.Embedding(LENGTH, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.out = torch.nn.Sequential(
            torch.nn.LayerNorm(width), torch.nn.Linear(width, len(SYMBOLS))
        )

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Logits of the symbol that follows each place."""
        places = torch.arange(text.shape[1])
        return self.out(self.blocks(self.symbol(text) + self.place(places)))

    @torch.no_grad()
    def complete(self, text: torch.Tensor) -> torch.Tensor:
        """Write on, the likeliest symbol each time, to the full length."""
        while text.shape[1] < LENGTH:
            text = torch.cat([text, self(text)[:, -1:].argmax(-1)], dim=1)
        return text


def sums() -> torch.Tensor:
    """All 10,000 sums of two numbers below a hundred, as rows of symbols."""
    a, b = torch.cartesian_prod(torch.arange(100), torch.arange(100)).T
    total = a + b
    plus, equals = torch.full_like(a, 10), torch.full_like(a, 11)
    digits = [a // 10, a % 10, plus, b // 10, b % 10, equals]
    return torch.stack([*digits, total % 10, total // 10 % 10, total // 100], dim=1)


def train(model: GPT, data: torch.Tensor, steps: int) -> list[float]:
    """Learn to write what follows the sign."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.004, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.004, total_steps=steps)
    history = []
    for _ in range(steps):
        batch = data[torch.randint(0, len(data), (128,))]
        logits = model(batch[:, :-1])[:, 5:]
        loss = F.cross_entropy(logits.reshape(-1, len(SYMBOLS)), batch[:, 6:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        history.append(loss.item())
    return history


def draw(path: Path, model: GPT) -> None:
    """Which sums it gets right: the table of addition, every other row and column, as a picture."""
    from matplotlib.figure import Figure

    every = sums().view(100, 100, -1)[::2, ::2].reshape(2500, -1)
    right = (model.complete(every[:, :6]) == every).all(1).view(50, 50).float()
    figure = Figure(figsize=(4.6, 4.4), dpi=90, layout="constrained")
    axes = figure.subplots()
    extent = (0, 100, 0, 100)
    axes.imshow(right.numpy(), cmap="RdYlGn", vmin=0, vmax=1, origin="lower", extent=extent)
    share = right.mean().item()
    axes.set(xlabel="b", ylabel="a", title=f"a + b: {share:.1%} right, half of them never seen")
    figure.savefig(path)


def text_of(row: torch.Tensor) -> str:
    """A row of symbols as text, the sum turned round."""
    shown = "".join(SYMBOLS[i] for i in row.tolist())
    return f"{shown[:6]}{shown[:5:-1].lstrip('0') or '0'}"


def main(argv: list[str] | None = None) -> int:
    """Train on half of all sums and ask for the others; 0 when most are right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    every = sums()
    order = torch.from_numpy(numpy.random.default_rng(0).permutation(len(every)))
    seen, unseen = order[:5000], order[5000:]
    model = GPT()
    history = train(model, every[seen], options.steps)
    asked = every[unseen[:1000]]
    written = model.complete(asked[:, :6])
    share = (written == asked).all(1).float().mean().item()
    print(f"loss       {history[0]:.2f} at first, {history[-1]:.4f} after {options.steps} steps")
    print(f"for example {', '.join(text_of(row) for row in written[:4])}")
    print(f"unseen     {share:.1%} of 1000 sums right (goal: {GOAL:.0%})")
    if options.picture:
        draw(options.picture, model)
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
