"""Products of small matrices that lie anyhow: one launch where cuBLAS wants copies first.

cuBLAS takes a batch whose matrices follow one another evenly, with rows or columns in order. The
heads of attention do not: each product would be two copies and a call. This kernel reads both
operands by their strides, in tiles of 32 by 32, sums in float32 (float64 for float64), and writes
rows in order. It is for sizes where a launch takes longer than the work.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.operators.cuda.launch import Kernel
from pullback.operators.cuda.stored import STORED, head_of

__all__ = ["Strided"]

_MOST = 1 << 24  # products of two numbers: some 10 us at a few TFLOP/s
_DIMS = 3  # of the batch, after those are joined that follow one another evenly
_GRID = 65535
_SOURCE = """
typedef long long step;
extern "C" __global__ void pb_product(
        const S* a, const S* b, S* out, int m, int n, int k, int n1, int n2,
        step a0, step a1, step a2, step down_a, step right_a,
        step b0, step b1, step b2, step down_b, step right_b) {
    __shared__ A left[32][33];
    __shared__ A right[32][33];
    int z = blockIdx.z, i2 = z % n2, i1 = z / n2 % n1, i0 = z / n2 / n1;
    a += i0 * a0 + i1 * a1 + i2 * a2;
    b += i0 * b0 + i1 * b1 + i2 * b2;
    int x = threadIdx.x & 31, y = threadIdx.x >> 5;
    int first = blockIdx.y * 32, column = blockIdx.x * 32 + x;
    A sums[4] = {0, 0, 0, 0};
    for (int t = 0; t < k; t += 32) {
        for (int r = y; r < 32; r += 8) {
            left[r][x] = first + r < m && t + x < k
                ? ld(a[(first + r) * down_a + (t + x) * right_a]) : (A)0;
            right[r][x] = t + r < k && column < n
                ? ld(b[(t + r) * down_b + column * right_b]) : (A)0; }
        __syncthreads();
        for (int j = 0; j < 32; ++j) {
            A v = right[j][x];
            for (int q = 0; q < 4; ++q) sums[q] += left[y + 8 * q][j] * v; }
        __syncthreads(); }
    for (int q = 0; q < 4; ++q) {
        int row = first + y + 8 * q;
        if (row < m && column < n) out[((step)z * m + row) * n + column] = st(sums[q]); } }
"""


class Strided:
    """The kernel, compiled for each dtype when first needed."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._raw: Any = getattr(cupy, "RawKernel", None)
        self._kernels: dict[str, Any] = {}

    def product(self, a: Any, b: Any, out: Any) -> bool:
        """Batches of one shape multiplied into `out`, in order; False where it is not for this."""
        kind = a.dtype.char
        *batch, m, n = out.shape
        k = a.shape[-1]
        if self._raw is None or kind not in STORED or out.size * k > _MOST:
            return False
        sides = _joined(batch, a, b)
        count = out.size // (m * n)
        if sides is None or count > _GRID or m > 32 * _GRID:
            return False
        size = a.itemsize
        (_, n1, n2), steps_a, steps_b = sides
        steps = *steps_a, *a.strides[-2:], *steps_b, *b.strides[-2:]
        kernel = self._kernels.get(kind)
        if kernel is None:
            made = self._raw(head_of(kind) + _SOURCE, "pb_product")
            kernel = self._kernels[kind] = Kernel(self._cupy, made)
        grid = -(-n // 32), -(-m // 32), count
        whole = map(numpy.int32, (m, n, k, n1, n2))
        kernel(grid, (256,), (a, b, out, *whole, *[step // size for step in steps]))
        return True


def _joined(batch: Any, a: Any, b: Any) -> Any:
    """Sizes of the batch's dimensions and both operands' steps, three of each; None for more."""
    sides: list[tuple[int, int, int]] = []
    for size, step_a, step_b in zip(batch, a.strides[:-2], b.strides[:-2], strict=True):
        if size == 1:
            continue
        if sides:
            before, last_a, last_b = sides[-1]
            if last_a == size * step_a and last_b == size * step_b:
                sides[-1] = before * size, step_a, step_b
                continue
        sides.append((size, step_a, step_b))
    if len(sides) > _DIMS:
        return None
    sides = [(1, 0, 0)] * (_DIMS - len(sides)) + sides
    return tuple(zip(*sides, strict=True))
