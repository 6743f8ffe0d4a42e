/* SPDX-License-Identifier: MIT */
/* Driver API: pointer attributes, and hints about managed memory. */
#include <string.h>

#include "api/api.h"

/*
 * What is asked about a reserved address itself; INVALID_VALUE: something else is asked. RANGE is
 * the reservation and MAPPING the mapping in it, as cuda.h says.
 */
static CUresult get_reserved(void *data, CUpointer_attribute a, const struct sg_vmm_info *v)
{
    switch (a) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        memcpy(data, &v->base, sizeof(v->base));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        memcpy(data, &v->size, sizeof(v->size));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)data = v->map_size != 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        if (!v->map_size)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(data, &v->map_base, sizeof(v->map_base));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        if (!v->map_size)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(data, &v->map_size, sizeof(v->map_size));
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* One attribute of an address; info NULL: an address that is not ours. */
static CUresult get(void *data, CUpointer_attribute a, uint64_t addr, const struct sg_mem_info *info)
{
    bool host = info && (info->kind == SG_MEM_HOST || info->kind == SG_MEM_REGISTERED);
    bool managed = info && info->kind == SG_MEM_MANAGED;
    union {
        uint64_t u64;
        uint32_t u32;
        int i32;
        bool b;
        unsigned char c;
    } v = {0};
    size_t n = sizeof(v.u64);

    switch (a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        /* What cuMemMap maps belongs to the device, not to a context. */
        v.u64 = info && info->kind != SG_MEM_MAPPED ? info->context : 0;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        v.u32 = !info ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        n = sizeof(v.u32);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        v.u64 = info ? addr : 0;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (info && !host && !managed)
            return CUDA_ERROR_INVALID_VALUE;
        v.u64 = info ? addr : 0;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        v.u32 = info && info->sync_memops;
        n = sizeof(v.u32);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        v.u64 = info ? info->id : 0;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        v.u32 = managed;
        n = sizeof(v.u32);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        v.i32 = info ? info->device : -2; /* -2: documented for memory not known to CUDA */
        n = sizeof(v.i32);
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        v.u64 = info ? info->base : 0;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        v.u64 = info ? info->size : 0;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        v.b = info != NULL;
        n = sizeof(v.b);
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        v.b = info && info->kind == SG_MEM_DEVICE && !info->internal && !info->async && !info->imported;
        n = sizeof(v.b);
        break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        n = sizeof(v.b);
        break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        v.u32 = !info            ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
                : info->writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                 : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ;
        n = sizeof(v.u32);
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        v.u64 = info && info->async ? info->pool : 0;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(data, &v, n);
    return CUDA_SUCCESS;
}

CUresult sgd_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct sg_mem_info info;
    struct sg_vmm_info v;

    if (sg_vmm_find(ptr, &v) && get_reserved(data, attribute, &v) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    if (!sg_mem_find(ptr, &info))
        return CUDA_ERROR_INVALID_VALUE;
    return get(data, attribute, ptr, &info);
}

/* Unknown pointers are no error here: the attributes come back as zero (documented). */
CUresult sgd_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr ptr)
{
    struct sg_mem_info info;
    struct sg_vmm_info v;
    bool known, reserved;

    known = sg_mem_find(ptr, &info);
    reserved = sg_vmm_find(ptr, &v);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (!data[i])
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = get(data[i], attributes[i], ptr, known ? &info : NULL);

        if (r != CUDA_SUCCESS && attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER)
            return r;
        if (r != CUDA_SUCCESS)
            memset(data[i], 0, sizeof(void *));
        if (reserved)
            get_reserved(data[i], attributes[i], &v);
    }
    return CUDA_SUCCESS;
}

CUresult sgd_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct sg_mem_info info;
    unsigned v;

    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sg_mem_find(ptr, &info))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&v, value, sizeof(v));
    sg_mem_set_sync(ptr, v != 0);
    return CUDA_SUCCESS;
}
