/* SPDX-License-Identifier: MIT */
/*
 * External memory. Memory that a CUDA context exported as a file descriptor can be imported: it is
 * physical memory (lib/driver/external_memory.h). A dma-buf can be imported where its memory is the
 * VM's (vcu_dmabuf.c). The GPU on the host cannot reach memory on a device of the guest. Semaphores of
 * other APIs can be waited for and signalled: stream/vcu_external_semaphore.c.
 */
#include "memory.h"

#include "vgp_entry.h"

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
    .dmabuf_import = vcu_dmabuf_import,
    .dmabuf_release = vcu_dmabuf_release,
};

bool vcu_external_free(CUdeviceptr ptr, CUresult *r)
{
    return cua_external_memory_free(&vcu_memory_ops, ptr, r);
}
