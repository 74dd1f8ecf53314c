"""Draws from distributions, into arrays: what `random.py` does to tensors.

Each function takes a stream and an array to fill, of any strides. Numbers go to the array in the
order of its memory, as torch's kernels do it. torch multiplies and adds in one rounding; so do we.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.addresses import finds_indices
from pullback.core.arrays import F32, F64, Array
from pullback.core.dtype import NumpyDtype
from pullback.operators.random.stream import Stream

# The dtypes of the two parts of complex numbers, by the bytes that both take.
_PARTS: dict[int, NumpyDtype] = {4: numpy.dtype(numpy.float16), 8: F32, 16: F64}
LONG = 16  # from so many elements on, torch makes normal numbers in blocks of as many
WIDE = 1 << 28  # ranges of so many integers and more take two words for each
_SHORT = 384  # up to which a permutation is faster as a loop than all at once
_FEW = 512  # up to which one slow step is faster than several quick ones
_LARGE_FACTOR = 2.0**990
_CHUNK = 1 << 14  # elements whose steps are done together: 64 kB of float32 stay in cache


def real_of(dtype: NumpyDtype) -> NumpyDtype:
    """The dtype of the parts of complex numbers; real ones stay."""
    if dtype.kind in "cW":
        return _PARTS[dtype.itemsize]
    return dtype


def _parts(array: Array) -> Array:
    """Complex numbers as pairs of real ones, in the same memory."""
    return array[..., None].view(real_of(array.dtype))


def put(array: Array, values: Array) -> None:
    """Write a flat array of values into `array`, in the order of its memory."""
    if array.ndim > 1:
        if not array.flags.c_contiguous:
            strides = array.strides
            array = array.transpose(sorted(range(array.ndim), key=lambda d: -strides[d]))
        values = values.reshape(array.shape)
    elif not array.ndim:
        values = values[0]
    try:
        array[...] = values
    except ValueError:
        raise errors.read_only("A random fill") from None


def multiplied_and_added(values: Array, factor: Any, term: Any) -> Array:
    """`values * factor + term` with a single rounding, of float32 or float64."""
    if values.dtype == F32:  # the product is exact in float64
        wide = values.astype(F64)
        wide *= F64.type(factor)
        wide += F64.type(term)
        return wide.astype(F32)
    if (
        math.inf > abs(factor) > _LARGE_FACTOR
    ):  # its parts below would be infinite; powers of 2 are exact
        scaled = multiplied_and_added(values, factor / _LARGE_FACTOR, term / _LARGE_FACTOR)
        return scaled * _LARGE_FACTOR
    product = values * factor
    # Dekker's exact error of the product, then Knuth's of the sum.
    high = values * 134217729.0
    high -= high - values
    low = values - high
    split = float(factor) * 134217729.0
    factor_high = split - (split - float(factor))
    factor_low = float(factor) - factor_high
    error = high * factor_high - product + high * factor_low + low * factor_high + low * factor_low
    total = product + term
    back = total - product
    error += (product - (total - back)) + (term - back)
    total += error
    return total


# Uniform ------------------------------------------------------------------------------------------


def uniform(source: Stream, array: Array, low: float = 0.0, high: float = 1.0) -> None:
    """Numbers from `low` up to but without `high`; both parts of complex ones."""
    dtype = array.dtype
    whole = low == 0 and high == 1
    if dtype is F32 and whole:
        put(array, source.floats(array.size))
        return
    if dtype.kind in "cW":
        array = _parts(array)
        dtype = array.dtype
    values = (source.doubles if dtype == F64 else source.floats)(array.size)
    if dtype.itemsize > 2 and whole:
        put(array, values)
        return
    kind = values.dtype.type
    if not whole:
        values = multiplied_and_added(values, kind(high) - kind(low), kind(low))
    values = values.astype(dtype, copy=False)
    # What rounding has brought to the upper end counts as the lower one.
    reached = values == numpy.asarray(high).astype(dtype)
    if reached.any():
        values[reached] = low
    put(array, values)


def integers(source: Stream, array: Array, low: int, high: int) -> None:
    """Integers from `low` up to but without `high`, in any real dtype."""
    count = high - low
    if count >= WIDE:
        drawn = source.long_words(array.size)
        if count < 1 << 64:
            drawn %= numpy.uint64(count)
            drawn += numpy.uint64(low % (1 << 64))
        put(array, drawn if low >= 0 and high > 1 << 63 else drawn.view(numpy.int64))
        return
    words = source.words(array.size)
    if array.size < _FEW:
        values = words % numpy.array(count, _uint32)
    elif count & (count - 1):
        values = words - words // _uint32(count) * _uint32(count)  # NumPy's % is 3 times slower
    else:
        values = words & _uint32(count - 1)
    put(array, values if not low else values.astype(numpy.int64) + low)


_uint32 = numpy.uint32


def few_integers(source: Stream, shape: tuple[int, ...], count: int, low: int, high: int) -> Array:
    """The numbers of `integers`, in new memory of int64: fewer steps for a small size."""
    values = (source.words(count) % _divisor(high - low)).astype(_INT64)
    if low:
        values += low
    return values if len(shape) == 1 else values.reshape(shape)


@lru_cache(256)
def _divisor(count: int) -> Array:
    """An array of no dimensions and not a scalar, which NumPy would take longer to look at."""
    return numpy.array(count, _uint32)


_INT64 = numpy.dtype("i8")


def bits(source: Stream, array: Array) -> None:
    """Integers of the 31 low bits of words: `random_` of int32 without bounds."""
    put(array, source.words(array.size) & _uint32(0x7FFFFFFF))


def permutation(source: Stream, count: int) -> Array:
    """The integers below `count`, shuffled: place i swaps with one from i on, i counting up."""
    if count < _SHORT:
        order = list(range(count))
        for i, word in enumerate(source.words(max(count - 1, 0)).tolist()):
            j = i + word % (count - i)
            order[i], order[j] = order[j], order[i]
        return numpy.array(order, _INT64)
    places = numpy.arange(count)
    partner = places[:-1] + source.words(count - 1) % numpy.arange(count, 1, -1, dtype=_uint32)
    return _swapped(partner, places)


def _swapped(partner: Array, places: Array) -> Array:
    """What swaps of i with partner[i] >= i make of the integers, all at once.

    Place p holds p until a step t < p has it for its partner; then it holds what place t did at
    step t. `origin[t]` is that: found by following, for all t together, the last step before.
    """
    count = len(places)
    partner = numpy.append(partner, count - 1)  # the last place swaps with itself
    # Steps in order of their partners, then of time; sorting one number is faster than a pair.
    shift = count.bit_length()
    keys = numpy.sort((partner << shift) | places)
    steps, held = keys & ((1 << shift) - 1), keys >> shift
    before = numpy.full(count, -1)  # the step before with the same partner
    same = held[1:] == held[:-1]
    before[steps[1:][same]] = steps[:-1][same]
    given = steps < held  # a step whose partner is itself gives its place nothing
    origin = places.copy()
    origin[held[given]] = steps[given]  # the last one stays: fancy assignment goes in order
    moving = numpy.flatnonzero(origin != places)
    while len(moving):
        further = origin[origin[moving]]
        changed = further != origin[moving]
        origin[moving] = further
        moving = moving[changed]
    return numpy.where(before >= 0, origin[before], numpy.where(partner > places, partner, origin))


# Normal -------------------------------------------------------------------------------------------


def normal(source: Stream, array: Array, mean: Any = 0.0, std: Any = 1.0) -> None:
    """Normal numbers; each part of complex ones has half of the variance."""
    if array.size < LONG and array.dtype.kind == "f" and std == 1 and mean == 0:
        put(array, source.normals(array.size))
        return
    if array.dtype.kind in "cW":
        if mean.imag != 0:
            normal(source, array, 0.0, std)
            array += mean
            return
        array, mean, std = _parts(array), mean.real, std * math.sqrt(0.5)
    if array.size < LONG or not array.flags.c_contiguous:
        values = source.normals(array.size)
        if std != 1 or mean != 0:
            values = values * std + mean
        put(array, values)
    else:
        _long_normal(source, array.reshape(-1), mean, std)


def _long_normal(source: Stream, array: Array, mean: float, std: float) -> None:
    whole = array.size // LONG * LONG
    narrow = array.dtype.itemsize == 2
    draw = source.doubles if array.dtype == F64 else source.floats
    # A rest that is no block is drawn again, with what comes before it; narrow dtypes skip it.
    uniform = draw(whole if narrow else array.size)
    for start in range(0, whole, _CHUNK):
        end = min(start + _CHUNK, whole)
        array[start:end] = _shaped(_in_blocks(uniform[start:end]), mean, std)
    if whole < array.size:
        array[-LONG:] = _shaped(_in_blocks(draw(LONG)), mean, std)


def _in_blocks(uniform: Array) -> Array:
    """Normal numbers of uniform ones: in each block of 16, eight reach and eight turn."""
    kind = uniform.dtype.type
    halves = uniform.reshape(-1, 2, LONG // 2)
    radius = kind(1) - halves[:, 0]
    numpy.log(radius, out=radius)
    radius *= kind(-2)
    numpy.sqrt(radius, out=radius)
    angle = halves[:, 1] * kind(2 * math.pi)
    made = numpy.empty_like(halves)
    numpy.multiply(radius, numpy.cos(angle), out=made[:, 0])
    numpy.multiply(radius, numpy.sin(angle, out=angle), out=made[:, 1])
    return made.reshape(-1)


def _shaped(values: Array, mean: float, std: float) -> Array:
    kind = values.dtype.type
    if mean != 0:
        return multiplied_and_added(values, kind(std), kind(mean))
    if std != 1:
        values *= kind(std)
    return values


def log_normal(source: Stream, array: Array, mean: float, std: float) -> None:
    """E to the power of normal numbers."""
    put(array, numpy.exp(source.normals(array.size) * std + mean))


# Others of one uniform number each ----------------------------------------------------------------


def exponential(source: Stream, array: Array, rate: float) -> None:
    """Waiting times, 1 / rate on average."""
    values = numpy.log1p(-source.doubles(array.size))
    values *= -1 / rate
    put(array, values)


def cauchy(source: Stream, array: Array, median: float, sigma: float) -> None:
    """The tangent of angles, scaled and shifted."""
    put(array, numpy.tan((source.doubles(array.size) - 0.5) * math.pi) * sigma + median)


def geometric(source: Stream, array: Array, p: float) -> None:
    """Trials until the first success, counted from 1."""
    put(array, numpy.ceil(numpy.log(source.doubles(array.size)) / math.log1p(-p)))


def bernoulli(source: Stream, array: Array, p: Any) -> None:
    """1 with probability `p` (a number, or an array of the same shape), else 0."""
    if not isinstance(p, numpy.ndarray):
        put(array, source.below(array.size, p))
        return
    drawn = numpy.empty_like(array, F64 if p.dtype == F64 else F32)  # in the memory's order
    put(drawn, (source.doubles if p.dtype == F64 else source.floats)(array.size))
    array[...] = drawn < p


# Choices ------------------------------------------------------------------------------------------


@finds_indices()
def with_replacement(source: Stream, weights: Array, count: int) -> Array:
    """For each row of weights, `count` column numbers, drawn independently of each other."""
    rows, columns = weights.shape
    totals = numpy.cumsum(weights, -1, weights.dtype if weights.dtype == F32 else F64)
    totals = (totals / totals[:, -1:]).astype(F64)
    totals[:, -1] = 1
    # One search for all rows: the numbers of row i lie between i and i + 1.
    start = numpy.arange(rows, dtype=F64)[:, None]
    points = numpy.minimum(
        source.doubles(rows * count).reshape(rows, count) + start, numpy.nextafter(start + 1, 0)
    )
    found = numpy.searchsorted((totals + start).reshape(-1), points.reshape(-1), side="left")
    return found.reshape(rows, count) - numpy.arange(rows)[:, None] * columns


@finds_indices()
def without_replacement(source: Stream, weights: Array, count: int) -> Array:
    """For each row of weights, `count` different column numbers, in the order they are drawn."""
    # The first of exponential clocks to ring is a weighted draw, the next one among the others.
    times = numpy.empty_like(weights)
    exponential(source, times, 1.0)
    times = weights / times
    if count == 1:
        return times.argmax(-1)[:, None]
    return numpy.argsort(-times, -1, kind="stable")[:, :count]
