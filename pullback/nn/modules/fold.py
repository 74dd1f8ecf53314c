"""Windows of images as columns, and back."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = ["Fold", "Unfold"]


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
