"""Convolutions of one, two and three dimensions, and their transposes: arguments and checks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pullback.operators.arithmetic import unsupported
from pullback.operators.convolution import convolution, transposed_convolution
from pullback.operators.shape import squeeze, unsqueeze
from pullback.operators.windows import (
    Pads,
    Sizes,
    check_tensor,
    counts,
    positive,
    remembering,
    sizes,
)

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]


def _check(op: str, input: Any, weight: Any, bias: Any, outputs: int, channels: int) -> None:
    """Refuse shapes and dtypes that do not go together."""
    if input.shape[-weight.ndim + 1] != channels:
        raise RuntimeError(
            f"{op}: weight of shape {tuple(weight.shape)} is for {channels} channels, input of "
            f"shape {tuple(input.shape)} has {input.shape[-weight.ndim + 1]}."
        )
    if bias is not None and tuple(bias.shape) != (outputs,):
        raise RuntimeError(
            f"{op}: bias must have shape ({outputs},), one number for each output channel, got "
            f"{tuple(bias.shape)}."
        )
    if 0 in tuple(input.shape[-weight.ndim + 2 :]):
        raise RuntimeError(
            f"{op}: input of shape {tuple(input.shape)} has no places; only batch or channels may "
            "be 0."
        )
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not input.dtype:
            raise RuntimeError(
                f"{op}: input is {input.dtype}, {name} is {other.dtype}; convert one of them with "
                ".to()."
            )
    if input._array.dtype.kind == "b":
        raise unsupported(op, input._array)


def _check_weight(op: str, dims: int, input: Any, weight: Any, groups: int) -> None:
    check_tensor(op, input, dims + 1, dims + 2)
    check_tensor(f"{op} (weight)", weight, dims + 2)
    if groups < 1:
        raise RuntimeError(f"{op}: groups must be at least 1, got {groups}.")
    if not len(weight) or len(weight) % groups:
        raise RuntimeError(
            f"{op}: the first size of weight, shape {tuple(weight.shape)}, must be a positive "
            f"multiple of groups={groups}."
        )


def _padding(op: str, padding: Any, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Pads:
    """Padding before and after each dimension."""
    if not isinstance(padding, str):
        checked = sizes(op, "padding", padding, len(kernel))
        if min(checked) < 0:
            raise RuntimeError(f"{op}: padding must not be negative, got {checked}.")
        return tuple((pad, pad) for pad in checked)
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        raise RuntimeError(f"{op}: padding must be ints, 'same' or 'valid', got {padding!r}.")
    if set(stride) != {1}:
        raise RuntimeError(f"{op}: padding='same' needs stride 1, got {stride}.")
    missing = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple((pad // 2, pad - pad // 2) for pad in missing)


@lru_cache(256)
def _geometry(
    op: str, dims: int, size: Sizes, kernel: Sizes, stride: Any, padding: Any, dilation: Any
) -> tuple[Sizes, Pads, Sizes]:
    """Stride, padding and dilation for each dimension; refused where no window fits."""
    size, kernel = tuple(size), tuple(kernel)
    stride = positive(op, "stride", stride, dims)
    dilation = positive(op, "dilation", dilation, dims)
    pads = _padding(op, padding, kernel, stride, dilation)
    whole = tuple(n + before + after for n, (before, after) in zip(size, pads, strict=True))
    if 0 in size or 0 in kernel:
        raise RuntimeError(
            f"{op}: an input of size {size} and a kernel of {kernel} have no places; only batch or "
            "channels may be 0."
        )
    if min(counts(whole, kernel, stride, dilation)) < 1:
        raise RuntimeError(
            f"{op}: a kernel of {kernel}, dilation {dilation}, does not fit into an input of "
            f"{whole} (padding included)."
        )
    return stride, pads, dilation


def _convolved(
    op: str,
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    _check_weight(op, dims, input, weight, groups)
    options = [stride, padding, dilation]
    shape, filters = input.shape, weight.shape
    geometry = remembering(_geometry, options)
    stride, pads, dilation = geometry(op, dims, shape[-dims:], filters[2:], *options)
    _check(op, input, weight, bias, filters[0], filters[1] * groups)
    if len(shape) == dims + 2:
        return convolution(input, weight, bias, stride, pads, dilation, groups)
    single = convolution(unsqueeze(input, 0), weight, bias, stride, pads, dilation, groups)
    return squeeze(single, 0)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Correlate lines (n, channels, length) with filters (outputs, channels / groups, kernel).

    >>> import pullback as torch
    >>> torch.nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 3))
    tensor([[[3., 3., 3.]]])
    """
    return _convolved("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Correlate images (n, channels, height, width) with (outputs, channels / groups, h, w).

    >>> import pullback as torch
    >>> torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(2, 3, 3, 3), padding=1).shape
    torch.Size([1, 2, 8, 8])
    """
    return _convolved("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Correlate volumes (n, channels, depth, height, width) with filters of three dimensions."""
    return _convolved("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _spread_out(
    op: str,
    dims: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    _check_weight(op, dims, input, weight, groups)
    stride = positive(op, "stride", stride, dims)
    dilation = positive(op, "dilation", dilation, dims)
    padding, extra = (
        sizes(op, "padding", padding, dims),
        sizes(op, "output_padding", output_padding, dims),
    )
    if min(*padding, *extra) < 0:
        raise RuntimeError(
            f"{op}: padding {padding} and output_padding {extra} must not be negative."
        )
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{op}: output_padding {extra} must be smaller than stride {stride} or dilation "
            f"{dilation}."
        )
    _check(op, input, weight, bias, weight.shape[1] * groups, weight.shape[0])
    kernel = tuple(weight.shape[2:])
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            input.shape[-dims:], stride, padding, dilation, kernel, extra, strict=True
        )
    )
    if min(size) < 0:
        raise RuntimeError(
            f"{op}: input of shape {tuple(input.shape)} with kernel {kernel}, stride {stride} and "
            f"padding {padding} would have output size {size}."
        )
    pads = tuple((pad, pad) for pad in padding)
    options = size, stride, pads, dilation, groups
    if input.ndim == dims + 2:
        return transposed_convolution(input, weight, bias, *options)
    return squeeze(transposed_convolution(unsqueeze(input, 0), weight, bias, *options), 0)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The adjoint of `conv1d`: spread lines with filters (channels, outputs / groups, kernel)."""
    options = stride, padding, output_padding, groups, dilation
    return _spread_out("conv_transpose1d", 1, input, weight, bias, *options)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The adjoint of `conv2d`: spread images with filters (channels, outputs / groups, h, w).

    >>> import pullback as torch
    >>> x, weight = torch.ones(1, 3, 4, 4), torch.ones(3, 2, 2, 2)
    >>> torch.nn.functional.conv_transpose2d(x, weight, stride=2).shape
    torch.Size([1, 2, 8, 8])
    """
    options = stride, padding, output_padding, groups, dilation
    return _spread_out("conv_transpose2d", 2, input, weight, bias, *options)


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """The adjoint of `conv3d`."""
    options = stride, padding, output_padding, groups, dilation
    return _spread_out("conv_transpose3d", 3, input, weight, bias, *options)
