"""Products of matrices of which some are to be conjugated: by a flag of BLAS, or of the result."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.tensor import CONJUGATED

__all__ = ["product"]


def product(left: tuple[Array, int], right: tuple[Array, int]) -> Array | None:
    """The product of two matrices on memory with bits; None where there is no quick way."""
    (a, bits_a), (b, bits_b) = left, right
    if (bits_a | bits_b) != CONJUGATED or a.ndim != 2 or b.ndim != 2:
        return None
    if a.dtype != b.dtype or a.dtype.char not in "FD" or a.shape[1] != b.shape[0]:
        return None
    if bits_a and bits_b:  # the product conjugates once what both factors would
        made = a.dot(b)
        return numpy.conjugate(made, made)
    blas = _routines()
    if blas is None or not a.size or not b.size:
        return None
    gemm = blas["F" if a.dtype.char == "F" else "D"]
    # BLAS reads rows as columns: it computes the transpose, other factor first, and knows the
    # conjugate of a transpose. So the conjugated factor must be the transpose of a row-major one.
    if bits_a and a.T.flags.c_contiguous and b.flags.c_contiguous:
        return gemm(1, b.T, a, trans_b=2).T
    if bits_b and b.T.flags.c_contiguous and a.flags.c_contiguous:
        return gemm(1, b, a.T, trans_a=2).T
    return None


@cache
def _routines() -> dict[str, Any] | None:
    """SciPy's names for BLAS; None where it is not installed."""
    try:
        from scipy.linalg import blas
    except ImportError:
        return None
    return {"F": blas.cgemm, "D": blas.zgemm}
