"""The geometric distribution."""

from __future__ import annotations

from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.distribution import Distribution
from pullback.distributions.odds import OneProbability
from pullback.distributions.package import torch
from pullback.distributions.utils import all_true, broadcast_all, finfo_of

__all__ = ["Geometric"]


class Geometric(OneProbability, Distribution):
    """The geometric distribution: how many trials fail before the first success.

    >>> import pullback as torch
    >>> torch.distributions.Geometric(torch.tensor(0.25)).mean
    tensor(3.)
    """

    support: Any = constraints.nonnegative_integer
    _kept = ("_given_probs",)

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None and not all_true(self.probs > 0):
            raise ValueError(f"{self!r}: a success must be possible, but probs is\n{self.probs}")

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            u = self.probs.new_empty(shape).uniform_(finfo_of(self.probs).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        certain = (probs == 1) & (value == 0)  # 0 * log(0) is NaN
        failing = torch.where(certain, torch.zeros_like(probs), probs)
        return value * (-failing).log1p() + self.probs.log()

    def entropy(self) -> Any:
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(
            self.logits, self.probs, reduction="none"
        )
        return entropy / self.probs
