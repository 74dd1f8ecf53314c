"""Student's t distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.continuous.chi2 import Chi2
from pullback.distributions.distribution import Distribution
from pullback.distributions.package import torch
from pullback.distributions.utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """Normal numbers whose variance is uncertain, the more so the smaller `df`.

    >>> import pullback as torch
    >>> torch.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints: Any = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support: Any = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._chi2 = self._chi2.expand(batch_shape)

    @property
    def mean(self) -> Any:
        return torch.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        finite = self.df > 2
        df = torch.where(finite, self.df, 3.0)
        variance = self.scale.pow(2) * df / (df - 2)
        return torch.where(finite, variance, torch.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, self.df.dtype, self.df.device)
        chi2 = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * torch.rsqrt(chi2 / self.df))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        normalizer = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + torch.lgamma(0.5 * self.df)
            - torch.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * torch.log1p(distance**2.0 / self.df) - normalizer

    def entropy(self) -> Any:
        half = 0.5 * self.df
        log_beta = torch.lgamma(half) + math.lgamma(0.5) - torch.lgamma(half + 0.5)
        return (
            self.scale.log()
            + 0.5 * (self.df + 1) * (torch.digamma(half + 0.5) - torch.digamma(half))
            + 0.5 * self.df.log()
            + log_beta
        )
