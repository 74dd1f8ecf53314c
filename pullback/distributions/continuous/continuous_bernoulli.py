"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.exp_family import ExponentialFamily
from pullback.distributions.odds import OneProbability, check_one_given
from pullback.distributions.package import torch
from pullback.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(OneProbability, ExponentialFamily):
    """Numbers between 0 and 1 with density proportional to p**x (1 - p)**(1 - x).

    Near p = 1/2, between `lims`, formulas that divide by 1 - 2p give way to series. `probs` is no
    mean here (Loaiza-Ganem and Cunningham, 2019).

    >>> import pullback as torch
    >>> torch.distributions.ContinuousBernoulli(torch.tensor(0.5)).log_prob(torch.tensor(0.2))
    tensor(0.)
    """

    support: Any = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_given_probs", "_lims")

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        check_one_given(self, probs, logits)
        self._given_probs = probs is not None
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
            if validate_args and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError(f"probs must lie between 0 and 1, got\n{self.probs}")
            self.probs = clamp_probs(self.probs)
        else:
            (self.logits,) = broadcast_all(logits)
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:
        """The probability, clamped as one that is given: at 0 and 1 there is no density."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Any:
        low, high = self._lims
        return (self.probs <= low) | (self.probs > high)

    def _cut_probs(self) -> Any:
        """Probabilities, those near 1/2 moved away from it."""
        return torch.where(
            self._outside_unstable_region(), self.probs, self._lims[0] * torch.ones_like(self.probs)
        )

    def _cont_bern_log_norm(self) -> Any:
        """The logarithm of 2 atanh(1 - 2p) / (1 - 2p)."""
        p = self._cut_probs()
        # Each side of 1/2 has its own finite logarithm; the other is kept from becoming NaN.
        below = torch.where(p <= 0.5, p, torch.zeros_like(p))
        above = torch.where(p >= 0.5, p, torch.ones_like(p))
        log_width = torch.where(p <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        log_norm = torch.log(torch.abs(torch.log1p(-p) - torch.log(p))) - log_width
        x = (self.probs - 0.5) ** 2
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return torch.where(self._outside_unstable_region(), log_norm, series)

    @property
    def mean(self) -> Any:
        p = self._cut_probs()
        mean = p / (2.0 * p - 1.0) + 1.0 / (torch.log1p(-p) - torch.log(p))
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x
        return torch.where(self._outside_unstable_region(), mean, series)

    @property
    def stddev(self) -> Any:
        return self.variance.sqrt()

    @property
    def variance(self) -> Any:
        p = self._cut_probs()
        variance = (
            p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / (torch.log1p(-p) - torch.log(p)) ** 2
        )
        x = (self.probs - 0.5) ** 2
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return torch.where(self._outside_unstable_region(), variance, series)

    def rsample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits(
            logits, value, reduction="none"
        )
        return self._cont_bern_log_norm() - cross_entropy

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p = self._cut_probs()
        powers = p**value * (1.0 - p) ** (1.0 - value)
        steep = (powers + p - 1.0) / (2.0 * p - 1.0)
        inside = torch.where(self._outside_unstable_region(), steep, value)
        return inside.clamp(min=0.0, max=1.0)

    def icdf(self, value: Any) -> Any:
        p = self._cut_probs()
        steep = (torch.log1p(-p + value * (2.0 * p - 1.0)) - torch.log1p(-p)) / (
            torch.log(p) - torch.log1p(-p)
        )
        return torch.where(self._outside_unstable_region(), steep, value)

    def entropy(self) -> Any:
        log_p, log_q = torch.log(self.probs), torch.log1p(-self.probs)
        return self.mean * (log_q - log_p) - self._cont_bern_log_norm() - log_q

    @property
    def _natural_params(self) -> Any:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        low, high = self._lims
        away = (x <= low - 0.5) | (x > high - 0.5)
        far = torch.where(away, x, (low - 0.5) * torch.ones_like(x))
        log_norm = torch.log(torch.abs(torch.special.expm1(far))) - torch.log(torch.abs(far))
        series = 0.5 * x + x**2 / 24.0 - x**4 / 2880.0
        return torch.where(away, log_norm, series)
