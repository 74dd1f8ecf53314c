"""Weighted sums along a dimension by a table, as interpolation and padding have them: one launch.

A table's rows have up to so many entries, each the place of an input and its weight; a place below
0 ends a row. Entries are added in the order of the table.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.operators.cuda.launch import Kernels
from pullback.operators.cuda.stored import STORED, head_of

__all__ = ["Along"]

_THREADS = 256
_MOST_BLOCKS = 1 << 14
_MOST = (1 << 31) - 1
_SOURCE = """
extern "C" __global__ void pb_along(
        const S* x, const int* places, const A* weights, S* out, long long size, int inner,
        int number, int old, int most) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size;
            i += (long long)gridDim.x * blockDim.x) {
        long long q = i / inner, outer = q / number;
        int row = (int)(q - outer * number), column = (int)(i - q * inner);
        const S* from = x + outer * old * inner + column;
        A sum = 0;
        for (int t = row * most; t < (row + 1) * most && places[t] >= 0; ++t)
            sum += weights[t] * ld(from[(long long)places[t] * inner]);
        out[i] = st(sum); } }
"""


class Along:
    """The kernel, compiled for each dtype when first needed. Arrays are in order in memory."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._is_there = hasattr(cupy, "RawModule")
        self._kernel = Kernels(cupy, lambda kind: head_of(kind) + _SOURCE, ("along",))

    def fits(self, x: Any) -> bool:
        """Whether there is a kernel for such an array."""
        return self._is_there and x.dtype.char in STORED and x._c_contiguous and x.size <= _MOST

    def sums(self, x: Any, places: Any, weights: Any, axis: int) -> Any:
        """A row of the table for each position of `axis` in the result."""
        number, most = places.shape
        out = self.cupy.ndarray((*x.shape[:axis], number, *x.shape[axis + 1 :]), x.dtype)
        if not out.size:
            return out
        inner = math.prod(x.shape[axis + 1 :])
        sizes = map(numpy.int32, (inner, number, x.shape[axis], most))
        blocks = min(-(-out.size // _THREADS), _MOST_BLOCKS)
        launch = self._kernel("along", x.dtype.char)
        launch((blocks,), (_THREADS,), (x, places, weights, out, out.size, *sizes))
        return out
