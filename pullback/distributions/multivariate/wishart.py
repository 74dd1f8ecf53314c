"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

from pullback.core.size import Size
from pullback.distributions import constraints
from pullback.distributions.continuous.chi2 import Chi2
from pullback.distributions.exp_family import ExponentialFamily
from pullback.distributions.multivariate.multivariate_normal import (
    _precision_to_scale_tril,
    one_matrix,
)
from pullback.distributions.package import torch
from pullback.distributions.utils import all_true, lazy_property

__all__ = ["Wishart"]


class Wishart(ExponentialFamily):
    """Sums of `df` outer products of normal vectors of a covariance (or its inverse, or factor).

    >>> import pullback as torch
    >>> torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support: Any = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _kept = ("_unbroadcasted_scale_tril", "_batch_dims")

    @property
    def arg_constraints(self) -> Any:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = (covariance_matrix, precision_matrix, scale_tril)
        if sum(matrix is not None for matrix in given) != 1:
            raise AssertionError(
                "Wishart takes one of covariance_matrix, precision_matrix, scale_tril."
            )
        name, matrix = one_matrix(
            self,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        df = torch.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
        event_shape = Size(matrix.shape[-2:])
        self.df = df.expand(batch_shape)
        if not all_true(self.df > event_shape[-1] - 1):
            raise ValueError(
                f"Wishart: df must be more than {event_shape[-1] - 1} for matrices of "
                f"{event_shape[-1]} rows, but is\n{df}"
            )
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self._batch_dims = [-(x + 1) for x in range(len(batch_shape))]
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if all_true(self.df > event_shape[-1] - 1) and not all_true(self.df >= event_shape[-1]):
            warnings.warn(
                "Wishart: draws with df below the number of rows may be singular by rounding.",
                stacklevel=2,
            )
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)
        self._dist_chi2 = Chi2(self._row_df(), validate_args=False)

    def _row_df(self) -> Any:
        """The degrees of freedom of each diagonal element of a draw's factor."""
        n = self._event_shape[-1]
        return self.df.unsqueeze(-1) - torch.arange(n, dtype=self.df.dtype, device=self.df.device)

    def _expand_parts(self, new: Any, batch_shape: Any) -> None:
        new._dist_chi2 = self._dist_chi2.expand((*batch_shape, self._event_shape[-1]))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance of the normal vectors."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        inverse = torch.cholesky_inverse(self._unbroadcasted_scale_tril)
        return inverse.expand(self._batch_shape + self._event_shape)

    @property
    def mean(self) -> Any:
        return self._matrix_df() * self.covariance_matrix

    @property
    def mode(self) -> Any:
        factor = self._matrix_df() - self._event_shape[-1] - 1
        return torch.where(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._matrix_df() * (covariance.pow(2) + outer)

    def _matrix_df(self) -> Any:
        return self.df.reshape((*self._batch_shape, 1, 1))

    def _bartlett_sampling(self, sample_shape: Any = Size()) -> Any:
        """Draws by their factors: chi on the diagonal, normal numbers below (Bartlett, 1933)."""
        n = self._event_shape[-1]
        chi = (
            self._dist_chi2.rsample(sample_shape).clamp(min=torch.finfo(self.df.dtype).tiny).sqrt()
        )
        below = torch.randn(
            (*sample_shape, *self._batch_shape, n * (n - 1) // 2),
            dtype=self.df.dtype,
            device=self.df.device,
        )
        noise = torch.diag_embed(chi) + _strictly_lower(below, n)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = Size(), max_try_correction: int | None = None) -> Any:
        """Draws with gradient; singular ones are drawn again, so many times at most."""
        if max_try_correction is None:
            max_try_correction = 3 if self._event_shape[-1] == 2 else 10
        sample_shape = Size(sample_shape)
        drawn = self._bartlett_sampling(sample_shape)
        singular = ~self.support.check(drawn)
        if all_true(~singular):
            return drawn
        warnings.warn("Wishart: a draw was singular.", stacklevel=2)
        for _ in range(max_try_correction):
            again = self._bartlett_sampling(sample_shape)
            drawn = torch.where(singular[..., None, None], again, drawn)
            singular = ~self.support.check(drawn)
            if all_true(~singular):
                break
        return drawn

    def _terms(self) -> tuple[int, Any]:
        """The number of rows, and the logarithm of the determinant of the covariance."""
        diagonal = self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1)
        return self._event_shape[-1], 2 * diagonal.log().sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n, log_det = self._terms()
        half = self.df / 2
        solved = torch.cholesky_solve(value, self._unbroadcasted_scale_tril)
        return (
            -torch.mvlgamma(half, n)
            - half * (n * math.log(2.0) + log_det)
            + (self.df - n - 1) / 2 * torch.linalg.slogdet(value).logabsdet
            - 0.5 * solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        )

    def entropy(self) -> Any:
        n, log_det = self._terms()
        return (
            (n + 1) / 2 * (n * math.log(2.0) + log_det)
            + torch.mvlgamma(self.df / 2, n)
            - (self.df - n - 1) / 2 * _mvdigamma(self.df / 2, n)
            + self.df * n / 2
        )

    @property
    def _natural_params(self) -> Any:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * -torch.linalg.slogdet(-2 * x).logabsdet + (
            math.log(2.0) * half * n + torch.mvlgamma(half, n)
        )


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of mvlgamma."""
    steps = torch.arange(p, dtype=x.dtype, device=x.device)
    return torch.digamma(x.unsqueeze(-1) - steps / 2).sum(-1)


def _strictly_lower(below: Any, n: int) -> Any:
    """Matrices from what stands below their diagonal."""
    if n == 1:
        return below.new_zeros((*below.shape[:-1], 1, 1))
    rows, columns = torch.tril_indices(n, n, -1)
    matrix = below.new_zeros((*below.shape[:-1], n, n))
    matrix[..., rows, columns] = below
    return matrix
