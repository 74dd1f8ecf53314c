"""Gradients of one network in fractions, 100-digit floats, intervals and symbolic expressions.

The same few lines run with fractions, with mpmath's long floats and intervals, and with SymPy's
symbols; each result is held against the others. Needs mpmath (`pip install pullback[numbers]`) and,
for the last part, SymPy.
"""

import pullback as torch

# isort: split
import argparse
import random
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath

DIGITS = 100
# A network with two inputs, two hidden units and one output; all its weights are decimals.
WEIGHTS = ["0.3", "-0.2", "0.5", "0.1", "-0.4", "0.7"]
POINT = ["1.5", "-0.7"]


def loss_of(weights: torch.Tensor, point: torch.Tensor, bend: Any) -> torch.Tensor:
    """The square of the network's output."""
    hidden = bend(weights[:4].reshape(2, 2) @ point)
    return (weights[4:] * hidden).sum() ** 2


def rational(x: torch.Tensor) -> torch.Tensor:
    """A bend like tanh that fractions have, too: x / (1 + x^2)."""
    return x / (1 + x * x)


def gradient(numbers: type, bend: Any) -> list[Any]:
    """The gradient of the loss by the weights, in numbers of a type."""
    weights = torch.tensor(WEIGHTS, dtype=numbers, requires_grad=True)
    loss_of(weights, torch.tensor(POINT, dtype=numbers), bend).backward()
    found: list[Any] = weights.grad.tolist()
    return found


def exact() -> list[Fraction]:
    """As fractions; `gradcheck` asks for equality to the last digit."""
    weights = torch.tensor(WEIGHTS, dtype=Fraction, requires_grad=True)
    point = torch.tensor(POINT, dtype=Fraction)
    assert torch.autograd.gradcheck(lambda w: loss_of(w, point, rational), weights)
    return gradient(Fraction, rational)


def formula() -> tuple[Any, float]:
    """The derivative by the first weight as a formula, and its value at the weights."""
    import sympy

    names = sympy.symbols("w:6 x y")
    weights = torch.tensor(names[:6], requires_grad=True)
    loss_of(weights, torch.tensor(names[6:]), torch.tanh).backward()
    first = weights.grad[0].item()
    at = {name: sympy.Rational(one) for name, one in zip(names, WEIGHTS + POINT, strict=True)}
    return first, float(first.subs(at).evalf(30))


def slope_at(weights: list[Any]) -> Any:
    """The gradient by the first weight, for weights of any type of numbers."""
    given = torch.tensor(weights, requires_grad=True)
    loss_of(given, torch.tensor(POINT, dtype=given.dtype), torch.tanh).backward()
    return given.grad[0].item()


def draw(path: Path) -> None:
    """The enclosure of a gradient as the weights are known less and less, and gradients inside."""
    from matplotlib.figure import Figure

    chance, iv = random.Random(0), mpmath.iv
    widths = [0.01 * step for step in range(26)]
    boxes = [slope_at([iv.mpf([float(one) - w, float(one) + w]) for one in WEIGHTS])
             for w in widths]  # fmt: skip
    figure = Figure(figsize=(6, 3.2), dpi=90, layout="constrained")
    axes = figure.subplots()
    low, high = ([float(getattr(box, end)) for box in boxes] for end in "ab")
    axes.fill_between(widths, low, high, color="#3d6fb6", alpha=0.25, label="enclosure")
    drawn = [chance.uniform(0, widths[-1]) for _ in range(400)]
    found = [float(slope_at([mpmath.mpf(one) + chance.uniform(-w, w) for one in WEIGHTS]))
             for w in drawn]  # fmt: skip
    axes.scatter(drawn, found, s=4, color="#e0813c", label="gradients at weights inside")
    axes.set(xlabel="each weight is known up to", ylabel="gradient by the first weight")
    axes.legend(loc="upper left")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Compute, print and compare; 0 when all agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=DIGITS)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    mpmath.mp.dps = options.digits + 10
    fractions = exact()
    print(f"exact      {fractions[0]}")
    long = gradient(mpmath.mpf, rational)
    difference = max(abs(a - mpmath.mpf(b.numerator) / b.denominator)
                     for a, b in zip(long, fractions, strict=True))  # fmt: skip
    print(f"digits     {mpmath.nstr(long[0], options.digits)}")
    print(f"           {mpmath.nstr(difference, 3)} from the exact ones at most")
    true = gradient(mpmath.mpf, torch.tanh)
    boxes = gradient(mpmath.iv.mpf, torch.tanh)
    enclosed = all(box.a <= mpmath.iv.mpf(value) <= box.b
                   for box, value in zip(boxes, true, strict=True))  # fmt: skip
    print(f"enclosed   {boxes[0]}, by tanh: {'holds' if enclosed else 'DOES NOT HOLD'}")
    first, value = formula()
    print(f"formula    {first}")
    print(f"           {value:.15f} there, {float(true[0]):.15f} by long floats")
    if options.picture:
        draw(options.picture)
    agree = difference < mpmath.mpf(10) ** -options.digits and abs(value - float(true[0])) < 1e-15
    return 0 if agree and enclosed else 1


if __name__ == "__main__":
    sys.exit(main())
