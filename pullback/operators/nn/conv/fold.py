"""unfold and fold: the windows of images as columns, and columns added up to images. Adjoints."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy

from pullback.core.arrays import is_finite
from pullback.core.errors import unsupported
from pullback.operators.arrays.windows import (
    Pads,
    Sizes,
    add_windows,
    check_tensor,
    counts,
    inner,
    padded,
    positive,
    remembering,
    sizes,
    volume,
    whole_size,
    windows,
)
from pullback.operators.conditions import at_most, host, real
from pullback.operators.declare import Array, Namespace, kernel, linear

FOUND_IN = {"nn.functional": "fold unfold"}


@lru_cache(256)
def _shape_of_columns(
    shape: Sizes, kernel: Sizes, stride: Sizes, padding: Pads, dilation: Sizes
) -> tuple[Sizes, Sizes]:
    """How many windows there are, and the shape of their columns."""
    number = counts(whole_size(shape[-2:], padding), kernel, stride, dilation)
    return number, (*shape[:-3], volume(kernel) * shape[-3], volume(number))


@linear(
    input=lambda g, input_shape, kernel, stride, padding, dilation: _col2im(
        g, input_shape[-2:], kernel, stride, padding, dilation
    ),
    node="Im2ColBackward0",
    has_out=False,
)
def _im2col(
    xp: Namespace, input: Array, kernel: Sizes, stride: Sizes, padding: Pads, dilation: Sizes
) -> Array:
    number, shape = _shape_of_columns(input.shape, kernel, stride, padding, dilation)
    image = padded(xp, input, padding)
    out = windows(image, kernel, number, stride, dilation).reshape(shape)
    return out.copy() if xp.may_share_memory(out, input) else out


# Up to so many elements of a matrix that adds windows up, a product with it takes less time than an
# addition for each point of a window.
_MOST_OF_MATRIX = 1 << 13


@lru_cache(64)
def _adding_up(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Pads, dilation: Sizes, dtype: Any
) -> Array | None:
    """The matrix that adds the columns of one channel up to an image; None where it is large."""
    whole = whole_size(size, padding)
    number = counts(whole, kernel, stride, dilation)
    points = volume(kernel) * volume(number)
    if points * volume(size) > _MOST_OF_MATRIX:
        return None
    units = numpy.eye(points, dtype=dtype).reshape(points, *kernel, *number)
    out = numpy.zeros((points, *whole), dtype)
    add_windows(out, units, kernel, stride, dilation)
    return out[inner(padding, size)].reshape(points, volume(size))


@linear(
    input=lambda g, kernel, stride, padding, dilation: _im2col(
        g, kernel, stride, padding, dilation
    ),
    node="Col2ImBackward0",
    has_out=False,
)
def _col2im(
    xp: Namespace,
    input: Array,
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
) -> Array:
    lead = (*input.shape[:-2], input.shape[-2] // volume(kernel))
    whole = whole_size(size, padding)
    number = counts(whole, kernel, stride, dilation)
    out = xp.zeros((*lead, *whole), input.dtype)
    add_windows(out, input.reshape(*lead, *kernel, *number), kernel, stride, dilation)
    return out if whole == tuple(size) else out[inner(padding, size)].copy()


@kernel(_col2im, when=host & real & at_most(_MOST_OF_MATRIX), declines=True)
def _by_matrix(
    input: Array,
    input_shape: Sizes,
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
) -> Array | None:
    matrix = _adding_up(size, kernel, stride, padding, dilation, input.dtype)
    if matrix is None or not is_finite(columns := input.reshape(-1, len(matrix))):
        return None
    lead = (*input_shape[:-2], input_shape[-2] // volume(kernel))
    return columns.dot(matrix).reshape(*lead, *size)


def _geometry(
    op: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Sizes, Sizes, Pads, Sizes]:
    kernel = positive(op, "kernel_size", kernel_size, 2)
    step = positive(op, "stride", stride, 2)
    checked = sizes(op, "padding", padding, 2)
    if min(checked) < 0:
        raise RuntimeError(f"{op}: padding must not be negative, got {checked}.")
    return kernel, step, tuple((pad, pad) for pad in checked), positive(op, "dilation", dilation, 2)


def _number(op: str, size: Sizes, geometry: tuple[Sizes, Sizes, Pads, Sizes]) -> Sizes:
    kernel, stride, padding, dilation = geometry
    whole = whole_size(size, padding)
    number = counts(whole, kernel, stride, dilation)
    if min(number) < 1:
        raise RuntimeError(
            f"{op}: a kernel of {kernel}, dilation {dilation}, does not fit into an image of "
            f"{whole} (padding included)."
        )
    return number


@lru_cache(256)
def _unfolding(
    shape: Sizes, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Sizes, Sizes, Pads, Sizes]:
    """The checked options of `unfold`, for images of this shape."""
    if 0 in shape[-3:]:
        raise RuntimeError(
            f"unfold: input of shape {shape} is empty; only the batch may have size 0."
        )
    geometry = _geometry("unfold", kernel_size, dilation, padding, stride)
    _number("unfold", shape[-2:], geometry)
    return geometry


@lru_cache(256)
def _folding(
    shape: Sizes, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Sizes, Sizes, Sizes, Pads, Sizes]:
    """The checked options of `fold`, for columns of this shape."""
    size = positive("fold", "output_size", output_size, 2)
    geometry = _geometry("fold", kernel_size, dilation, padding, stride)
    rows, places = shape[-2:]
    if not rows or rows % volume(geometry[0]):
        raise RuntimeError(
            f"fold: input of shape {shape} has columns of {rows}, which must be a positive "
            f"multiple of the kernel's {volume(geometry[0])} points."
        )
    number = _number("fold", size, geometry)
    if places != volume(number):
        raise RuntimeError(
            f"fold: an output of {size} has {volume(number)} windows, input of shape {shape} has "
            f"{places} columns."
        )
    return size, *geometry


def _check_dtype(op: str, input: Any) -> None:
    if input._array.dtype.kind in "iu":
        raise unsupported(op, input._array)


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The windows of images (n, channels, height, width) as columns, one for each position.

    >>> import pullback as torch
    >>> torch.nn.functional.unfold(torch.ones(1, 3, 4, 4), 2, stride=2).shape
    torch.Size([1, 12, 4])
    """
    check_tensor("unfold", input, 3, 4)
    _check_dtype("unfold", input)
    options = [kernel_size, dilation, padding, stride]
    return _im2col(input, *remembering(_unfolding, options)(input._array.shape, *options))


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """Add columns (n, channels * h * w, positions) up to images: the adjoint of `unfold`.

    >>> import pullback as torch
    >>> torch.nn.functional.fold(torch.arange(4.0).view(1, 1, 4), (2, 2), (1, 1)).view(2, 2)
    tensor([[0., 1.],
            [2., 3.]])
    """
    check_tensor("fold", input, 2, 3)
    _check_dtype("fold", input)
    options = [output_size, kernel_size, dilation, padding, stride]
    return _col2im(input, *remembering(_folding, options)(input._array.shape, *options))
