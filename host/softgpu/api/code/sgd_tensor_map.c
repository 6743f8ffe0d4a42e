/* SPDX-License-Identifier: MIT */
/* Driver API: tensor maps. A map holds no handle and needs no context; a refusal leaves it as it was. */
#include <string.h>

#include "api/api.h"
#include "memory/tensor_map.h"

#define MAP_ALIGN 64 /* bytes, of the CUtensorMap itself */

/* The current context's device, or one of all, has tensor maps. */
static CUresult check_capability(const struct sg_ctx *ctx)
{
    bool has = ctx && sg_attr(ctx->device, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED);

    for (unsigned i = 0; !ctx && i < sg_config.ndevices; i++)
        has |= sg_attr((int)i, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) != 0;
    return has ? CUDA_SUCCESS
               : sg_fail(CUDA_ERROR_NOT_SUPPORTED, "tensor maps need compute capability 9.0 or higher");
}

/* False: no such swizzle. */
static bool set_swizzle(struct sg_tensor_map *m, CUtensorMapSwizzle swizzle)
{
    static const struct {
        uint8_t span, atom;
    } kinds[] = {
        [CU_TENSOR_MAP_SWIZZLE_NONE] = {SG_TMAP_NO_SWIZZLE, 0},
        [CU_TENSOR_MAP_SWIZZLE_32B] = {SG_TMAP_SWIZZLE_32B, 0},
        [CU_TENSOR_MAP_SWIZZLE_64B] = {SG_TMAP_SWIZZLE_64B, 0},
        [CU_TENSOR_MAP_SWIZZLE_128B] = {SG_TMAP_SWIZZLE_128B, SG_TMAP_ATOM_16B},
        [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B] = {SG_TMAP_SWIZZLE_128B, SG_TMAP_ATOM_32B},
        [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B] = {SG_TMAP_SWIZZLE_128B, SG_TMAP_ATOM_32B_FLIP_8B},
        [CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B] = {SG_TMAP_SWIZZLE_128B, SG_TMAP_ATOM_64B}};

    if ((unsigned)swizzle >= sizeof(kinds) / sizeof(kinds[0]))
        return false;
    m->swizzle = kinds[swizzle].span;
    m->atom = kinds[swizzle].atom;
    return true;
}

/* The parameters that all forms share; those too large for their fields are refused here. */
static CUresult set_tensor(struct sg_tensor_map *m, unsigned type, unsigned rank, void *address,
                           const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *steps,
                           unsigned interleave, CUtensorMapSwizzle swizzle, unsigned promotion, unsigned fill)
{
    const unsigned small = type | interleave | promotion | fill;

    if (!rank || rank > SG_TMAP_RANK || small > UINT8_MAX || !set_swizzle(m, swizzle))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "tensor map: a rank, type or mode that does not exist");
    if (!dims || !steps || (rank > 1 && !strides))
        return CUDA_ERROR_INVALID_VALUE;
    m->magic = SG_TMAP_MAGIC;
    m->version = SG_TMAP_VERSION;
    m->type = (uint8_t)type;
    m->rank = (uint8_t)rank;
    m->interleave = (uint8_t)interleave;
    m->promotion = (uint8_t)promotion;
    m->fill = (uint8_t)fill;
    m->address = (uintptr_t)address;
    for (unsigned i = 0; i < rank; i++) {
        m->dim[i] = dims[i];
        m->step[i] = (uint8_t)(steps[i] < UINT8_MAX ? steps[i] : UINT8_MAX);
        if (i + 1 < rank)
            m->stride[i] = strides[i];
    }
    if (!interleave)
        m->step[0] = 1; /* the manual: ignored */
    return CUDA_SUCCESS;
}

static CUresult put_map(CUtensorMap *out, const struct sg_tensor_map *m)
{
    const char *why = sg_tensor_map_fault(m);

    if (why)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "tensor map: %s", why);
    why = sg_tensor_map_missing(m);
    if (why)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "tensor map: %s", why);
    memcpy(out, m, sizeof(*m));
    return CUDA_SUCCESS;
}

static CUresult check_place(const struct sg_ctx *ctx, const CUtensorMap *map)
{
    CUresult r = check_capability(ctx);

    if (r == CUDA_SUCCESS && (!map || (uintptr_t)map % MAP_ALIGN))
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "a tensor map is aligned to %d bytes", MAP_ALIGN);
    return r;
}

static uint16_t box_field(cuuint32_t n)
{
    return (uint16_t)(n < UINT16_MAX ? n : UINT16_MAX);
}

/* Limits of all ranks; sg_tensor_map_fault() has those of each. */
static bool corner_fits(int corner)
{
    return corner >= INT16_MIN && corner <= INT16_MAX;
}

CUresult sgd_cuTensorMapEncodeTiled(struct sg_ctx *ctx, CUtensorMap *tensorMap,
                                    CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                    void *globalAddress, const cuuint64_t *globalDim,
                                    const cuuint64_t *globalStrides, const cuuint32_t *boxDim,
                                    const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                    CUtensorMapFloatOOBfill oobFill)
{
    struct sg_tensor_map m = {.form = SG_TMAP_TILED};
    CUresult r = check_place(ctx, tensorMap);

    if (r == CUDA_SUCCESS)
        r = set_tensor(&m, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                       elementStrides, interleave, swizzle, l2Promotion, oobFill);
    if (r != CUDA_SUCCESS)
        return r;
    if (!boxDim)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < tensorRank; i++)
        m.box[i] = box_field(boxDim[i]);
    return put_map(tensorMap, &m);
}

CUresult sgd_cuTensorMapEncodeIm2col(struct sg_ctx *ctx, CUtensorMap *tensorMap,
                                     CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                     void *globalAddress, const cuuint64_t *globalDim,
                                     const cuuint64_t *globalStrides, const int *pixelBoxLowerCorner,
                                     const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel,
                                     cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
                                     CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                     CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill)
{
    struct sg_tensor_map m = {.form = SG_TMAP_IM2COL,
                              .channels = box_field(channelsPerPixel),
                              .pixels = box_field(pixelsPerColumn)};
    CUresult r = check_place(ctx, tensorMap);

    if (r == CUDA_SUCCESS)
        r = set_tensor(&m, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                       elementStrides, interleave, swizzle, l2Promotion, oobFill);
    if (r != CUDA_SUCCESS)
        return r;
    if (!pixelBoxLowerCorner || !pixelBoxUpperCorner)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i + 2 < tensorRank; i++) {
        if (!corner_fits(pixelBoxLowerCorner[i]) || !corner_fits(pixelBoxUpperCorner[i]))
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "tensor map: a corner out of range");
        m.lower[i] = (int16_t)pixelBoxLowerCorner[i];
        m.upper[i] = (int16_t)pixelBoxUpperCorner[i];
    }
    return put_map(tensorMap, &m);
}

CUresult sgd_cuTensorMapEncodeIm2colWide(struct sg_ctx *ctx, CUtensorMap *tensorMap,
                                         CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
                                         void *globalAddress, const cuuint64_t *globalDim,
                                         const cuuint64_t *globalStrides, int pixelBoxLowerCornerWidth,
                                         int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
                                         cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
                                         CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                         CUtensorMapFloatOOBfill oobFill)
{
    const bool fixed = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
    struct sg_tensor_map m = {.form = fixed ? SG_TMAP_IM2COL_W128 : SG_TMAP_IM2COL_W,
                              .lower = {(int16_t)pixelBoxLowerCornerWidth},
                              .upper = {(int16_t)pixelBoxUpperCornerWidth},
                              .channels = box_field(channelsPerPixel),
                              .pixels = box_field(pixelsPerColumn)};
    CUresult r = check_place(ctx, tensorMap);

    if (r == CUDA_SUCCESS &&
        (mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128 || !corner_fits(pixelBoxLowerCornerWidth) ||
         !corner_fits(pixelBoxUpperCornerWidth)))
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "tensor map: a mode or corner out of range");
    if (r == CUDA_SUCCESS)
        r = set_tensor(&m, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
                       elementStrides, interleave, swizzle, l2Promotion, oobFill);
    return r == CUDA_SUCCESS ? put_map(tensorMap, &m) : r;
}

CUresult sgd_cuTensorMapReplaceAddress(struct sg_ctx *ctx, CUtensorMap *tensorMap, void *globalAddress)
{
    struct sg_tensor_map m;
    CUresult r = check_place(ctx, tensorMap);

    if (r != CUDA_SUCCESS)
        return r;
    memcpy(&m, tensorMap, sizeof(m));
    m.address = (uintptr_t)globalAddress;
    return put_map(tensorMap, &m);
}
