"""Leading singular vectors of large matrices, from products with a few random vectors."""

from __future__ import annotations

from typing import Any

from pullback.operators.linalg.checks import adjoint
from pullback.operators.linalg.decomposition import linalg_qr
from pullback.operators.linalg.products import matmul
from pullback.operators.linalg.spectral import linalg_svd
from pullback.operators.random.tensors import randn
from pullback.operators.reduce.sums import mean
from pullback.operators.shape.reshaping import broadcast_to, expand

FOUND_IN = {"torch": "pca_lowrank svd_lowrank"}


_MOST_ROUNDS = 2**31 - 1  # torch takes more, and never ends


def _range_of(A: Any, q: int, niter: int, M: Any) -> Any:
    """Orthonormal columns that nearly span the range of `A - M` (Halko et al. 2011, 4.4)."""
    Q = linalg_qr(_times(A, M, randn(A.shape[-1], q, dtype=A.dtype))).Q
    for _ in range(niter):
        Q = linalg_qr(_times(adjoint(A), None if M is None else adjoint(M), Q)).Q
        Q = linalg_qr(_times(A, M, Q)).Q
    return Q


def _times(A: Any, M: Any, X: Any) -> Any:
    product = matmul(A, X)
    return product if M is None else product - matmul(M, X)


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """About the first `q` singular values and vectors `(U, S, V)` of `A`, or of `A - M`.

    Random vectors come from the default generator; `niter` rounds of iteration sharpen the result.

    >>> import pullback as torch
    >>> U, S, V = torch.svd_lowrank(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), q=1)
    >>> S
    tensor([2.])
    """
    count, rounds = 6 if q is None else q, 2 if niter is None else niter
    if rounds > _MOST_ROUNDS:
        raise ValueError(f"svd_lowrank: niter must be {_MOST_ROUNDS} at most, got {niter}.")
    if M is not None and M.shape != A.shape:
        M = expand(M, A.shape)
    m, n = A.shape[-2:]
    if m < n:  # the range of the smaller side
        V, S, U = svd_lowrank(adjoint(A), count, rounds, None if M is None else adjoint(M))
        return U, S, V
    Q = _range_of(A, count, rounds, M)
    U, S, Vh = linalg_svd(_times(adjoint(Q), None, A if M is None else A - M), False)
    return matmul(Q, U), S, adjoint(Vh)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """Principal components `(U, S, V)` of the rows of `A`: its SVD with the mean row taken away.

    >>> import pullback as torch
    >>> U, S, V = torch.pca_lowrank(torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), q=1)
    >>> S
    tensor([2.])
    """
    m, n = A.shape[-2:]
    count = min(6, m, n) if q is None else q
    if not 0 <= count <= min(m, n):
        raise ValueError(
            f"pca_lowrank: q must be from 0 to {min(m, n)}, the smaller size of the matrix, got "
            f"{q}."
        )
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter must not be negative, got {niter}.")
    if center and A._layout is not None:  # which stays sparse
        return svd_lowrank(A, count, niter, broadcast_to(A.sum(-2).to_dense() / m, (m, n)))
    return svd_lowrank(A - mean(A, -2, keepdim=True) if center else A, count, niter)
