"""How operators are measured one by one, at several sizes: what a line of their table is.

A line says how the inputs look for about `n` elements and what is called. Floating-point arrays
become leaves; forward and backward are timed apart, by `python -m benchmarks.sizes`. The lines are
in family_table.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from benchmarks.program import Program, Tensor, Work

Array: TypeAlias = Any
SIZES = (100, 10_000, 1_000_000)


class Draw:
    """Random inputs of about `n` elements."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.rng = np.random.default_rng(n)

    def side(self, dims: int = 2, fixed: int = 1) -> int:
        """The size of each of `dims` dims that hold n elements with `fixed` others."""
        size: float = (self.n / fixed) ** (1 / dims)
        return max(2, round(size))

    def __call__(self, *shape: int) -> Array:
        """Normal numbers."""
        return self.rng.standard_normal(shape, dtype=np.float32)

    def square(self) -> Array:
        """A square matrix of n elements."""
        return self(self.side(), self.side())

    def below(self, high: int, *shape: int) -> Array:
        """Integers from 0 up to `high`."""
        return self.rng.integers(0, high, shape)

    def images(self) -> Array:
        """A batch of images with 16 channels, or fewer where n is small."""
        if self.n < 1000:
            return self(1, 4, 5, 5)
        return self(4, 8, 18, 18) if self.n < 100_000 else self(16, 16, 64, 64)

    def matrices(self) -> Array:
        """A batch of well-conditioned matrices: 5 x 5, or 32 x 32."""
        side = 5 if self.n < 1000 else 32
        batch = max(1, self.n // side**2)
        return self(batch, side, side) / 8 + np.eye(side, dtype=np.float32)

    def positive_definite(self) -> Array:
        """The same, symmetric."""
        root = self.matrices()
        return root @ root.swapaxes(-1, -2)


@dataclass(frozen=True)
class Operator:
    """One line of the table."""

    family: str
    name: str
    inputs: Callable[[Draw], list[Array]]
    call: Callable[..., Any]  # of the library and the tensors; a tensor, or several
    backward: bool = True

    def forward_program(self, torch: ModuleType, n: int) -> Program:
        """The call, recorded where there is a backward."""
        tensors = self.tensors(torch, n)
        return Program(
            run=lambda _: self.call(torch, *tensors),
            together=True,
            answer=lambda out: [first_of(out).detach()] if self.backward else [],
        )

    def backward_program(self, torch: ModuleType, n: int) -> Program:
        """The gradients of all floating-point inputs, for a random gradient of the output."""
        tensors = self.tensors(torch, n)
        leaves = [tensor for tensor in tensors if tensor.requires_grad]
        shape = tuple(first_of(self.call(torch, *tensors)).shape)
        seed = torch.tensor(np.random.default_rng(1).standard_normal(shape, dtype=np.float32))
        return Program(
            prepare=lambda: first_of(self.call(torch, *tensors)),
            run=lambda out: torch.autograd.grad(out, leaves, seed),
            answer=list,
        )

    def tensors(self, torch: ModuleType, n: int) -> list[Tensor]:
        """Fresh inputs, the same ones in either library."""
        return [
            torch.tensor(array, requires_grad=self.backward and array.dtype.kind == "f")
            for array in self.inputs(Draw(n))
        ]


def first_of(out: Any) -> Tensor:
    """The output that is differentiated."""
    return out[0] if isinstance(out, tuple | list) else out


OPERATORS: dict[str, Operator] = {}


def operator(
    family: str,
    name: str,
    inputs: Callable[[Draw], list[Array]],
    call: Callable[..., Any],
    *,
    backward: bool = True,
) -> None:
    """Enter a line."""
    if name in OPERATORS:
        raise ValueError(f"two operators are called {name}: rename one of them")
    OPERATORS[name] = Operator(family, name, inputs, call, backward)


# Works --------------------------------------------------------------------------------------------

DIRECTIONS = ("forward", "backward")


def family_work(name: str) -> Work:
    """The work `family/operator/elements/direction`."""
    family, operator_name, elements, direction = name.split("/")
    line = OPERATORS[operator_name]
    build = line.forward_program if direction == "forward" else line.backward_program
    title = f"{family}: {operator_name}, {direction}, {elements} elements"
    return Work(name, title, lambda torch: build(torch, int(elements)), (), None)


def family_works(families: list[str], sizes: tuple[int, ...]) -> list[Work]:
    """Everything that there is to measure in these families."""
    return [
        family_work(f"{line.family}/{line.name}/{size}/{direction}")
        for line in OPERATORS.values()
        if line.family in families
        for size in sizes
        for direction in DIRECTIONS
        if line.backward or direction == "forward"
    ]
