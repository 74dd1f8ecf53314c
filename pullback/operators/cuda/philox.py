"""Random words by counter (Philox 4x32, ten rounds), and the numbers made of them, in one launch.

A place in the stream is a count of blocks of four words; a seed and a place tell every number, so a
generator's state is those two. Each thread makes a block and the two or four numbers of it. Where
there are no kernels the same words and numbers are made by array operations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.operators.cuda.stored import STORED, head_of

__all__ = ["Philox"]

_KEYS = 0x9E3779B9, 0xBB67AE85
_FACTORS = 0xD2511F53, 0xCD9E8D57
_ROUNDS = 10
_LOW = 0xFFFFFFFF
# C's types of what is no floating-point number; computed in integers.
_INTEGERS = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned int", "l": "long long", "L": "unsigned long long",
    "q": "long long", "Q": "unsigned long long",
}  # fmt: skip
_BLOCK = 256
_SOURCE = """
typedef unsigned int word; typedef unsigned long long place;
__device__ void words_at(place seed, place at, word* c) {
    c[0] = (word)at; c[1] = (word)(at >> 32); c[2] = c[3] = 0;
    word k0 = (word)seed, k1 = (word)(seed >> 32);
    for (int i = 0; i < 10; ++i) {
        word h0 = __umulhi(0xD2511F53u, c[0]), l0 = 0xD2511F53u * c[0];
        word h1 = __umulhi(0xCD9E8D57u, c[2]), l1 = 0xCD9E8D57u * c[2];
        c[0] = h1 ^ c[1] ^ k0; c[1] = l1; c[2] = h0 ^ c[3] ^ k1; c[3] = l0;
        k0 += 0x9E3779B9u; k1 += 0xBB67AE85u; } }
__device__ float single_of(word v) { return (float)(v >> 8) * 5.9604644775390625e-08f; }
__device__ double double_of(word a, word b) {
    return (double)((((place)b << 32) | a) >> 11) * 1.1102230246251565e-16; }
#define BLOCK place j = (place)blockIdx.x * blockDim.x + threadIdx.x; \\
    if (j * EACH >= n) return; \\
    word w[4]; words_at(seed, from + (moved ? *moved : 0) + j, w);
#define PUT(k, v) if (j * EACH + (k) < n) out[j * EACH + (k)] = (v);
"""
_FLOATS = """
#if WIDE
#define EACH 2
#define UNIT(k) double_of(w[2 * (k)], w[2 * (k) + 1])
#else
#define EACH 4
#define UNIT(k) single_of(w[k])
#endif
__device__ S between(A u, A low, A high) {
    S v = st(u * (high - low) + low); return ld(v) < high ? v : st(low); }
extern "C" __global__ void uniform(
        S* out, place n, place seed, place from, const place* moved, A low, A high) {
    BLOCK
    for (int k = 0; k < EACH; ++k) PUT(k, between(UNIT(k), low, high)) }
extern "C" __global__ void normal(
        S* out, place n, place seed, place from, const place* moved, A mean, A std) {
    BLOCK
    for (int k = 0; k < EACH; k += 2) {
        A r = sqrt((A)-2 * log((A)1 - UNIT(k))), s, c;
        TURN((A)2 * UNIT(k + 1), &s, &c);
        PUT(k, st(r * c * std + mean)) PUT(k + 1, st(r * s * std + mean)) } }
"""
_WHOLE = """
#define EACH (wide ? 2 : 4)
extern "C" __global__ void integers(
        S* out, place n, place seed, place from, const place* moved, place low, place count,
        int wide) {
    BLOCK
    for (int k = 0; k < EACH; ++k) {
        place v = wide ? ((place)w[2 * k + 1] << 32 | w[2 * k]) : w[k];
        PUT(k, (S)PUTAS((long long)(low + (count ? v % count : v)))) } }
extern "C" __global__ void tosses(
        S* out, place n, place seed, place from, const place* moved, float p, float unused) {
    const int wide = 0;
    BLOCK
    for (int k = 0; k < 4; ++k) PUT(k, (S)PUTAS(single_of(w[k]) < p ? 1 : 0)) }
"""


class Philox:
    """The kernels, compiled for each dtype when first needed."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._raw: Any = getattr(cupy, "RawModule", None)
        self._modules: dict[tuple[str, bool], Any] = {}

    def uniform(self, out: Any, place: Any, low: float, high: float) -> None:
        """Numbers from `low` up to but without `high`."""
        if not self._launched("uniform", out, place, low, high):
            unit = self._units(out, place)
            made = (unit * unit.dtype.type(high - low) + unit.dtype.type(low)).astype(out.dtype)
            out[...] = self.cupy.where(made < out.dtype.type(high), made, out.dtype.type(low))

    def normal(self, out: Any, place: Any, mean: float, std: float) -> None:
        """Normal numbers, two from each pair of uniform ones."""
        if self._launched("normal", out, place, mean, std):
            return
        cupy = self.cupy
        unit = self._units(out, place, pairs=True)
        kind = unit.dtype.type
        radius = cupy.sqrt(kind(-2) * cupy.log(kind(1) - unit[:, 0]))
        angle = unit[:, 1] * kind(2 * math.pi)
        both = cupy.stack([radius * cupy.cos(angle), radius * cupy.sin(angle)], axis=1)
        made = both.reshape(-1)[: out.size].reshape(out.shape) * kind(std) + kind(mean)
        out[...] = made.astype(out.dtype)

    def integers(self, out: Any, place: Any, low: int, count: int) -> None:
        """Integers from `low` on, `count` of them (0 for all of 64 bits), in any real dtype."""
        wide = not 0 < count <= 1 << 32
        more = numpy.uint64(low % (1 << 64)), numpy.uint64(count), numpy.int32(wide)
        if self._launched("integers", out, place, *more):
            return
        words = self._words(place, -(-out.size // (2 if wide else 4)))
        if wide:
            words = words[:, 0::2] | (words[:, 1::2] << numpy.uint64(32))
        drawn = words.reshape(-1)[: out.size]
        drawn = drawn % numpy.uint64(count) if count else drawn
        out[...] = (drawn + more[0]).view(numpy.int64).astype(out.dtype).reshape(out.shape)

    def tosses(self, out: Any, place: Any, p: float) -> None:
        """1 with probability `p`, else 0, in any dtype."""
        if not self._launched("tosses", out, place, numpy.float32(p), numpy.float32(0)):
            words = self._words(place, -(-out.size // 4)).reshape(-1)[: out.size]
            unit = (words >> numpy.uint64(8)).astype(numpy.float32) * numpy.float32(2.0**-24)
            out[...] = (unit < numpy.float32(p)).astype(out.dtype).reshape(out.shape)

    def blocks(self, name: str, out: Any, count: int = 1) -> int:
        """How many places a call takes."""
        wide = out.dtype.char == "d" if name in ("uniform", "normal") else not 0 < count <= 1 << 32
        each = 2 if wide and name != "tosses" else 4
        return -(-int(out.size) // each)

    # ---------------------------------------------------------------------------------- by kernels

    def _launched(self, name: str, out: Any, place: Any, *numbers: Any) -> bool:
        kind = out.dtype.char
        floats = name in ("uniform", "normal")
        if self._raw is None or (kind not in STORED and (floats or kind not in _INTEGERS)):
            return False
        target = out if out._c_contiguous else self.cupy.ndarray(out.shape, out.dtype)
        if floats:
            computed = numpy.float64 if kind == "d" else numpy.float32
            numbers = tuple(map(computed, numbers))
        seed, start, moved = place
        given = (
            *(target, numpy.uint64(out.size), numpy.uint64(seed), numpy.uint64(start)),
            *(numpy.uintp(0) if moved is None else moved, *numbers),
        )
        threads = -(-out.size // 2)  # enough for the kernels of two numbers each
        grid = (-(-threads // _BLOCK),)
        if threads:
            self._module(kind, floats=floats).get_function(name)(grid, (_BLOCK,), given)
        if target is not out:
            out[...] = target
        return True

    def _module(self, kind: str, *, floats: bool) -> Any:
        known = self._modules.get((kind, floats))
        if known is not None:
            return known
        if kind in STORED:
            head, put = head_of(kind), "" if kind in "fd" else "st"
        else:
            head, put = f"typedef {_INTEGERS[kind]} S;\n", ""
        words = f"#define WIDE {int(kind == 'd')}\n#define PUTAS {put}\n"
        words += f"#define TURN {'sincospi' if kind == 'd' else 'sincospif'}\n"
        source = words + head + _SOURCE + (_FLOATS if floats else _WHOLE)
        known = self._modules[kind, floats] = self._raw(code=source)
        return known

    # ------------------------------------------------------------------------- by array operations

    def _words(self, place: Any, blocks: int) -> Any:
        """Four words of each block, as rows of uint64."""
        cupy, long = self.cupy, numpy.uint64
        seed, start, moved = place
        at = cupy.arange(blocks, dtype=long) + long(start)
        if moved is not None:
            at = at + moved
        low, shift = long(_LOW), long(32)
        c = [at & low, at >> shift, at * long(0), at * long(0)]
        keys = [seed & _LOW, seed >> 32]
        for _ in range(_ROUNDS):
            first, second = c[0] * long(_FACTORS[0]), c[2] * long(_FACTORS[1])
            c = [
                (second >> shift) ^ c[1] ^ long(keys[0]),
                second & low,
                (first >> shift) ^ c[3] ^ long(keys[1]),
                first & low,
            ]
            keys = [(key + step) & _LOW for key, step in zip(keys, _KEYS, strict=True)]
        return cupy.stack(c, axis=1)

    def _units(self, out: Any, place: Any, *, pairs: bool = False) -> Any:
        """Numbers from 0 up to but without 1: float64 for float64, else float32."""
        long = numpy.uint64
        if out.dtype.char == "d":
            words = self._words(place, -(-out.size // 2))
            words = words[:, 0::2] | (words[:, 1::2] << long(32))
            unit = (words >> long(11)).astype(numpy.float64) * 2.0**-53
        else:
            words = self._words(place, -(-out.size // 4))
            unit = (words >> long(8)).astype(numpy.float32) * numpy.float32(2.0**-24)
        if pairs:
            return unit.reshape(-1, 2)
        return unit.reshape(-1)[: out.size].reshape(out.shape)
