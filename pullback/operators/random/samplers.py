"""Draws from distributions, into arrays: what `random.py` does to tensors.

Each function takes NumPy's generator and an array to fill, of any strides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, Array
from pullback.core.dtype import NumpyDtype

# How many bits of a uniform number the narrow dtypes hold; with more, rounding would give 1.
_UNIFORM_BITS = {"float16": 11, "bfloat16": 8}


def real_of(dtype: NumpyDtype) -> NumpyDtype:
    """The dtype of the parts of complex numbers; real ones stay."""
    if dtype.kind == "c":
        return F32 if dtype.itemsize == 8 else F64
    return dtype


def _direct(array: Array) -> bool:
    """Whether NumPy can draw right into `array`."""
    return array.flags.c_contiguous and (array.dtype is F32 or array.dtype is F64)


def uniform(source: Any, array: Array, low: float = 0.0, high: float = 1.0) -> None:
    """Numbers from `low` up to but without `high`; both parts of complex ones."""
    if array.dtype.kind == "c":
        uniform(source, array.real, low, high)
        uniform(source, array.imag, low, high)
        return
    if _direct(array):
        source.random(out=array, dtype=array.dtype)
    elif bits := _UNIFORM_BITS.get(array.dtype.name):
        array[...] = source.integers(2**bits, size=array.shape) / 2.0**bits
    else:
        array[...] = source.random(array.shape, array.dtype)
    if (low, high) != (0, 1):
        array *= array.dtype.type(high - low)
        array += array.dtype.type(low)
        if low < high:  # rounding may have reached `high`
            numpy.minimum(array, numpy.nextafter(array.dtype.type(high), low), out=array)


def normal(source: Any, array: Array, mean: Any = 0.0, std: Any = 1.0) -> None:
    """Normal numbers; each part of complex ones has half of the variance."""
    if array.dtype.kind == "c":
        centre = complex(mean)
        normal(source, array.real, centre.real, std / math.sqrt(2))
        normal(source, array.imag, centre.imag, std / math.sqrt(2))
        return
    if _direct(array):
        source.standard_normal(out=array, dtype=array.dtype)
    else:
        array[...] = source.standard_normal(array.shape, F64 if array.dtype is F64 else F32)
    if std != 1:
        array *= array.dtype.type(std)
    if mean != 0:
        array += array.dtype.type(mean)


def integers(source: Any, array: Array, low: int, high: int) -> None:
    """Integers from `low` up to but without `high`, in any real dtype."""
    kind = array.dtype if array.dtype.kind in "iub" else numpy.int64
    array[...] = source.integers(low, high, array.shape, kind)


def exponential(source: Any, array: Array, rate: float) -> None:
    """Waiting times, 1 / rate on average."""
    if _direct(array):
        source.standard_exponential(out=array, dtype=array.dtype)
    else:
        array[...] = source.standard_exponential(array.shape)
    if rate != 1:
        array /= array.dtype.type(rate)


def cauchy(source: Any, array: Array, median: float, sigma: float) -> None:
    """A ratio of normal numbers, scaled and shifted."""
    array[...] = source.standard_cauchy(array.shape) * sigma + median


def log_normal(source: Any, array: Array, mean: float, std: float) -> None:
    """E to the power of normal numbers."""
    array[...] = source.lognormal(mean, std, array.shape)


def geometric(source: Any, array: Array, p: float) -> None:
    """Trials until the first success, counted from 1."""
    array[...] = source.geometric(p, array.shape)


def bernoulli(source: Any, array: Array, p: Any) -> None:
    """1 with probability `p` (a number, or an array that broadcasts), else 0."""
    kind = F64 if getattr(p, "dtype", F64) == F64 else F32
    array[...] = source.random(array.shape, kind) < p


def with_replacement(source: Any, weights: Array, count: int) -> Array:
    """For each row of weights, `count` column numbers, drawn independently of each other."""
    rows, columns = weights.shape
    totals = numpy.cumsum(weights, -1, F64)
    totals /= totals[:, -1:]
    # One search for all rows: the numbers of row i lie between i and i + 1.
    start = numpy.arange(rows, dtype=F64)[:, None]
    points = numpy.minimum(source.random((rows, count)) + start, numpy.nextafter(start + 1, 0))
    found = numpy.searchsorted((totals + start).reshape(-1), points.reshape(-1), side="right")
    return found.reshape(rows, count) - numpy.arange(rows)[:, None] * columns


def without_replacement(source: Any, weights: Array, count: int) -> Array:
    """For each row of weights, `count` different column numbers, the likely ones first."""
    # The first of exponential clocks to ring is a weighted draw, the next one among the others.
    times = source.standard_exponential(weights.shape)
    return numpy.argsort(-(weights / times), -1, kind="stable")[:, :count]
