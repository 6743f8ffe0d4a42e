// SPDX-License-Identifier: MIT
// Device code of the conformance suite, compiled to PTX (compute_75) at build time.
#include <assert.h>
#include <stdio.h>

typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" {

__device__ u32 g_counter = 7;
__device__ u32 g_array[16];
__constant__ u32 c_table[4] = {11, 22, 33, 44};

struct cf_mixed {
    char a;
    double b;
    int c[3];
    short d;
};
struct cf_big {
    u32 w[998];
};

__global__ void k_nop(void) {}

__global__ void k_fill(u32 *p, u32 n, u32 v)
{
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = v + i;
}

__global__ void k_add(u32 *p, u32 n, u32 v)
{
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] += v;
}

__global__ void k_copy(const u32 *in, u32 *out, u32 n)
{
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i];
}

// Each parameter size that a scalar can have, in an order that needs padding.
__global__ void k_scalars(unsigned char a, unsigned short b, u64 *out, u32 c, u64 d, float e, double f)
{
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
    out[4] = __float_as_uint(e);
    out[5] = (u64)__double_as_longlong(f);
}

__global__ void k_mixed(struct cf_mixed s, u64 *out)
{
    out[0] = (u64)s.a;
    out[1] = (u64)__double_as_longlong(s.b);
    out[2] = (u64)(u32)s.c[0];
    out[3] = (u64)(u32)s.c[1];
    out[4] = (u64)(u32)s.c[2];
    out[5] = (u64)(unsigned short)s.d;
}

__global__ void k_big(struct cf_big s, u32 *out)
{
    for (u32 i = threadIdx.x; i < 998; i += blockDim.x)
        out[i] = s.w[i];
}

__global__ void k_dims(u32 *out)
{
    u32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    u32 n = blockDim.x * blockDim.y * blockDim.z;
    out[block * n + thread] = block << 16 | thread;
}

// Busy until *flag is not zero (pinned host memory), or for ever when limit is 0.
__global__ void k_wait(volatile u32 *flag, u32 *out, u32 limit)
{
    u32 i = 0;
    while (!*flag && (!limit || ++i < limit))
        ;
    *out = *flag;
}

// iters steps of a linear congruential generator; takes time, has one right answer.
__global__ void k_work(u32 *p, u32 n, u32 iters)
{
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    u32 x = p[i];
    for (u32 k = 0; k < iters; k++)
        x = x * 1664525u + 1013904223u;
    p[i] = x;
}

struct cf_list {
    struct cf_list *next;
    u32 value;
};

__global__ void k_list(struct cf_list *l, u32 *sum) // one thread: the sum; doubles each value
{
    *sum = 0;
    for (; l; l = l->next) {
        *sum += l->value;
        l->value *= 2;
    }
}

__global__ void k_reverse(u32 *p, u32 n) // dynamic shared memory: n words
{
    extern __shared__ u32 buf[];
    u32 i = threadIdx.x;
    if (i < n)
        buf[i] = p[i];
    __syncthreads();
    if (i < n)
        p[i] = buf[n - 1 - i];
}

__global__ void k_reduce(const u32 *in, u32 *out, u32 n) // static shared memory, barriers
{
    __shared__ u32 s[256];
    u32 sum = 0;
    for (u32 i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += in[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    for (u32 k = 128; k; k >>= 1) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x)
        atomicAdd(out, s[0]);
}

__global__ void k_atomics(u32 *p, u64 *q, float *f)
{
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(p + 0, 1u);
    atomicSub(p + 1, 1u);
    atomicMin(p + 2, i);
    atomicMax(p + 3, i);
    atomicOr(p + 4, 1u << (i & 31));
    atomicAnd(p + 5, ~(1u << (i & 31)));
    atomicXor(p + 6, i);
    atomicInc(p + 7, 9u);
    atomicMin((int *)p + 8, -(int)i);
    for (u32 old = p[9], seen;; old = seen) { // compare and swap loop: adds 3
        seen = atomicCAS(p + 9, old, old + 3);
        if (seen == old)
            break;
    }
    atomicAdd(q, (u64)i << 20);
    atomicAdd(f, 1.0f);
}

__global__ void k_exchange(u32 *slot, u32 *sum)
{
    u32 old = atomicExch(slot, threadIdx.x + 1); // every value but the last comes back once
    atomicAdd(sum, old);
}

__global__ void k_warp(u32 *out)
{
    u32 lane = threadIdx.x & 31, v = lane * lane;
    out[0 * 32 + lane] = __shfl_sync(~0u, v, 5);
    out[1 * 32 + lane] = __shfl_up_sync(~0u, v, 3);
    out[2 * 32 + lane] = __shfl_down_sync(~0u, v, 7);
    out[3 * 32 + lane] = __shfl_xor_sync(~0u, v, 9);
    out[4 * 32 + lane] = __shfl_sync(~0u, v, 3, 8);
    out[5 * 32 + lane] = __ballot_sync(~0u, lane % 3 == 0);
    out[6 * 32 + lane] = (u32)__any_sync(~0u, lane == 31) << 1 | (u32)__all_sync(~0u, lane < 31);
    out[7 * 32 + lane] = __activemask();
}

__global__ void k_diverge(u32 *out)
{
    u32 i = threadIdx.x, r = 0;
    if (i & 1)
        for (u32 k = 0; k < i; k++)
            r += k;
    else
        r = i * 3;
    __syncwarp();
    out[i] = r + __popc(i) + (u32)__clz((int)i) + __brev(i);
}

__global__ void k_float(const float *a, const float *b, float *out)
{
    u32 i = threadIdx.x;
    out[i] = __fadd_rn(a[i], b[i]);
    out[64 + i] = __fmul_rn(a[i], b[i]);
    out[128 + i] = __fmaf_rn(a[i], b[i], a[i]);
    out[192 + i] = __fdiv_rn(a[i], b[i]);
    out[256 + i] = __fsqrt_rn(fabsf(a[i]));
    out[320 + i] = (float)(int)a[i];
}

__global__ void k_globals(u32 *out)
{
    u32 i = threadIdx.x;
    if (i < 4)
        out[i] = c_table[i];
    if (i < 16)
        g_array[i] = i * 5;
    if (!i)
        out[4] = atomicAdd(&g_counter, 1);
}

__global__ void k_local(u32 *out, u32 k)
{
    u32 a[32];
    for (u32 i = 0; i < 32; i++)
        a[i] = i * k + threadIdx.x;
    for (u32 i = 0; i < 32; i++)
        a[(i * 7) & 31] ^= a[(i * 11 + k) & 31];
    u32 s = 0;
    for (u32 i = 0; i < 32; i++)
        s = s * 31 + a[i];
    out[threadIdx.x] = s;
}

__global__ void k_store(u32 *p) { *p = 0xdeadbeef; }
__global__ void k_load(const u32 *p, u32 *out) { *out = *p; }
__global__ void k_where(u32 *out) // the multiprocessor of each block, and how many there are
{
    u32 at, n;

    asm volatile("mov.u32 %0, %%smid;" : "=r"(at));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(n));
    if (threadIdx.x == 0) {
        out[blockIdx.x] = at;
        out[gridDim.x] = n;
    }
}

__global__ void k_trap(void) { __trap(); }
__global__ void k_assert(int v) { assert(v != 3); }

__global__ void k_print(int v)
{
    printf("thread %u: %d 0x%x %s %.3f %c %%\n", threadIdx.x, v, 255, "text", 1.5, 'z');
}

__global__ void k_shared_past(u32 *out) // past the end of shared memory
{
    extern __shared__ u32 buf[];
    buf[1 << 22] = 1;
    *out = buf[1 << 22];
}

} // extern "C"

/* Reads between two elements of a row of 16 and, when all have read, writes each plus a half. */
extern "C" __global__ void k_texture(cudaTextureObject_t t, cudaSurfaceObject_t s, float *out)
{
    int x = threadIdx.x % 16, y = threadIdx.x / 16;

    out[threadIdx.x] = tex2D<float>(t, x + 1.0f, y + 0.5f);
    __syncthreads();
    surf2Dwrite(surf2Dread<float>(s, x * 4, y) + 0.5f, s, x * 4, y);
}

// The number of a conditional node, from the device.
extern "C" __global__ void k_condition(cudaGraphConditionalHandle h, u32 v)
{
    cudaGraphSetConditional(h, v);
}
extern "C" __global__ void k_count_down(cudaGraphConditionalHandle h, u32 *left)
{
    u32 v = --*left;

    cudaGraphSetConditional(h, v);
}
// Graphs that kernels launch. result[i]: what each launch returned, from the front of the array on.
extern "C" __global__ void k_graph_launch(u64 x, u64 mode, u32 times, u32 *result)
{
    for (u32 i = 0; i < times; i++)
        result[i] = cudaGraphLaunch((cudaGraphExec_t)x, (cudaStream_t)mode);
}
// Launches its own graph again, as a tail, while *left counts down. order[0]: how many follow.
extern "C" __global__ void k_graph_again(u32 *left, u32 *result)
{
    if (--*left)
        *result |= cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
extern "C" __global__ void k_graph_self(u64 *out)
{
    *out = (u64)cudaGetCurrentGraphExec();
}
extern "C" __global__ void k_note(u32 *order, u32 what)
{
    order[1 + atomicAdd(order, 1)] = what; // graphs may run beside each other
}
