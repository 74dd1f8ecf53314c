"""The distribution of transformed draws."""

from __future__ import annotations

from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.distribution import Distribution
from pullback.distributions.independent import Independent
from pullback.distributions.package import torch
from pullback.distributions.transforms import ComposeTransform, Transform
from pullback.distributions.utils import _sum_rightmost

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """What comes out of `transforms`, one after another, of draws of `base_distribution`.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> base = d.Normal(0.0, 1.0)
    >>> log_normal = d.TransformedDistribution(base, [d.ExpTransform()])
    >>> log_normal.log_prob(torch.tensor(1.0)) == d.LogNormal(0.0, 1.0).log_prob(torch.tensor(1.0))
    tensor(True)
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = _as_list(transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event_dim = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"The transforms take events of {whole.domain.event_dim} dimensions, but draws of "
                f"the base have shape {tuple(shape)}."
            )
        # Parameters of transforms may be larger than the base's batch.
        result = whole.forward_shape(shape)
        expanded = whole.inverse_shape(result)
        if expanded != shape:
            batch = expanded[: len(expanded) - event_dim]
            base_distribution = base_distribution.expand(Size(batch))
        missing = whole.domain.event_dim - event_dim
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist = base_distribution
        grown = whole.codomain.event_dim - whole.domain.event_dim
        event_dim = max(whole.codomain.event_dim, event_dim + grown)
        start = len(result) - event_dim
        super().__init__(Size(result[:start]), Size(result[start:]), validate_args=validate_args)

    _kept = ("transforms",)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        shape = ComposeTransform(self.transforms).inverse_shape(batch_shape + self._event_shape)
        start = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(Size(shape[:start]))

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self._event_shape) - support.event_dim
        return constraints.independent(support, missing) if missing > 0 else support

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = Size()) -> Any:
        with torch.no_grad():
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = Size()) -> Any:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _transformed(self, x: Any) -> Any:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self._event_shape)
        growth: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            here = transform.log_abs_det_jacobian(x, y)
            growth = growth - _sum_rightmost(here, event_dim - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return growth + _sum_rightmost(base, event_dim - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Any) -> Any:
        """The probability of smaller values, where falling transforms have turned it around."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Any:
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Any:
        return self._transformed(self.base_dist.icdf(self._monotonize_cdf(value)))


def _as_list(transforms: Any) -> list[Any]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list) or not all(isinstance(t, Transform) for t in transforms):
        raise ValueError(f"A transform or a list of transforms is wanted, got {transforms!r}.")
    return transforms
