"""Max pooling on arrays: the largest of each window, and where it is.

Few windows are looked up all at once, many are compared line by line. The operators are in
maximum.py.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from pullback.core.addresses import finds_indices
from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays.blocks import pieces
from pullback.operators.arrays.formats import in_format_of
from pullback.operators.arrays.threads import each
from pullback.operators.arrays.windows import Sizes, padded, volume
from pullback.operators.nn.pool.places import has_nan, largest, table_of
from pullback.operators.nn.pool.shapes import Geometry, lines_of

__all__ = [
    *("FEW_LOOKED_UP", "few_maxima", "few_maxima_and_places"),
    *("maxima", "maxima_and_places", "maxima_by_blocks"),
]


def _lowest(dtype: Any) -> Any:
    """What no number is below."""
    if dtype.kind in "fV":
        return -math.inf
    return 0 if dtype.kind == "u" else -(2 ** (8 * dtype.itemsize - 1))


def maxima(xp: Namespace, input: Array, geometry: Geometry) -> Array:
    """The largest of each window."""
    return in_format_of(input, _maxima_by_lines(xp, input, geometry))


def few_maxima(input: Array, geometry: Geometry) -> Array | None:
    """The same by one look-up; None where windows have many points."""
    few = _few(input.shape, geometry)
    if few is None:
        return None
    seen = input.ravel()[few.table]
    best = seen.argmax(-1)  # or the first NaN
    best += few.first
    made = seen.ravel()[best]
    return made if input.flags.c_contiguous else in_format_of(input, made)


def _maxima_by_lines(xp: Namespace, input: Array, geometry: Geometry) -> Array:
    """One dimension after the other."""
    best = padded(xp, input, geometry.pads, _lowest(input.dtype))
    for first, *others in lines_of(geometry):
        parts = best[first], *(best[place] for place in others)
        best = xp.maximum(parts[0], parts[1]) if others else parts[0]
        for part in parts[2:]:
            xp.maximum(best, part, out=best)
    return best if best.flags.c_contiguous and best.base is None else best.copy()


def _seen(n: int, kernel: int, stride: int, before: int, dilation: int, number: int) -> Array:
    """The places of each window along a dimension; what is outside is its first or last inside."""
    starts = numpy.arange(number) * stride - before
    places = starts[:, None] + numpy.arange(kernel) * dilation
    first = starts - numpy.minimum(starts, 0) // dilation * dilation
    last = starts + (n - 1 - starts) // dilation * dilation
    return numpy.clip(places, first[:, None], last[:, None])


def _table(geometry: Geometry, size: Sizes) -> Array | None:
    """The positions of all windows' points, `(windows, points)`; None if one sees padding only.

    It does where its points lie on both sides of an input that is smaller than their distance.
    """
    kernel, stride, pads, dilation, number = geometry
    before = [pair[0] for pair in pads]
    seen = list(map(_seen, size, kernel, stride, before, dilation, number))
    if any(places.min() < 0 for places in seen):
        return None
    return table_of(seen, size)


# Up to so many points of windows, a look-up of all of them takes fewer calls than a comparison for
# each point.
_FEW = 1 << 12
# Where places are not wanted, comparisons by lines are few calls, too, and quicker from so many
# elements on: 8 x 12 x 12 takes 7.0 us and not 8.0, but 3 x 24 x 24 would take 9.1 and not 8.2.
FEW_LOOKED_UP = 1400


class _Few(NamedTuple):
    """What a look-up of few windows needs; remembered, since it is most of the work."""

    table: Array  # positions over all images, `(*shape of the result, points)`
    first: Array  # for each window, the position of its first point in the table
    starts: Array  # for each window, the position of its image


@lru_cache(256)
def _few(shape: Sizes, geometry: Geometry) -> _Few | None:
    lead, size = shape[: -len(geometry.kernel)], shape[-len(geometry.kernel) :]
    windows, points, rows = volume(geometry.number), volume(geometry.kernel), volume(lead)
    table = _table(geometry, size) if 0 < windows * points * rows <= _FEW else None
    if table is None:
        return None
    out = *lead, *geometry.number
    starts = (numpy.arange(rows) * volume(size)).repeat(windows)
    every = numpy.tile(table, (rows, 1)) + starts[:, None]
    first = numpy.arange(rows * windows) * points
    return _Few(every.reshape(*out, points), first.reshape(out), starts.reshape(out))


@finds_indices(1)
def maxima_and_places(xp: Namespace, input: Array, geometry: Geometry) -> tuple[Array, Array]:
    """The largest of each window and its position: the first in the window, or its last NaN."""
    made, places = _of_block(xp, input, geometry)
    return in_format_of(input, made), in_format_of(input, places)


@finds_indices(1)
def few_maxima_and_places(input: Array, geometry: Geometry) -> tuple[Array, Array] | None:
    """The same by one look-up; None where windows have many points, or NaN is among them."""
    few = _few(input.shape, geometry)
    if few is None:
        return None
    seen = input.ravel()[few.table]
    best = seen.argmax(-1)
    best += few.first
    made = seen.ravel()[best]
    if has_nan(made):
        return None
    places = few.table.ravel()[best]
    places -= few.starts
    if input.flags.c_contiguous:
        return made, places
    return in_format_of(input, made), in_format_of(input, places)


@finds_indices(1)
def maxima_by_blocks(xp: Namespace, input: Array, geometry: Geometry) -> tuple[Array, Array]:
    """The same in blocks of images, on as many threads as there may be."""
    dims = len(geometry.kernel)
    lead, size = input.shape[:-dims], input.shape[-dims:]
    rows = (volume(lead), *geometry.number)
    images = input.reshape(rows[0], *size)
    best, places = xp.empty(rows, input.dtype), xp.empty(rows, xp.int64)

    def work(block: slice) -> None:
        best[block], places[block] = _of_block(xp, images[block], geometry)

    each(work, pieces(rows[0], volume(size)))
    made = best.reshape(*lead, *geometry.number)
    return in_format_of(input, made), in_format_of(input, places.reshape(made.shape))


def _of_block(xp: Namespace, input: Array, geometry: Geometry) -> tuple[Array, Array]:
    size = input.shape[-len(geometry.kernel) :]
    table = _table(geometry, size) if volume(geometry.kernel) > _MOST_POINTS else None
    if table is None:
        maxima, found = _by_lines(xp, input, geometry)
        # Comparisons find no NaN, nor what is as low as the padding.
        lost = any(map(any, geometry.pads)) and (maxima == _lowest(input.dtype)).any()
        if lost or has_nan(maxima):
            table = _table(geometry, size)
        if table is None:
            return maxima, _positions(found, geometry, size)
    return largest(xp, input, table, geometry.number)


_MOST_POINTS = 255  # numbered by bytes


def _by_lines(xp: Namespace, input: Array, geometry: Geometry) -> tuple[Array, Array]:
    """The maxima, and which point of its window each is: the first of equal ones.

    The last dimension goes first: of the first line with the maximum, the first point. Numbers of
    points are chosen by products, which take a fraction of the time of masked copies.
    """
    number = numpy.uint8 if volume(geometry.kernel) <= _MOST_POINTS + 1 else numpy.int64
    best = padded(xp, input, geometry.pads, _lowest(input.dtype))
    found, behind = xp.zeros((), number), 1
    for kernel, (first, *others) in zip(
        reversed(geometry.kernel), reversed(lines_of(geometry)), strict=True
    ):
        lines, numbers = best, found
        best = lines[first].copy()
        if behind > 1 or not others:
            found = xp.zeros(best.shape, number) if behind == 1 else numbers[first].copy()
        for point, place in enumerate(others, 1):
            # Every other element of a line is copied first: half of the time of two strided reads.
            part = lines[place].copy() if behind == 1 else lines[place]
            larger = xp.greater(part, best)
            if behind == point == 1:
                found = larger.view(xp.uint8).astype(number, copy=False)
            else:
                # Wraps around, and back where it is added.
                change = number(0) if behind == 1 else numbers[place]
                change = change + number(point * behind) - found
                change *= larger.view(xp.uint8)
                found += change
            xp.maximum(best, part, out=best)
        behind *= kernel
    return best, found


def _positions(found: Array, geometry: Geometry, size: Sizes) -> Array:
    """Positions in the image, from points in windows."""
    moves, starts = _moves(geometry, size)
    places = moves.take(found)
    places += starts
    return places


@lru_cache(64)
def _moves(geometry: Geometry, size: Sizes) -> tuple[Array, Array]:
    """How far each point is from the start of its window, and where windows start."""
    kernel, stride, pads, dilation, number = geometry
    steps = [numpy.arange(k)[None] * d for k, d in zip(kernel, dilation, strict=True)]
    starts = [
        (numpy.arange(o) * s - pair[0])[:, None]
        for o, s, pair in zip(number, stride, pads, strict=True)
    ]
    return table_of(steps, size).reshape(-1), table_of(starts, size).reshape(number)
