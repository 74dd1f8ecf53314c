"""Elements of images by their position, counted over all pooled dimensions, and the way back.

Shared by the poolings that know places: those of maxima, fractional ones, and `max_unpool`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy

from pullback.core.addresses import finds_indices
from pullback.core.arrays import LIBRARIES
from pullback.operators.arrays.blocks import pieces
from pullback.operators.arrays.formats import in_format_of
from pullback.operators.arrays.threads import each
from pullback.operators.arrays.windows import Sizes, blocks, starts_of, volume
from pullback.operators.batching import together
from pullback.operators.conditions import at_least, below, floating, host, says
from pullback.operators.declare import Array, Namespace, kernel, primitive
from pullback.operators.nn.pool import native

__all__ = ["added_up", "has_nan", "largest", "put_places", "spot", "table_of", "take_places"]


def has_nan(array: Array) -> bool:
    """Whether some element is no number: then the maximum is none."""
    if array.dtype.kind not in "fV" or not array.size:
        return False
    largest = array.item(array.argmax())
    return bool(largest != largest)


# Windows by their places --------------------------------------------------------------------------


def table_of(seen: list[Array], size: Sizes) -> Array:
    """The positions of all points of all windows, `(*lead, windows, points)`.

    `seen` has for each dimension the places along it, `(*lead, windows, points)`.
    """
    dims, lead = len(size), seen[0].shape[:-2]
    position: Any = 0
    for dim, (places, n) in enumerate(zip(seen, size, strict=True)):
        shape = [*lead, *(1,) * 2 * dims]
        shape[len(lead) + dim], shape[len(lead) + dims + dim] = places.shape[-2:]
        position = position * n + places.reshape(shape)
    number, points = position.shape[len(lead) : -dims], position.shape[-dims:]
    return position.reshape(*lead, volume(number), volume(points))


@finds_indices(1)
def largest(xp: Namespace, input: Array, table: Array, number: Sizes) -> tuple[Array, Array]:
    """The maxima of windows and their positions: the first of each window, or its last NaN.

    The table is one for all images, `(windows, points)`, or has one for each image in front.
    """
    lead = input.shape[: input.ndim - len(number)]
    rows, windows = volume(lead), table.shape[-2:]
    flat = input.reshape(rows, volume(input.shape[len(lead) :]))
    tables = table if table.ndim == 2 else table.reshape(rows, *windows)
    parts = list(blocks(rows, volume(windows)))
    if len(parts) == 1:
        maxima, places = _largest(xp, flat, tables)
    else:
        maxima = xp.empty((rows, windows[0]), input.dtype)
        places = xp.empty((rows, windows[0]), xp.int64)
        for part in parts:
            own = tables if table.ndim == 2 else tables[part]
            maxima[part], places[part] = _largest(xp, flat[part], own)
    return maxima.reshape(*lead, *number), places.reshape(*lead, *number)


def _largest(xp: Namespace, images: Array, table: Array) -> tuple[Array, Array]:
    (rows, length), (windows, points) = images.shape, table.shape[-2:]
    flat = images.reshape(-1)
    if table.ndim == 2:
        seen = images.take(table, 1)
    else:
        seen = flat.take(spot(table, rows, length)).reshape(table.shape)
    best = seen.argmax(-1)
    if has_nan(images):
        missing = xp.isnan(seen)
        last = points - 1 - missing[..., ::-1].argmax(-1)
        best = xp.where(missing.any(-1), last, best)
    first = starts_of(table.size // points, points).reshape(table.shape[:-1])
    places = table.reshape(-1).take(best + first)
    return flat.take(spot(places, rows, length)).reshape(rows, windows), places


# Look-ups -----------------------------------------------------------------------------------------


def spot(places: Array, rows: int, length: int) -> Array:
    """Positions in images of `length` elements as positions within all of them together, flat."""
    if rows == 1:
        return places.reshape(-1)
    number = places.size // rows if rows else 1
    if places.size < native.MANY:
        return places.ravel() + _starts(rows, number, length)
    return (places.reshape(rows, number) + starts_of(rows, length)[:, None]).reshape(-1)


@lru_cache(64)
def _starts(rows: int, number: int, length: int) -> Array:
    """For each of `number` places in each of several images, where the image begins."""
    return numpy.arange(rows).repeat(number) * length


@primitive(
    gradient=lambda g, places, size: take_places(g, places, len(size)),
    jvp=lambda d_gradient, places, size, apart: put_places(d_gradient, places, size, apart),
    batch=together,
    has_out=False,
    method=False,
    aten="",
)
def put_places(
    xp: Namespace, gradient: Array, places: Array, size: Sizes, apart: bool = False
) -> Array:
    """Add `gradient` up at `places` of zeros: the adjoint of `take_places`.

    No two places of an image are one if they are said to be `apart`.
    """
    add = _set_apart if apart and type(gradient) not in LIBRARIES else added_up
    return in_format_of(gradient, add(xp, gradient, places, size))


@kernel(put_places, when=host & says("apart") & below(native.MANY))
def _few_apart(
    xp: Namespace, gradient: Array, places: Array, size: Sizes, gradient_dtype: Any
) -> Array:
    lead = gradient.shape[: -len(size)]
    made = xp.zeros((*lead, *size), gradient_dtype)
    spots = spot(places, math.prod(lead), math.prod(size))
    made.ravel()[spots] = gradient.ravel()
    return made if gradient.flags.c_contiguous else in_format_of(gradient, made)


@kernel(put_places, when=host & at_least(native.MANY) & floating, machine_code=True)
def _many_put(gradient: Array, places: Array, size: Sizes) -> Array | None:
    found = native.put(gradient, places, size)
    return None if found is None else in_format_of(gradient, found)


_LARGE = 1 << 14  # elements from which on they are worth sharing out


@kernel(put_places, when=host & says("apart") & at_least(_LARGE))
def _many_apart(xp: Namespace, gradient: Array, places: Array, size: Sizes) -> Array:
    """In blocks of images, on as many threads as there may be."""
    lead, length = gradient.shape[: gradient.ndim - len(size)], volume(size)
    rows = volume(lead)
    out = xp.empty((*lead, *size), gradient.dtype)
    images, spots, given = (a.reshape(rows, -1) for a in (out, places, gradient))

    def work(block: slice) -> None:
        target = images[block]
        target.fill(0)
        target.reshape(-1)[spot(spots[block], len(target), length)] = given[block].reshape(-1)

    each(work, pieces(rows, length))
    return in_format_of(gradient, out)


def _set_apart(xp: Namespace, gradient: Array, places: Array, size: Sizes) -> Array:
    """Without a sum."""
    lead = gradient.shape[: gradient.ndim - len(size)]
    out = xp.zeros((*lead, *size), gradient.dtype)
    out.reshape(-1)[spot(places, volume(lead), volume(size))] = gradient.reshape(-1)
    return out


def added_up(xp: Namespace, gradient: Array, places: Array, size: Sizes) -> Array:
    """The same, whatever the order of memory."""
    lead = gradient.shape[: gradient.ndim - len(size)]
    out = xp.zeros((*lead, *size), gradient.dtype)
    spots = spot(places, volume(lead), volume(size))
    xp.add.at(out.reshape(-1), spots, gradient.reshape(-1))
    return out


@primitive(
    input=lambda g, places, input_shape, dims: put_places(g, places, input_shape[-dims:]),
    jvp=lambda d_input, places, dims: take_places(d_input, places, dims),
    batch=together,
    has_out=False,
    method=False,
    aten="",
)
def take_places(xp: Namespace, input: Array, places: Array, dims: int) -> Array:
    """`input` at `places`, image by image."""
    cut = input.ndim - dims
    spots = spot(places, volume(input.shape[:cut]), volume(input.shape[cut:]))
    return input.reshape(-1).take(spots).reshape(places.shape)
