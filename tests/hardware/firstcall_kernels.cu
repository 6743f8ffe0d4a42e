// SPDX-License-Identifier: MIT
// The kernels of firstcall; compiled to PTX, which the program carries.
#include <cassert>
#include <cooperative_groups.h>
#include <cstdio>

extern "C" __global__ void fc_add(int *values, int n)
{
    if (threadIdx.x < n)
        values[threadIdx.x] += 1;
}

// Runs for that many nanoseconds.
extern "C" __global__ void fc_spin(unsigned long long nanoseconds)
{
    unsigned long long start, now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < nanoseconds);
}

extern "C" __global__ void fc_print(int value)
{
    printf("firstcall kernel says %d\n", value);
}

extern "C" __global__ void fc_assert(int value)
{
    assert(value == 0);
}

extern "C" __global__ void fc_grid(int *values)
{
    if (threadIdx.x == 0)
        values[blockIdx.x] = blockIdx.x;
    cooperative_groups::this_grid().sync();
    if (threadIdx.x == 0 && blockIdx.x == 0)
        for (unsigned i = 1; i < gridDim.x; i++)
            values[0] += values[i];
}
