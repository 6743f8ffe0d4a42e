/* SPDX-License-Identifier: MIT */
/*
 * External memory: memory that CUDA exported as a file descriptor can be imported; each mapped buffer is
 * a mapping of it. A dma-buf is shared with the device once, and its buffers are parts of that. The calls on
 * memory are the user's.
 */
#ifndef CUA_EXTERNAL_MEMORY_H
#define CUA_EXTERNAL_MEMORY_H

#include <cuda.h>
#include <stdbool.h>

/* The user's forms of the driver API's calls; each has that call's parameters. */
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
    /* A dma-buf: shares `size` bytes with the current device, at *ptr; the descriptor stays the caller's. It says
       itself why it refuses. NULL: not offered. */
    CUresult (*dmabuf_import)(void **object, CUdeviceptr *ptr, int fd, size_t size);
    CUresult (*dmabuf_release)(void *object);
};

/* The bodies of cuImportExternalMemory and so on, after the check of the context. NOT_SUPPORTED: *why
   is a constant that says what is not offered. */
CUresult cua_external_memory_import(const struct cua_memory_ops *ops, CUexternalMemory *out,
                                    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc, const char **why);
CUresult cua_external_memory_destroy(const struct cua_memory_ops *ops, CUexternalMemory memory);
CUresult cua_external_memory_buffer(const struct cua_memory_ops *ops, CUdeviceptr *ptr,
                                    CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc);
CUresult cua_external_memory_array(CUmipmappedArray *mipmap, CUexternalMemory memory,
                                   const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc, const char **why);
/* cuMemFree of a mapped buffer; false: there is none at ptr. */
bool cua_external_memory_free(const struct cua_memory_ops *ops, CUdeviceptr ptr, CUresult *r);

#endif
