"""One program for every array library: it runs on NumPy arrays, and is differentiable on tensors.

`log_likelihood` knows only the array API standard: it asks its arrays for their namespace. NumPy's
arrays give the numbers; tensors give the gradient too, by which the width, height and noise of a
Gaussian process are fitted to measurements.
"""

import pullback as torch

# isort: split
import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy

GOAL = 0.1  # how far the fitted noise may be from the true one


def kernel(x: Any, y: Any, width: Any, height: Any) -> Any:
    """How alike the values at two sets of places are."""
    xp = x.__array_namespace__()
    apart = (xp.expand_dims(x, axis=1) - xp.expand_dims(y, axis=0)) / width
    return height**2 * xp.exp(-0.5 * apart**2)


def log_likelihood(x: Any, y: Any, width: Any, height: Any, noise: Any) -> Any:
    """How well a Gaussian process explains the values `y` at the places `x`."""
    xp = x.__array_namespace__()
    n = x.shape[0]
    covariance = kernel(x, x, width, height) + noise**2 * xp.eye(n, dtype=x.dtype)
    root = xp.linalg.cholesky(covariance)
    solved = xp.linalg.solve(covariance, y)
    size = xp.sum(xp.log(xp.linalg.diagonal(root)))
    return -0.5 * xp.vecdot(y, solved) - size - 0.5 * n * math.log(2 * math.pi)


def measured(count: int, noise: float) -> tuple[Any, Any]:
    """Places, and a sine there with noise."""
    random = numpy.random.default_rng(0)
    x = numpy.linspace(0, 6, count)
    return x, numpy.sin(x) + noise * random.standard_normal(count)


def draw(path: Path, x: Any, y: Any, width: float, height: float, noise: float) -> None:
    """The measurements, and what the fitted process says between them, by NumPy alone."""
    from matplotlib.figure import Figure

    places = numpy.linspace(-1, 8, 300)
    covariance = kernel(x, x, width, height) + noise**2 * numpy.eye(len(x))
    across = kernel(places, x, width, height)
    mean = across @ numpy.linalg.solve(covariance, y)
    known = numpy.sum(across * numpy.linalg.solve(covariance, across.T).T, axis=1)
    spread = numpy.sqrt(numpy.maximum(height**2 - known, 0))
    figure = Figure(figsize=(6, 3.2), dpi=90, layout="constrained")
    axes = figure.subplots()
    band = (mean - 2 * spread, mean + 2 * spread)
    axes.fill_between(places, *band, color="#3d6fb6", alpha=0.25, label="two deviations")
    axes.plot(places, mean, color="#3d6fb6", label="mean")
    axes.plot(x, y, ".", color="#e0813c", label="measured")
    axes.legend(loc="lower left")
    axes.set(title=f"width {width:.2f}, height {height:.2f}, noise {noise:.2f}: fitted")
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> int:
    """Fit, compare with NumPy; 0 where the noise was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(arguments)
    x, y = measured(40, noise=0.2)
    places, values = torch.from_numpy(x), torch.from_numpy(y)
    logs = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logs], lr=0.05)
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = -log_likelihood(places, values, *torch.exp(logs))
        loss.backward()
        optimizer.step()
    width, height, noise = torch.exp(logs).tolist()
    if options.picture:
        draw(options.picture, x, y, width, height, noise)
    by_numpy = log_likelihood(x, y, *(numpy.float64(one) for one in (width, height, noise)))
    by_tensors = log_likelihood(places, values, *torch.exp(logs)).item()
    print(f"width {width:.3f}, height {height:.3f}, noise {noise:.3f} (0.2 was put in)")
    print(f"log likelihood: {by_numpy:.6f} by NumPy, {by_tensors:.6f} by tensors")
    found = abs(noise - 0.2) < GOAL and math.isclose(by_numpy, by_tensors, rel_tol=1e-9)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
