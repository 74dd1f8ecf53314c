"""Convolutions of one, two and three dimensions, and their transposes: arguments and checks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pullback.core.errors import unsupported
from pullback.operators.arrays.windows import (
    Pads,
    Sizes,
    check_tensor,
    counts,
    positive,
    remembering,
    sizes,
)
from pullback.operators.nn.conv import flipped, quick  # noqa: F401 (imported to enter kernels)
from pullback.operators.nn.conv.operators import convolution, transposed_convolution
from pullback.operators.shape.reshaping import squeeze, unsqueeze
from pullback.operators.variants import named

FOUND_IN = {
    "torch": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "nn.functional": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
}


def _check_tensors(op: str, dims: int, input: Any, weight: Any, bias: Any) -> None:
    check_tensor(op, input, dims + 1, dims + 2)
    check_tensor(f"{op} (weight)", weight, dims + 2)
    if bias is not None:
        check_tensor(f"{op} (bias)", bias, 1)


def _check_dtypes(op: str, input: Any, weight: Any, bias: Any) -> None:
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not input.dtype:
            raise RuntimeError(
                f"{op}: input is {input.dtype}, {name} is {other.dtype}; convert one of them with "
                ".to()."
            )
    if input._array.dtype.kind == "b":
        raise unsupported(op, input._array)


def _check_shapes(
    op: str, shape: Sizes, weight: Sizes, bias: Sizes | None, groups: int, transposed: bool
) -> None:
    """Refuse shapes that do not go together."""
    if groups < 1:
        raise RuntimeError(f"{op}: groups must be at least 1, got {groups}.")
    if not weight[0] or weight[0] % groups:
        raise RuntimeError(
            f"{op}: the first size of weight, shape {weight}, must be a positive multiple of "
            f"groups={groups}."
        )
    outputs, channels = weight[0], weight[1] * groups
    if transposed:
        outputs, channels = channels, outputs
    seen = shape[1 - len(weight)]
    if seen != channels:
        raise RuntimeError(
            f"{op}: weight of shape {weight} is for {channels} channels, input of shape {shape} "
            f"has {seen}."
        )
    if bias is not None and bias != (outputs,):
        raise RuntimeError(
            f"{op}: bias must have shape ({outputs},), one number for each output channel, got "
            f"{bias}."
        )
    if 0 in shape[2 - len(weight) :] or 0 in weight[2:]:
        raise RuntimeError(
            f"{op}: input of shape {shape} and weight of shape {weight} have no places; only batch "
            "or channels may be 0."
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
    op: str,
    shape: Sizes,
    weight: Sizes,
    bias: Sizes | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> tuple[Sizes, Pads, Sizes]:
    """Stride, padding and dilation for each dimension; refused where no window fits."""
    _check_shapes(op, shape, weight, bias, groups, transposed=False)
    kernel, dims = weight[2:], len(weight) - 2
    stride = positive(op, "stride", stride, dims)
    dilation = positive(op, "dilation", dilation, dims)
    pads = _padding(op, padding, kernel, stride, dilation)
    whole = tuple(n + sum(pair) for n, pair in zip(shape[-dims:], pads, strict=True))
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
    shapes = _shapes(op, dims, input, weight, bias)
    if stride.__class__ is padding.__class__ is dilation.__class__ is groups.__class__ is int:
        found = _geometry(op, *shapes, stride, padding, dilation, groups)
    else:
        options = [stride, padding, dilation, groups]
        found = remembering(_geometry, options)(op, *shapes, *options)
    stride, pads, dilation = found
    if len(shapes[0]) == dims + 2:
        return convolution(input, weight, bias, stride, pads, dilation, groups)
    single = convolution(unsqueeze(input, 0), weight, bias, stride, pads, dilation, groups)
    return squeeze(single, 0)


def _shapes(
    op: str, dims: int, input: Any, weight: Any, bias: Any
) -> tuple[Sizes, Sizes, Sizes | None]:
    """The shapes of three tensors that may go together; the bias may be None."""
    try:
        x, filters = input._array, weight._array
        added = None if bias is None else bias._array
        dtype = x.dtype
        usual = (
            filters.dtype is dtype
            and dtype.kind != "b"
            and filters.ndim == dims + 2
            and 1 <= x.ndim - dims <= 2
            and (added is None or (added.dtype is dtype and added.ndim == 1))
        )
    except AttributeError:
        usual = False
    if not usual:
        _check_tensors(op, dims, input, weight, bias)
        _check_dtypes(op, input, weight, bias)
    return x.shape, filters.shape, None if added is None else added.shape


def _correlating(dims: int) -> Any:
    op = f"conv{dims}d"

    def conv(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        return _convolved(op, dims, input, weight, bias, stride, padding, dilation, groups)

    return conv


conv1d = named(
    "conv1d",
    _correlating(1),
    """Convolve sequences (n, channels, length) with filters (outputs, channels / groups, kernel).

    >>> import pullback as torch
    >>> torch.nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 3))
    tensor([[[3., 3., 3.]]])
    """,
)


conv2d = named(
    "conv2d",
    _correlating(2),
    """Convolve images (n, channels, height, width) with (outputs, channels / groups, h, w).

    >>> import pullback as torch
    >>> torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(2, 3, 3, 3), padding=1).shape
    torch.Size([1, 2, 8, 8])
    """,
)


conv3d = named(
    "conv3d",
    _correlating(3),
    """Convolve volumes (n, channels, depth, height, width) with filters of three dimensions.

    >>> import pullback as torch
    >>> torch.conv3d(torch.ones(1, 1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2)).item()
    8.0
    """,
)


@lru_cache(256)
def _transposed_geometry(
    op: str,
    shape: Sizes,
    weight: Sizes,
    bias: Sizes | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> tuple[Sizes, Sizes, Pads, Sizes]:
    """The output's size, and stride, padding and dilation for each dimension."""
    kernel, dims = weight[2:], len(weight) - 2
    stride = positive(op, "stride", stride, dims)
    dilation = positive(op, "dilation", dilation, dims)
    padding = sizes(op, "padding", padding, dims)
    extra = sizes(op, "output_padding", output_padding, dims)
    if min(*padding, *extra) < 0:
        raise RuntimeError(
            f"{op}: padding {padding} and output_padding {extra} must not be negative."
        )
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{op}: output_padding {extra} must be smaller than stride {stride} or dilation "
            f"{dilation}."
        )
    _check_shapes(op, shape, weight, bias, groups, transposed=True)
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(
            shape[-dims:], stride, padding, dilation, kernel, extra, strict=True
        )
    )
    if min(size) < 0:
        raise RuntimeError(
            f"{op}: input of shape {shape} with kernel {kernel}, stride {stride} and padding "
            f"{padding} would have output size {size}."
        )
    return size, stride, tuple((pad, pad) for pad in padding), dilation


def _spread_out(op: str, dims: int, input: Any, weight: Any, bias: Any, *given: Any) -> Any:
    shapes = _shapes(op, dims, input, weight, bias)
    options = list(given)  # stride, padding, output_padding, groups, dilation
    geometry = remembering(_transposed_geometry, options)(op, *shapes, *options)
    if len(shapes[0]) == dims + 2:
        return transposed_convolution(input, weight, bias, *geometry, options[3])
    single = transposed_convolution(unsqueeze(input, 0), weight, bias, *geometry, options[3])
    return squeeze(single, 0)


def _spreading(dims: int) -> Any:
    op = f"conv_transpose{dims}d"

    def conv(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        options = stride, padding, output_padding, groups, dilation
        return _spread_out(op, dims, input, weight, bias, *options)

    return conv


conv_transpose1d = named(
    "conv_transpose1d",
    _spreading(1),
    """Transposed convolution of sequences with filters (channels, outputs / groups, kernel).

    >>> import pullback as torch
    >>> torch.conv_transpose1d(torch.tensor([[[1.0, 2.0]]]), torch.ones(1, 1, 2))
    tensor([[[1., 3., 2.]]])
    """,
)


conv_transpose2d = named(
    "conv_transpose2d",
    _spreading(2),
    """Transposed convolution of images with filters (channels, outputs / groups, h, w).

    >>> import pullback as torch
    >>> x, weight = torch.ones(1, 3, 4, 4), torch.ones(3, 2, 2, 2)
    >>> torch.nn.functional.conv_transpose2d(x, weight, stride=2).shape
    torch.Size([1, 2, 8, 8])
    """,
)


conv_transpose3d = named(
    "conv_transpose3d",
    _spreading(3),
    """Transposed convolution of volumes.

    >>> import pullback as torch
    >>> torch.conv_transpose3d(torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 2, 2, 2])
    """,
)
