"""grid_sample on arrays: the neighbours of each position with their weights, and sums over them.

Positions are `(dims, points)`, neighbours `(neighbours, points)`: long rows, whatever the number of
dimensions. A weight may be differentiated by the grid, any number of times along each dimension
(`orders`); that is all that derivatives of every order need, see sampling.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy

from pullback.core.arrays import Array, Namespace, is_finite
from pullback.operators.arrays.windows import Sizes, starts_of, volume

__all__ = ["How", "added_up", "looked_up", "slopes"]


class How(NamedTuple):
    """How positions are read: the options of `grid_sample`, and the orders of derivatives."""

    mode: str
    padding_mode: str
    align_corners: bool
    orders: Sizes  # for each dimension of the image, in its order

    def differentiated(self, dim: int) -> How:
        """Once more along a dimension."""
        orders = list(self.orders)
        orders[dim] += 1
        return self._replace(orders=tuple(orders))


# Positions ----------------------------------------------------------------------------------------


class _Image(NamedTuple):
    """Numbers of an image's dimensions, one below the other as positions are."""

    one: Array
    scale: Array  # elements per unit of the grid
    shift: Array  # the first element's distance from what the grid calls -1
    first: Array
    last: Array
    low: Array  # where reflections fold
    span: Array


@lru_cache(256)
def _image(size: Sizes, dtype: Any, align_corners: bool, points: int) -> _Image:
    """The numbers, repeated for few points: what has one shape takes a third of the time."""
    n = numpy.array(size, dtype).reshape(-1, 1).repeat(points, 1)
    one, zero = numpy.ones_like(n), numpy.zeros_like(n)
    if align_corners:
        return _Image(one, (n - 1) / 2, zero, zero, n - 1, zero, n - 1)
    return _Image(one, n / 2, one / 2, zero, n - 1, -one / 2, n)


def _bounded(xp: Namespace, place: Array, image: _Image, padding_mode: str) -> tuple[Array, Array]:
    """Positions brought into the image by the padding mode, and the slope of that."""
    slope: Any = 1
    if padding_mode == "reflection":
        place, slope = _reflected(xp, place, image)
    inside = (place > 0) & (place < image.last)
    bounded = xp.minimum(xp.maximum(place, 0), image.last)
    return bounded, (slope * inside).astype(place.dtype)


def _reflected(xp: Namespace, place: Array, image: _Image) -> tuple[Array, Array]:
    """Positions folded at the image's borders: the outer elements, or half an element beyond."""
    span = xp.maximum(image.span, 1)  # 0 where a single element is its own border
    away = place - image.low
    distance = xp.abs(away)
    flips = xp.floor(distance / span)
    rest = distance - flips * span
    even = flips % 2 == 0
    slope = xp.where(even, 1, -1) * xp.where(away < 0, -1, 1)
    folded = xp.where(even, rest, span - rest) + image.low
    single = image.span == 0
    return xp.where(single, 0, folded).astype(place.dtype), xp.where(single, 0, slope)


# Neighbours ---------------------------------------------------------------------------------------


def _linear(part: Array, order: int) -> list[Any]:
    """The weights of the two nearest elements, or their derivatives by the position."""
    if order:
        return [-1, 1] if order == 1 else [0, 0]
    return [1 - part, part]


def _cubic(part: Array, order: int) -> list[Any]:
    """The weights of the four nearest elements, or their derivatives by the position."""
    a = -0.75
    near = [a + 2, -(a + 3), 0, 1]  # factors of the powers 3 to 0 of the distance
    far = [a, -5 * a, 8 * a, -4 * a]
    for _ in range(order):
        near, far = _derivative(near), _derivative(far)
    # On the other side the distance shrinks as the position grows.
    sign = (-1) ** order
    sides = (far, part + 1, 1), (near, part, 1), (near, 1 - part, sign), (far, 2 - part, sign)
    return [side * _polynomial(factors, x) for factors, x, side in sides]


def _derivative(factors: list[float]) -> list[float]:
    degree = len(factors) - 1
    return [factor * (degree - i) for i, factor in enumerate(factors[:-1])]


def _polynomial(factors: list[float], x: Array) -> Any:
    result: Any = 0
    for factor in factors:
        result = result * x + factor
    return result


def _single(part: Array, order: int) -> list[Any]:
    return [0 if order else 1]


# Weights, and where the elements are that have them, seen from the position's floor.
_WEIGHTS: dict[str, tuple[Any, Sizes]] = {
    "nearest": (_single, (0,)),
    "bilinear": (_linear, (0, 1)),
    "bicubic": (_cubic, (-1, 0, 1, 2)),
}


_FEW = 256  # points


@lru_cache(16)
def _offsets(moves: Sizes, dtype: Any) -> Array:
    return numpy.array(moves, dtype).reshape(-1, 1, 1)


class _Weights:
    """The weights of neighbours along single dimensions, `(neighbours, points)` each."""

    def __init__(self, function: Any, part: Array, inside: Array, scale: Any) -> None:
        self.function, self.part, self.inside, self.scale = function, part, inside, scale
        self.plain: Array | None = None

    def along(self, xp: Namespace, dim: int, order: int) -> Array:
        """Those of one dimension, differentiated `order` times by the grid; 0 outside."""
        if order:
            factor = self.scale[dim] ** order
            weights = [weight * factor for weight in self.function(self.part[dim], order)]
            return xp.stack(weights) * self.inside[:, dim]
        if self.plain is None:
            self.plain = xp.empty(self.inside.shape, self.part.dtype)
            for i, weight in enumerate(self.function(self.part, 0)):
                xp.multiply(weight, self.inside[i], out=self.plain[i])
        return self.plain[:, dim]


def _neighbours(
    xp: Namespace, grid: Array, size: Sizes, how: How, wanted: tuple[Sizes, ...]
) -> tuple[Array, list[Array]]:
    """Positions of all neighbours in the image, and their weights for each of the `wanted` orders.

    The grid is `(points, dims)`, its last number along the image's first dimension. Weights are 0
    outside, and no numbers where the grid is none, or infinite.
    """
    image = _image(size, grid.dtype, how.align_corners, len(grid) if len(grid) <= _FEW else 1)
    place = grid.T[::-1] + image.one
    place *= image.scale
    if not how.align_corners:
        place -= image.shift
    scale: Any = image.scale
    # Cubic weights need the true position; the neighbours are brought into the image one by one.
    late = how.mode == "bicubic" and how.padding_mode != "zeros"
    if how.padding_mode != "zeros" and not late:
        place, slope = _bounded(xp, place, image, how.padding_mode)
        scale = slope * scale
    function, moves = _WEIGHTS[how.mode]
    floor = xp.rint(place) if how.mode == "nearest" else xp.floor(place)
    index = floor + _offsets(moves, place.dtype)
    if late:
        index = _bounded(xp, index, image, how.padding_mode)[0]
    bounded = xp.fmax(index, image.first)
    xp.fmin(bounded, image.last, out=bounded)
    weights = _Weights(function, place - floor, bounded == index, scale)
    products = [
        _crossed([weights.along(xp, dim, order) for dim, order in enumerate(orders)])
        for orders in wanted
    ]
    return _cells(bounded.astype(xp.int64), size), products


def _crossed(lines: list[Array]) -> Array:
    """The products of every neighbour's weight along one dimension with every one along others."""
    result, *others = lines
    for line in others:
        count = len(result) * len(line)
        result = (result[:, None] * line).reshape(count, line.shape[1])
    return result


def _cells(index: Array, size: Sizes) -> Array:
    """Positions over all dimensions from those along each, every one with every one."""
    cells = index[:, 0]
    for dim in range(1, len(size)):
        count = len(cells) * len(index)
        cells = (cells[:, None] * size[dim] + index[:, dim]).reshape(count, index.shape[2])
    return cells


# Sums over neighbours -----------------------------------------------------------------------------

# Elements of neighbours that are held at once, so that they stay in the cache.
_BLOCK = 1 << 18


def _blocks(images: int, points: int, each: int) -> Iterator[tuple[slice, slice]]:
    """Some images with all their points, or one with some; a point has `each` elements."""
    if points * each < _BLOCK:
        step = max(_BLOCK // max(points * each, 1), 1)
        for start in range(0, images, step):
            yield slice(start, start + step), slice(0, points)
        return
    step = max(_BLOCK // each, 1)
    for image in range(images):
        for start in range(0, points, step):
            yield slice(image, image + 1), slice(start, min(start + step, points))


class _Sampling:
    """Images as lines of `length` elements and positions as lines, walked through in blocks."""

    def __init__(self, lead: Sizes, channels: int, size: Sizes, grid: Array, how: How) -> None:
        self.size, self.how, self.channels, self.length = size, how, channels, volume(size)
        self.images, self.number = volume(lead), grid.shape[len(lead) : -1]
        self.points = volume(self.number)
        self.grid = grid.reshape(self.images, self.points, len(size))
        self.corners = len(_WEIGHTS[how.mode][1]) ** len(size)

    def walk(
        self, xp: Namespace, *wanted: Sizes
    ) -> Iterator[tuple[slice, slice, Array, list[Array]]]:
        """Images, points, and their neighbours and weights: `(images, 1, neighbours, points)`."""
        for images, points in _blocks(self.images, self.points, self.channels * self.corners):
            own = self.grid[images, points]
            count, number, dims = own.shape
            flat = own.reshape(count * number, dims)
            cells, weights = _neighbours(xp, flat, self.size, self.how, wanted)
            shape = self.corners, count, 1, number
            order = 1, 2, 0, 3
            turned = [one.reshape(shape).transpose(order) for one in weights]
            yield images, points, cells.reshape(shape).transpose(order), turned

    def spots(self, cells: Array) -> Array:
        """Neighbours in all channels of all images of a block, counted together."""
        starts = starts_of(len(cells) * self.channels, self.length)
        return cells + starts.reshape(len(cells), self.channels, 1, 1)


def looked_up(xp: Namespace, input: Array, grid: Array, how: How) -> Array:
    """`input` (..., channels, *size) at the positions of `grid` (..., *number, dims)."""
    dims = len(how.orders)
    *lead, channels = input.shape[: input.ndim - dims]
    walk = _Sampling(tuple(lead), channels, input.shape[input.ndim - dims :], grid, how)
    flat = input.reshape(walk.images, channels * walk.length)
    out = xp.empty((walk.images, channels, walk.points), input.dtype)
    for images, points, cells, (weights,) in walk.walk(xp, how.orders):
        found = flat[images].reshape(-1).take(walk.spots(cells))
        found *= weights
        xp.add.reduce(found, 2, out=out[images, :, points])
    return out.reshape(*lead, channels, *walk.number)


def added_up(xp: Namespace, gradient: Array, grid: Array, size: Sizes, how: How) -> Array:
    """The adjoint of `looked_up`: images of `size` with the gradient added where it came from."""
    dims = len(size)
    *lead, channels = gradient.shape[: gradient.ndim - dims]
    walk = _Sampling(tuple(lead), channels, size, grid, how)
    g = gradient.reshape(walk.images, channels, walk.points)
    out = xp.zeros((walk.images, channels * walk.length), gradient.dtype)
    for images, points, cells, (weights,) in walk.walk(xp, how.orders):
        if not is_finite(weights):  # what is no position is in no image
            weights = xp.where(weights == weights, weights, 0)
        parts = g[images, :, None, points] * weights
        spots = walk.spots(cells)
        xp.add.at(out[images].reshape(-1), spots.reshape(-1), parts.reshape(-1))
    return out.reshape(*lead, channels, *size)


def slopes(xp: Namespace, gradient: Array, input: Array, grid: Array, how: How) -> Array:
    """The gradient of the grid: along each dimension, summed over channels and neighbours."""
    dims = len(how.orders)
    *lead, channels = input.shape[: input.ndim - dims]
    walk = _Sampling(tuple(lead), channels, input.shape[input.ndim - dims :], grid, how)
    flat = input.reshape(walk.images, channels * walk.length)
    g = gradient.reshape(walk.images, channels, walk.points)
    out = xp.zeros((walk.images, walk.points, dims), grid.dtype)
    if how.mode == "nearest":
        return out.reshape(grid.shape)
    wanted = [how.differentiated(dim).orders for dim in range(dims)]
    for images, points, cells, weights in walk.walk(xp, *wanted):
        found = flat[images].reshape(-1).take(walk.spots(cells))
        found *= g[images, :, None, points]
        products = xp.add.reduce(found, 1)
        for dim, weight in enumerate(weights):
            xp.add.reduce(products * weight[:, 0], 1, out=out[images, points, dims - 1 - dim])
    return out.reshape(grid.shape)
