/* SPDX-License-Identifier: MIT */
/*
 * External memory: file descriptors exported by CUDA can be imported; each mapped buffer is a
 * mapping of the memory. A dma-buf is shared with the device once, and its buffers are parts of it.
 * The user provides the memory calls.
 */
#ifndef CUA_EXTERNAL_MEMORY_H
#define CUA_EXTERNAL_MEMORY_H

#include <cuda.h>
#include <stdbool.h>

/* The user's versions of the driver API calls; parameters as for those calls. */
struct cua_memory_ops {
    CUresult (*import)(CUmemGenericAllocationHandle *handle, void *os_handle, CUmemAllocationHandleType type);
    CUresult (*release)(CUmemGenericAllocationHandle handle);
    CUresult (*properties)(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle);
    CUresult (*granularity)(size_t *granularity, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags option);
    CUresult (*current_device)(CUdevice *device);
    CUresult (*reserve)(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                        unsigned long long flags);
    CUresult (*map)(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags);
    CUresult (*set_access)(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count);
    CUresult (*unmap)(CUdeviceptr ptr, size_t size);
    CUresult (*unreserve)(CUdeviceptr ptr, size_t size);
    /* Shares `size` bytes of a dma-buf with the current device, at *ptr; the caller keeps the
       descriptor. Reports refusals itself. NULL: not supported. */
    CUresult (*dmabuf_import)(void **object, CUdeviceptr *ptr, int fd, size_t size);
    CUresult (*dmabuf_release)(void *object);
};

/* Implementations of cuImportExternalMemory and related calls, after the context check.
   NOT_SUPPORTED: *why is a constant that names the missing feature. */
CUresult cua_external_memory_import(const struct cua_memory_ops *ops, CUexternalMemory *out,
                                    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, const char **why);
CUresult cua_external_memory_destroy(const struct cua_memory_ops *ops, CUexternalMemory memory);
CUresult cua_external_memory_buffer(const struct cua_memory_ops *ops, CUdeviceptr *ptr,
                                    CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc);
CUresult cua_external_memory_array(CUmipmappedArray *mipmap, CUexternalMemory memory,
                                   const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc, const char **why);
/* cuMemFree of a mapped buffer. Returns false if there is none at ptr. */
bool cua_external_memory_free(const struct cua_memory_ops *ops, CUdeviceptr ptr, CUresult *r);

#endif
