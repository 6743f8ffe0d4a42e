/* SPDX-License-Identifier: MIT */
/*
 * Driver API: advice about managed memory, prefetching and discarding. Managed memory never
 * migrates, so advice is stored per page and only read back by cuMemRangeGetAttribute.
 */
#include "api/api.h"

#include "lib/driver/driver.h"

static bool range_is_alive(uint64_t id, uint64_t start)
{
    struct sg_mem_info info;

    return sg_mem_find(start, &info) && info.id == id;
}

/* ---- entry points ---- */

static CUresult check_managed(CUdeviceptr ptr, size_t count, struct cua_range *g)
{
    struct sg_mem_info info;

    if (!count || !sg_mem_covers(ptr, count, &info) || info.kind != SG_MEM_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    *g = (struct cua_range){info.id, info.base, info.size};
    return CUDA_SUCCESS;
}

/* The host has a single node: no NUMA (CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID is -1). */
static CUresult check_location(const CUmemLocation *loc, CUresult no_device, struct cua_place *at)
{
    if (loc->type == CU_MEM_LOCATION_TYPE_DEVICE && (unsigned)loc->id >= sg_config.ndevices)
        return no_device;
    return cua_advice_place(loc, at);
}

CUresult sgd_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
    bool by = advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    struct cua_place at = {0, 0};
    struct cua_range g;
    CUresult r = check_managed(devPtr, count, &g);

    if (r == CUDA_SUCCESS)
        r = by || advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION
                ? check_location(&location, CUDA_ERROR_INVALID_VALUE, &at)
                : cua_advice_place(&location, &at); /* ignored, but one that exists (driver 580) */
    if (r == CUDA_SUCCESS && by && at.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? cua_advice_keep(&g, devPtr, count, (int)advice, at, range_is_alive) : r;
}

CUresult sgd_cuMemPrefetchAsync_v2(struct sg_ctx *ctx, CUdeviceptr devPtr, size_t count,
                                   CUmemLocation location, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct cua_place at;
    struct cua_range g;
    CUresult r = check_managed(devPtr, count, &g);

    if (r == CUDA_SUCCESS)
        r = check_location(&location, CUDA_ERROR_INVALID_DEVICE, &at);
    if (r == CUDA_SUCCESS)
        r = sg_stream_get(ctx, hStream, &s);
    return r == CUDA_SUCCESS ? cua_advice_keep(&g, devPtr, count, CUA_PREFETCHED, at, range_is_alive) : r;
}

/* Checks a batch of n ranges, with or without locations (nlocs 0). */
static CUresult check_batch(CUdeviceptr *dptrs, size_t *sizes, size_t n, size_t *idxs, size_t nlocs,
                            unsigned long long flags, CUstream stream)
{
    struct cua_range g;

    if (!n || !dptrs || !sizes || flags || stream == NULL || stream == SG_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < nlocs; i++) {
        if (i ? idxs[i] <= idxs[i - 1] || idxs[i] >= n : idxs[0] != 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < n; i++) {
        if (check_managed(dptrs[i], sizes[i], &g) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                     CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                     size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
    size_t k = 0;
    CUresult r = check_batch(dptrs, sizes, count, prefetchLocIdxs, numPrefetchLocs, flags, hStream);

    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (k + 1 < numPrefetchLocs && prefetchLocIdxs[k + 1] == i)
            k++;
        r = cuMemPrefetchAsync_v2(dptrs[i], sizes[i], prefetchLocs[k], 0, hStream);
    }
    return r;
}

/* Discarded memory has undefined contents: here it reads zero, in stream order. */
CUresult sgd_cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags,
                                    CUstream hStream)
{
    CUresult r = check_batch(dptrs, sizes, count, NULL, 0, flags, hStream);

    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        r = cuMemsetD8Async(dptrs[i], 0, sizes[i], hStream);
    return r;
}

CUresult CUDAAPI cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                                   CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                                   size_t numPrefetchLocs, unsigned long long flags,
                                                   CUstream hStream)
{
    CUresult r = cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs,
                                         flags, hStream);

    return r == CUDA_SUCCESS ? cuMemDiscardBatchAsync(dptrs, sizes, count, flags, hStream) : r;
}

CUresult sgd_cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                    CUdeviceptr devPtr, size_t count)
{
    struct cua_range g;
    CUresult r = check_managed(devPtr, count, &g);

    return r == CUDA_SUCCESS ? cua_advice_attribute(&g, devPtr, count, data, dataSize, attribute) : r;
}

CUresult sgd_cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                     size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    struct cua_range g;
    CUresult r = check_managed(devPtr, count, &g);

    return r == CUDA_SUCCESS
               ? cua_advice_attributes(&g, devPtr, count, data, dataSizes, attributes, numAttributes)
               : r;
}
