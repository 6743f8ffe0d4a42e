/* SPDX-License-Identifier: MIT */
/* What the runtime says about each device. Fails when there is none or a figure makes no sense. */
#include <cuda_runtime.h>

#include "demo.h"

int main()
{
    int count = 0, driver = 0, runtime = 0;
    bool ok = true;

    CHECK(cudaGetDeviceCount(&count));
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    printf("driver API %d.%d, runtime %d.%d, %d device(s)\n", driver / 1000, driver % 1000 / 10,
           runtime / 1000, runtime % 1000 / 10, count);
    for (int i = 0; i < count; i++) {
        cudaDeviceProp p;
        size_t free_bytes = 0, total_bytes = 0;
        int clock_khz = 0;

        CHECK(cudaSetDevice(i));
        CHECK(cudaGetDeviceProperties(&p, i));
        CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, i));
        CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
        printf("device %d: %s\n", i, p.name);
        printf("  compute capability %d.%d, %d multiprocessors, warp size %d, %.2f GHz\n", p.major,
               p.minor, p.multiProcessorCount, p.warpSize, clock_khz * 1e-6);
        printf("  global memory %zu MiB (%zu MiB free), shared memory per block %zu KiB\n",
               total_bytes >> 20, free_bytes >> 20, p.sharedMemPerBlock >> 10);
        printf("  threads per block %d, block %d x %d x %d, grid %d x %d x %d\n",
               p.maxThreadsPerBlock, p.maxThreadsDim[0], p.maxThreadsDim[1], p.maxThreadsDim[2],
               p.maxGridSize[0], p.maxGridSize[1], p.maxGridSize[2]);
        ok = ok && p.name[0] && p.major >= 5 && p.warpSize == 32 && p.multiProcessorCount > 0 &&
             p.maxThreadsPerBlock >= 512 && total_bytes > 0 && free_bytes <= total_bytes;
    }
    return demo_result("deviceQuery", "device properties", ok && count > 0,
                       count ? "a property makes no sense" : "no device");
}
