"""Resampling as modules."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Layer):
    """Upsample to a size, or by a factor.

    >>> import pullback as torch
    >>> torch.nn.Upsample(scale_factor=2)(torch.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

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
    """Upsample images by repeating their pixels.

    >>> import pullback as torch
    >>> torch.nn.UpsamplingNearest2d(scale_factor=2)(torch.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample images by bilinear interpolation, with aligned corners.

    >>> import pullback as torch
    >>> torch.nn.UpsamplingBilinear2d(scale_factor=2)(torch.randn(1, 1, 2, 2)).shape
    torch.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
