/* SPDX-License-Identifier: MIT */
/*
 * Driver API: external memory. Memory exported as a file descriptor (cuMemExportToShareableHandle)
 * can be imported; each mapped buffer is a mapping of it. No other API on this device has memory
 * that could be imported. Semaphores: api/stream/sgd_external_semaphore.c.
 */
#include "api/api.h"

#include "lib/driver/driver.h"

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

/* why: name of the missing feature, or NULL. */
static CUresult refuse_import(const char *call, CUresult r, const char *why)
{
    return r == CUDA_ERROR_NOT_SUPPORTED && why ? sg_fail(r, "%s: %s", call, why) : r;
}

CUresult sgd_cuImportExternalMemory(CUexternalMemory *extMem_out,
                                    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    const char *why = NULL;
    CUresult r = cua_external_memory_import(&ops, extMem_out, memHandleDesc, &why);

    return refuse_import("cuImportExternalMemory", r, why);
}

CUresult sgd_cuDestroyExternalMemory(CUexternalMemory extMem)
{
    return cua_external_memory_destroy(&ops, extMem);
}

CUresult sgd_cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                             const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
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
    return refuse_import("cuExternalMemoryGetMappedMipmappedArray", r, why);
}

/* No memory of this device has a dma-buf; invalid arguments are distinguished as by the guest's
   libcuda. */
CUresult sgd_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
                                           CUmemRangeHandleType handleType, unsigned long long flags)
{
    const size_t page = 4096;
    CUdeviceptr start = 0;
    size_t length = 0;

    if (!handle || size == 0 || (dptr | size) % page != 0 ||
        handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        (flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, dptr) != CUDA_SUCCESS ||
        cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_RANGE_SIZE, dptr) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    length = (length + page - 1) / page * page;
    if (dptr - start > length || size > length - (dptr - start))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_fail(
        CUDA_ERROR_NOT_SUPPORTED,
        "cuMemGetHandleForAddressRange: no memory has a dma-buf (device attributes 124 and 146 are 0)");
}
