"""Attention of float16 and bfloat16 by the device's matrix instructions, sums in float32.

A block of four warps takes 64 rows, 16 to a warp, and goes through the other side in tiles that are
copied while the last one is worked on. What a warp has of a product is laid out as `mma` wants it:
a lane holds the rows `lane / 4` and 8 more of it, and pairs of columns from `2 * (lane % 4)`.
"""

from __future__ import annotations

__all__ = ["kernels_of"]

_PLACE = {"e": "f16", "E": "bf16"}  # in the names of instructions
_WORDS = """
typedef long long step;
#define PAD (D + 8)  // rows 16 bytes apart in the banks: no two of eight meet
#define PARTS (D / 16)
#define ROOM (TILE * PAD)
#define LOG2E 1.4426950408889634f
#define LOWEST (-__int_as_float(0x7f800000))
__device__ unsigned pair_of(float low, float high) {
    unsigned r; asm("cvt.rn.KINDx2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r; }
__device__ void mma(float* c, const unsigned* a, unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.KIND.KIND.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); }
__device__ void rows_of(unsigned* r, const S* p) {
    unsigned at = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at)); }
__device__ void columns_of(unsigned* r, const S* p) {
    unsigned at = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at)); }
__device__ void copy_16(S* to, const S* from, int bytes) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(at), "l"(from), "r"(bytes)); }
__device__ void arrived() { asm volatile("cp.async.wait_all;" ::: "memory"); }
// Rows from `first` on, zeros after the last row and after `width` columns.
__device__ void fetch(
        S* to, const S* from, int count, int first, int rows, int width, step down, bool aligned) {
    for (int i = threadIdx.x; i < count * (D / 8); i += 128) {
        int r = i / (D / 8), c = i % (D / 8) * 8;
        bool there = first + r < rows && c < width;
        const S* place = there ? from + (first + r) * down + c : from;
        S* put = to + r * PAD + c;
        if (aligned) copy_16(put, place, there ? 16 : 0);
        else for (int e = 0; e < 8; ++e) put[e] = there && c + e < width ? place[e] : (S)0; } }
// The warp's 16 rows as left operands, all columns.
__device__ void own_rows(unsigned (*parts)[4], const S* tile) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const S* at = tile + (warp * 16 + (lane & 15)) * PAD + (lane >> 4) * 8;
#pragma unroll
    for (int k = 0; k < PARTS; ++k) rows_of(parts[k], at + k * 16); }
// c += own rows times the rows of a tile, turned: products of rows with rows.
template <int N> __device__ void by_rows(float (*c)[4], unsigned (*own)[4], const S* tile) {
    int lane = threadIdx.x & 31;
    const S* at = tile + ((lane & 7) + (lane >> 4 << 3)) * PAD + (lane >> 3 & 1) * 8;
#pragma unroll
    for (int k = 0; k < PARTS; ++k)
#pragma unroll
        for (int n = 0; n < N / 16; ++n) {
            unsigned b[4];
            rows_of(b, at + n * 16 * PAD + k * 16);
            mma(c[2 * n], own[k], b[0], b[1]);
            mma(c[2 * n + 1], own[k], b[2], b[3]); } }
// c += weights, as a product left them, times a tile.
template <int N> __device__ void weighted(float (*c)[4], float (*w)[4], const S* tile) {
    int lane = threadIdx.x & 31;
    const S* at = tile + (lane & 15) * PAD + (lane >> 4) * 8;
#pragma unroll
    for (int n = 0; n < N / 16; ++n) {
        unsigned a[4] = {
            pair_of(w[2 * n][0], w[2 * n][1]), pair_of(w[2 * n][2], w[2 * n][3]),
            pair_of(w[2 * n + 1][0], w[2 * n + 1][1]), pair_of(w[2 * n + 1][2], w[2 * n + 1][3])};
#pragma unroll
        for (int k = 0; k < PARTS; ++k) {
            unsigned b[4];
            columns_of(b, at + n * 16 * PAD + k * 16);
            mma(c[2 * k], a, b[0], b[1]);
            mma(c[2 * k + 1], a, b[2], b[3]); } } }
// The warp's 16 rows to where they belong, each of two rows of a lane times a factor.
__device__ void put_rows(
        S* to, float (*c)[4], int first, int rows, int width, step down, float f0, float f1) {
    int lane = threadIdx.x & 31, row = first + (threadIdx.x >> 5) * 16 + (lane >> 2);
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int column = j * 8 + (lane & 3) * 2, at = row + 8 * r;
            if (at >= rows || column >= width) continue;
            float f = r ? f1 : f0;
            S* place = to + at * down + column;
            if (!(width & 1) && !(down & 1))
                *(unsigned*)place = pair_of(c[j][2 * r] * f, c[j][2 * r + 1] * f);
            else {
                place[0] = st(c[j][2 * r] * f);
                if (column + 1 < width) place[1] = st(c[j][2 * r + 1] * f); } } }
__device__ float of_four(float v) {
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2); }
#define BATCH int head = blockIdx.x % heads, example = blockIdx.x / heads; \\
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#define AT(name) name += example * name##0 + head * name##1;
// The block's own rows, from memory by way of a tile into registers.
#define OWN(parts, name, rows, size) \\
    fetch(tiles, name, 64, first, rows, size, name##2, aligned); \\
    arrived(); __syncthreads(); own_rows(parts, tiles); __syncthreads();
"""
_FORWARD = """
extern "C" __global__ void __launch_bounds__(128) pb_attend(
        const S* q, const S* k, const S* v, S* out, float* lse,
        step q0, step q1, step q2, step k0, step k1, step k2, step v0, step v1, step v2,
        step o0, step o1, step o2, int heads, int queries, int keys, int width, int depth,
        float factor, int causal, int aligned) {
    __align__(16) __shared__ S tiles[4 * ROOM];
    BATCH AT(q) AT(k) AT(v)
    out += example * o0 + head * o1;
    int first = (gridDim.y - 1 - blockIdx.y) * 64;  // the longest rows begin
    unsigned own[PARTS][4];
    OWN(own, q, queries, width)
    int last = causal && first + 64 < keys ? first + 64 : keys;
    fetch(tiles, k, TILE, 0, keys, width, k2, aligned);
    fetch(tiles + ROOM, v, TILE, 0, keys, depth, v2, aligned);
    float mixed[D / 8][4] = {}, top[2] = {LOWEST, LOWEST}, sum[2] = {0, 0};
    int row = first + warp * 16 + (lane >> 2);
    for (int s = 0; s < last; s += TILE) {
        S* now = tiles + s / TILE % 2 * 2 * ROOM;
        arrived();
        __syncthreads();
        if (s + TILE < last) {
            S* next = tiles + (s / TILE + 1) % 2 * 2 * ROOM;
            fetch(next, k, TILE, s + TILE, keys, width, k2, aligned);
            fetch(next + ROOM, v, TILE, s + TILE, keys, depth, v2, aligned); }
        float w[TILE / 8][4] = {};
        by_rows<TILE>(w, own, now);
        bool some = s + TILE > keys || (causal && s + TILE > first + warp * 16 + 1);
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int key = s + j * 8 + (lane & 3) * 2 + (e & 1);
                bool hidden = some && (key >= keys || (causal && key > row + (e >> 1) * 8));
                w[j][e] = hidden ? LOWEST : w[j][e] * factor * LOG2E; }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float high = top[r];
#pragma unroll
            for (int j = 0; j < TILE / 8; ++j)
                high = fmaxf(high, fmaxf(w[j][2 * r], w[j][2 * r + 1]));
            high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 1));
            high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, 2));
            float level = high == LOWEST ? 0.0f : high, less = exp2f(top[r] - level);
            top[r] = high;
            sum[r] *= less;
#pragma unroll
            for (int j = 0; j < TILE / 8; ++j) {
                w[j][2 * r] = exp2f(w[j][2 * r] - level);
                w[j][2 * r + 1] = exp2f(w[j][2 * r + 1] - level);
                sum[r] += w[j][2 * r] + w[j][2 * r + 1]; }
#pragma unroll
            for (int j = 0; j < D / 8; ++j) {
                mixed[j][2 * r] *= less; mixed[j][2 * r + 1] *= less; } }
        weighted<TILE>(mixed, w, now + ROOM); }
    sum[0] = of_four(sum[0]); sum[1] = of_four(sum[1]);
    put_rows(out, mixed, first, queries, depth, o2, 1 / sum[0], 1 / sum[1]);
    if (!(lane & 3))
        for (int r = 0; r < 2; ++r)
            if (row + 8 * r < queries)
                lse[(step)blockIdx.x * queries + row + 8 * r] = (top[r] + log2f(sum[r])) / LOG2E; }
"""
_BACKWARD = """
extern "C" __global__ void __launch_bounds__(128) pb_attend_queries(
        const S* q, const S* k, const S* v, const S* out, const S* g, const float* lse,
        S* dq, float* delta,
        step q0, step q1, step q2, step k0, step k1, step k2, step v0, step v1, step v2,
        step o0, step o1, step o2, step g0, step g1, step g2, step d0, step d1, step d2,
        int heads, int queries, int keys, int width, int depth,
        float factor, int causal, int aligned) {
    __align__(16) __shared__ S tiles[4 * ROOM];
    BATCH AT(q) AT(k) AT(v) AT(g)
    out += example * o0 + head * o1; dq += example * d0 + head * d1;
    int first = (gridDim.y - 1 - blockIdx.y) * 64;
    unsigned own[PARTS][4], own_g[PARTS][4];
    OWN(own, q, queries, width)
    fetch(tiles, g, 64, first, queries, depth, g2, aligned);
    arrived();
    __syncthreads();
    own_rows(own_g, tiles);
    int row = first + warp * 16 + (lane >> 2);
    float level[2], less[2];
    for (int r = 0; r < 2; ++r) {
        int at = row + 8 * r;
        bool there = at < queries;
        level[r] = there ? lse[(step)blockIdx.x * queries + at] * LOG2E : 0;
        float sum = 0;  // of gradient times result, by which softmax keeps its sum
        if (there)
            for (int c = lane & 3; c < depth; c += 4)
                sum += ld(tiles[(at - first) * PAD + c]) * ld(out[at * o2 + c]);
        less[r] = of_four(sum);
        if (there && !(lane & 3)) delta[(step)blockIdx.x * queries + at] = less[r]; }
    __syncthreads();
    int last = causal && first + 64 < keys ? first + 64 : keys;
    fetch(tiles, k, TILE, 0, keys, width, k2, aligned);
    fetch(tiles + ROOM, v, TILE, 0, keys, depth, v2, aligned);
    float made[D / 8][4] = {};
    for (int s = 0; s < last; s += TILE) {
        S* now = tiles + s / TILE % 2 * 2 * ROOM;
        arrived();
        __syncthreads();
        if (s + TILE < last) {
            S* next = tiles + (s / TILE + 1) % 2 * 2 * ROOM;
            fetch(next, k, TILE, s + TILE, keys, width, k2, aligned);
            fetch(next + ROOM, v, TILE, s + TILE, keys, depth, v2, aligned); }
        float w[TILE / 8][4] = {}, p[TILE / 8][4] = {};
        by_rows<TILE>(w, own, now);
        by_rows<TILE>(p, own_g, now + ROOM);
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int key = s + j * 8 + (lane & 3) * 2 + (e & 1), r = e >> 1;
                bool hidden = key >= keys || (causal && key > row + r * 8);
                w[j][e] = hidden ? 0.0f
                    : exp2f(w[j][e] * factor * LOG2E - level[r]) * (p[j][e] - less[r]); }
        weighted<TILE>(made, w, now); }
    put_rows(dq, made, first, queries, width, d2, factor, factor); }
extern "C" __global__ void __launch_bounds__(128) pb_attend_keys(
        const S* q, const S* k, const S* v, const S* g, const float* lse, const float* delta,
        S* dk, S* dv,
        step q0, step q1, step q2, step k0, step k1, step k2, step v0, step v1, step v2,
        step g0, step g1, step g2, step d0, step d1, step d2, step e0, step e1, step e2,
        int heads, int queries, int keys, int width, int depth,
        float factor, int causal, int aligned) {
    __align__(16) __shared__ S tiles[4 * ROOM];
    __shared__ float levels[2][TILE], lesser[2][TILE];
    BATCH AT(q) AT(k) AT(v) AT(g)
    dk += example * d0 + head * d1; dv += example * e0 + head * e1;
    lse += (step)blockIdx.x * queries; delta += (step)blockIdx.x * queries;
    int first = blockIdx.y * 64;
    unsigned own[PARTS][4], own_v[PARTS][4];
    OWN(own, k, keys, width)
    OWN(own_v, v, keys, depth)
    float of_k[D / 8][4] = {}, of_v[D / 8][4] = {};
    int row = first + warp * 16 + (lane >> 2);
    int begin = causal ? first / TILE * TILE : 0;
#define NEXT(s, to) { \\
    fetch(tiles + 2 * (to) * ROOM, q, TILE, s, queries, width, q2, aligned); \\
    fetch(tiles + (2 * (to) + 1) * ROOM, g, TILE, s, queries, depth, g2, aligned); \\
    if (threadIdx.x < TILE) { \\
        int at = (s) + threadIdx.x; \\
        levels[to][threadIdx.x] = at < queries ? lse[at] * LOG2E : -LOWEST; \\
        lesser[to][threadIdx.x] = at < queries ? delta[at] : 0; } }
    if (begin < queries) NEXT(begin, 0)
    for (int s = begin, turn = 0; s < queries; s += TILE, turn ^= 1) {
        S* now = tiles + 2 * turn * ROOM;
        arrived();
        __syncthreads();
        if (s + TILE < queries) NEXT(s + TILE, turn ^ 1)
        float w[TILE / 8][4] = {}, p[TILE / 8][4] = {};
        by_rows<TILE>(w, own, now);
        by_rows<TILE>(p, own_v, now + ROOM);
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int c = j * 8 + (lane & 3) * 2 + (e & 1);
                bool hidden = s + c >= queries || (causal && row + (e >> 1) * 8 > s + c);
                w[j][e] = hidden ? 0.0f : exp2f(w[j][e] * factor * LOG2E - levels[turn][c]);
                p[j][e] = hidden ? 0.0f : w[j][e] * (p[j][e] - lesser[turn][c]); }
        weighted<TILE>(of_v, w, now + ROOM);
        weighted<TILE>(of_k, p, now); }
    put_rows(dk, of_k, first, keys, width, d2, factor, factor);
    put_rows(dv, of_v, first, keys, depth, e2, 1, 1); }
"""


def kernels_of(kind: str, room: int, *, backward: bool) -> tuple[str, int, int]:
    """The text for a dtype and rows of up to `room`, rows to a block, and its threads."""
    tile = (32 if backward else 64) // (2 if room > 64 else 1)
    sizes = f"#define D {room}\n#define TILE {tile}\n"
    words = _WORDS.replace("KIND", _PLACE[kind])
    return sizes + words + (_BACKWARD if backward else _FORWARD), 64, 128
