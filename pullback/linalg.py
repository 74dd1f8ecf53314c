"""`pullback.linalg`: linear algebra under torch's names, one explicit list.

They are written in the operator families; nothing lives here but their names.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.linalg.checks import LinAlgError
from pullback.operators.linalg.decomposition import cholesky_ex, householder_product
from pullback.operators.linalg.decomposition import linalg_cholesky as cholesky
from pullback.operators.linalg.decomposition import linalg_qr as qr
from pullback.operators.linalg.determinants import linalg_det as det
from pullback.operators.linalg.determinants import linalg_slogdet as slogdet
from pullback.operators.linalg.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from pullback.operators.linalg.least_squares import lstsq, pinv
from pullback.operators.linalg.lu import linalg_lu as lu
from pullback.operators.linalg.lu import linalg_lu_solve as lu_solve
from pullback.operators.linalg.lu import lu_factor, lu_factor_ex
from pullback.operators.linalg.matrices import linalg_cross as cross
from pullback.operators.linalg.matrices import multi_dot, vecdot
from pullback.operators.linalg.matrix_functions import (
    cond,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    vander,
)
from pullback.operators.linalg.matrix_functions import linalg_norm as norm
from pullback.operators.linalg.products import matmul
from pullback.operators.linalg.solve import inv, inv_ex, solve, solve_ex, tensorinv, tensorsolve
from pullback.operators.linalg.spectral import eig, eigh, eigvals, eigvalsh, svdvals
from pullback.operators.linalg.spectral import linalg_svd as svd
from pullback.operators.linalg.triangular import solve_triangular
from pullback.operators.reduce.norms import vector_norm
from pullback.operators.shape.views import diagonal as _diagonal
from pullback.operators.watching import asking as _asking


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """As `torch.diagonal`, of the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.linalg.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _diagonal(A, offset, dim1, dim2)


__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

_asking.public(globals(), __all__)
