/* SPDX-License-Identifier: MIT */
/*
 * External memory. Memory that a CUDA context exported as a file descriptor can be imported: it is
 * physical memory (lib/cudaapi/external_memory.h). What
 * other APIs of the guest export is memory of its own drivers, which the GPU on the host cannot
 * reach. Their semaphores can be waited for and signalled: stream/external_semaphore.c.
 */
#include "memory.h"

#include "../../../protocol/generated/vgp_entry.h"

static const struct cua_memory_ops ops = {
    .import = vcu_cuMemImportFromShareableHandle,
    .release = vcu_cuMemRelease,
    .properties = vcu_cuMemGetAllocationPropertiesFromHandle,
    .granularity = vcu_cuMemGetAllocationGranularity,
    .current_device = vcu_cuCtxGetDevice,
    .reserve = vcu_cuMemAddressReserve,
    .map = vcu_cuMemMap,
    .set_access = vcu_cuMemSetAccess,
    .unmap = vcu_cuMemUnmap,
    .unreserve = vcu_cuMemAddressFree,
};

/* why: for the trace, where the result is a refusal; or NULL. */
static CUresult told(const char *call, CUresult r, const char *why)
{
    return r == CUDA_ERROR_NOT_SUPPORTED && why != NULL ? VCU_REFUSE(r, call, "%s", why) : r;
}

CUresult vcu_cuImportExternalMemory(CUexternalMemory *extMem_out,
                                    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    const char *why = NULL;
    CUresult r = vcu_check_context();

    if (r == CUDA_SUCCESS)
        r = cua_external_memory_import(&ops, extMem_out, memHandleDesc, &why);
    return told("cuImportExternalMemory", r, why);
}

CUresult vcu_cuDestroyExternalMemory(CUexternalMemory extMem)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? cua_external_memory_destroy(&ops, extMem) : r;
}

CUresult vcu_cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                             const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? cua_external_memory_buffer(&ops, devPtr, extMem, bufferDesc) : r;
}

bool vcu_external_free(CUdeviceptr ptr, CUresult *r)
{
    return cua_external_memory_free(&ops, ptr, r);
}

CUresult vcu_cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray *mipmap, CUexternalMemory extMem,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
    const char *why = NULL;
    CUresult r = vcu_check_context();

    if (r == CUDA_SUCCESS)
        r = cua_external_memory_array(mipmap, extMem, mipmapDesc, &why);
    return told("cuExternalMemoryGetMappedMipmappedArray", r, why);
}
