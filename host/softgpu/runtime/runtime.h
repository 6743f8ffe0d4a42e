/* SPDX-License-Identifier: MIT */
/* Contexts and the threads that use them, streams and the operations in them, events. */
#ifndef SG_RUNTIME_H
#define SG_RUNTIME_H

#include "exec/exec.h"
#include "memory/memory.h"

/* ---- contexts (runtime/context.c) ---- */

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
     * The context itself; for a green context, the device's primary context, whose memory, modules, events and
     * errors it shares. A green context has only its streams and multiprocessors. base_id: the incarnation
     * of the primary context; green: the CUgreenCtx.
     */
    SG_LENT struct sg_ctx *base;
    uint32_t base_id;
    uint64_t green;
    struct sg_sms sms; /* of a green context; count 0: all of the device */
    bool primary;
    _Atomic bool alive;
    unsigned flags;
    unsigned api_version;
    _Atomic unsigned attached; /* cuCtxAttach, beyond the creation itself */
    /*
     * CUresult of the first device-side error, 0: none. It stops the work of all streams at
     * once. The caller gets it (sticky) from the first call that waits for work or queries it, so
     * what a program sees does not depend on how fast a kernel fails.
     */
    _Atomic int fault, sticky;
    volatile int abort;    /* asks running kernels to end */
    _Atomic bool cut;      /* the context ends and a wait was abandoned: later operations must not run */
    pthread_mutex_t issue; /* order of issue over all streams of this context; see README */
    SG_LISTED struct sg_stream *streams; /* list, guarded by issue; the legacy stream is not in it */
    /* The default stream lives as long as the context object; a green one's is in base's list. */
    SG_OWNED struct sg_stream *legacy;
    SG_OWNED struct sg_deps *gates; /* what new streams wait for (cuCtxWaitEvent); guarded by base's issue */
    _Atomic uint64_t limits[SG_NLIMITS]; /* kernels read them as they begin */
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    SG_OWNED struct cua_coredump *coredump; /* lib/driver/coredump.h; NULL until a setting is its own */
};

struct sg_device {
    pthread_mutex_t lock;              /* guards the fields below */
    SG_COUNTED struct sg_ctx *primary; /* made by cuInit, never freed */
    unsigned primary_refs;
    unsigned primary_flags;
};
extern struct sg_device sg_devices[SG_MAX_DEVICES]; /* by ordinal */

CUresult sg_ctx_new(int device, unsigned flags, bool primary, struct sg_ctx **out);
/* The context that a green context is converted to; without a handle yet. */
CUresult sg_ctx_new_green(struct sg_ctx *base, const struct sg_sms *sms, struct sg_ctx **out);
/* False if it, or the primary context of a green one, was destroyed. */
bool sg_ctx_alive(const struct sg_ctx *ctx);
/* The context that a handle names, with a reference; of a green one: the context itself. NULL: none. */
struct sg_ctx *sg_ctx_find(CUcontext h);
/* ... whose memory, modules and events are used through it. */
struct sg_ctx *sg_ctx_find_base(CUcontext h);
/* Waits for the work, then releases streams, modules and memory. The object stays. */
void sg_ctx_teardown(struct sg_ctx *ctx);

/* Per-thread state; created by the thread's first call, freed at its end. */
struct sg_tls {
    SG_COUNTED struct sg_ctx **stack; /* each a reference; the last is current; entries may be NULL */
    unsigned depth, cap;
    bool in_callback; /* inside cuLaunchHostFunc's or cuStreamAddCallback's function */
    CUstreamCaptureMode capture_mode;
    SG_COUNTED struct sg_stream **ptds; /* this thread's default streams, one per context used; references */
    unsigned nptds;
};
struct sg_tls *sg_tls(void); /* NULL: out of memory */

/* cuInit(0). hooks: constant. */
CUresult sg_init(const struct sg_graph_hooks *hooks);
/* 0 once cuInit succeeded in this process, else CUDA_ERROR_NOT_INITIALIZED. */
CUresult sg_check_init(void);
/*
 * The calling thread's context: 3, 201, 709, 800 (inside a callback) or its sticky error. While a green
 * context is current: the primary context that it shares everything but streams with.
 */
CUresult sg_current(struct sg_ctx **out);
/* The green context that is current, if ctx, which sg_current() gave, is what it stands on; else ctx. */
struct sg_ctx *sg_current_self(struct sg_ctx *ctx);
/* As sg_current() without looking at the sticky error. */
CUresult sg_current_raw(struct sg_ctx **out);
void sg_set_fault(struct sg_ctx *ctx, CUresult r);
/* An operation accessed memory that its device may not access: the context fails with error 700. */
CUresult sg_unreachable(struct sg_stream *s, const char *what);
/* The same for memory that was freed before the operation ran. */
CUresult sg_gone(struct sg_stream *s, const char *what);
CUresult sg_see_fault(struct sg_ctx *ctx); /* makes a fault sticky; returns it or 0 */

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

/* For calls that end an object and need no current context. NULL: no usable context. */
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
 * Exported: why the API call made last in this thread failed, or, when it returned the sticky error
 * of its context, what the kernel did. Empty when there is nothing to say; never NULL. Valid until
 * the next call in this thread.
 */
const char *sg_last_error_detail(void);

/* ---- graphs, as streams, events and launches see them ---- */

struct sg_stream;
struct sg_op;
struct sg_front; /* the captured nodes that a stream or an event refers to: graph/capture.c */

/*
 * Stream capture and graphs used by kernels are on a higher floor, which passes these functions to sg_init().
 */
struct sg_graph_hooks {
    /* Adds op to the capture that s is part of. False: s is not captured. *r: the result. */
    bool (*capture_op)(struct sg_stream *s, struct sg_op *op, bool sync, CUresult *r);
    /* Under the issue lock of s: work on the legacy stream is refused while blocking ones capture. */
    CUresult (*check_legacy)(struct sg_stream *s);
    void (*abandon)(struct sg_stream *s); /* s is being destroyed */
    struct sg_front *(*front_new)(void);  /* of nothing that is captured; NULL: no memory */
    void (*front_free)(struct sg_front *f);
    bool (*front_captured)(const struct sg_front *f);
    bool (*set_conditional)(void *ctx, uint64_t handle, uint32_t value); /* a kernel did */
    SG_LENT const struct sg_graph_ops *device;                           /* for graphs that kernels launch */
};
extern const struct sg_graph_hooks *sg_hooks;
extern _Atomic unsigned sg_captures; /* captures in progress; 0: no stream needs to ask about them */

struct sg_genv;
/* The graph that the calling thread runs steps of, or NULL. Of a thread, because branches run at once. */
extern _Thread_local struct sg_genv *sg_genv_now;

/* Memory of graphs that no launch has allocated, which operations may not touch (runtime/context.c). */
extern _Atomic unsigned sg_graph_memory_live; /* allocations of graphs; 0: no memory can be dormant */
bool sg_graph_memory_dormant(uint64_t addr);  /* takes no lock of ours */
/* An operation meets such memory: the context fails. */
CUresult sg_graph_memory_fault(struct sg_stream *s, const char *what);

/* ---- streams (runtime/stream.c) ---- */

struct sg_op;

/* How often the program has waited for streams, events and contexts. */
extern _Atomic uint64_t sg_waits;

/* "That stream has completed its operation number seq." */
struct sg_dep {
    SG_COUNTED struct sg_stream *stream; /* a reference */
    uint64_t seq;
};

enum sg_issue_mode {
    SG_ISSUE_ASYNC,  /* always by the stream's thread */
    SG_ISSUE_INLINE, /* by the caller if nothing is pending before it, else by the stream's thread */
    SG_ISSUE_SYNC,   /* by the caller, after waiting for its turn */
};

struct sg_op {
    SG_OWNED struct sg_op *next;
    uint64_t seq;
    CUresult (*run)(struct sg_op *op, struct sg_stream *s);
    void (*issued)(struct sg_op *op, struct sg_stream *s); /* under the issue lock; may be NULL */
    void (*drop)(struct sg_op *op);                        /* releases what it holds; frees op */
    /* It becomes a node: it may run any number of times, from any launch. Not 0: it cannot. NULL: nothing to do. */
    CUresult (*captured)(struct sg_op *op);
    bool run_always; /* also when the context has failed */
    int node_type;   /* CUgraphNodeType it is captured as, -1: cannot be captured */
    SG_OWNED struct sg_dep *deps;
    unsigned ndeps, cap_deps;
};

struct sg_stream {
    struct sg_obj obj;
    SG_COUNTED struct sg_ctx *ctx;   /* never a green context; a default stream is a part of it */
    SG_COUNTED struct sg_ctx *green; /* that it belongs to, or NULL; its default stream is a part of it */
    SG_LISTED struct sg_stream *next, **pprev; /* ctx->streams */
    SG_OWNED struct sg_deps *first; /* for its first operation; guarded by ctx->issue; NULL: nothing */
    unsigned flags;                 /* CU_STREAM_NON_BLOCKING */
    int priority;
    unsigned long long id;
    bool legacy, per_thread; /* legacy: the default stream, also that of a green context */
    bool bare;               /* ctx->legacy: not in its list */
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
    bool ended; /* its thread has seen that and takes no more work; lock */
};

/* ctx may be a green context. The first one of a context is its default stream. */
CUresult sg_stream_new(struct sg_ctx *ctx, unsigned flags, int priority, struct sg_stream **out);
/* As cuStreamCreateWithPriority() in a context, which may be a green one. */
CUresult sg_stream_create(struct sg_ctx *ctx, unsigned flags, int priority, CUstream *out);
/* Drops the handle; the stream's thread ends when its queue is empty. */
void sg_stream_retire(struct sg_stream *s);
void sg_deps_free(struct sg_deps *d); /* NULL: nothing */
/* Maximum number of attributes of a launch. */
#define SG_ATTRS_MAX 64u

/* Resolves 0, 1, 2 and handles; the stream must belong to ctx, or to a green context that stands on it.
 * With a reference. 400: no such; 709: its green context was destroyed. */
CUresult sg_stream_get(struct sg_ctx *ctx, CUstream h, struct sg_stream **out);
/* True if a wait was abandoned on which all later operations depend. */
bool sg_stream_cut(const struct sg_stream *s);
/* Any live stream, whatever its context; for calls that need no current one. */
CUresult sg_stream_get_any(CUstream h, struct sg_stream **out);
/* Issues op (owned from here on, also on failure). SYNC and inline: the operation's own result. */
CUresult sg_issue(struct sg_stream *s, struct sg_op *op, enum sg_issue_mode mode);
/* Takes the caller's reference to s over, to be let go when op ends. False: no memory. */
bool sg_op_keep(struct sg_op *op, struct sg_stream *s);
void sg_op_end(struct sg_op *op); /* drops op without (or after) running it */
bool sg_op_add_dep(struct sg_op *op, struct sg_stream *s, uint64_t seq);
/* New streams of ctx (which may be a green context) begin after that operation. False: no memory. */
bool sg_ctx_gate(struct sg_ctx *ctx, struct sg_stream *s, uint64_t seq);
void sg_ctx_ungate(struct sg_ctx *ctx);
bool sg_stream_idle(struct sg_stream *s);
void sg_stream_wait(struct sg_stream *s, uint64_t seq);
void sg_stream_drain(struct sg_stream *s); /* waits for all that was issued before */
/* The same as a program means it, and whether it would wait: for the legacy stream blocking streams count, too (CUDA
   Runtime API, Stream synchronization behavior). */
void sg_stream_synchronize(struct sg_stream *s);
bool sg_stream_is_complete(struct sg_stream *s);
void sg_ctx_drain(struct sg_ctx *ctx); /* a green context: of its streams only */
/* True if the stream belongs to ctx; a primary context has those of its green contexts, too. */
bool sg_ctx_has(const struct sg_ctx *ctx, const struct sg_stream *s);
bool sg_ctx_idle(struct sg_ctx *ctx);           /* all issued work is complete */
void sg_ctx_retire_streams(struct sg_ctx *ctx); /* at the context's end, when drained */
/* The default stream that a call without stream argument uses. */
#define SG_LEGACY ((CUstream)0x1)
#define SG_PER_THREAD ((CUstream)0x2)
#define SG_PTSZ(h) ((h) == NULL ? SG_PER_THREAD : (h))
void sg_tls_streams_free(struct sg_tls *t);
/* Gives back the calling thread's default streams of contexts that have ended. */
void sg_tls_streams_forget(void);

#include "runtime/copy.h"
#include "runtime/event.h"

/*
 * What programs have made and not given back, for tests: "kind number" for each kind of object of which there is
 * one, with a handle or without, and the numbers of ranges, of bytes charged to all devices and of bytes of reserved addresses.
 * Exported. Writes at most size bytes, the final zero among them.
 */
void sg_books(char *text, size_t size);

#endif
