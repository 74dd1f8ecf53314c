"""Transforms to simplices and to matrices with a structure."""

from __future__ import annotations

from typing import Any

from pullback.distributions import constraints
from pullback.distributions.package import torch
from pullback.distributions.transforms.base import Transform
from pullback.distributions.utils import (
    finfo_of,
    sigmoid_inside,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

__all__ = [
    *("CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform"),
    *("SoftmaxTransform", "StickBreakingTransform"),
]


class _Parameterless(Transform):
    """Any two of a class are equal."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class _OfVectors(_Parameterless):
    """Needs a last dimension, which it may lengthen by `_longer`."""

    _longer = 0

    def forward_shape(self, shape: Any) -> Any:
        return self._changed(shape, self._longer)

    def inverse_shape(self, shape: Any) -> Any:
        return self._changed(shape, -self._longer)

    def _changed(self, shape: Any, by: int) -> Any:
        if len(shape) < 1:
            raise ValueError(f"{type(self).__name__} takes vectors, but the shape is ().")
        return (*shape[:-1], shape[-1] + by) if by else shape


class SoftmaxTransform(_OfVectors):
    """Shares proportional to exp(x): simple, but many x give the same shares.

    >>> import pullback as torch
    >>> torch.distributions.SoftmaxTransform()(torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Any) -> Any:
        return y.log()


class StickBreakingTransform(_OfVectors):
    """A bijection of vectors to shares, one more of them: each x breaks off a part of what is left.

    >>> import pullback as torch
    >>> torch.distributions.StickBreakingTransform()(torch.zeros(1))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True
    _longer = 1

    @staticmethod
    def _log_left(x: Any) -> Any:
        """Logarithms of how many pieces are left: x = 0 breaks off an equal share."""
        count = x.shape[-1]
        return torch.arange(count, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Any) -> Any:
        broken = sigmoid_inside(x - self._log_left(x))
        left = (1 - broken).cumprod(-1)
        return torch.nn.functional.pad(broken, [0, 1], value=1) * torch.nn.functional.pad(
            left, [1, 0], value=1
        )

    def _inverse(self, y: Any) -> Any:
        shares = y[..., :-1]
        left = 1 - shares.cumsum(-1)
        left = torch.clamp(left, min=finfo_of(y).tiny)  # the sum may round to more than 1
        return shares.log() - left.log() + self._log_left(shares)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shifted = x - self._log_left(x)
        return (torch.nn.functional.logsigmoid(shifted) - shifted + y[..., :-1].log()).sum(-1)


class CorrCholeskyTransform(Transform):
    """Vectors of n(n-1)/2 numbers to Cholesky factors of n x n correlation matrices.

    Row by row, tanh(x) are partial correlations: each takes its part of what the row's unit length
    has left.

    >>> import pullback as torch
    >>> torch.distributions.CorrCholeskyTransform()(torch.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        eps = finfo_of(x).eps
        partial = vec_to_tril_matrix(torch.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial**2).sqrt().cumprod(-1)
        identity = torch.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + identity) * torch.nn.functional.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Any) -> Any:
        left = torch.nn.functional.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return torch.atanh(partial)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # d y_ij / d x_ij = (1 - tanh(x_ij)**2) * sqrt(what the row has left before j)
        left = 1 - (y * y).cumsum(-1)
        from_left = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        from_tanh = -2 * (x + torch.nn.functional.softplus(-2 * x) - _LOG_2).sum(-1)
        return from_left + from_tanh

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("CorrCholeskyTransform takes vectors, but the shape is ().")
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError(f"{count} numbers do not fill the triangle below a diagonal.")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError(f"The inverse takes square matrices, but the shape is {tuple(shape)}.")
        n = shape[-1]
        return (*shape[:-2], n * (n - 1) // 2)


_LOG_2 = 0.6931471805599453


class LowerCholeskyTransform(_Parameterless):
    """Matrices to lower triangular ones with a positive diagonal, the exponential of the given.

    >>> import pullback as torch
    >>> torch.distributions.LowerCholeskyTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Parameterless):
    """Matrices to positive definite ones, by way of their Cholesky factors.

    >>> import pullback as torch
    >>> torch.distributions.PositiveDefiniteTransform()(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(torch.linalg.cholesky(y))
