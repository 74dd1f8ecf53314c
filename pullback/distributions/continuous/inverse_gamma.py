"""The inverse gamma distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.distributions import constraints
from pullback.distributions.continuous.gamma import Gamma
from pullback.distributions.package import torch
from pullback.distributions.transformed_distribution import TransformedDistribution
from pullback.distributions.transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """Reciprocals of gamma numbers.

    >>> import pullback as torch
    >>> torch.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints: Any = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.positive
    has_rsample: Any = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        reciprocal = PowerTransform(
            torch.tensor(-1.0, dtype=base.rate.dtype, device=base.rate.device)
        )
        super().__init__(base, reciprocal, validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        """That of the gamma distribution."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """That of the gamma distribution."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        mean = self.rate / (self.concentration - 1)
        return torch.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return torch.where(a > 2, variance, math.inf)

    def entropy(self) -> Any:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
