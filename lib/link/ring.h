/* SPDX-License-Identifier: MIT */
/*
 * The guest side of the client window: producer of call records, owner of reply slots, consumer of
 * notifications. Works on a struct lnk_ring, so that tests can run it against a worker thread of
 * their own; a process has one (vcu.ring).
 *
 * Lock order: ring lock; the notify lock is never taken under it.
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

#define LNK_MAX_SLOTS 256u /* reply slots used; if the worker offers more, the rest stays unused */

struct lnk_ring;

/* Receives notifications in order. Called under the notify lock: must not use the ring. */
typedef void (*lnk_notify_fn)(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data, uint32_t size);

/* An observer of a ring's traffic, such as libcuda's recorder. */
struct lnk_tap {
    /* Called under the ring's lock. The record is in private memory of this process: the worker
       can change the window's content at any time, even before a record is published. */
    void (*call)(struct lnk_ring *r, const struct vgp_record *record);
    /* Called by the thread that waited, before the slot is released; dead: no reply will arrive. */
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
    /* size of a copy through the staging area, bytes: the worker's wish within bounds, whole
       pages */
    uint32_t staging_piece;

    pthread_mutex_t lock; /* producer side; held from begin to publish */
    uint64_t tail;        /* private copy; the shared value is only written */
    uint64_t head;        /* last value read from the worker, validated */
    uint64_t rung_head;   /* the worker's head when the doorbell was last rung */

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
    /* with a tap: buffer in which records are built, VGP_RECORD_MAX bytes */
    struct vgp_record *tapped;

    _Atomic int dead;        /* 0, or the CUresult of every further call */
    _Atomic int async_error; /* 0, or the error that the next synchronising call returns */
    bool spins;              /* another processor is available for the worker */
    struct pol_policy poll;  /* for waits for replies */

    /* Statistics for the trace: records sent, round trips, sleeps. */
    uint64_t records, doorbells; /* under the lock */
    _Atomic uint64_t round_trips, sleeps;
};

/* A call in progress, between begin and end. */
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

/* Checks the window's header as a whole and adopts its layout. 0, or -EPROTO with *why. */
int lnk_ring_init(struct lnk_ring *r, struct lnk_transport *t, lnk_notify_fn fn, void *arg, const char **why);

/* Attaches a tap; call before a second thread uses the ring. Returns false if out of memory. */
bool lnk_ring_tap(struct lnk_ring *r, const struct lnk_tap *tap);

enum lnk_reply_want { LNK_REPLY_NONE = 0, LNK_REPLY_WAIT = 1, LNK_REPLY_TRY = 2 };
/*
 * Reserves a record. With LNK_REPLY_TRY it returns CUDA_ERROR_NOT_READY instead of waiting for a
 * free reply slot (for callers that already hold slots). On success the ring lock is held until
 * lnk_ring_publish or lnk_ring_end.
 */
CUresult lnk_ring_begin(struct lnk_ring *r, struct lnk_call *c, uint16_t call, uint32_t bytes,
                        enum lnk_reply_want want, uint64_t context, uint32_t thread);
/* Makes the record visible and wakes the worker if it is asleep. */
void lnk_ring_publish(struct lnk_call *c);
/* True if the reply has arrived, or never will. Does not sleep. */
bool lnk_ring_ready(struct lnk_call *c);
/*
 * Sleeps until the reply arrives and returns its result; payload points into the slot until
 * lnk_ring_end. If the worker is gone: the sticky error, without payload.
 */
CUresult lnk_ring_collect(struct lnk_call *c, const void **payload, uint32_t *size);
/* Releases the slot; before publish: drops the record. */
void lnk_ring_end(struct lnk_call *c);
/* Passes pending notifications to the owner. Cheap if there are none. */
void lnk_ring_drain(struct lnk_ring *r);
/* Sleeps until a notification arrives, the deadline passes or the worker is gone (false). */
bool lnk_ring_wait_notify(struct lnk_ring *r, int64_t deadline_ns);
/* 0, or the error of a dead worker (also detects its death). */
CUresult lnk_ring_dead(struct lnk_ring *r);
/* Same, and asks the transport: for a loop that does not sleep in the transport. */
CUresult lnk_ring_lost(struct lnk_ring *r);
/* Returns and clears the pending asynchronous error; 0 = none. */
CUresult lnk_ring_take_async_error(struct lnk_ring *r);

/* ---- waiting for several events (vgpu replay) ---- */

/* Announces a sleep: afterwards either the condition is visible or a wake-up will arrive. */
uint64_t lnk_ring_announce_sleep(struct lnk_ring *r);
/* Sleeps once in the transport; `seen` is the result of lnk_ring_announce_sleep. */
void lnk_ring_sleep(struct lnk_ring *r, uint64_t seen, int64_t slice_ns);
/* For callers with a polling loop of their own: yields the processor to other threads for a
   moment. */
void lnk_ring_pause(struct lnk_ring *r);
/* True if there are unread notifications. */
bool lnk_ring_notified(const struct lnk_ring *r);

#endif
