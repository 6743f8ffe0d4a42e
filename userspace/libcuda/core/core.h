/* SPDX-License-Identifier: MIT */
/*
 * The lowest folder of the guest's libcuda.so.1: the process-wide client, threads, handles,
 * contexts, devices, the state of captures, and address ranges.
 *
 * Built with __CUDA_API_VERSION_INTERNAL, so that cuda.h declares every version of every entry
 * point under its exported name. Names: cuX is the exported symbol (generated), vcu_cuX its
 * hand-written body (same parameters), vgp_call_X the generated encoder of the wire call X.
 */
#ifndef VCU_CORE_H
#define VCU_CORE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../../lib/btree/btree.h"
#include "../../../lib/driver/driver.h"
#include "../../../lib/link/link.h"
#include "../../../protocol/vgp_guest_rt.h"
#include "../../../protocol/vgp_ring.h"
#include "ahead.h"
#include "link/fault.h"
#include "link/room.h"
#include "link/units.h"
#include "link/wait.h"

/* maximum number of devices shown to the application: HGX boards have 8, MIG at most 56. */
#define VCU_MAX_DEVICES 64
/* Room for the attributes of later cuda.h versions; 13.5 has 161. */
#define VCU_MAX_ATTRIBUTES 192

/* ---- vcu_client.c, vcu_state.c: the process's connection ---------------------------------------- */

enum vcu_state {
    VCU_NEW = 0,    /* cuInit has not succeeded */
    VCU_READY = 1,  /* connected; a dead worker is still READY, its calls return the sticky error */
    VCU_FORKED = 2, /* child of a process that was connected: CUDA_ERROR_NOT_INITIALIZED for ever */
    VCU_EXITED = 3, /* our destructor ran: CUDA_ERROR_DEINITIALIZED */
};

/* A GPU as described by vgpDeviceInfo; constant after cuInit. */
struct vcu_device {
    char name[256];
    CUuuid uuid;
    uint64_t total_memory;              /* bytes */
    int attributes[VCU_MAX_ATTRIBUTES]; /* 0 if unknown to the host driver */
    char pci_bus_id[16];                /* "0000:01:00.0" */
    uint64_t primary;                   /* handle of the primary context; never changes */
    _Atomic int library_cc;             /* vcu_caller.c: 10 * major + minor, 0 none, -1 not queried */
};

struct vcu_client {
    _Atomic int state;         /* enum vcu_state */
    pthread_mutex_t init_lock; /* serialises cuInit */
    struct lnk_transport transport;
    struct lnk_ring ring;
    bool connected;           /* transport and ring are usable (written before state) */
    bool early;               /* connected for the version only: cuInit has not been called */
    bool launch_blocking;     /* CUDA_LAUNCH_BLOCKING */
    uint32_t worker_minor;    /* minor version of the worker's protocol */
    uint64_t worker_features; /* VGP_FEATURE_* */
    int host_driver_version;  /* the provider's cuDriverGetVersion */
    char provider[64];        /* the provider's name, for the trace */
    int device_count;
    struct vcu_device devices[VCU_MAX_DEVICES];
};
extern struct vcu_client vcu;

/* Bytes that the processor copied to or from the staging area and replies for memory copies; for
 * VGPU_STATS. */
extern _Atomic uint64_t vcu_bytes_copied;
/* Bytes of the first pieces of staged copies to the host, which overlap with no other work; for
 * VGPU_STATS. */
extern _Atomic uint64_t vcu_bytes_lead;

/* Bytes of images sent ahead of a call, and of images that the backend already had; for
 * VGPU_STATS. */
extern _Atomic uint64_t vcu_image_bytes_sent, vcu_image_bytes_spared;

/* Non-zero while a per-thread variant (_ptsz, _ptds) runs: stream 0 then means the calling thread's
 * own stream. */
extern __thread int vcu_per_thread;

/* Called when the library is loaded: reads the environment and stores the list of units. */
void vcu_client_loaded(const struct vcu_unit_ops *const *units);
/* Connects and queries the devices; idempotent. Returns the result of cuInit. */
CUresult vcu_client_init(void);
/*
 * The driver version to report: lnk_driver_version() of the host's version, which is queried even
 * before cuInit. The first answer is kept for the life of the process, because the runtime compares
 * them.
 */
int vcu_client_version(void);
/* CUDA_SUCCESS, CUDA_ERROR_NOT_INITIALIZED or CUDA_ERROR_DEINITIALIZED. Every entry point's first
 * check. */
CUresult vcu_check_init(void);
/* vcu_check_init, then CUDA_ERROR_INVALID_CONTEXT / _CONTEXT_IS_DESTROYED for the thread's context.
 */
CUresult vcu_check_context(void);
/* Same for calls that need no current context because their handles name it: graphs, queries of
 * events. */
CUresult vcu_check_usable(void);
/* vcu_check_init + CUDA_ERROR_INVALID_DEVICE; the device on success. */
CUresult vcu_device_get(CUdevice ordinal, struct vcu_device **device);
CUresult vcu_check_device(CUdevice ordinal);
/* Gives a text of a device, cut to `room` bytes, at least 1; the first `cleared` bytes are zeroed before. */
CUresult vcu_text_give(char *out, int room, const char *text, int cleared);
/* True for an element that texture memory can have. */
bool vcu_texel_ok(CUarray_format format, unsigned channels);

/* The atomic operations that a device can do on memory of the host (peer: CU_DEVICE_INVALID), or of a peer. */
CUresult vcu_device_atomics(unsigned int *capabilities, const CUatomicOperation *operations,
                            unsigned int count, CUdevice dev, CUdevice peer);

/* ---- thread state --------------------------------------------------------------------------- */

/* Arrays that capture queries return to the application; they grow as needed. */
struct vcu_lent {
    uint64_t *nodes, *edges;
    size_t room;
};

#define VCU_STACK_INLINE 8 /* context stack entries without a heap block */

struct vcu_thread {
    bool unparking;    /* sends frees that were parked: vcu_parked.c */
    uint32_t number;   /* dense, from 0; identifies the per-thread default stream on the wire */
    bool registered;   /* has a number, and is freed with the thread */
    bool in_callback;  /* runs a host function: CUDA calls are not permitted */
    bool settling;     /* performs an owed wait (vcu_wait.c) */
    uint32_t depth;    /* context stack */
    uint32_t capacity; /* of `heap`, entries */
    uint64_t inline_stack[VCU_STACK_INLINE];
    uint64_t *heap;
    uint8_t *payload; /* private copy of a large reply */
    struct vcu_lent lent;
};
/* In a shared library each access to a thread-local variable costs a call, and several of them
 * dominate the time of a launch. The per-thread data of a launch is therefore in one variable, and
 * these functions are inline. */
extern __thread struct vcu_thread vcu_thread_state;
struct vcu_thread *vcu_thread_register(void);
/* The calling thread's state; created on first use, freed at the thread's end. Never NULL. */
static inline struct vcu_thread *vcu_thread(void)
{
    struct vcu_thread *t = &vcu_thread_state;

    return __builtin_expect(t->registered, 1) ? t : vcu_thread_register();
}
/* Handle of the thread's current context, 0 = none. */
static inline uint64_t vcu_thread_context(const struct vcu_thread *t)
{
    return t->depth == 0 ? 0 : (t->heap != NULL ? t->heap : t->inline_stack)[t->depth - 1];
}
/* Same for the calling thread. */
uint64_t vcu_current_context(void);

/* ---- checks of the handles that a program passes ---------------------------------------------- */

/* The stream that a program names: NULL is another one in a per-thread variant. */
static inline CUstream vcu_stream(CUstream s)
{
    return s == NULL && vcu_per_thread ? CU_STREAM_PER_THREAD : s;
}
/* Number of live green contexts of this process. */
extern _Atomic uint32_t vcu_greens;
/* For use while green contexts exist: false for a special value that the current green context does
 * not have. */
bool vcu_standard_stream_ok(CUstream s);
/* True for the special values 0, 1, 2 and live stream handles. */
static inline bool vcu_stream_ok(CUstream s)
{
    if ((uintptr_t)s > 2)
        return vgp_handle_live((uintptr_t)s, VGP_H_STREAM);
    return __builtin_expect(vcu_greens == 0, 1) || vcu_standard_stream_ok(s);
}
/* Error for an invalid stream: INVALID_HANDLE, or CONTEXT_IS_DESTROYED for a stream of a destroyed
 * green context. */
CUresult vcu_stream_error(CUstream s);
static inline CUresult vcu_check_stream(CUstream s)
{
    s = vcu_stream(s);
    return vcu_stream_ok(s) ? CUDA_SUCCESS : vcu_stream_error(s);
}
/* True for special values and streams of the current context, as required for queued work. Checked
 * here because the worker's answer would arrive after the call has returned. */
bool vcu_stream_own(CUstream s);
static inline CUresult vcu_check_own_stream(CUstream s)
{
    s = vcu_stream(s);
    return !vcu_stream_ok(s)   ? vcu_stream_error(s)
           : vcu_stream_own(s) ? CUDA_SUCCESS
                               : CUDA_ERROR_INVALID_HANDLE;
}
static inline bool vcu_func_ok(CUfunction f)
{
    return vgp_handle_live((uintptr_t)f, VGP_H_FUNCTION) || vgp_handle_live((uintptr_t)f, VGP_H_KERNEL);
}

/* True if the value has the form of a graph or node handle. Whether it is live is checked by the
 * worker. */
static inline bool vcu_graph_ok(CUgraph g)
{
    return VGP_HANDLE_TYPE((uintptr_t)g) == VGP_H_GRAPH;
}
static inline bool vcu_node_ok(CUgraphNode n)
{
    return VGP_HANDLE_TYPE((uintptr_t)n) == VGP_H_GRAPH_NODE;
}
static inline bool vcu_exec_ok(CUgraphExec x)
{
    return vgp_handle_live((uintptr_t)x, VGP_H_GRAPH_EXEC);
}

/* Short id of a graph, executable graph or node, derived from its handle. */
static inline unsigned vcu_graph_number(const void *handle)
{
    uint64_t h = (uintptr_t)handle;

    return VGP_HANDLE_INDEX(h) | VGP_HANDLE_GEN(h) << 20;
}

/* ---- vcu_handle.c ------------------------------------------------------------------------------- */

/* A handle with that local data; 0 if VGP_HANDLE_INDEX_MAX are live. vgp_handle_mint() gives streams
 * and events their context. */
uint64_t vcu_handle_mint(enum vgp_handle_type type, void *data);
/* Local data of a live handle; NULL when it is stale, of another type, or has none. The data stays
   valid until the owner frees it after vgp_handle_drop (a race with a destroy is the caller's). */
void *vcu_handle_data(uint64_t handle, enum vgp_handle_type type);
/* Attaches data to a live handle; false when it is not live. The table does not own it. */
bool vcu_handle_set_data(uint64_t handle, enum vgp_handle_type type, void *data);
/* Two words about an object for the folder that serves it; 0 when the handle is minted, and for one that
 * is not live. */
#define VCU_HANDLE_FACTS 2u
uint64_t vcu_handle_fact(uint64_t handle, enum vgp_handle_type type, unsigned which);
/* Replaces a word, unless it is no longer `was` or the handle is not live: false. */
bool vcu_handle_learn(uint64_t handle, enum vgp_handle_type type, unsigned which, uint64_t was,
                      uint64_t fact);
/* Calls fn for every live handle of a type, in index order; fn may drop the handle it gets. */
void vcu_handle_each(enum vgp_handle_type type, void (*fn)(uint64_t handle, void *data, void *arg),
                     void *arg);
/* Number of live handles of a type. */
uint32_t vcu_handle_count(enum vgp_handle_type type);

/* ---- lnk_trace.c -------------------------------------------------------------------------------- */

/* One line for a finished entry point: name(arguments) = RESULT time thread. */
void vcu_trace_call(const char *name, CUresult r, uint64_t t0_ns, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Refuses: writes the why line, remembers it for the error log, and returns r. */
#define VCU_REFUSE(r, name, ...) \
    (vcu_logs_reason(name, __VA_ARGS__), lnk_trace_on ? (lnk_why(name, __VA_ARGS__), (r)) : (r))

/* ---- vcu_logs.c: the error log of cuLogs* --------------------------------------------------- */

/* Records why the running call of this thread is about to fail; `call` is a constant, the entry
 * point's name or a prefix of it. */
void vcu_logs_reason(const char *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns r. If r is an error and `why` is set, writes `why` to the trace and the log. */
CUresult vcu_refuse(const char *call, CUresult r, const char *why);
/* Logs a failed entry point and calls the callbacks; ignores results that are not errors. */
void vcu_logs_failure(const char *call, CUresult r);
/* Reads CUDA_LOG_FILE, when the library is loaded; renews the lock in the child of a fork. */
void vcu_logs_init(void);
void vcu_logs_forked(void);

/* ---- vcu_error.c -------------------------------------------------------------------------------- */

/* Formatting of driver API results for the trace. */
extern const struct lnk_trace_results lnk_trace_results;

/* ---- vcu_context_state.c, vcu_context.c --------------------------------------------------------- */

/* Local record of a context; reached through its handle. */
struct vcu_context {
    uint64_t handle;
    uint64_t id; /* cuCtxGetId: unique in the process, never reused; another one after a reset */
    int device;
    unsigned flags;
    unsigned api_version;
    bool primary;
    /*
     * The context itself; for a green context, the primary context that owns its memory, modules
     * and events, and its incarnation.
     */
    struct vcu_context *base;
    uint32_t incarnation, base_incarnation;
    uint64_t green;                /* handle of the CUgreenCtx, 0: an ordinary context */
    int sm_count;                  /* of a green context; 0: all of the device */
    _Atomic int retained;          /* primary: retain count; others: 1 until destroyed */
    _Atomic int sticky;            /* 0, or the error that makes the context unusable */
    unsigned cache_config;         /* CUfunc_cache, kept locally */
    unsigned shared_config;        /* CUsharedconfig, kept locally */
    struct vcu_cls *storage;       /* entry/vcu_export_table.c: context-local storage, under its own lock */
    struct cua_coredump *coredump; /* vcu_coredump.c: NULL: the initial settings */
};
/* NULL when the handle is not a live context. (CUcontext)0 and -1 mean the current context. */
struct vcu_context *vcu_context_find(CUcontext ctx);

/*
 * vcu_check_context() for calls that end an object: they need no current context, as the driver
 * finds the context of the object. Without a current context, the object's context is current until
 * vcu_context_return(*borrowed).
 */
CUresult vcu_context_borrow(uint64_t owner, bool *borrowed);
/* Makes a context current until vcu_context_return(true), regardless of the current one. False: no
 * memory. */
bool vcu_context_enter(uint64_t handle);
void vcu_context_return(bool borrowed);
/* A variable, initially false: what was borrowed or entered is returned at the end of its block. */
#define VCU_BORROWED __attribute__((cleanup(vcu_context_let_go)))
void vcu_context_let_go(const bool *borrowed);
/* Takes the top of the calling thread's stack of contexts; 0: it is empty. */
uint64_t vcu_context_pop(void);
/* Flags that a context may be made with, or get. */
bool vcu_context_flags_ok(unsigned flags);
struct vcu_context *vcu_primary_of(const struct vcu_device *d);
/* CUDA_SUCCESS, CONTEXT_IS_DESTROYED (also NULL), or the context's sticky error. */
CUresult vcu_context_usable(const struct vcu_context *c);
/* Handle of the context that owns new objects of the calling thread: the current one, or the
 * primary context of a green one; streams belong to the green context itself. 0: none. */
uint64_t vcu_owner_context(void);
/* The context that a stream belongs to: the handle table keeps it as the stream's data. Needs a
 * current
 * context only for the default streams. */
CUresult vcu_stream_context(CUstream stream, uint64_t *context);
/* Context of a valid stream in the form of vcu_owner_context(): events of another context are not
 * recorded there. */
uint64_t vcu_stream_owner(CUstream stream);
/* Creates the record of a green context's CUcontext. NULL: no memory. */
struct vcu_context *vcu_context_add_green(int device);
/* Drops the stream handles of the context and of its green contexts. */
void vcu_green_forget(const struct vcu_context *c);
/* Frees an unused record. */
void vcu_context_drop(struct vcu_context *c);
/* Makes the primary context record of a device; called once per device by cuInit. 0 on failure. */
uint64_t vcu_context_add_primary(int device);

/* Constant properties of a context, which answer queries about it. */
struct vcu_context_facts {
    CUdevice device;
    unsigned flags, api_version;
    unsigned long long id;
    bool live; /* created or retained */
};
/* Of the context named by NULL (the current one) or a handle: it need not be retained. */
CUresult vcu_context_facts(CUcontext ctx, struct vcu_context_facts *out);
/* CUDA_ERROR_INVALID_CONTEXT unless NULL or a handle names a context. */
CUresult vcu_check_context_named(CUcontext ctx);
/* cuCtxSynchronize: waits for all work of the current context. */
CUresult vcu_context_wait(void);

/* ---- vcu_green.c -------------------------------------------------------------------------------- */

struct vcu_green {
    struct vcu_context *context;
    int device;
};
/* The record of a green context that can be used; *g is NULL where it is not live. */
CUresult vcu_green_get(CUgreenCtx h, struct vcu_green **g);
/* The checks of calls with a green context and an event. */
CUresult vcu_green_check_event(CUgreenCtx hCtx, CUevent hEvent);
/* The resources of a device, a context or a green context; what: VGP_RESOURCE_DEVICE, _CONTEXT, _GREEN. */
CUresult vcu_resource_ask(uint32_t what, int device, CUcontext context, CUgreenCtx green, CUdevResource *out,
                          CUdevResourceType type);

/* All multiprocessors that the context may use. The type is given back in any case (driver 580). */
CUresult vcu_context_affinity(const char *call, CUexecAffinityParam *out, CUexecAffinityType type,
                              unsigned int *sms);

/* ---- vcu_coredump.c: a context's settings begin and end with it ---- */
void vcu_coredump_begin(struct vcu_context *c);
void vcu_coredump_forget(struct vcu_context *c);
/* Returns r, the result of setting one; says why where it is refused. */
CUresult vcu_coredump_told(const char *call, CUresult r);

/* ---- vcu_capture_state.c: which streams capture ------------------------------------------------- */

/* Number of captures in progress in this process. While it is not 0, asynchronous calls also wait
 * for a reply, because the call itself must return its error, except for calls that
 * vcu_capture_post() allows. */
extern _Atomic uint32_t vcu_captures;
/* True if a capture forbids the calling thread what cuThreadExchangeStreamCaptureMode documents. */
bool vcu_capture_forbids_thread(void);
/* The next stream whose capture such a call loses, or NULL: marks it as lost. Per-thread streams of
 * other threads are only marked. */
CUstream vcu_capture_next_lost(void);
/* True if the capture that began on this per-thread stream was marked so. */
bool vcu_capture_spoilt(CUstream stream);

/* ---- vcu_capture_rule.c ---- */

/* Error if a capture forbids this thread a call that may synchronise or use the legacy stream; the
   capture is invalidated then. */
CUresult vcu_capture_forbids(const char *call);
static inline CUresult vcu_capture_unsafe(const char *call)
{
    return __builtin_expect(atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0, 1)
               ? CUDA_SUCCESS
               : vcu_capture_forbids(call);
}
/* vcu_check_context() for such calls. */
CUresult vcu_check_uncaptured(const char *call);
/* True if the stream is part of a capture. Queries the worker only while captures are in progress
 * and the stream is not known to be part of a capture. */
bool vcu_stream_captured(CUstream stream);
/*
 * A captured call needs no reply while the stream is known to be part of a valid capture and the
 * guest has checked all errors that CUDA reports from such a call. If the provider refuses it
 * nevertheless, the worker invalidates the capture, so that cuStreamEndCapture fails, and names
 * call and error on the trace. The known streams are the stream of a capture and those that joined
 * it through events, until a call fails, a stream or context ends, or the capture is invalidated:
 * then the guest queries the worker again. With a worker older than 1.7, or VGPU_POST_CAPTURED=0,
 * every captured call has a reply.
 */

/* True if a record for this stream needs no reply. */
bool vcu_capture_post(CUstream stream);
/* The intents of cuEventRecord (plain: by this process only, without flags) and cuStreamWaitEvent;
 * the state of the capture is updated as the calls change it, also where they keep their reply. */
struct vgp_intent vcu_capture_post_record(CUstream stream, CUevent event, bool plain);
struct vgp_intent vcu_capture_post_wait(CUstream stream, CUevent event, unsigned int flags);
/* Forgets all streams known to be part of the captures in progress. */
void vcu_capture_doubt(void);
/* Reads VGPU_POST_CAPTURED; once, when the library is loaded. */
void vcu_capture_init(void);
/* For calls that a capture cannot contain: invalidates the capture of the stream and returns
 * UNSUPPORTED. */
CUresult vcu_capture_spoil(const char *call, CUstream stream);
/* Record for a capture that the calling thread is about to begin; NULL: no memory. */
struct vcu_capture *vcu_capture_new(CUstream stream, CUstreamCaptureMode mode, bool to_graph);
/* Takes ownership of the record; begun: the worker has begun the capture. */
void vcu_capture_begun(struct vcu_capture *c, bool begun);
/* The worker's state of the stream's capture (CUstreamCaptureStatus). */
CUresult vcu_capture_status(CUstream stream, uint32_t *status);
/* True if the calling thread may end the capture that began on this stream. */
bool vcu_capture_may_end(CUstream stream);
/* True for a capture into an existing graph of the program; its handle is not returned again. */
bool vcu_capture_to_graph(CUstream stream);
/* Invalidates the capture that began on this stream if that was not possible when the capture was
 * lost. */
void vcu_capture_tell_spoilt(CUstream stream);
/* Sets the calling thread's mode; returns the previous one. */
CUstreamCaptureMode vcu_capture_exchange_mode(CUstreamCaptureMode mode);
/* Notes that the stream, or all streams of a context, are being destroyed. */
void vcu_capture_forget_stream(CUstream stream);
void vcu_capture_forget_context(uint64_t context);
/* ---- vcu_submit.c ------------------------------------------------------------------------------- */

/* Counts `weight` launches (a graph: its nodes) that are about to be issued; may wait for room. */
void vcu_stream_weigh(uint64_t stream, uint32_t weight);

/* True if the reply of a published submission has arrived or cannot arrive any more. Does not
 * sleep. */
struct vgp_submit;
bool vcu_submit_ready(struct vgp_submit *s);

/* Extent of a fill in bytes, from the first to the last byte. 0: empty, beyond 64 bits, or
 * misaligned address or pitch, which is an error. pitch in bytes, width in elements of `element`
 * bytes, not 0. */
uint64_t vcu_fill_extent(uint64_t dst, uint64_t pitch, uint64_t width, uint64_t height, uint32_t element);

/* ---- vcu_device.c -----------------------------------------------------------------------------
 */

/* Clears the attributes of unsupported features, so that programs do not use them. */
void vcu_device_limit_attributes(struct vcu_device *d);

/* ---- vcu_caller.c ------------------------------------------------------------------------------- */

/* Return address of this thread's latest call described with `caller`. */
extern __thread const void *vcu_caller;
/* CUDA_MODULE_LOADING, the documented switch of the driver: EAGER; LAZY is the default since 12.2. */
bool vcu_loads_eagerly(void);
/* Attribute number by which a provider reports 10 * major + minor for libraries ("vgp" 1). */
#define VCU_ATTR_LIBRARY_CC 0x76677001u
/* Capability of d as reported to the code that called the running entry point. */
void vcu_caller_cc(struct vcu_device *d, int *major, int *minor);
/* True for the path of a library that gets the library capability; exposed to the test. */
bool vcu_caller_is_library(const char *file);

/* ---- vcu_range.c: address ranges ---------------------------------------------------------------- */

/* A known range of addresses. */
struct vcu_range {
    uint64_t start, size;
    void *data;
};
/* A set of disjoint ranges with its own lock. */
struct vcu_range_set {
    pthread_rwlock_t lock;
    struct btr_tree tree; /* data by start, weighted by size */
};
#define VCU_RANGE_SET_INIT \
    { \
        PTHREAD_RWLOCK_INITIALIZER, \
        { \
            0 \
        } \
    }
/* False when it overlaps another range or memory is short. */
bool vcu_range_add(struct vcu_range_set *set, uint64_t start, uint64_t size, void *data);
/* Removes the range that starts exactly at the address and stores it in *out. False when there is
 * none. */
bool vcu_range_remove(struct vcu_range_set *set, uint64_t start, struct vcu_range *out);
/* Removes one range that overlaps [start, start + size); false when there is none. */
bool vcu_range_remove_overlap(struct vcu_range_set *set, uint64_t start, uint64_t size,
                              struct vcu_range *out);
/* Called under the set's lock, so it must not call these functions. */
typedef bool vcu_range_fn(const struct vcu_range *range, void *arg);
/* Removes every range for which fn returns true; fn may free the data. */
void vcu_range_remove_if(struct vcu_range_set *set, vcu_range_fn *fn, void *arg);
/* The range that contains addr; false when there is none. Another thread may free `data` at
 * any time: to read it, use vcu_range_look(). */
bool vcu_range_find(struct vcu_range_set *set, uint64_t addr, struct vcu_range *out);
/* Returns the result of fn, which must only read, for the range that contains addr; false if there
 * is none. */
bool vcu_range_look(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg);
/* Same for the first range that overlaps [start, start + size), which does not wrap. */
bool vcu_range_look_overlap(struct vcu_range_set *set, uint64_t start, uint64_t size, vcu_range_fn *fn,
                            void *arg);
/* Removes the range that contains addr if fn returns true; fn may change the data, and may free it
 * when it returns true. False: no range, or fn returned false. */
bool vcu_range_edit(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg);

#endif
