"""Pooling of images without padding, and images whose points are repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.compiled.ir import pooling
from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.symbols import Symbolic
from pullback.compiled.ir.values import BYTES, Val
from pullback.compiled.lower.rules import FLOATING, NotLowered, R, floating, lower
from pullback.operators.nn.image import taps
from pullback.operators.nn.pool import average, places


def _lower(*operators: Any) -> Callable[[R], R]:
    return lower(*operators, stored=True)


def _plane(x: Val, geometry: Any) -> pooling.Pool:
    """Windows of a plane, of a size that does not vary."""
    from pullback.operators.nn.pool.native import fitting  # whoever has a geometry has loaded it

    floating(x)
    fits = fitting(geometry)
    if fits is None or any(isinstance(n, Symbolic) for n in x.shape):
        raise NotLowered
    (down, across), (below, beside) = fits
    return pooling.Pool((down, across), (below, beside))


def _as_image(b: Builder, x: Val, geometry: Any) -> Val:
    """A line is an image of one line."""
    if len(geometry.kernel) == 2:
        return x
    return b.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def _as_given(b: Builder, made: Val, geometry: Any) -> Val:
    return made if len(geometry.kernel) == 2 else b.squeeze(made, (len(made.shape) - 2,))


@_lower("_max_pool1d", "_max_pool2d", "_adaptive_max_pool1d", "_adaptive_max_pool2d")
def _max_pool(b: Builder, input: Val, geometry: Any) -> list[Val]:
    pool = _plane(input, geometry)
    made = pooling.maxima(b, _as_image(b, input, geometry), pool, with_places=True)
    return [_as_given(b, one, geometry) for one in made]


@_lower("_bare_max_pool")
def _bare_max_pool(b: Builder, input: Val, geometry: Any) -> Val:
    pool = _plane(input, geometry)
    (made,) = pooling.maxima(b, _as_image(b, input, geometry), pool, with_places=False)
    return _as_given(b, made, geometry)


@_lower(places.put_places)
def _put_places(b: Builder, gradient: Val, places: Val, size: Any, apart: Any) -> Val:
    floating(gradient)
    varies = any(isinstance(n, Symbolic) for n in (*gradient.shape, *size))
    if gradient.shape != places.shape or places.dtype != "i8" or varies:
        raise NotLowered
    return pooling.put(b, gradient, places, tuple(size))


@_lower(
    average._average, "_avg_pool1d", "_avg_pool2d", "_adaptive_avg_pool1d", "_adaptive_avg_pool2d"
)
def _avg_pool(b: Builder, input: Val, geometry: Any, divisor: Any) -> Val:
    pool = _plane(input, geometry)
    if type(divisor) is not int:
        raise NotLowered
    pool = pool._replace(divisor=divisor)
    made = pooling.averages(b, _as_image(b, input, geometry), pool)
    return _as_given(b, made, geometry)


@_lower(average._spread_average)
def _spread_average(b: Builder, input: Val, size: Any, geometry: Any, divisor: Any) -> Val:
    pool = _plane(input, geometry)
    if type(divisor) is not int or pool.kernel != pool.stride:
        raise NotLowered
    pool = pool._replace(divisor=divisor)
    size = (1, *size) if len(geometry.kernel) == 1 else tuple(size)
    made = pooling.spread_averages(b, _as_image(b, input, geometry), size, pool)
    return _as_given(b, made, geometry)


# Points that are repeated -------------------------------------------------------------------------


def _times(table: Any) -> int:
    """How often each point is repeated, or (negative) how many are summed; 1: neither."""
    if table is None:
        return 1
    more, fewer = divmod(table.number, table.size), divmod(table.size, table.number)
    taps_of = table.taps
    if any(rows is not None or weights is not None for rows, _, weights in taps_of):
        raise NotLowered
    if more[1] == 0 and len(taps_of) == 1:
        wanted = numpy.arange(table.number) // more[0]
        if numpy.array_equal(taps_of[0][1], wanted):
            return int(more[0])
    if fewer[1] == 0 and len(taps_of) == fewer[0]:
        first = numpy.arange(table.number) * fewer[0]
        if all(numpy.array_equal(one[1], first + n) for n, one in enumerate(taps_of)):
            return -int(fewer[0])
    raise NotLowered


@_lower(taps.resample, "_upsample_nearest1d", "_upsample_nearest2d", "_upsample_nearest3d")
def _resample(b: Builder, input: Val, tables: Any) -> Val:
    if input.dtype not in BYTES or any(isinstance(n, Symbolic) for n in input.shape):
        raise NotLowered
    times = [_times(one) for one in tables]
    lead = len(input.shape) - len(tables)
    if all(n >= 1 for n in times):
        shape = [part for n in input.shape[lead:] for part in (n, 1)]
        wide = [part for n, t in zip(input.shape[lead:], times, strict=True) for part in (n, t)]
        between = b.reshape(input, (*input.shape[:lead], *shape))
        spread = b.copy(b.expand(between, (*input.shape[:lead], *wide)))
        whole = [n * t for n, t in zip(input.shape[lead:], times, strict=True)]
        return b.reshape(spread, (*input.shape[:lead], *whole))
    if any(n > 1 for n in times) or input.dtype not in FLOATING:
        raise NotLowered
    parts = [part for n, t in zip(input.shape[lead:], times, strict=True) for part in (n // -t, -t)]
    windows = b.reshape(input, (*input.shape[:lead], *parts))
    return b.reduce("sum", windows, range(lead + 1, len(windows.shape), 2))
