/* SPDX-License-Identifier: MIT */
/* Calls with a deferred completion: wrk_wait.c, wrk_wait_context.c, wrk_flight.c. */
#ifndef WRK_WAIT_H
#define WRK_WAIT_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgb_holds.h"
#include "window/window.h"

/* streams of a context that a context-wide wait polls individually */
#define WRK_WAIT_EVENTS 24
#define WRK_WAITERS_MAX 80      /* threads: one per reply slot, and some for internal waits */
#define WRK_POLL_LONG_NS 200000 /* longer waits are handed to a waiter thread */

struct wrk_worker;
struct wrk_wait;
struct wrk_borrowed;
/* Runs when the wait is complete, on the dispatcher or a waiter, with the context current. `r`:
 * result of the wait. Returns the result to reply. */
typedef CUresult (*wrk_wait_finish)(struct wrk_worker *w, struct wrk_wait *wait, CUresult r);

struct wrk_wait {
    VGB_OWNED struct wrk_wait *next;
    VGB_LENT struct wrk_worker *w; /* for a thread of the provider, which has the wait alone */
    CUcontext ctx;
    uint64_t started_ns;
    uint32_t slot, seq;
    uint16_t call;
    bool blocking;  /* no events: a waiter runs finish, which may block */
    bool long_call; /* ... for a provider call that may take seconds and has no events */
    bool counted;   /* in waits.long_calls */
    /* long call: its context ended meanwhile, with the object it was making */
    bool context_gone;
    VGB_LISTED struct wrk_wait *flight,
        **flight_at; /* links in waits.flight, from start until finish has returned */
    bool in_flight;  /* in waits.flight; read by its own thread only, without the lock */
    /* Provider objects in use: its context, the underlying context, one more, for a stream of another
     * context those of the call's, and those of another context of which the call uses an object. A wait that
     * ends any of them waits for this wait first. */
    const void *uses[7];
    bool uses_all;    /* uses all contexts */
    const void *ends; /* object that finish ends: finish runs once no earlier wait uses it */
    /* Runs on the dispatcher after finish, for state that only the dispatcher may touch; returns
     * the result to reply. Also called after an error, to free what the wait owns. */
    CUresult (*land)(struct wrk_worker *w, struct wrk_wait *wait, CUresult r);
    VGB_COUNTED struct wrk_borrowed *lent; /* entry that keeps `borrowed` */
    CUresult result;                       /* for land */
    uint32_t reply_flags;
    VGB_LISTED struct wrk_wait *holds, **holds_at; /* links in waits.holders; holds_at NULL: not there */
    bool events_gone;                              /* the context of the events ended, and they with it */
    bool green_gone; /* `ctx` ended; if it was a green context, the events, of the context below, are there */
    VGB_LENT struct wrk_rest *rest; /* of the context that finish ends; until the wait lands */
    unsigned nevents, done;
    CUevent events[WRK_WAIT_EVENTS];
    CUevent borrowed; /* event of the application (cuEventSynchronize), not from the pool */
    wrk_wait_finish finish;
    uint64_t arg[4];     /* arguments of finish */
    void *buffer;        /* reply payload; not owned */
    uint32_t payload;    /* size of `buffer`, bytes */
    bool payload_always; /* the payload is sent also after an error */
};

/*
 * Marks behind the work of a context that ends. Its end waits for them one by one, so that the time limit sees the work
 * go on.
 */
struct wrk_rest {
    CUcontext ctx;
    atomic_uint done; /* marks found complete, by the end */
    unsigned n;       /* marks, then those left */
    CUevent events[]; /* of `ctx` */
};

/* Position of a stream at its last vgpStreamThrottle. */
struct wrk_mark {
    uint64_t stream, context;        /* wire values */
    uint32_t thread;                 /* guest thread, for per-thread streams */
    VGB_OWNED struct wrk_wait *wait; /* wait for the work so far; not started */
};
#define WRK_MARKS_MAX 1024u

struct wrk_event_pool {
    CUcontext ctx;
    unsigned n;
    CUevent free[64];
};
#define WRK_EVENT_POOLS 16

/* Event of the client used by waits; its destruction is deferred to the end of the last wait. */
struct wrk_borrowed {
    CUevent event;
    unsigned waits; /* waits using it; 0 and !destroy: entry is free */
    bool destroy;
    bool gone; /* its context ended and the event with it */
};

struct wrk_waits {
    VGB_OWNED struct wrk_wait *polled; /* waits polled by the dispatcher */
    unsigned npolled;
    pthread_mutex_t lock;
    pthread_cond_t work;
    VGB_OWNED struct wrk_wait *queue, **queue_tail; /* waits for the waiter threads */
    unsigned threads, idle_threads;
    pthread_mutex_t events_lock; /* protects the pools, `holders` and the two flags of each wait there */
    struct wrk_event_pool pools[WRK_EVENT_POOLS];
    VGB_LISTED struct wrk_wait *holders; /* waits that have taken events of the pools' contexts */
    VGB_LISTED struct wrk_wait *flight;  /* all waits started and not finished; under lock */
    pthread_cond_t left;                 /* signalled when a wait leaves `flight` */
    /* finished, to be landed by the dispatcher; under lock */
    VGB_OWNED struct wrk_wait *landed;
    atomic_uint to_land;    /* number of waits in `landed` and of events to destroy */
    uint64_t landings;      /* number of waits landed by the dispatcher */
    atomic_uint long_calls; /* long calls in progress, and internal waits */
    atomic_bool said_busy;  /* busy state last sent to the broker; written by the dispatcher */
    struct wrk_borrowed borrowed[VGP_REPLY_SLOTS]; /* under lock */
    uint64_t slots_busy; /* atomic: reply slots taken over by waits; bounds their number */
};
_Static_assert(VGP_REPLY_SLOTS == 64, "one bit a slot");

void wrk_waits_init(struct wrk_waits *ws);
/* Creates a wait for the call being dispatched; takes over its reply. NULL: no memory. */
struct wrk_wait *wrk_wait_new(struct wrk_call *c);
/* Queries whether all work issued to this stream is complete. Also WRK_RUNNING for a legacy stream
 * beside other streams: only a wait can tell then. */
struct wrk_answer wrk_stream_query(struct wrk_worker *w, CUstream stream);
/* Makes the wait cover all work issued to this stream so far. */
CUresult wrk_wait_add_stream(struct wrk_worker *w, struct wrk_wait *wait, CUstream stream);
/*
 * Makes the wait cover all streams of the calling context. Where they cannot be queried
 * individually, also after an error, the wait becomes blocking: finish has to wait for the context.
 */
CUresult wrk_wait_add_context(struct wrk_call *c, struct wrk_wait *wait);
/* A context ends: its destroyed streams are not waited for from now on. The streams of a green context stay in the
 * provider with their work, so that the context below is waited for as a whole. */
void wrk_wait_context_forget(CUcontext ctx);
/* Notes that a stream of the context was destroyed while its work may still run; NULL: unknown which. */
void wrk_orphan_note(CUcontext ctx);
/* Number of the latest destroyed stream whose work may still run in the context; 0: none. */
uint64_t wrk_orphaned(CUcontext ctx);
/* For finish, if the wait became blocking so: cuCtxSynchronize() on the waiter. */
CUresult wrk_wait_context_whole(struct wrk_wait *wait);
/* Notes that the call is about an object of another context than its own: the wait that it makes from now on uses that
 * context, too. NULL: of none. */
void wrk_call_uses(struct wrk_call *c, CUcontext ctx);
/*
 * For calls of the provider that may be about, or wait for, any context: no context ends before the wait has, and finish
 * runs on a waiter, after the ends under way.
 */
void wrk_wait_use_all(struct wrk_wait *wait);
/* Has room for n marks; NULL: no memory. */
struct wrk_rest *wrk_rest_new(CUcontext ctx, unsigned n);
/* On the waiter that ends the context, before: waits for the marks, and destroys them. No context is current after it. */
void wrk_rest_await(struct wrk_rest *rest);
/* Filter that tracks streams destroyed with work in flight, which a wait for their context must
 * cover. */
void wrk_streams_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* Starts the wait; if complete already, it is replied to and freed at once. The call is deferred
 * from here on. Returns CUDA_SUCCESS for the handler to return. */
CUresult wrk_wait_start(struct wrk_call *c, struct wrk_wait *wait);
/* wrk_flight.c: add to and remove from the list of waits in progress; remove once the provider is not
 * called for it again. */
void wrk_flight_enter(struct wrk_worker *w, struct wrk_wait *wait);
void wrk_flight_leave(struct wrk_worker *w, struct wrk_wait *wait);
/* On a waiter: moves it from there to `landed`, in one step: it is in one of them when a context ends. */
void wrk_flight_finish(struct wrk_worker *w, struct wrk_wait *wait);
/* On a waiter: blocks until no earlier wait uses the object that this wait ends. */
void wrk_wait_unused(struct wrk_worker *w, const struct wrk_wait *wait);
/* Destroys events that the client destroyed while waits used them. Dispatcher. */
void wrk_destroy_borrowed(struct wrk_worker *w);
/* Creates a wait for a provider call that may take long: `finish` makes the call on a waiter,
 * `land` (optional) completes it on the dispatcher. NULL: no memory. */
struct wrk_wait *wrk_wait_long(struct wrk_call *c, wrk_wait_finish finish, wrk_wait_finish land);
/* The same for internal use in context `ctx`, without a call to reply to. */
struct wrk_wait *wrk_wait_internal(struct wrk_worker *w, CUcontext ctx);
void wrk_wait_start_internal(struct wrk_worker *w, struct wrk_wait *wait);
/* Lands waits finished by waiters. Dispatcher. */
void wrk_waits_land(struct wrk_worker *w);
/* Makes the wait cover an event of the client, of context `ctx`, and keeps the event meanwhile. */
void wrk_wait_borrow(struct wrk_worker *w, struct wrk_wait *wait, CUevent event, CUcontext ctx);
/* Destroys an event as soon as no wait uses it. */
CUresult wrk_event_destroy(struct wrk_worker *w, CUevent event);
/* Completes the wait with `r`: replied to and freed at once. For errors during its construction. */
CUresult wrk_wait_fail(struct wrk_call *c, struct wrk_wait *wait, CUresult r);
/* Frees a wait that was not started. */
void wrk_wait_free(struct wrk_worker *w, struct wrk_wait *wait);
/* Polls all waits of the dispatcher. True while waits with a reply are left. */
bool wrk_waits_poll(struct wrk_worker *w);
/* Starts the first waiter thread ahead of the first long call. A failure is ignored. */
void wrk_waits_prepare(struct wrk_worker *w);
/* Before the dispatcher sleeps: hands all waits with a reply to waiter threads. */
void wrk_waits_hand_over(struct wrk_worker *w);
/* wrk_flight.c: takes an event of the wait's context, from the pool or a new one. */
CUresult wrk_wait_event_take(struct wrk_worker *w, struct wrk_wait *wait, CUevent *event);
/* Gives n events of the wait back to the pool of its context. `last`: the wait holds no more. */
void wrk_wait_events_give(struct wrk_worker *w, struct wrk_wait *wait, const CUevent *events, unsigned n,
                          bool last);
/* Drops the pooled events of a context that is about to be destroyed. */
void wrk_waits_forget_context(struct wrk_worker *w, CUcontext ctx);
/* Tells long calls in progress that the objects they make are gone. To be called before the wait
 * that ends the context. */
void wrk_waits_context_ends(struct wrk_worker *w, CUcontext ctx);

#endif
