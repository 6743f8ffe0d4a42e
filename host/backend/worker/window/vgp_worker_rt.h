/* SPDX-License-Identifier: MIT */
/* What generated decoders (vgp_worker.c) call whatever the description says: included by vgp_worker.h,
 * which is generated. The protocol's tests have functions of these names that do nothing. */
#ifndef VGP_WORKER_RT_H
#define VGP_WORKER_RT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cuda.h>
#include <cudaProfiler.h>

#include "vgb_holds.h"
#include "vgp_ring.h"

struct wrk_worker;

/* A call being dispatched. All fields point to private memory of the worker. */
struct wrk_call {
    VGB_LENT struct wrk_worker *w;
    VGB_LENT const struct vgp_record *rec; /* copy of the record's header */
    const uint8_t *args;                   /* copy of the arguments, 16-byte aligned, zero-padded to 16 */
    uint32_t args_size;                    /* rec->size - sizeof(struct vgp_record) */
    /* the record violates the protocol, as described in malformed_text: the client dies */
    bool malformed;
    char malformed_text[160];
    bool has_stream; /* `stream` is the stream the handler looked up last */
    bool told;       /* it uses an object whose creation failed, as the guest was told */
    uint64_t builds; /* graph created or changed without a reply, 0: none */
    uint32_t makes_type;
    uint64_t makes; /* handle of the object the call creates, 0: none */
    CUstream stream;
    /*
     * Contexts of the looked-up objects, other than the context of the call: provider object and
     * the underlying one, NULL: none. `many`: more than one.
     */
    CUcontext other[2];
    bool many;
    /* a custom handler has taken over the reply, to be sent by wrk_reply_deferred() */
    bool deferred;
    uint32_t reply_size;
    uint8_t reply[VGP_REPLY_SLOT_SIZE - sizeof(struct vgp_reply)] __attribute__((aligned(16)));
};

typedef CUresult (*vgp_handler)(struct wrk_call *c);

/* A dispatch row. The dispatcher has checked nothing but the record header. */
#define VGP_F_CONTEXT (1u << 0) /* the record's context is made current first */
/* no reply, or a reply without payload if the guest requests it */
#define VGP_F_ASYNC (1u << 1)
#define VGP_F_REPLY (1u << 2) /* a reply slot is required (neither: flex) */
#define VGP_F_WAIT (1u << 3)  /* may be answered later */
/* puts work into the stream found by wrk_handle_get(), or into the legacy stream */
#define VGP_F_FILLS (1u << 4)
struct vgp_dispatch {
    const char *name;
    vgp_handler handler;
    uint32_t args_fixed; /* minimum args_size */
    uint32_t args_max;   /* maximum args_size, before rounding to 16 */
    uint32_t flags;
    unsigned since; /* minor protocol version that introduced the call */
};
/* NULL for an unassigned number. Generated. */
const struct vgp_dispatch *vgp_dispatch_row(uint16_t call);

/* Marks the record as malformed (formatted reason) and returns CUDA_ERROR_INVALID_VALUE. */
CUresult wrk_malformed(struct wrk_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The provider lacks a function needed by the call: NOT_SUPPORTED, with a detail line. */
CUresult wrk_missing(struct wrk_call *c, const char *name);

/* Tells the guest the reason for refusing a call (for the trace); returns r. */
CUresult wrk_refuse(struct wrk_call *c, CUresult r, const char *why);

/*
 * Handle table. get: 0 and *object, or INVALID_HANDLE (INVALID_CONTEXT for contexts) when the value
 * is stale, foreign or of another type; value 0 gives NULL when null_ok. Streams: 0 and 1 pass
 * through, 2 becomes the stream of (context, rec->thread).
 */
CUresult wrk_handle_get(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, bool null_ok,
                        void **object);
/* A pointer variable of a step, freed when the call ends. */
#define WRK_FREED __attribute__((cleanup(wrk_free_at)))
static inline void wrk_free_at(void *at)
{
    free(*(void **)at);
}

/* Result of a look-up, where CUDA has another code than INVALID_HANDLE. */
static inline CUresult wrk_handle_error(CUresult r, CUresult invalid)
{
    return r == CUDA_ERROR_INVALID_HANDLE ? invalid : r;
}
/* Looks up a function or a kernel: both are valid wherever CUDA takes a CUfunction. */
CUresult wrk_func_get(struct wrk_call *c, uint64_t handle, CUfunction *func);
/* Provider object of a handle whose entry is a record of the worker; errors as for wrk_handle_get,
 * INVALID_VALUE for an allocation. */
CUresult wrk_graph_object(struct wrk_call *c, uint64_t handle, CUgraph *object);
/* The same, also for a graph that can only be destroyed because an object it names has ended. */
CUresult wrk_graph_object_any(struct wrk_call *c, uint64_t handle, CUgraph *object);
CUresult wrk_node_object(struct wrk_call *c, uint64_t handle, CUgraphNode *object);
CUresult wrk_green_object(struct wrk_call *c, uint64_t handle, CUgreenCtx *object);
CUresult wrk_allocation_object(struct wrk_call *c, uint64_t handle, CUmemGenericAllocationHandle *object);
/* Handle of a provider object, 0 if the client has none. */
uint64_t wrk_handle_of(struct wrk_worker *w, unsigned type, const void *object);
/*
 * Before creating: the guest-minted value must be well formed and its slot free (else malformed).
 */
CUresult wrk_handle_reserve(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type);
/* After creating; cannot fail when reserve succeeded just before. */
void wrk_handle_put(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, void *object);
/* After a put: makes the object a part of the live object `parent`; its handle ends with the
 * parent's. */
void wrk_handle_parent(struct wrk_call *c, uint64_t handle, uint64_t parent);
void wrk_handle_drop(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type);
/* True if a graph names the object: the handle is dropped, and the object is destroyed with the
 * last such graph. */
bool wrk_name_keep_long(struct wrk_call *c, uint64_t handle, unsigned type);

/* Parent handle, or 0. */
uint64_t wrk_handle_parent_of(struct wrk_call *c, uint64_t handle);
/* True if the object of this live handle is a part of another object and ends with it. */
bool wrk_handle_is_part(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type);

/* Position of the node that a call described with `node` adds, or the node it changes. */
struct wrk_graph;
struct wrk_gnode;
struct wrk_namer;
struct wrk_where {
    uint32_t op;                      /* enum vgp_node_op; NAME and POST are ADD with `name` */
    VGB_LENT struct wrk_graph *graph; /* ADD; with its provider object */
    CUgraph in;
    VGB_LENT struct wrk_gnode *target; /* SET, EXEC; with its provider object */
    CUgraphNode at;
    CUgraphExec exec;                 /* EXEC */
    VGB_LENT struct wrk_namer *names; /* namer of the objects that the node uses; not for CAPTURE */
    CUgraphNode *deps;                /* ADD */
    const CUgraphEdgeData *edges;     /* edge data of the dependencies; NULL: all ordinary */
    uint32_t ndeps;
    uint64_t name; /* ADD: the new node's guest-minted handle, else 0 */
};
/* Looks up the objects needed by op; wrk_where_end() is required in every case. */
CUresult wrk_where_get(struct wrk_call *c, struct wrk_where *w, uint32_t op, uint64_t graph, uint64_t target,
                       uint64_t exec, const uint64_t *dependencies, uint32_t n, const void *edges,
                       uint32_t edge_bytes);
void wrk_where_end(struct wrk_where *w);
/* Context of a node; 0: the calling context. The context is named like all objects of the node. */
CUresult wrk_node_context(struct wrk_call *c, uint64_t handle, CUcontext *out);
/* Number of dependencies to pass to the provider: none if they have edge data, as wrk_added() then
 * adds them. */
static inline size_t wrk_where_n(const struct wrk_where *w)
{
    return w->edges ? 0 : w->ndeps;
}
/* Completes the addition of a node with result r and returns its handle. */
CUresult wrk_added(struct wrk_call *c, struct wrk_where *w, CUresult r, CUgraphNode node, uint64_t *handle);

/* A provider call that may take long or block: runs on a waiter thread, which replies. object: the
 * object in use, kept until the call ends. args: copied. */
typedef CUresult (*wrk_long_call)(const uint64_t *args);
CUresult wrk_long(struct wrk_call *c, wrk_long_call call, const void *object, const uint64_t args[3]);

/* Takes a blob sent ahead; freed after the handler returns. Malformed if the id is unknown or the
 * blob's size is not `size`. */
CUresult wrk_blob_take(struct wrk_call *c, uint32_t blob_id, uint64_t size, const void **data);

#endif
