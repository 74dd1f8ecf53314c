"""Convolution of images with few filters, its adjoints, and sums of channels: no columns in memory.

A product of filters with windows whose elements are looked up in the image, tile by tile, by steps
that a block works out once for each tile. `pb_correlate` makes 128 places of 8 to 64 filters;
turned, it looks up the windows that an element of the image is in. `pb_filters` multiplies
gradients with windows over a share of all places, and `pb_fold` adds up the shares, in one order.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.operators.cuda.launch import Kernels

__all__ = ["Filters"]

_TYPES = {"f": "float", "d": "double"}
_SOURCE = """
typedef TYPE T;
#define DEPTH 16
#define PLACES 128
// Where an element of a window is, from the window's start; false where it is outside.
__device__ bool there(int& at, int step, int size) {
    if (step > 1) { if (at % step) return false; at /= step; }
    return at >= 0 && at < size; }
template <int ROWS> __device__ void correlate(
        const T* x, const T* w, const T* bias, T* out, int N, int groups, int M, int K, int C,
        int H, int W, int KH, int KW, int OH, int OW, int sh, int sw, int ph, int pw,
        int dh, int dw, int turned) {
    __shared__ T left[DEPTH][8 * ROWS];
    __shared__ T right[DEPTH][PLACES];
    __shared__ int channel[DEPTH], down[DEPTH], along[DEPTH], filter[DEPTH];
    int group = blockIdx.z, first = blockIdx.y * 8 * ROWS;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    // This thread looks up elements of one window.
    int column = threadIdx.x % PLACES, size = OH * OW;
    int place = blockIdx.x * PLACES + column;
    bool real = place < N * size;
    int n = real ? place / size : 0, spot = real ? place % size : 0;
    int oh = spot / OW, ow = spot % OW;
    int h0 = turned ? oh + ph : oh * sh - ph, w0 = turned ? ow + pw : ow * sw - pw;
    const T* image = x + ((long long)n * groups + group) * C * H * W;
    const T* own = w + (long long)group * (turned ? (long long)C * M : (long long)M * C) * KH * KW;
    T sums[ROWS][4];
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[r][j] = 0;
    for (int k0 = 0; k0 < K; k0 += DEPTH) {
        if (threadIdx.x < DEPTH) {
            int k = k0 + threadIdx.x, c = k / (KH * KW), e = k % (KH * KW);
            channel[threadIdx.x] = k < K ? c * H * W : -1;
            down[threadIdx.x] = e / KW * dh; along[threadIdx.x] = e % KW * dw;
            filter[threadIdx.x] = turned ? c * M * KH * KW + e : k; }
        __syncthreads();
#pragma unroll
        for (int k = threadIdx.x / PLACES; k < DEPTH; k += 2) {
            T v = 0;
            if (real && channel[k] >= 0) {
                int h = turned ? h0 - down[k] : h0 + down[k];
                int at = turned ? w0 - along[k] : w0 + along[k];
                if (there(h, turned ? sh : 1, H) && there(at, turned ? sw : 1, W))
                    v = image[channel[k] + h * W + at]; }
            right[k][column] = v; }
        for (int i = threadIdx.x; i < DEPTH * 8 * ROWS; i += 256) {
            int k = i % DEPTH, m = i / DEPTH;
            left[k][m] = channel[k] >= 0 && first + m < M
                ? own[(long long)(first + m) * (turned ? KH * KW : K) + filter[k]] : (T)0; }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            T v[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) v[j] = right[k][lane + 32 * j];
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                T f = left[k][warp * ROWS + r];
#pragma unroll
                for (int j = 0; j < 4; ++j) sums[r][j] += f * v[j]; } }
        __syncthreads(); }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        int at = blockIdx.x * PLACES + lane + 32 * j;
        if (at >= N * size) continue;
        int example = at / size;
        T* to = out + ((long long)example * groups + group) * M * size + at % size;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            int m = first + warp * ROWS + r;
            T more = bias && m < M ? bias[group * M + m] : (T)0;
            if (m < M) to[(long long)m * size] = sums[r][j] + more; } } }
CORRELATIONS
// A share of the gradient of filters: 32 of them by 32 elements of windows.
extern "C" __global__ void __launch_bounds__(256) pb_filters(
        const T* g, const T* x, T* parts, int N, int groups, int M, int K, int C, int H, int W,
        int KH, int KW, int OH, int OW, int sh, int sw, int ph, int pw, int dh, int dw, int share) {
    __shared__ T left[32][33];
    __shared__ T right[32][33];
    __shared__ int channel[32], down[32], along[32];
    int across = (K + 31) / 32;
    int begin_k = blockIdx.x % across * 32, begin_m = blockIdx.x / across * 32;
    int group = blockIdx.z, size = OH * OW;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x < 32) {
        int k = begin_k + threadIdx.x, c = k / (KH * KW), e = k % (KH * KW);
        channel[threadIdx.x] = k < K ? c * H * W : -1;
        down[threadIdx.x] = e / KW * dh - ph; along[threadIdx.x] = e % KW * dw - pw; }
    T sums[4] = {0, 0, 0, 0};
    int total = N * size, begin = blockIdx.y * share;
    int end = total - begin < share ? total : begin + share;
    int m = threadIdx.x >> 3, e = threadIdx.x & 7;
    for (int p = begin; p < end; p += 32) {
        bool real = p + lane < end;
        int n = real ? (p + lane) / size : 0, spot = real ? (p + lane) % size : 0;
        int h0 = spot / OW * sh, w0 = spot % OW * sw;
        const T* image = x + ((long long)n * groups + group) * C * H * W;
        const T* from = g + (((long long)n * groups + group) * M) * size + spot;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            int row = warp + 8 * j;
            left[row][lane] = real && begin_m + row < M
                ? from[(long long)(begin_m + row) * size] : (T)0;
            int h = h0 + down[row], w = w0 + along[row];
            bool inside = real && channel[row] >= 0 && h >= 0 && h < H && w >= 0 && w < W;
            right[row][lane] = inside ? image[channel[row] + h * W + w] : (T)0; }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            T f = left[m][i];
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[j] += f * right[e + 8 * j][i]; } }
    T* to = parts + (((long long)blockIdx.y * groups + group) * M + begin_m + m) * K + begin_k;
    for (int j = 0; j < 4; ++j)
        if (begin_m + m < M && begin_k + e + 8 * j < K) to[e + 8 * j] = sums[j]; }
extern "C" __global__ void pb_fold(const T* parts, T* out, int size, int shares) {
    int own = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (own >= size) return;
    T sum = 0;
#pragma unroll 8
    for (int k = lane; k < shares; k += 32) sum += parts[(long long)k * size + own];
    for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, k);
    if (!lane) out[own] = sum; }
extern "C" __global__ void __launch_bounds__(1024) pb_channel_sums(
        const T* g, T* parts, int N, int C, int places, int share) {
    __shared__ T sums[32];
    unsigned c = blockIdx.x, begin = blockIdx.y * share, total = (unsigned)N * places;
    unsigned end = total - begin < (unsigned)share ? total : begin + share;
    T sum = 0;
#pragma unroll 8
    for (unsigned k = begin + threadIdx.x; k < end; k += 1024)
        sum += g[((long long)(k / places) * C + c) * places + k % places];
    for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, k);
    if (!(threadIdx.x & 31)) sums[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    sum = sums[threadIdx.x];
    for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, k);
    if (!threadIdx.x) parts[blockIdx.y * C + c] = sum; }
"""
_CORRELATION = """
extern "C" __global__ void __launch_bounds__(256) pb_correlate_ROWS(
        const T* x, const T* w, const T* bias, T* out, int N, int groups, int M, int K, int C,
        int H, int W, int KH, int KW, int OH, int OW, int sh, int sw, int ph, int pw,
        int dh, int dw, int turned) {
    correlate<ROWS>(x, w, bias, out, N, groups, M, K, C, H, W, KH, KW, OH, OW,
        sh, sw, ph, pw, dh, dw, turned); }
"""
_ROWS = (1, 2, 4, 8)  # filters to a warp
_PLACES = 128
_MOST_FILTERS = 64  # beyond, columns in memory and cuBLAS's product are quicker
_MOST_ELEMENTS = 1024  # of a filter, for its gradient
_SHARE = 192  # places whose gradients a block adds up
_BLOCKS = 1024
_SUMMED = 1 << 17  # elements of a channel that a block adds up
_GRID = 65535


_NAMES = (*(f"correlate_{rows}" for rows in _ROWS), "filters", "fold", "channel_sums")


def _text(kind: str) -> str:
    """The kernels for a dtype."""
    forms = "".join(_CORRELATION.replace("ROWS", str(rows)) for rows in _ROWS)
    return _SOURCE.replace("TYPE", _TYPES[kind]).replace("CORRELATIONS\n", forms)


class Filters:
    """The kernels, compiled for each dtype when first needed. Images are (n, channels, h, w)."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._kernel = Kernels(cupy, _text, _NAMES)

    @staticmethod
    def are_few(outputs: int, groups: int, *images: Any) -> bool:
        """Whether so many filters are for these kernels, and the images not too large for ints."""
        few = outputs // groups <= _MOST_FILTERS and groups <= _GRID
        return few and all(one.size < 1 << 30 for one in images)

    @staticmethod
    def are_short(outputs: int, elements: int, groups: int, *images: Any) -> bool:
        """Whether the gradient of such filters is."""
        return elements <= _MOST_ELEMENTS and Filters.are_few(outputs, groups, *images)

    def correlate(
        self,
        x: Any,
        weight: Any,
        bias: Any,
        number: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        *,
        turned: bool = False,
    ) -> Any:
        """Filters times windows; turned, what gradients of windows come to in an image of `number`.

        Turned, the filters' second dimension is that of the result, as in `correlated` their first.
        """
        n, channels = x.shape[0], x.shape[1] // groups
        kernel = weight.shape[2:]
        outputs = weight.shape[1] if turned else weight.shape[0] // groups
        out = self.cupy.ndarray((n, outputs * groups, *number), x.dtype)
        rows = next((one for one in _ROWS if outputs <= 8 * one), _ROWS[-1])
        before = padding[0][0], padding[1][0]
        elements = channels * kernel[0] * kernel[1]
        numbers = n, groups, outputs, elements, channels, *x.shape[2:], *kernel, *number
        more = *stride, *before, *dilation, int(turned)
        places = n * number[0] * number[1]
        grid = -(-places // _PLACES), -(-outputs // (8 * rows)), groups
        given = x, weight, numpy.uint64(0) if bias is None else bias, out
        launch = self._kernel(f"correlate_{rows}", x.dtype.char)
        launch(grid, (256, 1, 1), (*given, *map(numpy.int32, (*numbers, *more))))
        return out

    def gradient(
        self, g: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
    ) -> Any:
        """The gradient of filters, from that of places and the image."""
        n, channels, outputs = x.shape[0], x.shape[1] // groups, g.shape[1] // groups
        elements = channels * kernel[0] * kernel[1]
        number = g.shape[2:]
        places = n * number[0] * number[1]
        tiles = -(-elements // 32) * -(-outputs // 32)
        most = min(max(_BLOCKS // (tiles * groups), 1), _GRID)
        share = max(_SHARE, -(-places // most))
        shares = -(-places // share)
        out = self.cupy.ndarray((groups * outputs, channels, *kernel), x.dtype)
        parts = out if shares == 1 else self.cupy.ndarray((shares, out.size), x.dtype)
        before = padding[0][0], padding[1][0]
        numbers = n, groups, outputs, elements, channels, *x.shape[2:], *kernel, *number
        sizes = map(numpy.int32, (*numbers, *stride, *before, *dilation, share))
        launch = self._kernel("filters", x.dtype.char)
        launch((tiles, shares, groups), (256, 1, 1), (g, x, parts, *sizes))
        return self._folded(parts, out, shares)

    def _folded(self, parts: Any, out: Any, shares: int) -> Any:
        if shares > 1:
            sizes = numpy.int32(out.size), numpy.int32(shares)
            launch = self._kernel("fold", out.dtype.char)
            launch((-(-out.size // 8), 1, 1), (256, 1, 1), (parts, out, *sizes))
        return out

    def channel_sums(self, g: Any) -> Any:
        """The sum of each channel of (n, channels, ...)."""
        n, channels = g.shape[:2]
        places = g.size // (n * channels)
        share = max(_SUMMED, -(-n * places // _GRID))
        shares = -(-n * places // share)
        out = self.cupy.ndarray((channels,), g.dtype)
        parts = out if shares == 1 else self.cupy.ndarray((shares, channels), g.dtype)
        sizes = map(numpy.int32, (n, channels, places, share))
        launch = self._kernel("channel_sums", g.dtype.char)
        launch((channels, shares, 1), (1024, 1, 1), (g, parts, *sizes))
        return self._folded(parts, out, shares)
