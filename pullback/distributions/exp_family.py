"""Exponential families: densities exp(<t(x), params> - log_normalizer(params) + carrier(x))."""

from __future__ import annotations

from typing import Any

from pullback.distributions.distribution import Distribution
from pullback.distributions.package import torch

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A family that knows its natural parameters; entropy and divergence follow by derivatives.

    A subclass defines `_natural_params`, a tuple of tensors, `_log_normalizer` of these, and
    `_mean_carrier_measure`.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> class Coin(d.Bernoulli):
    ...     entropy = d.ExponentialFamily.entropy
    >>> p = torch.tensor(0.25)
    >>> torch.allclose(Coin(p).entropy(), d.Bernoulli(p).entropy())
    True
    """

    @property
    def _natural_params(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no natural parameters.")

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no log-normalizer.")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no mean carrier measure.")

    def _expected_statistics(self) -> tuple[Any, Any, Any]:
        """Natural parameters, log-normalizer, and its gradient, the expected statistics."""
        with torch.enable_grad():
            params = [param.detach().requires_grad_() for param in self._natural_params]
            normalizer = self._log_normalizer(*params)
            return (
                params,
                normalizer,
                torch.autograd.grad(normalizer.sum(), params, create_graph=True),
            )

    def entropy(self) -> Any:
        params, normalizer, statistics = self._expected_statistics()
        result = -self._mean_carrier_measure + normalizer
        for param, statistic in zip(params, statistics, strict=True):
            result = result - (param * statistic).reshape((*self._batch_shape, -1)).sum(-1)
        return result
