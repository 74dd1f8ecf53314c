"""What relaxed distributions share that are transformed ones."""

from __future__ import annotations

from typing import Any

from pullback.distributions.transformed_distribution import TransformedDistribution

__all__ = ["Relaxed"]


class Relaxed(TransformedDistribution):
    """A discrete distribution made continuous, so that gradients flow through its draws."""

    has_rsample: Any = True

    @property
    def temperature(self) -> Any:
        """How far from the ends, or corners, draws stay."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """The log-odds, or the logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """The probabilities."""
        return self.base_dist.probs
