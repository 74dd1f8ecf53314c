"""Channels into a finer grid, and back."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = ["PixelShuffle", "PixelUnshuffle"]


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
