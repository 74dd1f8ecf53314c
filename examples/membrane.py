"""The equilibrium of a heated membrane by Newton's method, with a sparse Hessian of its energy.

Bratu's equation, -(u_xx + u_yy) = heat * exp(u) on a square with u = 0 around it, is where the
energy of a grid of springs is stationary. The Hessian of that energy has five entries in a row; it
is found by tracing, and computed with a handful of tangents for thousands of unknowns.
"""

import pullback as torch

# isort: split
import argparse
import math
import sys
from pathlib import Path

GOAL = 1e-9
HEAT = 6.0  # above 6.81 there is no solution


def energy(heights: torch.Tensor) -> torch.Tensor:
    """Of springs between neighbours on a square, less what the heat gives."""
    side = math.isqrt(len(heights))
    u = torch.nn.functional.pad(heights.reshape(side, side), (1, 1, 1, 1))
    springs = (u[1:] - u[:-1]).square().sum() + (u[:, 1:] - u[:, :-1]).square().sum()
    return springs / 2 - HEAT / (side + 1) ** 2 * heights.exp().sum()


def solve(matrix: torch.Tensor, right: torch.Tensor, precision: float = 1e-12) -> torch.Tensor:
    """Conjugate gradients: the solution of a symmetric positive system."""
    solution = torch.zeros_like(right)
    rest = direction = right
    size = rest @ rest
    for _ in range(10 * len(right)):
        if size <= precision**2 * (right @ right):
            break
        turned = torch.mv(matrix, direction)
        step = size / (direction @ turned)
        solution = solution + step * direction
        rest = rest - step * turned
        size, before = rest @ rest, size
        direction = rest + size / before * direction
    return solution


def newton(side: int, steps: int) -> tuple[torch.Tensor, list[float], torch.func.SparsityPattern]:
    """Heights at rest, the residual before each step and at the end, and the pattern."""
    u = torch.zeros(side * side, dtype=torch.float64)
    slope = torch.func.grad(energy)
    pattern = torch.func.hessian_sparsity(energy)(u)
    hessian = torch.func.sparse_hessian(energy, pattern=pattern)
    history = [float(slope(u).abs().max())]
    for _ in range(steps):
        u = u - solve(hessian(u).to_sparse_csr(), slope(u))
        history.append(float(slope(u).abs().max()))
    return u, history, pattern


def draw(path: Path, u: torch.Tensor, pattern: torch.func.SparsityPattern) -> None:
    """The membrane, a corner of the Hessian's pattern, and the passes it takes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), dpi=90, layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    side = math.isqrt(len(u))
    image = left.imshow(u.reshape(side, side).numpy(), cmap="inferno", extent=(0, 1, 0, 1))
    left.set(title="height at rest")
    figure.colorbar(image, ax=left)
    shown = 3 * side
    near = (pattern.rows < shown) & (pattern.columns < shown)
    colours = pattern.colouring[pattern.columns[near]]
    middle.scatter(pattern.columns[near], pattern.rows[near], c=colours, s=2, cmap="tab10")
    middle.set(title="its Hessian, a corner, by colours", aspect="equal")
    middle.invert_yaxis()
    right.bar(["dense", "sparse"], [len(u), pattern.passes], color=["#3d6fb6", "#e0813c"])
    right.set(title="products with the Hessian", yscale="log")
    for place, count in enumerate([len(u), pattern.passes]):
        right.text(place, count, str(count), ha="center", va="bottom")
    figure.savefig(path)


def main(argv: list[str] | None = None) -> int:
    """Solve; 0 when the forces on all points are gone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--side", type=int, default=48)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(argv)
    u, history, pattern = newton(options.side, options.steps)
    print(f"pattern    {pattern}")
    print(f"passes     {pattern.passes} for each Hessian of {len(u)} unknowns")
    print(f"force      {history[0]:.6f} at first, {history[-1]:.12f} after {options.steps} steps")
    print(f"height     {float(u.max()):.4f} in the middle")
    if options.picture:
        draw(options.picture, u, pattern)
    return 0 if history[-1] < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
