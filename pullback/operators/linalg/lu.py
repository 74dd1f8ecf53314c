"""LU decompositions with pivots: `A = P L U`, packed or in three parts, and what they solve.

NumPy solves systems but keeps the factors to itself, so the elimination is here: for all matrices
of a batch at once, in panels of columns between which the work is matrix products.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES
from pullback.core.device import META
from pullback.core.tensor import Tensor
from pullback.operators.arrays.blocks import BLOCK, slices
from pullback.operators.arrays.lapack import lu_by_scipy, magnitude
from pullback.operators.arrays.row_major import in_order
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, method, primitive
from pullback.operators.indexing.gather import enlarged
from pullback.operators.indexing.selection import tril, triu
from pullback.operators.linalg.checks import adjoint, check_matrices, delivered_all, place
from pullback.operators.linalg.products import delivered, matmul
from pullback.operators.linalg.triangular import check_system, solved, triangular
from pullback.operators.results import result_class
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.joining import cat
from pullback.operators.shape.reshaping import contiguous

FOUND_IN = {
    "torch": "lu lu_solve lu_unpack",
    "linalg": "lu=linalg_lu lu_factor lu_factor_ex lu_solve=linalg_lu_solve",
}

# Kernels ------------------------------------------------------------------------------------------

_PANEL = 32


def factored(xp: Namespace, a: Array) -> tuple[Array, Array, Array]:
    """Packed factors, pivots as LAPACK counts them (from 1), and the first zero pivot (0: none)."""
    m, n = a.shape[-2:]
    batch, size = a.shape[:-2], math.prod(a.shape[:-2])
    known = lu_by_scipy(xp, a if a.ndim == 3 else a.reshape(size, m, n))
    if known is not None:
        if a.ndim == 3:
            return known
        lu, pivots, info = known
        return lu.reshape(a.shape), pivots.reshape(*batch, -1), info.reshape(batch)
    lu = xp.array(a, order="C").reshape(size, m, n)
    steps = min(m, n)
    pivots = xp.empty((size, steps), xp.int32)
    side_by_side = size >= _MANY and n <= 2 * _PANEL
    if side_by_side:
        for part in slices(size, m * n, 2 * BLOCK):
            lu[part], pivots[part] = _eliminated_together(xp, lu[part])
    for start in range(0, 0 if side_by_side else steps, _PANEL):
        stop = min(start + _PANEL, steps)
        for column in range(start, stop):
            if size == 1:
                _eliminate_one(xp, lu[0], pivots[0], column, stop)
            else:
                _eliminate(xp, lu, pivots, column, stop)
        if stop < n:
            part = lu[:, start:stop, stop:]
            part[...] = solved(xp, lu[:, start:stop, start:stop], part, upper=False, unit=True)
            lu[:, stop:, stop:] -= xp.matmul(lu[:, stop:, start:stop], part)
    zero = lu.diagonal(axis1=1, axis2=2) == 0
    info = xp.where(zero.any(-1), zero.argmax(-1) + 1, 0) if steps else xp.zeros(size)
    return (
        lu.reshape(a.shape),
        pivots.reshape(*batch, steps),
        info.astype(xp.int32).reshape(batch),
    )


# A single matrix, as `_eliminate`: a fifth of the time per column.
def _eliminate_one(xp: Namespace, lu: Array, pivots: Array, column: int, stop: int) -> None:
    found = int(magnitude(xp, lu[column:, column]).argmax()) + column
    pivots[column] = found + 1
    if found != column:
        row = lu[found].copy()
        lu[found] = lu[column]
        lu[column] = row
    below = lu[column + 1 :, column]
    if lu[column, column] != 0:
        below /= lu[column, column]
    lu[column + 1 :, column + 1 : stop] -= below[:, None] * lu[column, column + 1 : stop]


# So many small matrices are laid side by side, so that each step runs along all of them: 1000 of 32
# by 32 take 12 ms, where columns of each take 28.
_MANY = 32


def _eliminated_together(xp: Namespace, a: Array) -> tuple[Array, Array]:
    """Packed factors and pivots of a batch."""
    size, m, n = a.shape
    lu = xp.ascontiguousarray(a.transpose(1, 2, 0))
    every = xp.arange(size)
    pivots = xp.empty((size, min(m, n)), xp.int32)
    for column in range(min(m, n)):
        found = magnitude(xp, lu[column:, column]).argmax(0) + column
        pivots[:, column] = found + 1
        row = lu[found, :, every].T
        lu[found, :, every] = lu[column].T
        lu[column] = row
        pivot = lu[column, column]
        lu[column + 1 :, column] /= xp.where(pivot == 0, pivot.dtype.type(1), pivot)
        rest = lu[column + 1 :, column + 1 :]
        rest -= lu[column + 1 :, column, None] * lu[column, column + 1 :]
    return lu.transpose(2, 0, 1), pivots


def _eliminate(xp: Namespace, lu: Array, pivots: Array, column: int, stop: int) -> None:
    """Bring the largest element of a column up, and clear what is below it, within the panel."""
    found = magnitude(xp, lu[:, column:, column]).argmax(1) + column
    pivots[:, column] = found + 1
    every = xp.arange(len(lu))
    row = lu[every, found]
    lu[every, found] = lu[:, column]
    lu[:, column] = row
    pivot = lu[:, column, column]
    lu[:, column + 1 :, column] /= xp.where(pivot == 0, 1, pivot)[:, None].astype(lu.dtype)
    rest = lu[:, column + 1 :, column + 1 : stop]
    rest -= lu[:, column + 1 :, column, None] * lu[:, column, None, column + 1 : stop]


def permutation(xp: Namespace, pivots: Array, m: int, dtype: Any) -> Array:
    """The matrices `P` that pivots stand for."""
    batch, steps = pivots.shape[:-1], pivots.shape[-1]
    size = math.prod(batch)
    swaps = pivots.reshape(size, steps) - 1
    every = xp.arange(size)
    few = swaps.size <= _FEW_SWAPS and type(swaps) not in LIBRARIES
    found = [_order_of_one(one, m) for one in swaps.tolist()] if few else _orders(xp, swaps, m)
    order = xp.asarray(found, xp.int64)
    matrices = xp.zeros((size, m, m), dtype)
    matrices[every[:, None], order.reshape(size, m), xp.arange(m)] = 1
    return matrices.reshape(*batch, m, m)


def _orders(xp: Namespace, swaps: Array, m: int) -> Array:
    """Where each row of the products comes from."""
    every = xp.arange(len(swaps))
    order = xp.empty((len(swaps), m), xp.int64)
    order[...] = xp.arange(m)
    for step in range(swaps.shape[1]):
        other = swaps[:, step]
        kept = order[every, other]
        order[every, other] = order[:, step]
        order[:, step] = kept
    return order


_FEW_SWAPS = 256  # below, lists are faster than arrays


def _order_of_one(swaps: list[int], m: int) -> list[int]:
    order = list(range(m))
    for step, other in enumerate(swaps):
        order[step], order[other] = order[other], order[step]
    return order


def _parts(xp: Namespace, lu: Array) -> tuple[Array, Array]:
    m, n = lu.shape[-2:]
    steps = min(m, n)
    lower = xp.tril(lu[..., :steps], -1)
    places = xp.arange(steps)
    lower[..., places, places] = 1
    return in_order(lower), in_order(xp.triu(lu[..., :steps, :]))


# Derivatives --------------------------------------------------------------------------------------


def _lu_adjoint(g_L: Any, g_U: Any, P: Any, L: Any, U: Any) -> Any:
    """From the gradients of both factors to that of `A`.

    Square matrices first: with F = L^-1 P^T dA U^-1, dL = L tril(F, -1) and dU = triu(F) U. What
    is wide or tall beyond the square is solved by it: U2 = L^-1 A2, and L2 = A2 U^-1.
    """
    m, n = L.shape[-2], U.shape[-1]
    k = L.shape[-1]
    lower, upper = L[..., :k, :], U[..., :k]
    g_lower, g_upper = g_L[..., :k, :], g_U[..., :k]
    beside = below = None
    if n > k:
        beside = triangular(adjoint(lower), g_U[..., k:], True, True, True)
        g_lower = g_lower - matmul(beside, adjoint(U[..., k:]))
    if m > k:
        below = triangular(adjoint(upper), g_L[..., k:, :], False, False, False)
        g_upper = g_upper - matmul(adjoint(L[..., k:, :]), below)
    core = tril(matmul(adjoint(lower), g_lower), -1) + triu(matmul(g_upper, adjoint(upper)))
    core = triangular(adjoint(lower), core, True, True, True)
    square = triangular(adjoint(upper), core, False, False, False)
    if beside is not None:
        square = cat([square, beside], -1)
    if below is not None:
        square = cat([square, below], -2)
    return matmul(P, square)


def _lu_tangents(d_A: Any, P: Any, L: Any, U: Any) -> tuple[Any, Any]:
    m, n = L.shape[-2], U.shape[-1]
    k = L.shape[-1]
    change = matmul(adjoint(P), d_A)
    lower, upper = L[..., :k, :], U[..., :k]
    core = triangular(lower, change[..., :k, :k], False, True, True)
    core = triangular(upper, core, True, False, False)
    d_L, d_U = matmul(lower, tril(core, -1)), matmul(triu(core), upper)
    if n > k:
        rest = change[..., k:] - matmul(d_L, U[..., k:])
        d_U = cat([d_U, triangular(lower, rest, False, True, True)], -1)
    if m > k:
        rest = change[..., k:, :] - matmul(L[..., k:, :], d_U)
        d_L = cat([d_L, triangular(upper, rest, True, False, False)], -2)
    return d_L, d_U


def _joined(lower: Any, upper: Any) -> Any:
    """Both triangles packed into one matrix; their sizes may differ beyond the square."""
    shape = (*lower.shape[:-1], upper.shape[-1])
    return enlarged(tril(lower, -1), shape) + enlarged(triu(upper), shape)


# Operators ----------------------------------------------------------------------------------------


@primitive(
    A=_lu_adjoint,
    jvp=lambda d_A, P, L, U: _lu_tangents(d_A, P, L, U),
    outputs="L U P",
    fixed="P",
    node="LinalgLuBackward0",
)
def _lu(xp: Namespace, A: Array) -> Any:
    lu, pivots, _ = factored(xp, A)
    return *_parts(xp, lu), permutation(xp, pivots, A.shape[-2], A.dtype)


def _packed_adjoint(g_LU: Any, LU: Any, pivots: Any) -> Any:
    k = min(LU.shape[-2:])
    L, U, P = _unpack(LU, pivots)
    return _lu_adjoint(tril(g_LU[..., :k], -1), triu(g_LU[..., :k, :]), P, L, U)


def _packed_tangent(d_A: Any, LU: Any, pivots: Any) -> Any:
    L, U, P = _unpack(LU, pivots)
    return (_joined(*_lu_tangents(d_A, P, L, U)),)


@primitive(
    A=_packed_adjoint,
    jvp=_packed_tangent,
    outputs="LU pivots info",
    fixed="pivots info",
    node="LinalgLuFactorExBackward0",
)
def _lu_factor(xp: Namespace, A: Array, strict: bool) -> Any:
    results = factored(xp, A)
    if strict:
        _check_pivots(results[2])
    return results


def _unpack_tangents(d_LU: Any, LU_shape: Any) -> Any:
    k = min(LU_shape[-2:])
    return tril(d_LU[..., :k], -1), triu(d_LU[..., :k, :])


@primitive(
    LU=lambda g_L, g_U: _joined(g_L, g_U),
    jvp=_unpack_tangents,
    outputs="L U P",
    fixed="P",
    batch=together,
    node="LuUnpackBackward0",
)
def _unpack(xp: Namespace, LU: Array, pivots: Array) -> Any:
    return *_parts(xp, LU), permutation(xp, pivots, LU.shape[-2], LU.dtype)


# What users call ----------------------------------------------------------------------------------


def check_rows(op: str, LU: Any, pivots: Any, maker: str = "lu_factor") -> None:
    """Refuse pivots that number no rows; negative ones are counted by `ldl_factor`."""
    rows, array = LU.shape[-2], pivots._array
    if type(array) is not numpy.ndarray or pivots.device is META or not array.size:
        return  # no values that could be looked at
    numbers = numpy.abs(array) if maker == "ldl_factor" else array
    least, most = int(numbers.min()), int(numbers.max())
    if least < 1 or most > rows:
        raise RuntimeError(
            f"{op}: the pivots must be numbers of rows, between 1 and {rows}, as {maker} makes "
            f"them; got {least} to {most}."
        )


def _check(op: str, A: Any, pivot: Any) -> None:
    check_matrices(op, A._array)
    if not pivot:
        raise RuntimeError(f"{op}: pivot=False is for GPUs alone; leave it away.")


_Lu = result_class("linalg_lu", "P L U")
_LuFactor = result_class("linalg_lu_factor", "LU pivots")
_LuFactorEx = result_class("linalg_lu_factor_ex", "LU pivots info")
_LuUnpack = result_class("lu_unpack", "P L U")


def linalg_lu(A: Any, *, pivot: bool = True, out: Any = None) -> Any:
    """`A` as the product of a permutation, a lower and an upper triangle.

    >>> import pullback as torch
    >>> torch.linalg.lu(torch.tensor([[0.0, 1.0], [2.0, 4.0]])).U
    tensor([[2., 4.],
            [0., 1.]])
    """
    _check("linalg.lu", A, pivot)
    L, U, P = _lu(A)
    return delivered_all("linalg.lu", _Lu((P, L, U)), out)


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """As `lu_factor`, with the number of each matrix's first zero pivot, and no error.

    >>> import pullback as torch
    >>> torch.linalg.lu_factor_ex(torch.tensor([[2.0, 1.0], [0.0, 3.0]])).info
    tensor(0, dtype=torch.int32)
    """
    _check("linalg.lu_factor", A, pivot)
    results = _lu_factor(A, bool(check_errors))
    return delivered_all("linalg.lu_factor_ex", _LuFactorEx(results), out)


def _check_pivots(info: Array) -> None:
    if numpy.count_nonzero(info):
        where, step = place(info)
        raise RuntimeError(
            f"linalg.lu_factor: U has a zero at diagonal place {step}{where}, by which lu_solve "
            "would divide. Use linalg.lu or lu_factor_ex for the factors of a singular matrix."
        )


def lu_factor(A: Any, *, pivot: bool = True, out: Any = None) -> Any:
    """Both triangles of the LU decomposition packed into one matrix, and the pivots.

    >>> import pullback as torch
    >>> torch.linalg.lu_factor(torch.tensor([[2.0, 1.0], [0.0, 3.0]])).LU
    tensor([[2., 1.],
            [0., 3.]])
    """
    _check("linalg.lu_factor", A, pivot)
    return delivered_all("linalg.lu_factor", _LuFactor(_lu_factor(A, True)[:2]), out)


@method
def lu(
    input: Any, pivot: bool = True, get_infos: bool = False, out: Any = None
) -> tuple[Tensor, ...]:
    """The older name of `linalg.lu_factor`; with `get_infos`, of `linalg.lu_factor_ex`.

    >>> import pullback as torch
    >>> torch.lu(torch.tensor([[2.0, 1.0], [0.0, 3.0]]))[0]
    tensor([[2., 1.],
            [0., 3.]])
    """
    packed, pivots, info = lu_factor_ex(input, pivot=pivot)  # zeros on the diagonal are no error
    made: tuple[Any, ...] = (packed, pivots, info) if get_infos else (packed, pivots)
    return delivered_all("lu", made, out)


def lu_unpack(
    LU_data: Any,
    LU_pivots: Any,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Any = None,
) -> Any:
    """`P`, `L` and `U` from what `lu_factor` returned; what is not wanted comes back empty.

    >>> import pullback as torch
    >>> P, L, U = torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[0.0, 2.0], [1.0, 3.0]])))
    >>> P @ L @ U
    tensor([[0., 2.],
            [1., 3.]])
    """
    check_matrices("lu_unpack", LU_data._array, "LU_data")
    if LU_pivots._array.dtype.name != "int32":
        raise RuntimeError(
            f"lu_unpack: LU_pivots must be int32, as lu_factor makes them, got {LU_pivots.dtype}."
        )
    if unpack_pivots:
        check_rows("lu_unpack", LU_data, LU_pivots)
    else:
        LU_pivots = LU_pivots.detach().new_ones(LU_pivots.shape)  # which nobody looks at
    L, U, P = _unpack(LU_data, LU_pivots)
    nothing = LU_data.detach().new_empty((0,))
    if not unpack_pivots:
        P = nothing
    if not unpack_data:
        L = U = nothing
    return delivered_all("lu_unpack", _LuUnpack((P, L, U)), out)


def linalg_lu_solve(
    LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False, out: Any = None
) -> Any:
    """The solution of `A X = B` (`X A = B` if not `left`, with the adjoint of `A` if `adjoint`).

    Args:
        LU: What `lu_factor` made of `A`.
        pivots: The pivots that came with it.
        B: The right side.
        left: On which side of `X` the matrix stands.
        adjoint: Whether its conjugate transpose is meant.
        out: Where to put the result.

    >>> import pullback as torch
    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[2.0], [8.0]]))
    tensor([[1.],
            [2.]])
    """
    check_system("linalg.lu_solve", LU, B, left=left)
    check_rows("linalg.lu_solve", LU, pivots)
    if not left:  # X A = B is A^H X^H = B^H
        result = contiguous(conj_transposed(_solved(LU, pivots, conj_transposed(B), not adjoint)))
    else:
        result = _solved(LU, pivots, B, adjoint)
    return delivered("linalg.lu_solve", shown_as("LinalgLuSolveBackward0", result), out)


conj_transposed = adjoint  # `linalg_lu_solve` has an argument of that name


def _solved(LU: Any, pivots: Any, B: Any, of_adjoint: bool) -> Any:
    L, U, P = _unpack(LU, pivots)
    if of_adjoint:
        half = triangular(conj_transposed(U), B, False, True, False)
        return matmul(P, triangular(conj_transposed(L), half, True, True, True))
    half = triangular(L, matmul(P.mT, B), False, True, True)
    return triangular(U, half, True, True, False)


@method
def lu_solve(input: Any, LU_data: Any, LU_pivots: Any, *, out: Any = None) -> Any:
    """The older name of `linalg.lu_solve`, with the right side first.

    >>> import pullback as torch
    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> torch.lu_solve(torch.tensor([[2.0], [8.0]]), LU, pivots)
    tensor([[1.],
            [2.]])
    """
    return linalg_lu_solve(LU_data, LU_pivots, input, out=out)
