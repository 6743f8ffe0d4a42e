/* SPDX-License-Identifier: MIT */
/*
 * A deliberate mistake: the kernel writes far outside its memory. The error must be reported as
 * CUDA reports it, and stick to this process: every later call returns it again.
 */
#include <cuda_runtime.h>

#include "demo.h"

__global__ void write_outside(int *x, long long offset)
{
    x[offset + threadIdx.x] = 1;
}

int main()
{
    int *x = NULL, *y = NULL, host = 0;
    cudaError_t launch, first, copy, alloc;

    CHECK(cudaMalloc(&x, 1024));
    write_outside<<<1, 32>>>(x, 1LL << 45);
    launch = cudaGetLastError();
    first = cudaDeviceSynchronize();
    copy = cudaMemcpy(&host, x, sizeof(host), cudaMemcpyDeviceToHost);
    alloc = cudaMalloc(&y, 1024);
    printf("launch: %s; synchronize: %s; copy: %s; malloc: %s\n", cudaGetErrorName(launch),
           cudaGetErrorName(first), cudaGetErrorName(copy), cudaGetErrorName(alloc));
    return demo_result("illegalAddress", "an access out of bounds is an error, and sticky",
                       launch == cudaSuccess && first == cudaErrorIllegalAddress &&
                           copy == cudaErrorIllegalAddress && alloc == cudaErrorIllegalAddress,
                       "expected cudaErrorIllegalAddress from each call after the launch");
}
