"""The windows that pooling looks at: their sizes and bounds, and the errors about them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pullback.operators.windows import (
    Pads,
    Sizes,
    check_not_empty,
    check_tensor,
    positive,
    remembering,
    sizes,
)

__all__ = ["Geometry", "adaptive_bounds", "adaptive_sizes", "pool_geometry"]


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
    check_tensor(op, input, dims + 1, dims + 2)
    options = [kernel_size, stride, padding, dilation]
    geometry: Geometry = remembering(_geometry, options)(
        op, dims, tuple(input.shape), *options, bool(ceil_mode)
    )
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


def adaptive_sizes(op: str, dims: int, input: Any, output_size: Any) -> Sizes:
    """The output size, with the input's where None stands."""
    check_tensor(op, input, dims + 1, dims + 2)
    shape = tuple(input.shape)
    check_not_empty(op, shape, dims)
    size = shape[-dims:]
    if isinstance(output_size, Sequence) and len(output_size) == dims:
        output_size = [n if o is None else o for n, o in zip(size, output_size, strict=True)]
    elif output_size is None:
        return size
    checked = sizes(op, "output_size", output_size, dims)
    if min(checked) < 0:
        raise RuntimeError(f"{op}: output_size must not be negative, got {checked}.")
    return checked


def adaptive_bounds(size: int, number: int) -> list[tuple[int, int]]:
    """Start and end of `number` windows that cover `size` as evenly as possible."""
    return [(i * size // number, -(-(i + 1) * size // number)) for i in range(number)]
