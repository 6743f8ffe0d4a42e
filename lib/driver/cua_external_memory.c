/* SPDX-License-Identifier: MIT */
/* External memory, by the user's calls on physical memory. */
#include "external_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* A dma-buf that is shared with a device. */
struct dmabuf {
    void *object;
    CUdeviceptr ptr;
    unsigned users; /* the import and its buffers; under the lock */
};

struct CUextMemory_st {
    struct CUextMemory_st *next;
    CUmemGenericAllocationHandle memory;
    struct dmabuf *dmabuf;   /* or NULL */
    unsigned long long size; /* size given by the importer */
};

/* A mapped buffer, which cuMemFree ends. */
struct buffer {
    struct buffer *next;
    CUdeviceptr ptr, base;
    size_t size;           /* size of the mapping that begins at base */
    struct dmabuf *dmabuf; /* dma-buf that contains it, or NULL */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both lists */
static struct CUextMemory_st *imported;
static struct buffer *buffers;

/* The place in the list that points to it, or to NULL. */
static struct CUextMemory_st **find_memory(CUexternalMemory m)
{
    struct CUextMemory_st **p = &imported;

    while (*p && *p != m)
        p = &(*p)->next;
    return p;
}

/* Returns a copy of it and adds a user to its dma-buf, so that another thread's destroy does not
   end the dma-buf. */
static bool hold_memory(CUexternalMemory m, struct CUextMemory_st *copy)
{
    bool found;

    pthread_mutex_lock(&lock);
    found = *find_memory(m) != NULL;
    if (found && copy != NULL) {
        *copy = *m;
        if (m->dmabuf)
            m->dmabuf->users++;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static CUresult dmabuf_leave(const struct cua_memory_ops *ops, struct dmabuf *d)
{
    CUresult r;
    bool last;

    pthread_mutex_lock(&lock);
    last = --d->users == 0;
    pthread_mutex_unlock(&lock);
    if (!last)
        return CUDA_SUCCESS;
    r = ops->dmabuf_release(d->object);
    free(d);
    return r;
}

static void list_memory(CUexternalMemory *out, struct CUextMemory_st *m)
{
    pthread_mutex_lock(&lock);
    m->next = imported;
    imported = m;
    pthread_mutex_unlock(&lock);
    *out = m;
}

static CUresult import_dmabuf(const struct cua_memory_ops *ops, CUexternalMemory *out,
                              const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    struct CUextMemory_st *m = calloc(1, sizeof(*m));
    struct dmabuf *d = calloc(1, sizeof(*d));
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    if (m && d)
        r = ops->dmabuf_import(&d->object, &d->ptr, desc->handle.fd, desc->size);
    if (r != CUDA_SUCCESS) {
        free(m);
        free(d);
        return r;
    }
    d->users = 1;
    m->dmabuf = d;
    m->size = desc->size;
    list_memory(out, m);
    return CUDA_SUCCESS;
}

CUresult cua_external_memory_import(const struct cua_memory_ops *ops, CUexternalMemory *out,
                                    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, const char **why)
{
    struct CUextMemory_st *m;
    CUresult r;

    if (!out || !desc || desc->size == 0 || (desc->flags & ~(unsigned)CUDA_EXTERNAL_MEMORY_DEDICATED) ||
        desc->type < CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
        desc->type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD) {
        *why = "dma-bufs are imported in a VM only";
        if (desc->flags != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (!ops->dmabuf_import)
            return CUDA_ERROR_NOT_SUPPORTED;
        *why = NULL;
        return import_dmabuf(ops, out, desc);
    }
    *why = "only dma-bufs, and memory that CUDA exported as a file descriptor";
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->size = desc->size;
    *why = NULL; /* the user's import reports this itself */
    r = ops->import(&m->memory, (void *)(intptr_t)desc->handle.fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (r != CUDA_SUCCESS) {
        free(m);
        return r;
    }
    close(desc->handle.fd); /* documented: the library owns the descriptor from now on */
    list_memory(out, m);
    return CUDA_SUCCESS;
}

/* Buffers that are mapped keep the memory. */
CUresult cua_external_memory_destroy(const struct cua_memory_ops *ops, CUexternalMemory memory)
{
    struct CUextMemory_st **p, *m;
    CUresult r;

    pthread_mutex_lock(&lock);
    p = find_memory(memory);
    m = *p;
    if (m)
        *p = m->next;
    pthread_mutex_unlock(&lock);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    r = m->dmabuf ? dmabuf_leave(ops, m->dmabuf) : ops->release(m->memory);
    free(m);
    return r;
}

/* Maps the memory up to offset + size for the current device: from its beginning, which is all that
   cuMemMap offers, and in whole granules. */
static CUresult map_buffer(const struct cua_memory_ops *ops, CUmemGenericAllocationHandle memory,
                           uint64_t offset, uint64_t size, struct buffer *b)
{
    CUmemAllocationProp prop;
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t end;
    size_t g = 0;
    CUresult r = ops->properties(&prop, memory);

    if (r == CUDA_SUCCESS)
        r = ops->granularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (r == CUDA_SUCCESS)
        r = ops->current_device(&access.location.id);
    if (r != CUDA_SUCCESS)
        return r;
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    /* The importer says how large the memory is, up to 2^64 - 1 bytes. */
    if (__builtin_add_overflow(offset, size, &end) || __builtin_add_overflow(end, g - 1, &end))
        return CUDA_ERROR_INVALID_VALUE;
    b->size = end / g * g;
    r = ops->reserve(&b->base, b->size, 0, 0, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = ops->map(b->base, b->size, 0, memory, 0);
    if (r == CUDA_SUCCESS) {
        r = ops->set_access(b->base, b->size, &access, 1);
        if (r != CUDA_SUCCESS)
            ops->unmap(b->base, b->size);
    }
    if (r != CUDA_SUCCESS)
        ops->unreserve(b->base, b->size);
    b->ptr = b->base + offset;
    return r;
}

CUresult cua_external_memory_buffer(const struct cua_memory_ops *ops, CUdeviceptr *ptr,
                                    CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    struct CUextMemory_st m = {0};
    struct buffer *b;
    CUresult r;

    if (!ptr || !desc || desc->size == 0 || desc->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!hold_memory(memory, &m))
        return CUDA_ERROR_INVALID_HANDLE;
    b = calloc(1, sizeof(*b));
    if (!b)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else if (desc->offset > m.size || desc->size > m.size - desc->offset)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (m.dmabuf)
        r = CUDA_SUCCESS;
    else
        r = map_buffer(ops, m.memory, desc->offset, desc->size, b);
    if (r != CUDA_SUCCESS) {
        free(b);
        if (m.dmabuf)
            dmabuf_leave(ops, m.dmabuf);
        return r;
    }
    if (m.dmabuf) {
        b->dmabuf = m.dmabuf; /* with the use that hold_memory() has counted */
        b->ptr = m.dmabuf->ptr + desc->offset;
    }
    *ptr = b->ptr;
    pthread_mutex_lock(&lock);
    b->next = buffers;
    buffers = b;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

bool cua_external_memory_free(const struct cua_memory_ops *ops, CUdeviceptr ptr, CUresult *r)
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
    if (b->dmabuf) {
        *r = dmabuf_leave(ops, b->dmabuf);
    } else {
        *r = ops->unmap(b->base, b->size);
        if (*r == CUDA_SUCCESS)
            *r = ops->unreserve(b->base, b->size);
    }
    free(b);
    return true;
}

CUresult cua_external_memory_array(CUmipmappedArray *mipmap, CUexternalMemory memory,
                                   const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc, const char **why)
{
    if (!mipmap || !desc || desc->numLevels == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!hold_memory(memory, NULL))
        return CUDA_ERROR_INVALID_HANDLE;
    *why = "arrays have memory of their own";
    return CUDA_ERROR_NOT_SUPPORTED;
}
