"""The generalized Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.distribution import Distribution
from pullback.distributions.package import torch
from pullback.distributions.utils import broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """By how much a high threshold is passed; with concentration 0, an exponential distribution.

    >>> import pullback as torch
    >>> torch.distributions.GeneralizedPareto(0.0, 1.0, 0.5).cdf(torch.tensor(2.0))
    tensor(0.7500)
    """

    arg_constraints: Any = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        top = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, top, math.inf))

    def _shape(self) -> tuple[Any, Any]:
        """Where the concentration is practically 0, and the concentration, 1 there."""
        flat = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return flat, torch.where(flat, torch.ones_like(self.concentration), self.concentration)

    @property
    def mean(self) -> Any:
        finite = self.concentration < 1
        concentration = torch.where(finite, self.concentration, 0.5)
        return torch.where(finite, self.loc + self.scale / (1 - concentration), math.nan)

    @property
    def variance(self) -> Any:
        finite = self.concentration < 0.5
        concentration = torch.where(finite, self.concentration, 0.25)
        variance = self.scale**2 / ((1 - concentration) ** 2 * (1 - 2 * concentration))
        return torch.where(finite, variance, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    def rsample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        flat, shape = self._shape()
        decay = torch.where(flat, z, (1 / shape + 1) * torch.log1p(shape * z))
        return -decay - self.scale.log()

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of larger values."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        flat, shape = self._shape()
        return torch.where(flat, -z, -torch.log1p(shape * z) / shape)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of the cdf."""
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        flat, shape = self._shape()
        log_left = torch.log1p(-value)
        z = torch.where(flat, -log_left, torch.expm1(-shape * log_left) / shape)
        return self.loc + self.scale * z

    def _z(self, value: Any) -> Any:
        return (value - self.loc) / self.scale

    def entropy(self) -> Any:
        return (torch.log(self.scale) + self.concentration + 1).expand(self._batch_shape)
