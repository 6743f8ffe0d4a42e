/* SPDX-License-Identifier: MIT */
/*
 * Internals of the guest's libcuda.so.1: the process-wide client, the thread state, and what the
 * files of this folder offer each other.
 *
 * Built with __CUDA_API_VERSION_INTERNAL, so that cuda.h declares every version of every entry
 * point under its exported name. Names: cuX is the exported symbol (generated), vcu_cuX its
 * hand-written body (same parameters), vgp_call_X the generated encoder of the wire call X.
 */
#ifndef VCU_H
#define VCU_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../protocol/vgp_ring.h"
#include "vcu_fault.h"
#include "vcu_ring.h"
#include "vcu_trace.h"
#include "vcu_transport.h"
#include "vcu_version.h"

/* More devices than this are not shown to the application: HGX boards have 8, MIG at most 56. */
#define VCU_MAX_DEVICES 64
/* Room for the attributes of later cuda.h versions; CU_DEVICE_ATTRIBUTE_MAX is 144 in 13.0. */
#define VCU_MAX_ATTRIBUTES 192

/* ---- vcu_client.c: the process's connection ------------------------------------------------- */

enum vcu_state {
    VCU_NEW = 0,    /* cuInit has not succeeded yet */
    VCU_READY = 1,  /* connected; a dead worker is still READY, its calls return the sticky error */
    VCU_FORKED = 2, /* child of a process that was connected: CUDA_ERROR_NOT_INITIALIZED for ever */
    VCU_EXITED = 3, /* our destructor ran: CUDA_ERROR_DEINITIALIZED */
};

/* One GPU as vgpDeviceInfo described it; constant after cuInit. */
struct vcu_device {
    char name[256];
    CUuuid uuid;
    uint64_t total_memory;              /* bytes */
    int attributes[VCU_MAX_ATTRIBUTES]; /* 0 where the host driver did not know it */
    char pci_bus_id[16];                /* "0000:01:00.0" */
    uint64_t primary;                   /* handle of the primary context; never changes */
    _Atomic int library_cc;             /* vcu_caller.c: 10 * major + minor, 0 none, -1 not asked */
};

struct vcu_client {
    _Atomic int state;         /* enum vcu_state */
    pthread_mutex_t init_lock; /* serialises cuInit */
    struct vcu_transport transport;
    struct vcu_ring ring;
    bool connected;          /* transport and ring are usable (written before state) */
    uint32_t worker_minor;   /* minor version of the worker's protocol */
    uint32_t stream_room;    /* records after which a stream's work of before must be complete */
    int host_driver_version; /* the provider's cuDriverGetVersion */
    char provider[64];       /* the provider's name, for the trace */
    int device_count;
    struct vcu_device devices[VCU_MAX_DEVICES];
};
extern struct vcu_client vcu;

/* Set while a twin (_ptsz, _ptds) runs; see vgp_guest_rt.h. */
extern __thread int vcu_per_thread;

/* Connects and learns the devices; idempotent. Returns what cuInit returns. */
CUresult vcu_client_init(void);
/* CUDA_SUCCESS, CUDA_ERROR_NOT_INITIALIZED or CUDA_ERROR_DEINITIALIZED. Every entry point's first
 * check. */
CUresult vcu_check_init(void);
/* vcu_check_init, then CUDA_ERROR_INVALID_CONTEXT / _CONTEXT_IS_DESTROYED for the thread's context.
 */
CUresult vcu_check_context(void);
/* The same for calls that need no current context, as their handles say where: graphs and their nodes. */
CUresult vcu_check_usable(void);
/* vcu_check_init + CUDA_ERROR_INVALID_DEVICE; the device on success. */
CUresult vcu_device_get(CUdevice ordinal, struct vcu_device **device);

/* ---- thread state --------------------------------------------------------------------------- */

/* Arrays that a question about a capture lends to the application; grow as needed. */
struct vcu_lent {
    uint64_t *nodes, *edges;
    size_t room;
};

#define VCU_STACK_INLINE 8 /* context stack entries without a heap block */

struct vcu_thread {
    uint32_t number;   /* dense, from 0; names the per-thread default stream on the wire */
    bool in_callback;  /* runs a host function: CUDA calls are not permitted */
    uint32_t depth;    /* context stack */
    uint32_t capacity; /* of `heap`, entries */
    uint64_t inline_stack[VCU_STACK_INLINE];
    uint64_t *heap;
    uint8_t *payload; /* private copy of a large reply */
    struct vcu_lent lent;
};
/* The calling thread's state; created on first use, freed at the thread's end. Never NULL. */
struct vcu_thread *vcu_thread(void);
/* Handle of the calling thread's current context, 0 = none. */
uint64_t vcu_current_context(void);

/* ---- vcu_handle.c --------------------------------------------------------------------------- */

/* Local data of a live handle; NULL when it is stale, of another type, or has none. The data stays
   valid until the owner frees it after vgp_handle_drop (a race with a destroy is the caller's). */
void *vcu_handle_data(uint64_t handle, enum vgp_handle_type type);
/* Attaches data to a live handle; false when it is not live. The table does not own it. */
bool vcu_handle_set_data(uint64_t handle, enum vgp_handle_type type, void *data);
/* Calls fn for every live handle of a type, in index order; fn may drop the handle it gets. */
void vcu_handle_each(enum vgp_handle_type type, void (*fn)(uint64_t handle, void *data, void *arg),
                     void *arg);
/* Number of live handles of a type. */
uint32_t vcu_handle_count(enum vgp_handle_type type);

/* ---- vcu_trace.c ---------------------------------------------------------------------------- */

/* One line for a finished entry point: name(arguments) = RESULT time thread. */
void vcu_trace_call(const char *name, CUresult r, uint64_t t0_ns, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Refuses: writes the why line, remembers it for the error log, and returns r. */
#define VCU_REFUSE(r, name, ...)                                                                   \
    (vcu_logs_reason(name, __VA_ARGS__), vcu_trace_on ? (vcu_why(name, __VA_ARGS__), (r)) : (r))

/* ---- vcu_logs.c: the error log of cuLogs* --------------------------------------------------- */

/* Why the running call of this thread is about to fail; `call` is a constant, the entry point's name
   or the beginning of it. */
void vcu_logs_reason(const char *call, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An entry point has failed: one line, callbacks. Results that are no errors are passed over. */
void vcu_logs_failure(const char *call, CUresult r);
/* Reads CUDA_LOG_FILE; when the library is loaded. In the child of a fork. */
void vcu_logs_init(void);
void vcu_logs_forked(void);

/* ---- vcu_error.c ---------------------------------------------------------------------------- */

/* "CUDA_ERROR_INVALID_VALUE", or NULL for a code that cuda.h does not have. */
const char *vcu_error_name(CUresult r);
/* "invalid argument", or NULL. */
const char *vcu_error_text(CUresult r);

/* ---- vcu_context.c -------------------------------------------------------------------------- */

/* Local record of a context; reached through its handle. */
struct vcu_context {
    uint64_t handle;
    uint64_t id; /* cuCtxGetId: unique in the process, never reused */
    int device;
    unsigned flags;
    unsigned api_version;
    bool primary;
    /*
     * Itself. Of a green context: the primary context that its memory, modules and events belong to, and
     * which incarnation of that.
     */
    struct vcu_context *base;
    uint32_t incarnation, base_incarnation;
    uint64_t green;          /* handle of the CUgreenCtx, 0: an ordinary context */
    int sm_count;            /* of a green context; 0: all that the device has */
    _Atomic int retained;    /* primary: retain count; others: 1 until destroyed */
    _Atomic int sticky;      /* 0, or the error that makes the context unusable */
    unsigned cache_config;   /* CUfunc_cache, kept locally */
    unsigned shared_config;  /* CUsharedconfig, kept locally */
    struct vcu_cls *storage; /* vcu_export_table.c: context-local storage, under its own lock */
    struct vcu_coredump *coredump; /* vcu_coredump.c: NULL until a setting is its own */
};
/* NULL when the handle is not a live context. (CUcontext)0 and -1 mean the current one. */
struct vcu_context *vcu_context_find(CUcontext ctx);

/*
 * vcu_check_context() for calls that end an object: they need no current context, as the driver finds the
 * object's own. Without one, the owner becomes current until vcu_context_return(*borrowed).
 */
CUresult vcu_context_borrow(uint64_t owner, bool *borrowed);
void vcu_context_return(bool borrowed);
/* CUDA_SUCCESS, CONTEXT_IS_DESTROYED (also NULL), or the context's sticky error. */
CUresult vcu_context_usable(const struct vcu_context *c);
/* Handle of the context that what the calling thread makes belongs to: the current one, or what a green
 * context stands on; streams are the green context's own. 0: none. */
uint64_t vcu_owner_context(void);
/* The record of what a green context is converted to; its handle is *handle. NULL: no memory. */
struct vcu_context *vcu_context_add_green(int device);
/* Takes back one that was not used. */
void vcu_context_drop(struct vcu_context *c);
/* Makes the primary context record of a device; called once per device by cuInit. 0 on failure. */
uint64_t vcu_context_add_primary(int device);

/* ---- vcu_green.c ---------------------------------------------------------------------------- */

/* The streams of the context, and of the green contexts that stand on it, are streams no more. */
void vcu_green_forget(const struct vcu_context *c);

/* ---- vcu_decompress.c ----------------------------------------------------------------------- */

/* CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: the worker's driver knows. */
CUresult vcu_decompress_capable(int device, uint64_t address, unsigned char *out);

/* ---- vcu_multicast.c ------------------------------------------------------------------------ */

/* Waits until all devices were added, if it is a multicast object (cuMemMap, cuMulticastBind*). */
void vcu_multicast_await(uint64_t handle);
/* The handle was released. */
void vcu_multicast_forget(uint64_t handle);

/* ---- vcu_coredump.c: a context's own settings go with it ---- */
void vcu_coredump_forget(struct vcu_context *c);

/* ---- vcu_export_table.c --------------------------------------------------------------------- */

/* The slot tables that cuGetExportTable gives out, exposed to the test. */
const void *vcu_export_table_find(const CUuuid *id);
/* Runs the destructors of a context's storage; called when the context is reset or destroyed. */
void vcu_cls_clear(struct vcu_context *context);
extern const void *const vcu_cudart_interface_table[];
extern const void *const vcu_integrity_table[];

/* ---- vcu_integrity.c ------------------------------------------------------------------------ */

/* Slot 1 of the table d4082055. Returns a CUresult. */
int vcu_integrity_check(uint32_t version, uint64_t unix_seconds, uint8_t out[16]);
/* RFC 1319 and RFC 2104, exposed to the unit test. */
void vcu_md2_digest(const void *data, size_t size, uint8_t out[16]);
void vcu_hmac_md2(const uint8_t key[16], const void *data, size_t size, uint8_t out[16]);

/* ---- vcu_hostfunc.c ------------------------------------------------------------------------- */

/* One run of a host function, as a HOST_FUNC notification names it. */
struct vcu_host_run {
    uint64_t cookie;
    uint32_t status; /* CUresult of the stream */
    bool numbered;   /* slot and sequence are there (protocol 1.1) */
    uint32_t slot, sequence;
};
/* A HOST_FUNC notification: queues the callback; called under the notify lock. */
void vcu_hostfunc_post(const struct vcu_host_run *run);
/* A function that a graph runs as often as it is launched; 0: see *why. `gone` (or NULL) gets `user`
   when nothing will run it any more. */
uint64_t vcu_hostfunc_keep(CUhostFn fn, void *user, void (*gone)(void *user), CUresult *why);
/* External semaphores (vcu_extsem.h), to be served when the worker asks; once: by a call on a stream,
   else by a graph. Takes over the reference, also on failure. */
struct vcu_semas;
uint64_t vcu_hostfunc_keep_semas(struct vcu_semas *s, bool once, CUresult *why);
/* What was kept so, with a reference; NULL: nothing of that cookie. */
struct vcu_semas *vcu_hostfunc_semas(uint64_t cookie);
/* Tells the worker that a run has ended. */
void vcu_hostfunc_finish(const struct vcu_host_run *run);
/* A user object's destructor, to be run once, on behalf of that handle. */
uint64_t vcu_hostfunc_keep_object(CUhostFn destroy, void *user, uint64_t handle, CUresult *why);
/* Takes one back after a call that failed; `gone` is not called. False: it is released already. */
bool vcu_hostfunc_cancel(uint64_t cookie);
/* A RELEASED notification; called under the notify lock. */
void vcu_hostfunc_released(uint64_t cookie);
/* What was kept; false: nothing of that cookie. */
bool vcu_hostfunc_find(uint64_t cookie, CUhostFn *fn, void **user);
/* So many runs are to come: a thread listens until they were. */
void vcu_hostfunc_expect(uint32_t runs);

/* ---- vcu_extsem.c: a context is about to end, and has ended --------------------------------- */

void vcu_semas_give_up(uint64_t context);
void vcu_semas_forget(uint64_t context);

/* ---- vcu_capture.c: stream capture -------------------------------------------------------- */

/* Captures of this process that have begun and not ended. While there are any, what is otherwise sent
   without waiting for an answer waits for it: its error belongs to the call itself. */
extern _Atomic uint32_t vcu_captures;
/* Is a call that may synchronise, or use the legacy stream, forbidden to this thread by a capture?
   Then the capture is lost. */
CUresult vcu_capture_forbids(const char *call);
static inline CUresult vcu_capture_unsafe(const char *call)
{
    return __builtin_expect(atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0, 1)
               ? CUDA_SUCCESS
               : vcu_capture_forbids(call);
}
/* vcu_check_context() for such calls. */
static inline CUresult vcu_check_uncaptured(const char *call)
{
    CUresult res = vcu_check_context();

    return res != CUDA_SUCCESS ? res : vcu_capture_unsafe(call);
}
/* Is the stream part of a capture? Asks the worker while there are captures, else no. */
bool vcu_stream_captured(CUstream stream);
/* A call that no capture survives was made on a captured stream: UNSUPPORTED, and the capture is
   lost. */
CUresult vcu_capture_spoil(const char *call, CUstream stream);
/* The stream, or all streams of a context, are being destroyed. */
void vcu_capture_forget_stream(CUstream stream);
void vcu_capture_forget_context(uint64_t context);
/* Executable graphs of a context go with it. */
void vcu_graphs_forget(uint64_t context);

/* ---- vcu_submit.c --------------------------------------------------------------------------- */

/* A reply of the provider that makes its context unusable (CUDA: "the process must be terminated").
 */
bool vcu_error_is_sticky(CUresult r);

/* Has the reply of a published submission come (or will it never)? Does not sleep. */
struct vgp_submit;
bool vcu_submit_ready(struct vgp_submit *s);

/* ---- vcu_staging.c: pieces of the staging area ----------------------------------------------- */

/* Divides the staging area; once per connection. */
CUresult vcu_staging_init(void);

/* ---- vcu_device.c -----------------------------------------------------------------------------
 */

/* Takes back the attributes of what this version does not serve, so that programs do not try. */
void vcu_device_limit_attributes(struct vcu_device *d);

/* ---- vcu_caller.c ---------------------------------------------------------------------------- */

/* Attribute number by which a provider announces 10 * major + minor for libraries ("vgp" 1). */
#define VCU_ATTR_LIBRARY_CC 0x76677001u
/* The capability of d that the code which called the running entry point is told. */
void vcu_caller_cc(struct vcu_device *d, int *major, int *minor);
/* True for the path of a library that is told the library capability; exposed to the test. */
bool vcu_caller_is_library(const char *file);

/* ---- vcu_memory.c, vcu_module.c: when a context ends ------------------------------------------
 */

/* Forgets the allocations, or the modules and functions, of a context that is reset or destroyed.
 */
void vcu_memory_forget(uint64_t context);
void vcu_modules_forget(uint64_t context);

/* ---- vcu_image.c ---------------------------------------------------------------------------- */

enum vcu_image_kind {
    VCU_IMAGE_PTX = 1,
    VCU_IMAGE_ELF = 2,
    VCU_IMAGE_FATBIN = 3,
    VCU_IMAGE_ARCHIVE = 4,
};
struct vcu_image {
    enum vcu_image_kind kind;
    const void *data; /* what to send: a wrapper is already followed to its fatbin */
    uint64_t size;    /* bytes */
    void *copy;       /* what data points to, when it had to be put together; else NULL */
};
/*
 * Finds out what `code` points to and how long it is. `limit` bounds what may be read, 0 = unknown.
 * Returns CUDA_SUCCESS, CUDA_ERROR_INVALID_IMAGE or CUDA_ERROR_INVALID_VALUE (NULL); *why is then a
 * static text that names the wrong part.
 */
CUresult vcu_image_measure(const void *code, uint64_t limit, struct vcu_image *image,
                           const char **why);
/* Frees what vcu_image_measure() put together, if anything. */
void vcu_image_done(struct vcu_image *image);
/* True when every page of [p, p + n) is mapped (readable is not checked). */
bool vcu_memory_mapped(const void *p, uint64_t n);

/* ---- vcu_range.c: address ranges ------------------------------------------------------------- */

/* One range of addresses that we know about. */
struct vcu_range {
    uint64_t start, size;
    void *data;
};
/* A set of disjoint ranges with its own lock. */
struct vcu_range_set {
    pthread_rwlock_t lock;
    void *root; /* tsearch(3) tree: red-black in glibc */
};
#define VCU_RANGE_SET_INIT                                                                         \
    {                                                                                              \
        PTHREAD_RWLOCK_INITIALIZER, NULL                                                           \
    }
/* False when it overlaps another range or memory is short. */
bool vcu_range_add(struct vcu_range_set *set, uint64_t start, uint64_t size, void *data);
/* Removes the range that starts exactly there; *out gets it. False when there is none. */
bool vcu_range_remove(struct vcu_range_set *set, uint64_t start, struct vcu_range *out);
/* Removes one range that overlaps [start, start + size); false when there is none. */
bool vcu_range_remove_overlap(struct vcu_range_set *set, uint64_t start, uint64_t size,
                              struct vcu_range *out);
/* Called under the set's lock, so it must not call these functions. */
typedef bool vcu_range_fn(const struct vcu_range *range, void *arg);
/* Removes every range for which fn says true; fn may free the data. */
void vcu_range_remove_if(struct vcu_range_set *set, vcu_range_fn *fn, void *arg);
/* The range that contains addr; false when there is none. What `data` points at may be freed by
 * another thread at once: who reads it does so in vcu_range_look(). */
bool vcu_range_find(struct vcu_range_set *set, uint64_t addr, struct vcu_range *out);
/* What fn, which only reads, says of the range that contains addr; false when there is none. */
bool vcu_range_look(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg);
/* Removes the range that contains addr if fn says true; fn may change the data, or free it then.
 * False: there is none, or fn said so. */
bool vcu_range_edit(struct vcu_range_set *set, uint64_t addr, vcu_range_fn *fn, void *arg);

#endif
