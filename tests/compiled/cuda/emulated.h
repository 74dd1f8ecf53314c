// CUDA's words for a C++ compiler of the host: a block's threads are fibers that take turns at
// barriers, so that kernels run as they are written.
#include <math.h>
#include <ucontext.h>
#define __global__
#define __device__
#define __shared__ static
struct Dim { unsigned x, y, z; };
static Dim threadIdx, blockIdx, blockDim, gridDim;
static ucontext_t scheduler, fibers[1024];
static bool done[1024];
static double slots[1024];
static void (*body)(void**);
static void** given;

static void yield() {
    const unsigned me = threadIdx.x;
    swapcontext(&fibers[me], &scheduler);
    threadIdx.x = me;
}
static void __syncthreads() { yield(); }
template <class T> static T __shfl_xor_sync(unsigned, T x, int step) {
    const unsigned me = threadIdx.x;
    *(T*)&slots[me] = x;
    yield();
    const T other = *(T*)&slots[me ^ step];
    yield();
    return other;
}
static void fiber() {
    body(given);
    done[threadIdx.x] = true;
}
static void run(void (*kernel)(void**), void** args, unsigned gx, unsigned gy, unsigned block) {
    static char stacks[1024 * 65536];
    body = kernel, given = args;
    gridDim = {gx, gy, 1}, blockDim = {block, 1, 1};
    for (unsigned y = 0; y < gy; ++y) for (unsigned x = 0; x < gx; ++x) {
        blockIdx = {x, y, 0};
        for (unsigned t = 0; t < block; ++t) {
            done[t] = false;
            getcontext(&fibers[t]);
            fibers[t].uc_stack.ss_sp = &stacks[t * 65536];
            fibers[t].uc_stack.ss_size = 65536;
            fibers[t].uc_link = &scheduler;
            makecontext(&fibers[t], fiber, 0);
        }
        for (unsigned left = block; left;) {
            left = 0;
            for (unsigned t = 0; t < block; ++t) {
                if (done[t]) continue;
                threadIdx = {t, 0, 0};
                swapcontext(&scheduler, &fibers[t]);
                if (!done[t]) ++left;
            }
        }
    }
}
