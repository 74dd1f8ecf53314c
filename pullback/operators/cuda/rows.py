"""Kernels over rows, written for the device: softmax, layer norm, cross entropy.

A block of threads takes a row and leaves its result; a row of up to eight elements for each thread
is read once and held in registers. Sums are float32, or float64 for float64; float16 and bfloat16
are read and written as their bits. Each method returns None where the arrays are not of that kind
(rows that fill memory in order, a dtype with a kernel, a device that runs kernels), and its caller
goes step by step.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.operators.cuda.columns import Columns
from pullback.operators.cuda.launch import Kernel
from pullback.operators.cuda.stored import STORED, computed_in, head_of

__all__ = ["Rows"]

_HEAD = """
__device__ A sum_of(A v, A* shared) {{
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(0xffffffffu, v, k);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __syncthreads();
    if (!lane) shared[warp] = v;
    __syncthreads();
    A total = 0;
    for (int k = 0; k < (blockDim.x >> 5); ++k) total += shared[k];
    return total; }}
__device__ A max_of(A v, A* shared) {{
    for (int k = 16; k; k >>= 1) {{
        A o = __shfl_down_sync(0xffffffffu, v, k); v = (o > v || o != o) ? o : v; }}
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    __syncthreads();
    if (!lane) shared[warp] = v;
    __syncthreads();
    A top = shared[0];
    for (int k = 1; k < (blockDim.x >> 5); ++k) {{
        A o = shared[k]; top = (o > top || o != o) ? o : top; }}
    return top; }}
#define ROW long long row = blockIdx.x; long long at = row * n; __shared__ A shared[32];
#define EACH for (int j = threadIdx.x; j < n; j += blockDim.x)
#define LOWEST (-__int_as_float(0x7f800000))
#define FITS (n <= 8 * blockDim.x)
#define HELD _Pragma("unroll") \\
    for (int k = 0, j = threadIdx.x; k < 8; ++k, j += blockDim.x) if (j < n)
"""
_BODIES = """
extern "C" __global__ void pb_softmax(const S* x, S* y, int n) {{
    ROW A top = LOWEST;
    if (FITS) {{
        A v[8], sum = 0;
        HELD {{ v[k] = ld(x[at + j]); top = (v[k] > top || v[k] != v[k]) ? v[k] : top; }}
        top = max_of(top, shared);
        HELD {{ v[k] = exp(v[k] - top); sum += v[k]; }}
        sum = sum_of(sum, shared);
        HELD y[at + j] = st(v[k] / sum);
        return; }}
    EACH {{ A v = ld(x[at + j]); top = (v > top || v != v) ? v : top; }}
    top = max_of(top, shared);
    A sum = 0;
    EACH sum += exp(ld(x[at + j]) - top);
    sum = sum_of(sum, shared);
    EACH y[at + j] = st(exp(ld(x[at + j]) - top) / sum); }}
extern "C" __global__ void pb_softmax_causal(S* x, int n, int queries, A factor) {{
    ROW int seen = (int)(row % queries) + 1; if (seen > n) seen = n;
    A top = LOWEST;
    if (FITS) {{
        A v[8], sum = 0;
        HELD {{ v[k] = j < seen ? ld(x[at + j]) * factor : LOWEST;
            top = (v[k] > top || v[k] != v[k]) ? v[k] : top; }}
        top = max_of(top, shared);
        HELD {{ v[k] = j < seen ? exp(v[k] - top) : (A)0; sum += v[k]; }}
        sum = sum_of(sum, shared);
        HELD x[at + j] = st(v[k] / sum);
        return; }}
    for (int j = threadIdx.x; j < seen; j += blockDim.x) {{
        A v = ld(x[at + j]) * factor; top = (v > top || v != v) ? v : top; }}
    top = max_of(top, shared);
    A sum = 0;
    for (int j = threadIdx.x; j < seen; j += blockDim.x) sum += exp(ld(x[at + j]) * factor - top);
    sum = sum_of(sum, shared);
    EACH x[at + j] = j < seen ? st(exp(ld(x[at + j]) * factor - top) / sum) : st((A)0); }}
extern "C" __global__ void pb_softmax_adjoint(const S* g, const S* y, S* out, int n, A factor) {{
    ROW A sum = 0;
    if (FITS) {{
        A v[8], w[8];
        HELD {{ v[k] = ld(g[at + j]); w[k] = ld(y[at + j]); sum += v[k] * w[k]; }}
        sum = sum_of(sum, shared);
        HELD out[at + j] = st(w[k] * (v[k] - sum) * factor);
        return; }}
    EACH sum += ld(g[at + j]) * ld(y[at + j]);
    sum = sum_of(sum, shared);
    EACH out[at + j] = st(ld(y[at + j]) * (ld(g[at + j]) - sum) * factor); }}
extern "C" __global__ void pb_log_softmax(const S* x, S* y, int n) {{
    ROW A top = LOWEST;
    EACH {{ A v = ld(x[at + j]); top = (v > top || v != v) ? v : top; }}
    top = max_of(top, shared);
    A sum = 0;
    EACH sum += exp(ld(x[at + j]) - top);
    sum = log(sum_of(sum, shared));
    EACH y[at + j] = st(ld(x[at + j]) - top - sum); }}
extern "C" __global__ void pb_log_softmax_adjoint(const S* g, const S* y, S* out, int n) {{
    ROW A sum = 0;
    EACH sum += ld(g[at + j]);
    sum = sum_of(sum, shared);
    EACH out[at + j] = st(ld(g[at + j]) - exp(ld(y[at + j])) * sum); }}
extern "C" __global__ void pb_norm(const S* x, const S* w, const S* b, S* y, int n, A eps) {{
    ROW A mean = 0;
    if (FITS) {{
        A v[8], total = 0;
        HELD {{ v[k] = ld(x[at + j]); mean += v[k]; }}
        mean = sum_of(mean, shared) / n;
        HELD {{ v[k] -= mean; total += v[k] * v[k]; }}
        A r = rsqrt(sum_of(total, shared) / n + eps);
        HELD {{ A o = v[k] * r;
            if (w) o *= ld(w[j]);
            if (b) o += ld(b[j]);
            y[at + j] = st(o); }}
        return; }}
    EACH mean += ld(x[at + j]);
    mean = sum_of(mean, shared) / n;
    A square = 0;
    EACH {{ A v = ld(x[at + j]) - mean; square += v * v; }}
    A r = rsqrt(sum_of(square, shared) / n + eps);
    EACH {{ A v = (ld(x[at + j]) - mean) * r;
        if (w) v *= ld(w[j]);
        if (b) v += ld(b[j]);
        y[at + j] = st(v); }} }}
extern "C" __global__ void pb_norm_adjoint(
        const S* g, const S* x, const S* w, S* out, A* means, A* rs, int n, A eps) {{
    ROW A mean = 0;
    if (FITS && out) {{
        A v[8], u[8], total = 0, gs = 0, gx = 0;
        HELD {{ v[k] = ld(x[at + j]); u[k] = ld(g[at + j]); mean += v[k]; }}
        mean = sum_of(mean, shared) / n;
        HELD {{ v[k] -= mean; total += v[k] * v[k]; }}
        A r = rsqrt(sum_of(total, shared) / n + eps);
        if (!threadIdx.x) {{ means[row] = mean; rs[row] = r; }}
        HELD {{ if (w) u[k] *= ld(w[j]); v[k] *= r; gs += u[k]; gx += u[k] * v[k]; }}
        gs = sum_of(gs, shared) / n; gx = sum_of(gx, shared) / n;
        HELD out[at + j] = st(r * (u[k] - gs - v[k] * gx));
        return; }}
    EACH mean += ld(x[at + j]);
    mean = sum_of(mean, shared) / n;
    A square = 0;
    EACH {{ A v = ld(x[at + j]) - mean; square += v * v; }}
    A r = rsqrt(sum_of(square, shared) / n + eps);
    if (!threadIdx.x) {{ means[row] = mean; rs[row] = r; }}
    if (!out) return;
    A gs = 0, gx = 0;
    EACH {{ A v = ld(g[at + j]); if (w) v *= ld(w[j]);
        gs += v; gx += v * (ld(x[at + j]) - mean) * r; }}
    gs = sum_of(gs, shared) / n; gx = sum_of(gx, shared) / n;
    EACH {{ A v = ld(g[at + j]); if (w) v *= ld(w[j]);
        out[at + j] = st(r * (v - gs - (ld(x[at + j]) - mean) * r * gx)); }} }}
extern "C" __global__ void pb_entropy(
        const S* x, const long long* t, S* out, A* counts, int n, long long ignore) {{
    ROW A top = LOWEST;
    EACH {{ A v = ld(x[at + j]); top = (v > top || v != v) ? v : top; }}
    top = max_of(top, shared);
    A sum = 0;
    EACH sum += exp(ld(x[at + j]) - top);
    sum = sum_of(sum, shared);
    if (threadIdx.x) return;
    bool skip = t[row] == ignore;
    counts[row] = skip ? 0 : 1;
    out[row] = st(skip ? (A)0 : log(sum) + top - ld(x[at + t[row]])); }}
extern "C" __global__ void pb_entropy_at_once(
        const S* x, const long long* t, S* out, int n, int rows, long long ignore, int mean) {{
    __shared__ A shared[32];
    int lane = threadIdx.x & 31;
    A total = 0, count = 0;
    for (int row = threadIdx.x >> 5; row < rows; row += blockDim.x >> 5) {{
        const S* at = x + (long long)row * n;
        A top = LOWEST, sum = 0;
        for (int j = lane; j < n; j += 32) {{
            A v = ld(at[j]); top = (v > top || v != v) ? v : top; }}
        for (int k = 16; k; k >>= 1) {{
            A o = __shfl_xor_sync(0xffffffffu, top, k); top = (o > top || o != o) ? o : top; }}
        for (int j = lane; j < n; j += 32) sum += exp(ld(at[j]) - top);
        for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, k);
        if (lane || t[row] == ignore) continue;
        total += log(sum) + top - ld(at[t[row]]); count += 1; }}
    total = sum_of(total, shared); count = sum_of(count, shared);
    if (!threadIdx.x) out[0] = st(mean ? total / count : total); }}
extern "C" __global__ void pb_entropy_total(
        const S* losses, const A* counts, S* out, A* count, int n, int mean) {{
    __shared__ A shared[32];
    A sum = 0, c = 0;
    EACH {{ sum += ld(losses[j]); c += counts[j]; }}
    sum = sum_of(sum, shared); c = sum_of(c, shared);
    if (!threadIdx.x) {{ out[0] = st(mean ? sum / c : sum); count[0] = c; }} }}
extern "C" __global__ void pb_entropy_adjoint(
        const S* g, const S* x, const long long* t, const A* count, S* out, int n,
        long long ignore, int mode) {{
    ROW A top = LOWEST;
    EACH {{ A v = ld(x[at + j]); top = (v > top || v != v) ? v : top; }}
    top = max_of(top, shared);
    A sum = 0;
    EACH sum += exp(ld(x[at + j]) - top);
    sum = sum_of(sum, shared);
    long long target = t[row];
    A factor = ld(g[mode == 0 ? row : 0]);
    if (mode == 2) {{
        A c = 0;
        if (!count) {{
            for (int j = threadIdx.x; j < gridDim.x; j += blockDim.x) c += t[j] == ignore ? 0 : 1;
            c = sum_of(c, shared); }}
        factor /= count ? count[0] : c; }}
    if (target == ignore) factor = 0;
    EACH {{ A p = exp(ld(x[at + j]) - top) / sum;
        out[at + j] = st(factor * (p - (j == target ? (A)1 : (A)0))); }} }}
extern "C" __global__ void pb_entropy_count(
        const long long* t, A* count, int n, long long ignore) {{
    __shared__ A shared[32];
    A c = 0;
    EACH c += t[j] == ignore ? 0 : 1;
    c = sum_of(c, shared);
    if (!threadIdx.x) count[0] = c; }}
"""
_AT_ONCE = 1 << 15  # scores whose losses one block of threads adds up
_COUNTED = 4096  # targets that every block of threads counts for itself
_MODES = {"none": 0, "sum": 1, "mean": 2}


class Rows:
    """The kernels, compiled for each dtype when first needed."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._raw: Any = getattr(cupy, "RawModule", None)
        self._kernels: dict[tuple[str, str], Any] = {}
        self._modules: dict[str, Any] = {}
        self.columns = Columns(cupy)

    def _kernel(self, name: str, kind: str) -> Any:
        known = self._kernels.get((name, kind))
        if known is None:
            module = self._modules.get(kind)
            if module is None:
                source = head_of(kind) + (_HEAD + _BODIES).format()
                module = self._modules[kind] = self._raw(code=source)
            function = module.get_function(f"pb_{name}")
            known = self._kernels[name, kind] = Kernel(self.cupy, function)
        return known

    def fits(self, *arrays: Any) -> bool:
        """Whether there is a kernel for these: of one dtype, in order."""
        first = arrays[0]
        if self._raw is None or first.dtype.char not in STORED or not first.size or not first.ndim:
            return False
        return all(one._c_contiguous and one.dtype is first.dtype for one in arrays)

    @staticmethod
    def _threads(n: int) -> int:
        return 32 if n <= 64 else 128 if n <= 1024 else 256

    def add_row(self, x: Any, row: Any) -> Any:
        """`row` added to each row of `x`, in place."""
        if not self.fits(x, row):
            x += row
            return x
        return self.columns.add_row(x, row)

    def _by_rows(self, name: str, arrays: tuple[Any, ...], *more: Any) -> Any:
        first = arrays[0]
        n = first.shape[-1]
        out = self.cupy.ndarray(first.shape, first.dtype)
        kernel = self._kernel(name, first.dtype.char)
        kernel((first.size // n,), (self._threads(n),), (*arrays, out, numpy.int32(n), *more))
        return out

    def softmax(self, x: Any) -> Any:
        """Over the last dimension."""
        return self._by_rows("softmax", (x,))

    def softmax_causal(self, products: Any, factor: float) -> Any:
        """Of `products * factor`, in place; a query sees no later keys."""
        queries, n = products.shape[-2:]
        kind = products.dtype.char
        kernel = self._kernel("softmax_causal", kind)
        given = products, numpy.int32(n), numpy.int32(queries), computed_in(kind)(factor)
        kernel((products.size // n,), (self._threads(n),), given)
        return products

    def softmax_adjoint(self, g: Any, y: Any, factor: float = 1.0) -> Any:
        """The gradient of softmax, times a factor."""
        return self._by_rows("softmax_adjoint", (g, y), computed_in(g.dtype.char)(factor))

    def log_softmax(self, x: Any) -> Any:
        """Over the last dimension."""
        return self._by_rows("log_softmax", (x,))

    def log_softmax_adjoint(self, g: Any, y: Any) -> Any:
        """The gradient of log_softmax."""
        return self._by_rows("log_softmax_adjoint", (g, y))

    def norm(self, x: Any, n: int, weight: Any, bias: Any, eps: float) -> Any:
        """Layer norm of rows of `n`."""
        kind = x.dtype.char
        out = self.cupy.ndarray(x.shape, x.dtype)
        given = x, _or_null(weight), _or_null(bias), out, numpy.int32(n), computed_in(kind)(eps)
        self._kernel("norm", kind)((x.size // n,), (self._threads(n),), given)
        return out

    def norm_gradients(
        self,
        g: Any,
        x: Any,
        n: int,
        weight: Any,
        eps: float,
        *,
        wants_input: bool,
        wants_weights: bool,
    ) -> tuple[Any, Any, Any]:
        """Those of input, weight and bias of a layer norm."""
        kind = x.dtype.char
        computed = computed_in(kind)
        rows = x.size // n
        out = self.cupy.ndarray(x.shape, x.dtype) if wants_input else None
        means, rs = self.cupy.ndarray((rows,), computed), self.cupy.ndarray((rows,), computed)
        given = g, x, _or_null(weight), _or_null(out), means, rs, numpy.int32(n), computed(eps)
        self._kernel("norm_adjoint", kind)((rows,), (self._threads(n),), given)
        if not wants_weights:
            return out, None, None
        return out, *self.columns.norm_weights(g, x, means, rs, n)

    def column_sums(self, g: Any) -> Any:
        """Sums over all dimensions but the last; of half precision in single, rounded once."""
        return self.columns.sums(g, g.shape[-1])

    def entropy(self, x: Any, target: Any, ignore: int, reduction: str) -> Any:
        """Cross entropy of rows of scores with class numbers."""
        kind = x.dtype.char
        rows, n = x.shape
        computed = computed_in(kind)
        mean = numpy.int32(reduction == "mean")
        if reduction != "none" and rows * n <= _AT_ONCE:
            out = self.cupy.ndarray((), x.dtype)
            sizes = numpy.int32(n), numpy.int32(rows), numpy.int64(ignore), mean
            self._kernel("entropy_at_once", kind)((1,), (1024,), (x, target, out, *sizes))
            return out
        losses, counts = self.cupy.ndarray((rows,), x.dtype), self.cupy.ndarray((rows,), computed)
        given: tuple[Any, ...] = x, target, losses, counts, numpy.int32(n), numpy.int64(ignore)
        self._kernel("entropy", kind)((rows,), (self._threads(n),), given)
        if reduction == "none":
            return losses
        out, count = self.cupy.ndarray((), x.dtype), self.cupy.ndarray((), computed)
        given = losses, counts, out, count, numpy.int32(rows), mean
        self._kernel("entropy_total", kind)((1,), (256,), given)
        return out

    def entropy_adjoint(self, g: Any, x: Any, target: Any, ignore: int, reduction: str) -> Any:
        """The gradient of `entropy`."""
        kind = x.dtype.char
        rows, n = x.shape
        count: Any = None
        if reduction == "mean" and rows > _COUNTED:
            count = self.cupy.ndarray((), computed_in(kind))
            given: tuple[Any, ...] = target, count, numpy.int32(rows), numpy.int64(ignore)
            self._kernel("entropy_count", kind)((1,), (256,), given)
        out = self.cupy.ndarray(x.shape, x.dtype)
        mode = numpy.int32(_MODES[reduction])
        given = g, x, target, _or_null(count), out, numpy.int32(n), numpy.int64(ignore), mode
        self._kernel("entropy_adjoint", kind)((rows,), (self._threads(n),), given)
        return out


def _or_null(array: Any) -> Any:
    return numpy.uintp(0) if array is None else array
