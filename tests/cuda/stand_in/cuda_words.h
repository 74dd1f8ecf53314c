// The words of CUDA C for a C++ compiler of the host: threads of a block are fibers that give way
// where CUDA's wait for one another.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

#define __global__
#define __device__ static inline
#define __forceinline__ inline
#define __shared__ static
#define __restrict__
#define __align__(n) alignas(n)
#define INFINITY_F __builtin_inff()

struct dim3_ { unsigned x, y, z; };
static dim3_ threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

using std::acos; using std::acosh; using std::asin; using std::asinh; using std::atan;
using std::atan2; using std::atanh; using std::cbrt; using std::ceil; using std::copysign;
using std::cos; using std::cosh; using std::erf; using std::erfc; using std::exp; using std::exp2;
using std::expm1; using std::fabs; using std::floor; using std::fma; using std::fmax; using std::fmin;
using std::fmod; using std::hypot; using std::isfinite; using std::isinf; using std::isnan;
using std::lgamma; using std::log; using std::log10; using std::log1p; using std::log2; using std::pow;
using std::rint; using std::round; using std::signbit; using std::sin; using std::sinh; using std::sqrt;
using std::tan; using std::tanh; using std::tgamma; using std::trunc;
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
static inline float rsqrt(float v) { return 1 / std::sqrt(v); }
static inline double rsqrt(double v) { return 1 / std::sqrt(v); }
#define __expf(v) std::exp((float)(v))
static inline float __int_as_float(int v) { float r; memcpy(&r, &v, 4); return r; }
static inline unsigned __float_as_uint(float v) { unsigned r; memcpy(&r, &v, 4); return r; }
static inline int __float_as_int(float v) { int r; memcpy(&r, &v, 4); return r; }
static inline float __uint_as_float(unsigned v) { float r; memcpy(&r, &v, 4); return r; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return ((uint64_t)a * b) >> 32; }
static inline void sincospi(double v, double* s, double* c) { *s = sin(M_PI * v); *c = cos(M_PI * v); }
static inline void sincospif(float v, float* s, float* c) {
    *s = (float)sin(M_PI * v); *c = (float)cos(M_PI * v); }
template <class T> static inline T __ldg(const T* p) { return *p; }

static inline float half_to_float(unsigned short v) {
    _Float16 h; memcpy(&h, &v, 2); return (float)h; }
static inline unsigned short float_to_half(float v) {
    _Float16 h = (_Float16)v; unsigned short r; memcpy(&r, &h, 2); return r; }

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
static inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }

// Fibers ------------------------------------------------------------------------------------------

enum { READY, AT_WARP, AT_BLOCK, DONE };
static const int STACK = 64 << 10;
struct Fiber { ucontext_t context; int state; bool started; dim3_ place; };
static Fiber fibers[1024];
static char* stacks = nullptr;
static ucontext_t scheduler;
static int current, threads;
static void** given_now;
static void (*kernel_now)(void**);
alignas(16) static char lanes[1024][16];
alignas(128) static char dynamic_shared[228 << 10];

static void wait_at(int where) {
    int own = current;
    fibers[own].state = where;
    swapcontext(&fibers[own].context, &scheduler);
}
static inline void __syncthreads() { wait_at(AT_BLOCK); }
static inline void __syncwarp(unsigned mask = 0xffffffffu) { wait_at(AT_WARP); }
static inline void __threadfence() {}

template <class T> static T from_lane(T value, int lane) {
    int own = current, first = own & ~31;
    memcpy(lanes[own], &value, sizeof(T));
    wait_at(AT_WARP);
    T result = value;
    if (lane >= 0 && lane < 32 && first + lane < threads) memcpy(&result, lanes[first + lane], sizeof(T));
    wait_at(AT_WARP);
    return result;
}
template <class T> static T __shfl_down_sync(unsigned mask, T value, int step) {
    return from_lane(value, (current & 31) + step); }
template <class T> static T __shfl_up_sync(unsigned mask, T value, int step) {
    return from_lane(value, (current & 31) - step); }
template <class T> static T __shfl_xor_sync(unsigned mask, T value, int bits) {
    return from_lane(value, (current & 31) ^ bits); }
template <class T> static T __shfl_sync(unsigned mask, T value, int lane) {
    return from_lane(value, lane & 31); }
template <class T, class U> static T atomicAdd(T* at, U value) {
    T before = *at; *at = before + (T)value; return before; }
template <class T> static T atomicMax(T* at, T value) {
    T before = *at; if (value > before) *at = value; return before; }
template <class T> static T atomicCAS(T* at, T expected, T value) {
    T before = *at; if (before == expected) *at = value; return before; }

// Matrix instructions: a warp's lanes show what they have, then each takes its part of the result.
static inline float bf16_to_float(unsigned short v) {
    unsigned u = (unsigned)v << 16; float r; memcpy(&r, &u, 4); return r; }
static inline unsigned short float_to_bf16(float v) {
    unsigned u; memcpy(&u, &v, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return (unsigned short)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16); }
static inline unsigned pair_of_bf16(float low, float high) {
    return float_to_bf16(low) | (unsigned)float_to_bf16(high) << 16; }
static inline unsigned pair_of_f16(float low, float high) {
    return float_to_half(low) | (unsigned)float_to_half(high) << 16; }
static struct { unsigned a[4], b[2]; const void* row; } shown[1024];
template <float (*wide)(unsigned short)>
static void mma_of(float* c, const unsigned* a, unsigned b0, unsigned b1) {
    int own = current, first = own & ~31, group = (own & 31) >> 2, pair = own & 3;
    for (int i = 0; i < 4; ++i) shown[own].a[i] = a[i];
    shown[own].b[0] = b0; shown[own].b[1] = b1;
    wait_at(AT_WARP);
    for (int e = 0; e < 4; ++e) {
        int row = group + (e >> 1) * 8, column = pair * 2 + (e & 1);
        float sum = c[e];
        for (int k = 0; k < 16; ++k) {
            unsigned left = shown[first + (row & 7) * 4 + (k & 7) / 2].a[(row >> 3) + (k >> 3) * 2];
            unsigned right = shown[first + column * 4 + (k & 7) / 2].b[k >> 3];
            sum += wide((unsigned short)(left >> (k & 1) * 16)) * wide((unsigned short)(right >> (k & 1) * 16)); }
        c[e] = sum; }
    wait_at(AT_WARP);
}
#define mma_bf16 mma_of<bf16_to_float>
#define mma_f16 mma_of<half_to_float>
static inline size_t __cvta_generic_to_shared(const void* p) { return (size_t)p; }
static void matrices(unsigned* r, const void* p, bool turned) {
    int own = current, first = own & ~31, group = (own & 31) >> 2, pair = own & 3;
    if ((size_t)p % 16) { fprintf(stderr, "ldmatrix of an address that is not at 16 bytes\n"); abort(); }
    shown[own].row = p;
    wait_at(AT_WARP);
    for (int i = 0; i < 4; ++i) {
        unsigned short part[2];
        for (int e = 0; e < 2; ++e) {
            int row = turned ? pair * 2 + e : group, column = turned ? group : pair * 2 + e;
            part[e] = ((const unsigned short*)shown[first + i * 8 + row].row)[column]; }
        r[i] = part[0] | (unsigned)part[1] << 16; }
    wait_at(AT_WARP);
}
static inline void copied_16(void* to, const void* from, int bytes) {
    if ((size_t)to % 16 || (bytes && (size_t)from % 16)) {
        fprintf(stderr, "cp.async of an address that is not at 16 bytes\n"); abort(); }
    if (bytes) memcpy(to, from, 16); else memset(to, 0, 16); }

static void fiber_main() {
    kernel_now(given_now);
    fibers[current].state = DONE;
    swapcontext(&fibers[current].context, &scheduler);
}

static void resume(int i) {
    current = i;
    threadIdx = fibers[i].place;
    Fiber& fiber = fibers[i];
    if (!fiber.started) {
        fiber.started = true;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = stacks + (size_t)i * STACK;
        fiber.context.uc_stack.ss_size = STACK;
        fiber.context.uc_link = &scheduler;
        makecontext(&fiber.context, fiber_main, 0);
    }
    swapcontext(&scheduler, &fiber.context);
}

static const char* run_block() {
    for (int i = 0; i < threads; ++i) {
        fibers[i].state = READY; fibers[i].started = false;
        unsigned x = i % blockDim.x, rest = i / blockDim.x;
        fibers[i].place = {x, rest % blockDim.y, rest / blockDim.y};
    }
    for (;;) {
        bool ran = false;
        int done = 0, at_block = 0;
        for (int i = 0; i < threads; ++i) {
            if (fibers[i].state == READY) { resume(i); ran = true; }
        }
        for (int first = 0; first < threads; first += 32) {
            int last = first + 32 < threads ? first + 32 : threads, waiting = 0, alive = 0;
            for (int i = first; i < last; ++i) {
                waiting += fibers[i].state == AT_WARP; alive += fibers[i].state != DONE; }
            if (waiting && waiting == alive)
                for (int i = first; i < last; ++i)
                    if (fibers[i].state == AT_WARP) { fibers[i].state = READY; ran = true; }
        }
        for (int i = 0; i < threads; ++i) {
            done += fibers[i].state == DONE; at_block += fibers[i].state == AT_BLOCK; }
        if (done == threads) return nullptr;
        if (at_block && at_block + done == threads) {
            for (int i = 0; i < threads; ++i) if (fibers[i].state == AT_BLOCK) fibers[i].state = READY;
            ran = true;
        }
        if (!ran) return "threads of a block wait at different places";
    }
}

static const char* run_grid(
        void (*kernel)(void**), void** arguments, const int* sizes, const int* wanted, int count,
        const unsigned* grid, const unsigned* block, int shared) {
    for (int i = 0; i < count; ++i)
        if (sizes[i] < wanted[i]) return "an argument is smaller than its parameter";
    if (!stacks) stacks = (char*)malloc((size_t)1024 * STACK);
    kernel_now = kernel; given_now = arguments;
    gridDim = {grid[0], grid[1], grid[2]}; blockDim = {block[0], block[1], block[2]};
    threads = block[0] * block[1] * block[2];
    for (unsigned z = 0; z < grid[2]; ++z) for (unsigned y = 0; y < grid[1]; ++y)
    for (unsigned x = 0; x < grid[0]; ++x) {
        blockIdx = {x, y, z};
        memset(dynamic_shared, 0xff, shared);  // whatever was there before
        const char* problem = run_block();
        if (problem) return problem;
    }
    return nullptr;
}
