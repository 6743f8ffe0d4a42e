/* SPDX-License-Identifier: MIT */
/*
 * External memory. Memory that a CUDA context exported as a file descriptor can be imported: it is
 * physical memory (lib/cudaapi/external_memory.h). What
 * other APIs of the guest export is memory of its own drivers, which the GPU on the host cannot
 * reach. Their semaphores can be waited for and signalled: stream/external_semaphore.c.
 */
#include "memory.h"

#include "../../../protocol/generated/vgp_entry.h"

static CUresult current_device(CUdevice *device)
{
    struct vcu_context_facts c;
    CUresult r = vcu_context_facts(NULL, &c);

    if (r == CUDA_SUCCESS)
        *device = c.device;
    return r;
}

const struct cua_memory_ops vcu_memory_ops = {
    .import = vcu_cuMemImportFromShareableHandle,
    .release = vcu_cuMemRelease,
    .properties = vcu_cuMemGetAllocationPropertiesFromHandle,
    .granularity = vcu_cuMemGetAllocationGranularity,
    .current_device = current_device,
    .reserve = vcu_cuMemAddressReserve,
    .map = vcu_cuMemMap,
    .set_access = vcu_cuMemSetAccess,
    .unmap = vcu_cuMemUnmap,
    .unreserve = vcu_cuMemAddressFree,
};

bool vcu_external_free(CUdeviceptr ptr, CUresult *r)
{
    return cua_external_memory_free(&vcu_memory_ops, ptr, r);
}
