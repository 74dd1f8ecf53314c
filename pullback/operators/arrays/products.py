"""Products of matrices on arrays: machine code for their sizes where that is quicker, else BLAS.

16 x 64 by 64 x 256 takes machine code 4.7 us and BLAS 12.3, 128 x 784 by 784 x 256 takes 331 and
433 (float32); from some 400 x 400 by 400 x 400 on BLAS is as quick, MKL's where it is installed and
NumPy's where it is not. Which of the three depends on the call alone: sizes, dtypes, strides.
"""

from __future__ import annotations

from numpy import ndarray

from pullback.core.arrays import Array
from pullback.operators.arrays import mkl, programs
from pullback.operators.arrays.native import by_machine_code

__all__ = ["LEAST", "MOST", "times", "times_batches"]

LEAST = 1 << 17  # multiplications, from which on it pays to look for machine code
MOST = 1 << 26  # and up to which it is the quickest


def times(a: Array, b: Array) -> Array:
    """`a @ b` of matrices of one dtype that BLAS has."""
    steps = a.size * b.shape[1]
    if steps >= LEAST and a.__class__ is ndarray and a.shape[1] == len(b):
        if steps <= MOST:
            results = by_machine_code(programs.DOT, (a, b))
            if results is not None:
                return results[0]
        made = mkl.product(a, b) if steps >= mkl.LEAST else None
        if made is not None:
            return made
    return a.dot(b)


def times_batches(a: Array, b: Array) -> Array | None:
    """The products of equally many matrices by machine code; None where it does not pay."""
    if a.__class__ is not ndarray or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        return None
    steps = a.size * b.shape[-1]
    if steps < LEAST or a.shape[-2] * a.shape[-1] * b.shape[-1] > MOST:
        return None
    made = by_machine_code(programs.DOT, (a, b))
    return None if made is None else made[0]
