/* SPDX-License-Identifier: MIT */
/*
 * The worker's own machinery: its state, the provider, handles, replies, waits, the broker.
 *
 * One process serves one guest process. Threads: the dispatcher (the main thread: ring, handles, provider
 * calls, broker messages), waiter threads (block in the provider for calls that wait; wait.c), a reader of
 * the provider's standard output and error (notify.c), and the provider's own (host functions). Their locks
 * and the order of these are in docs/architecture.md.
 */
#ifndef WRK_CORE_H
#define WRK_CORE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/poll/poll.h"
#include "vgb_log.h"
#include "vgb_msg.h"
#include "vgp_ring.h"
#include "vgp_worker_rt.h"
#include "window/window.h"

#include "client_limits.h"
#include "handle.h"
#include "naming.h"
#include "notify.h"
#include "provider.h"
#include "quota.h"
#include "share.h"
#include "wait.h"

/* ---- the state of the worker ---- */

struct wrk_memory;

#define WRK_THREAD_STREAMS_MAX 4096 /* per-thread default streams of one client */
struct wrk_thread_stream {
    uint64_t context; /* handle */
    uint32_t thread;
    CUstream stream;
};

struct wrk_worker {
    int sock;     /* to the broker */
    int doorbell; /* eventfd: the guest rings */
    int wake_fd;  /* eventfd: the broker passes an event on; -1 = futex on wake_seq */
    struct wrk_window win;
    struct wrk_ring ring;
    struct wrk_call call;
    struct wrk_handles handles;
    /* What names the objects that the current call looks up, set anew for each call; NULL: nothing. */
    VGB_LENT struct wrk_namer *naming;
    bool naming_events; /* ... events too */
    struct wrk_waits waits;
    VGB_OWNED struct wrk_memory *memory; /* of the floor of that name */
    struct wrk_quota quota;
    pthread_mutex_t notify_lock;
    uint64_t notify_tail; /* private */
    CUcontext current;    /* provider context of the dispatcher thread */
    uint64_t current_handle;
    VGB_OWNED struct wrk_thread_stream *thread_streams;
    unsigned nthread_streams;
    atomic_int sticky;           /* first sticky CUresult, also in the window */
    _Atomic uint64_t kept_error; /* an asynchronous error that found the ring full */
    _Atomic uint64_t kept_lost;  /* ... and a capture that was lost */
    _Atomic uint64_t kept_graph; /* ... and a posted node that was not added */
    /* Output that waits for room in the ring of notifications (notify.c); under notify_lock. */
    uint64_t lost_prints;      /* pieces that were dropped */
    uint64_t print_tail;       /* notify_tail when the time to wait was last granted */
    uint64_t print_counted_ns; /* when its last millisecond was counted */
    unsigned print_waited_ms;  /* of that time */
    char label[32];
    VGB_OWNED struct wrk_mark *marks; /* WRK_MARKS_MAX, made by the first; NULL: none */
    unsigned nmarks, next_mark;
    unsigned minor;         /* version 1.minor of the protocol is spoken */
    struct pol_policy poll; /* of the dispatcher for records */
    bool images;            /* the broker keeps images */
    bool blobs_wanted;      /* another client was refused room for images on their way */
    bool holds;             /* the record in `ring` was taken and is not executed yet */
};

/* ---- control.c: the channel to the broker ---- */

/* Ends the client: window DEAD with the reason, the broker told, the process ended. */
_Noreturn void wrk_die(struct wrk_worker *w, unsigned reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* What happens with guest memory that the broker sends, or wants back. Dispatcher; while it waits for an
 * answer of the broker, too. */
struct wrk_control_ops {
    /* A MAP; takes the descriptors over. True: *answer goes to the broker; else more messages follow. */
    bool (*map)(struct wrk_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds,
                struct vgb_msg *answer);
    void (*unmap)(struct wrk_worker *w, uint32_t region);
    /* PLACED: true: *answer goes to the broker. */
    bool (*placed)(struct wrk_worker *w, uint32_t region, struct vgb_msg *answer);
    void (*taken)(struct wrk_worker *w, uint32_t region);
    /* Address space for the window, inaccessible; NULL: there is none. */
    uint8_t *(*place)(uint64_t length);
};
/* Before the first message. */
void wrk_control_init(const struct wrk_control_ops *ops);
/* Handles what the broker has said, without blocking. */
void wrk_control_poll(struct wrk_worker *w);
/* Blocks until the broker assigns a client. 0, or -1 when the broker closed. */
int wrk_control_wait_start(struct wrk_worker *w);
/* Answers UNMAP; job: address of the mapper's job, 0: none. */
void wrk_control_unmapped(struct wrk_worker *w, uint32_t region, uint32_t status, uint64_t job);
/* Tells the broker when calls that take long begin to be under way, and when the last one has ended. */
void wrk_control_busy(struct wrk_worker *w);
/* Says what there is to do, enum vgb_work, after the TURN of that number. */
void wrk_control_work(struct wrk_worker *w, uint32_t state, uint32_t number);
/* Asks the broker for a larger reservation; blocks for its answer. */
bool wrk_control_reserve(struct wrk_worker *w, uint64_t total, uint64_t least, uint32_t *why);
/* Says what is held where nothing was reserved: never refused. */
void wrk_control_report(struct wrk_worker *w, uint64_t total);
/* wrk_control_reserve() for images on their way; *granted: the bytes that are reserved now. */
bool wrk_control_reserve_blobs(struct wrk_worker *w, uint64_t total, uint64_t least, uint64_t *granted);
/* Asks the broker who uses the GPU how much: a VGB_M_USAGE; blocks for its answer. */
void wrk_control_usage(struct wrk_worker *w, struct vgb_msg *m);

/* A SHARE_NEW or SHARE_OPEN; *m becomes the answer. A descriptor that the caller closes, or -1. */
int wrk_control_share(struct wrk_worker *w, struct vgb_msg *m);
/* Asks for an image: a VGB_M_IMAGE; a descriptor that the caller closes, or -1. */
int wrk_control_image(struct wrk_worker *w, const uint8_t *hash, uint64_t size, struct vgb_msg *m);
/* The memory of that number has been filled, or will not be. */
void wrk_control_image_filled(struct wrk_worker *w, uint64_t number, bool complete);
/* A SHARE_DROP; returns when the broker has forgotten the token. */
void wrk_control_drop(struct wrk_worker *w, const uint8_t *token);

/* ---- flow.c: what was put into streams and is not complete; dispatcher ---- */

/* May the call that waits in w->ring be made now? False: it waits, and what is behind it. */
bool wrk_flow_may(struct wrk_worker *w, uint16_t call, uint32_t flags);
/* The call, which puts work into its stream, has succeeded. */
void wrk_flow_issued(struct wrk_call *c);
/* A context ends, with its streams. */
void wrk_flow_context_ends(struct wrk_worker *w, CUcontext ctx);
/* Sees what has completed, and tells the broker what it needs to know. `idle`: the ring has nothing. */
void wrk_flow_look(struct wrk_worker *w, bool idle);
/* How long the dispatcher may sleep before the next look; nanoseconds, UINT64_MAX: for ever. */
uint64_t wrk_flow_patience(const struct wrk_worker *w);
/* The broker shares the GPU by turns; this worker's begins (open) or ends. `bound_ns` of work at once, 0: no matter
 * how much. `number`: of this message, to be said in answers. */
void wrk_flow_turn(struct wrk_worker *w, bool open, uint64_t bound_ns, uint32_t number);
/* Shares are not by turns any more. */
void wrk_flow_turns_end(void);
/* A stream is about to be destroyed; its work goes on. */
void wrk_flow_stream_ends(struct wrk_worker *w, CUstream stream);

/* ---- call.c: what calls of all kinds need ---- */

/* Adds to a counter of the window that only the dispatcher writes; for lists and metrics. */
static inline void wrk_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Makes a context current on this (dispatcher) thread. */
CUresult wrk_set_context(struct wrk_worker *w, CUcontext ctx);
/* The provider has made `ctx`, which made it current. */
void wrk_context_created(struct wrk_worker *w, CUcontext ctx);
/* Remembers sticky errors; returns r. */
CUresult wrk_note_result(struct wrk_worker *w, CUresult r);
/* The call had no reply and failed. */
void wrk_async_error(struct wrk_worker *w, uint16_t call, CUresult r);
/* The same of a call that was captured: its capture has been lost by it. */
void wrk_async_capture_lost(struct wrk_worker *w, uint16_t call, CUresult r);
/* ... so does a posted node that could not be added (VGP_NOTIFY_GRAPH_FAILED). */
void wrk_async_graph_failed(struct wrk_worker *w, uint16_t call, CUresult r);
/* Sends what found no room; dispatcher, now and then. */
void wrk_async_error_retry(struct wrk_worker *w);
bool wrk_is_sticky(CUresult r);
/* The provider stream of a wire value (0, 1, 2 or a handle). */
CUresult wrk_stream_get(struct wrk_call *c, uint64_t value, CUstream *out);
/* Captures that the guest began and did not end; 0 = no stream needs asking. */
extern unsigned wrk_captures;
/* Makes room for one more; before it begins. False: no memory. */
bool wrk_capture_room(void);
/* The provider captures from this stream on into this graph. There is room. */
void wrk_capture_begun(CUstream stream, CUgraph graph);
/* The capture that began in the stream, if there is one, has ended, or the stream is no more. */
void wrk_capture_forget(CUstream stream);
/* Invalidates all of them: asking whether a captured stream is done is what a capture does not survive. */
void wrk_captures_lose(void);
/* Forgets all that the provider says have ended; an error of the provider's is no such answer. */
void wrk_captures_look(void);
/* Does a capture go into this graph? */
bool wrk_capture_into(CUgraph graph);
/* Called then, for each that was forgotten: its graph has ended with it, unless it is the client's. */
extern void (*wrk_capture_over)(struct wrk_worker *w, CUgraph graph);
/* After that, when no context is about to end: their graphs go, and without captures nothing is named by one. */
void wrk_captures_settle(struct wrk_worker *w);
/* Launch attributes whose value is plain data. Others hold events or host pointers of the guest. */
bool wrk_plain_attribute(uint32_t id);

/* ---- context.c: green contexts and what they stand on ---- */

/* A green context. The fields are the owner's, and do not change while it is in the list. */
struct wrk_green_base {
    VGB_LISTED struct wrk_green_base *next;
    uint64_t base;           /* handle of the primary context that it stands on */
    CUcontext ctx, base_ctx; /* its own, and that one */
};
/* Into the list; out of it. Dispatcher. */
void wrk_green_base_add(struct wrk_green_base *g);
void wrk_green_base_remove(struct wrk_green_base *g);
/* The context that a green context stands on, which its memory, modules and events belong to; any other
 * context is its own. As handles of the guest, and as the provider's. Dispatcher. */
uint64_t wrk_base_handle(struct wrk_worker *w, uint64_t context);
CUcontext wrk_base_context(CUcontext ctx);
/* Does a stream of the context `owner` belong to `context`? That of a green context does to both. */
bool wrk_context_has(struct wrk_worker *w, uint64_t context, uint64_t owner);
/* Are there green contexts that stand on it, or on what it stands on? */
bool wrk_context_divided(struct wrk_worker *w, uint64_t context);

#endif
