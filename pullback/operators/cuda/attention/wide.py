"""Attention of float32 and float64: no matrix instructions, which would round.

Eight threads of a warp share a row; they hold its sums, 16 bytes at a time, and tell each other the
weights through shared memory. The kernels' parameters are those of `halves`.
"""

from __future__ import annotations

__all__ = ["kernels_of"]

_WORDS = """
typedef long long step;
#define W (16 / (int)sizeof(S))
#define PAD (D + W)
#define MINE (D / 8 / W)  // vectors that a thread has of a row
#define ROOM (TILE * PAD)
#define LOWEST (-__int_as_float(0x7f800000))
__device__ float dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__device__ double dot(double2 a, double2 b) { return a.x * b.x + a.y * b.y; }
__device__ void add(float4& c, float f, float4 v) {
    c.x += f * v.x; c.y += f * v.y; c.z += f * v.z; c.w += f * v.w; }
__device__ void add(double2& c, double f, double2 v) { c.x += f * v.x; c.y += f * v.y; }
__device__ void times(float4& c, float f) { c.x *= f; c.y *= f; c.z *= f; c.w *= f; }
__device__ void times(double2& c, double f) { c.x *= f; c.y *= f; }
// Rows from `first` on, zeros after the last row and after `width` columns.
__device__ void fetch(S* to, const S* from, int first, int rows, int width, step down) {
    for (int i = threadIdx.x; i < TILE * D; i += TILE * 8) {
        int r = i / D, c = i % D;
        to[r * PAD + c] = first + r < rows && c < width ? from[(first + r) * down + c] : (S)0; } }
__device__ S product(const S* a, const S* b) {
    S sum = 0;
#pragma unroll
    for (int i = 0; i < D; i += W) sum += dot(*(const V*)(a + i), *(const V*)(b + i));
    return sum; }
// The row's sums += weights times the rows of a tile.
__device__ void weighted(V* c, const S* w, const S* tile) {
    for (int n = 0; n < TILE; ++n)
#pragma unroll
        for (int j = 0; j < MINE; ++j)
            add(c[j], w[n], *(const V*)(tile + n * PAD + ((threadIdx.x & 7) + 8 * j) * W)); }
__device__ void put_row(S* to, V* c, int width, S factor) {
#pragma unroll
    for (int j = 0; j < MINE; ++j) {
        times(c[j], factor);
        const S* parts = (const S*)&c[j];
#pragma unroll
        for (int e = 0; e < W; ++e) {
            int at = ((threadIdx.x & 7) + 8 * j) * W + e;
            if (at < width) to[at] = parts[e]; } } }
__device__ S sum_of_row(S v) {
    for (int k = 4; k; k >>= 1) v += __shfl_xor_sync(0xffffffffu, v, k);
    return v; }
__device__ S max_of_row(S v) {
    for (int k = 4; k; k >>= 1) {
        S o = __shfl_xor_sync(0xffffffffu, v, k); v = o > v ? o : v; }
    return v; }
#define BATCH int head = blockIdx.x % heads, example = blockIdx.x / heads; \\
    int own = threadIdx.x >> 3, one = threadIdx.x & 7;
#define AT(name) name += example * name##0 + head * name##1;
"""
_FORWARD = """
extern "C" __global__ void __launch_bounds__(TILE * 8) pb_attend(
        const S* q, const S* k, const S* v, S* out, S* lse,
        step q0, step q1, step q2, step k0, step k1, step k2, step v0, step v1, step v2,
        step o0, step o1, step o2, int heads, int queries, int keys, int width, int depth,
        S factor, int causal, int aligned) {
    __align__(16) __shared__ S of_q[ROOM], of_k[ROOM], of_v[ROOM];
    __shared__ S weights[TILE][TILE + 1];
    BATCH AT(q) AT(k) AT(v)
    out += example * o0 + head * o1;
    int first = (gridDim.y - 1 - blockIdx.y) * TILE, row = first + own;
    fetch(of_q, q, first, queries, width, q2);
    int last = causal && first + TILE < keys ? first + TILE : keys;
    V mixed[MINE] = {};
    S top = LOWEST, sum = 0;
    for (int s = 0; s < last; s += TILE) {
        __syncthreads();
        fetch(of_k, k, s, keys, width, k2);
        fetch(of_v, v, s, keys, depth, v2);
        __syncthreads();
        S w[TILE / 8], high = top;
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j) {
            int n = one + 8 * j;
            bool hidden = s + n >= keys || (causal && s + n > row);
            w[j] = hidden ? (S)LOWEST : product(of_q + own * PAD, of_k + n * PAD) * factor;
            high = w[j] > high ? w[j] : high; }
        high = max_of_row(high);
        S level = high == LOWEST ? (S)0 : high, less = exp(top - level);
        top = high; sum *= less;
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j) {
            w[j] = exp(w[j] - level); sum += w[j];
            weights[own][one + 8 * j] = w[j]; }
        for (int j = 0; j < MINE; ++j) times(mixed[j], less);
        __syncwarp();
        weighted(mixed, weights[own], of_v);
        __syncwarp(); }
    sum = sum_of_row(sum);
    if (row >= queries) return;
    put_row(out + row * o2, mixed, depth, 1 / sum);
    if (!one) lse[(step)blockIdx.x * queries + row] = top + log(sum); }
"""
_BACKWARD = """
extern "C" __global__ void __launch_bounds__(TILE * 8) pb_attend_queries(
        const S* q, const S* k, const S* v, const S* out, const S* g, const S* lse,
        S* dq, S* delta,
        step q0, step q1, step q2, step k0, step k1, step k2, step v0, step v1, step v2,
        step o0, step o1, step o2, step g0, step g1, step g2, step d0, step d1, step d2,
        int heads, int queries, int keys, int width, int depth,
        S factor, int causal, int aligned) {
    __align__(16) __shared__ S of_q[ROOM], of_g[ROOM], of_k[ROOM], of_v[ROOM];
    __shared__ S weights[TILE][TILE + 1];
    BATCH AT(q) AT(k) AT(v) AT(g)
    out += example * o0 + head * o1; dq += example * d0 + head * d1;
    int first = (gridDim.y - 1 - blockIdx.y) * TILE, row = first + own;
    bool there = row < queries;
    fetch(of_q, q, first, queries, width, q2);
    fetch(of_g, g, first, queries, depth, g2);
    __syncthreads();
    S level = there ? lse[(step)blockIdx.x * queries + row] : (S)0, less = 0;
    if (there)
        for (int c = one; c < depth; c += 8) less += of_g[own * PAD + c] * out[row * o2 + c];
    less = sum_of_row(less);
    if (there && !one) delta[(step)blockIdx.x * queries + row] = less;
    int last = causal && first + TILE < keys ? first + TILE : keys;
    V made[MINE] = {};
    for (int s = 0; s < last; s += TILE) {
        __syncthreads();
        fetch(of_k, k, s, keys, width, k2);
        fetch(of_v, v, s, keys, depth, v2);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j) {
            int n = one + 8 * j;
            bool hidden = s + n >= keys || (causal && s + n > row);
            S w = exp(product(of_q + own * PAD, of_k + n * PAD) * factor - level);
            w *= product(of_g + own * PAD, of_v + n * PAD) - less;
            weights[own][n] = hidden ? (S)0 : w; }
        __syncwarp();
        weighted(made, weights[own], of_k); }
    if (there) put_row(dq + row * d2, made, width, factor); }
extern "C" __global__ void __launch_bounds__(TILE * 8) pb_attend_keys(
        const S* q, const S* k, const S* v, const S* g, const S* lse, const S* delta,
        S* dk, S* dv,
        step q0, step q1, step q2, step k0, step k1, step k2, step v0, step v1, step v2,
        step g0, step g1, step g2, step d0, step d1, step d2, step e0, step e1, step e2,
        int heads, int queries, int keys, int width, int depth,
        S factor, int causal, int aligned) {
    __align__(16) __shared__ S of_q[ROOM], of_g[ROOM], of_k[ROOM], of_v[ROOM];
    __shared__ S weights[TILE][TILE + 1], changes[TILE][TILE + 1];
    BATCH AT(q) AT(k) AT(v) AT(g)
    dk += example * d0 + head * d1; dv += example * e0 + head * e1;
    lse += (step)blockIdx.x * queries; delta += (step)blockIdx.x * queries;
    int first = blockIdx.y * TILE, row = first + own;
    fetch(of_k, k, first, keys, width, k2);
    fetch(of_v, v, first, keys, depth, v2);
    V made_k[MINE] = {}, made_v[MINE] = {};
    for (int s = causal ? first : 0; s < queries; s += TILE) {
        __syncthreads();
        fetch(of_q, q, s, queries, width, q2);
        fetch(of_g, g, s, queries, depth, g2);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < TILE / 8; ++j) {
            int n = one + 8 * j;
            bool hidden = s + n >= queries || (causal && row > s + n);
            S w = 0, change = 0;
            if (!hidden) {
                w = exp(product(of_k + own * PAD, of_q + n * PAD) * factor - lse[s + n]);
                change = w * (product(of_v + own * PAD, of_g + n * PAD) - delta[s + n]); }
            weights[own][n] = w; changes[own][n] = change; }
        __syncwarp();
        weighted(made_v, weights[own], of_g);
        weighted(made_k, changes[own], of_q); }
    if (row >= keys) return;
    put_row(dk + row * d2, made_k, width, factor);
    put_row(dv + row * e2, made_v, depth, 1); }
"""
_VECTORS = {"f": "float4", "d": "double2"}


def kernels_of(kind: str, room: int, *, backward: bool) -> tuple[str, int, int]:
    """The text for a dtype and rows of up to `room`, rows to a block, and its threads."""
    tile = 32 if kind == "f" and room <= 64 else 16  # what 48 KB of shared memory hold
    sizes = f"#define D {room}\n#define TILE {tile}\ntypedef {_VECTORS[kind]} V;\n"
    return sizes + _WORDS + (_BACKWARD if backward else _FORWARD), tile, tile * 8
