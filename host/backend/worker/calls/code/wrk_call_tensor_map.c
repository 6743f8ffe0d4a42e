/* SPDX-License-Identifier: MIT */
/* Tensor maps: 128 bytes that only the provider can write and read. */
#include "calls/calls.h"

CUresult wrk_tensor_map_encode(struct wrk_call *c, const struct vgp_args_vgpTensorMapEncode *a,
                               const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                               const uint32_t *steps, const int32_t *lower, const int32_t *upper,
                               CUtensorMap *map)
{
    void *base = (void *)(uintptr_t)a->address; /* on the device, never dereferenced here */

    switch (a->form) {
    case VGP_TMAP_TILED:
        if (!wrk_provider.cuTensorMapEncodeTiled)
            return wrk_missing(c, "cuTensorMapEncodeTiled");
        return wrk_provider.cuTensorMapEncodeTiled(map, a->dataType, a->rank, base, dims, strides, box, steps,
                                                   a->interleave, a->swizzle, a->promotion, a->fill);
    case VGP_TMAP_IM2COL:
        if (!wrk_provider.cuTensorMapEncodeIm2col)
            return wrk_missing(c, "cuTensorMapEncodeIm2col");
        return wrk_provider.cuTensorMapEncodeIm2col(map, a->dataType, a->rank, base, dims, strides, lower,
                                                    upper, a->channelsPerPixel, a->pixelsPerColumn, steps,
                                                    a->interleave, a->swizzle, a->promotion, a->fill);
    case VGP_TMAP_IM2COL_WIDE:
        if (!wrk_provider.cuTensorMapEncodeIm2colWide)
            return wrk_missing(c, "cuTensorMapEncodeIm2colWide");
        return wrk_provider.cuTensorMapEncodeIm2colWide(
            map, a->dataType, a->rank, base, dims, strides, lower[0], upper[0], a->channelsPerPixel,
            a->pixelsPerColumn, steps, a->interleave, a->mode, a->swizzle, a->promotion, a->fill);
    default:
        if (!wrk_provider.cuTensorMapReplaceAddress)
            return wrk_missing(c, "cuTensorMapReplaceAddress");
        return wrk_provider.cuTensorMapReplaceAddress(map, base);
    }
}
