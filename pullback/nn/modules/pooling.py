"""Pooling as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer, sized

__all__ = [
    *("AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d"),
    *("AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d"),
    *(
        "FractionalMaxPool2d",
        "FractionalMaxPool3d",
        "LPPool2d",
        "LPPool3d",
        "MaxPool1d",
        "MaxPool2d",
        "MaxPool3d",
        "MaxUnpool1d",
        "MaxUnpool2d",
    ),
    "MaxUnpool3d",
]


class _Windowed(Layer):
    """What all windows have."""

    kernel_size: Any
    stride: Any = None

    def __post_init__(self) -> None:
        """Windows do not overlap unless told to."""
        if self.stride is None:
            self.stride = self.kernel_size


class _MaxPoolNd(_Windowed):
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def _options(self) -> dict[str, Any]:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
        return {name: getattr(self, name) for name in names}


class MaxPool1d(_MaxPoolNd):
    """Take the largest element of each window of a sequence.

    The arguments are those of `MaxPool2d`, each size one number.

    Shape:
        Input: (N, C, L) or (C, L). Output: (N, C, L_out), sized as in `MaxPool2d`.

    >>> import pullback as torch
    >>> torch.nn.MaxPool1d(2)(torch.tensor([[[1.0, 3.0, 2.0, 4.0]]]))
    tensor([[[3., 4.]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.max_pool1d(input, **self._options())


class MaxPool2d(_MaxPoolNd):
    """Take the largest element of each window of an image, in each channel by itself.

    Args:
        kernel_size: Height and width of the window; one number means a square.
        stride: Step of the window; `kernel_size` if not given, so that windows do not overlap.
        padding: Rows and columns added at each side, which never win; at most half the window.
        dilation: Distance between the window's elements.
        return_indices: Whether to return the flat positions of the maxima too, for `MaxUnpool2d`.
        ceil_mode: Whether to round the output size up: a last window may be incomplete.

    Shape:
        Input: (N, C, H, W) or (C, H, W).
        Output: (N, C, H_out, W_out), with
            `H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`, W alike.

    >>> import pullback as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(4.0).view(1, 1, 2, 2)).item()
    3.0
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.max_pool2d(input, **self._options())


class MaxPool3d(_MaxPoolNd):
    """Take the largest element of each window of a volume.

    The arguments are those of `MaxPool2d`, with depth before height and width.

    Shape:
        Input: (N, C, D, H, W) or (C, D, H, W). Output: each size as in `MaxPool2d`.

    >>> import pullback as torch
    >>> torch.nn.MaxPool3d(2)(torch.randn(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 2, 2, 2])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.max_pool3d(input, **self._options())


class _AvgPoolNd(_Windowed):
    """What means of windows are called by."""


class AvgPool1d(_AvgPoolNd):
    """Take the mean of each window of a sequence.

    The arguments are those of `AvgPool2d`, each size one number.

    Shape:
        Input: (N, C, L) or (C, L). Output: (N, C, L_out), sized as in `AvgPool2d`.

    >>> import pullback as torch
    >>> torch.nn.AvgPool1d(2)(torch.tensor([[[1.0, 3.0, 5.0, 7.0]]]))
    tensor([[[2., 6.]]])
    """

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


class _AvgPool(_AvgPoolNd):
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
    """Take the mean of each window of an image, in each channel by itself.

    Args:
        kernel_size: Height and width of the window; one number means a square.
        stride: Step of the window; `kernel_size` if not given, so that windows do not overlap.
        padding: Rows and columns of zeros added at each side; at most half the window.
        ceil_mode: Whether to round the output size up: a last window may be incomplete.
        count_include_pad: Whether padded zeros count in the mean.
        divisor_override: Number to divide sums by instead of the count.

    Shape:
        Input: (N, C, H, W) or (C, H, W).
        Output: (N, C, H_out, W_out), with `H_out = (H + 2 * padding - kernel_size) // stride + 1`,
            W alike.

    >>> import pullback as torch
    >>> torch.nn.AvgPool2d(2)(torch.arange(4.0).view(1, 1, 2, 2))
    tensor([[[[1.5000]]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.avg_pool2d(input, *self._options())


class AvgPool3d(_AvgPool):
    """Take the mean of each window of a volume.

    The arguments are those of `AvgPool2d`, with depth before height and width.

    Shape:
        Input: (N, C, D, H, W) or (C, D, H, W). Output: each size as in `AvgPool2d`.

    >>> import pullback as torch
    >>> torch.nn.AvgPool3d(2)(torch.ones(1, 1, 4, 4, 4)).shape
    torch.Size([1, 1, 2, 2, 2])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.avg_pool3d(input, *self._options())


class _LPPoolNd(Layer):
    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of a sequence.

    >>> import pullback as torch
    >>> torch.nn.LPPool1d(2, 2)(torch.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of an image.

    >>> import pullback as torch
    >>> torch.nn.LPPool2d(2, 2)(torch.ones(1, 1, 2, 2))
    tensor([[[[2.]]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of a volume.

    >>> import pullback as torch
    >>> torch.nn.LPPool3d(2, 2)(torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 1, 1, 1])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.lp_pool3d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _MaxUnpoolNd(_Windowed):
    padding: Any = 0
    _count = 1
    _function: ClassVar[Callable[..., Any]]

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

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        """Apply it."""
        sizes = self.kernel_size, self.stride, self.padding
        return type(self)._function(input, indices, *sizes, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Partial inverse of MaxPool1d: put the maxima back where they were, zeros elsewhere.

    >>> import pullback as torch
    >>> out, indices = torch.nn.MaxPool1d(2, return_indices=True)(
    ...     torch.tensor([[[1.0, 3.0, 2.0, 4.0]]])
    ... )
    >>> torch.nn.MaxUnpool1d(2)(out, indices)
    tensor([[[0., 3., 0., 4.]]])
    """

    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Partial inverse of MaxPool2d: put the maxima back where they were, zeros elsewhere.

    >>> import pullback as torch
    >>> pool, unpool = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)
    >>> unpool(*pool(torch.tensor([[[1.0, 3.0], [2.0, 4.0]]])))
    tensor([[[0., 0.],
             [0., 4.]]])
    """

    _count = 2
    _function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Partial inverse of MaxPool3d: put the maxima back where they were, zeros elsewhere.

    >>> import pullback as torch
    >>> pool, unpool = torch.nn.MaxPool3d(2, return_indices=True), torch.nn.MaxUnpool3d(2)
    >>> unpool(*pool(torch.ones(1, 2, 2, 2))).shape
    torch.Size([1, 2, 2, 2])
    """

    _count = 3
    _function = staticmethod(F.max_unpool3d)


class _AdaptiveAvgPoolNd(Layer):
    output_size: Any


class _AdaptiveMaxPoolNd(Layer):
    output_size: Any
    return_indices: bool = False
    _shown = ("output_size",)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Split a sequence into `output_size` windows and take the mean of each.

    Window `i` runs from `floor(i * L / output_size)` to `ceil((i + 1) * L / output_size)`, so any
    length gives the same output size; windows may overlap by one element.

    Args:
        output_size: Number of windows.

    Shape:
        Input: (N, C, L) or (C, L). Output: (N, C, output_size).

    >>> import pullback as torch
    >>> torch.nn.AdaptiveAvgPool1d(2)(torch.arange(6.0).view(1, 1, 6))
    tensor([[[1., 4.]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Split images into a grid of `output_size` windows and take the mean of each.

    Images of any size give the same output size; 1 is global average pooling. Windows are those of
    `AdaptiveAvgPool1d` in each dimension.

    Args:
        output_size: Height and width of the output; one number for both, None keeps the input's.

    Shape:
        Input: (N, C, H, W) or (C, H, W). Output: (N, C, *output_size).

    >>> import pullback as torch
    >>> torch.nn.AdaptiveAvgPool2d(1)(torch.arange(4.0).view(1, 1, 2, 2))
    tensor([[[[1.5000]]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Split volumes into a grid of `output_size` windows and take the mean of each.

    Args:
        output_size: Depth, height and width of the output; one number for all, None keeps the
            input's.

    Shape:
        Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, *output_size).

    >>> import pullback as torch
    >>> torch.nn.AdaptiveAvgPool3d(1)(torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 1, 1, 1])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Split a sequence into `output_size` windows and take the largest element of each.

    Args:
        output_size: Number of windows, as in `AdaptiveAvgPool1d`.
        return_indices: Whether to return the positions of the maxima too.

    Shape:
        Input: (N, C, L) or (C, L). Output: (N, C, output_size).

    >>> import pullback as torch
    >>> torch.nn.AdaptiveMaxPool1d(2)(torch.arange(6.0).view(1, 1, 6))
    tensor([[[2., 5.]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Split images into a grid of `output_size` windows and take the largest element of each.

    Args:
        output_size: Height and width of the output; one number for both, None keeps the input's.
        return_indices: Whether to return the flat positions of the maxima too.

    Shape:
        Input: (N, C, H, W) or (C, H, W). Output: (N, C, *output_size).

    >>> import pullback as torch
    >>> torch.nn.AdaptiveMaxPool2d(1)(torch.arange(4.0).view(1, 1, 2, 2))
    tensor([[[[3.]]]])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Split volumes into a grid of `output_size` windows and take the largest element of each.

    Args:
        output_size: Depth, height and width of the output; one number for all, None keeps the
            input's.
        return_indices: Whether to return the flat positions of the maxima too.

    Shape:
        Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, *output_size).

    >>> import pullback as torch
    >>> torch.nn.AdaptiveMaxPool3d(1)(torch.ones(1, 1, 2, 2, 2)).shape
    torch.Size([1, 1, 1, 1, 1])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _FractionalMaxPool(Layer):
    """Max pooling over randomly placed windows."""

    kernel_size: Any
    output_size: Any = None
    output_ratio: Any = None
    return_indices: bool = False
    _random_samples: Any = None

    _shown = ()
    _dims = 2

    def __post_init__(self) -> None:
        """Sizes are tuples, and either a size or a share is asked for."""
        name = type(self).__name__
        self.kernel_size = sized(self.kernel_size, self._dims)
        if self._dims == 3 and min(self.kernel_size, default=1) < 1:
            raise ValueError(f"{name}: kernel_size must be at least 1, got {self.kernel_size}.")
        samples = self.__dict__.pop("_random_samples", None)
        self.register_buffer("_random_samples", samples)
        if (self.output_size is None) == (self.output_ratio is None):
            raise ValueError(f"{name}: give output_size or output_ratio, one of them.")
        if self.output_size is not None:
            self.output_size = sized(self.output_size, self._dims)
            return
        self.output_ratio = sized(self.output_ratio, self._dims)
        if not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"{name}: output_ratio is between 0 and 1, not {self.output_ratio}.")


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling over randomly placed windows of an image.

    >>> import pullback as torch
    >>> torch.nn.FractionalMaxPool2d(2, output_size=3)(torch.zeros(1, 1, 7, 7)).shape
    torch.Size([1, 1, 3, 3])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.fractional_max_pool2d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling over randomly placed windows of a volume.

    >>> import pullback as torch
    >>> torch.nn.FractionalMaxPool3d(2, output_size=2)(torch.randn(1, 1, 5, 5, 5)).shape
    torch.Size([1, 1, 2, 2, 2])
    """

    _dims = 3

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.fractional_max_pool3d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )
