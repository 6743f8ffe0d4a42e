/* SPDX-License-Identifier: MIT */
/*
 * Copies and memsets by kernels: children of the grid, in the order of the calls. Those of rows have more
 * operands than an instruction: a first instruction names the memory, cdp.rows the rows and the stream.
 */
#include "exec/cdp/cdp.h"
#include "exec/heap.h"
#include "exec/code.h"
#include "memory/grace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends the child to those of the grid. Under the lock. */
static void append_child(struct sg_children *k, struct sg_child *c)
{
    c->next = NULL;
    *k->last = c;
    k->last = &c->next;
}

static u32 memory_launch(const struct sg_launch *l, u64 to, u64 from, int value, u64 bytes, u64 stream)
{
    struct sg_children *k = l->children;
    struct sg_child *c = calloc(1, sizeof(*c));
    bool room;

    if (!c)
        return E_MEMORY;
    c->to = to;
    c->from = from;
    c->value = value;
    c->width = bytes;
    c->height = 1;
    c->tail = stream == STREAM_TAIL;
    pthread_mutex_lock(&k->lock);
    room = sg_cdp_count(l, k);
    if (room)
        append_child(k, c);
    pthread_mutex_unlock(&k->lock);
    if (!room)
        free(c);
    return room ? 0 : E_PENDING;
}

HANDLER(cdp_memcpy)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i,
                            memory_launch(w->cta->launch, SRC(u64, a)[i], SRC(u64, b)[i], -1, SRC(u64, c)[i],
                                          SRC(u64, e)[i]));
    }
    return SG_NEXT;
}

HANDLER(cdp_memset)
{
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i,
                            memory_launch(w->cta->launch, SRC(u64, a)[i], 0, (int)(SRC(u32, b)[i] & 255),
                                          SRC(u64, c)[i], SRC(u64, e)[i]));
    }
    return SG_NEXT;
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

/* Wider rows than a pitch are an error of the call. */
static u32 rows_launch(struct sg_children *k, u64 name, u64 width, u64 height, u64 stream)
{
    struct sg_child **p, *c;
    u32 r = E_PENDING;

    pthread_mutex_lock(&k->lock);
    p = sg_cdp_waiting(k, name, false);
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

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        d[i] = sg_cdp_error(w, i,
                            rows_launch(w->cta->launch->children, SRC(u64, a)[i], SRC(u64, b)[i],
                                        SRC(u64, c)[i], SRC(u64, e)[i]));
    }
    return SG_NEXT;
}

static bool reach_memory(const struct sg_launch *l, u64 at, u64 n, bool write)
{
    struct sg_mem_range hit;
    u64 base, end;

    sg_heap_range(&base, &end);
    return (end && sg_span_has(base, end - base, at, n)) || sg_mem_check(l->mem, at, n, write, &hit);
}

/* Returns false, with the fault filled in, if the memory of that row is not the device's. */
static bool run_row(const struct sg_launch *l, struct sg_fault *fault, const struct sg_child *c, u64 row)
{
    const u64 to = c->to + row * c->to_pitch, from = c->from + row * c->from_pitch;
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

int sg_cdp_run_memory(const struct sg_launch *l, struct sg_fault *fault, const struct sg_child *c)
{
    bool ok = true;

    if (!c->width)
        return 0;
    /* A copy of billions of rows ends early with its context. */
    for (u64 row = 0; ok && row < c->height && !(l->abort_flag && *l->abort_flag); row++) {
        sg_grace_enter();
        ok = run_row(l, fault, c, row);
        sg_grace_leave();
    }
    return ok ? 0 : fault->result;
}

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cdp_memory[] = {
#include "exec/cdp/memory.def"
    {0},
};
