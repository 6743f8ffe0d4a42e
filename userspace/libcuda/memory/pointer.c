/* SPDX-License-Identifier: MIT */
/* Pointer queries, answered from the tables of memory.c. */
#include "memory.h"

#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct vcu_place p;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_memory_find(dptr, &p) ||
        (p.m.kind == VCU_MEM_MAPPED && p.m.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase != NULL)
        *pbase = p.start;
    if (psize != NULL)
        *psize = p.size;
    return CUDA_SUCCESS;
}

static CUdeviceptr device_pointer(const struct vcu_place *p, CUdeviceptr ptr)
{
    if (p->m.kind != VCU_MEM_HOST)
        return ptr;
    return p->m.device_ptr == 0 ? 0 : p->m.device_ptr + (ptr - p->start);
}

/* One attribute of a known pointer. INVALID_VALUE: the pointer has no such property. */
static CUresult answer(void *data, CUpointer_attribute attribute, CUdeviceptr ptr, const struct vcu_place *p)
{
    bool host = p->m.kind == VCU_MEM_HOST;
    bool managed = p->m.kind == VCU_MEM_MANAGED || p->m.kind == VCU_MEM_SHADOW;
    CUdeviceptr on_device = device_pointer(p, ptr);

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = (CUcontext)(uintptr_t)p->m.context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (on_device == 0)
            return CUDA_ERROR_INVALID_VALUE;
        *(CUdeviceptr *)data = on_device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && !managed)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned int *)data = p->m.sync_memops; /* as wide as cuPointerSetAttribute takes it */
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned char *)data =
            p->m.kind == VCU_MEM_DEVICE && p->m.pool == 0 && !p->m.opened && !p->m.imported;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned char *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = p->m.buffer_id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)data = managed;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = p->m.device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(void **)data = (void *)(uintptr_t)p->start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = p->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(void **)data = (void *)(uintptr_t)p->start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = on_device != 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned int *)data = p->m.kind == VCU_MEM_MAPPED && p->m.flags == CU_MEM_ACCESS_FLAGS_PROT_READ
                                    ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                    : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = (CUmemoryPool)(uintptr_t)p->m.pool;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = p->m.buffer_id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return vcu_decompress_capable(p->m.device, device_pointer(p, ptr), data);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The value that stands for "nothing known" (cuPointerGetAttributes' documentation). */
static CUresult clear(void *data, CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = -2;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(unsigned char *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        memset(data, 0, 8);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/*
 * What is asked about a reserved address itself; INVALID_VALUE: something else is asked. RANGE is
 * the reservation and MAPPING the mapping in it, as cuda.h says.
 */
static CUresult answer_reserved(void *data, CUpointer_attribute attribute, const struct vcu_reserved *v)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(uint64_t *)data = v->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(uint64_t *)data = v->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)data = v->map_size != 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        if (v->map_size == 0)
            return CUDA_ERROR_INVALID_VALUE;
        *(uint64_t *)data = v->map_base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        if (v->map_size == 0)
            return CUDA_ERROR_INVALID_VALUE;
        *(uint64_t *)data = v->map_size;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The range around a pointer, as far as the device may touch it. */
static bool known_range(CUdeviceptr ptr, struct vcu_place *p)
{
    return vcu_memory_find(ptr, p) &&
           (p->m.kind != VCU_MEM_MAPPED || p->m.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

/* Both need no current context: the runtime asks in threads that have none (PyTorch's thread that pins memory). */
CUresult vcu_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct vcu_reserved v;
    struct vcu_place p;
    CUresult res = vcu_check_usable();

    if (res != CUDA_SUCCESS)
        return res;
    if (data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (vcu_vmm_find(ptr, &v) && answer_reserved(data, attribute, &v) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    if (!known_range(ptr, &p))
        return CUDA_ERROR_INVALID_VALUE;
    return answer(data, attribute, ptr, &p);
}

/* Unlike the single form, an unknown pointer or an absent property is no error here. */
CUresult vcu_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr ptr)
{
    struct vcu_reserved v;
    struct vcu_place p;
    bool known, reserved;
    CUresult res = vcu_check_usable();

    if (res != CUDA_SUCCESS)
        return res;
    if (numAttributes == 0 || attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    known = known_range(ptr, &p);
    reserved = vcu_vmm_find(ptr, &v);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (data[i] == NULL)
            return CUDA_ERROR_INVALID_VALUE;
        res = clear(data[i], attributes[i]);
        if (res != CUDA_SUCCESS)
            return res;
        if (known)
            answer(data[i], attributes[i], ptr, &p);
        if (reserved)
            answer_reserved(data[i], attributes[i], &v);
    }
    return CUDA_SUCCESS;
}

CUresult vcu_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct vcu_place p;
    unsigned int on;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !known_range(ptr, &p))
        return CUDA_ERROR_INVALID_VALUE;
    on = *(const unsigned int *)value;
    res = vgp_call_vgpPointerSetSync(device_pointer(&p, ptr), on);
    if (res == CUDA_SUCCESS)
        vcu_memory_set_sync(ptr, on != 0);
    return res;
}
