/* SPDX-License-Identifier: MIT */
/*
 * What the generated worker code (vgp_worker.c) asks of the worker around it. Implemented by
 * host/backend/worker, or by a test.
 */
#ifndef VGP_WORKER_RT_H
#define VGP_WORKER_RT_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>
#include <cudaProfiler.h>

#include "vgp_ring.h"

struct wrk_worker;

/* One call being dispatched. Everything here is private memory of the worker. */
struct wrk_call {
    struct wrk_worker *w;
    const struct vgp_record *rec; /* copy of the record's header */
    const uint8_t *args;          /* copy of what followed it, 16-byte aligned, zero-padded to 16 */
    uint32_t args_size;           /* rec->size - sizeof(struct vgp_record) */
    bool malformed; /* the record broke the protocol: the client dies; why is in malformed_text */
    char malformed_text[160];
    bool has_stream; /* the handler has looked this one up, as the last one */
    bool told;       /* it names an object that could not be made, of which the guest has heard */
    uint64_t builds; /* the graph that it makes or changes without a reply, 0: none */
    uint32_t makes_type;
    uint64_t makes; /* the handle that it puts an object behind, 0: none */
    CUstream stream;
    bool deferred; /* a custom handler has taken over the reply: wrk_reply_deferred() will send it */
    uint32_t reply_size;
    uint8_t reply[VGP_REPLY_SLOT_SIZE - sizeof(struct vgp_reply)] __attribute__((aligned(16)));
};

typedef CUresult (*vgp_handler)(struct wrk_call *c);

/* A dispatch row. The dispatcher has checked nothing but the record header. */
#define VGP_F_CONTEXT (1u << 0) /* the record's context must be made current first */
#define VGP_F_ASYNC (1u << 1)   /* no reply, or one without payload where the guest asks for it */
#define VGP_F_REPLY (1u << 2)   /* a reply slot is required (neither: flex) */
#define VGP_F_WAIT (1u << 3)    /* may be answered late */
#define VGP_F_FILLS \
    (1u << 4) /* puts work into the stream that wrk_handle_get() finds for it, or into the legacy one */
struct vgp_dispatch {
    const char *name;
    vgp_handler handler;
    uint32_t args_fixed; /* smallest args_size */
    uint32_t args_max;   /* largest args_size, before rounding to 16 */
    uint32_t flags;
    unsigned since; /* the minor version of the protocol that brought the call */
};
/* NULL for a number that no call has. Generated. */
const struct vgp_dispatch *vgp_dispatch_row(uint16_t call);

/* Marks the record as malformed (formatted reason) and returns CUDA_ERROR_INVALID_VALUE. */
CUresult wrk_malformed(struct wrk_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The provider does not export what the call needs: NOT_SUPPORTED, with a detail line. */
CUresult wrk_missing(struct wrk_call *c, const char *name);

/* Tells the guest why a call is refused (for the trace); returns r. */
CUresult wrk_refuse(struct wrk_call *c, CUresult r, const char *why);

/*
 * Handle table. get: 0 and *object, or INVALID_HANDLE (INVALID_CONTEXT for contexts) when the value
 * is stale, foreign or of another type; value 0 gives NULL when null_ok. Streams: 0 and 1 pass
 * through, 2 becomes the stream of (context, rec->thread).
 */
CUresult wrk_handle_get(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, bool null_ok,
                        void **object);
/* A function or a kernel: both are accepted wherever CUDA takes a CUfunction. */
CUresult wrk_func_get(struct wrk_call *c, uint64_t handle, CUfunction *func);
/* The provider's object of a handle whose entry is a record of the worker's; errors as wrk_handle_get,
 * of an allocation INVALID_VALUE. */
CUresult wrk_graph_object(struct wrk_call *c, uint64_t handle, CUgraph *object);
/* Also of a graph that can only be destroyed any more, as something that it names has ended. */
CUresult wrk_graph_object_any(struct wrk_call *c, uint64_t handle, CUgraph *object);
CUresult wrk_node_object(struct wrk_call *c, uint64_t handle, CUgraphNode *object);
CUresult wrk_green_object(struct wrk_call *c, uint64_t handle, CUgreenCtx *object);
CUresult wrk_allocation_object(struct wrk_call *c, uint64_t handle, CUmemGenericAllocationHandle *object);
/* The handle of an object of the provider, 0 when the client has none. */
uint64_t wrk_handle_of(struct wrk_worker *w, unsigned type, const void *object);
/* Before creating: the guest-minted value must be well formed and its slot free (else malformed). */
CUresult wrk_handle_reserve(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type);
/* After creating; cannot fail when reserve succeeded just before. */
void wrk_handle_put(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, void *object);
/* After a put: the object is part of the live object `parent`, and its handle ends with that one's. */
void wrk_handle_parent(struct wrk_call *c, uint64_t handle, uint64_t parent);
void wrk_handle_drop(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type);
/* A graph names the object, so that it is destroyed with the last one that does: the handle has been dropped. */
bool wrk_name_keep_long(struct wrk_call *c, uint64_t handle, unsigned type);

/* The handle that it is a part of, or 0. */
uint64_t wrk_handle_parent_of(struct wrk_call *c, uint64_t handle);
/* Is what this live handle stands for a part of something else, with which it ends? */
bool wrk_handle_is_part(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type);

/* Where the node of a call described with `node` is added, or which one is changed. */
struct wrk_graph;
struct wrk_gnode;
struct wrk_namer;
struct wrk_where {
    uint32_t op;             /* enum vgp_node_op; NAME and POST are ADD with `name` */
    struct wrk_graph *graph; /* ADD; and the provider's object */
    CUgraph in;
    struct wrk_gnode *target; /* SET, EXEC; and the provider's object */
    CUgraphNode at;
    CUgraphExec exec;             /* EXEC */
    struct wrk_namer *names;      /* who names what the node does; not CAPTURE */
    CUgraphNode *deps;            /* ADD */
    const CUgraphEdgeData *edges; /* of these dependencies; NULL: all are ordinary */
    uint32_t ndeps;
    uint64_t name; /* ADD: the new one's handle, where the guest has minted it; else 0 */
};
/* Looks up what op needs; to be ended with wrk_where_end in every case. */
CUresult wrk_where_get(struct wrk_call *c, struct wrk_where *w, uint32_t op, uint64_t graph, uint64_t target,
                       uint64_t exec, const uint64_t *dependencies, uint32_t n, const void *edges,
                       uint32_t edge_bytes);
void wrk_where_end(struct wrk_where *w);
/* The context of a node: 0 is the calling one. It is named, as everything that the node has. */
CUresult wrk_node_context(struct wrk_call *c, uint64_t handle, CUcontext *out);
/* How many dependencies to pass: none when they have edge data, which wrk_added() adds then. */
static inline size_t wrk_where_n(const struct wrk_where *w)
{
    return w->edges ? 0 : w->ndeps;
}
/* The provider has added a node (or r says why not): its handle. */
CUresult wrk_added(struct wrk_call *c, struct wrk_where *w, CUresult r, CUgraphNode node, uint64_t *handle);

/* A call of the provider that may take long or wait: made on a waiter thread, which replies. object: what it is
 * about, which does not end before. args: copied. */
typedef CUresult (*wrk_long_call)(const uint64_t *args);
CUresult wrk_long(struct wrk_call *c, wrk_long_call call, const void *object, const uint64_t args[3]);

/* Takes a blob sent ahead; freed after the handler has returned. Malformed when the id is unknown or
 * its size is not `size`. */
CUresult wrk_blob_take(struct wrk_call *c, uint32_t blob_id, uint64_t size, const void **data);

#endif
