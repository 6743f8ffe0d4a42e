/* SPDX-License-Identifier: MIT */
/*
 * Core of the worker: its state, the provider, handles, replies, waits, the channel to the broker.
 *
 * One process serves one guest process. Threads: the dispatcher (main thread: ring, handles,
 * provider calls, broker messages), waiter threads (block in the provider for calls that wait;
 * wrk_wait.c), a reader of the provider's standard output and error (wrk_notify.c), and the provider's own
 * threads (host functions). docs/architecture.md describes the locks and their order.
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
    int doorbell; /* eventfd signalled by the guest */
    int wake_fd;  /* eventfd that has the broker wake the guest; -1 = futex on wake_seq */
    struct wrk_window win;
    struct wrk_ring ring;
    struct wrk_call call;
    struct wrk_handles handles;
    /* Namer of the objects that the current call looks up, reset for each call; NULL: none. */
    VGB_LENT struct wrk_namer *naming;
    bool naming_events; /* `naming` also names events */
    struct wrk_waits waits;
    VGB_OWNED struct wrk_memory *memory; /* state of memory/ */
    struct wrk_quota quota;
    pthread_mutex_t notify_lock;
    uint64_t notify_tail; /* private copy */
    CUcontext current;    /* provider context of the dispatcher thread */
    uint64_t current_handle;
    VGB_OWNED struct wrk_thread_stream *thread_streams;
    unsigned nthread_streams;
    atomic_int sticky; /* first sticky CUresult, also stored in the window */
    /* asynchronous error not reported yet because the ring was full */
    _Atomic uint64_t kept_error;
    _Atomic uint64_t kept_lost;  /* the same for a lost capture */
    _Atomic uint64_t kept_graph; /* the same for a posted node that was not added */
    /* Output waiting for room in the notification ring (wrk_notify.c); under notify_lock. */
    uint64_t lost_prints;      /* dropped pieces of output */
    uint64_t print_tail;       /* notify_tail when waiting time was last granted */
    uint64_t print_counted_ns; /* when the last millisecond of waiting was counted */
    unsigned print_waited_ms;  /* milliseconds of that time used */
    char label[32];
    /* WRK_MARKS_MAX entries, allocated on first use; NULL: none */
    VGB_OWNED struct wrk_mark *marks;
    unsigned nmarks, next_mark;
    unsigned minor;         /* negotiated protocol version: 1.minor */
    struct pol_policy poll; /* the dispatcher's polling for records */
    bool images;            /* the broker keeps images */
    bool blobs_wanted;      /* another client was refused room for images in transit */
    bool holds;             /* the record in `ring` was taken but not executed yet */
};

/* ---- wrk_control.c: the channel to the broker ---- */

/* Ends the client: marks the window DEAD with the reason, tells the broker, exits. */
_Noreturn void wrk_die(struct wrk_worker *w, unsigned reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Handlers of the broker's messages: of guest memory that it sends or takes back, and of what concerns floors above
 * the channel. Called on the dispatcher, also while it waits for an answer of the broker. */
struct wrk_control_ops {
    /* Handles MAP; takes the descriptors over. True: *answer is to be sent; false: more messages
     * follow. */
    bool (*map)(struct wrk_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds,
                struct vgb_msg *answer);
    void (*unmap)(struct wrk_worker *w, uint32_t region);
    /* Handles PLACED. True: *answer is to be sent. */
    bool (*placed)(struct wrk_worker *w, uint32_t region, struct vgb_msg *answer);
    void (*taken)(struct wrk_worker *w, uint32_t region);
    /* Reserves inaccessible address space for the window; NULL: none available. */
    uint8_t *(*place)(uint64_t length);
    /* Handles LIMITS; memory: limit of the VM's device memory, bytes, 0: none. */
    void (*limits)(struct wrk_worker *w, uint64_t memory, const struct vgb_limits *l);
    /* Handles TURN, with the arguments of wrk_flow_turn(). */
    void (*turn)(struct wrk_worker *w, bool open, uint64_t bound_ns, uint32_t number);
    /* Handles HOLDER_GONE. */
    void (*holder_gone)(void);
};
/* To be called before the first message. */
void wrk_control_init(const struct wrk_control_ops *ops);
/* Handles pending broker messages without blocking; wrk_quota_report() is due after it. */
void wrk_control_poll(struct wrk_worker *w);
/* Blocks until the broker assigns a client: *start is its message, whose limits the caller applies. 0, or -1: the
 * window cannot be mapped, already logged. */
int wrk_control_wait_start(struct wrk_worker *w, struct vgb_msg *start);
/* Answers UNMAP; job: address of the mapper's job, 0: none. */
void wrk_control_unmapped(struct wrk_worker *w, uint32_t region, uint32_t status, uint64_t job);
/* Tells the broker when the first long call begins and when the last has ended. */
void wrk_control_busy(struct wrk_worker *w);
/* Reports the state of work (enum vgb_work) in reply to TURN `number`. */
void wrk_control_work(struct wrk_worker *w, uint32_t state, uint32_t number);
/* Asks the broker for a larger reservation and waits for the answer. */
bool wrk_control_reserve(struct wrk_worker *w, uint64_t total, uint64_t least, uint32_t *why);
/* Reports memory held without a reservation; never refused. */
void wrk_control_report(struct wrk_worker *w, uint64_t total);
/* wrk_control_reserve() for images in transit; *granted: bytes reserved now. */
bool wrk_control_reserve_blobs(struct wrk_worker *w, uint64_t total, uint64_t least, uint64_t *granted);
/* Asks the broker for the GPU usage of all clients and waits for the answer, VGB_M_USAGE. */
void wrk_control_usage(struct wrk_worker *w, struct vgb_msg *m);

/* Sends SHARE_NEW or SHARE_OPEN; *m becomes the answer. A descriptor owned by the caller, or -1. */
int wrk_control_share(struct wrk_worker *w, struct vgb_msg *m);
/* Asks for an image; the answer, VGB_M_IMAGE, in *m. A descriptor owned by the caller, or -1. */
int wrk_control_image(struct wrk_worker *w, const uint8_t *hash, uint64_t size, struct vgb_msg *m);
/* Reports that memory `number` was filled (`complete`) or never will be. */
void wrk_control_image_filled(struct wrk_worker *w, uint64_t number, bool complete);
/* Sends SHARE_DROP; returns when the broker has dropped the token. */
void wrk_control_drop(struct wrk_worker *w, const uint8_t *token);

/* ---- wrk_flow_cost.c: room in wrk_flow.c's table of marks ---- */

#define WRK_MARKS 2048u

struct wrk_flow_mark {
    /* NULL: could not be recorded; complete when `stream` is, else at `until_ns` */
    CUevent event;
    CUstream stream; /* if `asked` */
    bool asked;
    bool unknown;  /* the last query returned an error, or there was none as the stream captures */
    bool captured; /* the latter; calls of the capture cannot wait for it */
    bool merged;   /* stands for merged marks of many streams: unknown until the context ends */
    /* the end of its context, which completes it; NULL: its context is not ending */
    VGB_LENT const struct wrk_wait *ending;
    bool of_green; /* its green context has ended: `ctx` is the one below, the event is for no other stream */
    VGB_OWNED struct wrk_rest *rest; /* of an ending context; NULL: its progress is not noted */
    unsigned seen;                   /* marks of `rest` that were complete at the last look */
    CUcontext ctx;
    uint64_t begun_ns, until_ns, cost_ns;
    uint32_t key; /* key common to all its calls, 0: they differ */
    unsigned calls;
};

/* Both return the number of marks that are left, in their order. */

/* Merges all marks of a context that has an error into a single one. */
unsigned wrk_flow_merge_unknown(struct wrk_flow_mark *marks, unsigned n);
/* Merges marks of the same stream in pairs, up to `calls_max` calls each. */
unsigned wrk_flow_merge_streams(struct wrk_flow_mark *marks, unsigned n, unsigned calls_max);

/* ---- wrk_flow.c: what was put into streams and is not complete; dispatcher ---- */

/* True if the call pending in w->ring may run now. False: it waits, with everything behind it. */
bool wrk_flow_may(struct wrk_worker *w, uint16_t call, uint32_t flags);
/* Records that a call that puts work into its stream has succeeded. */
void wrk_flow_issued(struct wrk_call *c);
/* Forgets a context that ends. Its work counts until `end` has landed; NULL: no more from now on. The context exists. */
void wrk_flow_context_ends(struct wrk_worker *w, CUcontext ctx, struct wrk_wait *end);
void wrk_flow_context_gone(const struct wrk_wait *end);
/* The same for a green context, whose work is that of the context below from now on. */
void wrk_flow_green_ends(struct wrk_worker *w, CUcontext ctx, CUcontext base);
/* wrk_flow_cost.c: key of calls likely to cost the same; not 0. */
uint32_t wrk_flow_key(uint16_t call, const uint8_t *args, uint32_t size);
/* Estimated cost of the next call with this key, ns; 0: unknown. */
uint64_t wrk_flow_cost(uint32_t key);
/* Learns that `calls` calls with this key took `ns` in total. */
void wrk_flow_learn(uint32_t key, unsigned calls, uint64_t ns);
/* Collects completed work and informs the broker. `idle`: the ring is empty. */
void wrk_flow_look(struct wrk_worker *w, bool idle);
/* Maximum sleep of the dispatcher before the next wrk_flow_look(), ns; UINT64_MAX: no limit. */
uint64_t wrk_flow_patience(const struct wrk_worker *w);

/* ---- wrk_client_limits.c: the time limit while a call of the provider holds the dispatcher ---- */

/* A round of the dispatcher's loop begins. */
void wrk_stall_round(void);
/* The dispatcher begins its sleep, or has ended it. */
void wrk_stall_rests(void);
/* Starts the watching thread where there is a time limit; at the start of the loop and after each change of the
 * limits. */
void wrk_stall_watch(struct wrk_worker *w);
/* Maximum calls in flight, 0: no limit. With a time limit, no more than a driver takes without waiting. Dispatcher. */
uint64_t wrk_stall_queue(void);
/* What the watching thread has seen. All zero: nothing yet. */
struct wrk_stall {
    uint64_t round, ended;        /* at the last look */
    uint64_t looked_ns, since_ns; /* since when the round is the same and nothing has ended */
};
/* A look. True: work is under way, and for more than most_ns none has ended in the same round; 0: no limit. */
bool wrk_stall_look(struct wrk_stall *s, uint64_t round, uint64_t now, uint64_t most_ns);
/* Time for which this process was stopped or had no processor since its start, as the watching thread has
 * seen it, ns. False: there is no such thread. */
bool wrk_stall_stopped(uint64_t now, uint64_t *ns);
/* Begins (`open`) or ends this worker's turn. `bound_ns`: maximum work in flight; 0: unlimited.
 * `number`: of the TURN message, repeated in answers. */
void wrk_flow_turn(struct wrk_worker *w, bool open, uint64_t bound_ns, uint32_t number);
/* Leaves pacing by turns. */
void wrk_flow_turns_end(void);
/* Called before a stream is destroyed; its work continues. */
void wrk_flow_stream_ends(struct wrk_worker *w, CUstream stream);

/* ---- wrk_call.c: what calls of all kinds need ---- */

/*
 * Adds to a counter in the window, written by the dispatcher alone and read for lists and metrics.
 */
static inline void wrk_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Makes a context current on the dispatcher thread. */
CUresult wrk_set_context(struct wrk_worker *w, CUcontext ctx);
/* Notes that the provider created `ctx` and thereby made it current. */
void wrk_context_created(struct wrk_worker *w, CUcontext ctx);
/* Stores sticky errors; returns r. */
CUresult wrk_note_result(struct wrk_worker *w, CUresult r);
/* Reports the failure of a call without reply. */
void wrk_async_error(struct wrk_worker *w, uint16_t call, CUresult r);
/* The same for a captured call, whose capture is lost thereby. */
void wrk_async_capture_lost(struct wrk_worker *w, uint16_t call, CUresult r);
/* The same for a posted node that could not be added (VGP_NOTIFY_GRAPH_FAILED). */
void wrk_async_graph_failed(struct wrk_worker *w, uint16_t call, CUresult r);
/* Sends errors that found no room before. Called periodically by the dispatcher. */
void wrk_async_error_retry(struct wrk_worker *w);
/* Provider stream for a wire value (0, 1, 2 or a handle). */
CUresult wrk_stream_get(struct wrk_call *c, uint64_t value, CUstream *out);
/* Entry i of thread_streams has ended with its context: the last one takes its place. */
void wrk_thread_stream_gone(struct wrk_worker *w, unsigned i);
/* Number of captures begun and not ended by the guest; 0 = no stream needs a query. */
extern unsigned wrk_captures;
/* Makes room for another capture, before it begins. False: no memory. */
bool wrk_capture_room(void);
/* Adds a capture that began in `stream` and goes into `graph`. `own`: the provider made the graph for it. There is
 * room. */
void wrk_capture_begun(CUstream stream, CUgraph graph, bool own);
/* Removes the capture that began in the stream, if any: the capture has ended. */
void wrk_capture_forget(CUstream stream);
/*
 * Ends the capture that began in the stream, if any, before the stream ends: other streams may have joined the capture,
 * and would capture calls that the worker takes for calls that run. A context is current.
 */
void wrk_capture_end(CUstream stream);
/* The same for a stream that ends with its context: a capture that the provider does not end yet (an error of the
 * context) counts until the context is gone. */
void wrk_capture_leave(CUstream stream);
/* Brackets the end of a context, from its streams' end until it has landed. */
void wrk_captures_context_ends(void);
void wrk_captures_context_gone(struct wrk_worker *w);
/* True between the two. The wait that ends the context uses wrk_context_end, for those that wait for all such ends. */
bool wrk_contexts_ending(void);
extern const char wrk_context_end;
/* Graph of capture i, below wrk_captures. */
CUgraph wrk_capture_graph(unsigned i);
/* Invalidates all captures, by querying their streams: a capture does not survive a query. */
void wrk_captures_lose(void);
/* Removes captures that the provider reports as ended; an error of the provider does not count. */
void wrk_captures_look(void);
/* True if a capture goes into this graph. */
bool wrk_capture_into(CUgraph graph);
/* Called for each capture that wrk_captures_look() removes. Its graph has ended, unless the client
 * owns it. */
extern void (*wrk_capture_over)(struct wrk_worker *w, CUgraph graph);
/* To be called afterwards, when no context is about to end: drops their graphs and, if no capture
 * is left, the names held by captures. */
void wrk_captures_settle(struct wrk_worker *w);
/* True for launch attributes whose value is plain data; the rest hold events or host pointers of
 * the guest. */
bool wrk_plain_attribute(uint32_t id);

/* ---- wrk_context.c: green contexts and their primary contexts ---- */

/* A green context. The fields belong to its owner and do not change while it is in the list. */
struct wrk_green_base {
    VGB_LISTED struct wrk_green_base *next;
    uint64_t base;           /* handle of the underlying primary context */
    CUcontext ctx, base_ctx; /* the green context's CUcontext, and the primary one */
};
/* Add to and remove from the list. Dispatcher. */
void wrk_green_base_add(struct wrk_green_base *g);
void wrk_green_base_remove(struct wrk_green_base *g);
bool wrk_greens_exist(void);
/* Primary context under a green context, which owns its memory, modules and events; any other
 * context is returned as is. As a guest handle and as the provider's object. Dispatcher. */
uint64_t wrk_base_handle(struct wrk_worker *w, uint64_t context);
CUcontext wrk_base_context(CUcontext ctx);
/* True if a stream made in context `owner` belongs to `context`. A stream of a green context
 * belongs to the green and the primary context. */
bool wrk_context_has(struct wrk_worker *w, uint64_t context, uint64_t owner);
/* True if green contexts exist on `context` or on its underlying primary context. */
bool wrk_context_divided(struct wrk_worker *w, uint64_t context);

#endif
