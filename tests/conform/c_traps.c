// SPDX-License-Identifier: MIT
/* Traps that other implementations of the driver API fell into; README.md has the table. */
#include "conform.h"

#include <sys/mman.h>

/* An address that is neither device memory nor mapped here is refused, not touched. */
CASE(trap_wild_address, CF_CTX | CF_UB)
{
    CUdeviceptr p = 0, gone = 0;
    void *host = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr wild = (CUdeviceptr)(uintptr_t)host, mapped;

    NEED(cuMemAlloc(&p, 1 << 16));
    NEED(cuMemAlloc(&gone, 1 << 16));
    NEED(cuMemFree(gone));
    cf_need_true("mmap", host != MAP_FAILED);
    mapped = wild;
    OK("mapped", cuMemcpy(p, mapped, 1 << 16));
    munmap(host, 1 << 16);
    RC("unmapped_source", cuMemcpy(p, wild, 1 << 16), CUDA_ERROR_INVALID_VALUE);
    RC("unmapped_destination", cuMemcpy(wild, p, 1 << 16), CUDA_ERROR_INVALID_VALUE);
    RC("unmapped_async", cuMemcpyAsync(p, wild, 1 << 16, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("freed_source", cuMemcpy(p, gone, 64), CUDA_ERROR_INVALID_VALUE);
    RC("freed_destination", cuMemcpy(gone, p, 64), CUDA_ERROR_INVALID_VALUE);
    RC("wild_size", cuMemcpyHtoDAsync(p, &gone, (size_t)1 << 40, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("after", cf_fill(p, 100, 3, NULL));
    cf_true("after_value", cf_filled(p, 100, 3));
    OK("free", cuMemFree(p));
}

/* Memory of cuMemAlloc may be freed in a stream's order; what was freed once is gone. */
CASE(trap_free_async_of_plain_memory, CF_CTX)
{
    CUdeviceptr p = 0;
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK("alloc", cuMemAlloc(&p, 4096));
    OK("fill", cf_fill(p, 1000, 5, s));
    OK("free_async", cuMemFreeAsync(p, s));
    OK("sync", cuStreamSynchronize(s));
    RC("free_again", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamDestroy(s));
}

/* Pinned memory has to be there, also when nobody has touched it yet. */
CASE(trap_pinned_memory_that_nobody_has, CF_CTX)
{
    void *p = NULL;

    RC("alloc", cuMemHostAlloc(&p, (size_t)1 << 44, 0), CUDA_ERROR_OUT_OF_MEMORY);
    RC("register", cuMemHostRegister((void *)(uintptr_t)0x10000, (size_t)1 << 44, 0),
       CUDA_ERROR_INVALID_VALUE);
}

/* Counts that no array can have are refused before the array is read. */
CASE(trap_counts, CF_CTX)
{
    CUgraph g;
    CUgraphNode n[2] = {0}, more;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddEmptyNode(&n[0], g, NULL, 0));
    RC("dependencies", cuGraphAddEmptyNode(&more, g, n, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    RC("edges", cuGraphAddDependencies(g, n, n, NULL, SIZE_MAX / 4), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(g));
}

/* Which of the results a program does not want is its choice, where cuda.h says so. */
CASE(trap_optional_outputs, CF_CTX)
{
    CUdeviceptr p = 0, base = 0;
    size_t size = 0, bytes = 0;
    CUmodule m = cf_module();

    NEED(cuMemAlloc(&p, 1 << 16));
    OK("range_no_base", cuMemGetAddressRange(NULL, &size, p + 5));
    cf_u64("range_size", size, 1 << 16);
    OK("range_no_size", cuMemGetAddressRange(&base, NULL, p + 5));
    cf_true("range_base", base == p);
    OK("range_none", cuMemGetAddressRange(NULL, NULL, p));
    OK("global_no_pointer", cuModuleGetGlobal(NULL, &bytes, m, "g_counter"));
    cf_true("global_bytes", bytes > 0);
    OK("global_no_bytes", cuModuleGetGlobal(&base, NULL, m, "g_counter"));
    RC("global_neither", cuModuleGetGlobal(NULL, NULL, m, "g_counter"), CUDA_ERROR_INVALID_VALUE);
    RC("info_no_free", cuMemGetInfo(NULL, &size), CUDA_ERROR_INVALID_VALUE);
    OK("after", cf_fill(p, 100, 9, NULL));
    cf_true("after_value", cf_filled(p, 100, 9));
    OK("free", cuMemFree(p));
}
