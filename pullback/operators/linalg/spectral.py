"""Eigenvalues and singular values, with their vectors.

Vectors are determined up to a phase (a sign, for real matrices). A loss that depends on the phase
has no derivative, and is refused where that can be seen. Where values coincide, so that vectors may
turn into one another, derivatives through the vectors are infinite or NaN; those through the values
are not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy

from pullback.core.mode import fast, get_mode
from pullback.operators.arrays.lapack import lapack
from pullback.operators.declare import Array, Namespace, elementwise, method, primitive
from pullback.operators.indexing.gather import enlarged
from pullback.operators.linalg.checks import (
    LinAlgError,
    absent,
    adjoint,
    check_matrices,
    check_square,
    delivered_all,
)
from pullback.operators.linalg.products import delivered, matmul
from pullback.operators.linalg.solve import solved_exactly
from pullback.operators.pointwise.arithmetic import conj, is_complex
from pullback.operators.pointwise.complex import imag, real
from pullback.operators.results import result_class
from pullback.operators.shape.diagonals import diag_embed
from pullback.operators.shape.views import diagonal
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "svd", "linalg": "eig eigh eigvals eigvalsh svd=linalg_svd svdvals"}


# What rules share ---------------------------------------------------------------------------------


@elementwise(
    input=lambda g, gap: over_gap(g, conj(gap)),
    gap=lambda g, gap, out: over_gap(-g * conj(out), conj(gap)),
    promote=None,
    method=False,
    has_out=False,
    aten="",
)
def over_gap(xp: Namespace, input: Array, gap: Array) -> Array:
    """`input / gap` off the diagonal, 0 on it. Where values coincide 0 / 0 is NaN: no derivative.

    0 would be an answer that looks right: the function A -> V f(L) V^H, say, has a derivative
    there, which these formulas cannot give.
    """
    out = xp.true_divide(input, gap)
    xp.copyto(out, 0, where=_diagonal_of(out.shape[-1]))
    return out


@lru_cache(256)
def _diagonal_of(n: int) -> Array:
    return numpy.eye(n, dtype=bool)


def _gaps(values: Any) -> Any:
    """The differences `values[j] - values[i]`."""
    return values[..., None, :] - values[..., :, None]


def _diagonal(matrix: Any) -> Any:
    return diagonal(matrix, 0, matrix.ndim - 2, matrix.ndim - 1)


def _times_i(x: Any) -> Any:
    return x * 1j


@primitive(has_out=False)
def _check_phase(xp: Namespace, phase: Array, caller: str) -> Array:
    """Refuse a loss whose derivative along the free phase of the vectors is not zero."""
    if (xp.abs(phase) > 1e-2).any():
        raise RuntimeError(
            f"{caller}: the loss depends on the phase of the vectors, which is arbitrary, so that "
            "its gradient means nothing. Make it independent of a factor e^(i phi) on each vector: "
            "use absolute values, or products such as v v^H."
        )
    return phase


def failed(op: str) -> LinAlgError:
    """What is raised where LAPACK does not converge."""
    return LinAlgError(
        f"{op}: the iteration did not converge; look for infinite or NaN elements, or matrices "
        "that are extremely badly scaled."
    )


# Hermitian matrices -------------------------------------------------------------------------------


def _eigh_adjoint(
    g_eigenvalues: Any, g_eigenvectors: Any, eigenvalues: Any, eigenvectors: Any
) -> Any:
    V = eigenvectors
    if absent(g_eigenvectors):
        return matmul(V * g_eigenvalues[..., None, :], adjoint(V))
    core = matmul(adjoint(V), g_eigenvectors)
    if is_complex(core):
        _check_phase(imag(_diagonal(core)), "linalg.eigh")
    turned = over_gap((core - adjoint(core)) / 2, _gaps(eigenvalues))
    return matmul(V, matmul(turned + diag_embed(g_eigenvalues), adjoint(V)))


def _eigh_tangents(d_A: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    V = eigenvectors
    core = matmul(adjoint(V), matmul((d_A + adjoint(d_A)) / 2, V))
    return real(_diagonal(core)), matmul(V, over_gap(core, _gaps(eigenvalues)))


@primitive(
    A=_eigh_adjoint,
    jvp=_eigh_tangents,
    outputs="eigenvalues eigenvectors",
    node="LinalgEighBackward0",
)
def _eigh(xp: Namespace, A: Array, UPLO: str) -> Any:
    try:
        values, vectors = lapack(xp, "eigh_lo" if UPLO == "L" else "eigh_up", A)
    except numpy.linalg.LinAlgError:
        raise failed("linalg.eigh") from None
    return values, vectors


def _eigvalsh_tangent(d_A: Any, A: Any, UPLO: str) -> Any:
    _, V = _eigh(A, UPLO)
    return real(_diagonal(matmul(adjoint(V), matmul((d_A + adjoint(d_A)) / 2, V))))


def _eigvalsh_adjoint(g: Any, A: Any, UPLO: str) -> Any:
    _, V = _eigh(A, UPLO)
    return matmul(V * g[..., None, :], adjoint(V))


@primitive(A=_eigvalsh_adjoint, jvp=_eigvalsh_tangent, node="LinalgEighBackward0")
def _eigvalsh(xp: Namespace, A: Array, UPLO: str) -> Array:
    try:
        return lapack(xp, "eigvalsh_lo" if UPLO == "L" else "eigvalsh_up", A)
    except numpy.linalg.LinAlgError:
        raise failed("linalg.eigvalsh") from None


_Eigh = result_class("linalg_eigh", "eigenvalues eigenvectors")


def eigh(input: Any, UPLO: str = "L", *, out: Any = None) -> Any:
    """Eigenvalues, in rising order, and eigenvectors (columns) of symmetric or Hermitian matrices.

    >>> import pullback as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check_square("linalg.eigh", input._array)
    return delivered_all("linalg.eigh", _Eigh(_eigh(input, _triangle("linalg.eigh", UPLO))), out)


def eigvalsh(input: Any, UPLO: str = "L", *, out: Any = None) -> Any:
    """Eigenvalues of symmetric or Hermitian matrices, in rising order.

    >>> import pullback as torch
    >>> torch.linalg.eigvalsh(torch.tensor([[3.0, 0.0], [0.0, 2.0]]))
    tensor([2., 3.])
    """
    check_square("linalg.eigvalsh", input._array)
    result = _eigvalsh(input, _triangle("linalg.eigvalsh", UPLO))
    return delivered("linalg.eigvalsh", result, out)


def _triangle(op: str, uplo: str) -> str:
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"{op}: UPLO, the triangle to read, must be 'L' or 'U', got {uplo!r}.")
    return uplo.upper()


# Any square matrices ------------------------------------------------------------------------------


def _eig_adjoint(
    g_eigenvalues: Any, g_eigenvectors: Any, eigenvalues: Any, eigenvectors: Any
) -> Any:
    V = eigenvectors
    core = diag_embed(g_eigenvalues)
    if not absent(g_eigenvectors):
        turned = matmul(adjoint(V), g_eigenvectors)
        along = _diagonal(turned)
        _check_phase(imag(along), "linalg.eig")
        # Vectors have length 1: what would stretch them is taken out.
        turned = turned - matmul(adjoint(V), V * real(along)[..., None, :])
        core = core + over_gap(turned, conj(_gaps(eigenvalues)))
    return solved_exactly(adjoint(V), matmul(core, adjoint(V)))


def _eig_tangents(d_A: Any, eigenvalues: Any, eigenvectors: Any) -> tuple[Any, Any]:
    V = eigenvectors
    core = solved_exactly(V, matmul(astype(d_A, V.dtype), V))
    turned = matmul(V, over_gap(core, _gaps(eigenvalues)))
    stretch = real(_diagonal(matmul(adjoint(V), turned)))
    return _diagonal(core), turned - V * stretch[..., None, :]


@primitive(
    A=_eig_adjoint,
    jvp=_eig_tangents,
    outputs="eigenvalues eigenvectors",
    node="LinalgEigBackward0",
    aten="linalg_eig.default(A)",
)
def _eig(xp: Namespace, A: Array) -> Any:
    if not xp.isfinite(A).all():
        raise RuntimeError("linalg.eig: the matrix has infinite or NaN elements.")
    try:
        values, vectors = xp.linalg.eig(A)
    except numpy.linalg.LinAlgError:
        raise failed("linalg.eig") from None
    dtype = xp.result_type(A.dtype, xp.complex64)
    return values.astype(dtype), vectors.astype(dtype)


_Eig = result_class("linalg_eig", "eigenvalues eigenvectors")


def eig(input: Any, *, out: Any = None) -> Any:
    """Eigenvalues and eigenvectors (columns of length 1); complex, in no order.

    >>> import pullback as torch
    >>> torch.linalg.eig(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j])
    """
    check_square("linalg.eig", input._array)
    return delivered_all("linalg.eig", _Eig(_eig(input)), out)


def eigvals(input: Any, *, out: Any = None) -> Any:
    """Eigenvalues of square matrices; complex, in no order.

    >>> import pullback as torch
    >>> torch.linalg.eigvals(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).imag.abs()
    tensor([1., 1.])
    """
    check_square("linalg.eigvals", input._array)
    return delivered("linalg.eigvals", _eig(input)[0], out)


# Singular values ----------------------------------------------------------------------------------


def _svd_adjoint(
    g_U: Any, g_S: Any, g_Vh: Any, U: Any, S: Any, Vh: Any, full_matrices: bool
) -> Any:
    no_u, no_v = absent(g_U), absent(g_Vh)
    k = S.shape[-1]
    if full_matrices and U.shape[-1] != Vh.shape[-1]:
        _check_added(g_U[..., k:])
        _check_added(g_Vh[..., k:, :])
        U, g_U, Vh, g_Vh = U[..., :k], g_U[..., :k], Vh[..., :k, :], g_Vh[..., :k, :]
    if no_u and no_v:
        return matmul(U * g_S[..., None, :], Vh)
    core = diag_embed(g_S)
    gap = _gaps(S) * (S[..., None, :] + S[..., :, None])
    turn_u, turn_v = matmul(adjoint(U), g_U), matmul(g_Vh, adjoint(Vh))
    if is_complex(U):
        phase = imag(_diagonal(turn_u))
        _check_phase(phase - imag(_diagonal(turn_v)), "linalg.svd")
        core = core + diag_embed(_times_i(phase / S))
    core = core + over_gap(turn_u - adjoint(turn_u), gap) * S[..., None, :]
    core = core + S[..., :, None] * over_gap(adjoint(turn_v) - turn_v, gap)
    result = matmul(U, matmul(core, Vh))
    # What leaves the span of the vectors, where there are fewer of them than dimensions.
    if U.shape[-2] > k:
        result = result + matmul((g_U - matmul(U, turn_u)) / S[..., None, :], Vh)
    if Vh.shape[-1] > k:
        result = result + matmul(U, (g_Vh - matmul(turn_v, Vh)) / S[..., :, None])
    return result


@primitive(has_out=False)
def _check_added(xp: Namespace, g: Array) -> Array:
    """Refuse a loss that depends on vectors beyond the span, which full_matrices adds."""
    if g.any():
        raise RuntimeError(
            "linalg.svd: the loss depends on vectors that full_matrices=True adds to those of the "
            "matrix; they are arbitrary, and have no derivative. Use full_matrices=False."
        )
    return g


def _svd_tangents(d_A: Any, U: Any, S: Any, Vh: Any) -> tuple[Any, Any, Any]:
    k = S.shape[-1]
    whole = U.shape, Vh.shape  # vectors that full_matrices adds get no tangent
    U, Vh = U[..., :k], Vh[..., :k, :]
    core = matmul(adjoint(U), matmul(d_A, adjoint(Vh)))
    d_S = real(_diagonal(core))
    gap = _gaps(S) * (S[..., None, :] + S[..., :, None])
    row, column = S[..., None, :], S[..., :, None]
    turn_u = over_gap(core * row + column * adjoint(core), gap)
    turn_v = over_gap(column * core + adjoint(core) * row, gap)
    if is_complex(core):
        turn_u = turn_u + diag_embed(_times_i(imag(_diagonal(core)) / (S * 2)))
        turn_v = turn_v - diag_embed(_times_i(imag(_diagonal(core)) / (S * 2)))
    d_U, d_Vh = matmul(U, turn_u), matmul(adjoint(turn_v), Vh)
    if U.shape[-2] > k:
        moved = matmul(d_A, adjoint(Vh))
        d_U = d_U + (moved - matmul(U, core)) / row
    if Vh.shape[-1] > k:
        moved = matmul(adjoint(U), d_A)
        d_Vh = d_Vh + (moved - matmul(core, Vh)) / column
    return enlarged(d_U, whole[0]), d_S, enlarged(d_Vh, whole[1])


@primitive(
    A=_svd_adjoint,
    jvp=_svd_tangents,
    outputs="U S Vh",
    node="LinalgSvdBackward0",
    name="_linalg_svd",
)
def _svd(xp: Namespace, A: Array, full_matrices: bool) -> Any:
    try:
        U, S, Vh = lapack(xp, "svd_f" if full_matrices else "svd_s", A)
    except numpy.linalg.LinAlgError:
        raise failed("linalg.svd") from None
    return U, xp.abs(S), Vh  # LAPACK's zeros may be negative, and what is divided by them, too


@primitive()
def _values_alone(xp: Namespace, A: Array) -> Array:
    try:
        return xp.abs(lapack(xp, "svd", A))
    except numpy.linalg.LinAlgError:
        raise failed("linalg.svdvals") from None


def _svdvals(A: Any) -> Any:
    """The values; a derivative wants the vectors too, which come at once where one may be taken."""
    mode = get_mode()
    if mode is fast.no_grad or (mode is fast.plain and not A.requires_grad):
        return _values_alone(A)
    return _svd(A, False)[1]


_LinalgSvd = result_class("linalg_svd", "U S Vh")
_Svd = result_class("svd", "U S V")


def _check_driver(op: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(f"{op}: driver={driver!r} is for GPUs alone; leave it away.")


def linalg_svd(
    A: Any, full_matrices: bool = True, *, driver: str | None = None, out: Any = None
) -> Any:
    """`A` as `U diag(S) Vh`, with orthonormal columns of `U` and rows of `Vh`, and `S` falling.

    Args:
        A: The matrices.
        full_matrices: Whether `U` and `Vh` are completed to square matrices.
        driver: None; others are methods of a GPU.
        out: Where to put the results.

    >>> import pullback as torch
    >>> U, S, Vh = torch.linalg.svd(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> S
    tensor([4., 3.])
    """
    check_matrices("linalg.svd", A._array)
    _check_driver("linalg.svd", driver)
    return delivered_all("linalg.svd", _LinalgSvd(_svd(A, bool(full_matrices))), out)


def svdvals(A: Any, *, driver: str | None = None, out: Any = None) -> Any:
    """Singular values, falling.

    >>> import pullback as torch
    >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    check_matrices("linalg.svdvals", A._array)
    _check_driver("linalg.svdvals", driver)
    return delivered("linalg.svdvals", _svdvals(A), out)


@method
def svd(input: Any, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """The older form of `linalg.svd`: returns `V`, not its adjoint, reduced unless `some=False`.

    >>> import pullback as torch
    >>> U, S, V = torch.svd(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> S
    tensor([4., 3.])
    """
    check_matrices("svd", input._array)
    if compute_uv:
        U, S, Vh = _svd(input, not some)
        return delivered_all("svd", _Svd((U, S, adjoint(Vh))), out)
    m, n = input.shape[-2:]
    plain = input.detach()
    batch = tuple(input.shape[:-2])
    nothing = plain.new_zeros((*batch, m, m)), plain.new_zeros((*batch, n, n))
    return delivered_all("svd", _Svd((nothing[0], _svdvals(input), nothing[1])), out)
