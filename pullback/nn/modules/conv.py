"""Convolutions and transposed convolutions of 1 to 3 dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.base.fields import sized
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.sizes import empty

__all__ = [*("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Conv(Module):
    """What all of them share."""

    _dims: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]
    transposed: ClassVar[bool] = False

    weight: Parameter
    bias: Parameter | None

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
        super().__init__()
        self._check(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = sized(kernel_size, self._dims)
        self.stride = sized(stride, self._dims)
        self.padding: Any = padding
        if not isinstance(padding, str):
            self.padding = sized(padding, self._dims)
        self.dilation = sized(dilation, self._dims)
        self.output_padding: tuple[int, ...] = (0,) * self._dims
        self.groups = groups
        self.padding_mode = padding_mode
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *self.kernel_size)
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
                raise ValueError(f"{name}: {what} ({count}) is no multiple of groups ({groups}).")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f'{name}: padding must be "same" or "valid", got {padding!r}.')
            if padding == "same" and any(step != 1 for step in sized(stride, self._dims)):
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

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._padding_both_sides(), mode=self.padding_mode)
            padding = 0
        function = type(self)._function
        return function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _padding_both_sides(self) -> list[int]:
        """Padding at the start and end of each dimension, the last one first."""
        sides: list[int] = []
        for place in reversed(range(self._dims)):
            if self.padding == "same":
                total = self.dilation[place] * (self.kernel_size[place] - 1)
                sides += [total // 2, total - total // 2]
            elif self.padding == "valid":
                sides += [0, 0]
            else:
                sides += [self.padding[place]] * 2
        return sides

    def extra_repr(self) -> str:
        """The sizes, and what differs from the defaults."""
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        if self.padding != (0,) * self._dims:
            shown = repr(self.padding) if not isinstance(self.padding, str) else self.padding
            parts.append(f"padding={shown}")
        if self.dilation != (1,) * self._dims:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * self._dims:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class Conv1d(_Conv):
    """Convolution of sequences."""

    _dims = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Convolution of images.

    >>> import pullback as torch
    >>> torch.nn.Conv2d(3, 8, 3, padding=1)(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    _dims = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Convolution of volumes."""

    _dims = 3
    _function = staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    """Gradients of convolutions, as layers: they enlarge."""

    transposed = True

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
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = sized(output_padding, self._dims)

    def forward(self, input: Tensor, output_size: Any = None) -> Any:
        """Apply it; `output_size` chooses among the sizes that are possible."""
        padding = self.output_padding
        if output_size is not None:
            padding = self._padding_for(input, list(output_size))
        function = type(self)._function
        return function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            padding,
            self.groups,
            self.dilation,
        )

    def _padding_for(self, input: Tensor, output_size: list[int]) -> tuple[int, ...]:
        wanted = output_size[-self._dims :]
        if len(output_size) not in (self._dims, input.ndim):
            raise ValueError(
                f"{type(self).__name__}: output_size needs {self._dims} or {input.ndim} numbers, "
                f"got {output_size}."
            )
        added = []
        for place, size in enumerate(input.shape[-self._dims :]):
            least = (
                (size - 1) * self.stride[place]
                - 2 * self.padding[place]
                + self.dilation[place] * (self.kernel_size[place] - 1)
                + 1
            )
            most = least + self.stride[place] - 1
            if not least <= wanted[place] <= most:
                raise ValueError(
                    f"{type(self).__name__}: size {wanted[place]} was asked for, possible are "
                    f"{least} to {most}."
                )
            added.append(wanted[place] - least)
        return tuple(added)


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of sequences."""

    _dims = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of images."""

    _dims = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of volumes."""

    _dims = 3
    _function = staticmethod(F.conv_transpose3d)
