"""The standard's extension of linear algebra: `xp.linalg`."""

from __future__ import annotations

from typing import Any, NamedTuple

import pullback as torch
from pullback import Tensor, dtype
from pullback.core.listing import only_public as _only_public

from ._dtypes import check_array, together
from ._manipulation import Axes
from ._products import matmul, matrix_transpose, tensordot, vecdot
from ._statistical import sum as _sum

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class EighResult(NamedTuple):
    """What `eigh` gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What `qr` gives."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """What `slogdet` gives."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """What `svd` gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """As `torch.linalg.cholesky`."""
    check_array("cholesky", x)
    return torch.linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """As `torch.linalg.cross`, of arrays with different numbers of axes as well."""
    x1, x2 = together("cross", x1, x2)
    most = max(x1.ndim, x2.ndim)
    if x1.ndim != x2.ndim and not -min(x1.ndim, x2.ndim) <= axis < 0:
        raise ValueError(
            f"cross: arrays of {x1.ndim} and {x2.ndim} axes need an axis that both have, counted "
            f"from the last, not {axis}."
        )
    x1, x2 = (x.reshape((1,) * (most - x.ndim) + tuple(x.shape)) for x in (x1, x2))
    return torch.linalg.cross(x1, x2, dim=axis)


def det(x: Tensor, /) -> Tensor:
    """As `torch.linalg.det`."""
    check_array("det", x)
    return torch.linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """As `torch.linalg.diagonal`: of the last two axes."""
    check_array("diagonal", x)
    return torch.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> EighResult:
    """As `torch.linalg.eigh`."""
    check_array("eigh", x)
    return EighResult(*torch.linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """As `torch.linalg.eigvalsh`."""
    check_array("eigvalsh", x)
    return torch.linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """As `torch.linalg.inv`."""
    check_array("inv", x)
    return torch.linalg.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """As `torch.linalg.matrix_norm`, of the last two axes."""
    check_array("matrix_norm", x)
    return torch.linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """As `torch.linalg.matrix_power`."""
    check_array("matrix_power", x)
    return torch.linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """As `torch.linalg.matrix_rank`."""
    check_array("matrix_rank", x)
    return torch.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """As `torch.outer`."""
    return torch.outer(*together("outer", x1, x2))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """As `torch.linalg.pinv`."""
    check_array("pinv", x)
    return torch.linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """As `torch.linalg.qr`, `mode` being "reduced" or "complete"."""
    check_array("qr", x)
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode must be 'reduced' or 'complete', got {mode!r}.")
    return QRResult(*torch.linalg.qr(x, mode=mode))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """As `torch.linalg.slogdet`."""
    check_array("slogdet", x)
    return SlogdetResult(*torch.linalg.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """As `torch.linalg.solve`; `x2` is a vector where it has one dimension, else it is matrices.

    >>> import pullback.array_api as xp
    >>> xp.linalg.solve(2 * xp.eye(2), xp.asarray([2.0, 4.0]))
    tensor([1., 2.])
    """
    x1, x2 = together("solve", x1, x2)
    if x2.ndim == 1:
        return torch.linalg.solve(x1, x2[:, None])[..., 0]
    # With as many axes as `x1` it is matrices, whatever its shape might mean otherwise.
    missing = x1.ndim - x2.ndim
    return torch.linalg.solve(x1, x2.reshape((1,) * missing + tuple(x2.shape)))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """As `torch.linalg.svd`."""
    check_array("svd", x)
    return SVDResult(*torch.linalg.svd(x, full_matrices=full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """As `torch.linalg.svdvals`."""
    check_array("svdvals", x)
    return torch.linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: dtype | None = None) -> Tensor:
    """The sum of a diagonal of the last two axes.

    >>> import pullback.array_api as xp
    >>> xp.linalg.trace(xp.ones((4, 3, 3)))
    tensor([3., 3., 3., 3.])
    """
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """As `torch.linalg.vector_norm`, of all elements or along axes."""
    check_array("vector_norm", x)
    return torch.linalg.vector_norm(x, ord, axis, keepdim=keepdims)


__dir__ = _only_public(globals())
