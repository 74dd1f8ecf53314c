"""The half-normal distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.distributions.continuous.half import Half
from pullback.distributions.continuous.normal import Normal

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """Sizes of normal numbers of mean 0 and standard deviation `scale`.

    >>> import pullback as torch
    >>> torch.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    _whole = Normal

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)
