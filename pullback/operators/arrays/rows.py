"""Rows of arrays: their sums in all of their places, and going through many of them in blocks.

What normalises (softmax, norm layers, cross entropy) adds up rows and then gives every element of
a row the sum. NumPy takes a microsecond longer to broadcast a column than to combine arrays of one
shape, so for few elements both are one product with a matrix of ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays.blocks import BLOCK, pieces
from pullback.operators.arrays.sums import sums, totals
from pullback.operators.arrays.threads import each

# Up to so many elements in rows of up to so many, a product with a square matrix costs what a
# product with a vector costs: the call.
FEW = 1024
SHORT = 32


class Squares(dict[tuple[int, str], Array]):
    """Square matrices by (size, dtype.char), made when first asked for: few, as rows are short."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, key: tuple[int, str]) -> Array:
        size, char = key
        made = self.make(size).astype(char)
        made.flags.writeable = False
        self[key] = made
        return made


# What `spread` multiplies by: for sums and for means.
SUMS = Squares(lambda n: numpy.ones((n, n)))
MEANS = Squares(lambda n: numpy.full((n, n), 1 / max(n, 1)))
EYES = Squares(numpy.eye)  # a row of it has a 1 at one place


def spread(xp: Namespace, square: Array, x: Array, dim: int) -> Array:
    """Sums (or means) along `dim`, in every place that they are the sum of, by one of `Squares`."""
    if dim == x.ndim - 1 < 2:
        return x.dot(square)
    shape = x.shape
    if dim == x.ndim - 1:
        return x.reshape(-1, shape[dim]).dot(square).reshape(shape)
    if x.ndim == 2:
        return square.dot(x)
    inner = math.prod(shape[dim + 1 :])
    return xp.matmul(square, x.reshape(math.prod(shape[:dim]), shape[dim], inner)).reshape(shape)


_LARGE = 1 << 16  # elements, from which on other threads are let run


def column(values: Array, shape: Any, out: Array | None = None) -> Array:
    """A number for each row of a matrix, in all of the row's places: a new array, or `out`."""
    if out is None:
        if shape[0] * shape[1] < _LARGE or type(values) is not numpy.ndarray:
            return values.repeat(shape[1]).reshape(shape)
        out = numpy.empty(shape, values.dtype)
    out[...] = values[:, None]  # a twentieth more than `repeat`, which lets no other thread run
    return out


def row_sums(xp: Namespace, x: Array) -> Array:
    """Sums along dimension 1, which stays with size 1."""
    return totals(xp, x)[:, None] if x.ndim == 2 else sums(xp, x, (1,), keepdim=True)


def along_rows(
    xp: Namespace, kernel: Callable[..., None], dim: int, x: Array, *others: Array
) -> Array:
    """Run `kernel(xp, out, x, *others)` on arrays of one shape, seen as (outer, `dim`, inner).

    What is outside of `dim` goes through in blocks. Half precision is computed in single.
    """
    if x.dtype.itemsize == 2:
        single = [array.astype(xp.float32) for array in (x, *others)]
        return along_rows(xp, kernel, dim, *single).astype(x.dtype)
    out = xp.empty(x.shape, x.dtype)
    if not x.size:
        return out
    size = x.shape[dim] if x.ndim else 1
    inner = math.prod(x.shape[dim + 1 :])
    shape = (x.size // (size * inner), size, inner) if inner > 1 else (x.size // size, size)
    result, *arrays = [array.reshape(shape) for array in (out, x, *others)]
    if x.size <= BLOCK:
        kernel(xp, result, *arrays)
        return out

    def work(block: slice) -> None:
        kernel(xp, result[block], *[array[block] for array in arrays])

    each(work, pieces(shape[0], size * inner))
    return out
