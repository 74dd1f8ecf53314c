"""Kernels over the windows of images, written for the device: columns for products, and maxima.

`columns` lays every window of a padded image out, so that a convolution is one product of matrices.
Each function returns None where there is no kernel: its caller goes the way of the host.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.operators.cuda.launch import Kernels

__all__ = ["Windows"]

_TYPES = {"f": "float", "d": "double"}
_SOURCE = """
typedef {type} T;
#define PLACE long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; if (i >= size) return;
extern "C" __global__ void pb_columns(
        const T* x, T* out, long long size, int N, int C, int H, int W,
        int KH, int KW, int OH, int OW, int sh, int sw, int ph, int pw, int dh, int dw,
        int together) {{
    PLACE
    long long k = i;
    int ow = k % OW; k /= OW; int oh = k % OH; k /= OH;
    int n;
    if (together) {{ n = k % N; k /= N; }}
    int kw = k % KW; k /= KW; int kh = k % KH; k /= KH; int c = k % C; k /= C;
    if (!together) n = k;
    int h = oh * sh - ph + kh * dh, w = ow * sw - pw + kw * dw;
    bool inside = h >= 0 && h < H && w >= 0 && w < W;
    out[i] = inside ? x[(((long long)n * C + c) * H + h) * W + w] : (T)0; }}
extern "C" __global__ void pb_add_channels(T* x, const T* b, long long size, int C, int places) {{
    PLACE
    x[i] += b[(i / places) % C]; }}
extern "C" __global__ void pb_maxima(
        const T* x, T* out, long long* at, long long size, int H, int W,
        int KH, int KW, int OH, int OW, int sh, int sw, int ph, int pw, int dh, int dw) {{
    PLACE
    int ow = i % OW; long long k = i / OW; int oh = k % OH; k /= OH;
    const T* image = x + k * H * W;
    bool found = false; T best = 0; long long place = 0;
    for (int a = 0; a < KH; ++a) {{
        int h = oh * sh - ph + a * dh;
        if (h < 0 || h >= H) continue;
        for (int b = 0; b < KW; ++b) {{
            int w = ow * sw - pw + b * dw;
            if (w < 0 || w >= W) continue;
            T v = image[(long long)h * W + w];
            if (!found || v > best || v != v) {{
                best = v; place = (long long)h * W + w; found = true; }}
        }} }}
    out[i] = best; at[i] = place; }}
extern "C" __global__ void pb_put(
        const T* g, const long long* at, T* out, long long size,
        long long each, long long length) {{
    PLACE
    atomicAdd(out + i / each * length + at[i], g[i]); }}
extern "C" __global__ void pb_put_whole(
        const T* g, const long long* at, T* out, int each, int length) {{
    extern __shared__ T image[];
    for (int i = threadIdx.x; i < length; i += blockDim.x) image[i] = 0;
    __syncthreads();
    g += (long long)blockIdx.x * each; at += (long long)blockIdx.x * each;
    for (int i = threadIdx.x; i < each; i += blockDim.x) atomicAdd(image + at[i], g[i]);
    __syncthreads();
    out += (long long)blockIdx.x * length;
    for (int i = threadIdx.x; i < length; i += blockDim.x) out[i] = image[i]; }}
"""
_THREADS = 256
_SHARED = 48 << 10  # bytes of an image that a block of threads holds
_BLOCKS = 64  # images from which on a block takes each


_NAMES = ("columns", "add_channels", "maxima", "put", "put_whole")


class Windows:
    """The kernels, compiled for each dtype when first needed."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._raw: Any = getattr(cupy, "RawModule", None)
        self._kernel = Kernels(cupy, lambda kind: _SOURCE.format(type=_TYPES[kind]), _NAMES)

    def fits(self, x: Any) -> bool:
        """Whether there is a kernel for images of this kind: four dimensions, in order."""
        return bool(
            self._raw is not None
            and x.ndim == 4
            and x.dtype.char in _TYPES
            and x.size
            and x._c_contiguous
        )

    def _run(self, name: str, kind: str, size: int, arrays: tuple[Any, ...], *numbers: int) -> None:
        given = *arrays, size, *map(numpy.int32, numbers)
        self._kernel(name, kind)((-(-size // _THREADS),), (_THREADS,), given)

    def columns(
        self,
        x: Any,
        kernel: Any,
        number: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        *,
        together: bool,
    ) -> Any:
        """Windows as (n, elements, places), or examples beside places: (elements, n places)."""
        n, channels, height, width = x.shape
        elements, places = channels * kernel[0] * kernel[1], number[0] * number[1]
        shape = (elements, n * places) if together else (n, elements, places)
        out = self.cupy.ndarray(shape, x.dtype)
        before = padding[0][0], padding[1][0]
        numbers = n, channels, height, width, *kernel, *number, *stride, *before, *dilation
        self._run("columns", x.dtype.char, out.size, (x, out), *numbers, int(together))
        return out

    def add_channels(self, x: Any, bias: Any) -> Any:
        """A number for each channel added to (n, channels, ...), in place."""
        places = x.size // (x.shape[0] * x.shape[1])
        self._run("add_channels", x.dtype.char, x.size, (x, bias), x.shape[1], places)
        return x

    def put(self, g: Any, places: Any, lead: Any, size: Any) -> Any:
        """Numbers added up at their places in images of zeros."""
        length, images = math.prod(size), math.prod(lead)
        each = g.size // images
        if length * g.itemsize <= _SHARED and images >= _BLOCKS:  # no zeros first
            out = self.cupy.ndarray((*lead, *size), g.dtype)
            sizes = numpy.int32(each), numpy.int32(length)
            kernel = self._kernel("put_whole", g.dtype.char)
            kernel((images,), (128,), (g, places, out, *sizes), length * g.itemsize)
            return out
        out = self.cupy.zeros((*lead, *size), g.dtype)
        given = g, places, out, g.size, each, length
        kernel = self._kernel("put", g.dtype.char)
        kernel((-(-g.size // _THREADS),), (_THREADS,), given)
        return out

    def maxima(
        self, x: Any, kernel: Any, number: Any, stride: Any, before: Any, dilation: Any
    ) -> Any:
        """The largest of each window and its place in the image: the first, or the last NaN."""
        *lead, height, width = x.shape
        out = self.cupy.ndarray((*lead, *number), x.dtype)
        places = self.cupy.ndarray((*lead, *number), numpy.int64)
        numbers = height, width, *kernel, *number, *stride, *before, *dilation
        self._run("maxima", x.dtype.char, out.size, (x, out, places), *numbers)
        return out, places
