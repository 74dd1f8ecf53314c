"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.distributions.continuous.cauchy import Cauchy
from pullback.distributions.continuous.half import Half
from pullback.distributions.package import torch

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """Sizes of Cauchy numbers about 0, of which `scale` is the median.

    >>> import pullback as torch
    >>> torch.distributions.HalfCauchy(1.0).cdf(torch.tensor(1.0))
    tensor(0.5000)
    """

    _whole = Cauchy

    @property
    def mean(self) -> Any:
        return torch.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return super().log_prob(
            torch.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        )
