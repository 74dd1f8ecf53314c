"""The windows that pooling looks at: their sizes and bounds, and the errors about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pullback.core.tensor import Tensor
from pullback.operators.arrays.windows import (
    Pads,
    Sizes,
    along,
    check_not_empty,
    check_tensor,
    positive,
    remembering,
    sizes,
)

__all__ = [
    "Geometry",
    "adaptive_bounds",
    "adaptive_sizes",
    "are_apart",
    "even_geometry",
    "lines_of",
    "pool_geometry",
]


class Geometry(NamedTuple):
    """Where the windows are, over the padded input."""

    kernel: Sizes
    stride: Sizes
    pads: Pads
    dilation: Sizes
    number: Sizes


def pool_geometry(
    op: str,
    dims: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Geometry:
    """Check what the user asked for, and work out how many windows that are."""
    if input.__class__ is not Tensor or not 1 <= input._array.ndim - dims <= 2:
        check_tensor(op, input, dims + 1, dims + 2)
    shape = input._array.shape
    if (
        kernel_size.__class__ is padding.__class__ is dilation.__class__ is int
        and ceil_mode is False
        and (stride is None or stride.__class__ is int)
    ):
        return _geometry(op, dims, shape, kernel_size, stride, padding, dilation, ceil_mode)
    options = [kernel_size, stride, padding, dilation]
    geometry: Geometry = remembering(_geometry, options)(op, dims, shape, *options, bool(ceil_mode))
    return geometry


@lru_cache(256)  # the same for every batch of a training, and a fifth of the time of a small one
def _geometry(
    op: str,
    dims: int,
    shape: Sizes,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> Geometry:
    check_not_empty(op, shape, dims)
    kernel = positive(op, "kernel_size", kernel_size, dims)
    absent = stride is None or (isinstance(stride, Sequence) and not len(stride))
    step = kernel if absent else positive(op, "stride", stride, dims)
    apart = positive(op, "dilation", dilation, dims)
    around = sizes(op, "padding", padding, dims)
    size = shape[-dims:]
    number, pads = [], []
    for n, k, s, p, d in zip(size, kernel, step, around, apart, strict=True):
        reach = d * (k - 1) + 1
        if not 0 <= 2 * p <= reach:
            raise RuntimeError(
                f"{op}: padding {around} must be between 0 and half of the window, kernel_size "
                f"{kernel} with dilation {apart}."
            )
        fits = -(-(n + 2 * p - reach) // s) + 1 if ceil_mode else (n + 2 * p - reach) // s + 1
        # A window that starts in the padding behind the input would see nothing.
        if ceil_mode and (fits - 1) * s >= n + p:
            fits -= 1
        number.append(fits)
        pads.append((p, max((fits - 1) * s + reach - n - p, 0)))
    if min(number) < 1:
        raise RuntimeError(
            f"{op}: no window of {kernel}, dilation {apart}, fits into input of shape "
            f"{shape} with padding {around}."
        )
    return Geometry(kernel, step, tuple(pads), apart, tuple(number))


@lru_cache(256)
def lines_of(geometry: Geometry) -> list[list[Any]]:
    """For each dimension, the index of each point of all windows along it."""
    kernel, stride, _, dilation, number = geometry
    lines = []
    for dim in range(len(kernel)):
        behind = (slice(None),) * (len(kernel) - dim - 1)
        places = (along(p, number[dim], stride[dim], dilation[dim]) for p in range(kernel[dim]))
        lines.append([(..., place, *behind) for place in places])
    return lines


@lru_cache(256)
def are_apart(geometry: Geometry) -> bool:
    """Whether no element is in two windows."""
    kernel, stride, _, dilation, _ = geometry
    return all(s > d * (k - 1) for k, s, d in zip(kernel, stride, dilation, strict=True))


_MOST = 2**40  # elements; beyond, the windows alone would take hours to list
_SMALL = 2**13  # so many along each of three dimensions are within that


def _check_enough(op: str, ndim: int, count: int) -> None:
    """Torch compares a list of sizes with the dimensions before it looks at them."""
    if ndim <= count:
        raise ValueError(f"{op}: needs at least {count + 1} dimensions, got {ndim}.")


def adaptive_sizes(
    op: str, dims: int, input: Any, output_size: Any, *, leading: int | None = None
) -> Sizes:
    """The output size, with the input's where None stands.

    The first `leading` dimensions may be empty; by default those before the images' own.
    """
    if input.__class__ is not Tensor or not 1 <= input._array.ndim - dims <= 2:
        if isinstance(input, Tensor) and isinstance(output_size, Sequence) and dims > 1:
            _check_enough(op, input._array.ndim, len(output_size))
        check_tensor(op, input, dims + 1, dims + 2)
    shape = input._array.shape
    if 0 in shape[-dims if leading is None else leading :]:
        raise RuntimeError(f"{op}: input of shape {shape} has images without elements.")
    if output_size.__class__ is int and 0 <= output_size < _SMALL:
        return (output_size,) * dims
    if isinstance(output_size, Sequence) and len(output_size) == dims:
        sides = zip(shape[-dims:], output_size, strict=True)
        output_size = [n if o is None else o for n, o in sides]
    elif output_size is None:
        return tuple(shape[-dims:])
    checked = sizes(op, "output_size", output_size, dims)
    if min(checked) < 0:
        raise RuntimeError(f"{op}: output_size must not be negative, got {checked}.")
    if math.prod(checked) > _MOST:
        raise RuntimeError(f"{op}: there is no memory for an output of size {checked}.")
    return checked


@lru_cache(256)
def even_geometry(size: Sizes, number: Sizes) -> Geometry | None:
    """The windows of adaptive pooling if they are all of one size, and there are any."""
    if 0 in number or any(map(int.__mod__, size, number)):
        return None
    kernel, dims = tuple(map(int.__floordiv__, size, number)), len(size)
    return Geometry(kernel, kernel, ((0, 0),) * dims, (1,) * dims, number)


def adaptive_bounds(size: int, number: int) -> list[tuple[int, int]]:
    """Start and end of `number` windows that cover `size` as evenly as possible."""
    return [(i * size // number, -(-(i + 1) * size // number)) for i in range(number)]
