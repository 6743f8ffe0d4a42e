/* SPDX-License-Identifier: MIT */
/* Driver API: 2D and 3D copies between memory and arrays; runtime/sg_copy3d.c performs them. */
#include "api/api.h"

static bool type_ok(CUmemorytype type)
{
    return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

static CUresult copy_strided(struct sg_copy_side *dst, struct sg_copy_side *src, size_t w, size_t h, size_t d,
                             CUstream stream, bool async)
{
    bool dst_pageable, src_pageable;
    struct sg_copy c;
    CUresult r;

    SG_CTX(ctx);
    if (!w || !h || !d) /* the rest does not matter then (driver 580) */
        return CUDA_SUCCESS;
    if (!type_ok(dst->type) || !type_ok(src->type))
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_copy_resolve(dst, src, w, h, d, &c, &src_pageable, &dst_pageable);
    if (r != CUDA_SUCCESS)
        return r;
    r = sg_copy_issue(ctx, stream, &c, async, src_pageable, dst_pageable);
    sg_copy_done(&c);
    return r;
}

static CUresult copy2d(const CUDA_MEMCPY2D *p, bool limit_pitch, CUstream stream, bool async)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    size_t max = (size_t)sg_attr(0, CU_DEVICE_ATTRIBUTE_MAX_PITCH);

    if (limit_pitch && p->Height > 1 &&
        ((p->srcMemoryType != CU_MEMORYTYPE_ARRAY && p->srcPitch > max) ||
         (p->dstMemoryType != CU_MEMORYTYPE_ARRAY && p->dstPitch > max)))
        return CUDA_ERROR_INVALID_VALUE;
    struct sg_copy_side src = {
        p->srcMemoryType, SG_COPY_BASE(p, src), p->srcXInBytes, p->srcY, 0, p->srcPitch, 0, NULL};
    struct sg_copy_side dst = {
        p->dstMemoryType, SG_COPY_BASE(p, dst), p->dstXInBytes, p->dstY, 0, p->dstPitch, 0, NULL};

    return copy_strided(&dst, &src, p->WidthInBytes, p->Height, 1, stream, async);
}

CUresult CUDAAPI cuMemcpy2D_v2(const CUDA_MEMCPY2D *p)
{
    return copy2d(p, true, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *p)
{
    return copy2d(p, true, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *p)
{
    return copy2d(p, false, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *p)
{
    return copy2d(p, false, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *p, CUstream stream)
{
    return copy2d(p, true, stream, true);
}

static CUresult copy3d(const CUDA_MEMCPY3D *p, CUstream stream, bool async)
{
    struct sg_copy_side dst, src;

    SG_CTX(ctx);
    (void)ctx;
    if (!p || p->srcLOD || p->dstLOD || p->reserved0 || p->reserved1)
        return CUDA_ERROR_INVALID_VALUE;
    sg_copy_sides(p, &dst, &src);
    return copy_strided(&dst, &src, p->WidthInBytes, p->Height, p->Depth, stream, async);
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D *p)
{
    return copy3d(p, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *p)
{
    return copy3d(p, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *p, CUstream stream)
{
    return copy3d(p, stream, true);
}

static CUresult copy3d_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool async)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!p || p->srcLOD || p->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    if (!p->WidthInBytes || !p->Height || !p->Depth)
        return CUDA_SUCCESS;
    SG_AUTO struct sg_ctx *sc = SG_LOOKUP(p->srcContext, SG_T_CTX);
    SG_AUTO struct sg_ctx *dc = SG_LOOKUP(p->dstContext, SG_T_CTX);

    /* cuda.h: ignored for arrays, as for each type that determines the location */
    if ((p->srcMemoryType == CU_MEMORYTYPE_DEVICE && !sc) ||
        (p->dstMemoryType == CU_MEMORYTYPE_DEVICE && !dc))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sg_copy_side src = {p->srcMemoryType, SG_COPY_BASE(p, src), p->srcXInBytes, p->srcY,
                               p->srcZ,          p->srcPitch,          p->srcHeight,   sc};
    struct sg_copy_side dst = {p->dstMemoryType, SG_COPY_BASE(p, dst), p->dstXInBytes, p->dstY,
                               p->dstZ,          p->dstPitch,          p->dstHeight,   dc};

    return copy_strided(&dst, &src, p->WidthInBytes, p->Height, p->Depth, stream, async);
}

CUresult CUDAAPI cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
    return copy3d_peer(p, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *p)
{
    return copy3d_peer(p, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream stream)
{
    return copy3d_peer(p, stream, true);
}
