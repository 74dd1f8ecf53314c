"""Pooling as modules."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = [
    *("AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d"),
    *("AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d"),
    *("LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d"),
    "MaxUnpool3d",
]


class _Windowed(Layer):
    kernel_size: Any
    stride: Any = None

    def __post_init__(self) -> None:
        """Windows do not overlap unless told to."""
        if self.stride is None:
            self.stride = self.kernel_size


class _MaxPool(_Windowed):
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def _options(self) -> dict[str, Any]:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
        return {name: getattr(self, name) for name in names}


class MaxPool1d(_MaxPool):
    """The largest element of each window of a sequence."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.max_pool1d(input, **self._options())


class MaxPool2d(_MaxPool):
    """The largest element of each window of an image.

    >>> import pullback as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(4.0).view(1, 1, 2, 2)).item()
    3.0
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.max_pool2d(input, **self._options())


class MaxPool3d(_MaxPool):
    """The largest element of each window of a volume."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.max_pool3d(input, **self._options())


class AvgPool1d(_Windowed):
    """The mean of each window of a sequence."""

    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True

    def __post_init__(self) -> None:
        """One number stands in a tuple, as torch keeps it."""
        super().__post_init__()
        for name in ("kernel_size", "stride", "padding"):
            value = getattr(self, name)
            setattr(self, name, value if isinstance(value, tuple) else (value,))

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    _shown = ("kernel_size", "stride", "padding")


class _AvgPool(_Windowed):
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None
    _shown = ("kernel_size", "stride", "padding")

    def _options(self) -> tuple[Any, ...]:
        return (
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool):
    """The mean of each window of an image."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.avg_pool2d(input, *self._options())


class AvgPool3d(_AvgPool):
    """The mean of each window of a volume."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.avg_pool3d(input, *self._options())


class _LPPool(Layer):
    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False


class LPPool1d(_LPPool):
    """The p-norm of each window of a sequence."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """The p-norm of each window of an image."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPool):
    """The p-norm of each window of a volume."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.lp_pool3d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _MaxUnpool(_Windowed):
    padding: Any = 0
    _count = 1

    def __post_init__(self) -> None:
        """Sizes are tuples here, as torch keeps them."""
        super().__post_init__()
        for name in ("kernel_size", "stride", "padding"):
            value = getattr(self, name)
            setattr(
                self,
                name,
                tuple(value) if isinstance(value, tuple | list) else (value,) * self._count,
            )


class MaxUnpool1d(_MaxUnpool):
    """Puts maxima back where MaxPool1d found them."""

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        """Apply it."""
        return F.max_unpool1d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool2d(_MaxUnpool):
    """Puts maxima back where MaxPool2d found them."""

    _count = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        """Apply it."""
        return F.max_unpool2d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool3d(_MaxUnpool):
    """Puts maxima back where MaxPool3d found them."""

    _count = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        """Apply it."""
        return F.max_unpool3d(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class _Adaptive(Layer):
    output_size: Any


class _AdaptiveMax(_Adaptive):
    return_indices: bool = False
    _shown = ("output_size",)


class AdaptiveAvgPool1d(_Adaptive):
    """Means of as many windows as asked for."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_Adaptive):
    """Means of as many windows of an image as asked for."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_Adaptive):
    """Means of as many windows of a volume as asked for."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Maxima of as many windows as asked for."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Maxima of as many windows of an image as asked for."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Maxima of as many windows of a volume as asked for."""

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
