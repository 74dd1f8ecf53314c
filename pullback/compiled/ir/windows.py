"""Convolutions in the array language: where the points of their windows lie in a padded copy.

Images are copied to a room of memory, one or some at a time (a room of its own for each thread),
their lines and channels with zeros between them: what is behind a line is before the next one too.
A point of the filters is then so many places further on, whatever the window, and nothing is copied
for each point.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import BYTES, Val, contiguous

__all__ = [
    "POINTS",
    "Slide",
    "Windows",
    "blocks_at_once",
    "convolved",
    "dense",
    "input_of_windows",
    "lines_at_once",
    "weight_of_windows",
]

_VECTOR = 64  # bytes of the longest there are
_APART = 512  # bytes: channels a multiple of it apart evict each other from the cache


class Slide(NamedTuple):
    """How windows slide over an image: along its lines, and from line to line."""

    padding: tuple[tuple[int, int], ...]
    stride: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)


class Windows(NamedTuple):
    """Where windows lie in the room, in elements."""

    lead: int  # before the first line
    row: int  # from a line of an image to the next
    plane: int  # from a channel to the next
    image: int
    beyond: int  # that windows reach behind their image's channels
    lines: int
    line: int  # from a line of windows to the next
    columns: int
    column: int  # from a window to the next
    points: tuple[int, ...]  # of all channels, from where the window begins


def _windows(x: Val, kernel: tuple[int, ...], slide: Slide) -> Windows:
    """Of `x`, which is (images, channels, lines, columns)."""
    channels, height, width = x.shape[1:]
    (above, below), (before, behind) = slide.padding
    size = BYTES[x.dtype]
    row = width + max(before, behind)
    plane = (height + max(above, below)) * row
    if plane * size % _APART == 0:
        plane += _VECTOR // size
    sides = zip((height + above + below, width + before + behind), kernel, *slide[1:], strict=True)
    lines, columns = ((whole - d * (k - 1) - 1) // step + 1 for whole, k, step, d in sides)
    down, along = slide.dilation
    points = tuple(
        channel * plane + y * down * row + z * along
        for channel, y, z in itertools.product(range(channels), *map(range, kernel))
    )
    (line, column), lead = (slide.stride[0] * row, slide.stride[1]), above * row + before
    last = points[-1] + (lines - 1) * line + columns * column
    image = channels * plane
    beyond = max(last - image, lead) + column * _VECTOR // size
    return Windows(lead, row, plane, image, beyond, lines, line, columns, column, points)


def _room(b: Builder, windows: Windows, images: int, dtype: str) -> Val:
    """Memory for so many images at a time."""
    size = images * windows.image + windows.beyond
    return b.make("room", (), None, (size,), dtype, unique=True)


def convolved(b: Builder, x: Val, weight: Val, bias: Val | None, slide: Slide) -> Val:
    """Each filter times each window, plus the bias of its output channel."""
    outputs, _, *kernel = weight.shape
    windows = _windows(x, tuple(kernel), slide)
    filters = b.reshape(weight, (outputs, len(windows.points)))
    return _products(b, x, filters, bias, windows)


def input_of_windows(b: Builder, g: Val, weight: Val, bias: Val | None, slide: Slide) -> Val:
    """The adjoint with respect to the input: `g`, padded, is convolved with flipped filters.

    Not the filters are flipped but the points that they belong to.
    """
    outputs, channels, *kernel = weight.shape
    windows = _windows(g, tuple(kernel), slide)
    each = math.prod(kernel)
    starts = range(0, outputs * each, each)
    flipped = [point for start in starts for point in windows.points[start : start + each][::-1]]
    turned = b.copy(b.permute(b.reshape(weight, (outputs, channels, each)), (1, 0, 2)))
    filters = b.reshape(turned, (channels, outputs * each))
    return _products(b, g, filters, bias, windows._replace(points=tuple(flipped)))


def _products(b: Builder, x: Val, filters: Val, bias: Val | None, windows: Windows) -> Val:
    given = [dense(b, one) for one in (x, filters, bias) if one is not None]
    shape = (x.shape[0], filters.shape[0], windows.lines, windows.columns)
    return b.make("conv", (_room(b, windows, 1, x.dtype), *given), windows, shape, x.dtype)


# Gradients of filters -----------------------------------------------------------------------------

POINTS = 6  # whose windows are copied at a time, at most
# Bytes of the copy: 8 images of 16 x 16 x 16 with 32 filters take 140 us with this, 185 with more
# than the first cache has, which leaves the second to do both copy and gradients.
_NEAR = 24 * 1024
_MOST = 192 * 1024  # bytes of the stack
_FEW = 256  # places, for which it does not pay to add up vectors in the end


def lines_at_once(windows: Windows, size: int) -> int:
    """As many lines of an image as stay near: all, or a part without a rest; 0 if none has room."""
    lines = [n for n in range(1, windows.lines + 1) if windows.lines % n == 0]
    room = {n: (n * windows.columns + 16) * POINTS * size for n in lines}
    near = [n for n in lines if room[n] <= _NEAR]
    if near and (near[-1] == lines[-1] or near[-1] * windows.columns >= _FEW):
        return near[-1]
    farther = [n for n in lines if _NEAR < room[n] <= _MOST]
    return farther[0] if farther else near[-1] if near else 0


def blocks_at_once(windows: Windows, images: int, size: int) -> int:
    """How many such parts of images are copied at a time: of one image, or whole ones."""
    lines = lines_at_once(windows, size)
    parts = windows.lines // lines
    each = (lines * windows.columns + 16) * POINTS * size
    return min(max(_NEAR // each, 1), images if parts == 1 else parts)


def weight_of_windows(
    b: Builder, g: Val, x: Val, kernel: tuple[int, ...], slide: Slide
) -> Val | None:
    """The adjoint with respect to the weight: gradients times windows, summed over all of them.

    None where the lines are longer than there is room for.
    """
    windows, size = _windows(x, kernel, slide), BYTES[x.dtype]
    lines = lines_at_once(windows, size)
    if not lines:
        return None
    whole = lines == windows.lines
    room = _room(b, windows, blocks_at_once(windows, x.shape[0], size) if whole else 1, x.dtype)
    given = (room, dense(b, x), dense(b, g))
    made = b.make("convsum", given, windows, (g.shape[1], len(windows.points)), g.dtype)
    return b.reshape(made, (g.shape[1], x.shape[1], *kernel))


def dense(b: Builder, x: Val) -> Val:
    """Row by row in memory."""
    pairs = zip(x.shape, x.strides, contiguous(x.shape), strict=True)
    return x if all(n == 1 or s == wanted for n, s, wanted in pairs) else b.copy(x)
