"""Convolutions whose windows start one apart, on lines as long as those of the padded input.

A point of all windows is then one long run of memory for each line of lines, where it would be a
short one for each line: copying windows of 8 images of 16 x 16 x 16, kernels 3 x 3, takes 40 us and
not 190. Places between the end of one line and the start of the next are worked out too, and cut
off in the end; in gradients they are zeros. The padding behind a line is that before the next one:
16 places become 17, not 18, and products take so much less time.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays.runs import put
from pullback.operators.arrays.strides import restrided
from pullback.operators.arrays.threads import each, in_order
from pullback.operators.arrays.windows import Pads, Sizes, blocks, pieces, volume, whole_size

__all__ = ["Lines", "correlated_lines", "lines_of", "spread_lines", "weight_of_lines"]

_FEW = 1 << 13  # elements of windows below which more calls cost more than shorter runs
_WORTH = 1.5  # how much longer lines may become
_LONG = 128  # places in a line from which on runs are long as they are


class Lines:
    """The shapes of one convolution on lengthened lines."""

    __slots__ = (
        *("cut", "each", "filters", "groups", "inside", "lead", "length", "lines", "out", "rows"),
        *("seen", "steps", "tail", "whole", "wide"),
    )

    def __init__(
        self,
        shape: Sizes,
        filters: Sizes,
        padding: Pads,
        dilation: Sizes,
        groups: int,
        number: Sizes,
    ) -> None:
        n, channels, *old = shape
        outputs, kernel = filters[0], filters[2:]
        size = (*whole_size(tuple(old[:-1]), padding[:-1]), _line_length(shape, padding, number))
        self.whole = (n, channels, *size)
        above = zip(padding[:-1], old[:-1], strict=True)
        self.inside = (
            ...,
            *(slice(before, before + k) for (before, _), k in above),
            slice(old[-1]),
        )
        self.lead = padding[-1][0]  # before the first line; the others' is behind the line before
        # Read behind the last line, and cut off.
        self.tail = max((kernel[-1] - 1) * dilation[-1] - self.lead, 0)
        lengths = (*number[:-2], number[-2] * size[-1])
        strides = [volume(self.whole[dim + 1 :]) for dim in range(len(self.whole))]
        moves = [step * d for step, d in zip(strides[2:], dilation, strict=True)]
        self.steps = (*strides[:2], *moves, *strides[2:-2], 1)
        self.seen = (n, channels, *kernel, *lengths)
        self.groups, self.rows = groups, volume(filters[1:])
        self.filters = (groups, outputs // groups, self.rows)
        self.out = (n, outputs, *number)
        self.wide = (n, outputs, *number[:-1], size[-1])
        self.cut = (..., slice(0, number[-1]))
        self.length, self.lines = size[-1], number[-2]
        self.each = groups * self.rows * volume(number[:-2]) * size[-1]  # elements of one line

    def image(self, xp: Namespace, input: Array) -> Array:
        """All windows, a view of a padded copy: (n, channels, *kernel, ..., places)."""
        flat = self.zeros(xp, input.dtype)
        put(self.inner(flat), input)
        return self.windows(flat)

    def zeros(self, xp: Namespace, dtype: Any) -> Array:
        """Memory for a padded image."""
        return xp.zeros(self.lead + volume(self.whole) + self.tail, dtype)

    def inner(self, flat: Array) -> Array:
        """What is padded there."""
        end = self.lead + volume(self.whole)
        return flat[self.lead : end].reshape(self.whole)[self.inside]

    def windows(self, flat: Array) -> Array:
        """All windows: (n, channels, *kernel, ..., places)."""
        return restrided(flat, self.seen, [flat.itemsize * s for s in self.steps])


def _line_length(shape: Sizes, padding: Pads, number: Sizes) -> int:
    """Of a line with as much padding as either side needs, and room for all its places."""
    return max(shape[-1] + max(padding[-1]), number[-1])


def _lines(
    shape: Sizes,
    filters: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
    number: Sizes,
) -> Lines | None:
    if len(stride) < 2 or set(stride) != {1} or not all(shape) or not all(number):
        return None
    if min(map(min, padding)) < 0 or set(filters[2:]) == {1}:
        return None
    length = _line_length(shape, padding, number)
    if length > _WORTH * number[-1] or number[-1] > _LONG or number[-2] == 1:
        return None
    made = Lines(shape, filters, padding, dilation, groups, number)
    return made if made.each * made.lines * shape[0] >= _FEW else None


lines_of = lru_cache(512)(_lines)


def correlated_lines(
    xp: Namespace, lines: Lines, input: Array, weight: Array, bias: Array | None
) -> Array:
    """Each filter times each window, plus the bias of its output channel."""
    seen = lines.image(xp, input)
    filters = weight.reshape(lines.filters if lines.groups > 1 else lines.filters[1:])
    out = xp.empty(lines.out, input.dtype)
    shift = None if bias is None else bias.reshape(*filters.shape[:-1], 1)

    def work(piece: tuple[slice, slice]) -> None:
        examples, part = piece
        columns = _columns(lines, seen, examples, part)
        target = out[(examples, ..., part, slice(None))]
        made = xp.matmul(filters, columns)
        if shift is not None:
            made += shift  # before the cut: in long runs, half of the time
        put(target, made.reshape(*target.shape[:-1], lines.length)[lines.cut])

    each(work, pieces(len(out), lines.lines, lines.each))
    return out


def _columns(lines: Lines, seen: Array, examples: slice, part: slice) -> Array:
    """The windows of some examples in some lines, a row for each point: copied."""
    piece = seen[examples, ..., part.start * lines.length : part.stop * lines.length]
    lead = (len(piece), lines.groups) if lines.groups > 1 else (len(piece),)
    return piece.reshape(*lead, lines.rows, -1)


def weight_of_lines(xp: Namespace, lines: Lines, gradient: Array, input: Array) -> Array:
    """The gradient of the filters, as (groups, outputs / groups, rows)."""
    seen = lines.image(xp, input)
    wide = xp.zeros(lines.wide, gradient.dtype)
    put(wide[lines.cut], gradient)
    lead = lines.filters[:2] if lines.groups > 1 else lines.filters[1:2]

    def work(piece: tuple[slice, slice]) -> Array:
        examples, part = piece
        columns = _columns(lines, seen, examples, part)
        right = wide[(examples, ..., part, slice(None))].reshape(len(columns), *lead, -1)
        # The smaller one is turned: that is the one that BLAS packs slowly.
        return xp.matmul(columns, right.swapaxes(-1, -2)).sum(0)

    result = None
    for made in in_order(work, pieces(len(wide), lines.lines, lines.each)):
        result = made if result is None else xp.add(result, made, result)
    assert result is not None  # as there are examples
    return result.swapaxes(-1, -2)


def spread_lines(xp: Namespace, lines: Lines, gradient: Array, weight: Array) -> Array:
    """The adjoint of `correlated_lines` with respect to its input."""
    flat = lines.zeros(xp, gradient.dtype)
    seen = lines.windows(flat)
    groups, outputs, rows = lines.filters
    filters = weight.reshape(lines.filters).swapaxes(1, 2)
    filters = xp.ascontiguousarray(filters if groups > 1 else filters[0])
    dims = len(lines.out) - 2
    kernel = lines.seen[2 : 2 + dims]
    lead = (groups, outputs) if groups > 1 else (outputs,)

    def work(examples: slice) -> None:
        target = seen[examples]
        wide = xp.zeros((len(target), *lines.wide[1:]), gradient.dtype)
        put(wide[lines.cut], gradient[examples])
        made = xp.matmul(filters, wide.reshape(len(target), *lead, -1)).reshape(target.shape)
        for point in itertools.product(*map(range, kernel)):
            place = (slice(None), slice(None), *point)
            target[place] += made[place]

    each(work, blocks(len(gradient), rows * groups * volume(lines.wide[2:])))
    return xp.ascontiguousarray(lines.inner(flat))
