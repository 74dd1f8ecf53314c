"""Dropout of elements and of whole channels."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = [
    *("AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout")
]


class _DropoutNd(Layer):
    p: float = 0.5
    inplace: bool = False
    _shown = ("p", "inplace")

    def __post_init__(self) -> None:
        """Check the probability."""
        if not 0 <= self.p <= 1:
            raise ValueError(f"{type(self).__name__}: p must be from 0 to 1, got {self.p}.")


class Dropout(_DropoutNd):
    """Set elements to zero at random in training, each with probability `p`.

    The others are scaled by `1 / (1 - p)`, which keeps the expected value. In evaluation mode,
    after `eval()`, the input passes unchanged.

    Args:
        p: Probability of zeroing an element.
        inplace: Whether to overwrite the input.

    Shape:
        Input: any. Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.Dropout().eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Set whole channels of sequences to zero at random in training, each with probability `p`.

    The channels that stay are scaled by `1 / (1 - p)`; in evaluation the input passes unchanged.

    Args:
        p: Probability of zeroing a channel.
        inplace: Whether to overwrite the input.

    Shape:
        Input: (N, C, L) or (C, L). Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.Dropout1d(0.5).eval()(torch.ones(1, 2, 3)).shape
    torch.Size([1, 2, 3])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Set whole channels of images to zero at random in training, each with probability `p`.

    Neighbouring pixels are alike, so that dropping single ones would drop little; the channels that
    stay are scaled by `1 / (1 - p)`.

    Args:
        p: Probability of zeroing a channel.
        inplace: Whether to overwrite the input.

    Shape:
        Input: (N, C, H, W) or (C, H, W). Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.Dropout2d(0.5).eval()(torch.ones(1, 2, 3, 3)).shape
    torch.Size([1, 2, 3, 3])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Set whole channels of volumes to zero at random in training, each with probability `p`.

    The channels that stay are scaled by `1 / (1 - p)`; in evaluation the input passes unchanged.

    Args:
        p: Probability of zeroing a channel.
        inplace: Whether to overwrite the input.

    Shape:
        Input: (N, C, D, H, W) or (C, D, H, W). Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.Dropout3d(0.5).eval()(torch.ones(1, 2, 3, 3, 3)).shape
    torch.Size([1, 2, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance, for SELU.

    >>> import pullback as torch
    >>> torch.nn.AlphaDropout(0.5).eval()(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> import pullback as torch
    >>> torch.nn.FeatureAlphaDropout(0.5).eval()(torch.ones(1, 2, 3)).shape
    torch.Size([1, 2, 3])
    """

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
