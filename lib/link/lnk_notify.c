/* SPDX-License-Identifier: MIT */
/*
 * What the worker says besides replies: its death, wake-ups, and notifications (device printf, details
 * for the trace, host functions, late errors).
 */
#define _GNU_SOURCE
#include "ring_int.h"

#include <errno.h>
#include <string.h>

/* ---- death ---------------------------------------------------------------------------------- */

static CUresult result_of_reason(uint32_t reason)
{
    switch (reason) {
    case VGPU_DEAD_EXITED:
        return CUDA_ERROR_LAUNCH_FAILED; /* the result seen by a process whose GPU work crashed */
    case VGPU_DEAD_KILLED:
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    case VGPU_DEAD_PROTOCOL:
        return CUDA_ERROR_UNKNOWN;
    default:
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    }
}

CUresult lnk_ring_declare_dead(struct lnk_ring *r, uint32_t reason)
{
    int result = __atomic_load_n(&r->shared->sticky_result, __ATOMIC_ACQUIRE);
    int expected = 0;
    char text[sizeof(r->shared->dead_text)];

    if (result <= 0 || result > 9999)
        result = result_of_reason(reason);
    if (atomic_compare_exchange_strong(&r->dead, &expected, result)) {
        memcpy(text, r->shared->dead_text, sizeof(text));
        text[sizeof(text) - 1] = '\0';
        if (text[0] == '\0')
            strcpy(text, "the worker on the host is gone");
        if (r->notify_fn != NULL)
            r->notify_fn(r->notify_arg, VGP_NOTIFY_DETAIL, 0, (const uint8_t *)text, (uint32_t)strlen(text));
        pthread_mutex_lock(&r->slot_lock);
        pthread_cond_broadcast(&r->slot_cond);
        pthread_mutex_unlock(&r->slot_lock);
    }
    return (CUresult)atomic_load(&r->dead);
}

CUresult lnk_ring_dead(struct lnk_ring *r)
{
    int dead = atomic_load_explicit(&r->dead, memory_order_relaxed);

    if (dead != 0)
        return (CUresult)dead;
    if (load32(&r->shared->worker_state) == VGP_WORKER_DEAD)
        return lnk_ring_declare_dead(r, load32(&r->shared->dead_reason));
    return CUDA_SUCCESS;
}

void lnk_ring_sleep(struct lnk_ring *r, uint64_t seen, int64_t slice_ns)
{
    int rc = r->transport->ops->wait(r->transport, seen, (int64_t)clk_now_ns() + slice_ns);

    if (rc == -ENODEV) {
        uint32_t reason = load32(&r->shared->dead_reason);

        lnk_ring_declare_dead(r, reason != 0 ? reason : VGPU_DEAD_LOST);
    }
}

/* ---- sleeping and notifications ------------------------------------------------------------ */

bool lnk_ring_notified(const struct lnk_ring *r)
{
    return load64(&r->shared->notify_tail) != __atomic_load_n(&r->notify_head, __ATOMIC_RELAXED);
}

uint64_t lnk_ring_announce_sleep(struct lnk_ring *r)
{
    uint64_t seen = r->transport->ops->seen(r->transport);

    __atomic_store_n(&r->shared->guest_sleeps, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the worker's read of guest_sleeps */
    return seen;
}

static bool drain_one(struct lnk_ring *r, uint64_t tail)
{
    uint32_t pos = (uint32_t)r->notify_head & (r->notify_size - 1);
    uint64_t avail = tail - r->notify_head;
    uint32_t left = r->notify_size - pos;
    struct vgp_notify n;
    uint8_t data[4096];
    uint32_t size;

    if (avail < 16 || left < 16)
        return false;
    memcpy(&n, r->notify + pos, sizeof(n)); /* used from this copy only */
    if (n.size < 16 || n.size % 16 != 0 || n.size > avail || n.size > left)
        return false;
    size = n.size - (uint32_t)sizeof(n);
    /* Text longer than the buffer comes in pieces; other records are small. */
    for (uint32_t off = 0; n.type != VGP_NOTIFY_PAD;) {
        uint32_t part = size - off < sizeof(data) ? size - off : (uint32_t)sizeof(data);

        memcpy(data, r->notify + pos + sizeof(n) + off, part);
        if (n.type == VGP_NOTIFY_PRINT || n.type == VGP_NOTIFY_DETAIL) {
            uint32_t length;

            if (off == 0) {
                if (part < 4)
                    return false;
                memcpy(&length, data, 4);
                if (length > size - 4)
                    return false;
                size = length + 4;
                part = size < part ? size : part;
                r->notify_fn(r->notify_arg, n.type, n.cookie, data + 4, part - 4);
            } else {
                r->notify_fn(r->notify_arg, n.type, n.cookie, data, part);
            }
        } else {
            r->notify_fn(r->notify_arg, n.type, n.cookie, data, part);
        }
        off += part;
        if (off >= size)
            break;
    }
    __atomic_store_n(&r->notify_head, r->notify_head + n.size, __ATOMIC_RELAXED);
    return true;
}

void lnk_ring_drain(struct lnk_ring *r)
{
    uint64_t tail;

    pthread_mutex_lock(&r->notify_lock);
    tail = load64(&r->shared->notify_tail);
    while (r->notify_head != tail) {
        if (tail - r->notify_head > r->notify_size || !drain_one(r, tail)) {
            lnk_ring_declare_dead(r, VGPU_DEAD_PROTOCOL);
            __atomic_store_n(&r->notify_head, tail, __ATOMIC_RELAXED);
        }
        __atomic_store_n(&r->shared->notify_head, r->notify_head, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&r->notify_lock);
}

bool lnk_ring_wait_notify(struct lnk_ring *r, int64_t deadline_ns)
{
    for (;;) {
        uint64_t seen = lnk_ring_announce_sleep(r);

        if (lnk_ring_notified(r))
            return true;
        if (lnk_ring_dead(r) != CUDA_SUCCESS || (int64_t)clk_now_ns() >= deadline_ns)
            return false;
        lnk_ring_sleep(r, seen, SLEEP_SLICE_NS);
    }
}

CUresult lnk_ring_lost(struct lnk_ring *r)
{
    if (lnk_ring_dead(r) == CUDA_SUCCESS)
        lnk_ring_sleep(r, r->transport->ops->seen(r->transport), 0);
    return lnk_ring_dead(r);
}

CUresult lnk_ring_take_async_error(struct lnk_ring *r)
{
    if (atomic_load_explicit(&r->async_error, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    return (CUresult)atomic_exchange(&r->async_error, 0);
}
