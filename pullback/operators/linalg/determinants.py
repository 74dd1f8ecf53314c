"""Determinants, whose derivatives exist for singular matrices too: det, slogdet, logdet.

The gradient of det(A) is the adjugate of A, a polynomial in its elements as the determinant itself
is. It is computed by the inverse where that is safe, by singular values where not; so are the next
two derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy

from pullback.operators.arrays.lapack import lapack, svd_or_nan
from pullback.operators.batching import aligned
from pullback.operators.declare import Array, Namespace, method, primitive
from pullback.operators.indexing.selection import where
from pullback.operators.linalg.checks import adjoint, check_square, delivered_all
from pullback.operators.linalg.products import delivered, matmul, total
from pullback.operators.linalg.solve import inverse_of
from pullback.operators.pointwise.arithmetic import conj, is_complex
from pullback.operators.pointwise.complex import imag, real
from pullback.operators.pointwise.exponentials import log
from pullback.operators.reduce.sums import sum
from pullback.operators.results import result_class

FOUND_IN = {"torch": "det logdet slogdet", "linalg": "det=linalg_det slogdet=linalg_slogdet"}

# The adjugate -------------------------------------------------------------------------------------


def _safe_inverse(xp: Namespace, A: Array) -> Array | None:
    """The inverse, unless a matrix is singular or so near it that few digits would be right."""
    try:
        B = lapack(xp, "inv", A)
    except numpy.linalg.LinAlgError:
        return None
    condition = _square(xp, A) * _square(xp, B)  # of Frobenius norms, so the square of one
    return B if (condition < float(xp.finfo(A.dtype).eps) ** -1.5).all() else None


def _square(xp: Namespace, A: Array) -> Array:
    flat = A.reshape(*A.shape[:-2], A.shape[-1] ** 2)
    return xp.asarray(xp.vecdot(flat, flat).real)


def _scale(xp: Namespace, A: Array) -> Array:
    return xp.asarray(lapack(xp, "det", A))[..., None, None]


@primitive(
    A=lambda g, A: _adjugate_change(adjoint(A), g), jvp=lambda d_A, A: _adjugate_change(A, d_A)
)
def _adjugate(xp: Namespace, A: Array) -> Array:
    """The matrix with `A adj(A) = det(A)`, which exists for singular matrices, too."""
    B = _safe_inverse(xp, A)
    if B is not None:
        return _scale(xp, A) * B
    U, S, Vh = svd_or_nan(xp, A)
    one = xp.eye(A.shape[-1], dtype=bool)
    # Products of all singular values but one: ones on the diagonal of n copies.
    others = xp.where(one, 1, S[..., None, :]).prod(-1)
    return _phase(xp, U, Vh) * xp.matmul(Vh.mT.conj() * others[..., None, :], U.mT.conj())


def _phase(xp: Namespace, U: Array, Vh: Array) -> Array:
    return _scale(xp, U) * _scale(xp, Vh)


@primitive(
    A=lambda g, A, change: _adjugate_bend(adjoint(A), adjoint(change), g),
    change=lambda g, A: _adjugate_change(adjoint(A), g),
    jvp=lambda d_A, d_change, A, change: total(
        d_A is not None and _adjugate_bend(A, change, d_A),
        d_change is not None and _adjugate_change(A, d_change),
    ),
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
        return _scale(xp, A) * (_traces(moved) * B - xp.matmul(moved, B))
    U, S, Vh = svd_or_nan(xp, A)
    one = xp.eye(A.shape[-1], dtype=bool)
    left_out = one[:, None, :] | one[None, :, :]
    P = xp.where(left_out, 1, S[..., None, None, :]).prod(-1) * ~one
    E = xp.matmul(U.mT.conj(), xp.matmul(change, Vh.mT.conj()))
    along = xp.matmul(P, E.diagonal(0, -2, -1)[..., None])
    core = xp.where(one, along, -P * E)
    return _phase(xp, U, Vh) * xp.matmul(Vh.mT.conj(), xp.matmul(core, U.mT.conj()))


def _traces(matrices: Array) -> Array:
    return matrices.trace(0, -2, -1)[..., None, None]


@primitive(
    A=lambda g, A, first, second: _further(adjoint(A), (adjoint(first), adjoint(second), g)),
    first=lambda g, A, second: _adjugate_bend(adjoint(A), adjoint(second), g),
    second=lambda g, A, first: _adjugate_bend(adjoint(A), adjoint(first), g),
    jvp=lambda d_A, d_first, d_second, A, first, second: total(
        d_A is not None and _further(A, (first, second, d_A)),
        d_first is not None and _adjugate_bend(A, d_first, second),
        d_second is not None and _adjugate_bend(A, first, d_second),
    ),
    batch=aligned,
)
def _adjugate_bend(xp: Namespace, A: Array, first: Array, second: Array) -> Array:
    """How `_adjugate_change` moves with `A`: linear in both changes, which may change places.

    With A = U S V^H, E and F the changes between U^H and V, and P the products of all singular
    values but three different ones: off the diagonal of the core stands at (i, j) the sum over k of
    P[i, j, k] (E[i, k] F[k, j] - E[k, k] F[i, j] + the same with E for F), on it at (i, i) that
    over k and l of P[i, k, l] (E[k, k] F[l, l] - E[k, l] F[l, k]).
    """
    B = _safe_inverse(xp, A)
    if B is not None:
        x, y = xp.matmul(B, first), xp.matmul(B, second)
        both = _traces(x) * _traces(y) - _traces(xp.matmul(x, y))
        rest = both * B - xp.matmul(_traces(x) * y + _traces(y) * x, B)
        return _scale(xp, A) * (rest + xp.matmul(xp.matmul(x, y) + xp.matmul(y, x), B))
    U, S, Vh = svd_or_nan(xp, A)
    P = _without_three(xp, S)
    E, F = (xp.matmul(U.mT.conj(), xp.matmul(x, Vh.mT.conj())) for x in (first, second))
    e, f = E.diagonal(0, -2, -1), F.diagonal(0, -2, -1)
    core = xp.einsum("...ijk,...ik,...kj->...ij", P, E, F)
    core = core + xp.einsum("...ijk,...ik,...kj->...ij", P, F, E)
    core -= xp.matmul(P, e[..., None, :, None])[..., 0] * F
    core -= xp.matmul(P, f[..., None, :, None])[..., 0] * E
    on = xp.einsum("...ikl,...k,...l->...i", P, e, f)
    on = on - xp.einsum("...ikl,...kl,...lk->...i", P, E, F)
    core = xp.where(xp.eye(A.shape[-1], dtype=bool), on[..., None], core)
    return _phase(xp, U, Vh) * xp.matmul(Vh.mT.conj(), xp.matmul(core, U.mT.conj()))


def _without_three(xp: Namespace, S: Array) -> Array:
    """At (i, j, k) the product of all other values, and 0 where two of the three are the same."""
    zero = S == 0
    size = xp.where(zero, 1, S)
    i, j, k = size[..., :, None, None], size[..., None, :, None], size[..., None, None, :]
    count = zero.astype(int)
    taken = count[..., :, None, None] + count[..., None, :, None] + count[..., None, None, :]
    one = xp.eye(S.shape[-1], dtype=bool)
    twice = one[:, :, None] | one[:, None, :] | one[None, :, :]
    full = (taken == count.sum(-1)[..., None, None, None]) & ~twice
    return xp.where(full, size.prod(-1)[..., None, None, None] / i / j / k, 0).astype(S.dtype)


def _further(A: Any, changes: Sequence[Any]) -> Any:
    """A higher derivative of the adjugate along several changes, for regular matrices.

    From adj(A + E) = det(A) det(1 + M) (1 + M)^-1 A^-1 with M = A^-1 E: of either factor the terms
    in which each of some changes comes once, those of the first times those of the rest.
    """
    B = inverse_of(A)
    moved = [matmul(B, change) for change in changes]
    made: Any = 0.0
    for count in range(len(moved) + 1):
        for chosen in combinations(range(len(moved)), count):
            factor = _mixed([moved[i] for i in chosen])
            rest = [moved[i] for i in range(len(moved)) if i not in chosen]
            for order in permutations(rest):
                made = made + factor * (-1) ** len(order) * _chain([*order, B])
    return _det(A)[..., None, None] * made


def _mixed(matrices: list[Any]) -> Any:
    """The terms of det(1 + the sum of matrices) in which each comes once: by cycles."""
    if not matrices:
        return 1.0
    made: Any = 0.0
    for cycle, others in _cycles(matrices):
        trace = sum(_chain(cycle).diagonal(0, -2, -1), -1)[..., None, None]
        made = made - (-1) ** len(cycle) * trace * _mixed(others)
    return made


def _cycles(matrices: list[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """The first of them followed by any of the others in any order, and what is left."""
    others = range(1, len(matrices))
    for count in range(len(matrices)):
        for order in permutations(others, count):
            left = [matrices[i] for i in others if i not in order]
            yield [matrices[0], *(matrices[i] for i in order)], left


def _chain(matrices: Sequence[Any]) -> Any:
    result = matrices[0]
    for matrix in matrices[1:]:
        result = matmul(result, matrix)
    return result


# Determinants -------------------------------------------------------------------------------------


@primitive(
    A=lambda g, A: g[..., None, None] * adjoint(_adjugate(A)),
    jvp=lambda d_A, A: sum(_adjugate(A).mT * d_A, (-2, -1)),
    node="LinalgDetBackward0",
    name="_linalg_det",
)
def _det(xp: Namespace, A: Array) -> Array:
    return lapack(xp, "det", A)


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
    """The older name of `linalg.det`.

    >>> import pullback as torch
    >>> torch.det(torch.tensor([[2.0, 1.0], [0.0, 3.0]]))
    tensor(6.)
    """
    return linalg_det(input)


def _slogdet_adjoint(g_sign: Any, g_logabsdet: Any, A: Any, sign: Any) -> Any:
    factor = g_logabsdet
    if is_complex(sign):  # a real sign has no slope
        factor = factor - imag(conj(g_sign) * sign) * 1j
    return factor[..., None, None] * adjoint(inverse_of(A))


def _slogdet_tangents(d_A: Any, A: Any, sign: Any) -> tuple[Any, Any]:
    moved = sum(matmul(inverse_of(A), d_A).diagonal(0, -2, -1), -1)
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
    sign, logarithm = lapack(xp, "slogdet", A)
    return sign, logarithm


_LinalgSlogdet = result_class("linalg_slogdet", "sign logabsdet")
_Slogdet = result_class("slogdet", "sign logabsdet")


def linalg_slogdet(A: Any, *, out: Any = None) -> Any:
    """The sign of the determinant and the logarithm of its size, which does not overflow.

    >>> import pullback as torch
    >>> torch.linalg.slogdet(torch.tensor([[-2.0, 0.0], [0.0, 3.0]]))
    torch.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(1.7918))
    """
    check_square("linalg.slogdet", A._array)
    return delivered_all("linalg.slogdet", _LinalgSlogdet(_slogdet(A)), out)


@method
def slogdet(input: Any, *, out: Any = None) -> Any:
    """The older name of `linalg.slogdet`.

    >>> import pullback as torch
    >>> torch.slogdet(torch.tensor([[-2.0, 0.0], [0.0, 3.0]]))
    torch.return_types.slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(1.7918))
    """
    check_square("slogdet", input._array)
    return delivered_all("slogdet", _Slogdet(_slogdet(input)), out)


@method
def logdet(input: Any) -> Any:
    """The logarithm of the determinant: -inf where that is 0, NaN where it is negative.

    >>> import pullback as torch
    >>> torch.logdet(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
    tensor(1.7918)
    """
    check_square("logdet", input._array)
    sign, logarithm = _slogdet(input)
    if is_complex(sign):
        return log(sign) + logarithm
    return where(sign == -1, math.nan, logarithm)
