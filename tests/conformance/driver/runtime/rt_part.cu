// SPDX-License-Identifier: MIT
/*
 * A shared object with a static CUDA runtime of its own, as cuBLAS, NCCL and many applications' plug-ins
 * have one. Built twice, as part 1 and part 2; rt_many.cu loads both beside libcudart.so.
 */
#include <cuda_runtime.h>

__device__ int calls;

__global__ void mix(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        p[i] = p[i] * 3 + PART;
    if (i == 0)
        atomicAdd(&calls, 1);
}

__global__ void spin(volatile int *flag, int turns)
{
    while (*flag == 0 && turns-- > 0)
        ;
}

extern "C" {

/* p[i] = 3 p[i] + part, on the stream. */
cudaError_t part_mix(int *p, int n, cudaStream_t s)
{
    mix<<<(n + 127) / 128, 128, 0, s>>>(p, n);
    return cudaGetLastError();
}

/* How often part_mix() ran in this object since it was loaded or the device was reset. */
cudaError_t part_calls(int *n)
{
    return cudaMemcpyFromSymbol(n, calls, sizeof(*n));
}

/* An error of this runtime, not taken back. */
cudaError_t part_fail(void)
{
    mix<<<1, 4096>>>(nullptr, 0);
    return cudaPeekAtLastError();
}

cudaError_t part_last(void) { return cudaGetLastError(); }

/* A kernel that takes a while; returns at once. */
cudaError_t part_busy(void)
{
    int *p = nullptr;
    cudaError_t e = cudaMalloc(&p, sizeof(*p));

    if (e == cudaSuccess)
        e = cudaMemset(p, 0, sizeof(*p));
    if (e == cudaSuccess)
        spin<<<1, 1>>>(p, 2000000);
    return e == cudaSuccess ? cudaGetLastError() : e;
}
}
