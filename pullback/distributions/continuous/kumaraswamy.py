"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.distributions import constraints
from pullback.distributions.continuous.uniform import Uniform
from pullback.distributions.package import torch
from pullback.distributions.transformed_distribution import TransformedDistribution
from pullback.distributions.transforms import AffineTransform, PowerTransform
from pullback.distributions.utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moments(a: Any, b: Any, n: int) -> Any:
    """The mean of x**n."""
    arg = 1 + n / a
    return torch.exp(b.log() + torch.lgamma(arg) + torch.lgamma(b) - torch.lgamma(arg + b))


class Kumaraswamy(TransformedDistribution):
    """Much like a beta distribution, with a cdf of powers alone: 1 - (1 - x**a)**b.

    >>> import pullback as torch
    >>> torch.distributions.Kumaraswamy(1.0, 1.0).mean
    tensor(0.5000)
    """

    arg_constraints: Any = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support: Any = constraints.unit_interval
    has_rsample: Any = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros = torch.full_like(self.concentration0, 0)
        base = Uniform(zeros, torch.full_like(self.concentration0, 1), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return _moments(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Any:
        """Inside, where both concentrations are at least 1 and one is more; NaN elsewhere."""
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return torch.where(inside, mode, math.nan)

    @property
    def variance(self) -> Any:
        second = _moments(self.concentration1, self.concentration0, 2)
        return second - torch.pow(self.mean, 2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = torch.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
