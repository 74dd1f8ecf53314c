"""Windows of images as columns, and back."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = ["Fold", "Unfold"]


class Fold(Layer):
    """Add windows, given as columns, up to images: the adjoint of `Unfold`.

    >>> import pullback as torch
    >>> torch.nn.Fold((2, 2), (1, 1))(torch.arange(4.0).view(1, 1, 4)).view(2, 2)
    tensor([[0., 1.],
            [2., 3.]])
    """

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
    """Sliding windows of images, as columns.

    >>> import pullback as torch
    >>> torch.nn.Unfold(2)(torch.arange(9.0).view(1, 1, 3, 3)).shape
    torch.Size([1, 4, 4])
    """

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
