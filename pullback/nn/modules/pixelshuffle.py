"""Channels into a finer grid, and back."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Layer):
    """Rearrange channels into a finer grid of pixels.

    >>> import pullback as torch
    >>> torch.nn.PixelShuffle(2)(torch.arange(4.0).view(1, 4, 1, 1)).view(2, 2)
    tensor([[0., 1.],
            [2., 3.]])
    """

    upscale_factor: int

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Layer):
    """Rearrange a fine grid of pixels into channels: the inverse of `PixelShuffle`.

    >>> import pullback as torch
    >>> torch.nn.PixelUnshuffle(2)(torch.zeros(1, 1, 4, 4)).shape
    torch.Size([1, 4, 2, 2])
    """

    downscale_factor: int

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.pixel_unshuffle(input, self.downscale_factor)
