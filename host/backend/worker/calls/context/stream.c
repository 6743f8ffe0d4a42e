/* SPDX-License-Identifier: MIT */
/* Tensor maps, and the memory operations, decompressions and stream attributes that are passed on. */
#include "../calls.h"

#include <string.h>

#include "lib/driver/memory_operation.h"

CUresult wrk_memory_operations_known(const CUstreamBatchMemOpParams *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!cua_memory_operation_known(list[i].operation))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUmemDecompressParams wrk_decompression(uint64_t src, uint64_t src_bytes, uint64_t dst, uint64_t dst_bytes,
                                        uint64_t actual, uint32_t algorithm)
{
    return (CUmemDecompressParams){.srcNumBytes = src_bytes,
                                   .dstNumBytes = dst_bytes,
                                   .dstActBytes = (cuuint32_t *)(uintptr_t)actual,
                                   .src = (const void *)(uintptr_t)src,
                                   .dst = (void *)(uintptr_t)dst,
                                   .algo = (CUmemDecompressAlgorithm)algorithm};
}

bool wrk_stream_attribute(uint32_t id)
{
    return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
           id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
           id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

/* Calls one of the encoders; the arrays are long enough for `rank` (checked by the caller). */
static CUresult encode(struct wrk_call *c, const struct vgp_args_vgpTensorMapEncode *a, const uint64_t *dims,
                       const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                       const int32_t *lower, const int32_t *upper, CUtensorMap *map)
{
    void *address = (void *)(uintptr_t)a->address; /* device address; never dereferenced here */
    CUtensorMapDataType type = (CUtensorMapDataType)a->dataType;
    CUtensorMapInterleave interleave = (CUtensorMapInterleave)a->interleave;
    CUtensorMapSwizzle swizzle = (CUtensorMapSwizzle)a->swizzle;
    CUtensorMapL2promotion promotion = (CUtensorMapL2promotion)a->promotion;
    CUtensorMapFloatOOBfill fill = (CUtensorMapFloatOOBfill)a->fill;
    const cuuint64_t *d = (const cuuint64_t *)dims, *s = (const cuuint64_t *)strides;

    switch (a->form) {
    case VGP_TMAP_TILED:
        return wrk_provider.cuTensorMapEncodeTiled
                   ? wrk_provider.cuTensorMapEncodeTiled(map, type, a->rank, address, d, s, box, steps,
                                                         interleave, swizzle, promotion, fill)
                   : wrk_missing(c, "cuTensorMapEncodeTiled");
    case VGP_TMAP_IM2COL:
        return wrk_provider.cuTensorMapEncodeIm2col
                   ? wrk_provider.cuTensorMapEncodeIm2col(map, type, a->rank, address, d, s, lower, upper,
                                                          a->channelsPerPixel, a->pixelsPerColumn, steps,
                                                          interleave, swizzle, promotion, fill)
                   : wrk_missing(c, "cuTensorMapEncodeIm2col");
    default:
        return wrk_provider.cuTensorMapEncodeIm2colWide
                   ? wrk_provider.cuTensorMapEncodeIm2colWide(
                         map, type, a->rank, address, d, s, lower[0], upper[0], a->channelsPerPixel,
                         a->pixelsPerColumn, steps, interleave, (CUtensorMapIm2ColWideMode)a->mode, swizzle,
                         promotion, fill)
                   : wrk_missing(c, "cuTensorMapEncodeIm2colWide");
    }
}

CUresult wrk_do_vgpTensorMapEncode(struct wrk_call *c, const struct vgp_args_vgpTensorMapEncode *a,
                                   const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                                   const uint32_t *elementStrides, const int32_t *lower, const int32_t *upper,
                                   const void *old, struct vgp_ret_vgpTensorMapEncode *r,
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
