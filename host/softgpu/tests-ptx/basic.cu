/* SPDX-License-Identifier: MIT */
/* Ordinary kernels, compiled by nvcc -ptx in the tests (sg_exec_nvcc_test.c). */
#include <stdio.h>
#include <assert.h>

extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float sa[16][16], sb[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float s = 0;
    for (int k = 0; k < n; k += 16) {
        sa[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        sb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int j = 0; j < 16; j++)
            s += sa[threadIdx.y][j] * sb[j][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = s;
}

extern "C" __global__ void reduce(const int *a, int *out, int n)
{
    __shared__ int part[32];
    int s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        s += a[i];
    for (int o = 16; o; o >>= 1)
        s += __shfl_down_sync(0xffffffffu, s, o);
    if (!(threadIdx.x & 31))
        part[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int o = 16; o; o >>= 1)
            s += __shfl_down_sync(0xffffffffu, s, o);
        if (!threadIdx.x)
            atomicAdd(out, s);
    }
}
