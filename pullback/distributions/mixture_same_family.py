"""Mixtures whose components are one batch of a family."""

from __future__ import annotations

from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.discrete.categorical import Categorical
from pullback.distributions.distribution import Distribution
from pullback.distributions.package import torch

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """Draws a component by `mixture_distribution`, then from it: the last batch dimension.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> weights = d.Categorical(torch.tensor([0.25, 0.75]))
    >>> d.MixtureSameFamily(weights, d.Normal(torch.tensor([0.0, 4.0]), 1.0)).mean
    tensor(3.)
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        _check_parts(mixture_distribution, component_distribution)
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = mixture_distribution.logits.shape[-1]
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        batch_shape = component_distribution.batch_shape[:-1]
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    _kept = ("_num_component", "_event_ndims")

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        count = self._num_component
        new._component_distribution = self._component_distribution.expand((*batch_shape, count))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """Which component is drawn."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components, along the last batch dimension."""
        return self._component_distribution

    @property
    def mean(self) -> Any:
        probs = self._beside_components(self.mixture_distribution.probs)
        return torch.sum(probs * self.component_distribution.mean, -1 - self._event_ndims)

    @property
    def variance(self) -> Any:
        probs = self._beside_components(self.mixture_distribution.probs)
        dim = -1 - self._event_ndims
        within = torch.sum(probs * self.component_distribution.variance, dim)
        distance = self.component_distribution.mean - self._pad(self.mean)
        return within + torch.sum(probs * distance.pow(2.0), dim)

    def cdf(self, x: Any) -> Any:
        cdfs = self.component_distribution.cdf(self._pad(x))
        return torch.sum(cdfs * self.mixture_distribution.probs, -1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        components = self.component_distribution.log_prob(self._pad(x))
        weights = torch.log_softmax(self.mixture_distribution.logits, -1)
        return torch.logsumexp(components + weights, -1)

    def sample(self, sample_shape: Any = Size()) -> Any:
        with torch.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            index = chosen.reshape((*chosen.shape, *(1,) * (self._event_ndims + 1)))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return torch.gather(drawn, dim, index).squeeze(dim)

    def _pad(self, x: Any) -> Any:
        """With a dimension for the components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def _beside_components(self, weights: Any) -> Any:
        """Weights with as many dimensions as the components' draws."""
        return weights.reshape((*weights.shape, *(1,) * self._event_ndims))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(\n  {self.mixture_distribution},\n"
            f"  {self.component_distribution})"
        )


def _check_parts(mixture: Any, component: Any) -> None:
    if not isinstance(mixture, Categorical):
        raise ValueError(f"The mixture must be a Categorical, got {type(mixture).__name__}.")
    if not isinstance(component, Distribution):
        raise ValueError(f"The component must be a distribution, got {type(component).__name__}.")
    weights, parts = mixture.batch_shape, component.batch_shape[:-1]
    for ours, theirs in zip(reversed(weights), reversed(parts), strict=False):
        if 1 not in (ours, theirs) and ours != theirs:
            raise ValueError(
                f"Batches of {tuple(weights)} mixtures and {tuple(parts)} components do not fit."
            )
    count = mixture.logits.shape[-1]
    if component.batch_shape[-1] != count:
        raise ValueError(
            f"The mixture has {count} weights for {component.batch_shape[-1]} components."
        )
