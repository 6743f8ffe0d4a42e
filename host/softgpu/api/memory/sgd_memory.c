/* SPDX-License-Identifier: MIT */
/* Driver API: device, managed and page-locked memory. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "api/api.h"

#define SG_PITCH_ALIGN 512u

CUresult sgd_cuMemAlloc_v2(struct sg_ctx *ctx, CUdeviceptr *dptr, size_t bytesize)
{
    uint64_t addr;
    CUresult r = sg_mem_alloc(ctx, SG_MEM_DEVICE, bytesize, 0, &addr);

    if (r == CUDA_SUCCESS)
        *dptr = addr;
    return r;
}

CUresult sgd_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height)
{
    size_t pitch, bytes;
    CUresult r;

    if (__builtin_add_overflow(WidthInBytes, SG_PITCH_ALIGN - 1, &pitch))
        return CUDA_ERROR_INVALID_VALUE;
    pitch &= ~(size_t)(SG_PITCH_ALIGN - 1);
    if (__builtin_mul_overflow(pitch, Height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = cuMemAlloc_v2(dptr, bytes);
    if (r == CUDA_SUCCESS)
        *pPitch = pitch;
    return r;
}

CUresult sgd_cuMemAllocManaged(struct sg_ctx *ctx, CUdeviceptr *dptr, size_t bytesize)
{
    uint64_t addr;
    CUresult r = sg_mem_alloc(ctx, SG_MEM_MANAGED, bytesize, 0, &addr);

    if (r == CUDA_SUCCESS)
        *dptr = addr;
    return r;
}

/* Waits for work that may still use the memory before it is freed, as in NVIDIA's driver. */
static void drain_owner(const struct sg_mem_info *info, struct sg_ctx *current)
{
    SG_AUTO struct sg_ctx *owner = sg_lookup(info->context, SG_T_CTX); /* it may end meanwhile */

    if (current && owner != current)
        sg_ctx_drain(current);
    if (owner && atomic_load(&owner->alive))
        sg_ctx_drain(owner);
}

/* Nothing that could be freed: with no context to look in, that is the error. */
static CUresult unknown_address(const struct sg_ctx *ctx, CUresult r)
{
    struct sg_ctx *none = NULL;

    return ctx ? r : sg_current(&none);
}

static void pool_forget(const struct sg_mem_info *info)
{
    if (info->async)
        sg_pool_account(info->pool, -(int64_t)info->size);
}

CUresult sgd_cuMemFree_v2(struct sg_ctx *ctx, CUdeviceptr dptr)
{
    struct sg_mem_info info;
    CUresult r;

    if (ctx && !dptr)
        return CUDA_SUCCESS;
    if (sg_external_free(dptr, &r))
        return r;
    if (!sg_mem_find(dptr, &info) || info.base != dptr || info.internal || info.freeing ||
        (info.imported && !info.async) || (info.kind != SG_MEM_DEVICE && info.kind != SG_MEM_MANAGED))
        return unknown_address(ctx, CUDA_ERROR_INVALID_VALUE);
    if (info.graph) {
        struct sg_graph_memory *m;

        r = sg_graph_memory_free(dptr, &m);
        if (r != CUDA_SUCCESS)
            return r;
        drain_owner(&info, ctx);
        sg_graph_memory_unclaim(m);
        return ctx ? sg_see_fault(ctx) : CUDA_SUCCESS;
    }
    drain_owner(&info, ctx);
    if (!sg_mem_release_same(dptr, info.id))
        return CUDA_ERROR_INVALID_VALUE;
    pool_forget(&info);
    return ctx ? sg_see_fault(ctx) : CUDA_SUCCESS;
}

CUresult sgd_cuMemGetInfo_v2(struct sg_ctx *ctx, size_t *free_bytes, size_t *total)
{
    uint64_t f, t;

    sg_mem_usage(ctx->device, &f, &t);
    if (free_bytes)
        *free_bytes = f;
    if (total)
        *total = t;
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct sg_mem_info info;

    if (!sg_mem_find(dptr, &info))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = info.base;
    if (psize)
        *psize = info.size;
    return CUDA_SUCCESS;
}

/* ---- page-locked host memory: its device address is its host address ---- */

CUresult sgd_cuMemHostAlloc(struct sg_ctx *ctx, void **pp, size_t bytesize, unsigned int Flags)
{
    void *p;
    CUresult r;

    if (!bytesize) /* nothing, as the driver gives */
        return CUDA_SUCCESS;
    p = mmap(NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "no %zu bytes of host memory", bytesize);
    /* Under unified addressing all of it is portable and mapped, whatever was requested (driver 580). */
    r = sg_mem_add_host(ctx, SG_MEM_HOST, p, bytesize,
                        Flags | CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP, true);
    if (r != CUDA_SUCCESS) {
        munmap(p, bytesize);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pp = p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeHost(void *p)
{
    struct sg_mem_info info;
    uint64_t addr = (uint64_t)(uintptr_t)p;

    SG_INIT();
    if (!p)
        return CUDA_SUCCESS; /* as the driver does, like free(NULL) */
    SG_CTX_OR_NONE(ctx);
    SG_NOT_CAPTURING();
    if (!sg_mem_find(addr, &info) || info.base != addr || info.kind != SG_MEM_HOST)
        return unknown_address(ctx, CUDA_ERROR_INVALID_VALUE);
    drain_owner(&info, ctx);
    return sg_mem_release_same(addr, info.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuMemHostRegister_v2(struct sg_ctx *ctx, void *p, size_t bytesize, unsigned int Flags)
{
    struct sg_mem_info info;

    if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemHostRegister: no I/O memory");
    if (sg_mem_in_arena((uint64_t)(uintptr_t)p) || bytesize > UINTPTR_MAX - (uintptr_t)p)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_mem_find((uint64_t)(uintptr_t)p, &info)) {
        if (info.kind == SG_MEM_HOST)
            return CUDA_ERROR_INVALID_VALUE; /* allocated, not registered */
        if (info.kind == SG_MEM_REGISTERED)
            return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED; /* whatever comes behind it (driver 580) */
    }
    if (!sg_host_mapped((uint64_t)(uintptr_t)p, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_mem_add_host(ctx, SG_MEM_REGISTERED, p, bytesize, Flags,
                           !(Flags & CU_MEMHOSTREGISTER_READ_ONLY));
}

CUresult sgd_cuMemHostUnregister(struct sg_ctx *ctx, void *p)
{
    struct sg_mem_info info;
    uint64_t addr = (uint64_t)(uintptr_t)p;

    if (!p)
        return unknown_address(ctx, CUDA_ERROR_INVALID_VALUE);
    if (!sg_mem_find(addr, &info))
        return unknown_address(ctx, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    /* allocated, or inside a registered range */
    if (info.base != addr || info.kind != SG_MEM_REGISTERED)
        return unknown_address(ctx, CUDA_ERROR_INVALID_VALUE);
    drain_owner(&info, ctx);
    return sg_mem_release_same(addr, info.id) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static bool find_host(const void *p, struct sg_mem_info *info)
{
    return p && sg_mem_find((uint64_t)(uintptr_t)p, info) &&
           (info->kind == SG_MEM_HOST || info->kind == SG_MEM_REGISTERED);
}

CUresult sgd_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct sg_mem_info info;

    if (!pdptr || Flags || !find_host(p, &info))
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct sg_mem_info info;

    if (!pFlags || !find_host(p, &info) || info.kind == SG_MEM_REGISTERED) /* cuda.h: allocations only */
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = info.flags;
    return CUDA_SUCCESS;
}
