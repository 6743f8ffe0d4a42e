/* SPDX-License-Identifier: MIT */
/*
 * Charging of device memory to the quota of the VM. The provider is asked only after the bytes are
 * covered by a reservation, which the broker grants across all workers, so two workers cannot both
 * take the last gigabyte. Charged are the client's allocations, rounded as requested. If the
 * provider's memory is private to this process (the software GPU), memory it holds beyond that is
 * charged too: the variables of modules, which no call names.
 *
 * Reservations grow and shrink in grains, to save messages. A grain is at most a 64th of the quota,
 * to limit what a client keeps in reserve.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash/hash.h"
#include "vgb_fd.h"
#include "vgb_sum.h"

/*
 * Reservations grow and shrink in grains: few messages. A grain is at most a 64th of the quota, so
 * that what one client holds in reserve is not missed by the others.
 */
#define GRAIN_MAX (UINT64_C(64) << 20)

static uint64_t round_to_grain(const struct wrk_quota *q, uint64_t bytes)
{
    uint64_t grain = q->limit / 64 < GRAIN_MAX ? q->limit / 64 : GRAIN_MAX;

    grain = grain < VGP_PAGE ? VGP_PAGE : grain;
    uint64_t up = bytes + grain - 1 - (bytes + grain - 1) % grain;

    if (up > q->limit)
        up = q->limit > bytes ? q->limit : bytes; /* the limit may be below present usage */
    return up;
}

void wrk_quota_init(struct wrk_worker *w, uint64_t limit)
{
    memset(&w->quota, 0, sizeof(w->quota));
    w->quota.limit = limit;
    w->quota.dispatcher = pthread_self();
    pthread_mutex_init(&w->quota.lock, NULL);
}

/* Read by the broker for lists of processes (NVML). */
static void show_locked(struct wrk_worker *w)
{
    if (w->win.shared)
        __atomic_store_n(&w->win.shared->memory_used, w->quota.used + w->quota.hidden, __ATOMIC_RELAXED);
}

/* Updates the memory held by the provider beyond `used`; returns all bytes to charge. */
static uint64_t look_locked(struct wrk_quota *q)
{
    uint64_t now = q->limit && q->held ? q->held() : 0;

    q->hidden = now > q->used ? now - q->used : 0;
    return q->used + q->hidden;
}

/* No device has so much. Counted as this it is refused all the same, by the broker or, without a
 * limit, the provider, and what is counted does not come to the end of 64 bits, from which it could
 * not be taken back. */
#define BYTES_MAX (UINT64_C(1) << 49)

static uint64_t quota_bounded(uint64_t bytes)
{
    return bytes < BYTES_MAX ? bytes : BYTES_MAX;
}

bool wrk_quota_take(struct wrk_worker *w, uint64_t bytes)
{
    struct wrk_quota *q = &w->quota;
    uint32_t why = VGB_REFUSED_QUOTA;
    bool ok = true;

    pthread_mutex_lock(&q->lock);
    uint64_t held = look_locked(q);

    uint64_t limit = __atomic_load_n(&q->limit, __ATOMIC_RELAXED);
    uint64_t all = vgb_sum(held, quota_bounded(bytes));
    bool hopeless = limit && all > limit; /* refused and counted by the broker */

    if (limit && (hopeless || all > q->reserved))
        ok = wrk_control_reserve(w, hopeless ? all : round_to_grain(q, all), all, &why);
    if (ok)
        q->used = vgb_sum(q->used, quota_bounded(bytes));
    show_locked(w);
    pthread_mutex_unlock(&q->lock);
    if (!ok && why == VGB_REFUSED_GPU)
        wrk_limit_hit("bytes of the GPU's memory with all its VMs", all, "--memory-policy ceiling");
    else if (!ok)
        wrk_limit_hit("bytes of device memory", limit, "--vram-quota");
    return ok;
}

void wrk_quota_give(struct wrk_worker *w, uint64_t bytes)
{
    struct wrk_quota *q = &w->quota;

    pthread_mutex_lock(&q->lock);
    bytes = quota_bounded(bytes);
    q->used -= bytes < q->used ? bytes : q->used;
    show_locked(w);
    bool wake = __atomic_load_n(&q->limit, __ATOMIC_RELAXED) && bytes &&
                !pthread_equal(pthread_self(), q->dispatcher);
    pthread_mutex_unlock(&q->lock);
    /* Wakes a sleeping dispatcher to return reservations that other clients may wait for. */
    if (wake)
        vgb_eventfd_signal(w->doorbell);
}

uint64_t wrk_quota_held(struct wrk_worker *w)
{
    struct wrk_quota *q = &w->quota;
    uint64_t held;

    pthread_mutex_lock(&q->lock);
    held = q->used + q->hidden;
    pthread_mutex_unlock(&q->lock);
    return held;
}

void wrk_quota_trim(struct wrk_worker *w)
{
    struct wrk_quota *q = &w->quota;

    wrk_quota_report(w);
    pthread_mutex_lock(&q->lock);
    /* A grain is kept, so that alternating allocations and frees do not cost a message each. */
    if (q->limit && q->reserved > round_to_grain(q, round_to_grain(q, q->used + q->hidden) + 1)) {
        uint64_t want = round_to_grain(q, look_locked(q));

        uint32_t why;

        if (want < q->reserved)
            wrk_control_reserve(w, want, want, &why);
    }
    pthread_mutex_unlock(&q->lock);
}

void wrk_quota_change(struct wrk_worker *w, uint64_t limit)
{
    struct wrk_quota *q = &w->quota;

    /* Without the lock, which this thread may hold while waiting for a grant. */
    q->report |= limit && !q->limit;
    __atomic_store_n(&q->limit, limit, __ATOMIC_RELAXED);
}

void wrk_quota_report(struct wrk_worker *w)
{
    struct wrk_quota *q = &w->quota;

    if (!q->report)
        return;
    q->report = false;
    pthread_mutex_lock(&q->lock);
    wrk_control_report(w, look_locked(q));
    pthread_mutex_unlock(&q->lock);
}

static uint64_t slot_of(uint64_t address, uint64_t room)
{
    return hsh_number(0, address) & (room - 1);
}

static void insert_locked(struct wrk_quota *q, const struct wrk_alloc *a)
{
    uint64_t i = slot_of(a->address, q->room);

    while (q->table[i].address && q->table[i].address != a->address)
        i = (i + 1) & (q->room - 1);
    if (!q->table[i].address)
        q->count++;
    q->table[i] = *a;
}

static bool grow_locked(struct wrk_quota *q)
{
    uint64_t room = q->room ? q->room * 2 : 256;
    struct wrk_alloc *old = q->table, *table = calloc(room, sizeof(*table));
    uint64_t old_room = q->room;

    if (!table)
        return false;
    q->table = table;
    q->room = room;
    q->count = 0;
    for (uint64_t i = 0; i < old_room; i++) {
        if (old[i].address)
            insert_locked(q, &old[i]);
    }
    free(old);
    return true;
}

static bool remember_locked(struct wrk_quota *q, const struct wrk_alloc *a)
{
    if (!a->address)
        return true;
    /* The half that is otherwise free takes what wrk_quota_take_for() did not see: entries that are put back. */
    if (q->count * 2 >= q->room && !grow_locked(q) && q->count + 1 >= q->room)
        return false;
    insert_locked(q, a);
    return true;
}

bool wrk_quota_remember(struct wrk_worker *w, uint64_t address, uint64_t bytes, CUcontext ctx)
{
    struct wrk_quota *q = &w->quota;
    const struct wrk_alloc a = {.address = address, .bytes = bytes, .ctx = ctx};
    bool ok;

    pthread_mutex_lock(&q->lock);
    ok = remember_locked(q, &a);
    pthread_mutex_unlock(&q->lock);
    return ok;
}

bool wrk_quota_take_for(struct wrk_worker *w, uint64_t bytes)
{
    struct wrk_quota *q = &w->quota;
    bool ok;

    pthread_mutex_lock(&q->lock);
    ok = q->count * 2 < q->room || grow_locked(q);
    pthread_mutex_unlock(&q->lock);
    return ok && wrk_quota_take(w, bytes);
}

/* Removes the entry at i and closes the gap (linear probing). Its bytes stay charged. */
static void remove_locked(struct wrk_quota *q, uint64_t i)
{
    uint64_t mask = q->room - 1, hole = i;

    q->count--;
    for (uint64_t j = (i + 1) & mask; q->table[j].address; j = (j + 1) & mask) {
        uint64_t home = slot_of(q->table[j].address, q->room);

        if (((j - home) & mask) >= ((j - hole) & mask)) {
            q->table[hole] = q->table[j];
            hole = j;
        }
    }
    memset(&q->table[hole], 0, sizeof(q->table[hole]));
}

/* Entry of the allocation; NULL: none. */
static struct wrk_alloc *entry_locked(const struct wrk_quota *q, uint64_t address)
{
    for (uint64_t i = q->room ? slot_of(address, q->room) : 0; q->room && q->table[i].address;
         i = (i + 1) & (q->room - 1)) {
        if (q->table[i].address == address)
            return &q->table[i];
    }
    return NULL;
}

static bool detach_locked(struct wrk_quota *q, uint64_t address, struct wrk_alloc *out)
{
    const struct wrk_alloc *a = entry_locked(q, address);

    *out = a ? *a : (struct wrk_alloc){0};
    if (a)
        remove_locked(q, (uint64_t)(a - q->table));
    return a != NULL;
}

bool wrk_quota_context(struct wrk_worker *w, uint64_t address, CUcontext *ctx)
{
    struct wrk_quota *q = &w->quota;
    const struct wrk_alloc *a;

    pthread_mutex_lock(&q->lock);
    a = entry_locked(q, address);
    if (a)
        *ctx = a->ctx;
    pthread_mutex_unlock(&q->lock);
    return a != NULL;
}

bool wrk_quota_detach(struct wrk_worker *w, uint64_t address, struct wrk_alloc *out)
{
    struct wrk_quota *q = &w->quota;

    pthread_mutex_lock(&q->lock);
    bool found = detach_locked(q, address, out);
    pthread_mutex_unlock(&q->lock);
    return found;
}

bool wrk_quota_free_begin(struct wrk_worker *w, uint64_t address, struct wrk_freeing *f)
{
    struct wrk_quota *q = &w->quota;
    const struct wrk_freeing *other;

    pthread_mutex_lock(&q->lock);
    for (other = q->freeing; other && other->address != address; other = other->next)
        continue;
    /* An existing entry is another allocation: the address has been reused. */
    bool ok = detach_locked(q, address, &f->was) || !other;
    if (ok) {
        f->address = address;
        f->next = q->freeing;
        q->freeing = f;
    }
    pthread_mutex_unlock(&q->lock);
    return ok;
}

void wrk_quota_free_end(struct wrk_worker *w, struct wrk_freeing *f, bool freed)
{
    struct wrk_freeing **at = &w->quota.freeing;

    pthread_mutex_lock(&w->quota.lock);
    if (!freed)
        remember_locked(&w->quota, &f->was);
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    pthread_mutex_unlock(&w->quota.lock);
    if (freed)
        wrk_quota_give(w, f->was.bytes);
}

void wrk_quota_forget(struct wrk_worker *w, uint64_t address)
{
    struct wrk_alloc a;

    if (wrk_quota_detach(w, address, &a))
        wrk_quota_give(w, a.bytes);
}

uint64_t wrk_quota_detach_context(struct wrk_worker *w, CUcontext ctx)
{
    struct wrk_quota *q = &w->quota;
    uint64_t bytes = 0;

    pthread_mutex_lock(&q->lock);
    for (uint64_t i = 0; i < q->room;) {
        if (q->table[i].address && q->table[i].ctx == ctx) {
            bytes += q->table[i].bytes;
            remove_locked(q, i); /* the entry moved into i is checked next */
        } else {
            i++;
        }
    }
    /* What the provider has yet to free ends with the context, too, and is not put back if it refuses. */
    for (struct wrk_freeing *f = q->freeing; f; f = f->next) {
        if (f->was.address && f->was.ctx == ctx) {
            bytes += f->was.bytes;
            f->was = (struct wrk_alloc){0};
        }
    }
    pthread_mutex_unlock(&q->lock);
    return bytes;
}
