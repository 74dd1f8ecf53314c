"""Kernels down the columns of a matrix: their sums, those of a norm layer's weights, a row to all.

Two threads take 16 bytes each of a row, so that few columns make a block and there are blocks for
every multiprocessor; columns that do not come in pieces of 16 bytes are taken one by one. A block
adds up all rows of its columns, in an order that is always the same, and writes the result in its
own dtype. Of very many rows it adds up some, and a second launch adds those sums.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.operators.cuda.launch import Kernels
from pullback.operators.cuda.stored import computed_in, head_of

__all__ = ["Columns"]

_MANY = 1 << 14  # rows beyond which they are shared out among blocks
_SHARE = 1 << 12  # rows for each of those
_SOURCE = """
#define THREADS 512
#define FULL (16 / (int)sizeof(S))
template <int V> struct Piece { S at[V]; };
template <> struct __align__(16) Piece<FULL> { S at[FULL]; };
// V columns for a thread, NEAR threads side by side; with `x` also sums of g times its norm.
template <int V, int NEAR> __device__ void down(
        const S* g, const S* x, const A* means, const A* rs, A* more, A* sums, S* of_w, S* of_b,
        int n, int rows, int share) {
    __shared__ A shared[2][THREADS / 32][NEAR * V];
    int near = threadIdx.x % NEAR, first = threadIdx.x / NEAR;
    int column = (blockIdx.x * NEAR + near) * V;
    int begin = blockIdx.y * share, end = rows - begin < share ? rows : begin + share;
    A w[V], b[V];
#pragma unroll
    for (int v = 0; v < V; ++v) w[v] = b[v] = 0;
    if (column < n) {
#pragma unroll 4
        for (int i = begin + first; i < end; i += THREADS / NEAR) {
            Piece<V> one = *(const Piece<V>*)(g + (long long)i * n + column);
#pragma unroll
            for (int v = 0; v < V; ++v) b[v] += ld(one.at[v]);
            if (!x) continue;
            Piece<V> other = *(const Piece<V>*)(x + (long long)i * n + column);
            A mean = means[i], r = rs[i];
#pragma unroll
            for (int v = 0; v < V; ++v) w[v] += ld(one.at[v]) * ((ld(other.at[v]) - mean) * r); } }
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int v = 0; v < V; ++v) {
        for (int k = 16; k >= NEAR; k >>= 1) {
            b[v] += __shfl_down_sync(0xffffffffu, b[v], k);
            if (x) w[v] += __shfl_down_sync(0xffffffffu, w[v], k); }
        if (lane < NEAR) {
            shared[0][warp][near * V + v] = b[v]; shared[1][warp][near * V + v] = w[v]; } }
    __syncthreads();
    int own = blockIdx.x * NEAR * V + threadIdx.x;
    if (threadIdx.x >= NEAR * V || own >= n) return;
    A sum_b = 0, sum_w = 0;
    for (int k = 0; k < THREADS / 32; ++k) {
        sum_b += shared[0][k][threadIdx.x]; sum_w += shared[1][k][threadIdx.x]; }
    if (gridDim.y > 1) {
        sums[(long long)blockIdx.y * n + own] = sum_b;
        if (x) more[(long long)blockIdx.y * n + own] = sum_w;
    } else { of_b[own] = st(sum_b); if (x) of_w[own] = st(sum_w); } }
extern "C" __global__ void __launch_bounds__(512) pb_down(
        const S* g, const S* x, const A* means, const A* rs, A* more, A* sums, S* of_w, S* of_b,
        int n, int rows, int share) {
    down<FULL, 2>(g, x, means, rs, more, sums, of_w, of_b, n, rows, share); }
extern "C" __global__ void __launch_bounds__(512) pb_down_singly(
        const S* g, const S* x, const A* means, const A* rs, A* more, A* sums, S* of_w, S* of_b,
        int n, int rows, int share) {
    down<1, 8>(g, x, means, rs, more, sums, of_w, of_b, n, rows, share); }
extern "C" __global__ void pb_shares(
        const A* more, const A* sums, S* of_w, S* of_b, int n, int shares) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    A w = 0, b = 0;
    for (int k = 0; k < shares; ++k) {
        b += sums[(long long)k * n + i]; if (more) w += more[(long long)k * n + i]; }
    of_b[i] = st(b);
    if (more) of_w[i] = st(w); }
template <int V> __device__ void to_rows(S* x, const S* b, int n, int rows) {
    int column = (blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (column >= n) return;
    Piece<V> more = *(const Piece<V>*)(b + column);
#pragma unroll 4
    for (int i = blockIdx.y; i < rows; i += gridDim.y) {
        Piece<V>* place = (Piece<V>*)(x + (long long)i * n + column);
        Piece<V> one = *place;
#pragma unroll
        for (int v = 0; v < V; ++v) one.at[v] = st(ld(one.at[v]) + ld(more.at[v]));
        *place = one; } }
extern "C" __global__ void pb_add_row(S* x, const S* b, int n, int rows) {
    to_rows<FULL>(x, b, n, rows); }
extern "C" __global__ void pb_add_row_singly(S* x, const S* b, int n, int rows) {
    to_rows<1>(x, b, n, rows); }
"""
_NAMES = ("down", "down_singly", "shares", "add_row", "add_row_singly")
_NULL = numpy.uint64(0)
_GRID = 65535


class Columns:
    """The kernels, compiled for each dtype when first needed. Arrays are rows in order."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._kernel = Kernels(cupy, lambda kind: head_of(kind) + _SOURCE, _NAMES)

    def add_row(self, x: Any, row: Any) -> Any:
        """`row` added to each row of `x`, in place."""
        n = row.size
        rows = x.size // n
        full = 16 // x.itemsize
        wide = not (n % full or x.data.ptr % 16 or row.data.ptr % 16)
        pieces = n // full if wide else n
        threads = 32 if pieces <= 32 else 128
        across = -(-pieces // threads)
        # Enough blocks for all multiprocessors; beyond that a block takes several rows.
        grid = across, min(rows, max(4096 // across, 1), _GRID), 1
        kernel = self._kernel("add_row" if wide else "add_row_singly", x.dtype.char)
        kernel(grid, (threads, 1, 1), (x, row, numpy.int32(n), numpy.int32(rows)))
        return x

    def sums(self, g: Any, n: int) -> Any:
        """Those of columns; of half precision in single, rounded once."""
        of = self.cupy.ndarray((n,), g.dtype)
        self._down(g, None, None, None, None, of, n)
        return of

    def norm_weights(self, g: Any, x: Any, means: Any, rs: Any, n: int) -> tuple[Any, Any]:
        """The gradients of weight and bias of a norm of rows."""
        # Two arrays, not one with two rows: whoever gets a view copies it.
        of_weight, of_bias = (self.cupy.ndarray((n,), g.dtype) for _ in range(2))
        self._down(g, x, means, rs, of_weight, of_bias, n)
        return of_weight, of_bias

    def _down(self, g: Any, x: Any, means: Any, rs: Any, of_w: Any, of_b: Any, n: int) -> None:
        kind = g.dtype.char
        rows = g.size // n
        full = 16 // g.itemsize
        wide = not (n % full or g.data.ptr % 16 or (x is not None and x.data.ptr % 16))
        share = rows if rows <= _MANY else max(_SHARE, -(-rows // _GRID))
        shares = -(-rows // share)
        more = sums = _NULL
        if shares > 1:
            sums = self.cupy.ndarray((shares, n), computed_in(kind))
            more = _NULL if x is None else self.cupy.ndarray((shares, n), computed_in(kind))
        given = [_NULL if one is None else one for one in (x, means, rs)]
        results = [_NULL if one is None else one for one in (of_w, of_b)]
        numbers = map(numpy.int32, (n, rows, share))
        grid = -(-n // (2 * full if wide else 8)), shares, 1
        kernel = self._kernel("down" if wide else "down_singly", kind)
        kernel(grid, (512, 1, 1), (g, *given, more, sums, *results, *numbers))
        if shares > 1:
            sizes = map(numpy.int32, (n, shares))
            self._kernel("shares", kind)(
                (-(-n // 128), 1, 1), (128, 1, 1), (more, sums, *results, *sizes)
            )
