"""The Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.distributions import constraints
from pullback.distributions.continuous.uniform import Uniform
from pullback.distributions.package import torch
from pullback.distributions.transformed_distribution import TransformedDistribution
from pullback.distributions.transforms import AffineTransform, ExpTransform
from pullback.distributions.utils import broadcast_all, euler_constant, finfo_of

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The largest of many numbers: -log(-log(uniform)), scaled and shifted.

    >>> import pullback as torch
    >>> torch.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    arg_constraints: Any = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo_of(self.loc)
        low = torch.full_like(self.loc, limits.tiny)
        base = Uniform(low, torch.full_like(self.loc, 1 - limits.eps), validate_args=validate_args)
        transforms = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-torch.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=self.loc, scale=-self.scale),
        ]
        super().__init__(base, transforms, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)
