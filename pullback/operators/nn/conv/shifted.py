"""Convolutions whose windows start one apart, as sums of products without a copy of all windows.

The images of each channel lie behind each other in one long row of memory, on lines that end in
zeros: the padding behind a line is that before the next one, that below an image is above the next.
A point of all windows is then the same row read from some places further on, and a convolution is a
sum of products with such rows, which BLAS adds up. Places between the end of one line and the start
of the next are worked out too, and cut off in the end; in gradients they are zeros.

Few channels make products that BLAS is slow at: then the rows of several points are copied below
each other, those along all dimensions of the kernel but the last (`Rows.joined`). Very few are left
to lines.py, which copies all of them.
"""

from __future__ import annotations

import itertools
from functools import lru_cache

from pullback.core.arrays import LIBRARIES, Array, Namespace
from pullback.operators.arrays.gemm import AddProduct, adder, step_of
from pullback.operators.arrays.row_major import row_major
from pullback.operators.arrays.runs import put
from pullback.operators.arrays.strides import address, restrided
from pullback.operators.arrays.threads import each, in_order
from pullback.operators.arrays.windows import Pads, Sizes, blocks, pieces, volume

__all__ = ["Rows", "correlated_rows", "rows_of", "weight_of_rows"]

# Elements of windows from which on fewer copies save more than the calls cost.
_MANY = 1 << 17
_THIN = 16  # rows up to which a product is too thin
_THICK = 48  # channels from which on it is not
_WORTH = 1.3  # how many times as many places may be worked out


class Rows:
    """The shapes of one convolution on rows."""

    __slots__ = (
        *("borders", "channels", "cut", "each", "examples", "image", "inside", "joined", "kernel"),
        *("lead", "line", "lines", "moves", "number", "outputs", "row", "shifts", "size", "tail"),
    )

    def __init__(
        self, shape: Sizes, filters: Sizes, padding: Pads, dilation: Sizes, number: Sizes
    ) -> None:
        self.examples, self.channels, *old = shape
        self.outputs, self.kernel, self.number = filters[0], filters[2:], number
        self.size = _size(shape, padding, number)
        steps = [volume(self.size[dim + 1 :]) for dim in range(len(number))]
        self.inside, self.cut = (..., *map(slice, old)), (..., *map(slice, number))
        # The zeros behind each dimension's elements, of what is inside along those before it.
        self.borders = [
            (slice(None), slice(None), *map(slice, old[:dim]), slice(old[dim], None))
            for dim in range(len(old))
            if old[dim] < self.size[dim]
        ]
        self.lines, self.line, self.image = number[0], steps[0], volume(self.size)
        self.row = self.examples * self.image
        # Before the first image; the others' padding is behind the image before.
        self.lead = sum(before * step for (before, _), step in zip(padding, steps, strict=True))
        self.moves = tuple(map(int.__mul__, steps, dilation))
        points = [range(0, k * move, move) for k, move in zip(self.kernel, self.moves, strict=True)]
        # Read behind the last image, and cut off.
        self.tail = max(sum(point[-1] for point in points) - self.lead, 0)
        self.joined = 0 if self.channels >= _THICK else len(self.kernel) - 1
        self.shifts = [sum(point) for point in itertools.product(*points[self.joined :])]
        rows = self.channels * volume(self.kernel[: self.joined])
        self.each = max(rows, self.outputs) * self.line  # elements of one line

    def padded(self, xp: Namespace, input: Array) -> Array:
        """A padded copy of the images: the memory of all rows."""
        flat = xp.empty(self.lead + self.channels * self.row + self.tail, input.dtype)
        end = len(flat) - self.tail
        flat[: self.lead], flat[end:] = 0, 0
        images = flat[self.lead : end].reshape(self.channels, -1, *self.size)

        def work(examples: slice) -> None:
            target = images[:, examples]
            for border in self.borders:
                target[border] = 0
            put(target[self.inside], input[examples].swapaxes(0, 1))

        each(work, blocks(self.examples, self.channels * self.image))
        return flat

    def seen(self, xp: Namespace, flat: Array, start: int, length: int) -> Array:
        """The rows from one place on, for as many as the shifts reach: those of joined points."""
        steps = [flat.itemsize * step for step in (self.row, *self.moves[: self.joined], 1)]
        length += self.shifts[-1]
        shape = (self.channels, *self.kernel[: self.joined], length)
        view = restrided(flat, shape, steps, flat.itemsize * start)
        # A copy even of what NumPy could see as a matrix of rows that overlap: BLAS takes no such.
        return xp.ascontiguousarray(view).reshape(-1, length) if self.joined else view

    def span(self, examples: slice, part: slice) -> tuple[int, int, Sizes]:
        """Where some lines of some examples begin, how many places they have, and in what shape."""
        count = min(examples.stop, self.examples) - examples.start
        lines = part.stop - part.start
        start = examples.start * self.image + part.start * self.line
        length = (count - 1) * self.image + lines * self.line
        return start, length, (count, lines if count == 1 else self.size[0], *self.size[1:])


def _size(shape: Sizes, padding: Pads, number: Sizes) -> Sizes:
    """With as much padding as either side needs, and room for all places."""
    sides = zip(shape[2:], padding, number, strict=True)
    return tuple([max(size + max(pair), places) for size, pair, places in sides])


def _rows(
    shape: Sizes,
    filters: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
    number: Sizes,
) -> Rows | None:
    if groups > 1 or set(stride) != {1} or not all(shape) or not all(number):
        return None
    if min(map(min, padding)) < 0 or set(filters[2:]) == {1}:
        return None
    places = volume(_size(shape, padding, number))
    thin = filters[1] * volume(filters[2:-1]) <= _THIN
    if thin or places > _WORTH * volume(number):
        return None
    if shape[0] * places * volume(filters[1:]) < _MANY:
        return None
    return Rows(shape, filters, padding, dilation, number)


_known = lru_cache(512)(_rows)


def rows_of(
    input: Array,
    other: Array,
    filters: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
    number: Sizes,
) -> Rows | None:
    """The shapes of a convolution of `input` with `other`, where this is the way to it."""
    if type(input) in LIBRARIES or adder(input.dtype) is None or other.dtype != input.dtype:
        return None
    return _known(input.shape, filters, stride, padding, dilation, groups, number)


def _adder(array: Array) -> AddProduct:
    add = adder(array.dtype)
    assert add is not None  # as `rows_of` has found out
    return add


def _length_of_row(seen: Array, length: int) -> int:
    """From one row to the next, in elements; a single one's stride may be anything."""
    return max(int(seen.strides[0]) // int(seen.itemsize), length)


def correlated_rows(
    xp: Namespace, rows: Rows, input: Array, weight: Array, bias: Array | None
) -> Array:
    """Each filter times each window, plus the bias of its output channel."""
    flat, add, size = rows.padded(xp, input), _adder(input), input.itemsize
    out = xp.empty((rows.examples, rows.outputs, *rows.number), input.dtype)
    # For each shift a matrix (outputs, rows).
    filters = weight.reshape(rows.outputs, -1, len(rows.shifts)).transpose(2, 0, 1)
    filters = xp.ascontiguousarray(filters)
    m, k = filters.shape[1:]
    matrices = [address(filters) + number * m * k * size for number in range(len(filters))]

    def work(piece: tuple[slice, slice]) -> None:
        start, length, shape = rows.span(*piece)
        seen = rows.seen(xp, flat, start, length)
        made = xp.empty((m, volume(shape)), input.dtype)
        made[...] = 0 if bias is None else bias[:, None]
        right, to, long = address(seen), address(made), volume(shape)
        row = _length_of_row(seen, length)
        step = step_of(length, m * k)
        for first in range(0, length, step):
            n = min(step, length - first)
            for left, shift in zip(matrices, rows.shifts, strict=True):
                b, c = right + (first + shift) * size, to + first * size
                add(m, n, k, left, k, b, row, c, long)
        cut = made.reshape(m, *shape)[rows.cut]
        put(out[piece[0], :, piece[1]], cut.swapaxes(0, 1))

    each(work, pieces(rows.examples, rows.lines, rows.each))
    return out


def weight_of_rows(xp: Namespace, rows: Rows, gradient: Array, input: Array) -> Array:
    """The gradient of the filters."""
    flat, add, size = rows.padded(xp, input), _adder(input), input.itemsize
    n = rows.outputs

    def work(piece: tuple[slice, slice]) -> Array:
        start, length, shape = rows.span(*piece)
        seen = rows.seen(xp, flat, start, length)
        wide = xp.zeros((n, *shape), gradient.dtype)
        put(wide[rows.cut], gradient[piece[0], :, piece[1]].swapaxes(0, 1))
        # Turned now, not on the way: places of two channels are often a power of two apart, where
        # they evict each other from the cache, and lengthened lines are not.
        turned = row_major(wide.reshape(n, -1).T)
        m = len(seen)
        out = xp.zeros((len(rows.shifts), m, n), gradient.dtype)
        left, right, to = address(seen), address(turned), address(out)
        row = _length_of_row(seen, length)
        step = step_of(length, m * n)
        for first in range(0, length, step):
            k = min(step, length - first)
            for number, shift in enumerate(rows.shifts):
                a, b = left + (first + shift) * size, right + first * n * size
                add(m, n, k, a, row, b, n, to + number * m * n * size, n)
        return out

    result = None
    for made in in_order(work, pieces(rows.examples, rows.lines, rows.each)):
        result = made if result is None else xp.add(result, made, result)
    assert result is not None  # as there are examples
    out = xp.empty((n, rows.channels, *rows.kernel), gradient.dtype)  # who keeps it copies views
    out.reshape(n, -1, len(result))[...] = result.transpose(2, 1, 0)
    return out
