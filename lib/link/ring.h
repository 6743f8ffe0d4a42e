/* SPDX-License-Identifier: MIT */
/*
 * The guest's half of the client window: producer of call records, owner of reply slots, consumer
 * of notifications. Works on one struct lnk_ring, so that tests run it against a worker thread of
 * their own; the process has one (vcu.ring).
 *
 * Lock order: ring lock; notify lock is never taken under it.
 */
#ifndef LNK_RING_H
#define LNK_RING_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../protocol/vgp_ring.h"
#include "../poll/poll.h"
#include "transport.h"

#define LNK_MAX_SLOTS 256u /* reply slots used; a larger layout of the worker is used in part */

struct lnk_ring;

/* Gets the notifications in their order; called under the notify lock: must not use the ring. */
typedef void (*lnk_notify_fn)(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size);

/* Sees what goes over a ring; the recorder of libcuda is one. */
struct lnk_tap {
    /* Under the ring's lock. The record is in this process's own memory: what is in the window the worker can change at
     * any time, before it is published, too. */
    void (*call)(struct lnk_ring *r, const struct vgp_record *record);
    /* By the thread that waited, before the slot is given back; dead: no reply will come. */
    void (*reply)(struct lnk_ring *r, uint32_t slot, CUresult result, const void *payload, uint32_t size,
                  bool dead);
};

struct lnk_ring {
    struct vgp_window_shared *shared;
    struct lnk_transport *transport;
    uint8_t *ring;
    uint32_t ring_size;
    uint8_t *replies;
    uint32_t slot_size, slot_count;
    uint8_t *notify;
    uint32_t notify_size;
    uint8_t *staging;
    uint64_t staging_size;
    uint32_t staging_piece; /* bytes of one copy through it: the worker's wish within bounds, whole pages */

    pthread_mutex_t lock; /* producer side; held from begin to publish */
    uint64_t tail;        /* private copy: shared memory is a mailbox */
    uint64_t head;        /* last value read from the worker, validated */
    uint64_t rung_head;   /* what the worker had taken when the doorbell was rung last */

    _Atomic uint64_t slot_used[LNK_MAX_SLOTS / 64];
    uint32_t slot_seq[LNK_MAX_SLOTS]; /* written by the slot's owner */
    _Atomic uint32_t slot_waiters;
    pthread_mutex_t slot_lock;
    pthread_cond_t slot_cond;

    pthread_mutex_t notify_lock;
    uint64_t notify_head;
    lnk_notify_fn notify_fn;
    void *notify_arg;
    const struct lnk_tap *tap; /* NULL, or set by lnk_ring_tap() */
    struct vgp_record *tapped; /* with a tap: where records are made, VGP_RECORD_MAX bytes */

    _Atomic int dead;        /* 0, or the CUresult of every further call */
    _Atomic int async_error; /* 0, or the error that the next synchronising call returns */
    bool spins;              /* there is another processor on which the worker may run meanwhile */
    struct pol_policy poll;  /* for replies */

    /* Statistics for the trace: records sent, round trips, sleeps. */
    uint64_t records, doorbells; /* under the lock */
    _Atomic uint64_t round_trips, sleeps;
};

/* A call between begin and end. */
struct lnk_call {
    struct lnk_ring *ring;
    uint8_t *args; /* `bytes` zeroed bytes after the record header */
    struct vgp_record *record;
    uint32_t total; /* record size */
    uint32_t slot;  /* or VGP_NO_REPLY */
    uint32_t seq;
    uint8_t phase; /* enum lnk_call_phase */
};
enum lnk_call_phase { LNK_CALL_NONE = 0, LNK_CALL_OPEN = 1, LNK_CALL_SENT = 2 };

/* Checks the window's header as a set and takes over the layout. 0, or -EPROTO with *why. */
int lnk_ring_init(struct lnk_ring *r, struct lnk_transport *t, lnk_notify_fn fn, void *arg, const char **why);

/* Has the tap see what goes over the ring; before a second thread uses it. False: no memory. */
bool lnk_ring_tap(struct lnk_ring *r, const struct lnk_tap *tap);

enum lnk_reply_want { LNK_REPLY_NONE = 0, LNK_REPLY_WAIT = 1, LNK_REPLY_TRY = 2 };
/*
 * Reserves a record. With LNK_REPLY_TRY it returns CUDA_ERROR_NOT_READY instead of waiting for a
 * free reply slot (for callers that hold some). On success the ring lock is held until
 * lnk_ring_publish or lnk_ring_end.
 */
CUresult lnk_ring_begin(struct lnk_ring *r, struct lnk_call *c, uint16_t call, uint32_t bytes,
                        enum lnk_reply_want want, uint64_t context, uint32_t thread);
/* Makes the record visible and wakes the worker if it sleeps. */
void lnk_ring_publish(struct lnk_call *c);
/* True when the reply is there (or never will be). Does not sleep. */
bool lnk_ring_ready(struct lnk_call *c);
/*
 * Sleeps until the reply is there. Returns its result; payload points into the slot until
 * lnk_ring_end. When the worker is gone: the sticky error, no payload.
 */
CUresult lnk_ring_collect(struct lnk_call *c, const void **payload, uint32_t *size);
/* Gives the slot back; before publish: drops the record. */
void lnk_ring_end(struct lnk_call *c);
/* Hands waiting notifications to the owner. Cheap when there are none. */
void lnk_ring_drain(struct lnk_ring *r);
/* Sleeps until there are notifications, the deadline passes or the worker is gone (false). */
bool lnk_ring_wait_notify(struct lnk_ring *r, int64_t deadline_ns);
/* 0, or the error of a dead worker (also notices a death). */
CUresult lnk_ring_dead(struct lnk_ring *r);
/* The pending asynchronous error, taken; 0 = none. */
CUresult lnk_ring_take_async_error(struct lnk_ring *r);

/* ---- waiting for more than one thing (vgpu replay) ---- */

/* Announces a sleep: after this either the condition is seen or a wake-up will come. */
uint64_t lnk_ring_announce_sleep(struct lnk_ring *r);
/* One sleep in the transport; `seen` comes from lnk_ring_announce_sleep. */
void lnk_ring_sleep(struct lnk_ring *r, uint64_t seen, int64_t slice_ns);
/* For a caller that polls by itself: lets other threads have this processor for a moment. */
void lnk_ring_pause(struct lnk_ring *r);
/* True if there are unread notifications. */
bool lnk_ring_notified(const struct lnk_ring *r);

#endif
