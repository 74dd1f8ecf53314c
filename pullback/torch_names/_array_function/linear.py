"""Products, decompositions and solutions of linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as torch
from pullback import Tensor, array_api

from ._table import answers, as_tensor, kind_of


def _met(*given: Any) -> list[Tensor]:
    """Operands as tensors of one dtype."""
    parts = [as_tensor(one) for one in given]
    wanted = array_api.result_type(*parts)
    return [one.to(wanted) for one in parts]


@answers(np.dot)
def _dot(a: Any, b: Any) -> Tensor:
    x, y = _met(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if y.ndim <= 2:
        return torch.matmul(x, y)
    return torch.tensordot(x, y, dims=([-1], [-2]))


@answers(np.vdot)
def _vdot(a: Any, b: Any) -> Tensor:
    x, y = _met(a, b)
    return torch.vdot(x.reshape(-1), y.reshape(-1))


@answers(np.inner)
def _inner(a: Any, b: Any) -> Tensor:
    return torch.inner(*_met(a, b))


@answers(np.outer, np.linalg.outer)
def _outer(a: Any, b: Any, /) -> Tensor:
    x, y = _met(a, b)
    return torch.outer(x.reshape(-1), y.reshape(-1))


@answers(np.linalg.matmul)
def _matmul(x1: Any, x2: Any, /) -> Tensor:
    return torch.matmul(*_met(x1, x2))


@answers(np.tensordot)
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    x, y = _met(a, b)
    if not isinstance(axes, int):
        axes = [[one] if isinstance(one, int) else list(one) for one in axes]
    return torch.tensordot(x, y, dims=axes)


@answers(np.linalg.tensordot)
def _tensordot_by_name(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    return _tensordot(x1, x2, axes)


@answers(np.linalg.vecdot)
def _vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    return array_api.vecdot(*_met(x1, x2), axis=axis)


@answers(np.kron)
def _kron(a: Any, b: Any) -> Tensor:
    return torch.kron(*_met(a, b))


@answers(np.cross)
def _cross(a: Any, b: Any, *, axis: int = -1) -> Tensor:
    return torch.linalg.cross(*_met(a, b), dim=axis)


@answers(np.linalg.cross)
def _cross_by_name(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    return _cross(x1, x2, axis=axis)


@answers(np.einsum)
def _einsum(*operands: Any, optimize: Any = False) -> Tensor:
    subscripts, *rest = operands
    if not isinstance(subscripts, str):
        raise TypeError("numpy.einsum of tensors takes its subscripts as a string: 'ij,jk->ik'.")
    return torch.einsum(subscripts, *_met(*rest))


@answers(np.trace)
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    diagonal = torch.diagonal(as_tensor(a), offset, axis1, axis2)
    return array_api.sum(diagonal, axis=-1, dtype=kind_of(dtype))


@answers(np.linalg.trace)
def _trace_of_matrices(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    return array_api.linalg.trace(as_tensor(x), offset=offset, dtype=kind_of(dtype))


@answers(np.linalg.solve)
def _solve(a: Any, b: Any) -> Tensor:
    return array_api.linalg.solve(*_met(a, b))


@answers(np.linalg.inv)
def _inv(a: Any) -> Tensor:
    return torch.linalg.inv(as_tensor(a))


@answers(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, *, rtol: Any = None) -> Tensor:
    # NumPy's `pinv` has 1e-15 where nothing is given, torch's a tolerance for the dtype.
    return torch.linalg.pinv(as_tensor(a), rtol=rcond if rcond is not None else rtol)


@answers(np.linalg.det)
def _det(a: Any) -> Tensor:
    return torch.linalg.det(as_tensor(a))


@answers(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    return array_api.linalg.slogdet(as_tensor(a))


@answers(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: bool = False) -> Tensor:
    return torch.linalg.cholesky(as_tensor(a), upper=upper)


@answers(np.linalg.qr)
def _qr(a: Any, mode: str = "reduced") -> Any:
    if mode == "r":
        return torch.linalg.qr(as_tensor(a), mode="r")[1]
    return array_api.linalg.qr(as_tensor(a), mode=mode)


@answers(np.linalg.svd)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    if not compute_uv:
        return torch.linalg.svdvals(as_tensor(a))
    return array_api.linalg.svd(as_tensor(a), full_matrices=full_matrices)


@answers(np.linalg.svdvals)
def _svdvals(x: Any, /) -> Tensor:
    return torch.linalg.svdvals(as_tensor(x))


@answers(np.linalg.eigh)
def _eigh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803 (NumPy's name)
    return torch.linalg.eigh(as_tensor(a), UPLO=UPLO)


@answers(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: str = "L") -> Tensor:  # noqa: N803
    return torch.linalg.eigvalsh(as_tensor(a), UPLO=UPLO)


@answers(np.linalg.eig)
def _eig(a: Any) -> Any:
    return torch.linalg.eig(as_tensor(a))


@answers(np.linalg.eigvals)
def _eigvals(a: Any) -> Tensor:
    return torch.linalg.eigvals(as_tensor(a))


@answers(np.linalg.norm)
def _norm(x: Any, ord: Any = None, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return torch.linalg.norm(as_tensor(x), ord, axis, keepdim=keepdims)


@answers(np.linalg.vector_norm)
def _vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    return array_api.linalg.vector_norm(as_tensor(x), axis=axis, keepdims=keepdims, ord=ord)


@answers(np.linalg.matrix_norm)
def _matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    return array_api.linalg.matrix_norm(as_tensor(x), keepdims=keepdims, ord=ord)


@answers(np.linalg.matrix_power)
def _matrix_power(a: Any, n: int) -> Tensor:
    return torch.linalg.matrix_power(as_tensor(a), n)


@answers(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, *, rtol: Any = None) -> Tensor:  # noqa: N803
    return torch.linalg.matrix_rank(as_tensor(A), atol=tol, rtol=rtol)


@answers(np.linalg.multi_dot)
def _multi_dot(arrays: Any) -> Tensor:
    return torch.linalg.multi_dot(_met(*arrays))


@answers(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Tensor:
    return torch.linalg.cond(as_tensor(x), p)


@answers(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    x, y = _met(a, b)
    solved = torch.linalg.lstsq(x, y[:, None] if y.ndim == 1 else y, rcond=rcond, driver="gelsd")
    solution = solved.solution[:, 0] if y.ndim == 1 else solved.solution
    rest = y - torch.matmul(x, solution)
    full = int(solved.rank) == x.shape[1] < x.shape[0]
    residuals = torch.sum((rest * rest.conj()).real, 0).reshape(-1) if full else x.new_empty(0)
    return solution, residuals, solved.rank, solved.singular_values


@answers(np.linalg.tensorsolve)
def _tensorsolve(a: Any, b: Any, axes: Any = None) -> Tensor:
    x, y = _met(a, b)
    return torch.linalg.tensorsolve(x, y, dims=axes)


@answers(np.linalg.tensorinv)
def _tensorinv(a: Any, ind: int = 2) -> Tensor:
    return torch.linalg.tensorinv(as_tensor(a), ind)
