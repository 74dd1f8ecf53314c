"""Write the backward pass of a small network as Python source, and run it.

The text is in torch's words and needs no autograd: it can be read, changed, or run elsewhere.
"""

import pullback as torch

# isort: split
import argparse
import sys
from pathlib import Path

F = torch.nn.functional


def draw(path: Path, text: str) -> None:
    """The text of the backward pass; what comes from one line of the program has one colour."""
    from matplotlib.figure import Figure

    lines = text[text.index("def ") :].rstrip().splitlines()
    height = 0.19 * len(lines) + 0.2
    figure = Figure(figsize=(7.5, height), dpi=90)
    colours, said = ("#3d6fb6", "#b5532b", "#3a7d44", "#7a4fa3"), 0
    for number, line in enumerate(lines):
        said += line.lstrip().startswith("#")
        place = 1 - (0.1 + 0.19 * (number + 0.5)) / height
        colour = colours[said % len(colours)] if said else "#222222"
        figure.text(0.02, place, line, family="monospace", size=8.5, color=colour, va="center")
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> int:
    """Print the source; 0 if it gives the gradients that backward gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", help="where to write the source, too")
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))
    weight = torch.randn(3, 4, requires_grad=True)
    bias = torch.zeros(3, requires_grad=True)
    hidden = torch.tanh(F.linear(x, weight, bias))
    loss = F.cross_entropy(hidden, labels)

    source = torch.autograd.graph.source(loss, [weight, bias])
    print(source)
    if options.file:
        source.save(options.file)
    if options.picture:
        draw(options.picture, source.text)
    loss.backward()
    close = [torch.allclose(one, other) for one, other in
             zip(source(), (weight.grad, bias.grad), strict=True)]  # fmt: skip

    # A function's gradient, before anything has run: forward and backward in one.
    gradient = torch.func.source(torch.func.grad(lambda t: (t.sin() * t).sum()), torch.ones(3))
    print(gradient)
    print("the gradients agree" if all(close) else "the gradients differ")
    return 0 if all(close) else 1


if __name__ == "__main__":
    sys.exit(main())
