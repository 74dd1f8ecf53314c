"""A kernel's launch, and what every module of kernels begins with."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.compiled.ir.in_c import TYPES, number
from pullback.compiled.ir.values import Val
from pullback.compiled.plan.stages import start_of

__all__ = ["BLOCK", "HEAD", "Launch", "how", "index_type", "joined"]

BLOCK = 256
_FEW = 4096  # totals, below which a block each adds up their copies

# Reductions are trees of a fixed shape: results do not depend on timing. NaN is the largest.
HEAD = """
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
struct Sum {};
struct Max {};
template <class T> __device__ T both(Sum, T a, T b) { return a + b; }
template <class T> __device__ T both(Max, T a, T b) { return a != a || b <= a ? a : b; }
template <class How, class T> __device__ T of_warp(T x) {
    for (int step = 16; step; step >>= 1) x = both(How(), x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
template <class How, class T> __device__ T of_block(T x) {
    __shared__ T parts[32];
    x = of_warp<How>(x);
    __syncthreads();  // others may still read what was here
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int k = 1; k < (blockDim.x + 31) / 32; ++k) x = both(How(), x, parts[k]);
    return x;
}
// Copies of totals made one: out[i] of part[i * across + k * along] for all k below copies.
template <class How, class T> __device__ void join(
    const T* part, T* out, T start, long long n, long long copies, long long across, long long along
) {
    for (long long i = blockIdx.x; i < n; i += gridDim.x) {
        T x = start;
        for (long long k = threadIdx.x; k < copies; k += blockDim.x)
            x = both(How(), x, part[i * across + k * along]);
        x = of_block<How>(x);
        if (threadIdx.x == 0) out[i] = x;
    }
}
template <class How, class T> __device__ void join_each(
    const T* part, T* out, T start, long long n, long long copies, long long across, long long along
) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    T x = start;
    for (long long k = 0; k < copies; ++k) x = both(How(), x, part[i * across + k * along]);
    out[i] = x;
}
"""


@dataclass(frozen=True)
class Launch:
    """One kernel over a grid of blocks; its arguments are buffers, by their slots, and numbers."""

    kernel: str
    grid: tuple[int, ...]
    block: int
    slots: tuple[int, ...]
    numbers: tuple[int, ...] = ()


def index_type(size: int) -> str:
    """The type of places in arrays of so many elements."""
    return "int" if size < 2**30 else "long long"


def how(v: Val) -> str:
    """The struct that takes two values of a reduction together."""
    return "Sum" if v.op == "sum" else "Max"


def joined(
    v: Val, scratch: tuple[int, int], slot: int, n: int, copies: int, across: int, along: int
) -> tuple[str, Launch]:
    """Text and launch of what makes copies of totals one.

    They lie at `scratch` (its slot, and the number of the first element there).
    """
    few = n < _FEW
    name = f"{'join' if few else 'join_each'}_{v.op}_{v.dtype}"
    kind, start = TYPES[v.dtype], number(start_of(v), v.dtype)
    names = "n, copies, across, along"
    whole = ", ".join(f"long long {one}" for one in (*names.split(", "), "first"))
    text = (
        f'extern "C" __global__ void {name}({kind}* part, {kind}* out, {whole}) {{\n'
        f"  {'join' if few else 'join_each'}<{how(v)}, {kind}>"
        f"(part + first, out, {start}, {names});\n}}"
    )
    grid = (min(n, 2**16 - 1),) if few else (-(-n // BLOCK),)
    numbers = (n, copies, across, along, scratch[1])
    return text, Launch(name, grid, BLOCK, (scratch[0], slot), numbers)
