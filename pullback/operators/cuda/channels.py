"""Norms of channels: batch, group and instance norm, in two launches forward and three back.

Elements that share statistics are cut into shares, a block of threads for each: it finds their
mean, then the squares about it, and shares are merged. So numbers far from 0 lose no digits, and
the order of all sums is fixed by the shapes. Half precision is read and written as it is and
computed in single.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy

from pullback.operators.cuda.launch import Kernels
from pullback.operators.cuda.stored import STORED, computed_in, head_of

__all__ = ["Channels", "Grouping", "grouping"]

_THREADS = 256
_SHARE = 2048  # elements that a block of threads takes at the least, where there are several
_MOST_SHARES = 64
_BLOCKS = 1056  # eight for each multiprocessor of a large device
_MOST = (1 << 31) - 1
_NULL = numpy.uint64(0)
_SOURCE = """
#define THREADS 256
#define AT(k) ((long long)((k) / run) * step + (long long)s * run + (k) % run)
#define SHARE int s = blockIdx.x, begin = blockIdx.y * share; \\
    int end = count - begin < share ? count : begin + share;
__device__ A total(A v, A* room) {  // the block's, for all of its threads
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
    __syncthreads();
    if (!(threadIdx.x & 31)) room[threadIdx.x >> 5] = v;
    __syncthreads();
    A sum = 0;
    for (int k = 0; k < THREADS / 32; ++k) sum += room[k];
    return sum; }
__device__ void found(A* average, A* rstd, A* variance, int s, A mean, A squares, int count,
        double eps) {
    A v = squares / count;
    average[s] = mean; variance[s] = v; rstd[s] = (A)(1 / sqrt((double)v + eps)); }
extern "C" __global__ void __launch_bounds__(256) pb_moments(
        const S* x, A* means, A* squares, A* average, A* rstd, A* variance, double eps,
        long long step, int run, int count, int share) {
    __shared__ A room[THREADS / 32];
    SHARE
    A sum = 0;
    for (int k = begin + threadIdx.x; k < end; k += THREADS) sum += ld(x[AT(k)]);
    A mean = total(sum, room) / (end - begin), square = 0;
    for (int k = begin + threadIdx.x; k < end; k += THREADS) {
        A d = ld(x[AT(k)]) - mean; square += d * d; }
    square = total(square, room);
    if (threadIdx.x) return;
    if (gridDim.y == 1) found(average, rstd, variance, s, mean, square, count, eps);
    else {
        long long own = (long long)blockIdx.y * gridDim.x + s;
        means[own] = mean; squares[own] = square; } }
extern "C" __global__ void pb_merge(
        const A* means, const A* squares, A* average, A* rstd, A* variance, double eps,
        int rows, int shares, int count, int share) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= rows) return;
    A mean = means[s], square = squares[s], had = share;
    for (int p = 1; p < shares; ++p) {
        A more = count - p * share < share ? count - p * share : share, both = had + more;
        A d = means[(long long)p * rows + s] - mean;
        square += squares[(long long)p * rows + s] + d * d * (had * more / both);
        mean += d * (more / both); had = both; }
    found(average, rstd, variance, s, mean, square, count, eps); }
extern "C" __global__ void pb_scale(
        const S* x, const A* average, const A* rstd, const A* w, const A* b, S* out,
        long long size, int run, int channels, int per) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size;
            i += (long long)gridDim.x * blockDim.x) {
        int q = i / run, c = q % channels, t = per ? q / per : c;
        A v = (ld(x[i]) - average[t]) * rstd[t];
        if (w) v *= w[c];
        if (b) v += b[c];
        out[i] = st(v); } }
extern "C" __global__ void __launch_bounds__(256) pb_sums(
        const S* g, const S* x, const A* average, const A* rstd, A* sums, A* products,
        long long step, int run, int count, int share, int per) {
    __shared__ A room[THREADS / 32];
    SHARE
    int t = per ? s / per : s;
    A mean = average[t], r = rstd[t], sum = 0, product = 0;
    for (int k = begin + threadIdx.x; k < end; k += THREADS) {
        long long i = AT(k); A v = ld(g[i]);
        sum += v; product += v * ((ld(x[i]) - mean) * r); }
    sum = total(sum, room); product = total(product, room);
    if (threadIdx.x) return;
    long long own = (long long)blockIdx.y * gridDim.x + s;
    sums[own] = sum; products[own] = product; }
extern "C" __global__ void pb_folded(
        const A* sums, const A* products, A* sum, A* product, int rows, int shares) {
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= rows) return;
    A a = 0, b = 0;
    for (int p = 0; p < shares; ++p) {
        a += sums[(long long)p * rows + s]; b += products[(long long)p * rows + s]; }
    sum[s] = a; product[s] = b; }
extern "C" __global__ void pb_weighed(
        const A* sums, const A* products, const A* w, A* sum, A* product, int rows, int per,
        int channels) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows) return;
    A a = 0, b = 0;
    for (int q = t * per; q < (t + 1) * per; ++q) {
        A f = w ? w[q % channels] : (A)1; a += f * sums[q]; b += f * products[q]; }
    sum[t] = a; product[t] = b; }
extern "C" __global__ void pb_back(
        const S* g, const S* x, const A* average, const A* rstd, const A* w, const A* sum,
        const A* product, S* out, long long size, int run, int channels, int per, int count) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < size;
            i += (long long)gridDim.x * blockDim.x) {
        int q = i / run, c = q % channels, t = per ? q / per : c;
        A f = w ? w[c] : (A)1, r = rstd[t], unit = (ld(x[i]) - average[t]) * r;
        A before = per ? f : (A)1, after = per ? (A)1 : f;
        A v = ld(g[i]) * before - (sum[t] + unit * product[t]) / count;
        out[i] = st(v * r * after); } }
extern "C" __global__ void pb_follow(
        A* mean, A* variance, const A* average, const A* found, double kept, double part,
        double unbiased, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    mean[c] = mean[c] * (A)kept + average[c] * (A)part;
    variance[c] = variance[c] * (A)kept + found[c] * (A)unbiased; }
"""
_NAMES = ("moments", "merge", "scale", "sums", "folded", "weighed", "back", "follow")


class Grouping(NamedTuple):
    """Which elements of (n, channels, ...) share statistics: runs are neighbours of a channel."""

    channels: int
    run: int
    per: int  # channels to a statistic of one example; 0: a channel of all examples
    rows: int  # statistics
    size: int  # elements of each


def grouping(shape: tuple[int, ...], seen: Any, over: Any) -> Grouping | None:
    """That of a norm; None where it is not one of channels, or too large for the kernels."""
    if over.channel != 1 or not over.centred or not 0 < math.prod(shape) <= _MOST:
        return None
    last = tuple(range(2, len(shape) + (over.groups is not None)))
    if over.groups is None and over.dims == (0, *last):
        return Grouping(shape[1], seen.run, 0, seen.rows, seen.size)
    if over.dims != last:
        return None
    return Grouping(shape[1], seen.run, shape[1] // (over.groups or shape[1]), seen.rows, seen.size)


class Channels:
    """The kernels, compiled for each dtype when first needed. Arrays are in order in memory."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._are_there = hasattr(cupy, "RawModule")
        self._kernel = Kernels(cupy, lambda kind: head_of(kind) + _SOURCE, _NAMES)

    def fits(self, *arrays: Any) -> bool:
        """Whether there are kernels for such arrays, all of one dtype."""
        first = arrays[0].dtype
        return self._are_there and all(
            one.dtype is first and one.dtype.char in STORED and one._c_contiguous for one in arrays
        )

    def statistics(self, x: Any, of: Grouping, eps: float) -> tuple[Any, Any, Any]:
        """Mean, inverse deviation and variance of each."""
        kind = x.dtype.char
        average, rstd, variance = self._rooms(3, (of.rows,), kind)
        shares, share, step, run = self._shares(of)
        means, squares = (_NULL, _NULL) if shares == 1 else self._rooms(2, (shares, of.rows), kind)
        results = average, rstd, variance, float(eps)
        sizes = map(numpy.int32, (run, of.size, share))
        self._kernel("moments", kind)(
            (of.rows, shares), (_THREADS,), (x, means, squares, *results, step, *sizes)
        )
        if shares > 1:
            sizes = map(numpy.int32, (of.rows, shares, of.size, share))
            self._over("merge", kind, of.rows, (means, squares, *results, *sizes))
        return average, rstd, variance

    def scaled(self, x: Any, of: Grouping, known: Any, weight: Any, bias: Any) -> Any:
        """`(x - mean) / deviation * weight + bias`."""
        out = self.cupy.ndarray(x.shape, x.dtype)
        weights = [self._computed(one, x) for one in (weight, bias)]
        sizes = map(numpy.int32, (of.run, of.channels, of.per))
        given = x, known[0], known[1], *weights, out, x.size, *sizes
        self._over("scale", x.dtype.char, min(x.size, _BLOCKS * _THREADS * 4), given)
        return out

    def gradients(
        self,
        g: Any,
        x: Any,
        of: Grouping,
        known: Any,
        weight: Any,
        *,
        wants_input: bool,
        wants_weights: bool,
    ) -> tuple[Any, Any, Any]:
        """Those of input, weight and bias; of the latter in the type of arithmetic."""
        kind = x.dtype.char
        weight = self._computed(weight, x)
        runs = x.size // of.run
        alone = of.per > 0
        # Sums of a channel, or of each run where examples have statistics of their own.
        part = of._replace(rows=runs, size=of.run) if alone else of
        shares, share, step, run = self._shares(part)
        sums, products = self._rooms(2, (shares, part.rows), kind)
        sizes = map(numpy.int32, (run, part.size, share, of.per))
        given = g, x, known[0], known[1], sums, products, step, *sizes
        self._kernel("sums", kind)((part.rows, shares), (_THREADS,), given)
        if shares > 1:
            sums, products = self._folded(sums, products, part.rows, shares, kind)
        out = of_weight = of_bias = None
        if wants_weights:
            of_bias, of_weight = sums, products
            if alone:
                examples = runs // of.channels
                of_bias, of_weight = self._folded(sums, products, of.channels, examples, kind)
        if wants_input:
            if alone:
                sums, products = self._weighed(sums, products, weight, of, kind)
            out = self.cupy.ndarray(x.shape, x.dtype)
            sizes = map(numpy.int32, (of.run, of.channels, of.per, of.size))
            given = g, x, known[0], known[1], weight, sums, products, out, x.size, *sizes
            self._over("back", kind, min(x.size, _BLOCKS * _THREADS * 4), given)
        if of_weight is not None:
            assert of_bias is not None
            of_weight, of_bias = of_weight.reshape(-1), of_bias.reshape(-1)
        return out, of_weight, of_bias

    def follow(self, mean: Any, variance: Any, known: Any, parts: tuple[float, ...]) -> None:
        """Move running statistics: what is kept, the batch's part, and that of its variance."""
        given = mean, variance, known[0], known[2], *map(float, parts), numpy.int32(mean.size)
        self._over("follow", mean.dtype.char, mean.size, given)

    def _shares(self, of: Grouping) -> tuple[int, int, int, int]:
        """How many shares, the elements of one, and how the elements of a row lie."""
        wanted = min(-(-_BLOCKS // of.rows), -(-of.size // _SHARE), _MOST_SHARES)
        share = -(-of.size // max(wanted, 1))
        if of.size == of.run or of.per:  # in one piece
            return -(-of.size // share), share, 0, of.size
        return -(-of.size // share), share, of.rows * of.run, of.run

    def _folded(self, sums: Any, products: Any, rows: int, shares: int, kind: str) -> Any:
        made = self._rooms(2, (rows,), kind)
        sizes = numpy.int32(rows), numpy.int32(shares)
        self._over("folded", kind, rows, (sums, products, *made, *sizes))
        return made

    def _weighed(self, sums: Any, products: Any, weight: Any, of: Grouping, kind: str) -> Any:
        made = self._rooms(2, (of.rows,), kind)
        sizes = map(numpy.int32, (of.rows, of.per, of.channels))
        self._over("weighed", kind, of.rows, (sums, products, weight, *made, *sizes))
        return made

    def _rooms(self, count: int, shape: tuple[int, ...], kind: str) -> list[Any]:
        return [self.cupy.ndarray(shape, computed_in(kind)) for _ in range(count)]

    def _computed(self, weight: Any, x: Any) -> Any:
        """A weight as the kernels read it: in the type of arithmetic; nothing is address 0."""
        if weight is None:
            return _NULL
        return self.cupy.ascontiguousarray(weight, computed_in(x.dtype.char))

    def _over(self, name: str, kind: str, threads: int, given: tuple[Any, ...]) -> None:
        self._kernel(name, kind)((-(-threads // _THREADS),), (_THREADS,), given)
