"""LAPACK by the shortest way: NumPy's kernels, and SciPy's where NumPy has none.

`numpy.linalg` checks, converts and wraps for 5 to 30 us before it gets to its kernels, generalised
ufuncs that take a batch and need 2 to 5 for small matrices. Operators have checked already, so
they come here. Where this NumPy has no such kernel, and for arrays of other libraries, the public
function is called; it is also the one that says what went wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import repeat
from typing import Any

import numpy

from pullback.core.arrays import Array, Namespace

__all__ = [
    *("by_columns", "has_nan", "lapack", "lu_by_scipy", "magnitude", "qr", "svd_or_nan"),
    *("triangles_by_scipy", "upper"),
]

# Kernel -> the same by public names.
_PUBLIC: dict[str, Callable[..., Any]] = {
    "cholesky_lo": lambda linalg, A: linalg.cholesky(A),
    "cholesky_up": lambda linalg, A: linalg.cholesky(A, upper=True),
    "det": lambda linalg, A: linalg.det(A),
    "eigh_lo": lambda linalg, A: linalg.eigh(A, "L"),
    "eigh_up": lambda linalg, A: linalg.eigh(A, "U"),
    "eigvalsh_lo": lambda linalg, A: linalg.eigvalsh(A, "L"),
    "eigvalsh_up": lambda linalg, A: linalg.eigvalsh(A, "U"),
    "inv": lambda linalg, A: linalg.inv(A),
    "slogdet": lambda linalg, A: linalg.slogdet(A),
    "solve": lambda linalg, A, B: linalg.solve(A, B),
    "svd": lambda linalg, A: linalg.svd(A, compute_uv=False),
    "svd_f": lambda linalg, A: linalg.svd(A),
    "svd_s": lambda linalg, A: linalg.svd(A, False),
}
# Which results are matrices. Those lie column by column, as LAPACK leaves them, and so torch.
_MATRICES = {
    "cholesky_lo": (True,),
    "cholesky_up": (True,),
    "eigh_lo": (False, True),
    "eigh_up": (False, True),
    "inv": (True,),
    "solve": (True,),
    "svd_f": (True, False, True),
    "svd_s": (True, False, True),
}
_KERNELS = getattr(numpy.linalg, "_umath_linalg", None)
_DIRECT = {name: getattr(_KERNELS, name, None) for name in (*_PUBLIC, "qr_r_raw", "qr_reduced")}


def lapack(xp: Namespace, name: str, *arrays: Array, refuse_nan: bool = False) -> Any:
    """The results of a kernel on batches of matrices; LinAlgError where LAPACK refuses one.

    A kernel fills the results of such a matrix with NaN, which a sum shows. The public function
    tells it from NaN that was in the input; with `refuse_nan` that is an error too.
    """
    if xp is numpy and name in _ITERATIONS and not _finite(arrays[0]):
        return _of_infinities(xp, name, arrays[0])
    if xp is numpy and arrays[0].size >= _LARGE and name in _BY_FACTORS:
        made = _by_scipys_factors(name, *arrays)
        if made is not None:
            return made
    kernel = _DIRECT[name] if xp is numpy else None
    if kernel is None or not arrays[0].size:
        return _by_public_name(xp, name, arrays, refuse_nan)
    single = arrays[0].dtype.char in "fF"
    given: Any = [x.astype(_DOUBLE[x.dtype.char]) for x in arrays] if single else arrays
    try:
        results = kernel(*given)
    except FloatingPointError:  # the user has asked for it by numpy.seterr
        return _by_public_name(xp, name, arrays, refuse_nan)
    several = results.__class__ is tuple
    if has_nan(numpy, results[0] if several else results):
        return _by_public_name(xp, name, arrays, refuse_nan)
    matrices = _MATRICES.get(name)
    if several:
        return tuple(map(_finished, results, repeat(single), matrices or repeat(False)))
    return _finished(results, single, matrices is not None)


def _finished(x: Array, single: bool, matrix: bool) -> Array:
    """A result of a kernel of double precision, rounded and turned, which take one copy."""
    if matrix:
        if x.ndim == 2:
            return numpy.array(x, _SINGLE[x.dtype.char] if single else None, order="F")
        return x.mT.astype(_SINGLE[x.dtype.char] if single else x.dtype, "C").mT
    return x.astype(_SINGLE[x.dtype.char]) if single else x


# LAPACK iterates here until something is small, which it never is beside infinity: it may not end.
# Libraries of devices count their turns, and would have to be asked.
_ITERATIONS = frozenset(
    {"svd", "svd_f", "svd_s", "eigh_lo", "eigh_up", "eigvalsh_lo", "eigvalsh_up"}
)


def _finite(array: Array) -> bool:
    # In a quarter of the time that all() takes, of few elements.
    return b"\0" not in numpy.isfinite(array).tobytes()


def _of_infinities(xp: Namespace, name: str, A: Array) -> Any:
    """Singular values of infinite matrices without NaN are NaN, as in torch; else LinAlgError."""
    if name.startswith("eig") or xp.isnan(A).any():
        raise numpy.linalg.LinAlgError(f"{name}: the matrix has infinite or NaN elements.")
    return svd_or_nan(xp, A, name)


def svd_or_nan(xp: Namespace, A: Array, name: str = "svd_s") -> Any:
    """Singular values of a batch, with vectors: NaN for matrices with infinite or NaN elements."""
    finite = xp.isfinite(A).all((-2, -1), keepdims=True)
    results = lapack(xp, name, xp.where(finite, A, A.dtype.type(0)))
    if results.__class__ is not tuple:
        return xp.where(finite[..., 0], results, numpy.nan).astype(results.dtype)
    U, S, Vh = results
    parts = (U, finite), (S, finite[..., 0]), (Vh, finite)
    return tuple(xp.where(kept, part, numpy.nan).astype(part.dtype) for part, kept in parts)


def _by_public_name(xp: Namespace, name: str, arrays: tuple[Array, ...], refuse_nan: bool) -> Any:
    results = _PUBLIC[name](xp.linalg, *arrays)
    if refuse_nan and has_nan(xp, results):
        raise numpy.linalg.LinAlgError(f"{name}: NaN came up.")
    matrices = _MATRICES.get(name)
    if matrices is None:
        return results
    if not isinstance(results, tuple):
        return by_columns(xp, results)
    return tuple(
        by_columns(xp, x) if matrix else x for x, matrix in zip(results, matrices, strict=True)
    )


def by_columns(xp: Namespace, matrices: Array) -> Array:
    """The same matrices, each lying column by column."""
    return xp.ascontiguousarray(matrices.mT).mT


# Single precision is computed in double, as numpy.linalg does.
_DOUBLE = {"f": numpy.dtype("d"), "F": numpy.dtype("D")}
_SINGLE = {"d": numpy.dtype("f"), "D": numpy.dtype("F")}


def has_nan(xp: Namespace, array: Array) -> bool:
    """Whether there is NaN, or infinities of both signs, by one sum."""
    total = xp.add.reduce(array, None)
    return bool(total != total)


def qr(xp: Namespace, A: Array) -> tuple[Array, Array]:
    """The reduced factors Q and R of each matrix."""
    reflections, columns = _DIRECT["qr_r_raw"], _DIRECT["qr_reduced"]
    if xp is not numpy or reflections is None or columns is None or not A.size:
        return tuple(by_columns(xp, factor) for factor in xp.linalg.qr(A))
    # NumPy has both in double precision only, and leaves R and the reflections in its input.
    packed = A.astype(numpy.complex128 if A.dtype.kind == "c" else numpy.float64, "C")
    vectors = columns(packed, reflections(packed))
    k = vectors.shape[-1]
    triangle = numpy.zeros((*A.shape[:-2], A.shape[-1], k), A.dtype).mT
    numpy.copyto(triangle, packed[..., :k, :], "same_kind", upper(k, A.shape[-1]))
    return vectors.mT.astype(A.dtype, "C").mT, triangle


def magnitude(xp: Namespace, x: Array) -> Array:
    """By what LAPACK chooses pivots: for complex numbers the sum of both parts."""
    return xp.abs(x.real) + xp.abs(x.imag) if x.dtype.kind == "c" else xp.abs(x)


@lru_cache(256)
def upper(rows: int, columns: int, above: int = 0) -> Array:
    """Where the upper triangle is, from the diagonal number `above` on."""
    return ~numpy.tri(rows, columns, above - 1, dtype=bool)


# What only SciPy has ------------------------------------------------------------------------------


@cache
def _routines(name: str) -> dict[str, Any]:
    """A routine of LAPACK by the code of its dtype; none where SciPy is not installed."""
    try:
        from scipy.linalg import lapack as routines
    except ImportError:
        return {}
    return {
        code: getattr(routines, letter + name) for code, letter in zip("fdFD", "sdcz", strict=True)
    }


def lu_by_scipy(xp: Namespace, a: Array) -> tuple[Array, Array, Array] | None:
    """Packed factors of a batch, pivots counted from 1 and first zero pivots; None without SciPy.

    A call takes 1 us, so a loop over the batch is no loss: 1000 matrices of 32 by 32 take 9 ms,
    where the elimination in NumPy takes 25.
    """
    getrf = _routines("getrf").get(a.dtype.char) if xp is numpy and a.size else None
    if getrf is None:
        return None
    columns = numpy.array(a.mT, order="C")  # LAPACK's order, so that it works in this memory
    pivots = numpy.empty((len(a), min(a.shape[1:])), numpy.int32)
    info = numpy.empty(len(a), numpy.int32)
    for i, one in enumerate(columns):
        _, pivots[i], info[i] = getrf(one.T, True)
    pivots += 1
    return columns.mT, pivots, info


# Below, loading SciPy would never pay.
_MANY_ELEMENTS = 4096


def triangles_by_scipy(
    xp: Namespace, a: Array, b: Array, *, upper: bool, unit: bool
) -> Array | None:
    """`x` with `a x = b` for a triangle of each matrix; None for small ones and without SciPy.

    None, too, where a diagonal has a zero, by which LAPACK does not divide. 1000 systems of 32 by
    32 take 6 ms, substitution in NumPy 14.
    """
    if xp is not numpy or a.size < _MANY_ELEMENTS or not b.size:
        return None
    trtrs = _routines("trtrs").get(a.dtype.char)
    if trtrs is None:
        return None
    shape = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    by_rows = not a.mT.flags.c_contiguous  # else the matrices are in LAPACK's order already
    matrices = numpy.ascontiguousarray(a).mT if by_rows else a
    matrices = numpy.broadcast_to(matrices, shape + a.shape[-2:]).reshape(-1, *a.shape[-2:])
    columns = numpy.array(numpy.broadcast_to(b.mT, (*shape, b.shape[-1], b.shape[-2])), order="C")
    for matrix, one in zip(matrices, columns.reshape(-1, *columns.shape[-2:]), strict=True):
        _, info = trtrs(matrix, one.T, upper == by_rows, by_rows, unit, overwrite_b=True)
        if info:
            return None
    return columns.mT


# NumPy computes single precision in double, and its kernels are slower: one matrix of 1000 by 1000
# in float32 takes 28 ms for a determinant, 102 for as many solutions, SciPy's factors take 10 and
# 50. Below this many elements, loading SciPy would not pay.
_LARGE = 1 << 16
_BY_FACTORS = frozenset({"det", "inv", "slogdet", "solve"})


def _by_scipys_factors(name: str, a: Array, b: Array | None = None) -> Any:
    """What `lapack` gives for one large real matrix.

    None for all else, without SciPy, and where a matrix is singular or has NaN: the other way tells
    of it.
    """
    if a.dtype.char not in "fd" or a.ndim != 2 or len(a) != a.shape[1] or not a.flags.forc:
        return None
    if b is not None and (b.ndim != 2 or b.dtype is not a.dtype or not b.size):
        return None
    getrf, getrs = (_routines(one).get(a.dtype.char) for one in ("getrf", "getrs"))
    if getrf is None or getrs is None:
        return None
    by_rows = a.flags.c_contiguous  # LAPACK sees its transpose, so that nothing is copied twice
    factors, pivots, info = getrf(a.T if by_rows else a)
    diagonal = factors.diagonal()
    if info or has_nan(numpy, diagonal):
        return None
    if name == "inv":
        ones = numpy.eye(len(a), dtype=a.dtype).T
        made, _ = getrs(factors, pivots, ones, by_rows, True)
        return None if has_nan(numpy, made) else made
    if b is not None:
        made, _ = getrs(factors, pivots, numpy.array(b, order="F"), by_rows, True)
        return None if has_nan(numpy, made) else made
    changes = numpy.count_nonzero(pivots != numpy.arange(len(a)))
    negative = (changes + numpy.count_nonzero(diagonal < 0)) % 2
    sign = a.dtype.type(-1 if negative else 1)
    logarithm = numpy.log(numpy.abs(diagonal), dtype=numpy.float64).sum()
    if name == "slogdet":
        return sign, a.dtype.type(logarithm)
    with numpy.errstate(over="ignore"):
        return a.dtype.type(sign * numpy.exp(logarithm))
