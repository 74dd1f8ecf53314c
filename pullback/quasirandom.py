"""`torch.quasirandom`: Sobol points, which fill the unit cube more evenly than random ones.

The direction numbers are those of Joe and Kuo (2008), the same that torch has; SciPy brings them
as a file, up to 21,201 dimensions, so this module needs SciPy (the extra `full`).
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy

from pullback.core.dtype import DTYPES, as_dtype, get_default_dtype
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor, wrap
from pullback.installed import install_command
from pullback.operators.random.generator import Generator
from pullback.operators.random.tensors import randint

__all__ = ["SobolEngine"]

_BITS = 30
_MOST_DIMENSIONS = 21201
Integers = numpy.ndarray[Any, Any]


@cache
def _published() -> tuple[Integers, Integers]:
    """Primitive polynomials and first direction numbers of each dimension."""
    # The file alone: importing scipy.stats for it would take a second.
    scipy = find_spec("scipy")
    if scipy is None or scipy.origin is None:
        raise ImportError(
            "SobolEngine needs SciPy (the extra pullback[full]) for its direction numbers: "
            f"{install_command('scipy')}."
        )
    with numpy.load(Path(scipy.origin).parent / "stats" / "_sobol_direction_numbers.npz") as file:
        return file["poly"].astype(numpy.int64), file["vinit"].astype(numpy.int64)


def _directions(dimension: int) -> Integers:
    """A row of `_BITS` direction numbers for each dimension, scaled to `_BITS` bits."""
    polynomials, first = _published()
    rows = numpy.ones((dimension, _BITS), numpy.int64)
    for row in range(1, dimension):
        polynomial = int(polynomials[row])
        degree = polynomial.bit_length() - 1
        numbers = [int(number) for number in first[row, :degree]]
        # The recurrence of Bratley and Fox (1988).
        for place in range(degree, _BITS):
            new = numbers[place - degree]
            for step in range(1, degree + 1):
                if polynomial >> (degree - step) & 1:
                    new ^= numbers[place - step] << step
            numbers.append(new)
        rows[row] = numbers
    return rows << numpy.arange(_BITS - 1, -1, -1)


def _trailing_ones(start: int, count: int) -> Integers:
    """How many ones each of `count` numbers from `start` on ends with."""
    numbers = numpy.arange(start, start + count, dtype=numpy.int64)
    lowest_zero = ~numbers & (numbers + 1)
    return numpy.log2(lowest_zero.astype(numpy.float64)).astype(numpy.int64)


class SobolEngine:
    """Gives Sobol points one after the other, plain or scrambled by a seed.

    Example:
        >>> import pullback as torch
        >>> torch.quasirandom.SobolEngine(dimension=2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = _BITS
    MAXDIM = _MOST_DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= _MOST_DIMENSIONS:
            raise ValueError(
                f"SobolEngine: dimension must be from 1 to {_MOST_DIMENSIONS}, got {dimension}."
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.num_generated = 0
        directions = _directions(dimension)
        shift = numpy.zeros(dimension, numpy.int64)
        if scramble:
            directions, shift = self._scrambled(directions)
        self.sobolstate: Tensor = wrap(directions)
        self.shift: Tensor = wrap(shift)
        self.quasi: Tensor = wrap(shift.copy())

    def _scrambled(self, directions: Integers) -> tuple[Integers, Integers]:
        """Matousek's scrambling: a random lower triangular matrix of bits, and a random shift."""
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        bits: Any = randint(2, (self.dimension, _BITS), generator=generator)
        shift = bits._array @ (1 << numpy.arange(_BITS, dtype=numpy.int64))
        drawn: Any = randint(2, (self.dimension, _BITS, _BITS), generator=generator)
        triangle = numpy.tril(drawn._array)
        triangle[:, range(_BITS), range(_BITS)] = 1
        places = numpy.arange(_BITS - 1, -1, -1)  # the first bit is the highest
        digits = directions[:, None, :] >> places[:, None] & 1
        mixed = (triangle @ digits) & 1
        return (mixed << places[:, None]).sum(1), shift

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `n` points, a row each."""
        if n < 1:
            raise RuntimeError(f"SobolEngine.draw: n must be positive, got {n}.")
        kind = get_default_dtype() if dtype is None else as_dtype(dtype)
        if kind not in (DTYPES["float32"], DTYPES["float64"]):
            raise NotImplementedError(
                f"SobolEngine.draw: points are float32 or float64, not {kind}."
            )
        points = wrap((self._next(n) * 2.0**-_BITS).astype(kind.numpy))
        if out is None:
            return points
        out.resize_(points.shape)
        return out.copy_(points)

    def _next(self, count: int) -> Integers:
        """The next points, as whole numbers; in Gray code order each differs by one direction."""
        state = self.quasi._array
        steps = _trailing_ones(self.num_generated, count)
        changes = self.sobolstate._array.T[steps]
        points = numpy.empty((count + 1, self.dimension), numpy.int64)
        points[0] = state
        points[1:] = changes
        numpy.bitwise_xor.accumulate(points, axis=0, out=points)
        state[...] = points[-1]
        self.num_generated += count
        return points[:-1]

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next `2**m` points; the total must stay a power of 2, where points are balanced."""
        count = 2**m
        total = self.num_generated + count
        if total & (total - 1):
            raise ValueError(
                f"SobolEngine.draw_base2: with the {self.num_generated} points before, 2**{m} more "
                f"make {total}, no power of 2; use draw, or reset first."
            )
        return self.draw(count, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points."""
        # The state after k points is the sum of the directions of k's Gray code.
        self.num_generated += n
        gray = self.num_generated ^ (self.num_generated >> 1)
        chosen = [bit for bit in range(_BITS) if gray >> bit & 1]
        columns = self.sobolstate._array[:, chosen]
        self.quasi._array[...] = numpy.bitwise_xor.reduce(columns, axis=1) ^ self.shift._array
        return self

    def reset(self) -> SobolEngine:
        """Start again from the first point."""
        self.quasi._array[...] = self.shift._array
        self.num_generated = 0
        return self

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"SobolEngine({', '.join(parts)})"


__dir__ = _only_public(globals())
