/* SPDX-License-Identifier: MIT */
/*
 * See wait.h. The lock is held while these frees are sent: inside the locks of contexts and pools, outside those of waits and of
 * the ring. `unparking` keeps the thread from coming back, and from waiting for room in a stream.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_guest.h"

_Atomic uint64_t vcu_parked_reused;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct parked {
    CUdeviceptr address;
    uint64_t size, pool, context;
    CUstream stream;
    bool keeps;
} parked[VCU_PARKED_MAX]; /* the oldest first; vcu_parked of them */
static uint64_t bytes;
/* Pools that keep all memory; further pools count as pools that do not. */
static uint64_t keepers[8];
static bool off;

/*
 * A pending error, or an error that ended the context, is for a call that the worker answers. A
 * free or an allocation in the legacy stream also orders blocking streams: it is omitted only while
 * there is no work in these.
 */
static bool may_reuse(CUstream stream)
{
    struct vcu_context *c = vcu_context_find(NULL);

    return !off && atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0 && c != NULL &&
           atomic_load(&c->base->sticky) == 0 && lnk_ring_dead(&vcu.ring) == CUDA_SUCCESS &&
           atomic_load_explicit(&vcu.ring.async_error, memory_order_relaxed) == 0 &&
           !vcu_thread()->in_callback &&
           ((uintptr_t)stream > (uintptr_t)CU_STREAM_LEGACY || vcu_wait_legacy_alone());
}

static struct parked remove_locked(unsigned i)
{
    struct parked p = parked[i];
    unsigned n = atomic_load(&vcu_parked) - 1;

    memmove(&parked[i], &parked[i + 1], (n - i) * sizeof(*parked));
    atomic_store(&vcu_parked, n);
    bytes -= p.size;
    if (!p.keeps)
        atomic_fetch_sub(&vcu_parked_loose, 1);
    return p;
}

/*
 * Sends the oldest free. It is counted until its record exists: a thread that finds no parked free
 * may end the stream. The record belongs to the context in which the memory was freed; if that
 * context is gone, so is its memory.
 */
static void send_oldest_locked(void)
{
    struct vcu_thread *t = vcu_thread();
    const struct parked *p = &parked[0];

    if (vcu_context_usable(vcu_handle_data(p->context, VGP_H_CONTEXT)) == CUDA_SUCCESS &&
        vcu_context_enter(p->context)) {
        t->unparking = true;
        vgp_call_cuMemFreeAsync(p->address, p->stream);
        t->unparking = false;
        vcu_context_return(true);
    }
    remove_locked(0);
}

void vcu_parked_send(void)
{
    if (vcu_thread()->in_callback) /* a call that must not send records */
        return;
    pthread_mutex_lock(&lock);
    while (atomic_load(&vcu_parked) != 0)
        send_oldest_locked();
    pthread_mutex_unlock(&lock);
}

/* The place of a pool that keeps all memory, NULL: none; for pool 0, an empty place. */
static uint64_t *keeper_locked(uint64_t pool)
{
    for (unsigned i = 0; i < sizeof(keepers) / sizeof(keepers[0]); i++) {
        if (keepers[i] == pool)
            return &keepers[i];
    }
    return NULL;
}

void vcu_parked_pool(uint64_t pool, bool keeps)
{
    uint64_t *at;

    pthread_mutex_lock(&lock);
    at = keeper_locked(pool);
    if (at == NULL && keeps)
        at = keeper_locked(0);
    if (at != NULL)
        *at = keeps ? pool : 0;
    pthread_mutex_unlock(&lock);
}

bool vcu_parked_put(CUdeviceptr address, uint64_t size, uint64_t pool, CUstream stream)
{
    if (!may_reuse(stream) || pool == 0 || size > VCU_PARKED_BYTES || stream == CU_STREAM_PER_THREAD)
        return false;
    pthread_mutex_lock(&lock);
    while (atomic_load(&vcu_parked) == VCU_PARKED_MAX || bytes + size > VCU_PARKED_BYTES)
        send_oldest_locked();
    parked[vcu_parked] =
        (struct parked){address, size, pool, vcu_current_context(), stream, keeper_locked(pool) != NULL};
    bytes += size;
    if (!parked[vcu_parked].keeps)
        atomic_fetch_add(&vcu_parked_loose, 1);
    atomic_fetch_add(&vcu_parked, 1);
    pthread_mutex_unlock(&lock);
    return true;
}

CUdeviceptr vcu_parked_take(uint64_t size, uint64_t pool, CUstream stream)
{
    CUdeviceptr found = 0;

    if (atomic_load_explicit(&vcu_parked, memory_order_relaxed) == 0 || !may_reuse(stream))
        return 0;
    pthread_mutex_lock(&lock);
    for (unsigned i = vcu_parked; i-- > 0 && found == 0;) { /* the latest first */
        if (parked[i].size == size && parked[i].pool == pool && parked[i].stream == stream &&
            parked[i].context == vcu_current_context())
            found = remove_locked(i).address;
    }
    pthread_mutex_unlock(&lock);
    if (found != 0)
        atomic_fetch_add_explicit(&vcu_parked_reused, 1, memory_order_relaxed);
    return found;
}

void vcu_parked_init(void)
{
    const char *value = getenv("VGPU_PARK_FREES");

    off = value != NULL && !strcmp(value, "0");
}
