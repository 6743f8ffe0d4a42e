/* SPDX-License-Identifier: MIT */
/* Calls that complete later: wait.c, wait_context.c, flight.c. */
#ifndef WRK_WAIT_H
#define WRK_WAIT_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgb_holds.h"
#include "vgp_worker_rt.h"

#define WRK_WAIT_EVENTS 24      /* streams of a context that a context-wide wait polls itself */
#define WRK_WAITERS_MAX 80      /* threads: one for each reply slot, and some for waits of the worker's own */
#define WRK_POLL_LONG_NS 200000 /* a wait that takes longer than this goes to a waiter thread */

struct wrk_worker;
struct wrk_wait;
struct wrk_borrowed;
/* Runs when the wait is complete, on the dispatcher or on a waiter, the context current; returns
 * the result to reply. `r`: result of the wait. */
typedef CUresult (*wrk_wait_finish)(struct wrk_worker *w, struct wrk_wait *wait, CUresult r);

struct wrk_wait {
    VGB_OWNED struct wrk_wait *next;
    CUcontext ctx;
    uint64_t started_ns;
    uint32_t slot, seq;
    uint16_t call;
    bool blocking;     /* no events: a waiter runs finish, which may block */
    bool long_call;    /* ... a call of the provider that may take seconds, and has no such events */
    bool counted;      /* in waits.long_calls */
    bool context_gone; /* of a long call: its context ended meanwhile, and what it made with it */
    VGB_LISTED struct wrk_wait *flight,
        **flight_at;     /* in waits.flight from start until finish has returned */
    bool in_flight;      /* the same; only its own thread looks, without the lock */
    const void *uses[3]; /* objects of the provider that it touches: its context and what that stands
                            on, and one more; what ends one of them waits for this first */
    bool uses_all;       /* all contexts */
    const void *ends;    /* finish ends this object: it runs when no earlier wait uses it */
    /* Runs on the dispatcher after finish, for what only the dispatcher may touch; returns the result
     * to reply. Also after an error: it frees what the wait owns. */
    CUresult (*land)(struct wrk_worker *w, struct wrk_wait *wait, CUresult r);
    VGB_COUNTED struct wrk_borrowed *lent; /* where `borrowed` is kept */
    CUresult result;                       /* for land */
    uint32_t reply_flags;
    uint32_t generation; /* of the pools when its events were taken */
    unsigned nevents, done;
    CUevent events[WRK_WAIT_EVENTS];
    CUevent borrowed; /* the application's event (cuEventSynchronize), not from the pool */
    wrk_wait_finish finish;
    uint64_t arg[4];     /* for finish */
    void *buffer;        /* reply payload; not owned */
    uint32_t payload;    /* bytes of it */
    bool payload_always; /* also after an error */
};

/* How far a stream was at its last vgpStreamThrottle. */
struct wrk_mark {
    uint64_t stream, context;        /* of the wire */
    uint32_t thread;                 /* of per-thread streams */
    VGB_OWNED struct wrk_wait *wait; /* for that work; not started */
};
#define WRK_MARKS_MAX 1024u

struct wrk_event_pool {
    CUcontext ctx;
    unsigned n;
    CUevent free[64];
};
#define WRK_EVENT_POOLS 16

/* An event of the client's that waits look at: destroyed when the last one is done. */
struct wrk_borrowed {
    CUevent event;
    unsigned waits; /* 0, and no destroy: free */
    bool destroy;
    bool gone; /* its context ended: it is not destroyed again */
};

struct wrk_waits {
    VGB_OWNED struct wrk_wait *polled; /* the dispatcher's own list */
    unsigned npolled;
    pthread_mutex_t lock;
    pthread_cond_t work;
    VGB_OWNED struct wrk_wait *queue, **queue_tail; /* for the waiters */
    unsigned threads, idle_threads;
    pthread_mutex_t events_lock; /* pools; the generation changes under it */
    struct wrk_event_pool pools[WRK_EVENT_POOLS];
    uint32_t generation;                /* +1 whenever a context's events are forgotten */
    VGB_LISTED struct wrk_wait *flight; /* all that were started and are not finished; lock */
    pthread_cond_t left;                /* one has left `flight` */
    VGB_OWNED struct wrk_wait *landed;  /* finished, for the dispatcher to land; lock */
    atomic_uint to_land;                /* waits there, and events to destroy */
    uint64_t landings;                  /* ends of calls that the dispatcher has executed */
    atomic_uint long_calls;             /* in progress, and waits of the worker's own */
    atomic_bool said_busy;              /* what the broker knows of it; written by the dispatcher */
    struct wrk_borrowed borrowed[VGP_REPLY_SLOTS]; /* lock */
    uint64_t slots_busy; /* atomic: reply slots that a wait has taken over; bounds their number */
};
_Static_assert(VGP_REPLY_SLOTS == 64, "one bit a slot");

void wrk_waits_init(struct wrk_waits *ws);
/* A wait for the call being dispatched; takes over its reply. NULL: no memory. */
struct wrk_wait *wrk_wait_new(struct wrk_call *c);
/* Is everything issued to this stream complete? NOT_READY also for a legacy stream beside others: a wait tells then. */
struct wrk_answer wrk_stream_query(struct wrk_worker *w, CUstream stream);
/* Adds "everything issued to this stream so far". */
CUresult wrk_wait_add_stream(struct wrk_worker *w, struct wrk_wait *wait, CUstream stream);
/* Adds every stream of the calling context, so that the wait is for all of it. Where they cannot be asked one by one,
 * after an error too, it makes the wait blocking: finish is to wait for the context. */
CUresult wrk_wait_add_context(struct wrk_call *c, struct wrk_wait *wait);
/* What finish does if that has made it blocking: cuCtxSynchronize(), on the waiter. */
CUresult wrk_wait_context_whole(struct wrk_wait *wait);
/* A filter: streams that are destroyed with work in flight, which a wait for their context has to know. */
void wrk_streams_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* Starts it: complete already -> replied and freed at once. The call is deferred from here on;
 * returns CUDA_SUCCESS for the handler to return. */
CUresult wrk_wait_start(struct wrk_call *c, struct wrk_wait *wait);
/* flight.c: in the list of waits under way; out of it, when the provider is not called for it again. */
void wrk_flight_enter(struct wrk_worker *w, struct wrk_wait *wait);
void wrk_flight_leave(struct wrk_worker *w, struct wrk_wait *wait);
/* On a waiter: returns when no earlier wait uses what this one ends. */
void wrk_wait_unused(struct wrk_worker *w, const struct wrk_wait *wait);
/* Events that the client destroyed while waits looked at them. Dispatcher. */
void wrk_destroy_borrowed(struct wrk_worker *w);
/* A wait without events for a call of the provider that may take long: `finish` makes it on a waiter,
 * `land` (may be NULL) ends it on the dispatcher. NULL: no memory. */
struct wrk_wait *wrk_wait_long(struct wrk_call *c, wrk_wait_finish finish, wrk_wait_finish land);
/* The same for the worker itself: no call waits for it. Its context is `ctx`. */
struct wrk_wait *wrk_wait_internal(struct wrk_worker *w, CUcontext ctx);
void wrk_wait_start_internal(struct wrk_worker *w, struct wrk_wait *wait);
/* Lands what waiters have finished. Dispatcher. */
void wrk_waits_land(struct wrk_worker *w);
/* Waits for an event of the client's, whose context is `ctx`, and keeps it meanwhile. */
void wrk_wait_borrow(struct wrk_worker *w, struct wrk_wait *wait, CUevent event, CUcontext ctx);
/* Destroys an event as soon as no wait looks at it. */
CUresult wrk_event_destroy(struct wrk_worker *w, CUevent event);
/* Starts it with `r` as its result: replied and freed at once. For errors while it was built. */
CUresult wrk_wait_fail(struct wrk_call *c, struct wrk_wait *wait, CUresult r);
/* Gives up a wait that was not started. */
void wrk_wait_free(struct wrk_worker *w, struct wrk_wait *wait);
/* Looks at everything that the dispatcher polls. True while something with a reply is left. */
bool wrk_waits_poll(struct wrk_worker *w);
/* Starts the first thread that waits, if it can be had: so that the first call that takes long need not. */
void wrk_waits_prepare(struct wrk_worker *w);
/* Before sleeping: everything with a reply goes to waiter threads. */
void wrk_waits_hand_over(struct wrk_worker *w);
/* The context is about to be destroyed: its pooled events go first. */
void wrk_waits_forget_context(struct wrk_worker *w, CUcontext ctx);
/* Long calls in progress learn that what they make is gone. Before the wait that ends the context. */
void wrk_waits_context_ends(struct wrk_worker *w, CUcontext ctx);

#endif
