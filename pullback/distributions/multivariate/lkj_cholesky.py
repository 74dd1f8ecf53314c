"""The distribution of correlation matrices of Lewandowski, Kurowicka and Joe."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.continuous.beta import Beta
from pullback.distributions.distribution import Distribution
from pullback.distributions.package import torch
from pullback.distributions.utils import broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices M, with density proportional to det(M)**(c - 1).

    With concentration c = 1 all correlation matrices are alike; above, those near the identity are
    likelier.

    >>> import pullback as torch
    >>> torch.distributions.LKJCholesky(3, 0.5).sample().shape
    torch.Size([3, 3])
    """

    arg_constraints: Any = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky
    _kept = ("dim",)

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"LKJCholesky: correlations need at least 2 dimensions, got dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        # The onion method: row i + 1 has a length below 1 before its diagonal whose square is a
        # beta number, and a direction that is uniform.
        marginal = self.concentration + 0.5 * (dim - 2)
        steps = torch.arange(dim - 1, dtype=marginal.dtype, device=marginal.device)
        steps = torch.cat([steps.new_zeros((1,)), steps])
        self._beta = Beta(steps + 0.5, marginal.unsqueeze(-1) - 0.5 * steps)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._beta = self._beta.expand((*batch_shape, self.dim))

    def sample(self, sample_shape: Any = Size()) -> Any:
        with torch.no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            direction = torch.randn(shape, dtype=square.dtype, device=square.device).tril(-1)
            direction = direction / direction.norm(dim=-1, keepdim=True)
            direction = torch.cat(
                [torch.zeros_like(direction[..., :1, :]), direction[..., 1:, :]], -2
            )  # the first row is its diagonal alone
            below = torch.sqrt(square) * direction
            eps = torch.finfo(below.dtype).tiny
            diagonal = torch.clamp(1 - torch.sum(below**2, -1), min=eps).sqrt()
            return below + torch.diag_embed(diagonal)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.dim
        order = torch.arange(2, n + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + n - order
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        density = torch.sum(order * diagonal.log(), -1)
        # The normalising constant, page 1999 of the paper.
        alpha = self.concentration + 0.5 * (n - 1)
        denominator = torch.lgamma(alpha) * (n - 1)
        numerator = torch.mvlgamma(alpha - 0.5, n - 1)
        return density - (0.5 * (n - 1) * math.log(math.pi) + numerator - denominator)
