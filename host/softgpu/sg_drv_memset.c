/* SPDX-License-Identifier: MIT */
/* Driver API: memset, in rows of 8, 16 or 32 bit elements. */
#include <stdlib.h>
#include <string.h>

#include "sg_graph.h"

#define SG_INLINE_BYTES (1u << 20) /* as for copies: see sg_drv_memcpy.c */

struct set_op {
    struct sg_op op;
    uint8_t *dst;
    size_t pitch, width, height; /* pitch in bytes, width in elements */
    unsigned elem;               /* bytes */
    uint32_t value;
    bool device; /* all of it is device memory */
};

static void fill_row(uint8_t *p, size_t n, unsigned elem, uint32_t value)
{
    uint32_t v = elem == 1 ? (value & 0xff) * 0x01010101u
               : elem == 2 ? (value & 0xffff) * 0x00010001u : value;

    if (v == (v & 0xff) * 0x01010101u) {
        memset(p, (int)(v & 0xff), n * elem);
    } else if (elem == 2) {
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)p)[i] = (uint16_t)value;
    } else {
        for (size_t i = 0; i < n; i++)
            ((uint32_t *)p)[i] = value;
    }
}

static CUresult set_run(struct sg_op *op, struct sg_stream *s)
{
    const struct set_op *o = (const struct set_op *)op;

    if (sg_gmem_dormant((uint64_t)(uintptr_t)o->dst))
        return sg_gmem_fault(s, "memset");
    if (!sg_mem_reachable(s->ctx->device, (uint64_t)(uintptr_t)o->dst,
                          (o->height - 1) * o->pitch + o->width * o->elem, true))
        return sg_unreachable(s, "memset");
    for (size_t y = 0; y < o->height; y++)
        fill_row(o->dst + y * o->pitch, o->width, o->elem, o->value);
    return CUDA_SUCCESS;
}

static void set_drop(struct sg_op *op)
{
    free(op);
}

static CUresult build(CUdeviceptr dst, size_t pitch, unsigned elem, uint32_t value, size_t width,
                      size_t height, struct set_op **out)
{
    struct sg_mem_info info;
    uint64_t row, span;
    struct set_op *o;

    if (dst % elem || (height > 1 && pitch % elem) ||
        __builtin_mul_overflow((uint64_t)width, elem, &row) || (height > 1 && pitch < row) ||
        __builtin_mul_overflow((uint64_t)pitch, height - 1, &span) ||
        __builtin_add_overflow(span, row, &span))
        return CUDA_ERROR_INVALID_VALUE;
    if (!dst || !sg_mem_covers(dst, span, &info) || !info.writable)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "memset of %llu bytes at 0x%llx: not in one "
                       "allocation", (unsigned long long)span, (unsigned long long)dst);
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = set_run;
    o->op.node_type = CU_GRAPH_NODE_TYPE_MEMSET;
    o->op.drop = set_drop;
    o->dst = (uint8_t *)dst;
    o->device = info.kind == SG_MEM_DEVICE;
    o->pitch = pitch;
    o->width = width;
    o->height = height;
    o->elem = elem;
    o->value = value;
    *out = o;
    return CUDA_SUCCESS;
}

CUresult sg_set_op(const CUDA_MEMSET_NODE_PARAMS *p, struct sg_op **out)
{
    struct set_op *o;
    CUresult r;

    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
        !p->height)
        return CUDA_ERROR_INVALID_VALUE;
    r = build(p->dst, p->pitch, p->elementSize, p->value, p->width, p->height, &o);
    if (r == CUDA_SUCCESS)
        *out = &o->op;
    return r;
}

void sg_set_describe(struct sg_op *op, CUDA_MEMSET_NODE_PARAMS *p)
{
    const struct set_op *o = (const struct set_op *)op;

    *p = (CUDA_MEMSET_NODE_PARAMS){.dst = (CUdeviceptr)(uintptr_t)o->dst,
                                   .pitch = o->pitch,
                                   .value = o->value,
                                   .elementSize = o->elem,
                                   .width = o->width,
                                   .height = o->height};
}

static CUresult set(CUdeviceptr dst, size_t pitch, unsigned elem, uint32_t value, size_t width,
                    size_t height, CUstream stream, bool async)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct set_op *o;
    CUresult r;

    SG_CTX(ctx);
    if (!width || !height)
        return CUDA_SUCCESS;
    r = sg_stream_get(ctx, stream, &s);
    if (r == CUDA_SUCCESS)
        r = build(dst, pitch, elem, value, width, height, &o);
    if (r != CUDA_SUCCESS)
        return r;
    /*
     * CUDA's "API synchronization behavior": a memset of device memory is asynchronous in both forms,
     * of host memory only in the Async one.
     */
    return sg_issue(s, &o->op, !async && !o->device ? SG_ISSUE_SYNC
                               : width * height <= SG_INLINE_BYTES / elem ? SG_ISSUE_INLINE
                                                                          : SG_ISSUE_ASYNC);
}

/* The five variants of each width: sync, its per-thread twin, and the same for Async and 2D. */
#define SG_MEMSET(BITS, TYPE)                                                                      \
    CUresult CUDAAPI cuMemsetD##BITS##_v2(CUdeviceptr d, TYPE v, size_t n)                         \
    {                                                                                              \
        return set(d, 0, BITS / 8, v, n, 1, SG_LEGACY, false);                                     \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD##BITS##_v2_ptds(CUdeviceptr d, TYPE v, size_t n)                    \
    {                                                                                              \
        return set(d, 0, BITS / 8, v, n, 1, SG_PER_THREAD, false);                                 \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD##BITS##Async(CUdeviceptr d, TYPE v, size_t n, CUstream s)           \
    {                                                                                              \
        return set(d, 0, BITS / 8, v, n, 1, s, true);                                              \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD##BITS##Async_ptsz(CUdeviceptr d, TYPE v, size_t n, CUstream s)      \
    {                                                                                              \
        return set(d, 0, BITS / 8, v, n, 1, SG_PTSZ(s), true);                                     \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD2D##BITS##_v2(CUdeviceptr d, size_t p, TYPE v, size_t w, size_t h)   \
    {                                                                                              \
        return set(d, p, BITS / 8, v, w, h, SG_LEGACY, false);                                     \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD2D##BITS##_v2_ptds(CUdeviceptr d, size_t p, TYPE v, size_t w,        \
                                                 size_t h)                                         \
    {                                                                                              \
        return set(d, p, BITS / 8, v, w, h, SG_PER_THREAD, false);                                 \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD2D##BITS##Async(CUdeviceptr d, size_t p, TYPE v, size_t w, size_t h, \
                                              CUstream s)                                          \
    {                                                                                              \
        return set(d, p, BITS / 8, v, w, h, s, true);                                              \
    }                                                                                              \
    CUresult CUDAAPI cuMemsetD2D##BITS##Async_ptsz(CUdeviceptr d, size_t p, TYPE v, size_t w,      \
                                                   size_t h, CUstream s)                           \
    {                                                                                              \
        return set(d, p, BITS / 8, v, w, h, SG_PTSZ(s), true);                                     \
    }

SG_MEMSET(8, unsigned char)
SG_MEMSET(16, unsigned short)
SG_MEMSET(32, unsigned int)
