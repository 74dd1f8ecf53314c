"""Units with gradients: a ball thrown with air resistance, and the angle that goes farthest.

`Quantity` is a value with a unit, in a page of code over the array API: it knows nothing of
tensors, and metres cannot be added to seconds. The path of the ball is computed in quantities, and
the gradient of its length by the angle flows through them, in metres per radian.
"""

import pullback as torch

# isort: split
import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Unit = dict[str, int]


class UnitError(TypeError):
    """Quantities of different units were added, compared or taken for numbers."""


class Quantity:
    """A value of any array library, and its unit as powers: `Quantity(x, {"m": 1, "s": -1})`."""

    __array_ufunc__ = None  # arrays leave operators to this class

    def __init__(self, value: Any, unit: Unit | None = None) -> None:
        self.value = value
        self.unit = {name: power for name, power in (unit or {}).items() if power}

    def __repr__(self) -> str:
        words = [name if power == 1 else f"{name}^{power}" for name, power in self.unit.items()]
        return f"{self.value} {' '.join(words)}".rstrip()

    def in_unit(self, unit: Unit) -> Any:
        """The value, for whoever names the unit rightly."""
        if self.unit != unit:
            raise UnitError(f"expected {Quantity(1, unit)!r}, got the unit of {self!r}.")
        return self.value

    def __add__(self, other: Any) -> "Quantity":
        return Quantity(self.value + quantity(other).in_unit(self.unit), self.unit)

    def __sub__(self, other: Any) -> "Quantity":
        return Quantity(self.value - quantity(other).in_unit(self.unit), self.unit)

    def __mul__(self, other: Any) -> "Quantity":
        other = quantity(other)
        names = {**self.unit, **other.unit}
        unit = {name: self.unit.get(name, 0) + other.unit.get(name, 0) for name in names}
        return Quantity(self.value * other.value, unit)

    __radd__, __rmul__ = __add__, __mul__

    def __pow__(self, power: int) -> "Quantity":
        return Quantity(self.value**power, {name: p * power for name, p in self.unit.items()})

    def __truediv__(self, other: Any) -> "Quantity":
        return self * quantity(other) ** -1

    def __neg__(self) -> "Quantity":
        return Quantity(-self.value, self.unit)

    def __lt__(self, other: Any) -> Any:
        return self.value < quantity(other).in_unit(self.unit)


def quantity(value: Any) -> Quantity:
    """A number is a quantity without a unit."""
    return value if isinstance(value, Quantity) else Quantity(value)


def lifted(name: str) -> Callable[[Any], Quantity]:
    """A function of the namespace on quantities; it takes pure numbers, as `sin` does."""

    def function(x: Any) -> Quantity:
        value = quantity(x).in_unit({})
        return Quantity(getattr(value.__array_namespace__(), name)(value))

    return function


def norm(x: Quantity, y: Quantity) -> Quantity:
    """The length of a vector, in the unit of its parts."""
    other = y.in_unit(x.unit)
    return Quantity(x.value.__array_namespace__().hypot(x.value, other), x.unit)


def slope(result: Quantity, by: Quantity) -> Quantity:
    """The derivative of one quantity by another, with its unit."""
    (value,) = torch.autograd.grad(result.value, by.value)
    return Quantity(value, (result / Quantity(1.0, by.unit)).unit)


METRE, SECOND, KILOGRAM = {"m": 1}, {"s": 1}, {"kg": 1}
GRAVITY = Quantity(9.81, {"m": 1, "s": -2})
MASS = Quantity(0.145, KILOGRAM)
DRAG = Quantity(0.0013, {"kg": 1, "m": -1})  # force by the square of the speed
STEP = Quantity(0.02, SECOND)


def thrown(angle: Quantity, speed: Quantity) -> Quantity:
    """How far from the thrower the ball comes down."""
    sin, cos = lifted("sin"), lifted("cos")
    turned = Quantity(angle.in_unit({"rad": 1}))
    across, up = speed * cos(turned), speed * sin(turned)
    x, height = Quantity(0.0, METRE), Quantity(0.0, METRE)
    while True:
        resistance = DRAG / MASS * norm(across, up)
        across, up = (
            across - STEP * resistance * across,
            up - STEP * (GRAVITY + resistance * up),
        )
        below = height + STEP * up
        if below < Quantity(0.0, METRE):
            part = height / (height - below)  # where in the step it touches the ground
            return x + part * STEP * across
        x, height = x + STEP * across, below


def draw(path: Path, speed: Quantity) -> None:
    """How far the ball goes by the angle, with the slope that the gradient gives at each."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.2), dpi=90, layout="constrained")
    axes = figure.subplots()
    for degrees in range(10, 75, 5):
        radians = torch.tensor(math.radians(degrees), dtype=torch.float64, requires_grad=True)
        angle = Quantity(radians, {"rad": 1})
        distance = thrown(angle, speed)
        steep = slope(distance, angle).in_unit({"m": 1, "rad": -1}).item()
        far, half = distance.in_unit(METRE).item(), 2.0
        rise = steep * math.radians(half)
        axes.plot([degrees - half, degrees + half], [far - rise, far + rise], color="#e0813c")
        axes.plot(degrees, far, ".", color="#3d6fb6")
    axes.set(xlabel="angle, degrees", ylabel="distance, m", title="with its gradient at each angle")
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> int:
    """Climb to the best angle; 0 where the gradient has vanished there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--picture", type=Path, help="file to draw into; needs matplotlib")
    options = parser.parse_args(arguments)
    speed = Quantity(40.0, {"m": 1, "s": -1})
    radians = torch.tensor(math.radians(30.0), dtype=torch.float64)
    for _ in range(options.steps):
        angle = Quantity(radians.requires_grad_(), {"rad": 1})
        distance = thrown(angle, speed)
        steepness = slope(distance, angle)
        radians = radians.detach() + 0.003 * steepness.in_unit({"m": 1, "rad": -1})
    print(f"farthest at {math.degrees(radians.item()):.1f} degrees: {distance.value.item():.2f} m")
    print(f"slope there: {steepness.value.item():.4f} {' '.join(steepness.unit)}^-1")
    if options.picture:
        draw(options.picture, speed)
    try:
        speed + MASS
    except UnitError as error:
        print(f"and speed + mass: {error}")
    return 0 if abs(steepness.value.item()) < 2 else 1


if __name__ == "__main__":
    sys.exit(main())
