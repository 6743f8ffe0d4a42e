/* SPDX-License-Identifier: MIT */
/* Data larger than a record (module images), sent ahead in pieces. Bounded per client. */
#include "worker.h"

#include <stdlib.h>
#include <string.h>

static struct vgb_blob *find(struct vgb_worker *w, uint32_t id)
{
    for (unsigned i = 0; i < VGB_BLOBS_MAX; i++) {
        if (w->blobs.list[i].used && w->blobs.list[i].id == id)
            return &w->blobs.list[i];
    }
    return NULL;
}

static struct vgb_blob *start(struct vgb_worker *w, uint32_t id, uint64_t total, CUresult *r)
{
    struct vgb_blobs *bs = &w->blobs;

    *r = CUDA_ERROR_OUT_OF_MEMORY;
    if (bs->bytes + total > VGB_BLOB_TOTAL)
        return NULL;
    for (unsigned i = 0; i < VGB_BLOBS_MAX; i++) {
        struct vgb_blob *b = &bs->list[i];

        if (b->used)
            continue;
        /* One byte more, NUL: PTX text and names are strings to the provider. */
        b->data = malloc(total + 1);
        if (!b->data)
            return NULL;
        b->data[total] = 0;
        b->used = true;
        b->id = id;
        b->total = total;
        b->filled = 0;
        bs->bytes += total;
        return b;
    }
    return NULL;
}

static void drop(struct vgb_worker *w, struct vgb_blob *b)
{
    w->blobs.bytes -= b->total;
    free(b->data);
    memset(b, 0, sizeof(*b));
}

CUresult vgb_blob_append(struct vgb_worker *w, uint32_t id, uint64_t total, const void *data,
                         uint32_t size)
{
    struct vgb_blob *b = find(w, id);
    CUresult r;

    if (!b) {
        if (!total || total > VGP_BLOB_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        if (w->blobs.refused == id + 1)
            return CUDA_ERROR_OUT_OF_MEMORY;
        b = start(w, id, total, &r);
        if (!b) {
            w->blobs.refused = id + 1;
            return r;
        }
    }
    if (b->total != total || !vgp_range_ok(b->filled, size, b->total)) {
        drop(w, b);
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(b->data + b->filled, data, size);
    b->filled += size;
    return CUDA_SUCCESS;
}

void vgb_blob_drop(struct vgb_worker *w, uint32_t id)
{
    struct vgb_blob *b = find(w, id);

    if (b)
        drop(w, b);
}

CUresult vgb_blob_take(struct vgb_call *c, uint32_t blob_id, uint64_t size, const void **data)
{
    struct vgb_blob *b = find(c->w, blob_id);

    if (!b && c->w->blobs.refused == blob_id + 1) {
        c->w->blobs.refused = 0; /* its pieces have all come: the id may be used again */
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!b || b->total != size || b->filled != size)
        return vgb_malformed(c, "blob %u is unknown, incomplete or of another size", blob_id);
    c->w->blobs.taken = b;
    *data = b->data;
    return CUDA_SUCCESS;
}

void vgb_blob_call_done(struct vgb_worker *w)
{
    if (w->blobs.taken)
        drop(w, w->blobs.taken);
    w->blobs.taken = NULL;
}
