/* SPDX-License-Identifier: MIT */
/* Compiled to machine code: the seeds of fuzz_sass. Never run. */
#include <cstdint>

__device__ int counter = 5;
__device__ int *pointer = &counter;
__managed__ float shown[4] = {1, 2, 3, 4};
__constant__ double table[8] = {1, 2};

struct Big {
    int64_t a[20];
    char c;
};

__device__ __noinline__ int helper(int x)
{
    volatile int local[32];

    local[x & 31] = x;
    return local[(x + 1) & 31];
}

extern "C" __global__ void __launch_bounds__(128) plain(int *out, Big b, short s)
{
    __shared__ int room[128];

    room[threadIdx.x] = helper((int)b.a[s & 15]);
    __syncthreads();
    out[threadIdx.x] = room[127 - threadIdx.x] + *pointer + (int)table[threadIdx.x & 7];
}

template <typename T> __global__ void named(T *p, float f)
{
    extern __shared__ char dynamic[];

    p[threadIdx.x] = (T)(shown[threadIdx.x & 3] * f) + (T)dynamic[threadIdx.x];
}
template __global__ void named<int>(int *, float);
template __global__ void named<double>(double *, float);
