/* SPDX-License-Identifier: MIT */
/* Contexts and the threads that use them, streams and their operations, events. */
#ifndef SG_RUNTIME_H
#define SG_RUNTIME_H

#include "exec/exec.h"
#include "memory/memory.h"

/* ---- contexts (runtime/sg_context.c, runtime/sg_current.c) ---- */

#define SG_NLIMITS 16

struct sg_graph_hooks;
struct sg_ctx {
    union {
        struct sg_space space;
        struct {
            SG_SPACE_FIELDS;
        };
    };
    /*
     * The context itself. For a green context: the device's primary context, whose memory, modules,
     * events and errors it shares; a green context has only streams and multiprocessors of its own.
     * base_id: the incarnation of the primary context; green: the CUgreenCtx.
     */
    SG_LENT struct sg_ctx *base;
    uint32_t base_id;
    uint64_t green;
    struct sg_sms sms; /* multiprocessors of a green context; count 0: the whole device */
    bool primary;
    _Atomic bool alive;
    unsigned flags;
    unsigned api_version;
    _Atomic unsigned attached; /* cuCtxAttach references in addition to the creation's */
    /*
     * CUresult of the first device-side error; 0: none. It stops the work of all streams at once.
     * The first call that waits for work or queries it returns the error (sticky), so the behaviour
     * seen by a program does not depend on how fast a kernel fails.
     */
    _Atomic int fault, sticky;
    volatile int abort; /* asks running kernels to stop */
    /* the context ended after an abandoned wait: later operations must not run */
    _Atomic bool cut;
    /* order of issue across all streams of this context; see README */
    pthread_mutex_t issue;
    SG_LISTED struct sg_stream *streams; /* guarded by issue; does not contain the legacy stream */
    /* The default stream, which lives as long as the context. A green context's is in base's
       list. */
    SG_OWNED struct sg_stream *legacy;
    /* dependencies of new streams (cuCtxWaitEvent); guarded by base's issue */
    SG_OWNED struct sg_deps *gates;
    _Atomic uint64_t limits[SG_NLIMITS]; /* read by kernels when they begin */
    /* a kernel that prints, or that allocates, was launched: its limit can no longer be set */
    _Atomic bool printed, allocated;
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    /* lib/driver/coredump.h; NULL: the initial settings */
    SG_OWNED struct cua_coredump *coredump;
};

struct sg_device {
    pthread_mutex_t lock;              /* guards the fields below */
    SG_COUNTED struct sg_ctx *primary; /* created by cuInit, never freed */
    unsigned primary_refs;
    unsigned primary_flags;
};
extern struct sg_device sg_devices[SG_MAX_DEVICES]; /* indexed by ordinal */

/* Makes the primary context usable after sg_ctx_new() and sg_ctx_teardown(): another incarnation. */
void sg_ctx_revive(struct sg_ctx *ctx);
CUresult sg_ctx_new(int device, unsigned flags, bool primary, struct sg_ctx **out);
/* Creates the context that a green context is converted to; it has no handle yet. */
CUresult sg_ctx_new_green(struct sg_ctx *base, const struct sg_sms *sms, struct sg_ctx **out);
/* False if the context, or the primary context under a green one, was destroyed. */
bool sg_ctx_alive(const struct sg_ctx *ctx);
/* The context that a handle names, with a reference, green contexts included. NULL: none. */
struct sg_ctx *sg_ctx_find(CUcontext h);
/* As above, but returns the context that owns memory, modules and events. */
struct sg_ctx *sg_ctx_find_base(CUcontext h);
/* Waits for pending work, then releases streams, modules and memory. The object stays. */
void sg_ctx_teardown(struct sg_ctx *ctx);

/* Per-thread state; created by the thread's first call, freed when the thread ends. */
struct sg_tls {
    /* references; the last entry is current; entries may be NULL */
    SG_COUNTED struct sg_ctx **stack;
    unsigned depth, cap;
    bool in_callback; /* running a function of cuLaunchHostFunc or cuStreamAddCallback */
    CUstreamCaptureMode capture_mode;
    /* references to this thread's default streams, one per context used */
    SG_COUNTED struct sg_stream **ptds;
    unsigned nptds;
};
struct sg_tls *sg_tls(void); /* NULL: out of memory */
/* Called by cuInit once, before any thread has a state; free_streams frees a thread's default streams
   when the thread ends. Returns false if the process has no key left. */
bool sg_tls_init(void (*free_streams)(struct sg_tls *t));
/* Set by sg_init(): cuInit has succeeded; this process is a child of a process in which it had. */
extern _Atomic bool sg_initialised, sg_forked;

/* cuInit(0). hooks must be constant. */
CUresult sg_init(const struct sg_graph_hooks *hooks);
/* 0 once cuInit succeeded in this process, else CUDA_ERROR_NOT_INITIALIZED. */
CUresult sg_check_init(void);
/*
 * The calling thread's context; 3, 201, 709, 800 (inside a callback) or its sticky error. If a
 * green context is current: the primary context, with which it shares everything but streams.
 */
CUresult sg_current(struct sg_ctx **out);
/* ctx is the result of sg_current(). Returns the current green context if it is based on ctx,
   else ctx. */
struct sg_ctx *sg_current_self(struct sg_ctx *ctx);
/* As sg_current(), without checking the sticky error. */
CUresult sg_current_raw(struct sg_ctx **out);
void sg_set_fault(struct sg_ctx *ctx, CUresult r);
/* Fails the context with error 700: an operation accessed memory that its device may not access. */
CUresult sg_unreachable(struct sg_stream *s, const char *what);
/* The same for memory that was freed before the operation ran. */
CUresult sg_gone(struct sg_stream *s, const char *what);
CUresult sg_see_fault(struct sg_ctx *ctx); /* makes a fault sticky and returns it; 0: none */

#define SG_INIT() \
    do { \
        CUresult sg_rc_ = sg_check_init(); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)
#define SG_CTX(var) \
    struct sg_ctx *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_current(&(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

/* For calls that destroy an object and need no current context. NULL: no usable context. */
#define SG_CTX_OR_NONE(var) \
    struct sg_ctx *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_current(&(var)); \
        if (sg_rc_ == CUDA_ERROR_INVALID_CONTEXT || sg_rc_ == CUDA_ERROR_CONTEXT_IS_DESTROYED) \
            (var) = NULL; \
        else if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

/*
 * Exported: why this thread's last API call failed or, if it returned the context's sticky error,
 * the kernel's error. Empty if there is no detail; never NULL. Valid until this thread's next call.
 */
const char *sg_last_error_detail(void);

/* ---- graphs, as streams, events and launches see them ---- */

struct sg_stream;
struct sg_op;
struct sg_front; /* captured nodes that a stream or an event refers to: graph/sg_graph_front.c */

/*
 * Stream capture and graphs used by kernels are implemented on a higher floor, which passes these
 * functions to sg_init().
 */
struct sg_graph_hooks {
    /* Adds op to the capture of s, with its result in *r. Returns false if s is not captured. */
    bool (*capture_op)(struct sg_stream *s, struct sg_op *op, bool sync, CUresult *r);
    /* Under the issue lock of s: refuses work on the legacy stream while blocking streams
       capture. */
    CUresult (*check_legacy)(struct sg_stream *s);
    void (*abandon)(struct sg_stream *s); /* s is being destroyed */
    struct sg_front *(*front_new)(void);  /* an empty front; NULL: out of memory */
    void (*front_free)(struct sg_front *f);
    bool (*front_captured)(const struct sg_front *f);
    /* called on behalf of a kernel */
    bool (*set_conditional)(void *ctx, uint64_t handle, uint32_t value);
    SG_LENT const struct sg_graph_ops *device; /* for graphs that kernels launch */
};
extern const struct sg_graph_hooks *sg_hooks;
extern _Atomic unsigned sg_captures; /* number of captures in progress; 0: streams need no check */

struct sg_genv;
/* The graph whose steps the calling thread runs, or NULL. Thread-local because branches run
   concurrently. */
extern _Thread_local struct sg_genv *sg_genv_now;

/* Graph memory that no launch has allocated; operations must not access it (runtime/sg_current.c). */
extern _Atomic unsigned sg_graph_memory_live; /* graph allocations; 0: none can be dormant */
bool sg_graph_memory_dormant(uint64_t addr);  /* takes no lock of this library */
/* Fails the context because an operation accesses dormant graph memory. */
CUresult sg_graph_memory_fault(struct sg_stream *s, const char *what);

/* ---- streams (runtime/sg_stream.c) ---- */

struct sg_op;

/* Number of times the program has waited for streams, events and contexts. */
extern _Atomic uint64_t sg_waits;
/* See vgp_provider_ext.h. */
void sg_operations(uint64_t *issued, uint64_t *ended);

/* Completion of operation number seq of that stream. */
struct sg_dep {
    SG_COUNTED struct sg_stream *stream; /* a reference */
    uint64_t seq;
};

enum sg_issue_mode {
    SG_ISSUE_ASYNC,  /* always in the stream's thread */
    SG_ISSUE_INLINE, /* in the caller if no earlier work is pending, else in the stream's thread */
    SG_ISSUE_SYNC,   /* in the caller, after waiting for earlier work */
};

struct sg_op {
    SG_OWNED struct sg_op *next;
    uint64_t seq;
    CUresult (*run)(struct sg_op *op, struct sg_stream *s);
    /* called under the issue lock; may be NULL */
    void (*issued)(struct sg_op *op, struct sg_stream *s);
    /* releases the operation's resources and frees op */
    void (*drop)(struct sg_op *op);
    /* Called when op becomes a node, which any launch may run any number of times. Returns an
       error if op cannot become a node. NULL: nothing to do. */
    CUresult (*captured)(struct sg_op *op);
    bool run_always; /* runs even if the context has failed */
    bool only_waits; /* nothing but an order: on a stream that has ended no work is behind it */
    int node_type;   /* CUgraphNodeType when captured; -1: cannot be captured */
    SG_OWNED struct sg_dep *deps;
    unsigned ndeps, cap_deps;
};

struct sg_stream {
    struct sg_obj obj;
    SG_COUNTED struct sg_ctx *ctx; /* never a green context; a default stream is part of it */
    /* owning green context, or NULL; its default stream is part of it */
    SG_COUNTED struct sg_ctx *green;
    SG_LISTED struct sg_stream *next, **pprev; /* ctx->streams */
    /* dependencies of its first operation; guarded by ctx->issue; NULL: none */
    SG_OWNED struct sg_deps *first;
    unsigned flags; /* CU_STREAM_NON_BLOCKING */
    int priority;
    unsigned long long id;
    bool legacy, per_thread; /* legacy: the default stream, also of a green context */
    bool bare;               /* is ctx->legacy, which is not in the list */
    CUsynchronizationPolicy sync_policy;
    CUaccessPolicyWindow window;
    SG_OWNED struct sg_front *front; /* capture state, see graph/graph.h; guarded by sg_graph_lock */
    _Atomic uint64_t submitted;      /* written under ctx->issue */
    _Atomic uint64_t completed;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t work, done;
    SG_OWNED struct sg_op *head, *tail;
    bool thread;
    _Atomic bool dying;
    SG_OWNED struct sg_watch *watches; /* functions to be called: sg_watch.c */
    bool ended; /* set under `lock` when the thread has seen the end and takes no more work */
};

/*
 * Has the stream's thread call fn(arg, r) once operation `seq` is complete, where r is the result of
 * waiting for it; the thread holds no lock then, and fn may call the driver API but must not wait for
 * work. False: it will not be called, because the operation is complete already, the stream has no
 * thread or is at its end, or out of memory.
 */
bool sg_stream_when(struct sg_stream *s, uint64_t seq, void (*fn)(void *arg, CUresult r), void *arg);
/* For the stream's thread; the first two under s->lock. */
bool sg_watch_due(const struct sg_stream *s);
struct sg_watch *sg_watches_take(struct sg_stream *s); /* those due; freed by sg_watches_run() */
void sg_watches_run(struct sg_stream *s, struct sg_watch *due);

/* ctx may be a green context. The first stream of a context is its default stream. */
CUresult sg_stream_new(struct sg_ctx *ctx, unsigned flags, int priority, struct sg_stream **out);
/* As cuStreamCreateWithPriority() in a context, possibly a green one. */
CUresult sg_stream_create(struct sg_ctx *ctx, unsigned flags, int priority, CUstream *out);
/* Removes the handle; the stream's thread ends once its queue is empty. */
void sg_stream_retire(struct sg_stream *s);
void sg_deps_free(struct sg_deps *d); /* d may be NULL */
/* Maximum number of attributes of a launch. */
#define SG_ATTRS_MAX 64u

/* Resolves 0, 1, 2 and handles, with a reference; the stream must belong to ctx or to a green
   context based on it. 400: no such stream; 709: its green context was destroyed. */
CUresult sg_stream_get(struct sg_ctx *ctx, CUstream h, struct sg_stream **out);
/* True if a wait that all later operations depend on was abandoned. */
bool sg_stream_cut(const struct sg_stream *s);
/* Any live stream regardless of its context, for calls that need no current context. */
CUresult sg_stream_get_any(CUstream h, struct sg_stream **out);
/* Issues op and takes ownership of it, even on failure. SYNC and INLINE return the operation's
   own result. */
CUresult sg_issue(struct sg_stream *s, struct sg_op *op, enum sg_issue_mode mode);
/* Transfers the caller's reference to s to op, which drops it when it ends. Returns false if out
   of memory. */
bool sg_op_keep(struct sg_op *op, struct sg_stream *s);
void sg_op_end(struct sg_op *op); /* drops op, whether or not it has run */
bool sg_op_add_dep(struct sg_op *op, struct sg_stream *s, uint64_t seq);
/* Makes new streams of ctx (possibly a green context) begin after that operation. Returns false
   if out of memory. */
bool sg_ctx_gate(struct sg_ctx *ctx, struct sg_stream *s, uint64_t seq);
void sg_ctx_ungate(struct sg_ctx *ctx);
bool sg_stream_idle(struct sg_stream *s);
void sg_stream_wait(struct sg_stream *s, uint64_t seq);
void sg_stream_drain(struct sg_stream *s); /* waits for all work issued so far */
/* Waits for all work issued so far, as the API defines it, and tells whether that would wait:
   for the legacy stream, work of blocking streams counts, too (CUDA Runtime API, Stream
   synchronization behavior). */
void sg_stream_synchronize(struct sg_stream *s);
bool sg_stream_is_complete(struct sg_stream *s);
void sg_ctx_drain(struct sg_ctx *ctx); /* for a green context: its own streams only */
/* True if the stream belongs to ctx; a primary context includes the streams of its green
   contexts. */
bool sg_ctx_has(const struct sg_ctx *ctx, const struct sg_stream *s);
bool sg_ctx_idle(struct sg_ctx *ctx);           /* all issued work is complete */
void sg_ctx_retire_streams(struct sg_ctx *ctx); /* at the end of the context, after draining it */
/* The default stream of calls without a stream argument. */
#define SG_LEGACY ((CUstream)0x1)
#define SG_PER_THREAD ((CUstream)0x2)
#define SG_PTSZ(h) ((h) == NULL ? SG_PER_THREAD : (h))
void sg_tls_streams_free(struct sg_tls *t);
/* Drops the calling thread's default streams of contexts that have ended. */
void sg_tls_streams_forget(void);

#include "runtime/copy.h"
#include "runtime/event.h"

/*
 * Exported, for tests: lists the live resources. "kind number" for each kind of object with a live
 * instance, with or without a handle, and the numbers of ranges, of bytes charged to all devices
 * and of bytes of reserved addresses. Writes at most size bytes, including the final zero.
 */
void sg_books(char *text, size_t size);

/* Checks an access policy window as cuda.h documents it; 1. */
CUresult sg_window_check(int device, const CUaccessPolicyWindow *w);

#endif
