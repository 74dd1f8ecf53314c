"""Pooling in the array language: windows of images without padding, and the way back."""

from __future__ import annotations

import math
from typing import NamedTuple

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.ir.windows import dense

__all__ = ["Pool", "averages", "maxima", "put", "spread_averages"]


class Pool(NamedTuple):
    """Windows of so many lines and columns, so far apart; sums are over a divisor."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    divisor: float = 1.0


def _planes(b: Builder, x: Val, dims: int = 2) -> Val:
    """(planes, lines, columns)."""
    lead = len(x.shape) - dims
    return b.reshape(dense(b, x), (math.prod(x.shape[:lead]), *x.shape[lead:]))


def _number(x: Val, pool: Pool) -> tuple[int, ...]:
    sides = zip(x.shape[-2:], pool.kernel, pool.stride, strict=True)
    return tuple((n - k) // s + 1 for n, k, s in sides)


def maxima(b: Builder, x: Val, pool: Pool, *, with_places: bool) -> list[Val]:
    """The largest of each window, and its place in the image: the first, or the last NaN."""
    planes, number = _planes(b, x), _number(x, pool)
    shape = (planes.shape[0], *number)
    made = [b.make("maxpool", (planes,), pool, shape, x.dtype)]
    if with_places:
        made.append(b.make("beside", (made[0],), None, shape, "i8"))
    return [b.reshape(one, (*x.shape[:-2], *number)) for one in made]


def averages(b: Builder, x: Val, pool: Pool) -> Val:
    """The sum of each window over the divisor."""
    planes, number = _planes(b, x), _number(x, pool)
    made = b.make("avgpool", (planes,), pool, (planes.shape[0], *number), x.dtype)
    return b.reshape(made, (*x.shape[:-2], *number))


def spread_averages(b: Builder, g: Val, size: tuple[int, int], pool: Pool) -> Val:
    """The adjoint of averages over windows side by side, of images of a size."""
    planes = _planes(b, g)
    made = b.make("avgspread", (planes,), pool, (planes.shape[0], *size), g.dtype)
    return b.reshape(made, (*g.shape[:-2], *size))


def put(b: Builder, g: Val, places: Val, size: tuple[int, ...]) -> Val:
    """Zeros of images of a size, with `g` added at its places."""
    lead, dims = g.shape[: -len(size)], len(size)
    rows = math.prod(lead)
    given = [b.reshape(_planes(b, one, dims), (rows, one.size // rows)) for one in (g, places)]
    made = b.make("putplaces", given, None, (rows, math.prod(size)), g.dtype)
    return b.reshape(made, (*lead, *size))
