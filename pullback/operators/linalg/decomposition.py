"""Cholesky and QR decompositions, and products of the reflections that QR is made of."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy

from pullback.operators.arrays.lapack import by_columns, lapack
from pullback.operators.arrays.lapack import qr as qr_of
from pullback.operators.create.sizes import eye
from pullback.operators.declare import Array, Namespace, linear, method, primitive
from pullback.operators.indexing.selection import tril, triu
from pullback.operators.linalg.checks import (
    LinAlgError,
    adjoint,
    check_matrices,
    check_same_dtype,
    check_square,
    delivered_all,
    place,
)
from pullback.operators.linalg.products import delivered, matmul
from pullback.operators.linalg.triangular import triangular
from pullback.operators.results import result_class
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.diagonals import diag_embed
from pullback.operators.shape.joining import cat

FOUND_IN = {
    "torch": "cholesky geqrf orgqr ormqr qr",
    "linalg": "cholesky=linalg_cholesky cholesky_ex householder_product qr=linalg_qr",
}


@linear(input=lambda g, lower: _half(g, lower), has_out=False)
def _half(xp: Namespace, input: Array, lower: bool) -> Array:
    """The lower or upper triangle with half of the diagonal."""
    return input * _halves(input.shape[-1], lower, input.real.dtype)


@lru_cache(256)
def _halves(n: int, lower: bool, dtype: Any) -> Array:
    weights = numpy.tri(n, dtype=dtype)
    weights[range(n), range(n)] = 0.5
    return weights if lower else weights.T


# Cholesky -----------------------------------------------------------------------------------------


def _cholesky_adjoint(g_L: Any, L: Any, upper: bool) -> Any:
    if upper:
        L, g_L = adjoint(L), adjoint(g_L)
    core = tril(matmul(adjoint(L), g_L))
    core = triangular(adjoint(L), (core + adjoint(tril(core, -1))) / 2, True, True, False)
    return triangular(L, core, False, False, False)


def _cholesky_tangent(d_A: Any, L: Any, upper: bool) -> Any:
    if upper:
        L = adjoint(L)
    change = triangular(L, (d_A + adjoint(d_A)) / 2, False, True, False)
    change = triangular(adjoint(L), change, True, False, False)
    d_L = matmul(L, _half(change, True))
    return (adjoint(d_L) if upper else d_L,)


@primitive(
    A=_cholesky_adjoint,
    jvp=_cholesky_tangent,
    outputs="L info",
    fixed="info",
    node="LinalgCholeskyExBackward0",
)
def _cholesky(xp: Namespace, A: Array, upper: bool, strict: str) -> Any:
    try:
        factor = lapack(xp, "cholesky_up" if upper else "cholesky_lo", A, refuse_nan=True)
        return factor, xp.zeros(A.shape[:-2], xp.int32)
    except numpy.linalg.LinAlgError:
        pass
    factor, info = _column_by_column(xp, A.mT.conj() if upper else A)
    _check_definite(strict, info)
    return by_columns(xp, xp.conjugate(factor.mT) if upper else factor), info


def _column_by_column(xp: Namespace, A: Array) -> tuple[Array, Array]:
    """Column by column, to find for each matrix the first leading minor that is not positive."""
    L = xp.tril(A)
    n = A.shape[-1]
    info = xp.zeros(A.shape[:-2], xp.int32)
    for j in range(n):
        pivot = L[..., j, j].real
        failed = ~(pivot > 0) & (info == 0)
        info = xp.where(failed, j + 1, info).astype(xp.int32)
        going = info == 0
        root = xp.sqrt(xp.where(going, pivot, 1))
        L[..., j, j] = xp.where(going, root, L[..., j, j])
        L[..., j + 1 :, j] /= root[..., None]
        column = xp.where(going[..., None], L[..., j + 1 :, j], 0)
        L[..., j + 1 :, j + 1 :] -= xp.tril(
            column[..., :, None] * xp.conjugate(column)[..., None, :]
        )
    return L, info


def _check_definite(strict: str, info: Array) -> None:
    if strict and info.any():
        where, order = place(info)
        raise LinAlgError(
            f"{strict}: the matrix{where} is not positive-definite: its leading minor of order "
            f"{order} is "
            "not positive. Check that it is symmetric (Hermitian), or add a multiple of the "
            "identity."
        )


_CholeskyEx = result_class("linalg_cholesky_ex", "L info")


def cholesky_ex(
    input: Any, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """As `linalg.cholesky`, and for each matrix the order of the minor that failed (0: none).

    >>> import pullback as torch
    >>> torch.linalg.cholesky_ex(torch.tensor([[-1.0]])).info
    tensor(1, dtype=torch.int32)
    """
    check_square("linalg.cholesky_ex", input._array)
    results = _cholesky(input, bool(upper), "linalg.cholesky_ex" if check_errors else "")
    return delivered_all("linalg.cholesky_ex", _CholeskyEx(results), out)


def linalg_cholesky(input: Any, *, upper: bool = False, out: Any = None) -> Any:
    """The triangle `L` with `A = L L^H`, or `U` with `A = U^H U` if `upper`.

    One triangle of `input` is read, and the gradient is Hermitian.

    >>> import pullback as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    check_square("linalg.cholesky", input._array)
    return delivered("linalg.cholesky", _cholesky(input, bool(upper), "linalg.cholesky")[0], out)


@method
def cholesky(input: Any, upper: bool = False, *, out: Any = None) -> Any:
    """The older name of `linalg.cholesky`.

    >>> import pullback as torch
    >>> torch.cholesky(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    check_square("cholesky", input._array)
    factor = _cholesky(input, bool(upper), "cholesky")[0]
    return delivered("cholesky", shown_as("CholeskyBackward0", factor), out)


# QR -----------------------------------------------------------------------------------------------


def _qr_adjoint(g_Q: Any, g_R: Any, Q: Any, R: Any, form: str) -> Any:
    """With C = Q^H dA R^-1: dR = U(C) R and dQ = dA R^-1 - Q U(C), U(C) the upper half of C + C^H.

    The columns of a wide matrix beyond the square are just Q times those of R.
    """
    _check_differentiable(form, Q.shape, R.shape)
    m, n = Q.shape[-2], R.shape[-1]
    square, g_square, beside = R, g_R, None
    if m < n:
        square, g_square = R[..., :m], g_R[..., :m]
        beside = matmul(Q, g_R[..., m:])
        g_Q = g_Q + matmul(matmul(Q, R[..., m:]), adjoint(g_R[..., m:]))
    core = _half(matmul(g_square, adjoint(square)) - matmul(adjoint(Q), g_Q), False)
    core = g_Q + matmul(Q, core + adjoint(core))
    g_A = triangular(adjoint(square), core, False, False, False)
    return g_A if beside is None else cat([g_A, beside], -1)


def _qr_tangents(d_A: Any, Q: Any, R: Any, form: str) -> tuple[Any, Any]:
    _check_differentiable(form, Q.shape, R.shape)
    m, n = Q.shape[-2], R.shape[-1]
    square = R[..., :m] if m < n else R
    change = triangular(square, d_A[..., : square.shape[-1]], True, False, False)
    core = matmul(adjoint(Q), change)
    core = _half(core + adjoint(core), False)
    d_Q = change - matmul(Q, core)
    d_R = matmul(core, square)
    if m < n:
        rest = d_A[..., m:] - matmul(d_Q, R[..., m:])
        d_R = cat([d_R, matmul(adjoint(Q), rest)], -1)
    return d_Q, d_R


def _check_differentiable(form: str, q_shape: Any, r_shape: Any) -> None:
    if form == "r":
        raise RuntimeError(
            "linalg.qr: has no derivative with mode='r', which leaves out the Q that it needs; use "
            "mode='reduced'."
        )
    if form == "complete" and q_shape[-2] > r_shape[-1]:
        raise RuntimeError(
            f"linalg.qr: has no derivative with mode='complete' for more rows ({q_shape[-2]}) than "
            f"columns ({r_shape[-1]}): the added columns of Q are arbitrary. Use mode='reduced'."
        )


@primitive(
    A=_qr_adjoint,
    jvp=_qr_tangents,
    outputs="Q R",
    node="LinalgQrBackward0",
    name="_linalg_qr",
    aten="linalg_qr.default(A form)",
    aten_defaults={"form": "reduced"},
)
def _qr(xp: Namespace, A: Array, form: str) -> Any:
    if form == "r":
        return xp.empty((0,), A.dtype), by_columns(xp, xp.linalg.qr(A, "r"))
    if form == "reduced":
        return qr_of(xp, A)
    return tuple(by_columns(xp, factor) for factor in xp.linalg.qr(A, form))


_LinalgQr = result_class("linalg_qr", "Q R")
_Qr = result_class("qr", "Q R")
_Geqrf = result_class("geqrf", "a tau")


def linalg_qr(A: Any, mode: str = "reduced", *, out: Any = None) -> Any:
    """`A` as the product of orthonormal columns and an upper triangle.

    Args:
        A: The matrices.
        mode: "reduced", "complete" (square `Q`) or "r" (an empty `Q`).
        out: Where to put the results.

    >>> import pullback as torch
    >>> Q, R = torch.linalg.qr(torch.tensor([[3.0, 1.0], [4.0, 1.0]]))
    >>> torch.allclose(Q @ R, torch.tensor([[3.0, 1.0], [4.0, 1.0]]), atol=1e-6)
    True
    """
    check_matrices("linalg.qr", A._array)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', got {mode!r}.")
    return delivered_all("linalg.qr", _LinalgQr(_qr(A, mode)), out)


@method
def qr(input: Any, some: bool = True, *, out: Any = None) -> Any:
    """The older name of `linalg.qr`; `some=False` is mode "complete".

    >>> import pullback as torch
    >>> Q, R = torch.qr(torch.tensor([[3.0], [4.0]]))
    >>> torch.allclose(Q @ R, torch.tensor([[3.0], [4.0]]), atol=1e-6)
    True
    """
    return delivered_all("qr", _Qr(linalg_qr(input, "reduced" if some else "complete")), out)


# Reflections --------------------------------------------------------------------------------------


def _no_derivative(g_a: Any, g_tau: Any) -> Any:
    raise NotImplementedError("geqrf: has no derivative; use linalg.qr.")


@primitive(input=_no_derivative, outputs="a tau", node="GeqrfBackward0", aten="geqrf.default")
def _geqrf(xp: Namespace, input: Array) -> Any:
    packed, tau = xp.linalg.qr(input, "raw")
    return by_columns(xp, packed.mT), tau


@method
def geqrf(input: Any, *, out: Any = None) -> Any:
    """QR as LAPACK keeps it: `R` above the diagonal, the vectors of the reflections below.

    >>> import pullback as torch
    >>> torch.geqrf(torch.tensor([[3.0], [4.0]])).a
    tensor([[-5.0000],
            [ 0.5000]])
    """
    check_matrices("geqrf", input._array, "input")
    return delivered_all("geqrf", _Geqrf(_geqrf(input)), out)


def _reflected(A: Any, tau: Any, other: Any, inverse: bool) -> Any:
    """The product H1 H2 ... of reflections, or its adjoint, times `other`.

    H1 H2 ... = I - V T V^H, with the vectors as columns of V, and T = (1 + D S)^-1 D, D =
    diag(tau) and S the strict upper triangle of V^H V: products and one small triangle instead of
    a loop.
    """
    k = tau.shape[-1]
    V = tril(A[..., :k], -1) + eye(A.shape[-2], k, dtype=A.dtype, device=A.device)
    scaled = diag_embed(tau)
    T = triangular(matmul(scaled, triu(matmul(adjoint(V), V), 1)), scaled, True, True, True)
    core = matmul(adjoint(T) if inverse else T, matmul(adjoint(V), other))
    return other - matmul(V, core)


def householder_product(input: Any, tau: Any, *, out: Any = None) -> Any:
    """The first columns of the product of the reflections that `geqrf` returned.

    >>> import pullback as torch
    >>> torch.linalg.householder_product(*torch.geqrf(torch.tensor([[3.0], [4.0]]))).abs()
    tensor([[0.6000],
            [0.8000]])
    """
    op = "linalg.householder_product"
    check_matrices(op, input._array)
    _check_reflections(op, input, tau)
    m, n = input.shape[-2:]
    if m < n:
        raise RuntimeError(
            f"{op}: A must not have more columns than rows, got shape {tuple(input.shape)}."
        )
    product = _reflected(
        input, tau, eye(m, n, dtype=input.dtype, device=input.device), inverse=False
    )
    return delivered(op, shown_as("LinalgHouseholderProductBackward0", product), out)


@method
def orgqr(input: Any, input2: Any, *, out: Any = None) -> Any:
    """`linalg.householder_product` under its older name."""
    return householder_product(input, input2, out=out)


def _check_reflections(op: str, A: Any, tau: Any) -> None:
    check_same_dtype(op, A._array, tau._array, "the reflections and tau")
    if tau.shape[:-1] != A.shape[:-2] or tau.ndim != A.ndim - 1 or tau.shape[-1] > A.shape[-1]:
        raise RuntimeError(
            f"{op}: tau needs the batch dimensions of the reflections, and at most as many "
            f"elements as they have columns; got shapes {tuple(A.shape)} and {tuple(tau.shape)}."
        )


@method
def ormqr(
    input: Any,
    input2: Any,
    input3: Any,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Any = None,
) -> Any:
    """The product of all reflections, or its adjoint, times `input3` on its `left` or right.

    >>> import pullback as torch
    >>> a, tau = torch.geqrf(torch.tensor([[3.0], [4.0]]))
    >>> torch.ormqr(a, tau, torch.tensor([[1.0], [0.0]])).shape
    torch.Size([2, 1])
    """
    check_matrices("ormqr", input._array, "input")
    check_matrices("ormqr", input3._array, "other")
    check_same_dtype("ormqr", input._array, input3._array, "input and other")
    _check_reflections("ormqr", input, input2)
    if input3.shape[-2 if left else -1] != input.shape[-2]:
        raise RuntimeError(
            f"ormqr: other of shape {tuple(input3.shape)} does not fit reflections of "
            f"{input.shape[-2]} rows on its {'left' if left else 'right'}."
        )
    if input2.shape[-1] != min(input.shape[-2:]):
        raise RuntimeError(
            f"ormqr: reflections of shape {tuple(input.shape)} need {min(input.shape[-2:])} "
            f"elements of tau, got {input2.shape[-1]}."
        )
    if left:
        result = _reflected(input, input2, input3, bool(transpose))
    else:  # C Q is (Q^H C^H)^H
        result = adjoint(_reflected(input, input2, adjoint(input3), not transpose))
    return delivered("ormqr", shown_as("OrmqrBackward0", result), out)
