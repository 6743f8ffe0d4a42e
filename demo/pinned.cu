/* SPDX-License-Identifier: MIT */
/*
 * Page-locked host memory: asynchronous copies from and to it, memory of the program's own locked
 * afterwards, and a kernel that works on it in place.
 */
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "demo.h"

__global__ void add_index(int *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        x[i] += i;
}

/* Through the device and back, both ends page-locked. */
static int copies(int *host, int n)
{
    cudaStream_t s;
    int *dev, wrong = 0;

    for (int i = 0; i < n; i++)
        host[i] = 7 * i;
    CHECK(cudaStreamCreate(&s));
    CHECK(cudaMalloc(&dev, n * sizeof(int)));
    CHECK(cudaMemcpyAsync(dev, host, n * sizeof(int), cudaMemcpyHostToDevice, s));
    add_index<<<(n + 255) / 256, 256, 0, s>>>(dev, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(host, dev, n * sizeof(int), cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++)
        wrong += host[i] != 8 * i;
    CHECK(cudaFree(dev));
    CHECK(cudaStreamDestroy(s));
    return wrong;
}

int main()
{
    const int n = 16384;
    const size_t bytes = n * sizeof(int);
    int *pinned, *mapped, *mapped_dev, wrong[3] = { 0, 0, 0 };
    cudaPointerAttributes attr;
    char *own = (char *)malloc(bytes + 4096);
    int *registered = (int *)(((uintptr_t)own + 4095) & ~(uintptr_t)4095);

    CHECK(cudaMallocHost(&pinned, bytes));
    CHECK(cudaPointerGetAttributes(&attr, pinned));
    wrong[0] = copies(pinned, n) + (attr.type != cudaMemoryTypeHost);

    CHECK(cudaHostRegister(registered, bytes, cudaHostRegisterDefault));
    wrong[1] = copies(registered, n);
    CHECK(cudaHostUnregister(registered));

    CHECK(cudaHostAlloc(&mapped, bytes, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&mapped_dev, mapped, 0));
    memset(mapped, 0, bytes);
    add_index<<<n / 256, 256>>>(mapped_dev, n);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        wrong[2] += mapped[i] != i;

    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFreeHost(mapped));
    free(own);
    return demo_result("pinned", "page-locked copies, registered memory, kernel on host memory",
                       !wrong[0] && !wrong[1] && !wrong[2],
                       wrong[0]   ? "cudaMallocHost memory"
                       : wrong[1] ? "registered memory"
                                  : "kernel on mapped memory");
}
