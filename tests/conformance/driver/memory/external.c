// SPDX-License-Identifier: MIT
/*
 * External memory: descriptors of cuMemExportToShareableHandle, mapped as buffers freed by
 * cuMemFree; and the errors for other memory, which cannot be imported here.
 */
#include "conform.h"

#include <fcntl.h>
#include <unistd.h>

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

CASE(external_memory, CF_CTX | CF_UB)
{
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .requestedHandleTypes = FD,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = {0};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a = {.numLevels = 1};
    CUmemGenericAllocationHandle h = 0;
    CUexternalMemory m = NULL;
    CUmipmappedArray mip = NULL;
    CUdeviceptr whole = 0, part = 0;
    size_t g = 0, size;
    int yes = 0, fd = -1;

    NEED(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    if (!yes)
        cf_skip("the device exports no memory by descriptor");
    NEED(cuMemGetAllocationGranularity(&g, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size = 2 * g;
    NEED(cuMemCreate(&h, size, &p, 0));
    NEED(cuMemExportToShareableHandle(&fd, h, FD, 0));
    d.handle.fd = fd;
    RC("size", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.size = size;
    RC("null", cuImportExternalMemory(NULL, &d), CUDA_ERROR_INVALID_VALUE);
    RC("desc_null", cuImportExternalMemory(&m, NULL), CUDA_ERROR_INVALID_VALUE);
    d.flags = 0x80;
    RC("flags", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.flags = 0;
    OK("import", cuImportExternalMemory(&m, &d));
    cf_true("descriptor_taken", fcntl(fd, F_GETFD) < 0);
    b.size = size;
    OK("whole", cuExternalMemoryGetMappedBuffer(&whole, m, &b));
    b.offset = g + 256;
    b.size = 4096;
    OK("part", cuExternalMemoryGetMappedBuffer(&part, m, &b));
    NEED(cf_fill(whole + g + 256, 1024, 77, NULL));
    NEED(cuCtxSynchronize());
    cf_true("same_memory", cf_filled(part, 1024, 77));
    b.size = size;
    RC("past", cuExternalMemoryGetMappedBuffer(&part, m, &b), CUDA_ERROR_INVALID_VALUE);
    b.size = 0;
    RC("nothing", cuExternalMemoryGetMappedBuffer(&part, m, &b), CUDA_ERROR_INVALID_VALUE);
    b.size = 16;
    RC("buffer_null", cuExternalMemoryGetMappedBuffer(NULL, m, &b), CUDA_ERROR_INVALID_VALUE);
    RC("buffer_memory", cuExternalMemoryGetMappedBuffer(&whole, (CUexternalMemory)&b, &b),
       CUDA_ERROR_INVALID_HANDLE);
    RC("array", cuExternalMemoryGetMappedMipmappedArray(&mip, m, &a), CUDA_ERROR_NOT_SUPPORTED);
    OK("destroy", cuDestroyExternalMemory(m));
    RC("destroy_again", cuDestroyExternalMemory(m), CUDA_ERROR_INVALID_HANDLE);
    OK("release", cuMemRelease(h));
    cf_true("still_there", cf_filled(part, 1024, 77)); /* held by the buffers */
    OK("free_part", cuMemFree(part));
    RC("free_part_again", cuMemFree(part), CUDA_ERROR_INVALID_VALUE);
    OK("free_whole", cuMemFree(whole));
}

CASE(external_refused, CF_CTX | CF_UB)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = -1, .size = 4096};
    CUexternalMemory m = NULL;
    CUresult r;
    int null = open("/dev/null", O_RDWR);

    RC("bad_descriptor", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.handle.fd = null;
    RC("no_memory", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    cf_true("descriptor_kept", fcntl(null, F_GETFD) >= 0);
    d.type = (CUexternalMemoryHandleType)0;
    RC("type_0", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.type = (CUexternalMemoryHandleType)99;
    RC("type", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32;
    RC("windows", cuImportExternalMemory(&m, &d), CUDA_ERROR_NOT_SUPPORTED);
    /*
     * Not a dma-buf: unsupported without a VM, and detected by the guest's driver. For valid
     * dma-bufs see programs/dmabuf.c.
     */
    d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD;
    r = cuImportExternalMemory(&m, &d);
    cf_true("dmabuf", r == CUDA_ERROR_NOT_SUPPORTED || r == CUDA_ERROR_INVALID_VALUE);
    d.flags = CUDA_EXTERNAL_MEMORY_DEDICATED;
    RC("dmabuf_flags", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    d.flags = 0;
    d.type = (CUexternalMemoryHandleType)(CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD + 1);
    RC("type_past", cuImportExternalMemory(&m, &d), CUDA_ERROR_INVALID_VALUE);
    RC("destroy", cuDestroyExternalMemory(NULL), CUDA_ERROR_INVALID_HANDLE);
    close(null);
}
