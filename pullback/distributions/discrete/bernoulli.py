"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.exp_family import ExponentialFamily
from pullback.distributions.odds import OneProbability
from pullback.distributions.package import torch
from pullback.distributions.utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(OneProbability, ExponentialFamily):
    """The Bernoulli distribution: 1 with probability `probs`, else 0.

    >>> import pullback as torch
    >>> torch.distributions.Bernoulli(torch.tensor([0.25])).variance
    tensor([0.1875])
    """

    support: Any = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _kept = ("_given_probs",)

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        likely = (self.probs >= 0.5).to(self.probs)
        return torch.where(self.probs == 0.5, math.nan, likely)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.bernoulli(self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -torch.nn.functional.binary_cross_entropy_with_logits(
            logits, value, reduction="none"
        )

    def entropy(self) -> Any:
        return torch.nn.functional.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> Any:
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        return torch.log1p(torch.exp(x))
