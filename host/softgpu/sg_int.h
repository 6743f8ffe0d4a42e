/* SPDX-License-Identifier: MIT */
/*
 * Internals of the driver-API half of libcuda-soft.so.1. Not installed, not seen by callers.
 *
 * __CUDA_API_VERSION_INTERNAL makes cuda.h declare every version of every entry point under its
 * exported name (cuMemAlloc_v2, cuMemcpy_ptds, ...), so the compiler checks our definitions against
 * NVIDIA's own prototypes.
 */
#ifndef SG_INT_H
#define SG_INT_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sg_exec.h"

/* What cuDriverGetVersion reports: the version of the cuda.h whose API is exported. */
#define SG_DRIVER_VERSION 13000
#define SG_DEVICE_NAME "vgpu-cuda software GPU (PTX on CPU)"

/* ---- configuration (sg_config.c): read once from the environment by cuInit ---- */

#define SG_MAX_DEVICES 8

struct sg_config {
    unsigned ndevices; /* 1 to SG_MAX_DEVICES; they differ in their compute capability only */
    struct {
        int major, minor;
    } cc[SG_MAX_DEVICES];
    int library_cc;    /* 10 * major + minor that SG_ATTR_LIBRARY_CC answers, 0: none */
    uint64_t memory;   /* bytes of memory of each device */
    unsigned threads;  /* executing threads, also reported as multiprocessors; >= 1 */
    uint64_t watchdog; /* warp instructions per launch, 0: off */
    bool relaxed;      /* sums of float atomics may depend on the order of blocks */
    bool poison;       /* fill new device memory with 0xCD instead of zero */
};
extern struct sg_config sg_config;

/* Reads VGPU_SOFT_*; false (with a line on stderr) when a value makes no sense. */
bool sg_config_load(void);

/* ---- log and refusal details (sg_log.c) ---- */

/* Opens the log named by VGPU_SOFT_LOG; logging before that, or without it, is dropped. */
void sg_log_open(void);
bool sg_log_enabled(void);
void sg_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Remembers the line for sg_last_error_detail(), logs it, and returns r. */
CUresult sg_fail(CUresult r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sg_detail_clear(void); /* each API call starts without a line */
/* Remembers and logs why a kernel ended abnormally. */
void sg_device_fail(const char *text);
/*
 * Exported: why the API call made last in this thread failed, or, when it returned the sticky error
 * of its context, what the kernel did. Empty when there is nothing to say; never NULL. Valid until
 * the next call in this thread.
 */
const char *sg_last_error_detail(void);
/* Exported: where device printf goes; fn NULL: standard output. */
void sg_set_print_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
void sg_print(void *unused, const char *text, size_t len);
/* Exported: where the text of a failed device assert goes; fn NULL: standard error. */
void sg_set_error_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx);
void sg_print_error(void *unused, const char *text, size_t len);

/* ---- handles (sg_handle.c) ---- */

enum sg_type {
    SG_T_CTX = 1,
    SG_T_STREAM,
    SG_T_EVENT,
    SG_T_MODULE,
    SG_T_FUNC,
    SG_T_LIB,
    SG_T_KERN,
    SG_T_POOL,
    SG_T_LINK,
    SG_T_PHYS,
    SG_T_GRAPH,
    SG_T_NODE,
    SG_T_GEXEC,
    SG_T_UOBJ,
    SG_T_ARRAY,
    SG_T_MIPMAP,
    SG_T_TEXOBJ,
    SG_T_SURFOBJ,
    SG_T_TEXREF,
    SG_T_SURFREF,
    SG_T_COND,
    SG_T_GREEN,
    SG_T_RDESC,
};

struct sg_ctx;

/*
 * Head of each object that has a CUDA handle. A handle is a number that is looked up, never an
 * address that is followed: a stale, foreign or invented handle simply is not found.
 */
struct sg_obj {
    _Atomic uint32_t refs;
    uint32_t type;
    uint64_t handle;      /* 0: not (or no longer) registered */
    struct sg_ctx *owner; /* context whose end takes the handle away, or NULL; not a reference */
    void (*destroy)(struct sg_obj *obj); /* at the last put */
};

/* Prepares obj with one reference (the caller's). */
void sg_obj_init(struct sg_obj *obj, enum sg_type type, struct sg_ctx *owner,
                 void (*destroy)(struct sg_obj *));
/* Gives obj a handle and takes a reference for the table. False: out of memory. */
bool sg_obj_register(struct sg_obj *obj);
/* Takes the handle away and drops the table's reference; false when another thread did it first. */
bool sg_obj_unregister(struct sg_obj *obj);
void sg_obj_get(struct sg_obj *obj);
void sg_obj_put(struct sg_obj *obj); /* NULL is fine */
/* The object of that type behind a handle, with a reference for the caller, or NULL. */
void *sg_lookup(uint64_t handle, enum sg_type type);
/* Unregisters every object owned by ctx (its end). */
void sg_unregister_owned(struct sg_ctx *ctx);

#define SG_HANDLE(type_t, obj_ptr) ((type_t)(uintptr_t)(obj_ptr)->obj.handle)
#define SG_LOOKUP(h, type) sg_lookup((uint64_t)(uintptr_t)(h), type)
/* A local variable whose reference is dropped at the end of its scope. */
static inline void sg_obj_put_cleanup(void *pp)
{
    sg_obj_put(*(struct sg_obj **)pp); /* every object starts with its sg_obj */
}
#define SG_AUTO __attribute__((cleanup(sg_obj_put_cleanup)))

/* ---- device memory (sg_mem.c) ---- */

enum sg_mem_kind {
    SG_MEM_DEVICE = 1,
    SG_MEM_MANAGED,
    SG_MEM_HOST,       /* cuMemHostAlloc */
    SG_MEM_REGISTERED, /* cuMemHostRegister */
    SG_MEM_MAPPED,     /* cuMemMap */
};

/* One live allocation, as copied out of the table. */
struct sg_mem_info {
    uint64_t base, size; /* as asked for, in bytes */
    uint64_t id;         /* CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process */
    enum sg_mem_kind kind;
    struct sg_ctx *ctx; /* owner; compare only */
    uint32_t owner;     /* id of the owner */
    int device;         /* ordinal */
    uint32_t flags;     /* cuMemHostAlloc / cuMemHostRegister flags */
    bool writable;
    bool async;         /* from a memory pool */
    bool internal;      /* a module's variable: not the caller's to free */
    bool freeing;       /* cuMemFreeAsync was called */
    bool sync_memops;   /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    uint64_t pool;      /* handle of that pool */
    bool imported;      /* memory of another process: not counted here */
    struct sg_share *share; /* its pages are shared with other processes; NULL: they are ours */
    struct sg_gmem *graph; /* of a graph's allocation node; valid under sg_graph_lock, else NULL */
    bool dormant;       /* graph: no launch has allocated it, or it was freed again */
    uint32_t access;    /* SG_ACCESS_*, while it is not dormant */
};

/* Which devices may touch memory: two bits for each. */
#define SG_ACCESS_ALL UINT32_MAX
#define SG_ACCESS_READ 0x55555555u
#define SG_ACCESS_WRITE 0xAAAAAAAAu
#define SG_ACCESS_OF(device) (3u << 2 * (device)) /* both bits of one */

CUresult sg_mem_init(void);
/* Allocates device (or managed) memory; 2 when over the quota. align: power of two. */
CUresult sg_mem_alloc(struct sg_ctx *ctx, enum sg_mem_kind kind, uint64_t size, uint64_t align,
                      uint64_t *out);
/* As above for a pool, whose handle is given, with the access rights that the pool has now. */
CUresult sg_mem_alloc_pool(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access,
                           uint64_t *out);
/* As above for a module's variable, which cuMemFree refuses. */
CUresult sg_mem_alloc_internal(struct sg_ctx *ctx, enum sg_mem_kind kind, uint64_t size,
                               uint64_t align, uint64_t *out);
/*
 * As sg_mem_alloc() on the pages of a descriptor, which stays the caller's; share is given to
 * sg_share_end() when the memory is released. imported: it is not counted. pool 0: of no pool.
 */
CUresult sg_mem_alloc_shared(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access,
                             struct sg_share *share, bool imported, int fd, uint64_t *out);
/*
 * Gives memory of cuMemAlloc the pages of fd: move() does it, whatever is going on with the memory
 * meanwhile. 1: it is gone, is shared already, or is not of cuMemAlloc; 2: no memory.
 */
CUresult sg_mem_share(const struct sg_mem_info *info, struct sg_share *share, int fd,
                      bool (*move)(uint64_t base, uint64_t len, int fd));
/* Addresses for a graph's allocation node: dormant, and without counting against the quota. */
CUresult sg_mem_alloc_graph(struct sg_ctx *ctx, struct sg_gmem *graph, uint64_t size,
                            uint64_t *out);
/* Wakes memory of a graph that starts at base, or makes it dormant: then its content is gone. */
void sg_mem_set_dormant(uint64_t base, bool dormant);
/* Enters host memory into the table; 712 when it overlaps memory that is in it. */
CUresult sg_mem_add_host(struct sg_ctx *ctx, enum sg_mem_kind kind, void *p, uint64_t size,
                         uint32_t flags, bool writable);
/* True when the kernel knows memory of this process at every byte of [addr, addr+size). */
bool sg_host_mapped(uint64_t addr, uint64_t size);
/* Enters memory mapped by cuMemMap, once cuMemSetAccess allows some device to touch it. */
CUresult sg_mem_add_mapped(struct sg_ctx *ctx, uint64_t base, uint64_t size, uint32_t access);
/* Changes who may touch the allocation that starts at base; all that is in use of a pool. */
void sg_mem_set_access(uint64_t base, uint32_t access);
void sg_mem_set_pool_access(uint64_t pool, uint32_t access);
/*
 * May a copy that this device makes touch [addr, addr+size)? False only where access was given to
 * other devices alone (cuMemSetAccess, pools, graphs): between devices the driver copies what cuMemAlloc
 * gave without peer access too.
 */
bool sg_mem_reachable(int device, uint64_t addr, uint64_t size, bool write);
/* Takes the allocation that starts at base away and gives its memory back. False: none there. */
bool sg_mem_release(uint64_t base);
void sg_mem_release_owned(struct sg_ctx *ctx); /* a context's end */
/* The live allocation around addr. */
bool sg_mem_find(uint64_t addr, struct sg_mem_info *out);
/* Lets ctx's kernels reach what the context of that id owns. 0, 704 (they do), 711 (SG_MAX_PEERS). */
CUresult sg_mem_add_peer(struct sg_ctx *ctx, uint32_t id);
bool sg_mem_drop_peer(struct sg_ctx *ctx, uint32_t id); /* false: they did not */
/*
 * True when [addr, addr+size) lies inside one live allocation of any context, or inside adjacent
 * mappings of cuMemMap. size may be 0. When addr is in an allocation *out is filled in any case.
 */
bool sg_mem_covers(uint64_t addr, uint64_t size, struct sg_mem_info *out);
/* True when addr lies in the address range that device memory comes from, live or not. */
bool sg_mem_in_arena(uint64_t addr);
void sg_mem_usage(int device, uint64_t *free_bytes, uint64_t *total_bytes);
/* Marks device memory, of a pool or of cuMemAlloc, that starts at base as about to be freed; false: none,
 * or marked before. */
bool sg_mem_begin_free(uint64_t base);
/* Sets SYNC_MEMOPS of the allocation around addr. */
void sg_mem_set_sync(uint64_t addr, bool on);
/* Charges the quota for memory that does not come from sg_mem_alloc (cuMemCreate). */
bool sg_mem_charge(int device, uint64_t size);
void sg_mem_uncharge(int device, uint64_t size);

/* A place of a kind that cuda.h names. */
static inline bool sg_location_ok(const CUmemLocation *l)
{
    return l->type > CU_MEM_LOCATION_TYPE_INVALID && l->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* A reserved address (sg_drv_vmm.c): the reservation, and the mapping in it; map_size 0: none. */
struct sg_vmm_info {
    uint64_t base, size, map_base, map_size;
};
bool sg_vmm_find(uint64_t addr, struct sg_vmm_info *out);

/* Ends a mapped buffer of external memory (sg_drv_external.c); false: there is none at ptr. */
bool sg_external_free(CUdeviceptr ptr, CUresult *r);

/* Adds delta to what the pool behind a handle has in use (sg_drv_pool.c). */
void sg_pool_account(uint64_t handle, int64_t delta);

/* ---- addresses within the arena (sg_arena.c); the caller, sg_mem.c, serialises ---- */

bool sg_arena_init(uint64_t start, uint64_t len);
/* Takes len bytes aligned to align (a power of two) out of the first hole that has them. */
bool sg_arena_take(uint64_t len, uint64_t align, uint64_t *out);
void sg_arena_give(uint64_t start, uint64_t len);

/* ---- memory shared with other processes (sg_share.c, sg_drv_ipc.c) ---- */

/* One piece of memory that another process has too, or may have. */
struct sg_share {
    struct sg_share *next, **pprev; /* in the list of all */
    uint8_t token[32];
    uint64_t size;      /* bytes, as asked for */
    uint64_t base;      /* where it is here, 0: not placed */
    unsigned opens;     /* cuIpcOpenMemHandle less cuIpcCloseMemHandle; 0: made here */
    struct sg_ctx *ctx; /* that opened it; compare only */
    uint32_t ctx_id;
};
/* The memory behind it has left this process. */
void sg_share_end(struct sg_share *share);
/* Enters a piece that was placed elsewhere than by cuIpc*. */
void sg_share_link(struct sg_share *share);
/* The token of a piece; false when it has ended meanwhile (share is compared, never followed). */
bool sg_share_token(const struct sg_share *share, uint8_t *token);
/* Memory of another process, for ctx, as part of a pool (0: none); 400: no such, 205: no memory. */
CUresult sg_share_import(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, uint64_t pool,
                         uint32_t access, uint64_t *addr);

/* ---- contexts (sg_ctx.c) ---- */

#define SG_NLIMITS 16

#define SG_MAX_PEERS 64
struct sg_ctx {
    struct sg_obj obj;
    uint32_t id; /* from 1, never reused */
    /*
     * Itself. Of a green context: the device's primary context, whose memory, modules, events and errors
     * it shares; what it has of its own are its streams and its multiprocessors. base_id: which
     * incarnation of that; green: its CUgreenCtx.
     */
    struct sg_ctx *base;
    uint32_t base_id;
    uint64_t green;
    struct sg_sms sms; /* of a green context; count 0: all of the device */
    int device;  /* ordinal */
    bool primary;
    _Atomic bool alive;
    unsigned flags;
    unsigned api_version;
    _Atomic unsigned attached; /* cuCtxAttach, beyond the creation itself */
    /*
     * CUresult of the first device-side error, 0: none. It stops the work of all streams when it
     * happens, and is told to the caller (sticky) from the first call on that waits for work or asks
     * about it: so what a program sees does not depend on how fast a kernel fails.
     */
    _Atomic int fault, sticky;
    volatile int abort;     /* asks running kernels to end */
    _Atomic bool cut;       /* it ends, and a wait was given up: nothing behind it may run */
    pthread_mutex_t issue;  /* order of issue over all streams of this context; see README */
    struct sg_stream *streams;  /* list, guarded by issue; the legacy stream is not in it */
    struct sg_stream *legacy;   /* lives as long as the context object; a green one's is in base's list */
    struct sg_deps *gates; /* what streams to come wait for (cuCtxWaitEvent); guarded by base's issue */
    uint64_t limits[SG_NLIMITS];
    CUfunc_cache cache_config;
    CUsharedconfig shared_config;
    struct sg_coredump *coredump; /* sg_drv_coredump.c; NULL until a setting is its own */
    _Atomic uint32_t peers[SG_MAX_PEERS]; /* ids of contexts whose memory this one's kernels reach */
};

void sg_coredump_forget(struct sg_ctx *ctx);

struct sg_device {
    pthread_mutex_t lock; /* guards the fields below */
    struct sg_ctx *primary; /* made by cuInit, never freed */
    unsigned primary_refs;
    unsigned primary_flags;
};
extern struct sg_device sg_devices[SG_MAX_DEVICES]; /* by ordinal */

CUresult sg_ctx_new(int device, unsigned flags, bool primary, struct sg_ctx **out);
/* The context that a green context is converted to; without a handle yet. */
CUresult sg_ctx_new_green(struct sg_ctx *base, const struct sg_sms *sms, struct sg_ctx **out);
/* False: it, or the primary context that it stands on, was destroyed. */
bool sg_ctx_alive(const struct sg_ctx *ctx);
/* The context that a handle names, with a reference; of a green one: the context itself. NULL: none. */
struct sg_ctx *sg_ctx_find(CUcontext h);
/* ... whose memory, modules and events are used through it. */
struct sg_ctx *sg_ctx_find_base(CUcontext h);
/* Waits for the work, then takes away streams, modules and memory. The object stays. */
void sg_ctx_teardown(struct sg_ctx *ctx);

/* What a thread knows; made at its first call, freed at its end. */
struct sg_tls {
    struct sg_ctx **stack; /* each a reference; the last is current; entries may be NULL */
    unsigned depth, cap;
    bool in_callback; /* inside cuLaunchHostFunc's or cuStreamAddCallback's function */
    CUstreamCaptureMode capture_mode;
    struct sg_stream **ptds; /* this thread's default streams, one per context used; references */
    unsigned nptds;
};
struct sg_tls *sg_tls(void); /* NULL: out of memory */

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
/* The work of a stream met memory that its device may not touch: the context is broken by 700. */
CUresult sg_unreachable(struct sg_stream *s, const char *what);
CUresult sg_see_fault(struct sg_ctx *ctx); /* makes a fault sticky; returns it or 0 */

#define SG_INIT()                                                                                  \
    do {                                                                                           \
        CUresult sg_rc_ = sg_check_init();                                                         \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
    } while (0)
#define SG_CTX(var)                                                                                \
    struct sg_ctx *var = NULL;                                                                     \
    do {                                                                                           \
        CUresult sg_rc_ = sg_current(&(var));                                                      \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
    } while (0)

/* For what ends an object: that needs no current context. NULL: there is none that can be used. */
#define SG_CTX_OR_NONE(var)                                                                        \
    struct sg_ctx *var = NULL;                                                                     \
    do {                                                                                           \
        CUresult sg_rc_ = sg_current(&(var));                                                      \
        if (sg_rc_ == CUDA_ERROR_INVALID_CONTEXT || sg_rc_ == CUDA_ERROR_CONTEXT_IS_DESTROYED)     \
            (var) = NULL;                                                                          \
        else if (sg_rc_ != CUDA_SUCCESS)                                                           \
            return sg_rc_;                                                                         \
    } while (0)

#define SG_CHECK_DEVICE(dev)                                                                       \
    do {                                                                                           \
        if ((unsigned)(dev) >= sg_config.ndevices)                                                 \
            return CUDA_ERROR_INVALID_DEVICE;                                                      \
    } while (0)

/* ---- streams (sg_stream.c) ---- */

struct sg_op;

/* "That stream has completed its operation number seq." */
struct sg_dep {
    struct sg_stream *stream; /* a reference */
    uint64_t seq;
};

enum sg_issue_mode {
    SG_ISSUE_ASYNC,  /* always by the stream's thread */
    SG_ISSUE_INLINE, /* by the caller when nothing is in its way, else by the stream's thread */
    SG_ISSUE_SYNC,   /* by the caller, after waiting for its turn */
};

struct sg_op {
    struct sg_op *next;
    uint64_t seq;
    CUresult (*run)(struct sg_op *op, struct sg_stream *s);
    void (*issued)(struct sg_op *op, struct sg_stream *s); /* under the issue lock; may be NULL */
    void (*drop)(struct sg_op *op);                        /* releases what it holds; frees op */
    bool run_always; /* also when the context has failed */
    int node_type;   /* CUgraphNodeType it is captured as, -1: cannot be captured */
    struct sg_dep *deps;
    unsigned ndeps, cap_deps;
};

struct sg_stream {
    struct sg_obj obj;
    struct sg_ctx *ctx; /* a reference, except for the legacy stream; never a green context */
    struct sg_ctx *green; /* that it belongs to, or NULL; a reference, except for its default stream */
    struct sg_stream *next, **pprev; /* ctx->streams */
    struct sg_deps *first; /* that the first operation waits for; guarded by ctx->issue; NULL: nothing */
    unsigned flags;     /* CU_STREAM_NON_BLOCKING */
    int priority;
    unsigned long long id;
    bool legacy, per_thread;    /* legacy: the default stream, also that of a green context */
    bool bare;                  /* ctx->legacy: not in its list */
    CUsynchronizationPolicy sync_policy;
    CUaccessPolicyWindow window;
    struct sg_genv *genv;   /* the graph that its operation runs, or NULL; of the thread that runs it */
    struct sg_front *front; /* capture state, see sg_graph.h; guarded by sg_graph_lock */
    _Atomic uint64_t submitted; /* written under ctx->issue */
    _Atomic uint64_t completed;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t work, done;
    struct sg_op *head, *tail;
    bool thread;
    _Atomic bool dying;
};

/* ctx may be a green context. The first one of a context is its default stream. */
CUresult sg_stream_new(struct sg_ctx *ctx, unsigned flags, int priority, struct sg_stream **out);
/* As cuStreamCreateWithPriority() in a context, which may be a green one. */
CUresult sg_stream_create(struct sg_ctx *ctx, unsigned flags, int priority, CUstream *out);
/* Lets the stream finish and go: handle gone, thread ends when its queue is empty. */
void sg_stream_retire(struct sg_stream *s);
/* Attributes that one launch can have; more are a mistake. */
#define SG_ATTRS_MAX 64u

/* Resolves 0, 1, 2 and handles; the stream must belong to ctx, or to a green context that stands on it.
 * With a reference. 400: no such; 709: its green context was destroyed. */
CUresult sg_stream_get(struct sg_ctx *ctx, CUstream h, struct sg_stream **out);
/* Was a wait given up, on which everything behind it depends? */
bool sg_stream_cut(const struct sg_stream *s);
/* Any live stream, whatever its context; for calls that need no current one. */
CUresult sg_stream_get_any(CUstream h, struct sg_stream **out);
/* Issues op (owned from here on, also on failure). SYNC and inline: the operation's own result. */
CUresult sg_issue(struct sg_stream *s, struct sg_op *op, enum sg_issue_mode mode);
void sg_op_end(struct sg_op *op); /* drops op without (or after) running it */
bool sg_op_add_dep(struct sg_op *op, struct sg_stream *s, uint64_t seq);
/* Streams that ctx, which may be a green context, gets from now on begin after that. False: no memory. */
bool sg_ctx_gate(struct sg_ctx *ctx, struct sg_stream *s, uint64_t seq);
void sg_ctx_ungate(struct sg_ctx *ctx);
bool sg_stream_idle(struct sg_stream *s);
void sg_stream_wait(struct sg_stream *s, uint64_t seq);
void sg_stream_drain(struct sg_stream *s); /* waits for all that was issued before */
void sg_ctx_drain(struct sg_ctx *ctx); /* a green context: of its streams only */
/* Whether a stream is ctx's; a primary context has those of its green contexts too. */
bool sg_ctx_has(const struct sg_ctx *ctx, const struct sg_stream *s);
bool sg_ctx_idle(struct sg_ctx *ctx); /* nothing of what was issued is left to do */
void sg_ctx_retire_streams(struct sg_ctx *ctx); /* at the context's end, when drained */
/* The default stream that a call without stream argument uses. */
#define SG_LEGACY ((CUstream)0x1)
#define SG_PER_THREAD ((CUstream)0x2)
#define SG_PTSZ(h) ((h) == NULL ? SG_PER_THREAD : (h))
void sg_tls_streams_free(struct sg_tls *t);

/* ---- events (sg_drv_event.c) ---- */

struct sg_event {
    struct sg_obj obj;
    unsigned flags;
    pthread_mutex_t lock;
    struct sg_stream *stream; /* of the latest record, a reference; NULL: never recorded */
    uint64_t seq, record;     /* its operation; number of records so far */
    struct sg_front *front; /* of a captured stream, see sg_graph.h; guarded by sg_graph_lock */
    uint64_t stamp_ns, stamp_record; /* time, and which record it belongs to */
    struct sg_ipc_event *ipc;        /* other processes may have it too, see sg_event.h; or NULL */
    uint64_t ipc_record;             /* number there of the latest record that was made here */
};
uint64_t sg_now_ns(void);
/* Takes the caller's reference to s over, to be let go when op ends. False: no memory. */
bool sg_op_keep(struct sg_op *op, struct sg_stream *s);

/* ---- images (sg_fatbin.c, sg_elf.c, sg_image.c) ---- */

/* PTX text chosen out of an image; or, when it has none, the SASS that describes itself best. */
struct sg_image {
    char *text; /* malloc'd, NUL-terminated */
    size_t len; /* without the NUL */
    bool is_elf; /* text is a cubin of len bytes */
    uint32_t target; /* from the container, 0 when the image was bare PTX */
    bool shadowed; /* the PTX is for newer devices only, and there is SASS for this one */
    char has[256];   /* what the image contains, for messages */
};

/*
 * Chooses and unpacks the PTX to run out of a fat binary, cubin or PTX text of at most max bytes
 * (SIZE_MAX: unknown, the caller's API has no size); without PTX the cubin that is nearest to cc,
 * for its metadata. 0, 200, 209 (neither), 2 or 218 (empty text).
 */
CUresult sg_image_load(const void *image, size_t max, int cc, struct sg_image *out);
/* Links n images that have PTX into one; names[i] is what messages call the i-th. 0, 2 or 218. */
CUresult sg_image_link(const struct sg_image *img, const char *const *names, uint32_t n,
                       struct sg_image *out);
void sg_image_free(struct sg_image *img);
/* The same for the container alone; data starts with 0xBA55ED50. */
CUresult sg_fatbin_load(const uint8_t *data, size_t max, int cc, struct sg_image *out);

/*
 * Calls fn for each fat binary in an object of the host, or in the objects of an archive; stops at the
 * first result that is not 0 and returns it. CUDA_ERROR_INVALID_IMAGE: no object or archive, or cut short.
 */
typedef CUresult sg_container_fn(const uint8_t *data, size_t n, void *arg);
CUresult sg_object_each(const void *data, size_t n, sg_container_fn *fn, void *arg);
CUresult sg_archive_each(const void *data, size_t n, sg_container_fn *fn, void *arg);

struct sg_elf_info {
    uint64_t size;    /* bytes that headers, tables and sections span */
    uint32_t sm;      /* e.g. 90 */
    bool is_cubin;
};
bool sg_elf_is(const void *data, size_t max);
/* Bounds-checked look at an ELF64 file; false when malformed. max may be SIZE_MAX. */
bool sg_elf_scan(const void *data, size_t max, struct sg_elf_info *out);

/* ---- modules, functions (sg_module.c), libraries (sg_library.c) ---- */

/* The attributes of a kernel that a program may set. */
struct sg_func_settings {
    int max_dynamic; /* bytes of dynamic shared memory, -1: not set */
    int carveout;    /* percent, -1: default */
    int nonportable_cluster, cluster_policy;
};

struct sg_func {
    struct sg_obj obj;
    struct sg_mod *mod; /* a reference */
    struct sg_kernel *kernel;
    struct sg_kernel_info info;
    struct sg_func_settings set;
    _Atomic bool prepared;
    struct sg_old_launch *old; /* sg_drv_oldlaunch.c; NULL until first used */
    struct sg_func *next; /* mod->funcs */
};

/* A loaded CUmodule, also the instance of a library in one context. */
struct sg_mod {
    struct sg_obj obj;
    struct sg_ctx *ctx; /* a reference */
    uint32_t ctx_id;    /* the incarnation of ctx that it belongs to */
    struct sg_lib *lib; /* a reference, or NULL */
    struct sg_module *ptx;
    bool ptx_is_libs; /* ptx is lib->meta and freed with it */
    uint64_t *globals; /* device addresses, one per module-level variable */
    uint32_t nglobals;
    struct sg_texref **texrefs; /* one per texture, surface and sampler variable; references */
    uint32_t ntexrefs;
    uint32_t const_bytes;
    pthread_mutex_t lock;  /* guards funcs */
    struct sg_func *funcs; /* those with references; each unlinks itself at its end */
};

struct sg_lib_inst {
    struct sg_lib_inst *next;
    struct sg_mod *mod; /* a reference */
};

struct sg_kern {
    struct sg_obj obj;
    struct sg_lib *lib; /* a reference; lib_unload() undoes the cycle */
    struct sg_kernel *kernel; /* of lib->meta */
    struct sg_kernel_info info; /* name NULL: not asked for yet; guarded by lib->lock */
    struct sg_func_settings set;
    struct sg_func *cached; /* a reference: the function used last */
};

struct sg_lib {
    struct sg_obj obj;
    /* What each capability runs, by sg_same_cc(); kept to parse again for further contexts. */
    struct sg_image image[SG_MAX_DEVICES];
    struct sg_module *meta; /* device 0's, parsed once; also run by the first context that can */
    bool meta_taken;
    pthread_mutex_t lock; /* guards insts, meta_taken and each kernel's set and cached */
    struct sg_lib_inst *insts;
    struct sg_kern **kerns; /* one per kernel, each a reference; fixed after loading */
    uint32_t nkerns;
};

/* JIT options of cuModuleLoadDataEx and friends that we act upon. */
struct sg_jit {
    char *error_log, *info_log;
    size_t error_size, info_size;
    void **error_size_out, **info_size_out; /* receive the number of bytes written */
    void **wall_time;
    uint32_t max_registers; /* what is reported of its kernels at most; 0: no limit */
};
CUresult sg_jit_parse(unsigned n, CUjit_option *opts, void **values, struct sg_jit *out);
void sg_jit_error(struct sg_jit *jit, const char *text);
void sg_jit_done(struct sg_jit *jit);

/* Parses text for ctx, places and initialises its variables. ptx: already parsed, or NULL. */
CUresult sg_mod_new(struct sg_ctx *ctx, const struct sg_image *img, struct sg_module *ptx,
                    struct sg_lib *lib, struct sg_jit *jit, struct sg_mod **out);
/* Parses the PTX or the cubin's metadata. */
CUresult sg_ptx_parse(const struct sg_image *img, struct sg_jit *jit, struct sg_module **out);
/* Takes handles and variables away; waits for running kernels. */
void sg_mod_unload(struct sg_mod *mod);
/* The function of a kernel of mod, made at first use; with a reference. */
CUresult sg_mod_func(struct sg_mod *mod, struct sg_kernel *k, struct sg_func **out);
CUresult sg_mod_global(struct sg_mod *mod, const char *name, bool managed_only, CUdeviceptr *dptr,
                       size_t *bytes);
/* The library's module in a context, loaded at first use; with a reference. */
CUresult sg_lib_module(struct sg_lib *lib, struct sg_ctx *ctx, struct sg_mod **out);
/* The function behind a CUfunction or CUkernel in ctx; with a reference. 400: neither. */
CUresult sg_func_get(struct sg_ctx *ctx, CUfunction h, struct sg_func **out);
CUresult sg_kern_func(struct sg_kern *k, struct sg_ctx *ctx, struct sg_func **out);
/* Reads a whole file of *size bytes, with a NUL behind them; malloc'd. 301 or 2. */
CUresult sg_file_read(const char *path, void **out, size_t *size);
/* Whether text starts with the name of a PTX instruction (sg_opcodes.c). */
bool sg_is_opcode(const char *text);
/* Decodes the function's body once; 218 or 801 with a detail line when it cannot be run. */
CUresult sg_func_prepare(struct sg_func *f);
CUresult sg_func_attribute(const struct sg_kernel_info *info, const struct sg_func_settings *set,
                           uint32_t const_bytes, int attrib, int *pi);
CUresult sg_func_set_attribute(int device, const struct sg_kernel_info *info,
                               struct sg_func_settings *set, int attrib, int value);
/* Dynamic shared memory that a launch may ask for, in bytes. */
int sg_func_max_dynamic(const struct sg_kernel_info *info, const struct sg_func_settings *set);

/* ---- device properties (sg_drv_device.c) ---- */

/*
 * Number of an attribute of ours, above those of cuda.h: the capability (10 * major + minor) that
 * libraries should be told which carry PTX only for GPUs that they do not know (cuBLAS). Our guest
 * libcuda.so.1 asks for it; CUDA_ERROR_INVALID_VALUE, as from any driver, when there is none.
 */
#define SG_ATTR_LIBRARY_CC 0x76677001
int sg_attr(int device, CUdevice_attribute a); /* value for this device, 0 for unknown ones */
int sg_cc(int device);                         /* 10 * major + minor */
/* The lowest device with the same capability: one translation of an image serves both. */
int sg_same_cc(int device);
/* Resident blocks per multiprocessor for a function; 0 when one does not fit. */
int sg_occupancy(const struct sg_func *f, int block, size_t dynamic);

#endif
