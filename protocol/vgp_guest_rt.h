/* SPDX-License-Identifier: MIT */
/*
 * What the generated guest code (vgp_guest.c, vgp_entry.c, vgp_unsupported.c, vgp_procaddr.c) asks
 * of the library around it. Implemented by userspace/libcuda, or by a test.
 */
#ifndef VGP_GUEST_RT_H
#define VGP_GUEST_RT_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaProfiler.h>

#include "vgp_ring.h"

/* One call on its way: stack-allocated by the generated code, filled by vgp_submit_begin(). */
struct vgp_submit {
    void *args;       /* where the arguments go, `bytes` long; the first 512 bytes and the padding up
                       * to a multiple of 16 are zeroed */
    uint64_t priv[8]; /* the ring client's own */
};

/* A record that fills this stream is about to be sent; may wait until there is room again. */
void vgp_stream_count(uint64_t stream);
/*
 * Reserves a record for `bytes` of arguments (at most VGP_RECORD_MAX less the header) and, when
 * want_reply, a reply slot; sleeps while the ring or the slots are full. Between begin and
 * publish/async/wait no other call may be begun by the same thread. Returns 0, or the CUresult that
 * the CUDA call must return (NOT_INITIALIZED, DEINITIALIZED, the sticky error, ...); then nothing
 * is held.
 */
CUresult vgp_submit_begin(struct vgp_submit *s, uint16_t call, uint32_t bytes, bool want_reply);
/*
 * A fill of `height` rows of `width` elements of `element` bytes, `pitch` bytes apart, is about to be sent; of its stream,
 * `stream`, where the call has one (`streamed`), else of the legacy stream. True: nothing about it can fail that is known here
 * too, and the worker (version 1.`since` or later) takes it without a reply. Before vgp_stream_count().
 */
bool vgp_submit_silent(uint32_t since, uint64_t dst, uint64_t pitch, uint64_t width, uint64_t height,
                       uint32_t element, bool streamed, uint64_t stream);
/* Publishes a record without reply and ends the submission. */
CUresult vgp_submit_async(struct vgp_submit *s);
/* Publishes a record with a reply and returns at once; several may be outstanding per thread. */
CUresult vgp_submit_publish(struct vgp_submit *s);
/* Waits for the reply of a published record. *payload (aligned to 8, private or stable until
 * vgp_submit_end) holds *size bytes. Returns the reply's CUresult or how the client died. */
CUresult vgp_submit_collect(struct vgp_submit *s, const void **payload, uint32_t *size);
/* Gives the reply slot back. Needed after every publish or collect, also a failed one (harmless when
 * nothing is held). */
void vgp_submit_end(struct vgp_submit *s);

/* Sends data larger than one record ahead of the call that uses it; *blob_id is then part of that
 * call, which consumes it. At most VGP_BLOB_MAX bytes. */
CUresult vgp_blob_send(const void *data, uint64_t size, uint32_t *blob_id);

/* Ordinals of devices: the application's (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER) as they are sent, and the
 * host's as they are shown. One that the application does not have is sent as one that the host does not have;
 * one that it must not see is shown as CU_DEVICE_INVALID. Negative ordinals stay what they are. */
int32_t vgp_device_sent(int32_t device);
int32_t vgp_device_got(int32_t device);
/* The same for the id of a CUmemLocation: only one of type CU_MEM_LOCATION_TYPE_DEVICE is an ordinal. */
static inline int32_t vgp_location_sent(uint32_t type, int32_t id)
{
    return type == CU_MEM_LOCATION_TYPE_DEVICE ? vgp_device_sent(id) : id;
}
static inline int32_t vgp_location_got(uint32_t type, int32_t id)
{
    return type == CU_MEM_LOCATION_TYPE_DEVICE ? vgp_device_got(id) : id;
}

/* Handles. The application sees the wire value. mint returns 0 when VGP_HANDLE_INDEX_MAX are live. */
uint64_t vgp_handle_mint(enum vgp_handle_type type);
bool vgp_handle_live(uint64_t handle, enum vgp_handle_type type);
void vgp_handle_drop(uint64_t handle);

/* Entry-point prologue: 0, or NOT_INITIALIZED / DEINITIALIZED / the fork rule's answer. */
CUresult vcu_check_init(void);
/* The same, then INVALID_CONTEXT when the calling thread has no current context. */
CUresult vcu_check_context(void);

/* r, after `why` was told to the trace and to the log, where it is an error and there is a reason. */
CUresult vcu_refuse(const char *call, CUresult r, const char *why);

/* Could this be the handle of a graph, or of a node? The worker knows whether it is. */
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

/* The short number of a graph, an executable graph or a node, by its handle. */
static inline unsigned vcu_graph_number(const void *handle)
{
    uint64_t h = (uintptr_t)handle;

    return VGP_HANDLE_INDEX(h) | VGP_HANDLE_GEN(h) << 20;
}

/* Where a node is added, or which one is changed: the first parameters of the calls described with `node`. */
struct vgp_where {
    uint32_t op; /* enum vgp_node_op */
    CUgraph graph;
    CUgraphNode target;
    CUgraphExec exec;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges;
    size_t ndeps;
};
#define VGP_WHERE(w) \
    (w)->op, (w)->graph, (w)->target, (w)->exec, (w)->deps, (uint32_t)(w)->ndeps, (w)->edges, \
        (w)->edges == NULL ? 0 : (uint32_t)((w)->ndeps * sizeof(CUgraphEdgeData))
static inline bool vgp_where_adds(const struct vgp_where *w)
{
    return w->op == VGP_NODE_ADD || w->op >= VGP_NODE_NAME;
}
/* The checks of every addition and change, in the driver's order; they fill *w. */
CUresult vcu_where_add(const char *call, CUgraphNode *out, struct vgp_where *w, CUgraph graph,
                       const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n);
/* For nodes that say nothing a provider could refuse (empty nodes, host functions): the operation becomes VGP_NODE_POST where its addition is sure to succeed. */
CUresult vcu_where_post(struct vgp_where *w);
/* What became of the addition: the new node's handle, or the one minted for it is given back. Returns r. */
CUresult vcu_where_added(const struct vgp_where *w, CUresult r, uint64_t *node);
CUresult vcu_where_set(struct vgp_where *w, CUgraphNode node);
CUresult vcu_where_exec(struct vgp_where *w, CUgraphExec exec, CUgraphNode node);

/* What does not change of a context, and what questions about it answer. */
struct vcu_context_facts {
    CUdevice device;
    unsigned flags, api_version;
    unsigned long long id;
    bool live; /* created, or retained */
};
/* A side of a copy of one row: vcu_copy_row(). */
enum vcu_row { VCU_ROW_HOST, VCU_ROW_DEVICE, VCU_ROW_ARRAY };

/* Where the latest call of this thread that is described with `caller` returns to. */
extern __thread const void *vcu_caller;

/* Non-zero while a per-thread variant (_ptsz/_ptds) runs: stream 0 means the calling thread's own stream. */
extern __thread int vcu_per_thread;
static inline CUstream vcu_stream(CUstream s)
{
    return s == NULL && vcu_per_thread ? CU_STREAM_PER_THREAD : s;
}
/* Green contexts of this process that were made and not destroyed. */
extern _Atomic uint32_t vcu_greens;
/* While there are any: a special value, and what a green context does not have. */
bool vcu_standard_stream_ok(CUstream s);
/* The special values 0, 1, 2 or a live stream handle. */
static inline bool vcu_stream_ok(CUstream s)
{
    if ((uintptr_t)s > 2)
        return vgp_handle_live((uintptr_t)s, VGP_H_STREAM);
    return __builtin_expect(vcu_greens == 0, 1) || vcu_standard_stream_ok(s);
}
/* Why it is not ok: INVALID_HANDLE, or CONTEXT_IS_DESTROYED for a stream of a destroyed green context. */
CUresult vcu_stream_error(CUstream s);
static inline CUresult vcu_check_stream(CUstream s)
{
    s = vcu_stream(s);
    return vcu_stream_ok(s) ? CUDA_SUCCESS : vcu_stream_error(s);
}
/* Whether it is a special value or a stream of the current context: work that is queued needs that, and must not be found
 * out by the worker only, whose answer comes behind the call. */
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

/* Tracing. lnk_trace_on: one load and a predictable branch per call when it is off. */
extern int lnk_trace_on;
uint64_t lnk_trace_now(void); /* CLOCK_MONOTONIC, ns */
void vcu_trace_call(const char *name, CUresult r, uint64_t t0, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* An entry point has failed: its line in the error log (cuLogs*). */
void vcu_logs_failure(const char *name, CUresult r);
/* A refused call: once per name on the trace, whatever the trace level. */
void lnk_trace_refusal(const char *name, const char *why);

/* A row of the cuGetProcAddress table (generated, vgp_procaddr.c): sorted by name, then version. */
struct vgp_proc {
    const char *name;    /* without version suffix, as cuGetProcAddress takes it */
    int version;         /* CUDA version of this variant, e.g. 12000 */
    void *fn;            /* the export */
    void *fn_per_thread; /* its per-thread variant (_ptsz/_ptds), or NULL */
    const char *symbol;  /* the exported name of fn */
    bool supported;      /* false: fn refuses */
};
extern const struct vgp_proc vgp_procs[];
extern const unsigned vgp_proc_count;

#endif
