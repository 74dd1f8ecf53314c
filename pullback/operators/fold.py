"""unfold and fold: the windows of images as columns, and columns added up to images. Adjoints."""

from __future__ import annotations

from typing import Any

from pullback.operators.arithmetic import unsupported
from pullback.operators.declare import Array, Namespace, linear
from pullback.operators.windows import (
    Pads,
    Sizes,
    add_windows,
    check_tensor,
    counts,
    inner,
    padded,
    positive,
    sizes,
    volume,
    windows,
)

__all__ = ["fold", "unfold"]


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
    image = padded(xp, input, padding)
    number = counts(image.shape[-2:], kernel, stride, dilation)
    seen = windows(image, kernel, number, stride, dilation)
    rows = volume(kernel) * input.shape[-3]
    out = seen.reshape(*input.shape[:-3], rows, volume(number))
    return out.copy() if xp.may_share_memory(out, input) else out


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
    *lead, rows, _ = input.shape
    whole = tuple(n + before + after for n, (before, after) in zip(size, padding, strict=True))
    channels = rows // volume(kernel)
    number = counts(whole, kernel, stride, dilation)
    out = xp.zeros((*lead, channels, *whole), input.dtype)
    add_windows(out, input.reshape(*lead, channels, *kernel, *number), kernel, stride, dilation)
    return out if whole == tuple(size) else out[inner(padding, size)].copy()


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
    whole = tuple(n + before + after for n, (before, after) in zip(size, padding, strict=True))
    number = counts(whole, kernel, stride, dilation)
    if min(number) < 1:
        raise RuntimeError(
            f"{op}: a kernel of {kernel}, dilation {dilation}, does not fit into an image of "
            f"{whole} (padding included)."
        )
    return number


def _check_dtype(op: str, input: Any) -> None:
    if input._array.dtype.kind in "iu":
        raise unsupported(op, input._array)


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The windows of images (n, channels, height, width) as columns (n, channels * h * w, places).

    >>> import pullback as torch
    >>> torch.nn.functional.unfold(torch.ones(1, 3, 4, 4), 2, stride=2).shape
    torch.Size([1, 12, 4])
    """
    check_tensor("unfold", input, 3, 4)
    _check_dtype("unfold", input)
    if 0 in tuple(input.shape[-3:]):
        raise RuntimeError(
            f"unfold: input of shape {tuple(input.shape)} is empty; only the batch may have size 0."
        )
    geometry = _geometry("unfold", kernel_size, dilation, padding, stride)
    _number("unfold", tuple(input.shape[-2:]), geometry)
    return _im2col(input, *geometry)


def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """Add columns (n, channels * h * w, places) up to images: the adjoint of `unfold`."""
    check_tensor("fold", input, 2, 3)
    _check_dtype("fold", input)
    size = positive("fold", "output_size", output_size, 2)
    geometry = _geometry("fold", kernel_size, dilation, padding, stride)
    rows, places = input.shape[-2:]
    if not rows or rows % volume(geometry[0]):
        raise RuntimeError(
            f"fold: input of shape {tuple(input.shape)} has columns of {rows}, which must be a "
            f"positive multiple of the kernel's {volume(geometry[0])} points."
        )
    number = _number("fold", size, geometry)
    if places != volume(number):
        raise RuntimeError(
            f"fold: an output of {size} has {volume(number)} windows, input of shape "
            f"{tuple(input.shape)} has {places} columns."
        )
    return _col2im(input, size, *geometry)
