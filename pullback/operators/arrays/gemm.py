"""`c += a @ b` by BLAS, for matrices that lie anywhere in memory.

NumPy's products make a new array, or overwrite one: sums of products take a pass over memory each.
Its library adds on the way (`arrays/blas.py`). Where that is not found, callers do without.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from pullback.core.arrays import F32, F64
from pullback.operators.arrays.blas import library

__all__ = ["AddProduct", "adder", "step_of"]

# (m, n, k, a, its row's length, b, its row's length, c, its row's length): row-major matrices by
# their addresses, (m, k) times (k, n) added to (m, n).
AddProduct: TypeAlias = Callable[[int, int, int, int, int, int, int, int, int], None]

_NAMES = ("scipy_cblas_{}gemm64_", "cblas_{}gemm64_", "cblas_{}gemm")
_LETTERS = {F32: ("s", ctypes.c_float), F64: ("d", ctypes.c_double)}
_ROW_MAJOR, _AS_IT_IS = 101, 111

# OpenBLAS copies the matrices of a product into an order of its own first, unless the product has
# at most so many steps. On AVX-512, 32 x 48 times 48 x 2312 float32 takes 80 us at once and 73 in
# four parts, 144 x 2312 times 2312 x 32 takes 254 us and 208.
_STEPS = 1_000_000
_SHORT = 96  # parts that are shorter than this cost more to start than they save


@cache
def adder(dtype: Any) -> AddProduct | None:
    """What adds a product of matrices of `dtype`; None where BLAS has nothing for it."""
    letter, number = _LETTERS.get(dtype, (None, None))
    for name in _NAMES if letter is not None else ():
        found = getattr(library(), name.format(letter), None)
        if found is not None:
            return _bound(found, number)
    return None


def _bound(gemm: Any, number: Any) -> AddProduct:
    size, pointer = ctypes.c_int64, ctypes.c_void_p
    kinds = (ctypes.c_int,) * 3 + (size,) * 3 + (number, pointer, size, pointer, size, number)
    gemm.argtypes, gemm.restype = (*kinds, pointer, size), None
    one = number(1)

    def add(m: int, n: int, k: int, a: int, lda: int, b: int, ldb: int, c: int, ldc: int) -> None:
        gemm(_ROW_MAJOR, _AS_IT_IS, _AS_IT_IS, m, n, k, one, a, lda, b, ldb, one, c, ldc)

    return add


def step_of(length: int, others: int) -> int:
    """In parts of which length a product is quickest; `others` is its other two sizes' product."""
    step = _STEPS // max(others, 1)
    if step >= length or step < _SHORT:
        return max(length, 1)
    parts = -(-length // (step // 16 * 16))
    return -(-length // parts // 16) * 16
