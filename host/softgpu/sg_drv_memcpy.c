/* SPDX-License-Identifier: MIT */
/*
 * Driver API: copies. Every form becomes a struct sg_copy of rows and slices; device addresses are
 * host addresses, so the work itself is memmove.
 *
 * When the caller gets control back follows the API Synchronization Behavior chapter of the driver
 * API manual: an asynchronous copy from pageable memory returns when the source may be reused, one
 * to pageable memory when it has been done, the others at once.
 */
#include <stdlib.h>
#include <string.h>

#include "sg_copy.h"

/* Up to here the caller does the work itself when nothing is in its way: it is cheaper than
 * waking a thread (memmove moves that much in some 100 us). */
#define SG_INLINE_BYTES (1u << 20)
/* A copy from pageable memory that has to wait is staged up to this size, else waited for. */
#define SG_STAGE_BYTES (16u << 20)
#define SG_STAGE_TOTAL (64u << 20) /* bytes staged in the process at a time; beyond: waited for */

static _Atomic size_t staged_total;

/* Has the device of each side access to it? Arrays are of no use to others than their context's. */
static bool reachable(const struct sg_copy *c, const struct sg_stream *s)
{
    size_t z = c->depth - 1, y = c->height - 1;

    return (c->dst_array ||
            sg_mem_reachable(c->dst_on ? c->dst_on - 1 : s->ctx->device, PTR(c->dst),
                             z * c->dst_slice + y * c->dst_pitch + c->width, true)) &&
           (c->src_array ||
            sg_mem_reachable(c->src_on ? c->src_on - 1 : s->ctx->device, PTR(c->src),
                             z * c->src_slice + y * c->src_pitch + c->width, false));
}

static CUresult copy_run(struct sg_op *op, struct sg_stream *s)
{
    const struct sg_copy *c = &((struct sg_copy_op *)op)->c;

    if (s && (sg_gmem_dormant((uint64_t)(uintptr_t)c->dst) ||
              sg_gmem_dormant((uint64_t)(uintptr_t)c->src)))
        return sg_gmem_fault(s, "copy");
    if (s && !reachable(c, s))
        return sg_unreachable(s, "copy");
    for (size_t z = 0; z < c->depth; z++) {
        for (size_t y = 0; y < c->height; y++)
            memmove(c->dst + z * c->dst_slice + y * c->dst_pitch,
                    c->src + z * c->src_slice + y * c->src_pitch, c->width);
    }
    return CUDA_SUCCESS;
}

void sg_copy_done(struct sg_copy *c)
{
    if (c->dst_array)
        sg_obj_put(&c->dst_array->obj);
    if (c->src_array)
        sg_obj_put(&c->src_array->obj);
}

static void copy_drop(struct sg_op *op)
{
    struct sg_copy_op *o = (struct sg_copy_op *)op;

    atomic_fetch_sub(&staged_total, o->staged_bytes);
    free(o->staged);
    sg_copy_done(&o->c);
    free(o);
}

/* Packs the source into memory of our own; false when there is not enough of that. */
static bool stage(struct sg_copy_op *o)
{
    struct sg_copy pack = o->c;
    size_t bytes = o->c.width * o->c.height * o->c.depth;

    if (bytes > SG_STAGE_BYTES)
        return false;
    if (atomic_fetch_add(&staged_total, bytes) > SG_STAGE_TOTAL - bytes ||
        !(o->staged = malloc(bytes))) {
        atomic_fetch_sub(&staged_total, bytes);
        return false;
    }
    o->staged_bytes = bytes;
    pack.dst = o->staged;
    pack.dst_pitch = pack.width;
    pack.dst_slice = pack.width * pack.height;
    struct sg_copy_op tmp = {.c = pack};

    copy_run(&tmp.op, NULL);
    o->c.src = o->staged;
    o->c.src_pitch = pack.dst_pitch;
    o->c.src_slice = pack.dst_slice;
    return true;
}

struct sg_copy_op *sg_copy_new(const struct sg_copy *c)
{
    struct sg_copy_op *o = calloc(1, sizeof(*o));

    if (o) {
        o->op.run = copy_run;
        o->op.node_type = CU_GRAPH_NODE_TYPE_MEMCPY;
        o->op.drop = copy_drop;
        o->c = *c;
        if (c->dst_array)
            sg_obj_get(&c->dst_array->obj);
        if (c->src_array)
            sg_obj_get(&c->src_array->obj);
    }
    return o;
}

CUresult sg_copy_issue(struct sg_ctx *ctx, CUstream stream, const struct sg_copy *c, bool async,
                           bool src_pageable, bool dst_pageable)
{
    SG_AUTO struct sg_stream *s = NULL;
    enum sg_issue_mode mode = SG_ISSUE_SYNC;
    size_t bytes = c->width * c->height * c->depth;
    /* Documented: unlike a kernel, a copy may be issued to a stream of another context. */
    CUresult r = (uintptr_t)stream > 2 ? sg_stream_get_any(stream, &s)
                                       : sg_stream_get(ctx, stream, &s);
    struct sg_copy_op *o;

    if (r != CUDA_SUCCESS)
        return r;
    o = sg_copy_new(c);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (async && atomic_load(&sg_captures) && s->front->capture) {
        mode = SG_ISSUE_ASYNC; /* a node reads its source when the graph runs */
    } else if (async && !dst_pageable) {
        if (!src_pageable)
            mode = bytes <= SG_INLINE_BYTES ? SG_ISSUE_INLINE : SG_ISSUE_ASYNC;
        else if (!sg_stream_idle(s) && stage(o))
            mode = SG_ISSUE_ASYNC;
    }
    return sg_issue(s, &o->op, mode);
}

/* ---- checks ---- */

CUresult sg_copy_check(enum sg_place place, uint64_t addr, uint64_t span, bool write,
                            bool *pageable)
{
    struct sg_mem_info info;

    *pageable = false;
    if (!addr)
        return CUDA_ERROR_INVALID_VALUE;
    info.size = 0;
    bool covered = sg_mem_covers(addr, span, &info);

    if (info.size) {
        if (!covered)
            return sg_fail(CUDA_ERROR_INVALID_VALUE,
                           "copy of %llu bytes at 0x%llx leaves its allocation of %llu bytes",
                           (unsigned long long)span, (unsigned long long)addr,
                           (unsigned long long)info.size);
        if (write && !info.writable && place != SG_PLACE_HOST)
            return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
    }
    if (place == SG_PLACE_DEVICE || sg_mem_in_arena(addr))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "copy at 0x%llx: no device memory there",
                       (unsigned long long)addr);
    /* That there is memory is asked of the kernel where the call does not say so, or where the
     * question costs nothing beside the copy. */
    if ((place == SG_PLACE_ANY || span >= SG_ASK_ABOVE) && !sg_host_mapped(addr, span))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "copy at 0x%llx: no memory there",
                       (unsigned long long)addr);
    *pageable = true;
    return CUDA_SUCCESS;
}

static CUresult one_row(struct sg_copy *c, enum sg_place dp, enum sg_place sp, CUstream stream,
                        bool async)
{
    bool src_pageable, dst_pageable;
    CUresult r;

    SG_CTX(ctx);
    if (!c->width)
        return CUDA_SUCCESS;
    r = sg_copy_check(dp, PTR(c->dst), c->width, true, &dst_pageable);
    if (r == CUDA_SUCCESS)
        r = sg_copy_check(sp, PTR(c->src), c->width, false, &src_pageable);
    if (r != CUDA_SUCCESS)
        return r;
    c->height = c->depth = 1;
    return sg_copy_issue(ctx, stream, c, async, src_pageable, dst_pageable);
}

static CUresult linear(enum sg_place dp, uint64_t dst, enum sg_place sp, uint64_t src, size_t n,
                       CUstream stream, bool async)
{
    struct sg_copy c = {.dst = (uint8_t *)dst, .src = (const uint8_t *)src, .width = n};

    return one_row(&c, dp, sp, stream, async);
}

CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr d, const void *h, size_t n)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_HOST, PTR(h), n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr d, const void *h, size_t n)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_HOST, PTR(h), n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyDtoH_v2(void *h, CUdeviceptr d, size_t n)
{
    return linear(SG_PLACE_HOST, PTR(h), SG_PLACE_DEVICE, d, n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void *h, CUdeviceptr d, size_t n)
{
    return linear(SG_PLACE_HOST, PTR(h), SG_PLACE_DEVICE, d, n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_DEVICE, s, n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_DEVICE, s, n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *h, size_t n, CUstream stream)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_HOST, PTR(h), n, stream, true);
}

CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr d, const void *h, size_t n, CUstream stream)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_HOST, PTR(h), n, SG_PTSZ(stream), true);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void *h, CUdeviceptr d, size_t n, CUstream stream)
{
    return linear(SG_PLACE_HOST, PTR(h), SG_PLACE_DEVICE, d, n, stream, true);
}

CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void *h, CUdeviceptr d, size_t n, CUstream stream)
{
    return linear(SG_PLACE_HOST, PTR(h), SG_PLACE_DEVICE, d, n, SG_PTSZ(stream), true);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_DEVICE, s, n, stream, true);
}

CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream)
{
    return linear(SG_PLACE_DEVICE, d, SG_PLACE_DEVICE, s, n, SG_PTSZ(stream), true);
}

CUresult CUDAAPI cuMemcpy(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return linear(SG_PLACE_ANY, d, SG_PLACE_ANY, s, n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr d, CUdeviceptr s, size_t n)
{
    return linear(SG_PLACE_ANY, d, SG_PLACE_ANY, s, n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream)
{
    return linear(SG_PLACE_ANY, d, SG_PLACE_ANY, s, n, stream, true);
}

CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream stream)
{
    return linear(SG_PLACE_ANY, d, SG_PLACE_ANY, s, n, SG_PTSZ(stream), true);
}

/* ---- between contexts: each side is reached by the device of its own ---- */

static CUresult peer(CUdeviceptr d, CUcontext dctx, CUdeviceptr s, CUcontext sctx, size_t n,
                     CUstream stream, bool async)
{
    SG_CTX(ctx);
    (void)ctx;
    SG_AUTO struct sg_ctx *dc = SG_LOOKUP(dctx, SG_T_CTX);
    SG_AUTO struct sg_ctx *sc = SG_LOOKUP(sctx, SG_T_CTX);

    if (!dc || !sc)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct sg_copy c = {.dst = (uint8_t *)d, .src = (const uint8_t *)s, .width = n,
                        .dst_on = (uint8_t)(1 + dc->device), .src_on = (uint8_t)(1 + sc->device)};

    return one_row(&c, SG_PLACE_DEVICE, SG_PLACE_DEVICE, stream, async);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc, size_t n)
{
    return peer(d, dc, s, sc, n, SG_LEGACY, false);
}

CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc,
                                   size_t n)
{
    return peer(d, dc, s, sc, n, SG_PER_THREAD, false);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc,
                                   size_t n, CUstream stream)
{
    return peer(d, dc, s, sc, n, stream, true);
}

CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr d, CUcontext dc, CUdeviceptr s, CUcontext sc,
                                        size_t n, CUstream stream)
{
    return peer(d, dc, s, sc, n, SG_PTSZ(stream), true);
}
