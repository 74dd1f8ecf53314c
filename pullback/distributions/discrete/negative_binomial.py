"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.continuous.gamma import Gamma
from pullback.distributions.distribution import Distribution
from pullback.distributions.odds import OneProbability
from pullback.distributions.package import torch
from pullback.distributions.utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(OneProbability, Distribution):
    """How many trials succeed before `total_count` have failed.

    >>> import pullback as torch
    >>> torch.distributions.NegativeBinomial(3.0, torch.tensor(0.5)).mean
    tensor(3.)
    """

    arg_constraints: Any = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Any = constraints.nonnegative_integer
    _kept = ("_given_probs",)

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._take(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Any:
        # Counts are Poisson numbers whose rate is a gamma number; 0 failures leave no such number.
        rate = torch.exp(-self.logits)
        return Gamma(concentration=self.total_count, rate=rate, validate_args=False)

    def sample(self, sample_shape: Any = Size()) -> Any:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        chances = n * torch.nn.functional.logsigmoid(
            -self.logits
        ) + value * torch.nn.functional.logsigmoid(self.logits)
        arrangements = torch.lgamma(n + value) - torch.lgamma(1.0 + value) - torch.lgamma(n)
        # With no failures to wait for, lgamma(0) of both is infinite, and there is one way.
        arrangements = arrangements.masked_fill(n + value == 0.0, 0.0)
        return chances + arrangements
