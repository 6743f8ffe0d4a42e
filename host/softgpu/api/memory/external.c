/* SPDX-License-Identifier: MIT */
/*
 * Driver API: external memory. Memory that was exported as a file descriptor
 * (cuMemExportToShareableHandle) can be imported; each mapped buffer is a mapping of it. There is
 * no other API on this device whose memory could be reached. Semaphores: api/stream/external_semaphore.c.
 */
#include "api/api.h"

#include "lib/cudaapi/cudaapi.h"

static const struct cua_memory_ops ops = {
    .import = cuMemImportFromShareableHandle,
    .release = cuMemRelease,
    .properties = cuMemGetAllocationPropertiesFromHandle,
    .granularity = cuMemGetAllocationGranularity,
    .current_device = cuCtxGetDevice,
    .reserve = cuMemAddressReserve,
    .map = cuMemMap,
    .set_access = cuMemSetAccess,
    .unmap = cuMemUnmap,
    .unreserve = cuMemAddressFree,
};

/* why: what is not offered, or NULL. */
static CUresult told(const char *call, CUresult r, const char *why)
{
    return r == CUDA_ERROR_NOT_SUPPORTED && why ? sg_fail(r, "%s: %s", call, why) : r;
}

CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *extMem_out,
                                        const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    const char *why = NULL;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    r = cua_external_memory_import(&ops, extMem_out, memHandleDesc, &why);
    return told("cuImportExternalMemory", r, why);
}

CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory extMem)
{
    SG_CTX(ctx);
    (void)ctx;
    return cua_external_memory_destroy(&ops, extMem);
}

CUresult CUDAAPI cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    SG_CTX(ctx);
    (void)ctx;
    return cua_external_memory_buffer(&ops, devPtr, extMem, bufferDesc);
}

bool sg_external_free(CUdeviceptr ptr, CUresult *r)
{
    return cua_external_memory_free(&ops, ptr, r);
}

CUresult CUDAAPI
cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap, CUexternalMemory extMem,
                                        const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
    const char *why = NULL;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    r = cua_external_memory_array(mipmap, extMem, mipmapDesc, &why);
    return told("cuExternalMemoryGetMappedMipmappedArray", r, why);
}
