/* SPDX-License-Identifier: MIT */
/* Driver API: one-dimensional copies; runtime/sg_copy.c performs them. */
#include "api/api.h"

static CUresult one_row(struct sg_copy *c, enum sg_place dp, enum sg_place sp, CUstream stream, bool async)
{
    bool src_pageable, dst_pageable;
    CUresult r;

    SG_CTX(ctx);
    if (!c->width)
        return CUDA_SUCCESS;
    c->generation = __atomic_load_n(&sg_mem_generation, __ATOMIC_SEQ_CST);
    r = sg_copy_check(dp, PTR(c->dst), c->width, true, &dst_pageable);
    if (r == CUDA_SUCCESS)
        r = sg_copy_check(sp, PTR(c->src), c->width, false, &src_pageable);
    if (r != CUDA_SUCCESS)
        return r;
    c->height = c->depth = 1;
    return sg_copy_issue(ctx, stream, c, async, src_pageable, dst_pageable);
}

static CUresult copy_linear(enum sg_place dp, uint64_t dst, enum sg_place sp, uint64_t src, size_t n,
                            CUstream stream, bool async)
{
    struct sg_copy c = {.dst = (uint8_t *)dst, .src = (const uint8_t *)src, .width = n};

    return one_row(&c, dp, sp, stream, async);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr d, const void *h, size_t n)
{
    return copy_linear(SG_PLACE_DEVICE, d, SG_PLACE_HOST, PTR(h), n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr d, const void *h, size_t n)
{
    return copy_linear(SG_PLACE_DEVICE, d, SG_PLACE_HOST, PTR(h), n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *h, CUdeviceptr d, size_t n)
{
    return copy_linear(SG_PLACE_HOST, PTR(h), SG_PLACE_DEVICE, d, n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *h, CUdeviceptr d, size_t n)
{
    return copy_linear(SG_PLACE_HOST, PTR(h), SG_PLACE_DEVICE, d, n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return copy_linear(SG_PLACE_DEVICE, d, SG_PLACE_DEVICE, s, n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return copy_linear(SG_PLACE_DEVICE, d, SG_PLACE_DEVICE, s, n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *h, size_t n, CUstream stream)
{
    return copy_linear(SG_PLACE_DEVICE, d, SG_PLACE_HOST, PTR(h), n, stream, true);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *h, CUdeviceptr d, size_t n, CUstream stream)
{
    return copy_linear(SG_PLACE_HOST, PTR(h), SG_PLACE_DEVICE, d, n, stream, true);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream)
{
    return copy_linear(SG_PLACE_DEVICE, d, SG_PLACE_DEVICE, s, n, stream, true);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return copy_linear(SG_PLACE_ANY, d, SG_PLACE_ANY, s, n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return copy_linear(SG_PLACE_ANY, d, SG_PLACE_ANY, s, n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream)
{
    return copy_linear(SG_PLACE_ANY, d, SG_PLACE_ANY, s, n, stream, true);
}

/* ---- between contexts: each side is reached by the device of its own ---- */

static CUresult copy_peer(CUdeviceptr d, CUcontext dctx, CUdeviceptr s, CUcontext sctx, size_t n,
                          CUstream stream, bool async)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!n)
        return CUDA_SUCCESS;
    SG_OBJECT(struct sg_ctx, dc, sg_ctx_named(dctx, &dc)); /* NULL: the current one (driver 580) */
    SG_OBJECT(struct sg_ctx, sc, sg_ctx_named(sctx, &sc));
    struct sg_copy c = {.dst = (uint8_t *)d,
                        .src = (const uint8_t *)s,
                        .width = n,
                        .dst_on = (uint8_t)(1 + dc->device),
                        .src_on = (uint8_t)(1 + sc->device)};

    return one_row(&c, SG_PLACE_DEVICE, SG_PLACE_DEVICE, stream, async);
}

static CUresult wait_for_other(CUcontext handle)
{
    SG_AUTO struct sg_ctx *c = SG_LOOKUP(handle, SG_T_CTX);
    CUcontext current = NULL;

    cuCtxGetCurrent(&current);
    return c && handle != current ? cuCtxSynchronize_v2(handle) : CUDA_SUCCESS;
}

/* Documented: serialised with all work of both contexts. The copy itself belongs to the current
   context. */
static CUresult copy_serialised(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n,
                                CUstream stream)
{
    CUresult r = wait_for_other(sc);

    if (r == CUDA_SUCCESS)
        r = wait_for_other(dc);
    if (r == CUDA_SUCCESS)
        r = copy_peer(d, dc, s, sc, n, stream, false);
    return r == CUDA_SUCCESS && dc != sc ? cuStreamSynchronize(stream) : r;
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n)
{
    return copy_serialised(d, dc, s, sc, n, SG_LEGACY);
}

CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n)
{
    return copy_serialised(d, dc, s, sc, n, SG_PER_THREAD);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n,
                                   CUstream stream)
{
    return copy_peer(d, dc, s, sc, n, stream, true);
}
