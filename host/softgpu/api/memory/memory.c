/* SPDX-License-Identifier: MIT */
/* Driver API: device, managed and page-locked memory. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "api/api.h"

#define SG_PITCH_ALIGN 512u
#define SG_HOST_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define SG_REGISTER_FLAGS \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | \
     CU_MEMHOSTREGISTER_READ_ONLY)

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    uint64_t addr;
    CUresult r;

    SG_CTX(ctx);
    SG_NOT_CAPTURING();
    if (!dptr || !bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_mem_alloc(ctx, SG_MEM_DEVICE, bytesize, 0, &addr);
    if (r == CUDA_SUCCESS)
        *dptr = addr;
    return r;
}

CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                    unsigned int ElementSizeBytes)
{
    size_t pitch, bytes;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    if (!dptr || !pPitch || !WidthInBytes || !Height ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
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

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    uint64_t addr;
    CUresult r;

    SG_CTX(ctx);
    SG_NOT_CAPTURING();
    if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_mem_alloc(ctx, SG_MEM_MANAGED, bytesize, 0, &addr);
    if (r == CUDA_SUCCESS)
        *dptr = addr;
    return r;
}

/* Work that may still use memory ends before the memory does, as in NVIDIA's driver. */
static void drain_owner(const struct sg_mem_info *info, struct sg_ctx *current)
{
    SG_AUTO struct sg_ctx *owner = sg_lookup(info->context, SG_T_CTX); /* it may end meanwhile */

    if (current && owner != current)
        sg_ctx_drain(current);
    if (owner && atomic_load(&owner->alive))
        sg_ctx_drain(owner);
}

/* Nothing that could be freed: with no context to look in, that is the error. */
static CUresult unknown(const struct sg_ctx *ctx, CUresult r)
{
    struct sg_ctx *none = NULL;

    return ctx ? r : sg_current(&none);
}

static void pool_forget(const struct sg_mem_info *info)
{
    if (info->async)
        sg_pool_account(info->pool, -(int64_t)info->size);
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr)
{
    struct sg_mem_info info;
    CUresult r;

    SG_CTX_OR_NONE(ctx);
    SG_NOT_CAPTURING();
    if (ctx && !dptr)
        return CUDA_SUCCESS;
    if (sg_external_free(dptr, &r))
        return r;
    if (!sg_mem_find(dptr, &info) || info.base != dptr || info.internal || info.freeing ||
        (info.imported && !info.async) || (info.kind != SG_MEM_DEVICE && info.kind != SG_MEM_MANAGED))
        return unknown(ctx, CUDA_ERROR_INVALID_VALUE);
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
    if (!sg_mem_release(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    pool_forget(&info);
    return ctx ? sg_see_fault(ctx) : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    uint64_t f, t;

    SG_CTX(ctx);
    sg_mem_usage(ctx->device, &f, &t);
    if (free_bytes)
        *free_bytes = f;
    if (total)
        *total = t;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct sg_mem_info info;

    SG_CTX(ctx);
    (void)ctx;
    if (!sg_mem_find(dptr, &info))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = info.base;
    if (psize)
        *psize = info.size;
    return CUDA_SUCCESS;
}

/* ---- page-locked host memory: its device address is its host address ---- */

CUresult CUDAAPI cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    CUresult r;
    void *p;

    SG_CTX(ctx);
    SG_NOT_CAPTURING();
    if (!pp || (Flags & ~(unsigned)SG_HOST_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    if (!bytesize) { /* nothing, as the driver gives */
        *pp = NULL;
        return CUDA_SUCCESS;
    }
    p = mmap(NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "no %zu bytes of host memory", bytesize);
    r = sg_mem_add_host(ctx, SG_MEM_HOST, p, bytesize, Flags, true);
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
        return unknown(ctx, CUDA_ERROR_INVALID_VALUE);
    drain_owner(&info, ctx);
    return sg_mem_release(addr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    SG_CTX(ctx);
    SG_NOT_CAPTURING();
    if (!p || !bytesize || (Flags & ~(unsigned)SG_REGISTER_FLAGS))
        return CUDA_ERROR_INVALID_VALUE;
    if (Flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemHostRegister: no I/O memory");
    if (sg_mem_in_arena((uint64_t)(uintptr_t)p) || !sg_host_mapped((uint64_t)(uintptr_t)p, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_mem_add_host(ctx, SG_MEM_REGISTERED, p, bytesize, Flags,
                           !(Flags & CU_MEMHOSTREGISTER_READ_ONLY));
}

CUresult CUDAAPI cuMemHostUnregister(void *p)
{
    struct sg_mem_info info;
    uint64_t addr = (uint64_t)(uintptr_t)p;

    SG_CTX_OR_NONE(ctx);
    SG_NOT_CAPTURING();
    if (!p)
        return unknown(ctx, CUDA_ERROR_INVALID_VALUE);
    if (!sg_mem_find(addr, &info))
        return unknown(ctx, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    if (info.base != addr || info.kind != SG_MEM_REGISTERED) /* allocated, or inside what is registered */
        return unknown(ctx, CUDA_ERROR_INVALID_VALUE);
    drain_owner(&info, ctx);
    return sg_mem_release(addr) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static bool find_host(const void *p, struct sg_mem_info *info)
{
    return p && sg_mem_find((uint64_t)(uintptr_t)p, info) &&
           (info->kind == SG_MEM_HOST || info->kind == SG_MEM_REGISTERED);
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct sg_mem_info info;

    SG_CTX(ctx);
    (void)ctx;
    if (!pdptr || Flags || !find_host(p, &info))
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct sg_mem_info info;

    SG_CTX(ctx);
    (void)ctx;
    if (!pFlags || !find_host(p, &info))
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = info.flags;
    return CUDA_SUCCESS;
}
