"""Large products of matrices by MKL's library, where the package `mkl` is installed.

Its C interface is called as it is, by addresses; arrays are held meanwhile, and other threads run.
The library computes on the thread that calls it (its layer without threads), and large products
are shared out here, over the threads that kernels have: so no second runtime of OpenMP stands
beside the program's own, and nothing of it is left behind by a fork.

Equal calls give equal bits wherever the arrays lie in memory: MKL promises it once it is asked to,
before its first product. So do all numbers of threads: on Intel's processors pieces that are no
smaller than these have the bits of the whole (`tests/operators/arrays/test_mkl.py` looks); on
others they do not (seen on an EPYC), so there the pieces are the same for any number of threads.

Where somebody else in this process has loaded MKL, it is theirs to set up, and is left alone.
"""

from __future__ import annotations

import ctypes
import glob
import os
import site
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from numpy import empty, ndarray

from pullback.core.arrays import F32, F64, Array
from pullback.core.process.first_use import first_use
from pullback.operators.arrays.strides import address
from pullback.operators.arrays.threads import count, each

__all__ = ["LEAST", "functions", "is_available", "is_wanted", "product", "set_up", "setting"]

# Multiplications from which on the call pays: 64 x 128 by 128 x 384 takes 61 us, and NumPy's
# OpenBLAS 70; 64 x 128 by 128 x 128 takes 28 us and 25.
LEAST = 1 << 21
_PIECE = 256  # rows or columns: shorter pieces are computed in another order, and slower
_FIXED = 8  # pieces at most, where their number may not depend on that of threads

_LETTERS = {F32: ("s", ctypes.c_float), F64: ("d", ctypes.c_double)}
_WITHOUT_THREADS = 1  # MKL_THREADING_SEQUENTIAL
_SAME_BITS = 2  # MKL_CBWR_AUTO: by the processor's newest instructions, in an order kept to
_ROW_MAJOR, _AS_IT_IS, _TURNED = 101, 111, 112

Gemm = Callable[..., None]


def _is_intel() -> bool:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as told:
            return "GenuineIntel" in told.read(4096)
    except OSError:
        return False


class _Setting:
    """Whether products go there, None until a large one first asks; and the functions for it."""

    __slots__ = ("fixed", "functions", "on")

    def __init__(self) -> None:
        self.on: bool | None = None
        self.functions: dict[Any, Gemm] | None = None
        self.fixed = True  # whether pieces are the same for any number of threads


setting = _Setting()


def is_available() -> bool:
    """Whether the library is installed beside this interpreter, without loading it."""
    return _file() is not None


def _file() -> str | None:
    """The newest `libmkl_rt` where pip and conda put it. Other systems have not been tried."""
    if sys.platform != "linux":
        return None
    places = [sys.prefix, *([site.getuserbase()] if site.ENABLE_USER_SITE else [])]
    patterns = [os.path.join(glob.escape(one), "lib", "libmkl_rt.so.*") for one in places]
    return next((max(found) for one in patterns if (found := glob.glob(one))), None)


def is_wanted() -> bool:
    """Whether products go there; the environment may say no."""
    if setting.on is None:
        with first_use:
            if setting.on is None:
                setting.on = os.environ.get("PULLBACK_MKL", "1") != "0" and bool(functions())
    return setting.on


def functions() -> dict[Any, Gemm]:
    """The products by their dtypes, of the library, which is loaded now; none if it cannot be."""
    with first_use:
        if setting.functions is None:
            file = _file()
            try:
                found = {} if file is None or _is_theirs() else set_up(ctypes.CDLL(file))
            except (AttributeError, OSError):  # an older one, or a part of it is missing
                found = {}
            setting.functions = found
            setting.fixed = not (found and _is_intel())
        return setting.functions


def _is_theirs() -> bool:
    """Whether a part of MKL is in this process already, or it cannot be known."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return "libmkl_" in maps.read()
    except OSError:
        return True


def set_up(library: Any) -> dict[Any, Gemm]:
    """The products of a library that has computed nothing so far; none if it refuses."""
    refused = library.MKL_Set_Threading_Layer(_WITHOUT_THREADS) != _WITHOUT_THREADS
    if refused or library.MKL_CBWR_Set(_SAME_BITS) != 0:
        return {}
    made = {}
    for dtype, (letter, number) in _LETTERS.items():
        gemm = getattr(library, f"cblas_{letter}gemm_64")  # with sizes of 64 bits
        flag, size, pointer = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
        factors = (number, pointer, size, pointer, size, number)
        gemm.argtypes = (flag, flag, flag, size, size, size, *factors, pointer, size)
        gemm.restype = None
        made[dtype] = gemm
    return made


def product(a: Array, b: Array) -> Array | None:
    """`a @ b` of matrices; None where NumPy should do it."""
    (rows, inner), columns, dtype = a.shape, b.shape[1], a.dtype
    if rows * inner * columns < LEAST or not (setting.on or is_wanted()) or len(b) != inner:
        return None
    gemm = (setting.functions or {}).get(dtype)
    plain = a.__class__ is ndarray is b.__class__ and a.flags.aligned and b.flags.aligned
    if gemm is None or b.dtype is not dtype or not plain:
        return None
    left, right = _order(a), _order(b)
    if left is None or right is None:
        return None
    out = empty((rows, columns), dtype)
    to_a, to_b, to_out = address(a), address(b), address(out)
    by_rows = rows >= columns

    def fill(span: tuple[int, int]) -> None:
        """These rows of the result, or these columns of it."""
        start, end = span
        size = (end - start, columns) if by_rows else (rows, end - start)
        gemm(
            *(_ROW_MAJOR, left[0], right[0], *size, inner, 1.0),
            *(to_a + start * a.strides[0] * by_rows, left[1]),
            *(to_b + start * b.strides[1] * (not by_rows), right[1], 0.0),
            *(to_out + start * out.strides[not by_rows], columns),
        )

    each(fill, _spans(max(rows, columns), min(rows, columns)))
    return out


def _spans(length: int, other: int) -> list[tuple[int, int]]:
    """A piece for each thread, or as many as always, as far as the pieces are large enough."""
    wanted = _FIXED if setting.fixed else count()
    many = min(wanted, length // _PIECE) if other >= _PIECE else 1
    many = max(many, 1)
    return list(pairwise([length * number // many for number in range(many + 1)]))


def _order(a: Array) -> tuple[int, int] | None:
    """Whether a matrix lies by rows or by columns, and how far these are apart; None of others."""
    (rows, columns), (down, right), item = a.shape, a.strides, a.itemsize
    if right == item and down >= item * columns and not down % item:
        return _AS_IT_IS, down // item
    if down == item and right >= item * rows and not right % item:
        return _TURNED, right // item
    return None
