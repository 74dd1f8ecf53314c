"""Convolutions and transposed convolutions of 1 to 3 dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.base.fields import sized
from pullback.nn.base.weights import weight_and_bias
from pullback.nn.modules.lazy import LazyModuleMixin
from pullback.nn.modules.module import Module
from pullback.nn.modules.utils import _reverse_repeat_tuple
from pullback.nn.parameter import Parameter, UninitializedParameter
from pullback.operators.create.sizes import empty

__all__ = [
    *("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"),
    *("LazyConv1d", "LazyConv2d", "LazyConv3d"),
    *("LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d"),
]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all of them share. Sizes are tuples here, one number for each dimension."""

    __constants__: ClassVar[list[str]] = [
        *("stride", "padding", "dilation", "groups", "padding_mode", "output_padding"),
        *("in_channels", "out_channels", "kernel_size"),
    ]

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding: Any = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_both_sides()
        channels = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(
        self,
        in_channels: int,
        out_channels: int,
        groups: int,
        padding: Any,
        stride: Any,
        padding_mode: str,
    ) -> None:
        name = type(self).__name__
        if groups <= 0:
            raise ValueError(f"{name}: groups must be positive, got {groups}.")
        for what, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ValueError(
                    f"{name}: {what} ({count}) must be divisible by groups ({groups})."
                )
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f'{name}: padding must be "same" or "valid", got {padding!r}.')
            if padding == "same" and any(step != 1 for step in stride):
                raise ValueError(f'{name}: padding="same" needs a stride of 1, got {stride}.')
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"{name}: padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}."
            )

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _padding_both_sides(self) -> Any:
        """Padding at the start and end of each dimension, the last one first."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        sides: list[int] = []
        for size, step in zip(reversed(self.kernel_size), reversed(self.dilation), strict=True):
            total = step * (size - 1) if self.padding == "same" else 0
            sides += [total // 2, total - total // 2]
        return sides

    def extra_repr(self) -> str:
        """The sizes, and what differs from the defaults."""
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        if self.padding != (0,) * len(self.kernel_size):
            shown = repr(self.padding) if not isinstance(self.padding, str) else self.padding
            parts.append(f"padding={shown}")
        if self.dilation != (1,) * len(self.kernel_size):
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * len(self.kernel_size):
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(_ConvNd):
    """Those that are not transposed."""

    _dims: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        dims = self._dims
        super().__init__(
            in_channels,
            out_channels,
            sized(kernel_size, dims),
            sized(stride, dims),
            padding if isinstance(padding, str) else sized(padding, dims),
            sized(dilation, dims),
            False,
            (0,) * dims,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return self._conv_forward(input, *weight_and_bias(self))


def _convolution(function: Callable[..., Tensor]) -> Callable[..., Any]:
    """A layer's `_conv_forward`, which asks of `self` what torch's does: it may be no layer."""

    def _conv_forward(self: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        """Apply it with another weight and bias."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        return function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    return _conv_forward


class Conv1d(_Conv):
    """Convolve sequences with learned filters.

    `out[n, o, l] = bias[o] + sum over c, k of weight[o, c, k] * input[n, c, l * stride + k]`

    The formula is for dilation 1. The arguments are those of `Conv2d`, each size one number.

    Shape:
        Input: (N, C_in, L), or (C_in, L) for a single sequence.
        Output: (N, C_out, L_out), with
            `L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`.

    >>> import pullback as torch
    >>> torch.nn.Conv1d(3, 8, kernel_size=3, padding=1)(torch.randn(2, 3, 10)).shape
    torch.Size([2, 8, 10])
    """

    _dims = 1
    _conv_forward = _convolution(F.conv1d)


class Conv2d(_Conv):
    """Convolve images with learned filters: weighted sums over a sliding window.

    `out[n, o] = bias[o] + sum over c of correlate(input[n, c], weight[o, c])`

    As everywhere in deep learning the filters are not flipped, so this is a cross-correlation.
    Weight and bias are initialized uniformly within `1 / sqrt(fan_in)`, where
    `fan_in = in_channels / groups * kernel height * kernel width`.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output, the number of filters.
        kernel_size: Height and width of the window; one number means a square.
        stride: Step of the window.
        padding: Rows and columns added at each side; "same" keeps the size of the input (with
            stride 1), "valid" adds none.
        dilation: Distance between the window's elements; 1 leaves no gaps.
        groups: Number of groups of channels that are convolved separately; `in_channels` gives each
            channel filters of its own (depthwise). Must divide both numbers of channels.
        bias: Whether to add a learned bias to each output channel.
        padding_mode: What is padded: "zeros", "reflect", "replicate" or "circular".
        device, dtype: Device and data type of the parameters.

    Shape:
        Input: (N, C_in, H, W), or (C_in, H, W) for a single image.
        Output: (N, C_out, H_out, W_out), with
            `H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`, W alike.
        weight: (C_out, C_in / groups, height, width); bias: (C_out,).

    >>> import pullback as torch
    >>> torch.nn.Conv2d(3, 8, 3, padding=1)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    _dims = 2
    _conv_forward = _convolution(F.conv2d)


class Conv3d(_Conv):
    """Convolve volumes, or videos, with learned filters.

    The formula and the arguments are those of `Conv2d`, with depth before height and width.

    Shape:
        Input: (N, C_in, D, H, W), or (C_in, D, H, W) for a single volume.
        Output: (N, C_out, D_out, H_out, W_out), each size as in `Conv2d`.

    >>> import pullback as torch
    >>> torch.nn.Conv3d(1, 2, kernel_size=2)(torch.randn(1, 1, 4, 4, 4)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    _dims = 3
    _conv_forward = _convolution(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """Gradients of convolutions, as layers: they enlarge."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'{type(self).__name__}: padding_mode must be "zeros", got {padding_mode!r}.'
            )
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(
        self,
        input: Tensor,
        output_size: Any,
        stride: Any,
        padding: Any,
        kernel_size: Any,
        num_spatial_dims: int,
        dilation: Any = None,
    ) -> list[int]:
        """What to add for the size that is asked for, if it is possible."""
        if output_size is None:
            return list(self.output_padding)
        wanted = list(output_size)
        if len(wanted) not in (num_spatial_dims, input.ndim):
            raise ValueError(
                f"{type(self).__name__}: output_size needs {num_spatial_dims} or {input.ndim} "
                f"numbers, got {wanted}."
            )
        wanted = wanted[-num_spatial_dims:]
        added = []
        for place, size in enumerate(input.shape[-num_spatial_dims:]):
            spread = 1 if dilation is None else dilation[place]
            window = spread * (kernel_size[place] - 1) + 1
            least = (size - 1) * stride[place] - 2 * padding[place] + window
            most = least + stride[place] - 1
            if not least <= wanted[place] <= most:
                raise ValueError(
                    f"{type(self).__name__}: size {wanted[place]} was asked for, possible are "
                    f"{least} to {most}."
                )
            added.append(wanted[place] - least)
        return added


class _ConvTranspose(_ConvTransposeNd):
    """Their arguments and their forward."""

    _dims: ClassVar[int]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        dims = self._dims
        super().__init__(
            in_channels,
            out_channels,
            sized(kernel_size, dims),
            sized(stride, dims),
            sized(padding, dims),
            sized(dilation, dims),
            True,
            sized(output_padding, dims),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )


def _transposed(function: Callable[..., Tensor], dims: int) -> Callable[..., Any]:
    """A layer's `forward`, which asks of `self` only what torch's does."""

    def forward(self: Any, input: Tensor, output_size: Any = None) -> Any:
        """Apply it; `output_size` chooses among the sizes that are possible."""
        padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, dims, self.dilation
        )
        weight, bias = weight_and_bias(self)
        return function(
            input, weight, bias, self.stride, self.padding, padding, self.groups, self.dilation
        )

    return forward


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of sequences.

    >>> import pullback as torch
    >>> torch.nn.ConvTranspose1d(3, 1, kernel_size=2, stride=2)(torch.randn(1, 3, 5)).shape
    torch.Size([1, 1, 10])
    """

    _dims = 1
    forward = _transposed(F.conv_transpose1d, 1)


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of images.

    >>> import pullback as torch
    >>> torch.nn.ConvTranspose2d(3, 1, kernel_size=2, stride=2)(torch.randn(1, 3, 5, 5)).shape
    torch.Size([1, 1, 10, 10])
    """

    _dims = 2
    forward = _transposed(F.conv_transpose2d, 2)


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of volumes.

    >>> import pullback as torch
    >>> torch.nn.ConvTranspose3d(1, 1, kernel_size=2)(torch.randn(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 3, 3, 3])
    """

    _dims = 3
    forward = _transposed(F.conv_transpose3d, 3)


class _LazyConvXdMixin(LazyModuleMixin):
    """The number of channels is that of the first input."""

    _dims: ClassVar[int]
    in_channels: int
    weight: Any
    bias: Any

    def _open(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, once they are there."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]  # mixed into modules

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the channels of the input."""
        if not self.has_uninitialized_params():
            return
        if input.ndim not in (self._dims + 1, self._dims + 2):
            raise RuntimeError(
                f"{type(self).__name__}: {self._dims + 1} or {self._dims + 2} dimensions are "
                f"needed, got {tuple(input.shape)}."
            )
        self.in_channels = input.shape[-self._dims - 1]
        if self.in_channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: in_channels ({self.in_channels}) must be divisible by "
                f"groups ({self.groups})."
            )
        channels = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            channels = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*channels, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        # The bias comes later, so that memory for it is not made twice.
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._open(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._open(out_channels, bias, device, dtype)


def _lazy(mixin: type, kind: type) -> Any:
    """The lazy form of a layer."""
    name = f"Lazy{kind.__name__}"
    sides = ", 5" * int(kind.__name__[-2])
    about = f"""{kind.__name__} that takes the number of channels from its first input.

    >>> import pullback as torch
    >>> layer = torch.nn.{name}(8, 3)
    >>> layer(torch.randn(1, 2{sides})).shape[:2], layer.in_channels
    (torch.Size([1, 8]), 2)
    """
    return type(
        name,
        (mixin, kind),
        {"__doc__": about, "__module__": __name__, "__qualname__": name, "cls_to_become": kind},
    )


LazyConv1d = _lazy(_LazyConv, Conv1d)
LazyConv2d = _lazy(_LazyConv, Conv2d)
LazyConv3d = _lazy(_LazyConv, Conv3d)
LazyConvTranspose1d = _lazy(_LazyConvTranspose, ConvTranspose1d)
LazyConvTranspose2d = _lazy(_LazyConvTranspose, ConvTranspose2d)
LazyConvTranspose3d = _lazy(_LazyConvTranspose, ConvTranspose3d)
