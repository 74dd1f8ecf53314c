"""Divergences of multivariate normal distributions, and of distributions made of others."""

from __future__ import annotations

from typing import Any

from pullback.distributions.exp_family import ExponentialFamily
from pullback.distributions.independent import Independent
from pullback.distributions.kl.registry import kl_divergence, register_kl
from pullback.distributions.multivariate.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_mahalanobis,
)
from pullback.distributions.multivariate.multivariate_normal import (
    MultivariateNormal,
    _batch_mahalanobis,
)
from pullback.distributions.package import torch
from pullback.distributions.transformed_distribution import TransformedDistribution
from pullback.distributions.utils import _sum_rightmost


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("Both must count the same number of dimensions to their events.")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    """The same bijections change both densities alike."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("The divergence is known where both have the same transforms.")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log-normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            f"No divergence of {type(p).__name__} from {type(q).__name__} is known; register_kl "
            "adds one."
        )
    params, normalizer, statistics = p._expected_statistics()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for own, other, statistic in zip(params, q._natural_params, statistics, strict=True):
        term = (other - own) * statistic
        # A family may have parameters of other shapes than its events (a Wishart's df).
        result = result - _sum_rightmost(term, term.dim() - result.dim())
    return result


# Normal vectors: log-determinants, a trace and a distance ----------------------------------------


def _log_det(d: Any) -> Any:
    """The logarithm of the determinant of the covariance."""
    return d._log_det() if isinstance(d, LowRankMultivariateNormal) else 2 * d._half_log_det()


def _distance(p: Any, q: Any) -> Any:
    """The squared distance of the means, as `q` measures."""
    difference = q.loc - p.loc
    if isinstance(q, LowRankMultivariateNormal):
        return _batch_lowrank_mahalanobis(
            q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, difference, q._capacitance_tril
        )
    return _batch_mahalanobis(q._unbroadcasted_scale_tril, difference)


def _parts(d: Any, batch: Any) -> list[Any]:
    """Matrices A whose products A A^T sum to the covariance."""
    n = d.event_shape[0]
    if isinstance(d, MultivariateNormal):
        return [d._unbroadcasted_scale_tril.expand((*batch, n, n))]
    factor = d._unbroadcasted_cov_factor
    root = torch.diag_embed(d._unbroadcasted_cov_diag.sqrt())
    return [factor.expand((*batch, *factor.shape[-2:])), root.expand((*batch, n, n))]


def _batch_trace_XXT(bmat: Any) -> Any:  # noqa: N802 (torch's name)
    """The traces of matrices times their transposes."""
    return bmat.pow(2).flatten(-2).sum(-1)


def _trace(p: Any, q: Any) -> Any:
    """The trace of q's precision times p's covariance."""
    n = p.event_shape[0]
    batch = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    total: Any = 0
    for part in _parts(p, batch):
        if isinstance(q, MultivariateNormal):
            scale = q._unbroadcasted_scale_tril.expand((*batch, n, n))
            total = total + _batch_trace_XXT(
                torch.linalg.solve_triangular(scale, part, upper=False)
            )
            continue
        # (W W^T + D)^-1 = D^-1 - (L^-1 W^T D^-1)^T (L^-1 W^T D^-1)
        diagonal = q._unbroadcasted_cov_diag.unsqueeze(-1)
        scaled = q._unbroadcasted_cov_factor.mT / diagonal.mT
        solved = torch.linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)
        total = total + _batch_trace_XXT(part * diagonal.rsqrt())
        total = total - _batch_trace_XXT(torch.matmul(solved, part))
    return total


def _normal_vectors(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"Events of shape {tuple(p.event_shape)} and {tuple(q.event_shape)} cannot be compared."
        )
    return 0.5 * (_log_det(q) - _log_det(p) + _trace(p, q) + _distance(p, q) - p.event_shape[0])


for _first in (MultivariateNormal, LowRankMultivariateNormal):
    for _second in (MultivariateNormal, LowRankMultivariateNormal):
        register_kl(_first, _second)(_normal_vectors)
