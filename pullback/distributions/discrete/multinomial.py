"""The multinomial distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.discrete.binomial import Binomial
from pullback.distributions.discrete.categorical import Categorical
from pullback.distributions.distribution import Distribution
from pullback.distributions.package import torch
from pullback.distributions.utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """The multinomial distribution: how often each category is drawn in `total_count` draws.

    >>> import pullback as torch
    >>> torch.distributions.Multinomial(8, torch.tensor([1.0, 3.0])).mean
    tensor([2., 6.])
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _kept = ("total_count",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count is one int for the whole batch.")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._categorical = self._categorical.expand(batch_shape)
        new._binomial = self._binomial.expand((*batch_shape, *self._event_shape))

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = Size()) -> Any:
        drawn = self._categorical.sample(Size((self.total_count, *sample_shape)))
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        counts = counts.scatter_add(-1, drawn.movedim(0, -1), torch.ones_like(drawn.movedim(0, -1)))
        return counts.type_as(self.probs)

    def entropy(self) -> Any:
        n = self.total_count
        by_category = self._categorical.entropy()
        # The expected logarithm of the number of arrangements, category by category.
        support = self._binomial.enumerate_support(expand=False)[1:]
        probabilities = torch.exp(self._binomial.log_prob(support))
        weight = (probabilities * torch.lgamma(support + 1)).sum((0, -1))
        return n * by_category + weight - math.lgamma(n + 1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        arrangements = torch.lgamma(value.sum(-1) + 1) - torch.lgamma(value + 1).sum(-1)
        never = (value == 0) & (logits == -torch.inf)  # 0 * -inf is NaN
        logits = torch.where(never, torch.zeros_like(logits), logits)
        return arrangements + (logits * value).sum(-1)
