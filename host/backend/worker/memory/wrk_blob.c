/* SPDX-License-Identifier: MIT */
/* Data larger than a record (module images), sent ahead in pieces. Bounded per client. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOB_GRAIN (UINT64_C(16) << 20)

static struct wrk_blob *blob_find(struct wrk_worker *w, uint32_t id)
{
    for (unsigned i = 0; i < WRK_BLOBS_MAX; i++) {
        if (w->memory->blobs.list[i].used && w->memory->blobs.list[i].id == id)
            return &w->memory->blobs.list[i];
    }
    return NULL;
}

/* Images are host memory charged by the broker across all clients. A grain is kept, to save
 * messages. */
static bool blob_reserve(struct wrk_worker *w, uint64_t bytes)
{
    uint64_t want = (bytes + BLOB_GRAIN - 1) / BLOB_GRAIN * BLOB_GRAIN;
    uint64_t *reserved = &w->memory->blobs.reserved;

    if (!wrk_client_limits.blobs || (bytes <= *reserved && want + BLOB_GRAIN >= *reserved))
        return true;
    if (wrk_control_reserve_blobs(w, want, bytes, reserved))
        return true;
    wrk_limit_hit("bytes of module images", wrk_client_limits.blobs, "--blob-quota");
    return false;
}

/* Takes a free entry and charges the bytes. NULL: no entry, or too many images in transit. */
static struct wrk_blob *place_blob(struct wrk_worker *w, uint32_t id, uint64_t total, bool counts)
{
    struct wrk_blobs *bs = &w->memory->blobs;

    if (counts && (bs->bytes + total > WRK_BLOB_TOTAL || !blob_reserve(w, bs->bytes + total)))
        return NULL;
    for (unsigned i = 0; i < WRK_BLOBS_MAX; i++) {
        struct wrk_blob *b = &bs->list[i];

        if (b->used)
            continue;
        *b = (struct wrk_blob){.id = id, .used = true, .total = total, .moved_ns = vgb_now_ns()};
        bs->bytes += counts ? total : 0;
        return b;
    }
    return NULL;
}

static void free_bytes(struct wrk_worker *w, const struct wrk_blob *b)
{
    if (b->given_up)
        return;
    if (b->filling) /* begun and never completed */
        wrk_control_image_filled(w, b->filling, false);
    if (!b->given)
        w->memory->blobs.bytes -= b->total;
    if (b->mapped)
        munmap(b->data, b->total + 1);
    else
        free(b->data);
}

static void drop_blob(struct wrk_worker *w, struct wrk_blob *b)
{
    free_bytes(w, b);
    memset(b, 0, sizeof(*b));
    if (w->memory->blobs.reserved)
        blob_reserve(w, w->memory->blobs.bytes);
}

void wrk_blobs_make_room(struct wrk_worker *w, uint64_t now_ns)
{
    struct wrk_blobs *bs = &w->memory->blobs;

    if (!w->blobs_wanted)
        return;
    w->blobs_wanted = false;
    vgb_log(VGB_DEBUG, "another client wants room for images");
    for (unsigned i = 0; i < WRK_BLOBS_MAX; i++) {
        struct wrk_blob *b = &bs->list[i];

        if (!b->used || b->given || b->given_up || now_ns - b->moved_ns < WRK_BLOB_IDLE_NS)
            continue;
        free_bytes(w, b);
        *b = (struct wrk_blob){.id = b->id, .used = true, .total = b->total, .given_up = true};
    }
    if (bs->reserved)
        blob_reserve(w, bs->bytes);
}

static struct wrk_blob *blob_start(struct wrk_worker *w, uint32_t id, uint64_t total)
{
    struct wrk_blob *b = place_blob(w, id, total, true);

    if (!b)
        return NULL;
    /* An extra NUL byte: PTX text and names are strings to the provider. */
    b->data = malloc(total + 1);
    if (!b->data) {
        drop_blob(w, b);
        return NULL;
    }
    b->data[total] = 0;
    return b;
}

/* The entry of a refused blob, or with key 0 a free one; NULL: none. */
static uint64_t *refused_entry(struct wrk_worker *w, uint64_t key)
{
    for (unsigned i = 0; i < WRK_BLOBS_REFUSED; i++) {
        if (w->memory->blobs.refused[i] == key)
            return &w->memory->blobs.refused[i];
    }
    return NULL;
}

static void refuse_blob(struct wrk_worker *w, uint32_t id)
{
    uint64_t *entry = refused_entry(w, 0);

    if (entry)
        *entry = (uint64_t)id + 1;
    else
        w->memory->blobs.refused_more = true;
}

/* False: it was not refused. */
static bool forget_refused(struct wrk_worker *w, uint32_t id)
{
    uint64_t *entry = refused_entry(w, (uint64_t)id + 1);

    if (entry)
        *entry = 0;
    return entry;
}

bool wrk_blob_known(struct wrk_worker *w, uint32_t id)
{
    return blob_find(w, id) || refused_entry(w, (uint64_t)id + 1);
}

bool wrk_blob_fill(struct wrk_worker *w, uint32_t id, uint64_t total, int fd, uint64_t number)
{
    void *p = mmap(NULL, total + 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct wrk_blob *b = p == MAP_FAILED ? NULL : place_blob(w, id, total, true);

    close(fd);
    if (!b) {
        if (p != MAP_FAILED)
            munmap(p, total + 1);
        return false;
    }
    b->data = p;
    b->mapped = true;
    b->filling = number;
    return true;
}

bool wrk_blob_given(struct wrk_worker *w, uint32_t id, uint64_t total, uint8_t *data)
{
    struct wrk_blob *b = wrk_blob_known(w, id) ? NULL : place_blob(w, id, total, false);

    if (!b)
        return false;
    b->data = data;
    b->filled = total;
    b->mapped = b->given = true;
    return true;
}

CUresult wrk_blob_append(struct wrk_worker *w, uint32_t id, uint64_t total, const void *data, uint32_t size)
{
    struct wrk_blob *b = blob_find(w, id);

    if (!b) {
        if (!total || total > VGP_BLOB_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        if (refused_entry(w, (uint64_t)id + 1))
            return CUDA_ERROR_OUT_OF_MEMORY;
        const char *why = wrk_image_refused(total);

        if (why)
            wrk_notify_detail(w, why);
        b = why ? NULL : blob_start(w, id, total);
        if (!b) {
            refuse_blob(w, id);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (b->total != total || !vgp_range_ok(b->filled, size, b->total)) {
        drop_blob(w, b);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (b->given_up)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(b->data + b->filled, data, size);
    b->filled += size;
    b->moved_ns = vgb_now_ns();
    if (b->filling && b->filled == total) {
        wrk_control_image_filled(w, b->filling, true);
        b->filling = 0;
    }
    return CUDA_SUCCESS;
}

void wrk_blob_drop(struct wrk_worker *w, uint32_t id)
{
    struct wrk_blob *b = blob_find(w, id);

    if (b)
        drop_blob(w, b);
    forget_refused(w, id);
}

CUresult wrk_blob_take(struct wrk_call *c, uint32_t blob_id, uint64_t size, const void **data)
{
    struct wrk_blob *b = blob_find(c->w, blob_id);

    if (!b && forget_refused(c->w, blob_id)) /* all its pieces have arrived: the id may be reused */
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (b && b->given_up && b->total == size) {
        wrk_notify_detail(c->w,
                          "no piece of the image came for a minute, and another program wanted its room");
        drop_blob(c->w, b);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* Without an entry it was refused again with each piece, or begun with a later one. */
    if (c->w->memory->blobs.refused_more && (!b || (b->total == size && b->filled < size))) {
        if (b)
            drop_blob(c->w, b);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!b || b->total != size || b->filled != size)
        return wrk_malformed(c, "blob %u is unknown, incomplete or of another size", blob_id);
    c->w->memory->blobs.taken = b;
    *data = b->data;
    return CUDA_SUCCESS;
}

void wrk_blob_keep(struct wrk_worker *w, struct wrk_blob *kept)
{
    struct wrk_blob *b = w->memory->blobs.taken;

    *kept = (struct wrk_blob){0};
    if (!b)
        return;
    *kept = *b;
    memset(b, 0, sizeof(*b)); /* its bytes stay charged */
    w->memory->blobs.taken = NULL;
}

void wrk_blob_release(struct wrk_worker *w, const struct wrk_blob *kept)
{
    free_bytes(w, kept);
}

void wrk_blob_call_done(struct wrk_worker *w)
{
    if (w->memory->blobs.taken)
        drop_blob(w, w->memory->blobs.taken);
    w->memory->blobs.taken = NULL;
}
