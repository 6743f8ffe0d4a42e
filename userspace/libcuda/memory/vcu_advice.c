/* SPDX-License-Identifier: MIT */
/*
 * Advice about managed memory, prefetching and discarding. Managed memory does not migrate (device
 * attribute 89 is 0). Calls that concern a GPU are refused as cuda.h documents for such devices;
 * other advice is stored per page for cuMemRangeGetAttribute.
 */
#include "memory.h"

#include "vgp_entry.h"
#include "../../../protocol/vgp_guest_rt.h"

static bool range_is_alive(uint64_t id, uint64_t start)
{
    struct vcu_place p;

    return vcu_memory_find(start, &p) && p.m.buffer_id == id;
}

static CUresult check_managed(CUdeviceptr ptr, size_t count, struct cua_range *g)
{
    struct vcu_place p;

    if (count == 0 || !vcu_memory_find(ptr, &p) ||
        (p.m.kind != VCU_MEM_MANAGED && p.m.kind != VCU_MEM_SHADOW) ||
        !vgp_range_ok(ptr - p.start, count, p.size))
        return CUDA_ERROR_INVALID_VALUE;
    *g = (struct cua_range){p.m.buffer_id, p.start, p.size};
    return CUDA_SUCCESS;
}

static CUresult no_migration(const char *call)
{
    return VCU_REFUSE(CUDA_ERROR_INVALID_DEVICE, call,
                      "managed memory does not migrate (device attribute 89 is 0)");
}

static CUresult check_location(const char *call, const CUmemLocation *loc, struct cua_place *at)
{
    if (loc->type == CU_MEM_LOCATION_TYPE_DEVICE && (unsigned)loc->id >= (unsigned)vcu.device_count)
        return CUDA_ERROR_INVALID_VALUE;
    return loc->type == CU_MEM_LOCATION_TYPE_DEVICE ? no_migration(call) : cua_advice_place(loc, at);
}

CUresult vcu_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    bool by = advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    struct cua_place at = {0, 0};
    struct cua_range g;
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_managed(devPtr, count, &g);
    if (r == CUDA_SUCCESS)
        r = by || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION
                ? check_location("cuMemAdvise", &location, &at)
                : cua_advice_place(&location, &at); /* ignored, but one that exists (driver 580) */
    if (r == CUDA_SUCCESS && by && at.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? cua_advice_keep(&g, devPtr, count, (int)advice, at, range_is_alive) : r;
}

/* Documented: the stream's device must have attribute 89, wherever the memory is to go. */
CUresult vcu_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                   unsigned int flags, CUstream hStream)
{
    struct cua_range g;
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (!vcu_stream_ok(vcu_stream(hStream)))
        return vcu_stream_error(vcu_stream(hStream));
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    (void)location;
    r = check_managed(devPtr, count, &g);
    return r == CUDA_SUCCESS ? no_migration("cuMemPrefetchAsync") : r;
}

CUresult vcu_advice_batch(const char *call, CUdeviceptr *dptrs, size_t *sizes, size_t n, size_t *idxs,
                          size_t nlocs, unsigned long long flags, CUstream stream)
{
    struct cua_range g;

    if (n == 0 || dptrs == NULL || sizes == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    if (stream == NULL || stream == CU_STREAM_LEGACY)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "not on the legacy default stream");
    for (size_t i = 0; i < nlocs; i++) {
        if (i != 0 ? idxs[i] <= idxs[i - 1] || idxs[i] >= n : idxs[0] != 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < n; i++) {
        if (check_managed(dptrs[i], sizes[i], &g) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return no_migration(call);
}

CUresult vcu_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                    CUdeviceptr devPtr, size_t count)
{
    struct cua_range g;
    CUresult r;

    r = vcu_check_context();
    if (r != CUDA_SUCCESS)
        return r;
    r = check_managed(devPtr, count, &g);
    return r == CUDA_SUCCESS ? cua_advice_attribute(&g, devPtr, count, data, dataSize, attribute) : r;
}

CUresult vcu_cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                     size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    struct cua_range g;
    CUresult r;

    r = vcu_check_context();
    if (r != CUDA_SUCCESS)
        return r;
    if (!data || !dataSizes || !attributes || !numAttributes)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_managed(devPtr, count, &g);
    return r == CUDA_SUCCESS
               ? cua_advice_attributes(&g, devPtr, count, data, dataSizes, attributes, numAttributes)
               : r;
}
