"""Layers that change shapes and sizes: flatten, pad, resample, shuffle, fold; and distances."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.modules.fields import Layer, sized
from pullback.nn.modules.module import Module

__all__ = [
    *("ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d"),
    *("ConstantPad2d", "ConstantPad3d", "CosineSimilarity", "Flatten", "Fold", "PairwiseDistance"),
    *("PixelShuffle", "PixelUnshuffle", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d"),
    *("ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Unflatten", "Unfold"),
    *("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d"),
    "ZeroPad3d",
]


class Flatten(Layer):
    """Several dimensions into one; all but the first unless told otherwise.

    >>> import pullback as torch
    >>> torch.nn.Flatten()(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 12])
    """

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Layer):
    """One dimension into several."""

    dim: int
    unflattened_size: Any

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return input.unflatten(self.dim, self.unflattened_size)


# Padding -----------------------------------------------------------------------------------------


class _Pad(Module):
    """Padding at both ends of the last dimensions."""

    _dims: int
    _mode: str = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = sized(padding, 2 * self._dims)

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The widths and the number."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with a number."""

    _dims = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with a number."""

    _dims = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with a number."""

    _dims = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros."""

    _dims = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros."""

    _dims = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros."""

    _dims = 3


class ReflectionPad1d(_Pad):
    """Pads the last dimension with its mirror image."""

    _dims, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pads the last two dimensions with their mirror image."""

    _dims, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pads the last three dimensions with their mirror image."""

    _dims, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pads the last dimension with its outermost elements."""

    _dims, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pads the last two dimensions with their outermost elements."""

    _dims, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pads the last three dimensions with their outermost elements."""

    _dims, _mode = 3, "replicate"


class CircularPad1d(_Pad):
    """Pads the last dimension with its other end."""

    _dims, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """Pads the last two dimensions with their other ends."""

    _dims, _mode = 2, "circular"


class CircularPad3d(_Pad):
    """Pads the last three dimensions with their other ends."""

    _dims, _mode = 3, "circular"


# Sizes -------------------------------------------------------------------------------------------


class Upsample(Layer):
    """Resamples to a size, or by a factor."""

    size: Any = None
    scale_factor: Any = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def __post_init__(self) -> None:
        """Factors are floats."""
        factor = self.scale_factor
        if isinstance(factor, tuple):
            self.scale_factor = tuple(map(float, factor))
        elif factor:
            self.scale_factor = float(factor)

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Size or factor, and the mode."""
        given = "size" if self.scale_factor is None else "scale_factor"
        return f"{given}={getattr(self, given)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Resamples images by repeating their pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resamples images by interpolation, corners on corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Layer):
    """Channels into a finer grid."""

    upscale_factor: int

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Layer):
    """A finer grid into channels."""

    downscale_factor: int

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Layer):
    """Channels of several groups in turn."""

    groups: int

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.channel_shuffle(input, self.groups)


class Fold(Layer):
    """Sums of windows, put back where they came from."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )


class Unfold(Layer):
    """Windows of images, as columns."""

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


# Distances ---------------------------------------------------------------------------------------


class CosineSimilarity(Layer):
    """Cosine of the angle between vectors."""

    dim: int = 1
    eps: float = 1e-8
    _shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        """Apply it."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Layer):
    """Norm of differences."""

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False
    _shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        """Apply it."""
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)
