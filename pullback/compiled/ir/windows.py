"""Convolutions in the array language: where the points of their windows lie in a padded copy.

The input is copied to one long row, its lines and images with zeros between them: what is behind a
line is before the next one too. A point of the filters is then so many places further on, whatever
the window, and nothing is copied for each point.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import BYTES, Val, contiguous

__all__ = ["Slide", "Windows", "convolved", "input_of_windows", "weight_of_windows"]

_VECTOR = 64  # bytes of the longest there are
_APART = 512  # bytes: channels a multiple of it apart evict each other from the cache


class Slide(NamedTuple):
    """How windows slide over an image: along its lines, and from line to line."""

    padding: tuple[tuple[int, int], ...]
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)


class Windows(NamedTuple):
    """Where windows lie in the row, in elements."""

    images: int
    image: int  # from an image to the next
    lines: int
    line: int  # from a line of windows to the next
    columns: int
    column: int  # from a window to the next
    points: tuple[int, ...]  # of all channels, from where the window begins


def _padded(b: Builder, x: Val, kernel: tuple[int, ...], slide: Slide) -> tuple[Val, Windows]:
    """The row, and the windows in it; `x` is (images, channels, lines, columns)."""
    images, channels, height, width = x.shape
    (above, below), (before, behind) = slide.padding
    size = BYTES[x.dtype]
    line = width + max(before, behind)
    plane = (height + max(above, below)) * line
    if plane * size % _APART == 0:
        plane += _VECTOR // size
    sides = zip((height + above + below, width + before + behind), kernel, *slide[1:], strict=True)
    lines, columns = ((whole - d * (k - 1) - 1) // step + 1 for whole, k, step, d in sides)
    down, along = slide.dilation
    points = tuple(
        channel * plane + y * down * line + z * along
        for channel, y, z in itertools.product(range(channels), *map(range, kernel))
    )
    step = slide.stride[1]
    windows = Windows(
        images, channels * plane, lines, slide.stride[0] * line, columns, step, points
    )
    last = (images - 1) * windows.image + points[-1] + (lines - 1) * windows.line + columns * step
    lead = above * line + before
    total = max(last, lead + images * windows.image) + step * _VECTOR // size
    row = b.make("padrow", (_dense(b, x),), (lead, plane, line), (total,), x.dtype)
    return row, windows


def convolved(b: Builder, x: Val, weight: Val, bias: Val | None, slide: Slide) -> Val:
    """Each filter times each window, plus the bias of its output channel."""
    outputs, _, *kernel = weight.shape
    row, windows = _padded(b, x, tuple(kernel), slide)
    filters = b.reshape(weight, (outputs, len(windows.points)))
    return _products(b, row, filters, bias, windows)


def input_of_windows(b: Builder, g: Val, weight: Val, bias: Val | None, slide: Slide) -> Val:
    """The adjoint with respect to the input: `g`, padded, is convolved with flipped filters.

    Not the filters are flipped but the points that they belong to.
    """
    outputs, channels, *kernel = weight.shape
    row, windows = _padded(b, g, tuple(kernel), slide)
    each = math.prod(kernel)
    starts = range(0, outputs * each, each)
    flipped = [point for start in starts for point in windows.points[start : start + each][::-1]]
    turned = b.copy(b.permute(b.reshape(weight, (outputs, channels, each)), (1, 0, 2)))
    filters = b.reshape(turned, (channels, outputs * each))
    return _products(b, row, filters, bias, windows._replace(points=tuple(flipped)))


def _products(b: Builder, row: Val, filters: Val, bias: Val | None, windows: Windows) -> Val:
    given = [_dense(b, one) for one in (filters, bias) if one is not None]
    shape = (windows.images, filters.shape[0], windows.lines, windows.columns)
    return b.make("conv", (row, *given), windows, shape, row.dtype)


def weight_of_windows(b: Builder, g: Val, x: Val, kernel: tuple[int, ...], slide: Slide) -> Val:
    """The adjoint with respect to the weight: gradients times windows, summed over all of them."""
    row, windows = _padded(b, x, kernel, slide)
    shape = (g.shape[1], len(windows.points))
    made = b.make("convsum", (row, _dense(b, g)), windows, shape, g.dtype)
    return b.reshape(made, (g.shape[1], x.shape[1], *kernel))


def _dense(b: Builder, x: Val) -> Val:
    """Row by row in memory."""
    pairs = zip(x.shape, x.strides, contiguous(x.shape), strict=True)
    return x if all(n == 1 or s == wanted for n, s, wanted in pairs) else b.copy(x)
