/* SPDX-License-Identifier: MIT */
/*
 * Driver API: external memory. Memory that was exported as a file descriptor
 * (cuMemExportToShareableHandle) can be imported; each mapped buffer is a mapping of it. There is
 * no other API on this device whose memory could be reached. Semaphores: sg_drv_extsem.c.
 */
#include <stdlib.h>
#include <unistd.h>

#include "sg_int.h"

static CUresult no(const char *call, const char *why)
{
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "%s: %s", call, why);
}

struct CUextMemory_st {
    struct CUextMemory_st *next;
    CUmemGenericAllocationHandle memory;
    unsigned long long size; /* as the importer said */
};

/* A mapped buffer, which cuMemFree ends. */
struct buffer {
    struct buffer *next;
    CUdeviceptr ptr, base;
    size_t size; /* of the mapping that begins at base */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both lists */
static struct CUextMemory_st *imported;
static struct buffer *buffers;

CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *extMem_out,
                                        const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    struct CUextMemory_st *m;
    CUresult r = CUDA_SUCCESS;

    SG_CTX(ctx);
    (void)ctx;
    if (!extMem_out || !memHandleDesc || memHandleDesc->size == 0 ||
        (memHandleDesc->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED) ||
        memHandleDesc->type < CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
        memHandleDesc->type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD)
        return CUDA_ERROR_INVALID_VALUE;
    if (memHandleDesc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return no("cuImportExternalMemory", "only memory that CUDA exported as a file descriptor");
    m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->size = memHandleDesc->size;
    r = cuMemImportFromShareableHandle(&m->memory, (void *)(intptr_t)memHandleDesc->handle.fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (r != CUDA_SUCCESS) {
        free(m);
        return r;
    }
    close(memHandleDesc->handle.fd); /* documented: it is ours now */
    pthread_mutex_lock(&lock);
    m->next = imported;
    imported = m;
    pthread_mutex_unlock(&lock);
    *extMem_out = m;
    return CUDA_SUCCESS;
}

/* The place in the list that points to it, or to NULL. */
static struct CUextMemory_st **find(CUexternalMemory m)
{
    struct CUextMemory_st **p = &imported;

    while (*p && *p != m)
        p = &(*p)->next;
    return p;
}

/* Buffers that are mapped keep the memory. */
CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory extMem)
{
    struct CUextMemory_st **p, *m;
    CUresult r = CUDA_SUCCESS;

    SG_CTX(ctx);
    (void)ctx;
    pthread_mutex_lock(&lock);
    p = find(extMem);
    m = *p;
    if (m)
        *p = m->next;
    pthread_mutex_unlock(&lock);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    r = cuMemRelease(m->memory);
    free(m);
    return r;
}

/* Maps the memory up to offset + size for the current device: from its beginning, which is all that
   cuMemMap offers, and in whole granules. */
static CUresult map(CUmemGenericAllocationHandle memory, uint64_t offset, uint64_t size,
                    struct buffer *b)
{
    CUmemAllocationProp prop;
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t g = 0;
    CUresult r = cuMemGetAllocationPropertiesFromHandle(&prop, memory);

    if (r == CUDA_SUCCESS)
        r = cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (r == CUDA_SUCCESS)
        r = cuCtxGetDevice(&access.location.id);
    if (r != CUDA_SUCCESS)
        return r;
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    b->size = (offset + size + g - 1) / g * g;
    r = cuMemAddressReserve(&b->base, b->size, 0, 0, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = cuMemMap(b->base, b->size, 0, memory, 0);
    if (r == CUDA_SUCCESS) {
        r = cuMemSetAccess(b->base, b->size, &access, 1);
        if (r != CUDA_SUCCESS)
            cuMemUnmap(b->base, b->size);
    }
    if (r != CUDA_SUCCESS)
        cuMemAddressFree(b->base, b->size);
    b->ptr = b->base + offset;
    return r;
}

CUresult CUDAAPI cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    struct CUextMemory_st m = {0};
    struct buffer *b;
    bool known;
    CUresult r = CUDA_SUCCESS;

    SG_CTX(ctx);
    (void)ctx;
    if (!devPtr || !bufferDesc || bufferDesc->size == 0 || bufferDesc->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    known = *find(extMem) != NULL;
    if (known)
        m = *extMem;
    pthread_mutex_unlock(&lock);
    if (!known)
        return CUDA_ERROR_INVALID_HANDLE;
    if (bufferDesc->offset > m.size || bufferDesc->size > m.size - bufferDesc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    b = calloc(1, sizeof(*b));
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = map(m.memory, bufferDesc->offset, bufferDesc->size, b);
    if (r != CUDA_SUCCESS) {
        free(b);
        return r;
    }
    *devPtr = b->ptr;
    pthread_mutex_lock(&lock);
    b->next = buffers;
    buffers = b;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

bool sg_external_free(CUdeviceptr ptr, CUresult *r)
{
    struct buffer **p, *b;

    pthread_mutex_lock(&lock);
    for (p = &buffers; *p && (*p)->ptr != ptr;)
        p = &(*p)->next;
    b = *p;
    if (b)
        *p = b->next;
    pthread_mutex_unlock(&lock);
    if (!b)
        return false;
    *r = cuMemUnmap(b->base, b->size);
    if (*r == CUDA_SUCCESS)
        *r = cuMemAddressFree(b->base, b->size);
    free(b);
    return true;
}

CUresult CUDAAPI cuExternalMemoryGetMappedMipmappedArray(
    CUmipmappedArray *mipmap, CUexternalMemory extMem,
    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
    bool known;
    CUresult r = CUDA_SUCCESS;

    SG_CTX(ctx);
    (void)ctx;
    if (!mipmap || !mipmapDesc || mipmapDesc->numLevels == 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    known = *find(extMem) != NULL;
    pthread_mutex_unlock(&lock);
    if (!known)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r != CUDA_SUCCESS)
        return r;
    return no("cuExternalMemoryGetMappedMipmappedArray", "arrays have memory of their own");
}
