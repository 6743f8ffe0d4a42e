/* SPDX-License-Identifier: MIT */
/*
 * Copies and memsets by kernels: children of the grid, in the order of the calls. Copies and memsets of rows
 * need two instructions for their operands: the first names the memory, cdp.rows the rows and the stream.
 */
#include "exec/cdp/cdp.h"
#include "exec/heap.h"
#include "exec/code.h"
#include "memory/grace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends the child to the grid's children. Under the lock. */
static void append_child(struct sg_children *k, struct sg_child *c)
{
    c->next = NULL;
    *k->last = c;
    k->last = &c->next;
}

/* Queues a child, which is freed if there is no room for it. */
static u32 queue_child(const struct sg_launch *l, struct sg_child *c)
{
    struct sg_children *k = l->children;
    bool room;

    pthread_mutex_lock(&k->lock);
    room = sg_cdp_count(l, k);
    if (room)
        append_child(k, c);
    pthread_mutex_unlock(&k->lock);
    if (!room)
        free(c);
    return room ? 0 : E_PENDING;
}

static u32 memory_launch(const struct sg_launch *l, u64 to, u64 from, int value, u64 bytes, u64 stream)
{
    struct sg_child *c = calloc(1, sizeof(*c));

    if (!c)
        return E_MEMORY;
    c->to = to;
    c->from = from;
    c->value = value;
    c->width = bytes;
    c->height = c->slices = 1;
    c->tail = stream == STREAM_TAIL;
    return queue_child(l, c);
}

HANDLER(cdp_memcpy)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(
            w, i,
            memory_launch(w->cta->launch, SRC(u64, a)[i], SRC(u64, b)[i], -1, SRC(u64, c)[i], SRC(u64, e)[i]),
            &cost);
    }
    return sg_charge(w, in, cost);
}

HANDLER(cdp_memset)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i,
                            memory_launch(w->cta->launch, SRC(u64, a)[i], 0, (int)(SRC(u32, b)[i] & 255),
                                          SRC(u64, c)[i], SRC(u64, e)[i]),
                            &cost);
    }
    return sg_charge(w, in, cost);
}

/* Makes a child that waits for its rows. Returns its name, or 0: too many, or out of memory. */
static u64 rows_begin(const struct sg_launch *l, const struct sg_child *what)
{
    struct sg_children *k = l->children;
    struct sg_child *c = malloc(sizeof(*c));
    u64 name = 0;

    if (!c)
        return 0;
    *c = *what;
    c->slices = 1;
    pthread_mutex_lock(&k->lock);
    if (sg_cdp_count(l, k)) {
        name = c->buffer = 2 * ++k->rects + 1;
        c->next = k->waiting;
        k->waiting = c;
    }
    pthread_mutex_unlock(&k->lock);
    if (!name)
        free(c);
    return name;
}

HANDLER(cdp_copy_rows)
{
    u64 *d = DST(u64, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = rows_begin(w->cta->launch, &(struct sg_child){.to = SRC(u64, a)[i],
                                                             .to_pitch = SRC(u64, b)[i],
                                                             .from = SRC(u64, c)[i],
                                                             .from_pitch = SRC(u64, e)[i],
                                                             .value = -1});
    }
    return SG_NEXT;
}

HANDLER(cdp_set_rows)
{
    u64 *d = DST(u64, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = rows_begin(w->cta->launch, &(struct sg_child){.to = SRC(u64, a)[i],
                                                             .to_pitch = SRC(u64, b)[i],
                                                             .value = (int)(SRC(u32, c)[i] & 255)});
    }
    return SG_NEXT;
}

HANDLER(cdp_slices)
{
    struct sg_children *k = w->cta->launch->children;
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        struct sg_child **p;

        pthread_mutex_lock(&k->lock);
        p = sg_cdp_waiting(k, SRC(u64, a)[i], false, &cost);
        if (p) {
            (*p)->to_slice = SRC(u64, b)[i] * (*p)->to_pitch;
            (*p)->slices = SRC(u64, c)[i];
        }
        pthread_mutex_unlock(&k->lock);
    }
    return sg_charge(w, in, cost);
}

/* cudaMemcpy3DParms */
struct box {
    u64 from_array, from_x, from_y, from_z, from, from_pitch, from_width, from_rows;
    u64 to_array, to_x, to_y, to_z, to, to_pitch, to_width, to_rows;
    u64 width, height, depth;
    u32 kind;
};

/* Kernels copy between pointers only; arrays are the host's. */
static u32 box_launch(const struct sg_launch *l, const struct box *b, u64 stream)
{
    struct sg_child *c;

    if (b->from_array || b->to_array)
        return E_INVALID;
    if (b->width > b->from_pitch || b->from_x > b->from_pitch - b->width || b->width > b->to_pitch ||
        b->to_x > b->to_pitch - b->width)
        return E_PITCH;
    c = calloc(1, sizeof(*c));
    if (!c)
        return E_MEMORY;
    *c = (struct sg_child){.to_pitch = b->to_pitch,
                           .from_pitch = b->from_pitch,
                           .to_slice = b->to_pitch * b->to_rows,
                           .from_slice = b->from_pitch * b->from_rows,
                           .width = b->width,
                           .height = b->height,
                           .slices = b->depth,
                           .value = -1,
                           .tail = stream == STREAM_TAIL};
    c->to = b->to + b->to_x + b->to_y * c->to_pitch + b->to_z * c->to_slice;
    c->from = b->from + b->from_x + b->from_y * c->from_pitch + b->from_z * c->from_slice;
    return queue_child(l, c);
}

HANDLER(cdp_copy_box)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        struct box b;

        if (!sg_lane_read(w, in, i, SG_SP_GENERIC, SRC(u64, a)[i], &b, sizeof(b)))
            return SG_FAULTED;
        d[i] = sg_cdp_error(w, i, box_launch(w->cta->launch, &b, SRC(u64, b)[i]), &cost);
    }
    return sg_charge(w, in, cost);
}

/* Wider rows than a pitch are an error of the call. */
static u32 rows_launch(struct sg_children *k, u64 name, u64 width, u64 height, u64 stream, u64 *cost)
{
    struct sg_child **p, *c;
    u32 r = E_PENDING;

    pthread_mutex_lock(&k->lock);
    p = sg_cdp_waiting(k, name, false, cost);
    c = p ? *p : NULL;
    if (c) {
        r = width > c->to_pitch || (c->value < 0 && width > c->from_pitch) ? E_PITCH : 0;
        *p = c->next;
        c->width = r ? 0 : width;
        c->height = height;
        c->tail = stream == STREAM_TAIL;
        append_child(k, c);
    }
    pthread_mutex_unlock(&k->lock);
    return r;
}

HANDLER(cdp_rows)
{
    u32 *d = DST(u32, d);
    u64 cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i,
                            rows_launch(w->cta->launch->children, SRC(u64, a)[i], SRC(u64, b)[i],
                                        SRC(u64, c)[i], SRC(u64, e)[i], &cost),
                            &cost);
    }
    return sg_charge(w, in, cost);
}

static bool reach_memory(const struct sg_launch *l, u64 at, u64 n, bool write)
{
    struct sg_mem_range hit;
    u64 base, end;

    sg_heap_range(&base, &end);
    return (end && sg_span_has(base, end - base, at, n)) || sg_mem_check(l->mem, at, n, write, &hit);
}

/* Returns false, with the fault filled in, if the memory of that row is not the device's. */
static bool run_row(const struct sg_launch *l, struct sg_fault *fault, const struct sg_child *c, u64 slice,
                    u64 row)
{
    const u64 to = c->to + slice * c->to_slice + row * c->to_pitch;
    const u64 from = c->from + slice * c->from_slice + row * c->from_pitch;
    const bool copy = c->value < 0;

    if (!reach_memory(l, to, c->width, true) || (copy && !reach_memory(l, from, c->width, false))) {
        memset(fault, 0, sizeof(*fault));
        fault->result = SG_ERR_ADDRESS;
        snprintf(fault->message, sizeof(fault->message),
                 "%s of %llu bytes by a kernel: to 0x%llx%s: no memory of the device",
                 copy ? "copy" : "memset", (unsigned long long)c->width, (unsigned long long)to,
                 copy ? ", or from where it comes" : "");
        return false;
    }
    if (copy)
        memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, c->width);
    else
        memset((void *)(uintptr_t)to, c->value, c->width);
    return true;
}

#define STEP_BYTES 512u /* largest store of a warp's instruction: 16 bytes per lane */

/* The limit of instructions and the end of the context hold for the rows as for the threads of a grid. */
static int row_may_run(const struct sg_launch *l, struct sg_fault *fault, u64 bytes, uint64_t *taken)
{
    const int r = sg_cdp_may_go_on(l, fault, *taken);

    *taken += 1 + bytes / STEP_BYTES;
    return r;
}

int sg_cdp_run_memory(const struct sg_launch *l, struct sg_fault *fault, const struct sg_child *c,
                      uint64_t *taken)
{
    int r = 0;

    if (!c->width || !c->height)
        return 0;
    for (u64 slice = 0; !r && slice < c->slices; slice++) {
        for (u64 row = 0; !r && row < c->height; row++) {
            r = row_may_run(l, fault, c->width, taken);
            sg_grace_enter();
            if (!r && !run_row(l, fault, c, slice, row))
                r = fault->result;
            sg_grace_leave();
        }
    }
    return r;
}

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cdp_memory[] = {
#include "exec/cdp/memory.def"
    {0},
};
