"""Interleave the channels of several groups."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Layer):
    """Interleave the channels of several groups.

    >>> import pullback as torch
    >>> torch.nn.ChannelShuffle(2)(torch.arange(4.0).view(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    groups: int

    def forward(self, input: Tensor) -> Any:
        """Apply it."""
        return F.channel_shuffle(input, self.groups)
