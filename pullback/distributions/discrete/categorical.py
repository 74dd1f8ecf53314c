"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.distribution import Distribution
from pullback.distributions.odds import check_one_given
from pullback.distributions.package import torch
from pullback.distributions.utils import finfo_of, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical"]


class Categorical(Distribution):
    """The categorical distribution: class indices, with probabilities `probs` (last dimension).

    Probabilities need not sum to 1, and logits need not be logarithms of such: both are normalised.

    >>> import pullback as torch
    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _kept = ("_given_probs", "_num_events")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        check_one_given(self, probs, logits)
        given = probs if probs is not None else logits
        self._given_probs = probs is not None
        if given.dim() < 1:
            raise ValueError("Categorical: probabilities are a vector at least, not one number.")
        if self._given_probs:
            self.probs = given / given.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Any:
        return vars(self)["probs" if self._given_probs else "logits"]

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.size()

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    @property
    def mode(self) -> Any:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self.probs.dtype)

    def sample(self, sample_shape: Any = Size()) -> Any:
        shape = Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        with torch.no_grad():
            drawn = torch.multinomial(rows, shape.numel(), True).T
            return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        index, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = torch.clamp(self.logits, min=finfo_of(self.logits).min)  # 0 * -inf is NaN
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
