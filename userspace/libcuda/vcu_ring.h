/* SPDX-License-Identifier: MIT */
/*
 * The guest's half of the client window: producer of call records, owner of reply slots, consumer
 * of notifications. Works on one struct vcu_ring, so that tests run it against a worker thread of
 * their own; the process has one (vcu.ring).
 *
 * Lock order: ring lock; notify lock is never taken under it.
 */
#ifndef VCU_RING_H
#define VCU_RING_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../protocol/vgp_ring.h"
#include "vcu_transport.h"

#define VCU_MAX_SLOTS 256u /* reply slots used; a larger layout of the worker is used in part */

struct vcu_ring;

/* Gets the notifications in their order; called under the notify lock: must not use the ring. */
typedef void (*vcu_notify_fn)(void *arg, uint16_t type, uint64_t cookie, const uint8_t *data,
                              uint32_t size);

/* Who is told what goes over a ring (vcu_record.c). */
struct vcu_tap {
    /* Under the ring's lock, before the worker can see the record. */
    void (*call)(struct vcu_ring *r, const struct vgp_record *record);
    /* By the thread that waited, before the slot is given back; dead: no reply will come. */
    void (*reply)(struct vcu_ring *r, uint32_t slot, CUresult result, const void *payload,
                  uint32_t size, bool dead);
};

struct vcu_ring {
    struct vgp_window_shared *shared;
    struct vcu_transport *transport;
    uint8_t *ring;
    uint32_t ring_size;
    uint8_t *replies;
    uint32_t slot_size, slot_count;
    uint8_t *notify;
    uint32_t notify_size;
    uint8_t *staging;
    uint64_t staging_size;

    pthread_mutex_t lock; /* producer side; held from begin to publish */
    uint64_t tail;        /* private copy: shared memory is a mailbox */
    uint64_t head;        /* last value read from the worker, validated */

    _Atomic uint64_t slot_used[VCU_MAX_SLOTS / 64];
    uint32_t slot_seq[VCU_MAX_SLOTS]; /* written by the slot's owner */
    _Atomic uint32_t slot_waiters;
    pthread_mutex_t slot_lock;
    pthread_cond_t slot_cond;

    pthread_mutex_t notify_lock;
    uint64_t notify_head;
    vcu_notify_fn notify_fn;
    void *notify_arg;
    const struct vcu_tap *tap; /* NULL, or set before the ring is used by a second thread */

    _Atomic int dead;         /* 0, or the CUresult of every further call */
    _Atomic int async_error;  /* 0, or the error that the next synchronising call returns */
    _Atomic uint32_t spin_ns; /* adaptive: how long a reply is polled for without yielding */
    uint32_t spin_max_ns;
    _Atomic uint64_t crowded_until; /* CLOCK_MONOTONIC: until then yielding is not worth it */

    /* For the trace: what went to the worker, and how often somebody waited for it. */
    uint64_t records, doorbells; /* under the lock */
    _Atomic uint64_t round_trips, sleeps;
};

/* A call between begin and end. */
struct vcu_call {
    struct vcu_ring *ring;
    uint8_t *args; /* `bytes` zeroed bytes after the record header */
    struct vgp_record *record;
    uint32_t total; /* record size */
    uint32_t slot;  /* or VGP_NO_REPLY */
    uint32_t seq;
    uint8_t phase; /* enum vcu_call_phase */
};
enum vcu_call_phase { VCU_CALL_NONE = 0, VCU_CALL_OPEN = 1, VCU_CALL_SENT = 2 };

/* Checks the window's header as a set and takes over the layout. 0, or -EPROTO with *why. */
int vcu_ring_init(struct vcu_ring *r, struct vcu_transport *t, vcu_notify_fn fn, void *arg,
                  const char **why);

enum vcu_reply_want { VCU_REPLY_NONE = 0, VCU_REPLY_WAIT = 1, VCU_REPLY_TRY = 2 };
/*
 * Reserves a record. With VCU_REPLY_TRY it returns CUDA_ERROR_NOT_READY instead of waiting for a
 * free reply slot (for callers that hold some). On success the ring lock is held until
 * vcu_ring_publish or vcu_ring_end.
 */
CUresult vcu_ring_begin(struct vcu_ring *r, struct vcu_call *c, uint16_t call, uint32_t bytes,
                        enum vcu_reply_want want, uint64_t context, uint32_t thread);
/* Makes the record visible and wakes the worker if it sleeps. */
void vcu_ring_publish(struct vcu_call *c);
/* True when the reply is there (or never will be). Does not sleep. */
bool vcu_ring_ready(struct vcu_call *c);
/*
 * Sleeps until the reply is there. Returns its result; payload points into the slot until
 * vcu_ring_end. When the worker is gone: the sticky error, no payload.
 */
CUresult vcu_ring_collect(struct vcu_call *c, const void **payload, uint32_t *size);
/* Gives the slot back; before publish: drops the record. */
void vcu_ring_end(struct vcu_call *c);
/* Hands waiting notifications to the owner. Cheap when there are none. */
void vcu_ring_drain(struct vcu_ring *r);
/* Sleeps until there are notifications, the deadline passes or the worker is gone (false). */
bool vcu_ring_wait_notify(struct vcu_ring *r, int64_t deadline_ns);
/* 0, or the error of a dead worker (also notices a death). */
CUresult vcu_ring_dead(struct vcu_ring *r);
/* The pending asynchronous error, taken; 0 = none. */
CUresult vcu_ring_take_async_error(struct vcu_ring *r);

#endif
