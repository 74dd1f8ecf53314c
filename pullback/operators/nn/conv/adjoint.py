"""The adjoint of a convolution with respect to its input, on arrays.

It is a convolution with flipped filters; where windows start some elements apart, one for each
place between their starts. With dilation as well, or where there are many outputs and few
channels, the products with all filters are added up, window by window.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays.windows import (
    Pads,
    Sizes,
    add_windows,
    blocks,
    inner,
    points,
    volume,
    whole_size,
)
from pullback.operators.nn.conv import kernels as conv_kernels
from pullback.operators.nn.conv import native
from pullback.operators.nn.conv.kernels import correlated
from pullback.operators.nn.conv.lines import lines_of, spread_lines

__all__ = ["spread"]

# Up to so many elements of windows, zeros between the input's elements are multiplied along: a
# convolution is fewer calls than adding up the windows, point by point.
_FEW = 1 << 14
_FEW_ELEMENTS = 2048

# Up to so many outputs for each channel, and with so many channels always, a convolution with
# flipped filters is faster than adding up the windows. With filters of 3 x 3, 8 images of 16 x 16
# from 64 channels to 16 take 0.53 ms and not 0.67, but 16 of 28 x 28 from 32 to 1 take 0.52 and not
# 0.23.
_WIDENS = 8
_WIDE = 4


class _Flip:
    """How the adjoint is a convolution: by flipped filters, the input's elements `stride` apart."""

    __slots__ = (
        *("apart", "backwards", "channels", "grouped", "padding", "places", "shape", "size"),
        "unit",
    )

    def __init__(
        self,
        shape: Sizes,
        filters: Sizes,
        size: Sizes,
        stride: Sizes,
        padding: Pads,
        dilation: Sizes,
        groups: int,
    ) -> None:
        kernel = filters[2:]
        number = [(n - 1) * step + 1 for n, step in zip(shape[2:], stride, strict=True)]
        self.shape = None if set(stride) == {1} else (*shape[:2], *number)
        self.apart = (..., *(slice(None, None, step) for step in stride))
        pads = []
        for n, s, pair, k, d in zip(number, size, padding, kernel, dilation, strict=True):
            pads.append((d * (k - 1) - pair[0], s + pair[0] - n))
        self.padding = tuple(pads)
        self.grouped = (groups, filters[0] // groups, *filters[1:])
        self.backwards: Any = (..., *(slice(None, None, -1),) * len(kernel))
        self.channels = (groups * filters[1], filters[0] // groups, *kernel)
        self.unit = (1,) * len(kernel)
        # Where the elements of flipped filters are, if there are few: one look-up.
        self.places: Array | None = None
        if (count := volume(filters)) <= _FEW_ELEMENTS:
            turned = numpy.arange(count).reshape(self.grouped).swapaxes(1, 2)[self.backwards]
            self.places = numpy.ascontiguousarray(turned.reshape(self.channels))
        self.size = shape[0] * filters[0] * volume(kernel) * volume(size)


_flip = lru_cache(512)(_Flip)


def spread(
    xp: Namespace,
    input: Array,
    weight: Array,
    bias: Array | None,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array:
    """The adjoint of `correlated` with respect to its input, which had `size`."""
    flip = _flip(input.shape, weight.shape, size, stride, padding, dilation, groups)
    few = input.size * weight.size < native.LEAST
    if flip.shape is None and not few:
        made = native.input_gradient(input, weight, bias, flip.padding, dilation, groups)
        if made is not None:
            return made
    channels = weight.shape[1]
    narrows = channels >= _WIDE or len(weight) <= _WIDENS * channels * groups
    if flip.size <= _FEW or (flip.shape is None and narrows):
        return _flipped(xp, flip, input, weight, bias, dilation, groups)
    if flip.shape is not None and set(dilation) == {1}:
        return _by_phases(xp, input, weight, bias, size, stride, padding, groups)
    n, channels, kernel = len(input), weight.shape[1] * groups, weight.shape[2:]
    shape = (n, channels, *size)
    lines = lines_of(shape, weight.shape, stride, padding, dilation, groups, input.shape[2:])
    if lines is not None:
        made = spread_lines(xp, lines, input, weight)
        if bias is not None:
            made += bias.reshape(-1, *(1,) * len(kernel))
        return made
    whole = whole_size(size, padding)
    cut = whole != size
    out = (xp.empty if cut else xp.zeros)(shape, input.dtype)
    filters = weight.reshape(groups, len(weight) // groups, volume(weight.shape[1:]))
    filters = filters.swapaxes(1, 2)
    for block in blocks(n, volume(kernel) * volume(input.shape[2:]) * channels):
        target = xp.zeros((len(input[block]), channels, *whole), out.dtype) if cut else out[block]
        _add_up(xp, filters, _grouped(input[block], groups), target, kernel, stride, dilation)
        if cut:
            out[block] = target[inner(padding, size)]
        if bias is not None:
            out[block] += bias.reshape(-1, *(1,) * len(kernel))
    return out


def _flipped(
    xp: Namespace,
    flip: _Flip,
    input: Array,
    weight: Array,
    bias: Array | None,
    dilation: Sizes,
    groups: int,
) -> Array:
    if flip.shape is not None:
        image = xp.zeros(flip.shape, input.dtype)
        image[flip.apart] = input
        input = image
    if flip.places is not None and xp is numpy:
        filters = weight.ravel()[flip.places]
    else:
        filters = weight.reshape(flip.grouped).swapaxes(1, 2)[flip.backwards]
        # Contiguous, since BLAS does not take what runs backwards.
        filters = xp.ascontiguousarray(filters.reshape(flip.channels))
    return correlated(xp, input, filters, bias, flip.unit, flip.padding, dilation, groups)


def _by_phases(
    xp: Namespace,
    input: Array,
    weight: Array,
    bias: Array | None,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    groups: int,
) -> Array:
    """The adjoint for windows `stride` apart: a convolution for each place between their starts.

    Each place sees its own points of the filters, `stride` apart, so that nothing is added twice.
    """
    channels = weight.shape[1] * groups
    out = xp.zeros((len(input), channels, *size), input.dtype)
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(size))
    one = (1,) * len(size)
    for phase in itertools.product(*map(range, stride)):
        filters = weight[(..., *map(slice, phase, (None,) * len(size), stride))]
        places = list(map(_phase, phase, input.shape[2:], size, stride, padding, filters.shape[2:]))
        if 0 in filters.shape[2:] or not all(number for _, number, _ in places):
            continue
        target = tuple(
            slice(start, start + (number - 1) * step + 1, step)
            for (start, number, _), step in zip(places, stride, strict=True)
        )
        flip = _flip(
            input.shape,
            filters.shape,
            tuple(number for _, number, _ in places),
            one,
            tuple(pair for _, _, pair in places),
            one,
            groups,
        )
        out[(..., *target)] = _flipped(xp, flip, input, filters, bias, one, groups)
    return out


def _phase(
    phase: int, n: int, size: int, step: int, pads: tuple[int, int], kernel: int
) -> tuple[int, int, tuple[int, int]]:
    """Where a phase starts in the output, how many places it has, and how they are padded.

    Along one dimension; padding is what a convolution with windows one apart would have had.
    """
    first = -(-(pads[0] - phase) // step)  # the first window that starts at or after the output
    start = first * step + phase - pads[0]
    number = max(-(-(size - start) // step), 0)
    return start, number, (first, n + kernel - 1 - number - first)


def _grouped(x: Array, groups: int) -> Array:
    """(n, channels, ...) as (n, groups, channels / groups, ...)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _add_up(
    xp: Namespace,
    weight: Array,
    x: Array,
    out: Array,
    kernel: Sizes,
    stride: Sizes,
    dilation: Sizes,
) -> None:
    """Add `weight` (groups, channels and kernel, b) times `x` (n, groups, b, *places) to `out`."""
    n, channels, number = x.shape[0], out.shape[1], x.shape[3:]
    if _adds_lines(stride, number, out.shape[2:]):
        _add_lines(xp, weight, x, out, kernel, dilation)
        return
    parts = _times(xp, weight, x).reshape(n, channels, *kernel, *number)
    add_windows(out, parts, kernel, stride, dilation)


def _times(xp: Namespace, weight: Array, x: Array) -> Array:
    """`weight` (groups, a, b) times `x` (n, groups, b, *places), as (n, groups, a, places)."""
    n, groups, rows = x.shape[:3]
    length = volume(x.shape[3:])
    if length >= conv_kernels.FEW_PLACES or n == 1:
        return xp.matmul(weight, x.reshape(n, groups, rows, length))
    together = x.reshape(n, groups, rows, length).transpose(1, 2, 0, 3)
    made = xp.matmul(weight, together.reshape(groups, rows, n * length))
    return made.reshape(groups, weight.shape[1], n, length).transpose(2, 0, 1, 3)


def _adds_lines(stride: Sizes, number: Sizes, size: Sizes) -> bool:
    """Whether rows should be lengthened to those of the output: more to multiply, longer to add."""
    return set(stride) == {1} and volume(size[1:]) < 1.5 * volume(number[1:])


def _add_lines(
    xp: Namespace, weight: Array, x: Array, out: Array, kernel: Sizes, dilation: Sizes
) -> None:
    """As `_add_up` where windows start one apart.

    With zeros behind the rows of `x`, a point of all windows is one run of memory in `out`.
    Measured on 16 images of 16 x 10 x 10 with kernels 3 x 3: 226 us instead of 386.
    """
    n, groups, rows, *number = x.shape
    channels, *size = out.shape[1:]
    whole = xp.zeros((n, groups, rows, number[0], *size[1:]), x.dtype)
    whole[(..., *map(slice, number))] = x
    steps = [volume(size[dim + 1 :]) for dim in range(len(size))]
    length = 1 + _dot([places - 1 for places in number], steps)
    lines = whole.reshape(n, groups, rows, volume(whole.shape[3:]))[..., :length]
    parts = _times(xp, weight, lines).reshape(n, channels, volume(kernel), length)
    flat = out.reshape(n, channels, volume(size))
    for number_of_point, (point, _) in enumerate(points(kernel, number, number, dilation)):
        start = _dot([p * d for p, d in zip(point, dilation, strict=True)], steps)
        flat[..., start : start + length] += parts[:, :, number_of_point]


def _dot(a: Any, b: Any) -> int:
    result = 0
    for left, right in zip(a, b, strict=True):
        result += left * right
    return result
