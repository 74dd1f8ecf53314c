"""How kernels of ours read and write a dtype: float16 and bfloat16 as bits, computed in float32."""

from __future__ import annotations

from typing import Any

import numpy

__all__ = ["HEAD", "STORED", "computed_in", "head_of"]

# By character of the dtype: C's type, the type of arithmetic, and the way from one to the other.
STORED = {
    "f": ("float", "float", "v", "v"),
    "d": ("double", "double", "v", "v"),
    "e": ("unsigned short", "float", "from_half(v)", "to_half(v)"),
    "E": ("unsigned short", "float", "from_bf(v)", "to_bf(v)"),
}
HEAD = """
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
__device__ float from_half(unsigned short v) {{
    float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v)); return r; }}
__device__ unsigned short to_half(float v) {{
    unsigned short r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(v)); return r; }}
__device__ float from_bf(unsigned short v) {{ return __int_as_float(((unsigned)v) << 16); }}
__device__ unsigned short to_bf(float v) {{
    unsigned u = __float_as_uint(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16); }}
typedef {stored} S; typedef {computed} A;
__device__ A ld(S v) {{ return {load}; }}
__device__ S st(A v) {{ return {store}; }}
"""


def head_of(kind: str) -> str:
    """The lines in front of a kernel for one dtype: types `S` and `A`, functions `ld` and `st`."""
    stored, computed, load, store = STORED[kind]
    return HEAD.format(stored=stored, computed=computed, load=load, store=store)


def computed_in(kind: str) -> Any:
    """The NumPy type of arithmetic."""
    return numpy.float64 if kind == "d" else numpy.float32
