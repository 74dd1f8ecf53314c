"""Convolutions on arrays: windows copied to columns, and products of matrices with them.

Everything that follows from shapes and options alone is worked out once and remembered; small
convolutions would spend most of their time on it. The adjoint with respect to the input is in
adjoint.py, the operators are in operators.py, quicker ways to both in quick.py and flipped.py.
"""

from __future__ import annotations

from functools import lru_cache

from numpy import ndarray

from pullback.core.arrays import LIBRARIES, Array, Namespace
from pullback.operators.arrays import windows
from pullback.operators.arrays.sums import sums
from pullback.operators.arrays.threads import each, in_order
from pullback.operators.arrays.windows import (
    Pads,
    Sizes,
    counts,
    padded,
    pieces,
    points,
    volume,
    whole_size,
)

__all__ = ["FEW_PLACES", "Layout", "correlated", "layout_of", "weight_gradient"]

# With fewer places than this, the examples share one product: a product for each would read all
# weights again. 16 images of 256 x 3 x 3 and 256 filters: 0.3 ms together, 0.7 ms one by one.
FEW_PLACES = 32


class Layout:
    """The shapes of one convolution, and how its windows lie in the padded input."""

    __slots__ = (
        *("bias", "columns", "each", "examples", "filters", "geometry", "groups", "one_kernel"),
        *("order", "out", "places", "rows", "seen", "size", "strides", "together"),
    )

    def __init__(
        self,
        shape: Sizes,
        filters: Sizes,
        stride: Sizes,
        padding: Pads,
        dilation: Sizes,
        groups: int,
        number: Sizes | None = None,
    ) -> None:
        n, channels, *old = shape
        outputs, kernel = filters[0], filters[2:]
        whole = whole_size(tuple(old), padding)
        if number is None:
            number = counts(whole, kernel, stride, dilation)
        self.geometry = kernel, number, stride, dilation
        self.seen = (n, channels, *kernel, *number)
        self.strides = _strides((n, channels, *whole), stride, dilation)
        self.out = (n, outputs, *number)
        self.examples, self.groups = n, groups
        self.rows, self.places = volume(filters[1:]), volume(number)
        self.each = groups * self.rows * volume(number[1:])  # elements of windows in one line
        self.size = volume(self.seen)
        # A batch of one and a single group are left out: products of two matrices start sooner.
        lead = () if groups == 1 else (groups,)
        self.filters = (*lead, outputs // groups, self.rows)
        self.bias = (*lead, outputs // groups, 1)
        self.columns = (*((n,) if n != 1 else ()), *lead, self.rows, self.places)
        # Examples behind the rows of each group, for one product of all of them.
        dims = len(kernel)
        self.order = (*range(1, 2 + dims), 0, *range(2 + dims, 2 + 2 * dims))
        self.together = (*lead, self.rows, n * self.places)
        # Windows of one element each are the input itself.
        self.one_kernel = set(kernel) == set(stride) == {1}

    def windows(self, image: Array) -> Array:
        """All windows of the padded input, a view of shape (n, channels, *kernel, *number)."""
        if type(image) not in LIBRARIES and image.flags.c_contiguous:
            return ndarray(self.seen, image.dtype, image, 0, self.strides[image.itemsize])
        return windows.windows(image, *self.geometry)


def _strides(shape: Sizes, stride: Sizes, dilation: Sizes) -> dict[int, Sizes]:
    """The strides of windows of a contiguous array in bytes, by the size of an element."""
    steps = [volume(shape[dim + 1 :]) for dim in range(len(shape))]
    places = steps[2:]
    moves = [*steps[:2], *map(int.__mul__, places, dilation), *map(int.__mul__, places, stride)]
    return {size: tuple([size * move for move in moves]) for size in (1, 2, 4, 8, 16)}


layout_of = lru_cache(512)(Layout)


def correlated(
    xp: Namespace,
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """Each filter times each window, plus the bias of its output channel."""
    layout = layout_of(input.shape, weight.shape, stride, padding, dilation, groups)
    image = padded(xp, input, padding)
    filters = weight.reshape(layout.filters)
    if layout.places < FEW_PLACES and layout.examples > 1:
        out = _all_together(xp, layout, image, filters)
    elif layout.one_kernel or layout.size <= windows.BLOCK:
        seen = image if layout.one_kernel else layout.windows(image)
        columns = seen.reshape(layout.columns)
        # The method takes half the time of `matmul` to start.
        out = filters.dot(columns) if columns.ndim == 2 else xp.matmul(filters, columns)
    else:
        return _in_pieces(xp, layout, image, filters, bias)
    if bias is not None:
        out += bias.reshape(layout.bias)
    return out.reshape(layout.out)


def _all_together(xp: Namespace, layout: Layout, image: Array, filters: Array) -> Array:
    """The windows of all examples side by side, as (n, groups, outputs / groups, places)."""
    columns = layout.windows(image).transpose(layout.order).reshape(layout.together)
    shape = layout.groups, layout.filters[-2], layout.examples, layout.places
    made = xp.matmul(filters, columns).reshape(shape).transpose(2, 0, 1, 3)
    return xp.ascontiguousarray(made).reshape(layout.examples, *layout.bias[:-1], layout.places)


def _in_pieces(
    xp: Namespace, layout: Layout, image: Array, filters: Array, bias: Array | None
) -> Array:
    """As much at once as stays in the cache between the copy and the product."""
    out = xp.empty(layout.out, image.dtype)
    n, _, lines, *rest = layout.out
    seen, length = layout.windows(image), volume(tuple(rest))
    result = out.reshape(n, *layout.bias[:-1], layout.places)
    if bias is not None:
        bias = bias.reshape(layout.bias)
    behind = (slice(None),) * len(rest)

    def work(piece: tuple[slice, slice]) -> None:
        examples, part = piece
        places = slice(part.start * length, part.stop * length)
        target = result[examples, ..., places]
        columns = seen[(examples, ..., part, *behind)]
        columns = columns.reshape(len(target), *layout.bias[:-2], layout.rows, target.shape[-1])
        xp.matmul(filters, columns, out=target)
        if bias is not None:
            target += bias

    each(work, pieces(n, lines, layout.each))
    return out


# With respect to the weight -----------------------------------------------------------------------


def weight_gradient(
    xp: Namespace,
    gradient: Array,
    input: Array,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """The adjoint of `correlated` with respect to its weight, which had `kernel`."""
    number = gradient.shape[2:]  # fewer than fit, if some do thanks to output padding alone
    filters = (gradient.shape[1], input.shape[1] // groups, *kernel)
    layout = layout_of(input.shape, filters, stride, padding, dilation, groups, number)
    by_channel = groups == filters[0] == input.shape[1] and layout.examples > 0
    image = padded(xp, input, padding)
    if layout.examples == 1 and layout.size <= windows.BLOCK:
        columns = layout.windows(image).reshape(layout.columns)
        lines = gradient.reshape(*layout.bias[:-1], layout.places)
        return xp.matmul(lines, columns.swapaxes(-1, -2)).reshape(filters)
    if by_channel and input.dtype.kind == "f":
        dims = (0, *range(2, gradient.ndim - 1))
        made = [
            sums(xp, xp.vecdot(image[place], gradient), dims, keepdim=False)
            for _, place in points(*layout.geometry)
        ]
        return xp.stack(made, 1).reshape(filters)
    return _summed_pieces(xp, layout, image, gradient).reshape(filters)


def _summed_pieces(xp: Namespace, layout: Layout, image: Array, gradient: Array) -> Array:
    """The products of gradient and windows, added up piece by piece."""
    n, outputs, lines, *rest = layout.out
    groups, rows, length = layout.groups, layout.rows, volume(tuple(rest))
    seen = layout.windows(image)
    parts = gradient.reshape(n, groups, outputs // groups, layout.places)
    behind = (slice(None),) * len(rest)

    def work(piece: tuple[slice, slice]) -> Array:
        examples, part = piece
        columns = seen[(examples, ..., part, *behind)]
        left = parts[examples, ..., part.start * length : part.stop * length]
        size = len(left) * left.shape[-1]
        columns = columns.transpose(layout.order).reshape(groups, rows, size)
        left = left.transpose(1, 2, 0, 3).reshape(groups, outputs // groups, size)
        return xp.matmul(left, columns.swapaxes(1, 2))

    result = None
    for product in in_order(work, pieces(n, lines, layout.each)):
        result = product if result is None else xp.add(result, product, out=result)
    if result is None:
        return xp.zeros((groups, outputs // groups, rows), image.dtype)
    return result
