"""The parts that tables of sample inputs are written with: cases, and the values in them.

Values are NumPy arrays here, so that one table serves any module with torch's names: samples.py
turns an array of floating-point or complex numbers into a tensor to differentiate by, and any other
array into a tensor without gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy

from pullback.core.arrays import Array


class Case(NamedTuple):
    """Arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    # Whether finite differences make sense here: no kink, tie, pole or NaN.
    smooth: bool = True
    # Whether the call has no complex counterpart.
    real: bool = False


def case(*args: Any, **kwargs: Any) -> Case:
    """A call where the function is smooth."""
    return Case(args, kwargs)


def kink(*args: Any, **kwargs: Any) -> Case:
    """A call with values at which finite differences mean nothing; gradients are conventions."""
    return Case(args, kwargs, smooth=False)


def real(*args: Any, **kwargs: Any) -> Case:
    """A call that real numbers allow and complex ones do not."""
    return Case(args, kwargs, real=True)


def real_kink(*args: Any, **kwargs: Any) -> Case:
    """Both: values that are special, and real."""
    return Case(args, kwargs, smooth=False, real=True)


class Fixed(NamedTuple):
    """An array whose tensor takes no gradient, though its dtype would allow it."""

    array: Array


class DtypeName(str):
    """The dtype of this name, in whichever module the sample is for."""

    __slots__ = ()


class Draw:
    """Draws the arrays of a table's cases: in one dtype, the same ones in every run.

    Real numbers are spread evenly over their range, in random order, so that no two in an array
    are close enough for finite differences to swap them; and they stay off multiples of a half,
    where rounding and most activations have their kinks.
    """

    def __init__(self, dtype: numpy.dtype[Any], seed: int) -> None:
        self.dtype = dtype
        self.random = numpy.random.default_rng(seed)

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Array:
        """Numbers between `low` and `high`; complex ones have both parts there."""
        values = self._spread(shape, low, high)
        if self.dtype.kind == "c":
            values = values + 1j * self._spread(shape, low, high)
        return numpy.asarray(values, self.dtype)

    def _spread(self, shape: tuple[int, ...], low: float, high: float) -> Array:
        size = int(numpy.prod(shape))
        step = (high - low) / max(size, 1)
        places = self.random.permutation(size) + self.random.uniform(0.3, 0.7, size)
        values = low + step * places
        off = values - numpy.round(2 * values) / 2
        values += numpy.where(numpy.abs(off) < 0.02, numpy.where(off < 0, -0.02, 0.02), 0.0)
        return values.reshape(shape)

    def positive(self, *shape: int) -> Array:
        """Numbers well above zero."""
        return self(*shape, low=0.3, high=2.3)

    def unit(self, *shape: int) -> Array:
        """Numbers within (-1, 1)."""
        return self(*shape, low=-0.9, high=0.9)

    def fixed(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Fixed:
        """Numbers that take no gradient."""
        return Fixed(self(*shape, low=low, high=high))

    def of(self, *values: Any) -> Array:
        """These very values."""
        return numpy.array(values, self.dtype)

    def ints(self, *shape: int, low: int = 0, high: int = 5) -> Array:
        """Integers from `low` up to but not including `high`."""
        return numpy.asarray(self.random.integers(low, high, shape))

    def bools(self, *shape: int) -> Array:
        """True and False."""
        return numpy.asarray(self.random.integers(0, 2, shape), bool)

    def positive_definite(self, *shape: int) -> Array:
        """Hermitian matrices with eigenvalues well above zero."""
        root = self(*shape)
        return root @ root.swapaxes(-1, -2).conj() + 2 * numpy.eye(shape[-1]).astype(self.dtype)


LAYOUTS: dict[str, Callable[[Array], Array]] = {}


def layout(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Enter a way to lay an array out in memory, under its name."""
    LAYOUTS[function.__name__] = function
    return function


@layout
def contiguous(array: Array) -> Array:
    """Row after row."""
    return numpy.array(array, order="C")


@layout
def transposed(array: Array) -> Array:
    """Column after column."""
    return numpy.array(array, order="F")


@layout
def swapped(array: Array) -> Array:
    """The last two dimensions swapped in memory."""
    if array.ndim < 2:
        return contiguous(array)
    return contiguous(array.swapaxes(-1, -2)).swapaxes(-1, -2)


@layout
def channels_last(array: Array) -> Array:
    """The second dimension fastest in memory."""
    if array.ndim < 3:
        return contiguous(array)
    return numpy.moveaxis(contiguous(numpy.moveaxis(array, 1, -1)), -1, 1)


@layout
def rotated(array: Array) -> Array:
    """The first dimension fastest in memory, as of a picture whose channels were put first."""
    if array.ndim < 3:
        return contiguous(array)
    return numpy.moveaxis(contiguous(numpy.moveaxis(array, 0, -1)), -1, 0)


@layout
def batch_second(array: Array) -> Array:
    """The first two dimensions swapped in memory, as of sequences whose batch was put first."""
    if array.ndim < 3:
        return contiguous(array)
    return contiguous(array.swapaxes(0, 1)).swapaxes(0, 1)


@layout
def sliced(array: Array) -> Array:
    """Every second element of something larger, starting at its second."""
    if array.ndim == 0:
        return contiguous(array)
    whole = numpy.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
    part = whole[..., 1::2]
    part[...] = array
    return part


@layout
def expanded(array: Array) -> Array:
    """The first row, as often as there are rows, in one place in memory."""
    if array.ndim == 0 or array.shape[0] < 2:
        return contiguous(array)
    row = numpy.array(array[:1], order="C")
    strides = (0, *row.strides[1:])
    return numpy.lib.stride_tricks.as_strided(row, array.shape, strides)


@dataclass(frozen=True)
class Entry:
    """One operator's line in a table: its cases, and the layouts its first case is repeated in."""

    cases: Callable[[Draw], Sequence[Case]]
    layouts: tuple[str, ...]


def entry(
    cases: Callable[[Draw], Sequence[Case]], *, expands: bool = False, strided: bool = True
) -> Entry:
    """An operator's line.

    Args:
        cases: Makes the cases from a draw.
        expands: Whether the first case stays valid when the rows of its tensors repeat.
        strided: Whether it stays valid in any memory layout.
    """
    layouts = ("transposed", "sliced") if strided else ()
    return Entry(cases, (*layouts, "expanded") if expands else layouts)
