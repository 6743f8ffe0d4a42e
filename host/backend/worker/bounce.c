/* SPDX-License-Identifier: MIT */
/*
 * Private copies of data that travelled inside records, while the provider still reads them, and of
 * results that will travel inside replies. The memory is registered with the provider (pinned), so
 * that its copies are asynchronous: from pageable memory they would block the dispatcher.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS_BYTES ((uint64_t)VGP_REPLY_SLOTS * VGB_BOUNCE_SLOT)
/* Sources outside the ring; beyond this the dispatcher waits for the oldest copy. */
#define CHUNK_BYTES_MAX (64u << 20)
/* An open batch is closed after this much: an event per megabyte, not per copy. */
#define BATCH_BYTES (1u << 20)

static bool ensure(struct vgb_bounce *b)
{
    if (b->base)
        return true;
    void *p = mmap(NULL, SLOTS_BYTES + VGB_BOUNCE_RING, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    b->base = p;
    return true;
}

void vgb_bounce_register(struct vgb_worker *w)
{
    struct vgb_bounce *b = &w->bounce;

    if (b->registered || !vgb_cu.MemHostRegister || !w->current || !ensure(b))
        return;
    b->registered = w->current;
    /* Not registered, they still work, more slowly: no error. */
    vgb_cu.MemHostRegister(b->base, SLOTS_BYTES + VGB_BOUNCE_RING, CU_MEMHOSTREGISTER_PORTABLE);
    vgb_cu.MemHostRegister(w->win.base + w->win.staging_offset, w->win.staging_size,
                           CU_MEMHOSTREGISTER_PORTABLE);
}

static struct vgb_batch *last_batch(struct vgb_bounce *b)
{
    return &b->batch[(b->first + b->n - 1) % VGB_BATCHES];
}

static void pop(struct vgb_worker *w)
{
    struct vgb_bounce *b = &w->bounce;
    struct vgb_batch *t = &b->batch[b->first];

    if (t->event)
        vgb_wait_free(w, t->event);
    while (t->chunks) {
        struct vgb_chunk *c = t->chunks;

        t->chunks = c->next;
        free(c);
    }
    b->tail += t->ring_bytes;
    b->chunk_bytes -= t->chunk_bytes;
    b->first = (b->first + 1) % VGB_BATCHES;
    b->n--;
}

void vgb_bounce_flush(struct vgb_worker *w)
{
    struct vgb_bounce *b = &w->bounce;
    CUcontext before = w->current;

    if (!b->open)
        return;
    vgb_set_context(w, b->ctx);
    last_batch(b)->event = vgb_wait_mark(w, b->stream);
    vgb_set_context(w, before);
    b->open = false;
}

void vgb_bounce_poll(struct vgb_worker *w)
{
    struct vgb_bounce *b = &w->bounce;

    while (b->n && !(b->open && b->n == 1)) {
        struct vgb_batch *t = &b->batch[b->first];

        if (t->event && !vgb_wait_done(t->event))
            return;
        pop(w);
    }
}

/* Frees the oldest closed batch, waiting for it. */
static void pop_oldest(struct vgb_worker *w)
{
    vgb_bounce_flush(w);
    if (!w->bounce.n)
        return;
    if (w->bounce.batch[w->bounce.first].event)
        vgb_wait_block(w->bounce.batch[w->bounce.first].event);
    pop(w);
}

void vgb_bounce_drain(struct vgb_worker *w)
{
    while (w->bounce.n)
        pop_oldest(w);
}

static struct vgb_batch *open_batch(struct vgb_worker *w, CUstream stream)
{
    struct vgb_bounce *b = &w->bounce;
    struct vgb_batch *t;

    if (b->open) {
        t = last_batch(b);
        if (b->stream == stream && b->ctx == w->current &&
            t->ring_bytes + t->chunk_bytes < BATCH_BYTES)
            return t;
        vgb_bounce_flush(w);
    }
    vgb_bounce_poll(w);
    if (b->n == VGB_BATCHES)
        pop_oldest(w);
    b->n++;
    t = last_batch(b);
    memset(t, 0, sizeof(*t));
    b->open = true;
    b->stream = stream;
    b->ctx = w->current;
    return t;
}

/* `size` contiguous bytes of the ring, or NULL. */
static void *ring_take(struct vgb_bounce *b, struct vgb_batch *t, uint32_t size)
{
    uint64_t pos = b->head % VGB_BOUNCE_RING;
    uint64_t skip = VGB_BOUNCE_RING - pos < size ? VGB_BOUNCE_RING - pos : 0;

    if (VGB_BOUNCE_RING - (b->head - b->tail) < skip + size)
        return NULL;
    b->head += skip + size;
    t->ring_bytes += skip + size;
    return b->base + SLOTS_BYTES + (b->head - size) % VGB_BOUNCE_RING;
}

void *vgb_bounce_source(struct vgb_worker *w, CUstream stream, uint32_t size)
{
    struct vgb_bounce *b = &w->bounce;
    struct vgb_batch *t;

    if (!ensure(b))
        return NULL;
    size = (size + 63) & ~63u;
    while (b->chunk_bytes > CHUNK_BYTES_MAX)
        pop_oldest(w);
    t = open_batch(w, stream);
    void *p = ring_take(b, t, size);
    if (p)
        return p;
    struct vgb_chunk *chunk = malloc(sizeof(*chunk) + size);
    if (!chunk)
        return NULL;
    chunk->next = t->chunks;
    chunk->size = size;
    t->chunks = chunk;
    t->chunk_bytes += size;
    b->chunk_bytes += size;
    return chunk->data;
}

void *vgb_bounce_result(struct vgb_worker *w, uint32_t slot)
{
    if (slot >= VGP_REPLY_SLOTS || !ensure(&w->bounce))
        return NULL;
    return w->bounce.base + (size_t)slot * VGB_BOUNCE_SLOT;
}
