"""Answers for matrices that have no inverse: pseudo-inverses, and solutions by least squares."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.tensor import Tensor
from pullback.operators.arrays.lapack import lapack
from pullback.operators.batching import aligned
from pullback.operators.declare import Array, Namespace, method, primitive
from pullback.operators.linalg.checks import (
    adjoint,
    check_matrices,
    check_same_dtype,
    check_square,
    delivered_all,
)
from pullback.operators.linalg.matrix_functions import tolerances
from pullback.operators.linalg.products import delivered, matmul
from pullback.operators.linalg.spectral import failed, svdvals
from pullback.operators.pointwise.arithmetic import conj
from pullback.operators.pointwise.complex import real
from pullback.operators.reduce.sums import sum
from pullback.operators.results import result_class
from pullback.operators.running.by_example import each_example, level_reading
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape

FOUND_IN = {"torch": "pinverse", "linalg": "lstsq pinv"}

# Pseudo-inverses ----------------------------------------------------------------------------------


def _pinv_adjoint(g: Any, A: Any, out: Any) -> Any:
    """From dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P; the rank is held fixed."""
    P, back = out, adjoint(g)
    through = matmul(back, P)  # in the order of products that keeps them small
    first = -adjoint(matmul(P, through))
    second = matmul(through, adjoint(P))
    third = matmul(adjoint(P), matmul(P, back))
    second = second - matmul(A, matmul(P, second))
    return first + second + (third - matmul(matmul(third, P), A))


def _pinv_tangent(d_A: Any, A: Any, out: Any) -> Any:
    P, change = out, adjoint(d_A)
    inner = matmul(P, matmul(adjoint(P), change))
    outer = matmul(change, matmul(adjoint(P), P))
    return (inner - matmul(matmul(inner, A), P) + outer - matmul(P, matmul(A, outer))) - matmul(
        P, matmul(d_A, P)
    )


@primitive(A=_pinv_adjoint, jvp=_pinv_tangent, node="LinalgPinvBackward0", name="_linalg_pinv")
def _pinv(xp: Namespace, A: Array, atol: Any, rtol: Any, hermitian: bool) -> Array:
    if not A.size:
        return xp.empty((*A.shape[:-2], A.shape[-1], A.shape[-2]), A.dtype)
    U, S, Vh = _factors(xp, A, hermitian, "linalg.pinv")
    size = xp.abs(S)
    least = _cutoff(xp, atol, rtol, size)
    inverse = xp.where(size > least, 1 / xp.where(size > least, S, 1), 0).astype(S.dtype)
    return xp.matmul(Vh.mT.conj() * inverse[..., None, :], U.mT.conj())


def _factors(xp: Namespace, A: Array, hermitian: bool, op: str) -> tuple[Array, Array, Array]:
    try:
        if not hermitian:
            return lapack(xp, "svd_s", A)  # type: ignore[no-any-return]
        S, U = lapack(xp, "eigh_lo", A)
    except numpy.linalg.LinAlgError:
        raise failed(op) from None
    return U, S, U.mT.conj()


def _cutoff(xp: Namespace, atol: Any, rtol: Any, size: Array) -> Array:
    absolute, relative = (xp.asarray(x, size.dtype)[..., None] for x in (atol, rtol))
    return xp.maximum(absolute, relative * size.max(-1, keepdims=True))


def pinv(
    input: Any,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Any = None,
) -> Any:
    """The pseudo-inverse: singular values up to `max(atol, rtol * the largest)` count as 0.

    >>> import pullback as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    if (level := level_reading(rcond, atol, rtol)) is not None:
        return each_example(level, pinv, input, rcond, hermitian, atol=atol, rtol=rtol, out=out)
    if hermitian:
        check_square("linalg.pinv", input._array)
    check_matrices("linalg.pinv", input._array)
    if rcond is not None:
        atol, rtol = 0.0, rcond
    absolute, relative = tolerances("linalg.pinv", input, atol, rtol)
    return delivered("linalg.pinv", _pinv(input, absolute, relative, bool(hermitian)), out)


@method
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The older name of `linalg.pinv`.

    >>> import pullback as torch
    >>> torch.pinverse(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return pinv(input, rcond)


# Least squares ------------------------------------------------------------------------------------

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _solution_of_a(g: Any, A: Any, B: Any, rtol: Any) -> Any:
    P = _pinv(A, 0.0, rtol, False)
    return _pinv_adjoint(matmul(g, adjoint(B)), A, P)


def _solution_tangent(d_A: Any, d_B: Any, A: Any, B: Any, rtol: Any) -> Any:
    P = _pinv(A, 0.0, rtol, False)
    result = None if d_B is None else matmul(P, d_B)
    if d_A is None:
        return result
    moved = matmul(_pinv_tangent(d_A, A, P), B)
    return moved if result is None else result + moved


@primitive(
    A=_solution_of_a,
    B=lambda g, A, rtol: matmul(adjoint(_pinv(A, 0.0, rtol, False)), g),
    jvp=_solution_tangent,
    batch=aligned,
    node="LinalgLstsqBackward0",
)
def _solution(xp: Namespace, A: Array, B: Array, rtol: Any) -> Array:
    if not A.size:
        shape = xp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
        return xp.zeros((*shape, A.shape[-1], B.shape[-1]), A.dtype)
    U, S, Vh = _factors(xp, A, False, "linalg.lstsq")
    keep = _cutoff(xp, 0.0, rtol, S) < S
    inverse = xp.where(keep, 1 / xp.where(keep, S, 1), 0).astype(S.dtype)
    along = xp.matmul(U.mT.conj(), B) * inverse[..., :, None]
    return xp.matmul(Vh.mT.conj(), along)


_Lstsq = result_class("linalg_lstsq", "solution residuals rank singular_values")


def lstsq(
    input: Any, b: Any, rcond: float | None = None, *, driver: str | None = None, out: Any = None
) -> Any:
    """The `X` with the smallest `A X - B`, in squares; the shortest, if there are many.

    Args:
        input: The matrices.
        b: The right sides, matrices or vectors.
        rcond: Singular values below this part of the largest count as 0.
        driver: "gelsy" (by default), "gels" (assumes full rank), "gelsd" or "gelss" (which return
        the singular values): LAPACK's names. All go through singular values here.
        out: Four tensors to write the results into.

    >>> import pullback as torch
    >>> torch.linalg.lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0], [3.0]])).solution
    tensor([[2.0000]])
    """
    op = "linalg.lstsq"
    check_matrices(op, input._array)
    check_same_dtype(op, input._array, b._array)
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise RuntimeError(f"{op}: driver must be one of {', '.join(_DRIVERS)}, got {driver!r}.")
    vector = b.ndim == 1 or (b.ndim == input.ndim - 1 and b.shape == input.shape[:-1])
    if not 0 <= input.ndim - b.ndim <= 1:
        raise RuntimeError(
            f"{op}: B must have as many dimensions as A, or one less (vectors), got shapes "
            f"{tuple(input.shape)} and {tuple(b.shape)}."
        )
    right = b[..., None] if vector else b
    if right.ndim < 2 or right.shape[-2] != input.shape[-2]:
        raise RuntimeError(
            f"{op}: B must have as many rows as A, got shapes {tuple(input.shape)} and "
            f"{tuple(b.shape)}."
        )
    smallest = _tolerance(input, rcond, driver)
    result = _solution(input, right, smallest)
    rank, values = _rank(input.detach(), smallest, driver)
    residuals = _residuals(input, right, result, rank, driver)
    solution = shown_as("LinalgLstsqBackward0", result[..., 0] if vector else result)
    if driver == "gels":
        rank = rank.new_empty((0,))
    if driver not in ("gelsd", "gelss"):
        values = values.new_empty((0,))
    return delivered_all(op, _Lstsq((solution, residuals, rank, values)), out)


def _tolerance(A: Any, rcond: float | None, driver: str) -> float:
    """The part of the largest singular value up to which others count as 0, as LAPACK has it."""
    eps = float(numpy.finfo(A._array.dtype).eps)
    if rcond is None:
        return eps * int(max(A.shape[-2:]))
    if driver == "gelsd" and not 0 <= rcond < 1:
        return eps
    if driver in ("gelsy", "gels"):  # what equals the limit counts, and the largest always
        return min(float(rcond), 1.0) * (1 - eps)
    return float(rcond)


def _rank(A: Any, smallest: float, driver: str) -> tuple[Any, Any]:
    values = svdvals(A)
    if not values.numel():
        return sum(values.new_zeros((*A.shape[:-2], 1)) != 0, -1), values
    return sum(values > values[..., :1] * smallest, -1), values


def _residuals(A: Any, B: Any, X: Any, rank: Any, driver: str) -> Any:
    """Sums of squares of what remains; nothing where that is 0, or `gelsy` does not say."""
    m, n = A.shape[-2:]
    # In a batch of vmap's the ranks cannot be looked at: they are taken to be full.
    full = type(rank) is not Tensor or bool((rank._array == n).all())
    if driver == "gelsy" or m <= n or not full:
        return real(reshape(X, (-1,))[:0])  # nothing, with the history of the solution
    rest = matmul(A, X) - B
    return real(sum(rest * conj(rest), -2))
