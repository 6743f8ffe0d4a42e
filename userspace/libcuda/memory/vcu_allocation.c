/* SPDX-License-Identifier: MIT */
/* Managed allocations, the end of allocations of any kind, and their end with their context. Pools
 * and the stream-ordered allocator are in vcu_pool.c. */
#include "memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct vcu_memory m = {.kind = VCU_MEM_MANAGED};
    uint64_t va;
    CUresult res;

    if (dptr == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr = 0;
    res = vcu_check_uncaptured("cuMemAllocManaged");
    if (res != CUDA_SUCCESS)
        return res;
    if (bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    /* Pages shared with the worker, at one address for both; they do not migrate to the GPU. */
    res = vcu_hostmem_new("cuMemAllocManaged", bytesize, false, &m);
    if (res != CUDA_SUCCESS)
        return res;
    va = (uintptr_t)m.shared.va;
    if (m.device_ptr != va) {
        vcu_hostmem_end(&m);
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuMemAllocManaged",
                          "the worker could not map the memory at the same address");
    }
    m.flags = flags;
    if (!vcu_memory_add(va, bytesize, &m)) {
        vcu_hostmem_end(&m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *dptr = va;
    return CUDA_SUCCESS;
}

static CUresult free_device(CUdeviceptr dptr)
{
    struct vcu_place p;
    CUresult res = vcu_capture_unsafe("cuMemFree");

    if (res != CUDA_SUCCESS || dptr == 0 || vcu_external_free(dptr, &res))
        return res;
    if (vcu_memory_take(dptr, VCU_MEM_MANAGED, &p)) {
        vcu_hostmem_end(&p.m);
        return CUDA_SUCCESS;
    }
    if (!vcu_memory_take(dptr, VCU_MEM_DEVICE, &p))
        p.size = 0;
    res = vgp_call_cuMemFree_v2(dptr);
    if (res != CUDA_SUCCESS && p.size != 0)
        vcu_memory_add(p.start, p.size, &p.m);
    return res;
}

CUresult vcu_cuMemFree_v2(CUdeviceptr dptr)
{
    struct vcu_place p;
    bool borrowed;
    CUresult res = vcu_context_borrow(vcu_memory_find(dptr, &p) ? p.m.context : 0, &borrowed);

    if (res != CUDA_SUCCESS)
        return res;
    res = free_device(dptr);
    vcu_context_return(borrowed);
    return res;
}

/* ---- the end of a context ---- */

static void context_ending(struct vcu_context *c)
{
    uint64_t context = c->handle;

    if (c->green != 0)
        return;
    vcu_memory_forget_context(context);
    vcu_managed_forget(0, context);
}

const struct vcu_unit_ops vcu_memory_unit = {.context_ending = context_ending,
                                             .memory_private = vcu_memory_is_private};
