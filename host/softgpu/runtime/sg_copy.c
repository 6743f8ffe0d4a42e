/* SPDX-License-Identifier: MIT */
/*
 * Copies. Every form becomes a struct sg_copy of rows and slices; device addresses are host
 * addresses, so the work itself is memmove.
 *
 * The time at which control returns to the caller follows the API Synchronization Behavior chapter
 * of the driver API manual: an asynchronous copy from pageable memory returns when the source may
 * be reused, a copy to pageable memory when it is complete, other copies at once.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/bulk/bulk.h"
#include "memory/grace.h"
#include "runtime/runtime.h"

/* A copy from pageable memory that must wait is staged up to this size; larger copies are waited
   for. */
#define SG_STAGE_BYTES (16u << 20)
#define SG_STAGE_TOTAL (64u << 20) /* bytes staged in the process at a time; beyond: waited for */

static _Atomic size_t staged_total;

/* True for memory that was made read-only after the copy was issued. Memory registered as
   read-only does not count: only the device must not write it. */
static bool read_only(const struct sg_copy *c)
{
    size_t z = c->depth - 1, y = c->height - 1;
    struct sg_mem_info info = {.writable = true};

    return !c->dst_array && !c->dst_pageable &&
           sg_mem_covers(PTR(c->dst), z * c->dst_slice + y * c->dst_pitch + c->width, &info) &&
           !info.writable && info.kind != SG_MEM_REGISTERED;
}

/* Checks that the device of each side has access to it. Arrays can be used only by their
   context's device. */
static bool copy_is_reachable(const struct sg_copy *c, const struct sg_stream *s)
{
    size_t z = c->depth - 1, y = c->height - 1;

    if (c->generation != __atomic_load_n(&sg_mem_generation, __ATOMIC_SEQ_CST) && read_only(c))
        return false;
    return (c->dst_array || sg_mem_reachable(c->dst_on ? c->dst_on - 1 : s->ctx->device, PTR(c->dst),
                                             z * c->dst_slice + y * c->dst_pitch + c->width, true)) &&
           (c->src_array || sg_mem_reachable(c->src_on ? c->src_on - 1 : s->ctx->device, PTR(c->src),
                                             z * c->src_slice + y * c->src_pitch + c->width, false));
}

/* Memory that is private when a copy is issued stays private, and no memory becomes private once
   copies exist. */
static bool there_still(uint64_t addr, uint64_t span)
{
    struct sg_mem_info info;

    return sg_mem_covers(addr, span, &info) || sg_mem_is_private(addr, span);
}

/*
 * Repeats the look-ups made when the copy was issued. Meanwhile the memory may have been freed,
 * unmapped or unregistered, even through another context, and the system may have reused its
 * addresses.
 */
static bool is_still_there(const struct sg_copy *c)
{
    size_t z = c->depth - 1, y = c->height - 1;

    if (c->generation && c->generation == __atomic_load_n(&sg_mem_generation, __ATOMIC_SEQ_CST))
        return true; /* nothing was removed; later removals wait for this copy: memory/grace.h */
    return (c->dst_array || c->dst_pageable ||
            there_still(PTR(c->dst), z * c->dst_slice + y * c->dst_pitch + c->width)) &&
           (c->src_array || c->src_pageable ||
            there_still(PTR(c->src), z * c->src_slice + y * c->src_pitch + c->width));
}

static __thread bool past_caches;

void sg_copy_past_caches(bool past)
{
    past_caches = past;
}

static bool is_apart(const uint8_t *a, const uint8_t *b, size_t n)
{
    return a < b ? (size_t)(b - a) >= n : (size_t)(a - b) >= n;
}

static void move_bytes(const struct sg_copy *c)
{
    if (c->past && c->height == 1 && c->depth == 1 && is_apart(c->dst, c->src, c->width)) {
        blk_copy_past(c->dst, c->src, c->width);
        return;
    }
    for (size_t z = 0; z < c->depth; z++) {
        for (size_t y = 0; y < c->height; y++)
            memmove(c->dst + z * c->dst_slice + y * c->dst_pitch,
                    c->src + z * c->src_slice + y * c->src_pitch, c->width);
    }
}

static CUresult copy_run(struct sg_op *op, struct sg_stream *s)
{
    const struct sg_copy *c = &((struct sg_copy_op *)op)->c;
    CUresult r = CUDA_SUCCESS;

    sg_grace_enter();
    if (sg_graph_memory_dormant((uint64_t)(uintptr_t)c->dst) ||
        sg_graph_memory_dormant((uint64_t)(uintptr_t)c->src))
        r = sg_graph_memory_fault(s, "copy");
    else if (!is_still_there(c))
        r = sg_gone(s, "copy");
    else if (!copy_is_reachable(c, s))
        r = sg_unreachable(s, "copy");
    else
        move_bytes(c);
    sg_grace_leave();
    return r;
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

/* Packs the source into private memory. Returns false if there is not enough. */
static bool stage_source(struct sg_copy_op *o)
{
    struct sg_copy pack = o->c;
    size_t bytes = o->c.width * o->c.height * o->c.depth;

    if (bytes > SG_STAGE_BYTES)
        return false;
    if (atomic_fetch_add(&staged_total, bytes) > SG_STAGE_TOTAL - bytes || !(o->staged = malloc(bytes))) {
        atomic_fetch_sub(&staged_total, bytes);
        return false;
    }
    o->staged_bytes = bytes;
    pack.dst = o->staged;
    pack.dst_pitch = pack.width;
    pack.dst_slice = pack.width * pack.height;
    move_bytes(&pack);
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
    CUresult r = (uintptr_t)stream > 2 ? sg_stream_get_any(stream, &s) : sg_stream_get(ctx, stream, &s);
    struct sg_copy_op *o;

    if (r != CUDA_SUCCESS)
        return r;
    o = sg_copy_new(c);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->c.src_pageable = src_pageable;
    o->c.dst_pageable = dst_pageable;
    o->c.past = past_caches;
    if (async && atomic_load(&sg_captures) && sg_hooks->front_captured(s->front)) {
        mode = SG_ISSUE_ASYNC; /* a node reads its source when the graph runs */
    } else if (async && !dst_pageable) {
        if (!src_pageable)
            mode = bytes <= SG_INLINE_BYTES ? SG_ISSUE_INLINE : SG_ISSUE_ASYNC;
        else if (!sg_stream_idle(s) && stage_source(o))
            mode = SG_ISSUE_ASYNC;
    }
    return sg_issue(s, &o->op, mode);
}

/* ---- checks ---- */

CUresult sg_copy_check(enum sg_place place, uint64_t addr, uint64_t span, bool write, bool *pageable)
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
                           (unsigned long long)span, (unsigned long long)addr, (unsigned long long)info.size);
        if (write && !info.writable && place != SG_PLACE_HOST)
            return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
    }
    if (place == SG_PLACE_HOST && sg_mem_is_private(addr, span))
        return CUDA_SUCCESS;
    /* Pageable memory may reach into pinned memory (driver 580). */
    if (span > 1 && addr + span - 1 > addr && sg_mem_find(addr + span - 1, &info) &&
        (place == SG_PLACE_DEVICE || (info.kind != SG_MEM_HOST && info.kind != SG_MEM_REGISTERED)))
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "copy of %llu bytes at 0x%llx ends in an allocation where it does not begin",
                       (unsigned long long)span, (unsigned long long)addr);
    if (place == SG_PLACE_DEVICE || sg_mem_in_arena(addr))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "copy at 0x%llx: no device memory there",
                       (unsigned long long)addr);
    /* The kernel is asked whether the memory is mapped if the call does not specify its kind, or
       if the cost is negligible beside the copy. */
    if (((place == SG_PLACE_ANY || span >= SG_ASK_ABOVE) && !sg_host_mapped(addr, span)) ||
        (place == SG_PLACE_ANY && sg_mem_is_private(addr, 1)))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "copy at 0x%llx: no memory there", (unsigned long long)addr);
    *pageable = true;
    return CUDA_SUCCESS;
}
