/* SPDX-License-Identifier: MIT */
/* The guest's half of the client window: records out, replies in. */
#define _GNU_SOURCE
#include "ring_int.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Polling for a reply: spins with pause for at most SPIN_MAX (adaptive), then yields at most YIELDS
 * times, then sleeps; sleeps at once if no processor is free (lib/poll/poll.h). On an idle machine
 * a reply arrives within a few microseconds.
 */
#define SPIN_MIN_NS 1000u
#define SPIN_MAX_NS 8000u
#define YIELDS 100
#define YIELD_MAX_NS 60000
/* Sleep instead of a yield if no processor is free. */
#define NAP_NS 20000
/* No wake-up is defined for "the ring has room": look again this often. */
#define SPACE_POLL_NS 200000

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool is_power_of_two(uint64_t v)
{
    return v != 0 && (v & (v - 1)) == 0;
}

struct area {
    uint64_t offset, size;
};

/* Every area inside the window, page-free header first, pairwise disjoint. */
static bool areas_ok(const struct area *a, int n, uint64_t window)
{
    for (int i = 0; i < n; i++) {
        if (a[i].size == 0 || a[i].offset % 64 != 0 || !vgp_range_ok(a[i].offset, a[i].size, window))
            return false;
        for (int k = 0; k < i; k++) {
            if (a[i].offset < a[k].offset + a[k].size && a[k].offset < a[i].offset + a[i].size)
                return false;
        }
    }
    return true;
}

static const char *check_header(const struct vgp_window_shared *h, uint64_t window)
{
    if (window < VGP_WINDOW_MIN)
        return "the window is smaller than 4 MiB";
    if (load32(&h->magic) != VGP_MAGIC)
        return "the window has no VGPW header";
    if (h->version_major != VGP_VERSION_MAJOR)
        return "the host's protocol has another major version: update the older side";
    if (h->window_size > window)
        return "the header claims more than the window has";
    if (!is_power_of_two(h->ring_size) || h->ring_size < VGP_RECORD_MAX)
        return "ring size";
    if (!is_power_of_two(h->notify_size) || h->notify_size < 4096)
        return "notification ring size";
    if (h->reply_slot_size < 256 || h->reply_slot_size % 16 != 0 || h->reply_slot_size > (1u << 20))
        return "reply slot size";
    if (h->reply_slots == 0 || h->reply_slots > (1u << 16))
        return "number of reply slots";
    return NULL;
}

/* A worker that gives no size uses the software GPU, or is older. */
static uint32_t piece_of(uint32_t wish)
{
    if (wish == 0)
        return VGP_PIECE_DEFAULT;
    if (wish < VGP_PIECE_MIN)
        return VGP_PIECE_MIN;
    return (wish < VGP_PIECE_MAX ? wish : VGP_PIECE_MAX) & ~(VGP_PAGE - 1);
}

int lnk_ring_init(struct lnk_ring *r, struct lnk_transport *t, lnk_notify_fn fn, void *arg, const char **why)
{
    struct vgp_window_shared h;
    uint8_t *base = t->window;

    memset(r, 0, sizeof(*r));
    r->rung_head = UINT64_MAX;   /* not a position: those are multiples of 16 */
    memcpy(&h, base, sizeof(h)); /* a single copy, so that the checked values are the values used */
    *why = check_header(&h, t->window_size);
    if (*why != NULL)
        return -EPROTO;

    const struct area areas[] = {
        {0, VGP_PAGE},
        {h.ring_offset, h.ring_size},
        {h.reply_offset, (uint64_t)h.reply_slots * h.reply_slot_size},
        {h.notify_offset, h.notify_size},
        {h.staging_offset, h.staging_size},
    };
    if (!areas_ok(areas, 5, t->window_size)) {
        *why = "areas of the window overlap or lie outside";
        return -EPROTO;
    }
    r->shared = (struct vgp_window_shared *)base;
    r->transport = t;
    r->ring = base + h.ring_offset;
    r->ring_size = h.ring_size;
    r->replies = base + h.reply_offset;
    r->slot_size = h.reply_slot_size;
    r->slot_count = h.reply_slots < LNK_MAX_SLOTS ? h.reply_slots : LNK_MAX_SLOTS;
    r->notify = base + h.notify_offset;
    r->notify_size = h.notify_size;
    r->staging = base + h.staging_offset;
    r->staging_size = h.staging_size;
    r->staging_piece = piece_of(h.staging_piece);
    r->notify_fn = fn;
    r->notify_arg = arg;
    for (uint32_t i = r->slot_count; i < LNK_MAX_SLOTS; i++)
        r->slot_used[i / 64] |= 1ull << (i % 64); /* slots that do not exist are never free */
    pthread_mutex_init(&r->lock, NULL);
    pthread_mutex_init(&r->slot_lock, NULL);
    pthread_mutex_init(&r->notify_lock, NULL);
    pthread_cond_init(&r->slot_cond, NULL);
    r->spins = sysconf(_SC_NPROCESSORS_ONLN) > 1;
    pol_init(&r->poll, SPIN_MIN_NS, SPIN_MAX_NS);
    pol_force(&r->poll, getenv("VGPU_TEST_POLL"));
    return 0;
}

bool lnk_ring_tap(struct lnk_ring *r, const struct lnk_tap *tap)
{
    r->tapped = malloc(VGP_RECORD_MAX);
    r->tap = r->tapped != NULL ? tap : NULL;
    return r->tap != NULL;
}

/* ---- reply slots ---------------------------------------------------------------------------- */

static bool slot_try(struct lnk_ring *r, uint32_t *slot)
{
    for (uint32_t w = 0; w < LNK_MAX_SLOTS / 64; w++) {
        uint64_t used = atomic_load_explicit(&r->slot_used[w], memory_order_relaxed);

        while (~used != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~used);

            if (atomic_compare_exchange_weak(&r->slot_used[w], &used, used | 1ull << bit)) {
                *slot = w * 64 + bit;
                return true;
            }
        }
    }
    return false;
}

static CUresult slot_take(struct lnk_ring *r, uint32_t *slot)
{
    CUresult res = CUDA_SUCCESS;

    if (slot_try(r, slot))
        return CUDA_SUCCESS;
    atomic_fetch_add(&r->slot_waiters, 1);
    pthread_mutex_lock(&r->slot_lock);
    while (!slot_try(r, slot)) {
        struct timespec ts;

        res = lnk_ring_dead(r);
        if (res != CUDA_SUCCESS)
            break;
        clock_gettime(CLOCK_REALTIME, &ts); /* bounded: a death must be noticed */
        ts.tv_nsec += 100000000;
        if (ts.tv_nsec >= 1000000000) {
            ts.tv_sec++;
            ts.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&r->slot_cond, &r->slot_lock, &ts);
    }
    pthread_mutex_unlock(&r->slot_lock);
    atomic_fetch_sub(&r->slot_waiters, 1);
    return res;
}

static void slot_give(struct lnk_ring *r, uint32_t slot)
{
    atomic_fetch_and(&r->slot_used[slot / 64], ~(1ull << (slot % 64)));
    if (atomic_load(&r->slot_waiters) != 0) {
        pthread_mutex_lock(&r->slot_lock);
        pthread_cond_signal(&r->slot_cond);
        pthread_mutex_unlock(&r->slot_lock);
    }
}

static struct vgp_reply *slot_reply(struct lnk_ring *r, uint32_t slot)
{
    return (struct vgp_reply *)(r->replies + (uint64_t)slot * r->slot_size);
}

/* ---- producer ------------------------------------------------------------------------------- */

static void publish_tail(struct lnk_ring *r)
{
    __atomic_store_n(&r->shared->ring_tail, r->tail, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the worker's store of IDLE */
    if (__atomic_load_n(&r->shared->worker_state, __ATOMIC_ACQUIRE) != VGP_WORKER_IDLE)
        return;
    /* The worker either has this record already, or its doorbell was rung and it has taken
       nothing yet, so it is still waking up: further system calls would have no effect until
       then. */
    uint64_t head = __atomic_load_n(&r->shared->ring_head, __ATOMIC_RELAXED);

    if (head == r->tail || head == r->rung_head)
        return;
    r->rung_head = head;
    r->doorbells++;
    r->transport->ops->doorbell(r->transport);
}

/* Free bytes in the ring; refreshes the head. Returns false if the worker moved the head to an
   invalid position. */
static bool ring_room(struct lnk_ring *r, uint64_t *room)
{
    uint64_t head = load64(&r->shared->ring_head);

    if (r->tail - head > r->ring_size)
        return false;
    r->head = head;
    *room = r->ring_size - (r->tail - head);
    return true;
}

/* CUDA_ERROR_NOT_READY: notifications must be read first. */
static CUresult wait_room(struct lnk_ring *r, uint64_t need)
{
    uint64_t room = r->ring_size - (r->tail - r->head);

    for (unsigned tries = 0; room < need; tries++) {
        CUresult res = lnk_ring_dead(r);

        if (res != CUDA_SUCCESS)
            return res;
        if (!ring_room(r, &room))
            return lnk_ring_declare_dead(r, VGPU_DEAD_PROTOCOL);
        if (room >= need)
            break;
        /* the worker may be waiting for this side to read: not under the lock */
        if (lnk_ring_notified(r))
            return CUDA_ERROR_NOT_READY;
        if ((tries < 200 || r->poll.forced) && pol_may(&r->poll, clk_now_ns()))
            sched_yield();
        else
            lnk_ring_sleep(r, r->transport->ops->seen(r->transport), SPACE_POLL_NS);
    }
    return CUDA_SUCCESS;
}

/* Reserves `total` contiguous bytes at the tail, with a filler if the ring wraps. */
static CUresult ring_reserve(struct lnk_ring *r, uint32_t total)
{
    uint32_t pos = (uint32_t)r->tail & (r->ring_size - 1);
    uint32_t left = r->ring_size - pos;
    uint64_t need = total <= left ? total : (uint64_t)left + total;
    CUresult res;

    if (need > r->ring_size) { /* filler and record do not fit together: two steps */
        res = wait_room(r, left);
        need = total;
    } else {
        res = wait_room(r, need);
    }
    if (res != CUDA_SUCCESS)
        return res;
    if (total > left) {
        struct vgp_record *pad = (struct vgp_record *)(r->ring + pos);

        pad->size = left; /* at least 16 bytes are left: only these fields exist for sure */
        pad->call = VGP_CALL_PAD;
        pad->flags = 0;
        pad->reply_slot = VGP_NO_REPLY;
        pad->reply_seq = 0;
        r->tail += left;
        if (need == total) {
            publish_tail(r);
            return wait_room(r, total);
        }
    }
    return CUDA_SUCCESS;
}

/*
 * Padding must be zero. It lies in the fixed arguments, after short leading arrays, and after the
 * last variable part: of a large record only these are cleared, the bulk is overwritten anyway.
 */
#define CLEAR_FRONT 512u
#define CLEAR_BACK 64u

static void clear_args(uint8_t *args, uint32_t bytes)
{
    if (bytes <= CLEAR_FRONT + CLEAR_BACK) {
        memset(args, 0, bytes);
    } else {
        memset(args, 0, CLEAR_FRONT);
        memset(args + bytes - CLEAR_BACK, 0, CLEAR_BACK);
    }
}

static struct vgp_record *record_at_tail(const struct lnk_ring *r)
{
    return (struct vgp_record *)(r->ring + (r->tail & (r->ring_size - 1)));
}

CUresult lnk_ring_begin(struct lnk_ring *r, struct lnk_call *c, uint16_t call, uint32_t bytes,
                        enum lnk_reply_want want, uint64_t context, uint32_t thread)
{
    uint64_t total = (sizeof(struct vgp_record) + (uint64_t)bytes + 15) & ~15ull;
    CUresult res = lnk_ring_dead(r);

    c->phase = LNK_CALL_NONE;
    if (res != CUDA_SUCCESS)
        return res;
    if (total > VGP_RECORD_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    c->ring = r;
    c->slot = VGP_NO_REPLY;
    c->seq = 0;
    if (want == LNK_REPLY_WAIT)
        res = slot_take(r, &c->slot);
    else if (want == LNK_REPLY_TRY && !slot_try(r, &c->slot))
        res = CUDA_ERROR_NOT_READY;
    if (res != CUDA_SUCCESS)
        return res;

    if (lnk_ring_notified(r)) /* device printf also comes out at launches, as on a GPU */
        lnk_ring_drain(r);
    pthread_mutex_lock(&r->lock);
    while ((res = ring_reserve(r, (uint32_t)total)) == CUDA_ERROR_NOT_READY) {
        pthread_mutex_unlock(&r->lock);
        lnk_ring_drain(r);
        pthread_mutex_lock(&r->lock);
    }
    if (res != CUDA_SUCCESS) {
        pthread_mutex_unlock(&r->lock);
        if (c->slot != VGP_NO_REPLY)
            slot_give(r, c->slot);
        return res;
    }
    c->record = r->tap != NULL ? r->tapped : record_at_tail(r);
    c->total = (uint32_t)total;
    c->args = (uint8_t *)(c->record + 1);
    if (c->slot != VGP_NO_REPLY) {
        c->seq = ++r->slot_seq[c->slot];
        if (c->seq == 0) /* a fresh window contains 0 */
            c->seq = ++r->slot_seq[c->slot];
    }
    c->record->size = c->total;
    c->record->call = call;
    c->record->flags = 0;
    c->record->reply_slot = c->slot;
    c->record->reply_seq = c->seq;
    c->record->context = context;
    c->record->thread = thread;
    c->record->padding = 0;
    clear_args(c->args, c->total - (uint32_t)sizeof(struct vgp_record));
    c->phase = LNK_CALL_OPEN;
    return CUDA_SUCCESS;
}

void lnk_ring_publish(struct lnk_call *c)
{
    struct lnk_ring *r = c->ring;

    if (__builtin_expect(r->tap != NULL, 0)) {
        r->tap->call(r, c->record);
        memcpy(record_at_tail(r), c->record, c->total);
    }
    r->tail += c->total;
    r->records++;
    publish_tail(r);
    c->phase = LNK_CALL_SENT;
    pthread_mutex_unlock(&r->lock);
}

/* ---- replies -------------------------------------------------------------------------------- */

static bool reply_there(const struct lnk_call *c)
{
    return load32(&slot_reply(c->ring, c->slot)->seq) == c->seq;
}

bool lnk_ring_ready(struct lnk_call *c)
{
    if (c->phase != LNK_CALL_SENT || c->slot == VGP_NO_REPLY || reply_there(c))
        return true;
    return lnk_ring_dead(c->ring) != CUDA_SUCCESS;
}

/* Polls without sleeping; true when the reply came. */
static bool poll_reply(struct lnk_call *c)
{
    struct lnk_ring *r = c->ring;
    uint64_t start, before, now;

    if (reply_there(c))
        return true;
    start = before = now = clk_now_ns();
    if (!pol_may(&r->poll, start))
        return false;
    while (r->spins && now - start < pol_budget(&r->poll)) {
        for (int i = 0; i < 16; i++) {
            cpu_relax();
            if (reply_there(c)) {
                pol_hit(&r->poll, now - start);
                pol_longer(&r->poll);
                return true;
            }
        }
        now = clk_now_ns();
        if (pol_lost(&r->poll, before, now))
            return reply_there(c);
        before = now;
    }
    /* Lets the worker run if it shares this processor. */
    for (int i = 0; i < YIELDS && now - start < YIELD_MAX_NS; i++) {
        sched_yield();
        now = clk_now_ns();
        if (pol_lost(&r->poll, before, now))
            return reply_there(c);
        if (reply_there(c)) {
            pol_hit(&r->poll, now - start);
            return true;
        }
        before = now;
    }
    pol_vain(&r->poll, now - start);
    return false;
}

void lnk_ring_pause(struct lnk_ring *r)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    uint64_t before = clk_now_ns();

    if (pol_may(&r->poll, before)) {
        sched_yield();
        pol_lost(&r->poll, before, clk_now_ns());
    } else {
        nanosleep(&nap, NULL);
    }
}

static CUresult collect_reply(struct lnk_call *c, const void **payload, uint32_t *size, bool *lost)
{
    struct lnk_ring *r = c->ring;
    struct vgp_reply *reply;
    uint32_t n;
    int result;

    atomic_fetch_add_explicit(&r->round_trips, 1, memory_order_relaxed);
    if (!poll_reply(c)) {
        while (!reply_there(c)) {
            uint64_t seen = lnk_ring_announce_sleep(r);
            CUresult dead;

            if (reply_there(c))
                break;
            dead = lnk_ring_dead(r);
            /* a full notification ring would block the worker; the last ones of a dead worker */
            if (lnk_ring_notified(r)) {
                lnk_ring_drain(r);
                continue;
            }
            if (dead != CUDA_SUCCESS) {
                *lost = !reply_there(c); /* else it came just before the end */
                if (*lost)
                    return dead;
                break;
            }
            atomic_fetch_add_explicit(&r->sleeps, 1, memory_order_relaxed);
            lnk_ring_sleep(r, seen, SLEEP_SLICE_NS);
        }
    }
    if (lnk_ring_notified(r))
        lnk_ring_drain(r); /* device printf of finished work is out before the call returns */
    reply = slot_reply(r, c->slot);
    n = __atomic_load_n(&reply->size, __ATOMIC_RELAXED);
    result = __atomic_load_n(&reply->result, __ATOMIC_RELAXED);
    if (n > r->slot_size - sizeof(*reply) || result < 0 || result > 9999)
        return lnk_ring_declare_dead(r, VGPU_DEAD_PROTOCOL);
    *payload = reply + 1;
    *size = n;
    return (CUresult)result;
}

CUresult lnk_ring_collect(struct lnk_call *c, const void **payload, uint32_t *size)
{
    bool lost = false;
    CUresult res;

    *payload = NULL;
    *size = 0;
    if (c->phase != LNK_CALL_SENT || c->slot == VGP_NO_REPLY)
        return CUDA_ERROR_UNKNOWN;
    res = collect_reply(c, payload, size, &lost);
    if (__builtin_expect(c->ring->tap != NULL, 0))
        c->ring->tap->reply(c->ring, c->slot, res, *payload, *size, lost);
    return res;
}

void lnk_ring_end(struct lnk_call *c)
{
    if (c->phase == LNK_CALL_OPEN)
        pthread_mutex_unlock(&c->ring->lock); /* the tail did not move: the record is dropped */
    if (c->phase != LNK_CALL_NONE && c->slot != VGP_NO_REPLY) {
        /* A late worker may still write to an unanswered slot: it is not reused. */
        if (c->phase == LNK_CALL_OPEN || reply_there(c))
            slot_give(c->ring, c->slot);
    }
    c->phase = LNK_CALL_NONE;
}
