/* SPDX-License-Identifier: MIT */
/*
 * vgpu-worker, inside. One process serves one guest process.
 *
 * Threads: the dispatcher (the main thread: ring, handles, provider calls, broker messages), waiter
 * threads (block in the provider for calls that wait; wait.c), a reader of the provider's standard
 * output (notify.c), and the provider's own threads (host functions; hostfunc.c).
 * Locks, in order: waits.lock, then events.lock, then notify_lock. The handle table, the regions
 * and the blobs belong to the dispatcher alone and have no lock.
 */
#ifndef VGB_WORKER_H
#define VGB_WORKER_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgb_log.h"
#include "vgb_msg.h"
#include "vgp_ring.h"
#include "vgp_worker_rt.h"

/* ---- window.c: the layout, known privately, and the shared header ---- */

struct vgb_window {
    uint8_t *base; /* mapping of the slice; bytes inside change under us */
    struct vgp_window_shared *shared;
    uint64_t size;
    uint32_t ring_offset, ring_size;
    uint32_t reply_offset;
    uint32_t notify_offset, notify_size;
    uint64_t staging_offset, staging_size;
};

/* Plans the layout of a window of `size` bytes; false when it is too small or not a power of two
 * multiple of pages. Touches no memory. */
bool vgb_window_plan(struct vgb_window *win, uint64_t size);
/* Writes the header into an all-zero window, magic last. */
void vgb_window_publish(struct vgb_window *win, unsigned minor);

/* ---- ring.c: records out of shared memory, once, into private memory ---- */

struct vgb_ring {
    uint64_t head;          /* private: what was consumed; shared memory only gets a copy */
    struct vgp_record rec;  /* private copy of the current record's header */
    uint8_t *args;          /* private copy of what follows it, VGP_RECORD_MAX bytes */
    uint32_t args_size;
    const char *error;      /* what was malformed */
};

enum vgb_ring_state { VGB_RING_EMPTY, VGB_RING_RECORD, VGB_RING_MALFORMED };

bool vgb_ring_init(struct vgb_ring *r);
void vgb_ring_fini(struct vgb_ring *r);
/* Takes the next record: copies, validates the copy, publishes the new head. Pads are skipped. */
enum vgb_ring_state vgb_ring_next(struct vgb_ring *r, const struct vgb_window *win);
/* True when the shared tail differs from what was consumed. */
bool vgb_ring_pending(const struct vgb_ring *r, const struct vgb_window *win);

/* ---- handle.c ---- */

struct vgb_handle_entry {
    void *object;
    uint64_t owner;  /* handle of the context that was current when it was made */
    uint64_t parent; /* handle of the module or library that it is part of, 0 = none */
    uint32_t generation; /* of the current or, when not live, the last object */
    bool live;
};

struct vgb_handle_chunk;
struct vgb_handles {
    struct vgb_handle_chunk **chunks[VGP_H_TYPES]; /* VGB_HANDLE_CHUNKS pointers each, on demand */
    uint32_t high[VGP_H_TYPES];                    /* highest index ever used + 1 */
    uint64_t live[VGP_H_TYPES];
    uint32_t *free_list[VGP_H_TYPES]; /* minted here: indices to be used again */
    uint32_t nfree[VGP_H_TYPES], free_room[VGP_H_TYPES];
};

void vgb_handles_fini(struct vgb_handles *t);
/* NULL unless `handle` is well-formed, of that type, live and of the current generation. */
struct vgb_handle_entry *vgb_handles_find(struct vgb_handles *t, uint64_t handle, unsigned type);
/* 0: the slot can be put into; INVALID_HANDLE: malformed, other type, live or the generation of the
 * last use; OUT_OF_MEMORY. */
CUresult vgb_handles_reserve(struct vgb_handles *t, uint64_t handle, unsigned type);
/* Only right after a reserve that succeeded. `owner`: handle of the context it belongs to. */
void vgb_handles_put(struct vgb_handles *t, uint64_t handle, unsigned type, void *object,
                     uint64_t owner);
bool vgb_handles_remove(struct vgb_handles *t, uint64_t handle, unsigned type);
/* A new handle for an object, for types that are minted here (graphs and their nodes) and never by
 * the guest. 0: no memory, or VGP_HANDLE_INDEX_MAX are live. */
uint64_t vgb_handles_mint(struct vgb_handles *t, unsigned type, void *object);
/* Calls fn for each live entry of a type. */
void vgb_handles_each(struct vgb_handles *t, unsigned type,
                      void (*fn)(struct vgb_handle_entry *e, uint64_t handle, void *arg),
                      void *arg);

/* ---- share.c: what other workers of this VM may open ---- */

/* As the software GPU's sg_share.h declares it. */
struct vgb_share_ops {
    int (*create)(void *arg, uint32_t kind, uint64_t bytes, uint8_t *token, uint32_t *holder);
    int (*open)(void *arg, uint32_t kind, const uint8_t *token, uint32_t *holder);
    void (*close)(void *arg, const uint8_t *token);
    int (*again)(void *arg, const uint8_t *token);
    bool (*gone)(void *arg, uint32_t holder);
};

/* Offers it to the provider. Dispatcher, before the sandbox. */
void vgb_share_init(struct vgb_worker *w);
/* The token that the provider got for the latest thing it made; false: it made nothing since the
 * last vgb_share_forget(). */
bool vgb_share_latest(uint8_t *token);
void vgb_share_forget(void);
/* Opens what another worker has made (kind FD): a descriptor, or -1. Dispatcher. */
int vgb_share_open(struct vgb_worker *w, const uint8_t *token, uint64_t *length);
/* One open (or create) less; any thread. */
void vgb_share_drop(struct vgb_worker *w, const uint8_t *token);
/* Tells the broker what other threads have dropped. Dispatcher. */
void vgb_share_flush(struct vgb_worker *w);
/* Bytes of a provider's own handle: a token for them, and what is behind one. Dispatcher. */
CUresult vgb_share_put(struct vgb_worker *w, const void *payload, uint64_t device_bytes,
                       uint8_t *token);
CUresult vgb_share_get(struct vgb_worker *w, const uint8_t *token, void *payload);

/* CU_MEM_HANDLE_TYPE_* that can be served: descriptors, when the provider asks for its memory. */
uint32_t vgb_share_handle_types(void);

/* ---- calls_ipc.c ---- */

/* calls_share.c: the same for pools. */
void vgb_share_wrap(struct vgb_worker *w);
/* A pool has been made that can be exported; without memory for that it cannot. */
void vgb_share_note_pool(CUmemoryPool pool);

/* Puts the bookkeeping of handles in front of the provider's calls that end what they stand for. */
void vgb_ipc_wrap(struct vgb_worker *w);
/* What the context had opened or given out is gone. */
void vgb_ipc_context_gone(struct vgb_worker *w, CUcontext ctx);

/* ---- provider.c ---- */

/* What the worker's own machinery needs, whatever the calls of the protocol are. */
struct vgb_core {
    CUresult (*Init)(unsigned);
    CUresult (*DriverGetVersion)(int *);
    CUresult (*DeviceGetCount)(int *);
    CUresult (*DeviceGet)(CUdevice *, int);
    CUresult (*DeviceGetName)(char *, int, CUdevice);
    CUresult (*CtxSetCurrent)(CUcontext);
    CUresult (*CtxSynchronize)(void);
    CUresult (*StreamCreate)(CUstream *, unsigned);
    CUresult (*StreamQuery)(CUstream);
    CUresult (*StreamSynchronize)(CUstream);
    CUresult (*EventCreate)(CUevent *, unsigned);
    CUresult (*EventDestroy)(CUevent);
    CUresult (*EventRecord)(CUevent, CUstream);
    CUresult (*EventQuery)(CUevent);
    CUresult (*EventSynchronize)(CUevent);
    CUresult (*MemHostRegister)(void *, size_t, unsigned);
    CUresult (*MemHostUnregister)(void *);
    /* Optional, of the software GPU. */
    const char *(*last_error_detail)(void);
    void (*set_print_sink)(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
    void (*set_error_sink)(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
    /* Optional: the provider asks for memory that other processes may open; share.c. */
    void (*set_share)(const struct vgb_share_ops *ops, void *arg);
    /* Optional: what kernels call a graph that they launch. Without it there are no such graphs, as
     * the provider's own name is not what the client's kernels have. */
    CUresult (*graph_exec_name)(CUgraphExec exec, uint64_t name);
    void *dl;
    bool is_soft;
    int driver_version;
    int device_count;
    char name[128]; /* of device 0 */
};
extern struct vgb_core vgb_cu;

/* Loads the provider and initialises it. 0, or -1 with a sentence in err. */
int vgb_provider_open(const char *path, char *err, size_t err_size);

/* ---- reply.c ---- */

/* Publishes a reply and wakes the guest; any thread. slot VGP_NO_REPLY: nothing happens. */
void vgb_reply_send(struct vgb_worker *w, uint32_t slot, uint32_t seq, CUresult result,
                    const void *payload, uint32_t size, uint32_t flags);
void vgb_wake_guest(struct vgb_worker *w, bool always);

/* ---- notify.c ---- */

/* Queues a notification; false when the guest does not make room. `wait_ms` > 0: waits that long
 * for room (never on the dispatcher). Any thread. */
bool vgb_notify(struct vgb_worker *w, enum vgp_notify_type type, uint64_t cookie, const void *text,
                uint32_t size, unsigned wait_ms);
void vgb_notify_detail(struct vgb_worker *w, const char *text);
/* Sends what the provider prints (device printf) to the guest. Before the sandbox. */
int vgb_notify_capture_output(struct vgb_worker *w);
/* What was printed so far is in the notification ring when this returns: before the reply of the
 * call that printed it. Any thread. */
void vgb_notify_drain_output(struct vgb_worker *w);

/* ---- wait.c: what completes later ---- */

#define VGB_WAIT_EVENTS 24   /* streams of a context that a context-wide wait polls itself */
#define VGB_WAITERS_MAX 64   /* threads; a wait takes a reply slot, so no more can be in flight */
#define VGB_POLL_LONG_NS 200000 /* a wait that takes longer than this goes to a waiter thread */

struct vgb_wait;
/* Runs when the wait is complete, on the dispatcher or on a waiter, the context current; returns
 * the result to reply. `r`: result of the wait. */
typedef CUresult (*vgb_wait_finish)(struct vgb_worker *w, struct vgb_wait *wait, CUresult r);

struct vgb_wait {
    struct vgb_wait *next;
    CUcontext ctx;
    uint64_t started_ns;
    uint32_t slot, seq;
    uint16_t call;
    bool blocking;      /* no events: a waiter runs finish, which may block */
    uint32_t generation; /* of the pools when its events were taken */
    unsigned nevents, done;
    CUevent events[VGB_WAIT_EVENTS];
    CUevent borrowed;   /* the application's event (cuEventSynchronize), not from the pool */
    vgb_wait_finish finish;
    uint64_t arg[4];    /* for finish */
    void *buffer;       /* reply payload; not owned */
    uint32_t payload;   /* bytes of it */
};

/* How far a stream was at its last vgpStreamThrottle. */
struct vgb_mark {
    uint64_t stream, context; /* of the wire */
    uint32_t thread;          /* of per-thread streams */
    struct vgb_wait *wait;    /* for that work; not started */
};
#define VGB_MARKS_MAX 1024u

/* Results of copies on their way into replies; registered with the provider, as staging is. */
#define VGB_BOUNCE_SLOT 4096u
struct vgb_bounce {
    uint8_t *base;        /* VGP_REPLY_SLOTS slots */
    CUcontext registered; /* context in which base and staging were registered */
};

struct vgb_event_pool {
    CUcontext ctx;
    unsigned n;
    CUevent free[64];
};
#define VGB_EVENT_POOLS 16

struct vgb_waits {
    struct vgb_wait *polled;      /* the dispatcher's own list */
    unsigned npolled;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct vgb_wait *queue, **queue_tail; /* for the waiters */
    unsigned threads, idle_threads;
    pthread_mutex_t events_lock; /* pools, generation */
    struct vgb_event_pool pools[VGB_EVENT_POOLS];
    uint32_t generation; /* +1 whenever a context's events are forgotten */
    uint64_t slots_busy; /* atomic: reply slots that a wait has taken over; bounds their number */
};
_Static_assert(VGP_REPLY_SLOTS == 64, "one bit a slot");

void vgb_waits_init(struct vgb_waits *ws);
/* A wait for the call being dispatched; takes over its reply. NULL: no memory. */
struct vgb_wait *vgb_wait_new(struct vgb_call *c);
/* Adds "everything issued to this stream so far". */
CUresult vgb_wait_add_stream(struct vgb_worker *w, struct vgb_wait *wait, CUstream stream);
/* Starts it: complete already -> replied and freed at once. The call is deferred from here on;
 * returns CUDA_SUCCESS for the handler to return. */
CUresult vgb_wait_start(struct vgb_call *c, struct vgb_wait *wait);
/* Starts it with `r` as its result: replied and freed at once. For errors while it was built. */
CUresult vgb_wait_fail(struct vgb_call *c, struct vgb_wait *wait, CUresult r);
/* Gives up a wait that was not started. */
void vgb_wait_free(struct vgb_worker *w, struct vgb_wait *wait);
/* VGB_BOUNCE_SLOT bytes for the result of the call with this reply slot. */
void *vgb_bounce_result(struct vgb_worker *w, uint32_t slot);
/* Looks at everything that the dispatcher polls. True while something with a reply is left. */
bool vgb_waits_poll(struct vgb_worker *w);
/* Before sleeping: everything with a reply goes to waiter threads. */
void vgb_waits_hand_over(struct vgb_worker *w);
/* The context is about to be destroyed: its pooled events go first. */
void vgb_waits_forget_context(struct vgb_worker *w, CUcontext ctx);

/* ---- region.c: memory of the guest that is mapped here ---- */

#define VGB_REGIONS_MAX 4096
struct vgb_region {
    uint32_t id;
    uint32_t flags; /* VGB_MAP_READONLY */
    uint64_t guest_va, length;
    uint8_t *base;       /* where it is mapped here */
    uint64_t mapped;     /* bytes mapped so far; == length when complete */
    bool registered;        /* with the provider */
    uint8_t *registered_at; /* from where */
    CUcontext ctx;          /* in which context */
};
struct vgb_regions {
    struct vgb_region *list;
    unsigned n, room;
};
/* Executes MAP; takes the descriptors over. *answer is filled unless more runs follow (returns
 * false then). */
bool vgb_region_map(struct vgb_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds,
                    struct vgb_msg *answer);
uint32_t vgb_region_unmap(struct vgb_worker *w, uint32_t id);
struct vgb_region *vgb_region_by_id(struct vgb_worker *w, uint32_t id);
/* The host address of guest range [va, va + size), or NULL when no complete region holds all of it
 * (or it is read-only and `write`). */
void *vgb_region_address(struct vgb_worker *w, uint64_t va, uint64_t size, bool write);

/* The guest's address of host memory at [p, p + size), 0 when it is in no complete region. */
uint64_t vgb_region_guest_address(struct vgb_worker *w, const void *p, uint64_t size);

/* ---- copy.c ---- */

/* Bytes from the first to the last one that a copy of size width x height x depth touches, with
 * `pitch` bytes from row to row and `height` rows from plane to plane. False: the numbers make no
 * sense, or overflow. */
bool vgb_copy_span(const uint64_t size[3], uint64_t pitch, uint64_t height, uint64_t *bytes);

/* ---- launch.c ---- */

/* Launch attributes whose value is plain data. Others hold events or host pointers of the guest. */
bool vgb_plain_attribute(uint32_t id);

/* ---- calls_green.c ---- */

/* The context that a green context stands on, which its memory, modules and events belong to; any other
 * context is its own. As handles of the guest, and as the provider's. Dispatcher. */
uint64_t vgb_base_handle(struct vgb_worker *w, uint64_t context);
CUcontext vgb_base_context(CUcontext ctx);
/* Does a stream of the context `owner` belong to `context`? That of a green context does to both. */
bool vgb_context_has(struct vgb_worker *w, uint64_t context, uint64_t owner);
/* Are there green contexts that stand on it, or on what it stands on? */
bool vgb_context_divided(struct vgb_worker *w, uint64_t context);
/* The primary context is about to end. */
void vgb_greens_leave(struct vgb_worker *w, uint64_t base);

/* ---- calls_ctx.c ---- */

/* The primary context of a device as the guest names it, while it is retained; 0: it is not. */
uint64_t vgb_primary(int device, CUcontext *ctx);

/* ---- blob.c ---- */

#define VGB_BLOBS_MAX 16              /* unfinished blobs of one client */
#define VGB_BLOB_TOTAL ((uint64_t)VGP_BLOB_MAX + (256u << 20)) /* bytes of all of them */
struct vgb_blob {
    uint32_t id;
    bool used;
    uint64_t total, filled;
    uint8_t *data;
};
struct vgb_blobs {
    struct vgb_blob list[VGB_BLOBS_MAX];
    uint64_t bytes;
    struct vgb_blob *taken; /* freed after the current call */
    uint32_t refused;       /* id + 1 of a blob that found no memory: its call gets that error */
};
CUresult vgb_blob_append(struct vgb_worker *w, uint32_t id, uint64_t total, const void *data,
                         uint32_t size);
void vgb_blob_drop(struct vgb_worker *w, uint32_t id);
void vgb_blob_call_done(struct vgb_worker *w);

/* ---- quota.c: device memory ---- */

/* What an address of device memory stands for. */
struct vgb_alloc {
    uint64_t address; /* 0 = free */
    uint64_t bytes;
    CUcontext ctx;
};

struct vgb_quota {
    uint64_t limit;    /* for the whole VM, 0 = none */
    uint64_t reserved; /* granted by the broker */
    uint64_t used;
    uint64_t hidden; /* what the provider holds beyond `used`, when it was last looked at */
    pthread_t dispatcher;
    pthread_mutex_t lock; /* waiters free memory too */
    struct vgb_alloc *table; /* open hash by address */
    uint64_t room, count;
};
void vgb_quota_init(struct vgb_worker *w, uint64_t limit);
/* Takes `bytes` before the provider allocates; false: over the quota. Dispatcher only. */
bool vgb_quota_take(struct vgb_worker *w, uint64_t bytes);
void vgb_quota_give(struct vgb_worker *w, uint64_t bytes);
/* Gives back what was reserved and is not used; the dispatcher only, which owns the channel. */
void vgb_quota_trim(struct vgb_worker *w);
/* Remembers and forgets what an address stands for. */
bool vgb_quota_remember(struct vgb_worker *w, uint64_t address, uint64_t bytes, CUcontext ctx);
void vgb_quota_forget(struct vgb_worker *w, uint64_t address);
/* Forget in two steps: the entry first, while the address cannot be anybody else's yet; the bytes
 * (vgb_quota_give) when the provider has really freed them. */
bool vgb_quota_detach(struct vgb_worker *w, uint64_t address, struct vgb_alloc *out);
uint64_t vgb_quota_detach_context(struct vgb_worker *w, CUcontext ctx); /* the sum */

/* Puts the counting in front of the provider's allocating functions, also without a limit: NVML
 * shows what a client uses. */
void vgb_quota_wrap(struct vgb_worker *w);
/* Bytes of device memory that the provider holds for this process; 0: it cannot say, or its memory
 * is not this process's alone. */
uint64_t vgb_provider_used(void);

/* ---- calls_*.c: hand-written handlers; declared in the generated vgp_worker.h ---- */

/* calls_link.c: JIT options as the provider takes them, with room for the two logs. */
#define VGB_JIT_OPTIONS 32u
struct vgb_jit {
    unsigned n;
    CUjit_option options[VGB_JIT_OPTIONS + 4];
    void *values[VGB_JIT_OPTIONS + 4];
};
/* Takes options over that are plain numbers; INVALID_VALUE for others. */
CUresult vgb_jit_options(struct vgb_call *c, struct vgb_jit *j, const uint32_t *ids, uint32_t n,
                         const uint64_t *values, uint32_t nvalues);
/* Adds a log buffer, which must live as long as the provider may write it. */
void vgb_jit_log(struct vgb_jit *j, bool error, char *buffer, uint32_t size);
/* The link states of a context that ends, which is current. */
void vgb_links_end(struct vgb_worker *w, uint64_t context);

/* calls_module.c: checks an image from the wire and puts room behind it; *copy is the caller's to
 * free. INVALID_IMAGE, with a detail for the trace, when it claims more than was sent. */
CUresult vgb_image_take(struct vgb_call *c, const void **image, uint64_t size, bool is_blob,
                        void **copy);

/* A module just loaded: are its variables within the quota? Else it is unloaded: OUT_OF_MEMORY. */
CUresult vgb_module_count(struct vgb_call *c, CUmodule module);

/* launch.c: launch attributes from the wire; NOT_SUPPORTED for those that are not plain data. */
#define VGB_LAUNCH_ATTRIBUTES_MAX 33u /* 32 on the wire and one that a flag stands for */
CUresult vgb_launch_attributes(struct vgb_call *c, CUlaunchAttribute *attrs, const uint32_t *ids,
                               uint32_t n, const void *values, uint32_t value_bytes);

/* Loads the provider's table; once, before the sandbox. */
void vgb_calls_init(struct vgb_worker *w);
/* Adds every stream of the calling context, so that the wait is for all of it. */
CUresult vgb_wait_add_context(struct vgb_call *c, struct vgb_wait *wait);
/* The streams, events, modules, ... of a context that ends; context handle. */
void vgb_drop_owned(struct vgb_worker *w, uint64_t context);
/* Registers staging and bounce memory for true DMA, once per context that needs it. */
void vgb_bounce_register(struct vgb_worker *w);

/* ---- sandbox.c ---- */

/* Rights that are dropped for good. `soft` selects the policy. 0, or -1 with a sentence. */
int vgb_sandbox_enter(bool soft, char *err, size_t err_size);

/* ---- control.c, loop.c, dispatch.c ---- */

#define VGB_THREAD_STREAMS_MAX 4096 /* per-thread default streams of one client */
struct vgb_thread_stream {
    uint64_t context; /* handle */
    uint32_t thread;
    CUstream stream;
};

struct vgb_worker {
    int sock;     /* to the broker */
    int doorbell; /* eventfd: the guest rings */
    int wake_fd;  /* eventfd: the broker passes an event on; -1 = futex on wake_seq */
    struct vgb_window win;
    struct vgb_ring ring;
    struct vgb_call call;
    struct vgb_handles handles;
    struct vgb_waits waits;
    struct vgb_bounce bounce;
    struct vgb_regions regions;
    struct vgb_blobs blobs;
    struct vgb_quota quota;
    pthread_mutex_t notify_lock;
    uint64_t notify_tail; /* private */
    CUcontext current;    /* provider context of the dispatcher thread */
    uint64_t current_handle;
    struct vgb_thread_stream *thread_streams;
    unsigned nthread_streams;
    atomic_int sticky; /* first sticky CUresult, also in the window */
    _Atomic uint64_t kept_error; /* an asynchronous error that found the ring full */
    uint64_t lost_prints;
    char label[32];
    struct vgb_mark *marks;  /* VGB_MARKS_MAX, made by the first; NULL: none */
    unsigned nmarks, next_mark;
    unsigned minor;          /* version 1.minor of the protocol is spoken */
    uint64_t spin_ns;        /* adaptive polling budget */
};

/* Ends the client: window DEAD with the reason, the broker told, the process ended. */
_Noreturn void vgb_die(struct vgb_worker *w, unsigned reason, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Handles what the broker has said, without blocking. */
void vgb_control_poll(struct vgb_worker *w);
/* Blocks until the broker assigns a client. 0, or -1 when the broker closed. */
int vgb_control_wait_start(struct vgb_worker *w);
/* Asks the broker for a larger reservation; blocks for its answer. */
bool vgb_control_reserve(struct vgb_worker *w, uint64_t total);
/* Asks the broker who uses the GPU how much: a VGB_M_USAGE; blocks for its answer. */
void vgb_control_usage(struct vgb_worker *w, struct vgb_msg *m);

/* A SHARE_NEW or SHARE_OPEN; *m becomes the answer. A descriptor that the caller closes, or -1. */
int vgb_control_share(struct vgb_worker *w, struct vgb_msg *m);
void vgb_control_drop(struct vgb_worker *w, const uint8_t *token);

_Noreturn void vgb_loop(struct vgb_worker *w);
void vgb_dispatch_one(struct vgb_worker *w);
/* Makes a context current on this (dispatcher) thread. */
CUresult vgb_set_context(struct vgb_worker *w, CUcontext ctx);
/* Remembers sticky errors; returns r. */
CUresult vgb_note_result(struct vgb_worker *w, CUresult r);
/* The call had no reply and failed. */
void vgb_async_error(struct vgb_worker *w, uint16_t call, CUresult r);
/* Sends what found no room; dispatcher, now and then. */
void vgb_async_error_retry(struct vgb_worker *w);
bool vgb_is_sticky(CUresult r);
/* The provider stream of a wire value (0, 1, 2 or a handle). */
CUresult vgb_stream_get(struct vgb_call *c, uint64_t value, CUstream *out);

#endif
