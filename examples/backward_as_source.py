"""Write the backward pass of a small network as Python source, and run it.

The text is in torch's words and needs no autograd: it can be read, changed, or run elsewhere.
"""

import pullback as torch

# isort: split
import argparse
import sys

F = torch.nn.functional


def main(arguments: list[str] | None = None) -> int:
    """Print the source; 0 if it gives the gradients that backward gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", help="where to write the source, too")
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
