/* SPDX-License-Identifier: MIT */
/* Driver API: what is known about a pointer, and hints about managed memory. */
#include <string.h>

#include "sg_int.h"

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
        memcpy(data, &v->map_base, sizeof(v->map_base));
        return v->map_size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        memcpy(data, &v->map_size, sizeof(v->map_size));
        return v->map_size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* One attribute of an address; info NULL: an address that is not ours. */
static CUresult get(void *data, CUpointer_attribute a, uint64_t addr,
                    const struct sg_mem_info *info)
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
        v.u64 = info && info->kind != SG_MEM_MAPPED ? info->ctx->obj.handle : 0;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        v.u32 = !info ? 0 : host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        n = sizeof(v.u32);
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        v.u64 = info ? addr : 0;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        v.u64 = host || managed ? addr : 0;
        memcpy(data, &v, n);
        return host || managed || !info ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
        v.b = info && info->kind == SG_MEM_DEVICE && !info->internal && !info->async &&
              !info->imported;
        n = sizeof(v.b);
        break;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        n = sizeof(v.b);
        break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        v.u32 = !info ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE
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

CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct sg_mem_info info;
    struct sg_vmm_info v;

    SG_CTX(ctx);
    (void)ctx;
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_vmm_find(ptr, &v) && get_reserved(data, attribute, &v) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    if (!sg_mem_find(ptr, &info))
        return CUDA_ERROR_INVALID_VALUE;
    return get(data, attribute, ptr, &info);
}

/* Unknown pointers are no error here: the attributes come back as zero (documented). */
CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes,
                                        CUpointer_attribute *attributes, void **data,
                                        CUdeviceptr ptr)
{
    struct sg_mem_info info;
    struct sg_vmm_info v;
    bool known, reserved;

    SG_CTX(ctx);
    (void)ctx;
    if (!numAttributes || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    known = sg_mem_find(ptr, &info);
    reserved = sg_vmm_find(ptr, &v);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (!data[i])
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = get(data[i], attributes[i], ptr, known ? &info : NULL);

        if (r != CUDA_SUCCESS && attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER)
            return r;
        if (reserved)
            get_reserved(data[i], attributes[i], &v);
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                       CUdeviceptr ptr)
{
    struct sg_mem_info info;
    unsigned v;

    SG_CTX(ctx);
    (void)ctx;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sg_mem_find(ptr, &info))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&v, value, sizeof(v));
    sg_mem_set_sync(ptr, v != 0);
    return CUDA_SUCCESS;
}

/* ---- hints: managed memory is where both sides reach it, so there is nothing to move ---- */

static CUresult check_managed(CUdeviceptr ptr, size_t count)
{
    struct sg_mem_info info;

    return count && sg_mem_covers(ptr, count, &info) && info.kind == SG_MEM_MANAGED
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_location(const CUmemLocation *loc)
{
    switch (loc->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return (unsigned)loc->id < sg_config.ndevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                                CUmemLocation location)
{
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_managed(devPtr, count);
    if (r != CUDA_SUCCESS || advice == CU_MEM_ADVISE_SET_READ_MOSTLY ||
        advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY ||
        advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
        return r;
    return check_location(&location);
}

CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                             CUdevice device)
{
    CUmemLocation loc = {.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                                         : CU_MEM_LOCATION_TYPE_DEVICE,
                         .id = device == CU_DEVICE_CPU ? 0 : device};

    return cuMemAdvise_v2(devPtr, count, advice, loc);
}

CUresult CUDAAPI cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                       unsigned int flags, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r;

    SG_CTX(ctx);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_managed(devPtr, count);
    if (r == CUDA_SUCCESS)
        r = check_location(&location);
    if (r == CUDA_SUCCESS)
        r = sg_stream_get(ctx, hStream, &s);
    return r;
}

CUresult CUDAAPI cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count,
                                            CUmemLocation location, unsigned int flags,
                                            CUstream hStream)
{
    return cuMemPrefetchAsync_v2(devPtr, count, location, flags, SG_PTSZ(hStream));
}

CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                    CUstream hStream)
{
    CUmemLocation loc = {.type = dstDevice == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                                            : CU_MEM_LOCATION_TYPE_DEVICE,
                         .id = dstDevice == CU_DEVICE_CPU ? 0 : dstDevice};

    return cuMemPrefetchAsync_v2(devPtr, count, loc, 0, hStream);
}

CUresult CUDAAPI cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                         CUstream hStream)
{
    return cuMemPrefetchAsync(devPtr, count, dstDevice, SG_PTSZ(hStream));
}

CUresult CUDAAPI cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                         CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                         size_t numPrefetchLocs, unsigned long long flags,
                                         CUstream hStream)
{
    CUresult r = CUDA_SUCCESS;
    size_t k = 0;

    SG_CTX(ctx);
    (void)ctx;
    if (!count || !dptrs || !sizes || !prefetchLocs || !prefetchLocIdxs || !numPrefetchLocs ||
        numPrefetchLocs > count || flags || prefetchLocIdxs[0])
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (k + 1 < numPrefetchLocs && prefetchLocIdxs[k + 1] == i)
            k++;
        r = cuMemPrefetchAsync_v2(dptrs[i], sizes[i], prefetchLocs[k], 0, hStream);
    }
    return r;
}

CUresult CUDAAPI cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                              CUmemLocation *prefetchLocs,
                                              size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                              unsigned long long flags, CUstream hStream)
{
    return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                   numPrefetchLocs, flags, SG_PTSZ(hStream));
}
