"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.distribution import Distribution as Distribution  # also from here
from pullback.distributions.located import Located
from pullback.distributions.package import torch
from pullback.distributions.utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    """Matrices times vectors, both of any batch."""
    return torch.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:
    """x^T (L L^T)^-1 x, where both have any batch; that of `bL` is the shorter."""
    n = bx.shape[-1]
    batch = bL.shape[:-2]
    if bx.dim() - 1 <= len(batch):
        solved = torch.linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False)
        return solved.squeeze(-1).pow(2).sum(-1)
    # All vectors that share a matrix are columns of one right-hand side: batches of x are split
    # into those of L and what repeats them, and these are moved to the end.
    outer = bx.dim() - 1 - len(batch)
    split = list(bx.shape[:outer])
    for ours, theirs in zip(batch, bx.shape[outer:-1], strict=True):
        split += [theirs // ours, ours]
    repeats = [*range(outer), *range(outer, len(split), 2)]
    own = list(range(outer + 1, len(split), 2))
    moved = bx.reshape((*split, n)).permute((*own, len(split), *repeats))
    kept = moved.shape[len(own) + 1 :]
    columns = moved.reshape((*batch, n, math.prod(kept)))
    lengths = torch.linalg.solve_triangular(bL, columns, upper=False).pow(2).sum(-2)
    result = lengths.reshape((*batch, *kept))
    order = [0] * len(split)
    for place, dim in enumerate((*own, *repeats)):
        order[dim] = place
    return result.permute(order).reshape(bx.shape[:-1])


def _precision_to_scale_tril(P: Any) -> Any:
    """The Cholesky factor of the inverse of P, without that inverse."""
    # Reversed in both directions a Cholesky factor is upper: P = U U^T. The wanted one is U^-T.
    flipped = torch.linalg.cholesky(torch.flip(P, (-2, -1)))
    inverse_transposed = torch.flip(flipped, (-2, -1)).mT
    identity = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return torch.linalg.solve_triangular(inverse_transposed, identity, upper=False)


class MultivariateNormal(Located):
    """Normal vectors of mean `loc`, given a covariance, its inverse, or its Cholesky factor.

    `scale_tril` is the quickest: the others are factorised first.

    >>> import pullback as torch
    >>> d = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    >>> d.log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints: Any = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc is a vector at least, not one number.")
        name, matrix = one_matrix(
            self,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    _kept = ("_unbroadcasted_scale_tril",)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        n = self._event_shape[0]
        return self._unbroadcasted_scale_tril.expand((*self._batch_shape, n, n))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor, n = self._unbroadcasted_scale_tril, self._event_shape[0]
        return torch.matmul(factor, factor.mT).expand((*self._batch_shape, n, n))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        n = self._event_shape[0]
        inverse = torch.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand((*self._batch_shape, n, n))

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = Size()) -> Any:
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, normal)

    def _half_log_det(self) -> Any:
        diagonal = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1)
        return diagonal.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - self._half_log_det()

    def entropy(self) -> Any:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = constant + self._half_log_det()
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)


def one_matrix(family: Any, **given: Any) -> tuple[str, Any]:
    """The one matrix of three that was given, and its name; errors for others."""
    named = [(name, matrix) for name, matrix in given.items() if matrix is not None]
    if len(named) != 1:
        raise ValueError(f"{type(family).__name__} takes one of {', '.join(given)}.")
    name, matrix = named[0]
    if matrix.dim() < 2:
        raise ValueError(
            f"{type(family).__name__}: {name} is a matrix at least, but has {matrix.dim()} "
            "dimensions."
        )
    return name, matrix
