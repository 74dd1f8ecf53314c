"""Inverses of square matrices, and linear systems."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy

from pullback.operators.arrays.lapack import by_columns, lapack
from pullback.operators.batching import aligned
from pullback.operators.declare import Array, Namespace, Op, method, primitive
from pullback.operators.linalg.checks import (
    LinAlgError,
    adjoint,
    check_batches,
    check_same_dtype,
    check_square,
    delivered_all,
    place,
)
from pullback.operators.linalg.lu import factored
from pullback.operators.linalg.products import delivered, matmul, total
from pullback.operators.results import result_class
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import contiguous, movedim, reshape

FOUND_IN = {"torch": "inverse", "linalg": "inv inv_ex solve solve_ex tensorinv tensorsolve"}

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
        return lapack(xp, "inv", A), xp.zeros(A.shape[:-2], xp.int32)
    except numpy.linalg.LinAlgError:
        info = factored(xp, A)[2]
        check_regular(strict, info)
        inverse = xp.full(A.shape, xp.inf, A.dtype)
        regular = info == 0
        inverse[regular] = xp.linalg.inv(A[regular])
        return by_columns(xp, inverse), info


def inverse_of(A: Any) -> Any:
    """The inverse, for rules; infinite for a singular matrix."""
    return _inv(A, "")[0]


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
    """As `inv`, and for each matrix the number of its first zero pivot instead of an error.

    >>> import pullback as torch
    >>> torch.linalg.inv_ex(torch.tensor([[2.0, 0.0], [0.0, 4.0]])).inverse
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
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
    """The older name of `linalg.inv`.

    >>> import pullback as torch
    >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inv(input, out=out)


# Systems ------------------------------------------------------------------------------------------


def _solve_of_a(g_result: Any, A: Any, result: Any) -> Any:
    return -matmul(solved_exactly(adjoint(A), g_result), adjoint(result))


def _solve_gradients(edges: Any, g_result: Any, A: Any, result: Any) -> tuple[Any, Any]:
    """Both at once: each has the same system to solve."""
    of_b = solved_exactly(adjoint(A), g_result)
    return -matmul(of_b, adjoint(result)), of_b


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
    fused_backward=_solve_gradients,
    jvp=_solve_tangent,
    batch=_solved_in_batches,
    outputs="result info",
    fixed="info",
    node="LinalgSolveExBackward0",
)
def _solve(xp: Namespace, A: Array, B: Array, strict: str) -> Any:
    try:
        return lapack(xp, "solve", A, B), xp.zeros(A.shape[:-2], xp.int32)
    except numpy.linalg.LinAlgError:
        info = factored(xp, A)[2]
        check_regular(strict, info)
        batch = xp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
        regular = xp.broadcast_to(info == 0, batch)
        A, B = (xp.broadcast_to(x, batch + x.shape[-2:]) for x in (A, B))
        result = xp.full(B.shape, xp.inf, B.dtype)
        result[regular] = xp.linalg.solve(A[regular], B[regular])
        return by_columns(xp, result), info


def solved_exactly(A: Any, B: Any) -> Any:
    """`X` with `A X = B`, for rules."""
    return _solve(A, B, "")[0]


_SolveEx = result_class("linalg_solve_ex", "result info")


_SOLVED = "LinalgSolveExBackward0"


def _system(op: str, A: Any, B: Any, left: Any, strict: str) -> tuple[Any, Any]:
    a, b = A._array, B._array
    check_square(op, a)
    check_same_dtype(op, a, b)
    if left and a.ndim == b.ndim and a.shape[:-1] == b.shape[:-1]:  # fits without more ado
        return cast("tuple[Any, Any]", _solve(A, B, strict))
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
    check_batches(op, A, right)
    result, info = _solve(A, right, strict) if left else _solve(A.mT, right.mT, strict)
    if vector:
        return shown_as(_SOLVED, result[..., 0]), info
    return (result if left else shown_as(_SOLVED, contiguous(result.mT))), info


def solve_ex(
    A: Any, B: Any, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """As `solve`, and for each matrix the number of its first zero pivot instead of an error.

    >>> import pullback as torch
    >>> torch.linalg.solve_ex(
    ...     torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 8.0])
    ... ).result
    tensor([1., 2.])
    """
    op = "linalg.solve_ex"
    result, info = _system(op, A, B, left, op if check_errors else "")
    return delivered_all(op, _SolveEx((result, info)), out)


def solve(A: Any, B: Any, *, left: bool = True, out: Any = None) -> Any:
    """The solution of `A X = B`, or `X A = B` if not `left`; `B` may be a vector, or vectors.

    >>> import pullback as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    result, _ = _system("linalg.solve", A, B, left, "linalg.solve")
    return delivered("linalg.solve", result, out)


# Systems of tensors -------------------------------------------------------------------------------


def tensorinv(input: Any, ind: int = 2, *, out: Any = None) -> Any:
    """The inverse of `input` as a map of tensors: its first `ind` dimensions against the others.

    >>> import pullback as torch
    >>> torch.linalg.tensorinv(torch.eye(4).view(2, 2, 4)).shape
    torch.Size([4, 2, 2])
    """
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: ind must be positive, got {ind}.")
    first, second = tuple(input.shape[:ind]), tuple(input.shape[ind:])
    if math.prod(first) != math.prod(second):
        raise RuntimeError(
            f"linalg.tensorinv: the first {ind} sizes and the others must have equal products, got "
            f"{first} and {second}."
        )
    size = math.prod(first)
    result = reshape(inv(reshape(input, (size, size))), (*second, *first))
    return delivered("linalg.tensorinv", result, out)


def tensorsolve(input: Any, other: Any, dims: Any = None, *, out: Any = None) -> Any:
    """`X` with `tensordot(A, X, X.ndim) = B`; `dims` of `input` are moved to its end before.

    >>> import pullback as torch
    >>> torch.linalg.tensorsolve(torch.eye(4).view(2, 2, 4), torch.arange(4.0).view(2, 2))
    tensor([0., 1., 2., 3.])
    """
    if dims is not None:
        input = movedim(input, tuple(dims), tuple(range(input.ndim - len(dims), input.ndim)))
    rest = tuple(input.shape[other.ndim :])
    size = math.prod(rest)
    if math.prod(input.shape[: other.ndim]) != size:
        raise RuntimeError(
            f"linalg.tensorsolve: the first {other.ndim} sizes of input, as many as other has, and "
            f"the rest must have equal products; input has shape {tuple(input.shape)}."
        )
    check_same_dtype("linalg.tensorsolve", input._array, other._array)
    result = solve(reshape(input, (size, size)), reshape(other, (size,)))
    return delivered("linalg.tensorsolve", reshape(result, rest), out)
