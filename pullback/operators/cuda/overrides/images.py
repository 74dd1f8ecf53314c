"""Pooling, padding and interpolation, whose plans on the host weigh caches."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy

from pullback.operators.arrays.formats import in_format_of
from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import on_device, replace

__all__ = ["enter"]


@lru_cache(256)
def _table(geometry: Any, size: Any) -> Any:
    """The host's table of windows: a plan, made once and remembered on the device as well."""
    from pullback.operators.nn.pool import kernels

    return kernels._table(geometry, size)


def _maxima_and_places(xp: Any, input: Any, geometry: Any) -> tuple[Any, Any]:
    """The largest of each window and its position, in the memory format of the images."""
    made, places = _looked_up(xp, input, geometry)
    return in_format_of(input, made), in_format_of(input, places)


def _looked_up(xp: Any, input: Any, geometry: Any) -> tuple[Any, Any]:
    """All points of all windows looked up at once; NaN is found on the way."""
    from pullback.operators.nn.pool import kernels, places

    windows = found.library.windows
    both: tuple[Any, Any]
    if len(geometry.kernel) == 2 and windows.fits(input):
        kernel, stride, pads, dilation, number = geometry
        starts = [pair[0] for pair in pads]
        both = windows.maxima(input, kernel, number, stride, starts, dilation)
        return both
    space = found.library.space
    size = input.shape[-len(geometry.kernel) :]
    table = _table(geometry, size)
    if table is None:
        both = on_device(kernels._of_block, space)(xp, input, geometry)
    else:
        both = on_device(places.largest, space)(xp, input, xp.constant(table), geometry.number)
    return both


def _added_up(xp: Any, gradient: Any, places: Any, size: Any) -> Any:
    """Added up at their places by one kernel; what windows share is added in no certain order."""
    from pullback.operators.nn.pool.places import added_up

    windows = found.library.windows
    if windows.fits(gradient) and len(size) == 2 and places._c_contiguous and 0 not in size:
        return windows.put(gradient, places, gradient.shape[:2], size)
    return found.library.original(added_up)(xp, gradient, places, size)


def _resampled(xp: Any, input: Any, tables: Any) -> Any:
    """One dimension after the other, each a sum of look-ups; those that shrink first."""
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        return _resampled(xp, input.astype(numpy.float32), tables).astype(input.dtype)
    dims = len(tables)
    numbered = [
        (input.ndim - dims + i, table) for i, table in enumerate(tables) if table is not None
    ]
    numbered.sort(key=lambda pair: pair[1].number - pair[1].size)
    result = input
    for axis, table in numbered:
        result = _along(xp, result, table, axis)
    return result.copy() if result is input else result


def _along(xp: Any, x: Any, table: Any, axis: int) -> Any:
    constant, along = xp.constant, found.library.along
    if along.fits(x):
        return along.sums(x, *map(constant, table.filled(x.dtype)), axis)
    rest = (1,) * (x.ndim - axis - 1)
    out = None
    for (where, columns, _), scale in zip(table.taps, table.weights(x.dtype), strict=True):
        part = x.take(constant(columns), axis)
        if scale is not None:
            part *= constant(scale).reshape(-1, *rest)
        if where is None:
            out = part if out is None else out + part
            continue
        if out is None:
            out = xp.cupy.zeros((*x.shape[:axis], table.number, *x.shape[axis + 1 :]), x.dtype)
        out[(slice(None),) * axis + (constant(where),)] += part  # no row twice in one tap
    if out is None:
        out = xp.cupy.zeros((*x.shape[:axis], table.number, *x.shape[axis + 1 :]), x.dtype)
    return out


def enter() -> None:
    """Into the table."""
    from pullback.operators.nn.image import taps
    from pullback.operators.nn.pool import kernels, places

    replace(
        {
            kernels.maxima_and_places: _maxima_and_places,
            places.added_up: _added_up,
            taps._resampled: _resampled,
        }
    )
