"""LDL decompositions of symmetric and Hermitian matrices, positive or not; no derivatives."""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.arrays.lapack import by_columns, magnitude
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.linalg.checks import check_square, delivered_all, place
from pullback.operators.linalg.lu import check_rows
from pullback.operators.linalg.products import delivered
from pullback.operators.linalg.triangular import check_system
from pullback.operators.results import result_class

FOUND_IN = {"linalg": "ldl_factor ldl_factor_ex ldl_solve"}

_GROWTH = (1 + math.sqrt(17)) / 8  # Bunch and Kaufman's bound on how small a pivot may be


def _no_derivative(g_LD: Any) -> Any:
    raise NotImplementedError("linalg.ldl_factor: has no derivative; use linalg.solve.")


def _refuse(g: Any) -> Any:
    raise NotImplementedError("linalg.ldl_solve: has no derivative; use linalg.solve.")


def _choose(xp: Namespace, A: Array, k: int) -> tuple[int, int]:
    """The size of the next pivot, 1 or 2, and the row that is to take part."""
    n = len(A)
    here = float(magnitude(xp, A[k, k]))
    below = magnitude(xp, A[k + 1 :, k])
    if k == n - 1 or not below.any():
        return 1, k
    row = int(below.argmax()) + k + 1
    biggest = float(below.max())
    if here >= _GROWTH * biggest:
        return 1, k
    others = [magnitude(xp, A[row, k:row]).max()]
    if row < n - 1:
        others.append(magnitude(xp, A[row + 1 :, row]).max())
    widest = float(max(others))
    if here * widest >= _GROWTH * biggest**2:
        return 1, k
    if float(magnitude(xp, A[row, row])) >= _GROWTH * widest:
        return 1, row
    return 2, row


def _factor_one(xp: Namespace, A: Array, pivots: Array, *, hermitian: bool) -> int:
    """Factor one matrix in its lower triangle; the number of the first zero pivot."""
    n, k, info = len(A), 0, 0
    while k < n:
        if hermitian:
            A[k, k] = A[k, k].real
        size, row = _choose(xp, A, k)
        if size == 1 and not magnitude(xp, A[k:, k]).any():
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        first = k + size - 1
        if row != first:
            if size == 2:
                # The row joins as the second of the pair: what it holds before them moves along.
                A[[first, row], k] = A[[row, first], k]
            _swap(A, first, row, hermitian=hermitian)
        _eliminate(xp, A, k, size, hermitian=hermitian)
        pivots[k : k + size] = row + 1 if size == 1 else -(row + 1)
        k += size
    return info


def _swap(A: Array, first: int, row: int, *, hermitian: bool) -> None:
    """Exchange two rows and columns of what remains; earlier columns stay, as in LAPACK."""
    A[row + 1 :, [first, row]] = A[row + 1 :, [row, first]]
    between = A[first + 1 : row, first].copy()
    A[first + 1 : row, first] = (
        A[row, first + 1 : row].conj() if hermitian else A[row, first + 1 : row]
    )
    A[row, first + 1 : row] = between.conj() if hermitian else between
    if hermitian:
        A[row, first] = A[row, first].conj()
    A[first, first], A[row, row] = A[row, row], A[first, first]


def _eliminate(xp: Namespace, A: Array, k: int, size: int, *, hermitian: bool) -> None:
    end = k + size
    block = A[k:end, k:end].copy()
    if size == 2:
        block[0, 1] = block[1, 0].conj() if hermitian else block[1, 0]
    columns = A[end:, k:end].copy()
    factors = xp.linalg.solve(block.T, columns.T).T if len(columns) else columns
    update = factors @ (columns.conj().T if hermitian else columns.T)
    A[end:, end:] -= xp.tril(update)
    A[end:, k:end] = factors
    if hermitian:
        places = xp.arange(end, len(A))
        A[places, places] = A[places, places].real


@primitive(
    A=_no_derivative,
    outputs="LD pivots info",
    fixed="pivots info",
    node="LinalgLdlFactorExBackward0",
)
def _ldl_factor(xp: Namespace, A: Array, hermitian: bool, strict: bool) -> Any:
    n = A.shape[-1]
    LD = by_columns(xp, xp.tril(A))
    pivots = xp.zeros(A.shape[:-1], xp.int32)
    info = xp.zeros(A.shape[:-2], xp.int32)
    conjugates = hermitian and A.dtype.kind == "c"
    for at in xp.ndindex(A.shape[:-2]) if n else ():
        info[at] = _factor_one(xp, LD[at], pivots[at], hermitian=conjugates)
    if strict:
        _check(info)
    return LD, pivots, info


_Ldl = result_class("linalg_ldl_factor", "LD pivots")
_LdlEx = result_class("linalg_ldl_factor_ex", "LD pivots info")


def ldl_factor_ex(
    input: Any, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """As `ldl_factor`, with the number of each matrix's first zero pivot, and no error.

    >>> import pullback as torch
    >>> torch.linalg.ldl_factor_ex(torch.tensor([[4.0, 2.0], [2.0, 3.0]])).info
    tensor(0, dtype=torch.int32)
    """
    check_square("linalg.ldl_factor_ex", input._array)
    results = _ldl_factor(input, bool(hermitian), bool(check_errors))
    return delivered_all("linalg.ldl_factor_ex", _LdlEx(results), out)


def _check(info: Array) -> None:
    if info.any():
        where, step = place(info)
        raise RuntimeError(
            f"linalg.ldl_factor: D has a zero block at place {step}{where}: the matrix is singular."
        )


def ldl_factor(input: Any, *, hermitian: bool = False, out: Any = None) -> Any:
    """`A = P L D L^T P^T`, packed as LAPACK does; D has blocks of size 1 and 2.

    >>> import pullback as torch
    >>> torch.linalg.ldl_factor(torch.tensor([[4.0, 2.0], [2.0, 3.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])
    """
    packed, pivots, _ = ldl_factor_ex(input, hermitian=hermitian, check_errors=True)
    return delivered_all("linalg.ldl_factor", _Ldl((packed, pivots)), out)


@primitive(LD=_refuse, B=_refuse, batch=together, node="LinalgLdlSolveBackward0")
def _ldl_solve(xp: Namespace, LD: Array, pivots: Array, B: Array, hermitian: bool) -> Array:
    batch = xp.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    X = xp.array(xp.broadcast_to(B, batch + B.shape[-2:]).mT, order="C").mT
    LD = xp.broadcast_to(LD, batch + LD.shape[-2:])
    pivots = xp.broadcast_to(pivots, batch + pivots.shape[-1:])
    conjugates = hermitian and LD.dtype.kind == "c"
    for at in xp.ndindex(batch):
        _solve_one(xp, LD[at], pivots[at], X[at], hermitian=conjugates)
    return X


def _blocks(pivots: Array) -> list[tuple[int, int]]:
    blocks, k = [], 0
    while k < len(pivots):
        size = 2 if pivots[k] < 0 else 1
        blocks.append((k, size))
        k += size
    return blocks


def _solve_one(xp: Namespace, LD: Array, pivots: Array, X: Array, *, hermitian: bool) -> None:
    """Forwards through the factors, the blocks of D, and back."""
    blocks = _blocks(pivots)
    for k, size in blocks:
        first, row, end = k + size - 1, abs(int(pivots[k])) - 1, k + size
        X[[first, row]] = X[[row, first]]
        X[end:] -= LD[end:, k:end] @ X[k:end]
        block = LD[k:end, k:end].copy()
        if size == 2:
            block[0, 1] = block[1, 0].conj() if hermitian else block[1, 0]
        X[k:end] = xp.linalg.solve(block, X[k:end])
    for k, size in reversed(blocks):
        first, row, end = k + size - 1, abs(int(pivots[k])) - 1, k + size
        columns = LD[end:, k:end]
        X[k:end] -= (columns.conj() if hermitian else columns).T @ X[end:]
        X[[first, row]] = X[[row, first]]


def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False, out: Any = None) -> Any:
    """The solution of `A X = B`, given what `ldl_factor` made of `A`.

    >>> import pullback as torch
    >>> A = torch.tensor([[4.0, 0.0], [0.0, 2.0]])
    >>> torch.linalg.ldl_solve(*torch.linalg.ldl_factor(A), torch.tensor([[4.0], [4.0]]))
    tensor([[1.],
            [2.]])
    """
    check_system("linalg.ldl_solve", LD, B, left=True)
    check_rows("linalg.ldl_solve", LD, pivots, "ldl_factor")
    return delivered("linalg.ldl_solve", _ldl_solve(LD, pivots, B, bool(hermitian)), out)
