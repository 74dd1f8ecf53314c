"""Multivariate normal distributions whose covariance is a diagonal and a matrix of low rank."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.located import Located
from pullback.distributions.multivariate.multivariate_normal import _batch_mahalanobis, _batch_mv
from pullback.distributions.package import torch
from pullback.distributions.utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W: Any, D: Any) -> Any:
    """The Cholesky factor of I + W^T D^-1 W, as small as the rank."""
    rank = W.size(-1)
    scaled = W.mT / D.unsqueeze(-2)
    identity = torch.eye(rank, dtype=W.dtype, device=W.device)
    return torch.linalg.cholesky(torch.matmul(scaled, W) + identity)


def _batch_lowrank_logdet(W: Any, D: Any, capacitance_tril: Any) -> Any:
    """Log det(W W^T + D), by the matrix determinant lemma."""
    diagonal = capacitance_tril.diagonal(dim1=-2, dim2=-1)
    return 2 * diagonal.log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Any, D: Any, x: Any, capacitance_tril: Any) -> Any:
    """x^T (W W^T + D)^-1 x, by the Woodbury identity."""
    scaled = W.mT / D.unsqueeze(-2)
    whole = (x.pow(2) / D).sum(-1)
    return whole - _batch_mahalanobis(capacitance_tril, _batch_mv(scaled, x))


class LowRankMultivariateNormal(Located):
    """Normal vectors of covariance `cov_factor @ cov_factor.T + diag(cov_diag)`.

    Costs grow with the size of a vector times the square of the rank, not with the cube of the
    size.

    >>> import pullback as torch
    >>> W, D = torch.ones(2, 1), torch.ones(2)
    >>> torch.distributions.LowRankMultivariateNormal(torch.zeros(2), W, D).covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    has_rsample = True
    _kept = ("_capacitance_tril", "_unbroadcasted_cov_diag", "_unbroadcasted_cov_factor")

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        _check_shapes(loc, cov_factor, cov_diag)
        batch_shape = torch.broadcast_shapes(
            loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
        )
        self.loc = loc.expand((*batch_shape, *loc.shape[-1:]))
        self.cov_factor = cov_factor.expand((*batch_shape, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch_shape, *cov_diag.shape[-1:]))
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, loc.shape[-1:], validate_args=validate_args)

    @lazy_property
    def variance(self) -> Any:
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return squares.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        # D^1/2 (I + D^-1/2 W W^T D^-1/2) D^1/2 is well conditioned inside.
        n = self._event_shape[0]
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = torch.matmul(scaled, scaled.mT) + torch.eye(n, dtype=root.dtype, device=root.device)
        factor = root * torch.linalg.cholesky(inner)
        return factor.expand((*self._batch_shape, n, n))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        n, factor = self._event_shape[0], self._unbroadcasted_cov_factor
        covariance = torch.matmul(factor, factor.mT) + torch.diag_embed(
            self._unbroadcasted_cov_diag
        )
        return covariance.expand((*self._batch_shape, n, n))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance, by the Woodbury identity."""
        n, diagonal = self._event_shape[0], self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        solved = torch.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        precision = torch.diag_embed(diagonal.reciprocal()) - solved.mT @ solved
        return precision.expand((*self._batch_shape, n, n))

    def rsample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        dtype, device = self.loc.dtype, self.loc.device
        ranks = (*shape[:-1], self.cov_factor.shape[-1])
        common = _standard_normal(ranks, dtype, device)
        own = _standard_normal(shape, dtype, device)
        return (
            self.loc
            + _batch_mv(self._unbroadcasted_cov_factor, common)
            + self._unbroadcasted_cov_diag.sqrt() * own
        )

    def _log_det(self) -> Any:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + distance)

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = 0.5 * (constant + self._log_det())
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)


def _check_shapes(loc: Any, cov_factor: Any, cov_diag: Any) -> None:
    if loc.dim() < 1:
        raise ValueError("LowRankMultivariateNormal: loc is a vector at least, not one number.")
    n = loc.shape[-1]
    if cov_factor.dim() < 2 or cov_factor.shape[-2] != n:
        raise ValueError(
            f"LowRankMultivariateNormal: cov_factor is a matrix of {n} rows, as loc is long, but "
            f"has shape {tuple(cov_factor.shape)}."
        )
    if cov_diag.dim() < 1 or cov_diag.shape[-1] != n:
        raise ValueError(
            f"LowRankMultivariateNormal: cov_diag is a vector of {n}, as loc is long, but has "
            f"shape {tuple(cov_diag.shape)}."
        )
