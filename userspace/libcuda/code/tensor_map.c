/* SPDX-License-Identifier: MIT */
/* Tensor maps: 128 bytes that only the host's driver can write. They hold device addresses, which
 * are the same on both sides. */
#include "../core/core.h"

#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

struct map {
    uint32_t form, type, rank, channels, pixels, interleave, mode, swizzle, promotion, fill;
    void *address;
    const cuuint64_t *dims, *strides;
    const cuuint32_t *box, *steps;
    const int *lower, *upper;
    uint32_t corners; /* elements of lower and upper */
};

static CUresult encode(CUtensorMap *out, const struct map *m)
{
    uint64_t dims[5], strides[4];
    uint8_t bytes[sizeof(*out)];
    uint32_t n = sizeof(bytes);
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (out == NULL || m->dims == NULL || m->steps == NULL || m->rank == 0 || m->rank > 5 ||
        (m->rank > 1 && m->strides == NULL) ||
        (m->form == VGP_TMAP_TILED ? m->box == NULL : m->lower == NULL || m->upper == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < m->rank; i++) {
        dims[i] = m->dims[i];
        if (i + 1 < m->rank)
            strides[i] = m->strides[i];
    }
    res = vgp_call_vgpTensorMapEncode(m->form, m->type, m->rank, (uintptr_t)m->address, dims, m->rank,
                                      strides, m->rank - 1, m->box, m->form == VGP_TMAP_TILED ? m->rank : 0,
                                      m->steps, m->rank, m->lower, m->corners, m->upper, m->corners,
                                      m->channels, m->pixels, m->interleave, m->mode, m->swizzle,
                                      m->promotion, m->fill, NULL, 0, bytes, &n);
    if (res == CUDA_SUCCESS && n != sizeof(bytes))
        res = CUDA_ERROR_UNKNOWN;
    if (res == CUDA_SUCCESS)
        memcpy(out, bytes, sizeof(bytes));
    return res;
}

CUresult vcu_cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                    cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
                                    const cuuint64_t *globalStrides, const cuuint32_t *boxDim,
                                    const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                    CUtensorMapFloatOOBfill oobFill)
{
    struct map m = {
        .form = VGP_TMAP_TILED,
        .type = tensorDataType,
        .rank = tensorRank,
        .address = globalAddress,
        .dims = globalDim,
        .strides = globalStrides,
        .box = boxDim,
        .steps = elementStrides,
        .interleave = interleave,
        .swizzle = swizzle,
        .promotion = l2Promotion,
        .fill = oobFill,
    };

    return encode(tensorMap, &m);
}

CUresult vcu_cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                     cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim,
                                     const cuuint64_t *globalStrides, const int *pixelBoxLowerCorner,
                                     const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                     cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
                                     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    struct map m = {
        .form = VGP_TMAP_IM2COL,
        .type = tensorDataType,
        .rank = tensorRank,
        .address = globalAddress,
        .dims = globalDim,
        .strides = globalStrides,
        .lower = pixelBoxLowerCorner,
        .upper = pixelBoxUpperCorner,
        .corners = tensorRank > 2 ? tensorRank - 2 : 0,
        .channels = channelsPerPixel,
        .pixels = pixelsPerColumn,
        .steps = elementStrides,
        .interleave = interleave,
        .swizzle = swizzle,
        .promotion = l2Promotion,
        .fill = oobFill,
    };

    return encode(tensorMap, &m);
}

CUresult vcu_cuTensorMapEncodeIm2colWide(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                         cuuint32_t tensorRank, void *globalAddress,
                                         const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                         int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth,
                                         cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                         const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                         CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle,
                                         CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    struct map m = {
        .form = VGP_TMAP_IM2COL_WIDE,
        .type = tensorDataType,
        .rank = tensorRank,
        .address = globalAddress,
        .dims = globalDim,
        .strides = globalStrides,
        .lower = &pixelBoxLowerCornerWidth,
        .upper = &pixelBoxUpperCornerWidth,
        .corners = 1,
        .channels = channelsPerPixel,
        .pixels = pixelsPerColumn,
        .steps = elementStrides,
        .interleave = interleave,
        .mode = mode,
        .swizzle = swizzle,
        .promotion = l2Promotion,
        .fill = oobFill,
    };

    return encode(tensorMap, &m);
}

CUresult vcu_cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
    uint8_t bytes[sizeof(*tensorMap)];
    uint32_t n = sizeof(bytes);
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (tensorMap == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_vgpTensorMapEncode(VGP_TMAP_REPLACE_ADDRESS, 0, 0, (uintptr_t)globalAddress, NULL, 0, NULL,
                                      0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0, tensorMap,
                                      sizeof(*tensorMap), bytes, &n);
    if (res == CUDA_SUCCESS && n != sizeof(bytes))
        res = CUDA_ERROR_UNKNOWN;
    if (res == CUDA_SUCCESS)
        memcpy(tensorMap, bytes, sizeof(bytes));
    return res;
}
