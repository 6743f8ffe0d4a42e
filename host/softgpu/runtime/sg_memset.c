/* SPDX-License-Identifier: MIT */
/* Memset, in rows of 8, 16 or 32 bit elements. */
#include <stdlib.h>
#include <string.h>

#include "memory/grace.h"
#include "runtime/runtime.h"

struct set_op {
    struct sg_op op;
    uint8_t *dst;
    size_t pitch, width, height; /* pitch in bytes, width in elements */
    unsigned elem;               /* bytes */
    uint32_t value;
    bool device; /* the whole range is device memory */
};

static void fill_row(uint8_t *p, size_t n, unsigned elem, uint32_t value)
{
    uint32_t v = elem == 1   ? (value & 0xff) * 0x01010101u
                 : elem == 2 ? (value & 0xffff) * 0x00010001u
                             : value;

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
    const uint64_t dst = (uint64_t)(uintptr_t)o->dst, span = (o->height - 1) * o->pitch + o->width * o->elem;
    struct sg_mem_info info;
    CUresult r = CUDA_SUCCESS;

    sg_grace_enter();
    if (sg_graph_memory_dormant(dst))
        r = sg_graph_memory_fault(s, "memset");
    else if (!sg_mem_covers(dst, span, &info))
        r = sg_gone(s, "memset");
    else if (!info.writable || !sg_mem_reachable(s->ctx->device, dst, span, true))
        r = sg_unreachable(s, "memset");
    for (size_t y = 0; y < o->height && r == CUDA_SUCCESS; y++)
        fill_row(o->dst + y * o->pitch, o->width, o->elem, o->value);
    sg_grace_leave();
    return r;
}

static void set_drop(struct sg_op *op)
{
    free(op);
}

static CUresult build_memset(CUdeviceptr dst, size_t pitch, unsigned elem, uint32_t value, size_t width,
                             size_t height, struct set_op **out)
{
    struct sg_mem_info info;
    uint64_t row, span;
    struct set_op *o;

    if (dst % elem || (height > 1 && pitch % elem) || __builtin_mul_overflow((uint64_t)width, elem, &row) ||
        (height > 1 && pitch < row) || __builtin_mul_overflow((uint64_t)pitch, height - 1, &span) ||
        __builtin_add_overflow(span, row, &span))
        return CUDA_ERROR_INVALID_VALUE;
    if (!dst || !sg_mem_covers(dst, span, &info) || !info.writable)
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "memset of %llu bytes at 0x%llx: not in one "
                       "allocation",
                       (unsigned long long)span, (unsigned long long)dst);
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

    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width || !p->height)
        return CUDA_ERROR_INVALID_VALUE;
    r = build_memset(p->dst, p->pitch, p->elementSize, p->value, p->width, p->height, &o);
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

CUresult sg_set_issue(struct sg_ctx *ctx, CUstream stream, const CUDA_MEMSET_NODE_PARAMS *p, bool async)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct set_op *o;
    CUresult r = sg_stream_get(ctx, stream, &s);

    if (r == CUDA_SUCCESS)
        r = build_memset(p->dst, p->pitch, p->elementSize, p->value, p->width, p->height, &o);
    if (r != CUDA_SUCCESS)
        return r;
    /*
     * CUDA's "API synchronization behavior": a memset of device memory is asynchronous in both
     * forms, a memset of host memory only in the Async form.
     */
    return sg_issue(s, &o->op,
                    !async && !o->device                                       ? SG_ISSUE_SYNC
                    : p->width * p->height <= SG_INLINE_BYTES / p->elementSize ? SG_ISSUE_INLINE
                                                                               : SG_ISSUE_ASYNC);
}
