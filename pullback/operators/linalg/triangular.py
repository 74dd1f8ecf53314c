"""Triangular systems, and what follows from them: solutions and inverses by a Cholesky factor."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.tensor import Tensor
from pullback.operators.arrays.blocks import BLOCK, slices
from pullback.operators.arrays.lapack import by_columns, lapack, triangles_by_scipy
from pullback.operators.arrays.lapack import upper as upper_part
from pullback.operators.batching import aligned
from pullback.operators.create.sizes import eye
from pullback.operators.declare import Array, Namespace, method, primitive
from pullback.operators.indexing.selection import tril, triu
from pullback.operators.linalg.checks import (
    adjoint,
    check_batches,
    check_same_dtype,
    check_square,
    delivered_all,
)
from pullback.operators.linalg.products import delivered, matmul, total
from pullback.operators.results import result_class
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import clone, expand

FOUND_IN = {
    "torch": "cholesky_inverse cholesky_solve triangular_solve",
    "linalg": "solve_triangular",
}

# The kernel ---------------------------------------------------------------------------------------

# Blocks up to this size go to LAPACK's general solver, whose factors of an upper triangle are the
# triangle itself; what lies off the blocks is matrix products.
_BLOCK = 64


def solved(xp: Namespace, a: Array, b: Array, *, upper: bool, unit: bool) -> Array:
    """`x` with `a x = b` for a triangle of `a`, with ones on its diagonal if `unit`."""
    x = triangles_by_scipy(xp, a, b, upper=upper, unit=unit)
    if x is not None:
        return x
    if upper:
        return _solved_upper(xp, a, b, unit=unit)
    # Seen from the other end, a lower triangle is an upper one; tensors have no negative strides.
    x = _solved_upper(xp, a[..., ::-1, ::-1], b[..., ::-1, :], unit=unit)
    return by_columns(xp, x[..., ::-1, :])


def _solved_upper(xp: Namespace, a: Array, b: Array, *, unit: bool) -> Array:
    n = a.shape[-1]
    if n <= _BLOCK:
        return _solved_block(xp, a, b, unit=unit)
    half = n // 2
    low = _solved_upper(xp, a[..., half:, half:], b[..., half:, :], unit=unit)
    rest = b[..., :half, :] - xp.matmul(a[..., :half, half:], low)
    high = _solved_upper(xp, a[..., :half, :half], rest, unit=unit)
    return xp.concatenate([high, low], -2)


def _solved_block(xp: Namespace, a: Array, b: Array, *, unit: bool) -> Array:
    n = a.shape[-1]
    triangle = xp.zeros(a.shape, a.dtype)
    xp.copyto(triangle, a, where=upper_part(n, n, int(unit)))
    if unit:
        xp.einsum("...ii->...i", triangle)[...] = 1  # a view of the diagonal
    a = triangle
    # Of many small ones, row by row: 500 of 8 by 8 in a third of the time.
    if a.ndim > 2 and a.size >= 16 * n**3:
        return _substituted(xp, a, b)
    try:
        return lapack(xp, "solve", a, b, refuse_nan=True)
    except numpy.linalg.LinAlgError:
        # Zero on the diagonal, or infinity in `b`: substitution keeps it where it belongs.
        return _substituted(xp, a, b)


def _substituted(xp: Namespace, a: Array, b: Array) -> Array:
    shape = xp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if math.prod(shape) >= _MANY:
        return _substituted_together(xp, a, b, shape)
    x = xp.array(xp.broadcast_to(b, shape + b.shape[-2:]))
    for row in range(a.shape[-1] - 1, -1, -1):
        x[..., row, :] /= a[..., row, row, None]
        x[..., :row, :] -= a[..., :row, row, None] * x[..., row, None, :]
    return x


# So many matrices are laid side by side: a step of the substitution then runs along all of them,
# and not along the short rows of each. 1000 systems of 32 by 32: 76 ms one way, 14 ms the other.
_MANY = 32


def _substituted_together(xp: Namespace, a: Array, b: Array, shape: tuple[int, ...]) -> Array:
    n, k = b.shape[-2:]
    count = math.prod(shape)
    matrices = xp.broadcast_to(a, shape + a.shape[-2:]).reshape(count, n, n)
    sides = xp.broadcast_to(b, shape + b.shape[-2:]).reshape(count, n, k)
    out = xp.empty(sides.shape, b.dtype)
    for part in slices(len(out), n * max(n, k), 2 * BLOCK):
        t = xp.ascontiguousarray(matrices[part].transpose(1, 2, 0))
        x = xp.array(sides[part].transpose(1, 2, 0), order="C")
        for row in range(n - 1, -1, -1):
            x[row] /= t[row, row]
            x[:row] -= t[:row, row, None] * x[row]
        out[part] = x.transpose(2, 0, 1)
    return out.reshape(*shape, n, k)


# The operator -------------------------------------------------------------------------------------


def _triangle(matrix: Any, upper: bool, unit: bool) -> Any:
    return triu(matrix, int(unit)) if upper else tril(matrix, -int(unit))


def _of_a(g: Any, A: Any, out: Any, upper: Any, left: Any, unitriangular: Any) -> Any:
    g = triangular(adjoint(A), g, not upper, left, unitriangular)
    slope = matmul(g, adjoint(out)) if left else matmul(adjoint(out), g)
    return _triangle(-slope, upper, unitriangular)


def _tangent(
    d_A: Any, d_B: Any, A: Any, out: Any, upper: Any, left: Any, unitriangular: Any
) -> Any:
    change = None
    if d_A is not None:
        d_A = _triangle(d_A, upper, unitriangular)
        change = -(matmul(d_A, out) if left else matmul(out, d_A))
    return triangular(A, total(d_B, change), upper, left, unitriangular)


@primitive(
    A=_of_a,
    B=lambda g, A, upper, left, unitriangular: triangular(
        adjoint(A), g, not upper, left, unitriangular
    ),
    jvp=_tangent,
    batch=aligned,
    name="_solve_triangular",
    node="LinalgSolveTriangularBackward0",
    aten="linalg_solve_triangular.default(A B * upper left unitriangular)",
    aten_defaults={"left": True, "unitriangular": False},
)
def triangular(
    xp: Namespace, A: Array, B: Array, upper: bool, left: bool, unitriangular: bool
) -> Array:
    """`X` with `A X = B`, or `X A = B`, for triangular `A`; batches broadcast."""
    if left:
        return by_columns(xp, solved(xp, A, B, upper=upper, unit=unitriangular))
    return by_columns(xp, solved(xp, A.mT, B.mT, upper=not upper, unit=unitriangular).mT)


def check_system(op: str, A: Any, B: Any, *, left: bool) -> None:
    """Refuse matrices that do not fit: sizes, batches, dtypes."""
    for name, matrix in (("input", A), ("B", B)):
        if not isinstance(matrix, Tensor):
            raise errors.not_a_tensor(op, name, matrix)
    check_square(op, A._array)
    if B.ndim < 2:
        raise RuntimeError(
            f"{op}: B must have at least 2 dimensions, got shape {tuple(B.shape)}; for a vector "
            "use B.unsqueeze(-1)."
        )
    check_same_dtype(op, A._array, B._array)
    n = B.shape[-2 if left else -1]
    if n != A.shape[-1]:
        side, what = ("A X = B", "rows") if left else ("X A = B", "columns")
        raise RuntimeError(
            f"{op}: {side} needs as many {what} in B as A has, got shapes {tuple(A.shape)} and "
            f"{tuple(B.shape)}."
        )
    check_batches(op, A, B)


def solve_triangular(
    input: Any,
    B: Any,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Any = None,
) -> Any:
    """The solution of `input X = B`, or `X input = B`, for a triangle; the rest is not read.

    >>> import pullback as torch
    >>> A = torch.tensor([[2.0, 0.0], [1.0, 4.0]])
    >>> torch.linalg.solve_triangular(A, torch.tensor([[2.0], [9.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    check_system("linalg.solve_triangular", input, B, left=left)
    result = triangular(input, B, bool(upper), bool(left), bool(unitriangular))
    return delivered("linalg.solve_triangular", result, out)


_TriangularSolve = result_class("triangular_solve", "solution cloned_coefficient")


@method
def triangular_solve(
    input: Any,
    A: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> Any:
    """The older form of `linalg.solve_triangular`: `input` is the right side.

    >>> import pullback as torch
    >>> A, b = torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([[4.0], [6.0]])
    >>> torch.triangular_solve(b, A).solution
    tensor([[2.],
            [2.]])
    """
    check_system("triangular_solve", A, input, left=True)
    if A._layout is not None:  # torch makes no copy of a sparse matrix
        dense = triangular_solve(input, A.to_dense(), upper, transpose, unitriangular)
        nothing = dense.solution.new_empty(0)
        return delivered_all("triangular_solve", _TriangularSolve((dense.solution, nothing)), out)
    coefficient = A.mT if transpose else A
    solution = triangular(coefficient, input, bool(upper) != bool(transpose), True, unitriangular)
    shown_as("TriangularSolveBackward0", solution)
    batch = tuple(solution.shape[:-2])
    copy = clone(expand(A, (*batch, *A.shape[-2:])))
    return delivered_all("triangular_solve", _TriangularSolve((solution, copy)), out)


# By a Cholesky factor -----------------------------------------------------------------------------


@method
def cholesky_solve(input: Any, input2: Any, upper: bool = False, *, out: Any = None) -> Any:
    """The solution of `A X = input`, given `input2`, the Cholesky factor of `A` (or upper one).

    >>> import pullback as torch
    >>> torch.cholesky_solve(torch.tensor([[8.0], [2.0]]), torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([[2.],
            [2.]])
    """
    check_system("cholesky_solve", input2, input, left=True)
    factor = adjoint(input2) if upper else input2
    half = triangular(factor, input, False, True, False)
    result = triangular(adjoint(factor), half, True, True, False)
    return delivered("cholesky_solve", shown_as("CholeskySolveBackward0", result), out)


@method
def cholesky_inverse(input: Any, upper: bool = False, *, out: Any = None) -> Any:
    """The inverse of `A`, given its Cholesky factor (upper if `upper`).

    >>> import pullback as torch
    >>> torch.cholesky_inverse(torch.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    check_square("cholesky_inverse", input._array, "the factor")
    factor = adjoint(input) if upper else input
    unit = eye(input.shape[-1], dtype=input.dtype, device=input.device)
    root = triangular(factor, unit, False, True, False)
    inverse = shown_as("CholeskyInverseBackward0", matmul(adjoint(root), root))
    return delivered("cholesky_inverse", inverse, out)
