"""The Weibull distribution."""

from __future__ import annotations

from typing import Any

from pullback.distributions import constraints
from pullback.distributions.continuous.exponential import Exponential
from pullback.distributions.package import torch
from pullback.distributions.transformed_distribution import TransformedDistribution
from pullback.distributions.transforms import AffineTransform, PowerTransform
from pullback.distributions.utils import broadcast_all, euler_constant

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """Times until something fails at a rate that changes as a power of its age.

    >>> import pullback as torch
    >>> torch.distributions.Weibull(1.0, 1.0).mean
    tensor(1.)
    """

    arg_constraints: Any = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(torch.ones_like(self.scale), validate_args=validate_args)
        transforms = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new.concentration_reciprocal = new.concentration.reciprocal()
        super()._expand_parts(new, batch_shape)

    @property
    def mean(self) -> Any:
        return self.scale * torch.exp(torch.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Any:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** self.concentration_reciprocal

    @property
    def variance(self) -> Any:
        second = torch.exp(torch.lgamma(1 + 2 * self.concentration_reciprocal))
        first_squared = torch.exp(2 * torch.lgamma(1 + self.concentration_reciprocal))
        return self.scale.pow(2) * (second - first_squared)

    def entropy(self) -> Any:
        spread = euler_constant * (1 - self.concentration_reciprocal)
        return spread + torch.log(self.scale * self.concentration_reciprocal) + 1
