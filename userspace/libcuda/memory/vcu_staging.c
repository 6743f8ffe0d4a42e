/* SPDX-License-Identifier: MIT */
/*
 * The staging area, cut into equal pieces. A copy passes a piece to the worker with a record and
 * gets it back with the reply; several pieces may be in flight. Pieces of asynchronous copies stay
 * PENDING; the next copy that needs a piece collects their replies.
 */
#include "memory.h"
#include "stores.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "vgp_guest.h"

/* Pieces: enough to keep both sides busy, few enough to leave reply slots for other threads. */
#define MAX_CHUNKS 24

enum chunk_state { CHUNK_FREE, CHUNK_TAKEN, CHUNK_PENDING };

struct vcu_chunk {
    enum chunk_state state;
    uint64_t age; /* PENDING: smaller = older */
    struct vgp_submit submit;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static struct vcu_chunk chunks[MAX_CHUNKS];
static unsigned chunk_count;
static uint64_t chunk_bytes;
static uint64_t next_age;
static atomic_uint pending; /* pieces left behind */

/* The size that the worker recommends for its provider, or VGPU_STAGING_PIECE (KiB). */
static uint64_t wanted_bytes(void)
{
    const char *value = getenv("VGPU_STAGING_PIECE");
    const unsigned long kib = value == NULL ? 0 : strtoul(value, NULL, 10);

    return kib >= VGP_PIECE_MIN >> 10 && kib <= VGP_PIECE_MAX >> 10 ? (uint64_t)kib << 10
                                                                    : vcu.ring.staging_piece;
}

/* Divides the staging area; once per connection. */
static CUresult divide_staging(void)
{
    uint64_t size = vcu.ring.staging_size / MAX_CHUNKS;

    vcu_stores_init();
    if (size > wanted_bytes())
        size = wanted_bytes();
    if (size < VGP_PIECE_MIN)
        size = VGP_PIECE_MIN;
    size &= ~4095ull;
    chunk_count = (unsigned)(vcu.ring.staging_size / size);
    if (chunk_count > MAX_CHUNKS)
        chunk_count = MAX_CHUNKS;
    if (chunk_count > vcu.ring.slot_count / 2)
        chunk_count = vcu.ring.slot_count / 2;
    chunk_bytes = size;
    for (unsigned i = 0; i < MAX_CHUNKS; i++)
        chunks[i].state = CHUNK_FREE;
    return chunk_count == 0 ? CUDA_ERROR_SYSTEM_DRIVER_MISMATCH : CUDA_SUCCESS;
}

static void reap_chunks(void);
const struct vcu_unit_ops vcu_staging_unit = {.connected = divide_staging, .wait_answered = reap_chunks};

uint64_t vcu_chunk_size(void)
{
    return chunk_bytes;
}

/* Ends the submission of a piece that was left behind; its error goes to the next synchronisation.
 */
static void retire_chunk(struct vcu_chunk *c)
{
    CUresult res = vgp_recv_vgpCopy(&c->submit, NULL, NULL);
    int none = 0;

    if (res != CUDA_SUCCESS)
        atomic_compare_exchange_strong(&vcu.ring.async_error, &none, (int)res);
}

static struct vcu_chunk *find_locked(enum chunk_state state, bool ready_only)
{
    struct vcu_chunk *best = NULL;

    for (unsigned i = 0; i < chunk_count; i++) {
        struct vcu_chunk *c = &chunks[i];

        if (c->state != state || (best != NULL && best->age <= c->age))
            continue;
        if (ready_only && !vcu_submit_ready(&c->submit))
            continue;
        best = c;
        if (state == CHUNK_FREE)
            break;
    }
    return best;
}

struct vcu_chunk *vcu_chunk_take(bool try)
{
    struct vcu_chunk *c;
    bool left_behind;

    pthread_mutex_lock(&lock);
    for (;;) {
        struct timespec ts;

        left_behind = false;
        c = find_locked(CHUNK_FREE, false);
        if (c != NULL)
            break;
        left_behind = true;
        c = find_locked(CHUNK_PENDING, true);
        if (c != NULL)
            break;
        if (try)
            break;
        c = find_locked(CHUNK_PENDING, false);
        if (c != NULL)
            break;
        if (lnk_ring_dead(&vcu.ring) != CUDA_SUCCESS)
            break;
        clock_gettime(CLOCK_REALTIME, &ts); /* all are in use by other threads */
        ts.tv_nsec += 50000000;
        if (ts.tv_nsec >= 1000000000) {
            ts.tv_sec++;
            ts.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&freed, &lock, &ts);
    }
    if (c != NULL) {
        if (c->state == CHUNK_PENDING)
            atomic_fetch_sub(&pending, 1);
        c->state = CHUNK_TAKEN;
    }
    pthread_mutex_unlock(&lock);
    if (c != NULL && left_behind)
        retire_chunk(c);
    return c;
}

uint8_t *vcu_chunk_data(struct vcu_chunk *c)
{
    return vcu.ring.staging + vcu_chunk_offset(c);
}

uint64_t vcu_chunk_offset(struct vcu_chunk *c)
{
    return (uint64_t)(c - chunks) * chunk_bytes;
}

struct vgp_submit *vcu_chunk_submit(struct vcu_chunk *c)
{
    return &c->submit;
}

void vcu_chunk_give(struct vcu_chunk *c)
{
    pthread_mutex_lock(&lock);
    c->state = CHUNK_FREE;
    pthread_cond_signal(&freed);
    pthread_mutex_unlock(&lock);
}

/* Ends pieces that were returned for later release and have been answered: their errors are then
 * available to the next lnk_ring_take_async_error(). */
static void reap_chunks(void)
{
    struct vcu_chunk *c;

    if (atomic_load_explicit(&pending, memory_order_relaxed) == 0)
        return;
    do {
        pthread_mutex_lock(&lock);
        c = find_locked(CHUNK_PENDING, true);
        if (c != NULL) {
            c->state = CHUNK_TAKEN;
            atomic_fetch_sub(&pending, 1);
        }
        pthread_mutex_unlock(&lock);
        if (c != NULL) {
            retire_chunk(c);
            vcu_chunk_give(c);
        }
    } while (c != NULL);
}

void vcu_chunk_give_later(struct vcu_chunk *c)
{
    pthread_mutex_lock(&lock);
    c->state = CHUNK_PENDING;
    atomic_fetch_add(&pending, 1);
    c->age = next_age++;
    pthread_cond_signal(&freed);
    pthread_mutex_unlock(&lock);
}
