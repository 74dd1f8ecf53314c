"""The binomial distribution."""

from __future__ import annotations

from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.distribution import Distribution
from pullback.distributions.odds import OneProbability
from pullback.distributions.package import torch

__all__ = ["Binomial"]


class Binomial(OneProbability, Distribution):
    """The binomial distribution: how many of `total_count` trials succeed.

    >>> import pullback as torch
    >>> torch.distributions.Binomial(4, torch.tensor(0.5)).mean
    tensor(2.)
    """

    arg_constraints: Any = {
        "total_count": constraints.nonnegative_integer,
        **OneProbability.arg_constraints,
    }
    has_enumerate_support = True
    _kept = ("_given_probs",)

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (count,) = self._take(probs, logits, total_count)
        self.total_count = count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        arrangements = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
        return arrangements + value * logits + n * torch.nn.functional.logsigmoid(-logits)

    def entropy(self) -> Any:
        log_prob = self.log_prob(self.enumerate_support(expand=False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = _common(self)
        values = torch.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values


def _common(binomial: Binomial) -> int:
    """The one count that all of the batch share."""
    count = int(binomial.total_count.max())
    if binomial.total_count.min() != count:
        raise NotImplementedError(
            "Values are enumerated only where all of a batch have one total_count."
        )
    return count
