"""The adjoint of a convolution as a convolution with flipped filters: kernels of it.

Where windows start some elements apart, it is one for each place between their starts. With
dilation as well, or where there are many outputs and few channels, the products with all filters
are added up, as its meaning says.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays.windows import Pads, Sizes, volume
from pullback.operators.conditions import at_least, floating, given, host, says
from pullback.operators.declare import kernel
from pullback.operators.nn.conv import native
from pullback.operators.nn.conv.lines import lines_of, spread_lines
from pullback.operators.nn.conv.operators import convolution, laid_out, transposed_convolution

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

_wide = host & says("input_dtype.itemsize > 2", "weight_dtype is input_dtype")
_one_apart = says("max(stride) == 1", max=max)


def _pays(flip: _Flip, weight: Sizes, groups: int) -> bool:
    """Whether flipped filters are a convolution that takes less time than adding up."""
    narrows = weight[1] >= _WIDE or weight[0] <= _WIDENS * weight[1] * groups
    return flip.size <= _FEW or (flip.shape is None and narrows)


@kernel(
    transposed_convolution,
    when=_wide
    & floating
    & _one_apart
    & given(groups=1)
    & at_least(native.LEAST, "input_size * weight_size"),
    machine_code=True,
    ulp=16,
)
def _by_machine_code(
    xp: Namespace,
    input: Array,
    input_shape: Sizes,
    weight: Array,
    weight_shape: Sizes,
    bias: Array | None,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    flip = _flip(input_shape, weight_shape, size, stride, padding, dilation, groups)
    made = native.input_gradient(input, weight, bias, flip.padding, dilation, groups)
    return None if made is None else laid_out(made, input, weight)


@kernel(transposed_convolution, when=_wide, declines=True, ulp=16)
def _by_convolution(
    xp: Namespace,
    input: Array,
    input_shape: Sizes,
    weight: Array,
    weight_shape: Sizes,
    bias: Array | None,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    flip = _flip(input_shape, weight_shape, size, stride, padding, dilation, groups)
    if not _pays(flip, weight_shape, groups):
        return None
    made = _flipped(xp, flip, input, weight, bias, dilation, groups)
    return laid_out(made, input, weight)


@kernel(transposed_convolution, when=_wide & says("max(stride) > 1", "max(dilation) == 1", max=max))
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
    made = _each_phase(xp, input, weight, bias, size, stride, padding, groups)
    return laid_out(made, input, weight)


@kernel(transposed_convolution, when=_wide & _one_apart, declines=True, ulp=16)
def _by_lines(
    xp: Namespace,
    input: Array,
    input_shape: Sizes,
    weight: Array,
    weight_shape: Sizes,
    bias: Array | None,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Array | None:
    shape = (input_shape[0], weight_shape[1] * groups, *size)
    lines = lines_of(shape, weight_shape, stride, padding, dilation, groups, input_shape[2:])
    if lines is None:
        return None
    made = spread_lines(xp, lines, input, weight)
    if bias is not None:
        made += bias.reshape(-1, *(1,) * len(size))
    return laid_out(made, input, weight)


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
    if flip.places is not None:
        filters = weight.ravel()[flip.places]
    else:
        filters = weight.reshape(flip.grouped).swapaxes(1, 2)[flip.backwards]
        # Contiguous, since BLAS does not take what runs backwards.
        filters = xp.ascontiguousarray(filters.reshape(flip.channels))
    options = flip.unit, flip.padding, dilation, groups
    made: Array = convolution.op.forward(xp, input, filters, bias, *options)  # type: ignore[attr-defined]  # declared
    return made


def _each_phase(
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
