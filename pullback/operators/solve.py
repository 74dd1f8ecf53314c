"""Inverses, linear systems and determinants of square matrices."""

# ruff: noqa: N806 (matrices go by the capital letters of the textbooks)

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core import errors
from pullback.operators.arithmetic import conj, is_complex
from pullback.operators.batching import aligned
from pullback.operators.complex import imag, real
from pullback.operators.declare import Array, Namespace, Op, method, primitive
from pullback.operators.lu import factored
from pullback.operators.matrix_checks import (
    LinAlgError,
    adjoint,
    check_same_dtype,
    check_square,
    delivered_all,
    place,
)
from pullback.operators.naming import shown_as
from pullback.operators.pointwise import log
from pullback.operators.products import delivered, matmul, total
from pullback.operators.reduction import sum
from pullback.operators.results import result_class
from pullback.operators.selection import where
from pullback.operators.shape import movedim, reshape

__all__ = [
    "det",
    "inv",
    "inv_ex",
    "inverse",
    "linalg_slogdet",
    "logdet",
    "slogdet",
    "solve",
    "solve_ex",
    "tensorinv",
    "tensorsolve",
]

# Inverses -----------------------------------------------------------------------------------------


@primitive(
    A=lambda g_inverse, inverse: -matmul(adjoint(inverse), matmul(g_inverse, adjoint(inverse))),
    jvp=lambda d_A, inverse: (-matmul(inverse, matmul(d_A, inverse)),),
    outputs="inverse info",
    fixed="info",
    node="LinalgInvExBackward0",
)
def _inv(xp: Namespace, A: Array, strict: str) -> Any:
    try:
        return xp.linalg.inv(A), xp.zeros(A.shape[:-2], xp.int32)
    except numpy.linalg.LinAlgError:
        info = factored(xp, A)[2]
        check_regular(strict, info)
        inverse = xp.full(A.shape, xp.inf, A.dtype)
        regular = info == 0
        inverse[regular] = xp.linalg.inv(A[regular])
        return inverse, info


_InvEx = result_class("linalg_inv_ex", "inverse info")


def check_regular(strict: str, info: Array) -> None:
    """Refuse singular matrices in the name of an operator; no name, no refusal."""
    if strict and info.any():
        where, step = place(info)
        raise LinAlgError(
            f"{strict}: the matrix{where} is singular: elimination finds a zero at diagonal place "
            f"{step}. For a least-squares answer use linalg.lstsq or linalg.pinv."
        )


def inv_ex(A: Any, *, check_errors: bool = False, out: Any = None) -> Any:
    """As `inv`, and for each matrix the number of its first zero pivot instead of an error."""
    check_square("linalg.inv_ex", A._array)
    results = _inv(A, "linalg.inv_ex" if check_errors else "")
    return delivered_all("linalg.inv_ex", _InvEx(results), out)


def inv(A: Any, *, out: Any = None) -> Any:
    """The inverse of each matrix. To solve a system `linalg.solve` is faster and more exact.

    >>> import pullback as torch
    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("linalg.inv", A._array)
    return delivered("linalg.inv", _inv(A, "linalg.inv")[0], out)


@method
def inverse(input: Any, *, out: Any = None) -> Any:
    """The older name of `linalg.inv`."""
    return inv(input, out=out)


# Systems ------------------------------------------------------------------------------------------


def _solve_of_a(g_result: Any, A: Any, result: Any) -> Any:
    return -matmul(solved_exactly(adjoint(A), g_result), adjoint(result))


def _solve_tangent(d_A: Any, d_B: Any, A: Any, result: Any) -> Any:
    change = None if d_A is None else -matmul(d_A, result)
    return (solved_exactly(A, total(d_B, change)),)


def _solved_in_batches(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Ranks are made equal; what is said of the matrices has one entry for each of their batch."""
    matrices, bdim = split["A"]
    result, info = aligned(op, size, split, options)
    if bdim is None:
        return result, info.unsqueeze(0).expand((size, *info.shape))
    batch = (*matrices.shape[:bdim], *matrices.shape[bdim + 1 :])[:-2]
    return result, info.reshape((size, *batch))


@primitive(
    A=_solve_of_a,
    B=lambda g_result, A: solved_exactly(adjoint(A), g_result),
    jvp=_solve_tangent,
    batch=_solved_in_batches,
    outputs="result info",
    fixed="info",
    node="LinalgSolveExBackward0",
)
def _solve(xp: Namespace, A: Array, B: Array, strict: str) -> Any:
    try:
        return xp.linalg.solve(A, B), xp.zeros(A.shape[:-2], xp.int32)
    except numpy.linalg.LinAlgError:
        info = factored(xp, A)[2]
        check_regular(strict, info)
        batch = xp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
        regular = xp.broadcast_to(info == 0, batch)
        A, B = (xp.broadcast_to(x, batch + x.shape[-2:]) for x in (A, B))
        result = xp.full(B.shape, xp.inf, B.dtype)
        result[regular] = xp.linalg.solve(A[regular], B[regular])
        return result, info


def solved_exactly(A: Any, B: Any) -> Any:
    """`X` with `A X = B`, for rules."""
    return _solve(A, B, "")[0]


_SolveEx = result_class("linalg_solve_ex", "result info")


def _system(op: str, A: Any, B: Any, left: Any, strict: str) -> tuple[Any, Any]:
    check_square(op, A._array)
    check_same_dtype(op, A._array, B._array)
    if B.ndim == 0:
        raise RuntimeError(f"{op}: B must have at least 1 dimension, got a 0-d tensor.")
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    if vector and not left:
        raise RuntimeError(
            f"{op}: left=False needs matrices, B is a vector of shape {tuple(B.shape)}."
        )
    right = B[..., None] if vector else B
    side = -2 if left else -1
    if right.shape[side] != A.shape[-1]:
        raise RuntimeError(
            f"{op}: B of shape {tuple(B.shape)} does not fit A of shape {tuple(A.shape)}: its "
            f"{'rows' if left else 'columns'} must be as many as A has."
        )
    try:
        numpy.broadcast_shapes(A.shape[:-2], right.shape[:-2])
    except ValueError:
        raise errors.shapes_do_not_broadcast(
            f"{op} (batch dimensions)", tuple(A.shape[:-2]), tuple(right.shape[:-2])
        ) from None
    result, info = _solve(A, right, strict) if left else _solve(A.mT, right.mT, strict)
    if vector:
        return result[..., 0], info
    return (result if left else result.mT), info


def solve_ex(
    A: Any, B: Any, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """As `solve`, and for each matrix the number of its first zero pivot instead of an error."""
    op = "linalg.solve_ex"
    result, info = _system(op, A, B, left, op if check_errors else "")
    return delivered_all(op, _SolveEx((shown_as(_SOLVED, result), info)), out)


_SOLVED = "LinalgSolveExBackward0"


def solve(A: Any, B: Any, *, left: bool = True, out: Any = None) -> Any:
    """The solution of `A X = B`, or `X A = B` if not `left`; `B` may be a vector, or vectors.

    >>> import pullback as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    result, _ = _system("linalg.solve", A, B, left, "linalg.solve")
    return delivered("linalg.solve", shown_as(_SOLVED, result), out)


# Systems of tensors -------------------------------------------------------------------------------


def tensorinv(A: Any, ind: int = 2, *, out: Any = None) -> Any:
    """The inverse of `A` as a map of tensors: its first `ind` dimensions against the others."""
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: ind must be positive, got {ind}.")
    first, second = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(second):
        raise RuntimeError(
            f"linalg.tensorinv: the first {ind} sizes and the others must have equal products, got "
            f"{first} and {second}."
        )
    size = math.prod(first)
    result = reshape(inv(reshape(A, (size, size))), (*second, *first))
    return delivered("linalg.tensorinv", result, out)


def tensorsolve(A: Any, B: Any, dims: Any = None, *, out: Any = None) -> Any:
    """`X` with `tensordot(A, X, X.ndim) = B`; `dims` of `A` are moved to its end before."""
    if dims is not None:
        A = movedim(A, tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    rest = tuple(A.shape[B.ndim :])
    size = math.prod(rest)
    if math.prod(A.shape[: B.ndim]) != size:
        raise RuntimeError(
            f"linalg.tensorsolve: the first {B.ndim} sizes of A, as many as B has, and the others "
            f"must have equal products; A has shape {tuple(A.shape)}."
        )
    check_same_dtype("linalg.tensorsolve", A._array, B._array)
    result = solve(reshape(A, (size, size)), reshape(B, (size,)))
    return delivered("linalg.tensorsolve", reshape(result, rest), out)


# Determinants -------------------------------------------------------------------------------------


def _trace(matrix: Any) -> Any:
    return sum(matrix.diagonal(0, -2, -1), -1)[..., None, None]


def _safe_inverse(xp: Namespace, A: Array) -> Array | None:
    """The inverse, unless a matrix is singular or so near it that few digits would be right."""
    try:
        B = xp.linalg.inv(A)
    except numpy.linalg.LinAlgError:
        return None
    condition = xp.linalg.norm(A, axis=(-2, -1)) * xp.linalg.norm(B, axis=(-2, -1))
    return B if xp.all(condition < xp.finfo(A.dtype).eps ** -0.75) else None


def _phase(xp: Namespace, U: Array, Vh: Array) -> Array:
    return xp.asarray(xp.linalg.det(U) * xp.linalg.det(Vh))[..., None, None]


@primitive(
    A=lambda g, A: _adjugate_change(adjoint(A), g),
    jvp=lambda d_A, A: _adjugate_change(A, d_A),
)
def _adjugate(xp: Namespace, A: Array) -> Array:
    """The matrix with `A adj(A) = det(A)`, which exists for singular matrices, too."""
    B = _safe_inverse(xp, A)
    if B is not None:
        return xp.asarray(xp.linalg.det(A))[..., None, None] * B
    U, S, Vh = xp.linalg.svd(A)
    n = A.shape[-1]
    # Products of all singular values but one: ones on the diagonal of n copies.
    others = xp.where(xp.eye(n, dtype=bool), 1, S[..., None, :]).prod(-1)
    return _phase(xp, U, Vh) * xp.matmul(Vh.mT.conj() * others[..., None, :], U.mT.conj())


def _change_adjoint(g: Any, A: Any, change: Any) -> Any:
    B = _inv(A, "")[0]
    moved = matmul(B, change)
    C = matmul(moved, B)
    share = sum(g * conj(_trace(moved) * B - C), (-2, -1), True)
    rest = sum(g * conj(B), (-2, -1), True)
    B, C, trace = adjoint(B), adjoint(C), conj(_trace(moved))
    left = matmul(B, g)
    made = share * B - rest * C - trace * matmul(left, B) + matmul(left, C)
    return conj(_det(A)[..., None, None]) * (made + matmul(matmul(C, g), B))


def _change_tangent(d_A: Any, d_change: Any, A: Any, change: Any) -> Any:
    terms: Any = 0.0 if d_change is None else _adjugate_change(A, d_change)
    if d_A is None:
        return terms
    B = _inv(A, "")[0]
    moved, turned = matmul(B, change), matmul(B, d_A)
    C, D = matmul(moved, B), matmul(turned, B)
    both = _trace(turned) * _trace(moved) - _trace(matmul(turned, moved))
    made = both * B - _trace(turned) * C - _trace(moved) * D
    return terms + _det(A)[..., None, None] * (made + matmul(turned, C) + matmul(moved, D))


@primitive(
    A=_change_adjoint,
    change=lambda g, A: _adjugate_change(adjoint(A), g),
    jvp=_change_tangent,
    batch=aligned,
)
def _adjugate_change(xp: Namespace, A: Array, change: Array) -> Array:
    """How `_adjugate` moves with `A`, linear in `change`; for singular matrices, too.

    With A = U S V^H and E = U^H change V it is V (diag(P diag(E)) - P E) U^H, where P holds at (i,
    j) the product of all singular values but the i-th and the j-th, and 0 at (i, i).
    """
    B = _safe_inverse(xp, A)
    if B is not None:
        moved = xp.matmul(B, change)
        traces = moved.trace(0, -2, -1)[..., None, None]
        value = xp.asarray(xp.linalg.det(A))[..., None, None]
        return value * (traces * B - xp.matmul(moved, B))
    U, S, Vh = xp.linalg.svd(A)
    n = A.shape[-1]
    one = xp.eye(n, dtype=bool)
    left_out = one[:, None, :] | one[None, :, :]
    P = xp.where(left_out, 1, S[..., None, None, :]).prod(-1) * ~one
    E = xp.matmul(U.mT.conj(), xp.matmul(change, Vh.mT.conj()))
    along = xp.matmul(P, E.diagonal(0, -2, -1)[..., None])
    core = xp.where(one, along, -P * E)
    return _phase(xp, U, Vh) * xp.matmul(Vh.mT.conj(), xp.matmul(core, U.mT.conj()))


@primitive(
    A=lambda g, A: g[..., None, None] * adjoint(_adjugate(A)),
    jvp=lambda d_A, A: sum(_adjugate(A).mT * d_A, (-2, -1)),
    node="LinalgDetBackward0",
    name="_linalg_det",
)
def _det(xp: Namespace, A: Array) -> Array:
    return xp.linalg.det(A)


def linalg_det(A: Any, *, out: Any = None) -> Any:
    """The determinant of each square matrix.

    >>> import pullback as torch
    >>> torch.linalg.det(torch.tensor([[2.0, 1.0], [0.0, 4.0]]))
    tensor(8.)
    """
    check_square("linalg.det", A._array)
    return delivered("linalg.det", _det(A), out)


@method
def det(input: Any) -> Any:
    """The older name of `linalg.det`."""
    return linalg_det(input)


def _slogdet_adjoint(g_sign: Any, g_logabsdet: Any, A: Any, sign: Any) -> Any:
    factor = g_logabsdet
    if is_complex(sign):  # a real sign has no slope
        factor = factor - imag(conj(g_sign) * sign) * 1j
    return factor[..., None, None] * adjoint(_inv(A, "")[0])


def _slogdet_tangents(d_A: Any, A: Any, sign: Any) -> tuple[Any, Any]:
    moved = sum(matmul(_inv(A, "")[0], d_A).diagonal(0, -2, -1), -1)
    if not is_complex(sign):
        return None, moved
    return sign * (imag(moved) * 1j), real(moved)


@primitive(
    A=_slogdet_adjoint,
    jvp=_slogdet_tangents,
    outputs="sign logabsdet",
    node="LinalgSlogdetBackward0",
    name="_linalg_slogdet",
)
def _slogdet(xp: Namespace, A: Array) -> Any:
    sign, logarithm = xp.linalg.slogdet(A)
    return sign, logarithm


_LinalgSlogdet = result_class("linalg_slogdet", "sign logabsdet")
_Slogdet = result_class("slogdet", "sign logabsdet")


def linalg_slogdet(A: Any, *, out: Any = None) -> Any:
    """The sign of the determinant and the logarithm of its size, which does not overflow."""
    check_square("linalg.slogdet", A._array)
    return delivered_all("linalg.slogdet", _LinalgSlogdet(_slogdet(A)), out)


@method
def slogdet(input: Any, *, out: Any = None) -> Any:
    """The older name of `linalg.slogdet`."""
    check_square("slogdet", input._array)
    return delivered_all("slogdet", _Slogdet(_slogdet(input)), out)


@method
def logdet(input: Any) -> Any:
    """The logarithm of the determinant: -inf where that is 0, NaN where it is negative."""
    check_square("logdet", input._array)
    sign, logarithm = _slogdet(input)
    if is_complex(sign):
        return log(sign) + logarithm
    return where(sign == -1, math.nan, logarithm)
