"""Row-major copies of arrays that lie column by column: BLAS turns matrices in cache lines.

NumPy walks along one of the two orders and leaves the cache at each step in the other: a transposed
2048 x 2048 float32 matrix takes it 51 ms, BLAS 2.6; 256 x 128 take 20 us and 6. Of float64 BLAS has
nothing better.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from numpy import empty, ndarray, ndindex

from pullback.core.arrays import F32, LIBRARIES, Array
from pullback.operators.arrays.blas import library
from pullback.operators.arrays.strides import address

__all__ = ["in_order", "row_major"]

_NAMES = ("scipy_cblas_somatcopy64_", "cblas_somatcopy64_", "cblas_somatcopy")
_ROW_MAJOR, _TURNED = 101, 112
_LARGE = 1 << 14  # elements of a matrix; finding addresses takes as long as NumPy takes for fewer
_MOST = 2**31 - 1  # so that it does not matter of how many bits BLAS has its integers


@cache
def _omatcopy() -> Any:
    """The function for float32, or None."""
    for name in _NAMES:
        found = getattr(library(), name, None)
        if found is not None:
            size, pointer = ctypes.c_int64, ctypes.c_void_p
            kinds = (ctypes.c_int, ctypes.c_int, size, size, ctypes.c_float)
            found.argtypes, found.restype = (*kinds, pointer, size, pointer, size), None
            return found
    return None


def in_order(array: Array) -> Array:
    """The array itself if it is row-major, else such a copy."""
    return array if array.flags.c_contiguous else row_major(array)


def row_major(array: Array) -> Array:
    """A row-major copy."""
    if array.dtype is F32 and array.size >= _LARGE and not array.flags.c_contiguous:
        plain = type(array) is ndarray and type(array) not in LIBRARIES
        turned = _transposed(array) if plain else None
        if turned is not None:
            return turned
    return array.copy(order="C")


def _transposed(array: Array) -> Array | None:
    """The copy where the last two dimensions, as far as they can be told apart, are swapped."""
    shape, strides = _merged(array)
    turn = _omatcopy()
    if len(shape) < 2 or turn is None:
        return None
    (*lead, columns, rows), (*steps, step, apart) = shape, strides
    if step != 4 or apart % 4 or apart < 4 * columns or not _LARGE <= rows * columns <= _MOST:
        return None
    out = empty(array.shape, F32)
    source, to = address(array), address(out)
    for index in ndindex(*lead):
        start = source + sum(map(int.__mul__, index, steps))
        turn(_ROW_MAJOR, _TURNED, rows, columns, 1.0, start, apart // 4, to, rows)
        to += 4 * rows * columns
    return out


def _merged(array: Array) -> tuple[list[int], list[int]]:
    """Shape and strides with neighbouring dimensions that are one run of steps as one."""
    shape: list[int] = []
    strides: list[int] = []
    for size, stride in zip(array.shape, array.strides, strict=True):
        if size == 1:
            continue
        if shape and strides[-1] == size * stride:
            shape[-1] *= size
            strides[-1] = stride
        else:
            shape.append(size)
            strides.append(stride)
    return shape, strides
