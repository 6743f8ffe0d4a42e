/* SPDX-License-Identifier: MIT */
/* Handlers of stream memory operations, and of two questions that take structures: clusters and
 * tensor maps. */
#include "../calls.h"

#include <string.h>


/*
 * The addresses are device addresses: the provider checks them against what this client has, or the
 * GPU's page tables do. Only the operations known here pass: others could carry pointers.
 */
static bool operation(CUstreamBatchMemOpParams *p, uint32_t op, uint64_t address, uint64_t value,
                      uint32_t flags)
{
    memset(p, 0, sizeof(*p));
    p->operation = (CUstreamBatchMemOpType)op;
    switch (op) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        p->waitValue.address = address;
        p->waitValue.value64 = value;
        p->waitValue.flags = flags;
        return true;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        p->writeValue.address = address;
        p->writeValue.value64 = value;
        p->writeValue.flags = flags;
        return true;
    case CU_STREAM_MEM_OP_BARRIER:
        p->memoryBarrier.flags = flags;
        return true;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        p->flushRemoteWrites.flags = flags;
        return true;
    default:
        return false;
    }
}

CUresult wrk_do_vgpStreamMemOps(struct wrk_call *c, const struct vgp_args_vgpStreamMemOps *a,
                                const uint32_t *operations, const uint64_t *addresses,
                                const uint64_t *values, const uint32_t *operationFlags)
{
    static CUstreamBatchMemOpParams list[256]; /* the dispatcher is one thread */
    uint32_t n = a->operations_len;
    CUstream stream;
    CUresult r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (a->addresses_len != n || a->values_len != n || a->operationFlags_len != n)
        return wrk_malformed(c, "memory operations of different lengths");
    if (!wrk_provider.cuStreamBatchMemOp_v2)
        return wrk_missing(c, "cuStreamBatchMemOp_v2");
    for (uint32_t i = 0; i < n; i++) {
        if (!operation(&list[i], operations[i], addresses[i], values[i], operationFlags[i]))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return wrk_provider.cuStreamBatchMemOp_v2(stream, n, list, a->flags);
}

/* Attributes of streams whose value is plain data. */
bool wrk_stream_attribute(uint32_t id)
{
    return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
           id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
           id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP ||
           id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

CUresult wrk_do_vgpOccupancyClusters(struct wrk_call *c,
                                     const struct vgp_args_vgpOccupancyClusters *a,
                                     const uint32_t *attributeIds, const void *attributeValues,
                                     struct vgp_ret_vgpOccupancyClusters *r)
{
    CUlaunchAttribute attrs[WRK_LAUNCH_ATTRIBUTES_MAX];
    CUlaunchConfig config;
    CUfunction f;
    CUstream stream;
    CUresult e = wrk_func_get(c, a->func, &f);

    if (e == CUDA_SUCCESS)
        e = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);
    if (e == CUDA_SUCCESS)
        e = wrk_launch_attributes(c, attrs, attributeIds, a->attributeIds_len, attributeValues,
                                  a->attributeValues_len);
    if (e != CUDA_SUCCESS)
        return e;
    if (a->what > 1)
        return wrk_malformed(c, "unknown question about clusters");
    memset(&config, 0, sizeof(config));
    config.gridDimX = a->gridX;
    config.gridDimY = a->gridY;
    config.gridDimZ = a->gridZ;
    config.blockDimX = a->blockX;
    config.blockDimY = a->blockY;
    config.blockDimZ = a->blockZ;
    config.sharedMemBytes = a->sharedBytes;
    config.hStream = stream;
    config.attrs = attrs;
    config.numAttrs = a->attributeIds_len;
    if (a->what == 0)
        return wrk_provider.cuOccupancyMaxActiveClusters
                   ? wrk_provider.cuOccupancyMaxActiveClusters(&r->result, f, &config)
                   : wrk_missing(c, "cuOccupancyMaxActiveClusters");
    return wrk_provider.cuOccupancyMaxPotentialClusterSize
               ? wrk_provider.cuOccupancyMaxPotentialClusterSize(&r->result, f, &config)
               : wrk_missing(c, "cuOccupancyMaxPotentialClusterSize");
}

/* Calls one of the encoders; the arrays are long enough for `rank` (checked by the caller). */
static CUresult encode(struct wrk_call *c, const struct vgp_args_vgpTensorMapEncode *a,
                       const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                       const uint32_t *steps, const int32_t *lower, const int32_t *upper,
                       CUtensorMap *map)
{
    void *address = (void *)(uintptr_t)a->address; /* of the device; never followed here */
    CUtensorMapDataType type = (CUtensorMapDataType)a->dataType;
    CUtensorMapInterleave interleave = (CUtensorMapInterleave)a->interleave;
    CUtensorMapSwizzle swizzle = (CUtensorMapSwizzle)a->swizzle;
    CUtensorMapL2promotion promotion = (CUtensorMapL2promotion)a->promotion;
    CUtensorMapFloatOOBfill fill = (CUtensorMapFloatOOBfill)a->fill;
    const cuuint64_t *d = (const cuuint64_t *)dims, *s = (const cuuint64_t *)strides;

    switch (a->form) {
    case VGP_TMAP_TILED:
        return wrk_provider.cuTensorMapEncodeTiled
                   ? wrk_provider.cuTensorMapEncodeTiled(map, type, a->rank, address, d, s, box,
                                                         steps, interleave, swizzle, promotion,
                                                         fill)
                   : wrk_missing(c, "cuTensorMapEncodeTiled");
    case VGP_TMAP_IM2COL:
        return wrk_provider.cuTensorMapEncodeIm2col
                   ? wrk_provider.cuTensorMapEncodeIm2col(
                         map, type, a->rank, address, d, s, lower, upper, a->channelsPerPixel,
                         a->pixelsPerColumn, steps, interleave, swizzle, promotion, fill)
                   : wrk_missing(c, "cuTensorMapEncodeIm2col");
    default:
        return wrk_provider.cuTensorMapEncodeIm2colWide
                   ? wrk_provider.cuTensorMapEncodeIm2colWide(
                         map, type, a->rank, address, d, s, lower[0], upper[0],
                         a->channelsPerPixel, a->pixelsPerColumn, steps, interleave,
                         (CUtensorMapIm2ColWideMode)a->mode, swizzle, promotion, fill)
                   : wrk_missing(c, "cuTensorMapEncodeIm2colWide");
    }
}

CUresult wrk_do_vgpTensorMapEncode(struct wrk_call *c, const struct vgp_args_vgpTensorMapEncode *a,
                                   const uint64_t *dims, const uint64_t *strides,
                                   const uint32_t *box, const uint32_t *elementStrides,
                                   const int32_t *lower, const int32_t *upper, const void *old,
                                   struct vgp_ret_vgpTensorMapEncode *r,
                                   struct vgp_outs_vgpTensorMapEncode *o)
{
    CUtensorMap map __attribute__((aligned(64)));
    /* Private copies with room for the largest rank: the provider reads as many as `rank` says. */
    uint64_t d[5] = {0}, s[4] = {0};
    uint32_t b[5] = {0}, e[5] = {0};
    int32_t lo[3] = {0}, up[3] = {0};
    CUresult res;

    if (a->form > VGP_TMAP_REPLACE_ADDRESS)
        return wrk_malformed(c, "unknown form of a tensor map");
    if (a->rank > 5)
        return CUDA_ERROR_INVALID_VALUE;
    memset(&map, 0, sizeof(map));
    memcpy(d, dims, a->dims_len * sizeof(d[0]));
    memcpy(s, strides, a->strides_len * sizeof(s[0]));
    memcpy(b, box, a->box_len * sizeof(b[0]));
    memcpy(e, elementStrides, a->elementStrides_len * sizeof(e[0]));
    memcpy(lo, lower, a->lower_len * sizeof(lo[0]));
    memcpy(up, upper, a->upper_len * sizeof(up[0]));
    if (a->form == VGP_TMAP_REPLACE_ADDRESS) {
        if (a->old_len != sizeof(map))
            return wrk_malformed(c, "a tensor map has %u bytes", a->old_len);
        if (!wrk_provider.cuTensorMapReplaceAddress)
            return wrk_missing(c, "cuTensorMapReplaceAddress");
        memcpy(&map, old, sizeof(map));
        res = wrk_provider.cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)a->address);
    } else {
        res = encode(c, a, d, s, b, e, lo, up, &map);
    }
    if (res == CUDA_SUCCESS) {
        memcpy(o->map, &map, sizeof(map));
        r->map_len = sizeof(map);
    }
    return res;
}

/* ---- decompression ---- */

CUresult wrk_do_vgpMemDecompress(struct wrk_call *c, const struct vgp_args_vgpMemDecompress *a,
                                 const uint64_t *srcBytes, const uint64_t *dstBytes,
                                 const uint64_t *actual, const uint64_t *src, const uint64_t *dst,
                                 const uint32_t *algorithms, struct vgp_ret_vgpMemDecompress *r)
{
    static CUmemDecompressParams list[256]; /* the dispatcher is one thread */
    uint32_t n = a->srcBytes_len;
    size_t index = SIZE_MAX;
    CUstream stream;
    CUresult e = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (e != CUDA_SUCCESS)
        return e;
    if (!n || a->dstBytes_len != n || a->actual_len != n || a->src_len != n || a->dst_len != n ||
        a->algorithms_len != n)
        return wrk_malformed(c, "decompressions of different lengths");
    if (!wrk_provider.cuMemBatchDecompressAsync)
        return wrk_missing(c, "cuMemBatchDecompressAsync");
    memset(list, 0, n * sizeof(list[0]));
    for (uint32_t i = 0; i < n; i++) { /* addresses of the device: the driver and the GPU look at them */
        list[i].srcNumBytes = srcBytes[i];
        list[i].dstNumBytes = dstBytes[i];
        list[i].dstActBytes = (cuuint32_t *)(uintptr_t)actual[i];
        list[i].src = (const void *)(uintptr_t)src[i];
        list[i].dst = (void *)(uintptr_t)dst[i];
        list[i].algo = (CUmemDecompressAlgorithm)algorithms[i];
    }
    r->status = wrk_provider.cuMemBatchDecompressAsync(list, n, 0, &index, stream);
    r->errorIndex = index < n ? index : UINT64_MAX;
    return CUDA_SUCCESS;
}
