/* SPDX-License-Identifier: MIT */
/* What the calls about nodes of one type have in common. */
#ifndef WRK_GNODE_H
#define WRK_GNODE_H

#include "graph.h"
#include "vgp_worker.h"

/* Where a node is added, or which one is changed. */
struct wrk_where {
    uint32_t op;              /* enum vgp_node_op */
    struct wrk_graph *graph;  /* ADD */
    struct wrk_gnode *target; /* SET, EXEC */
    CUgraphExec exec;         /* EXEC */
    struct wrk_namer *names;  /* who names what the node does; not CAPTURE */
    CUgraphNode *deps;        /* ADD; malloc'd */
    const CUgraphEdgeData *edges;
    uint32_t ndeps;
};

/* Looks up what op needs; to be ended with wrk_where_end in every case. */
CUresult wrk_where_get(struct wrk_call *c, struct wrk_where *w, uint32_t op, uint64_t graph,
                       uint64_t target, uint64_t exec, const uint64_t *dependencies, uint32_t n,
                       const void *edges, uint32_t edge_bytes);
#define WRK_WHERE(w)                                                                               \
    wrk_where_get(c, (w), a->op, a->graph, a->target, a->exec, dependencies,                       \
                  a->dependencies_len, edgeData, a->edgeData_len)
void wrk_where_end(struct wrk_where *w);
/* What to pass as dependencies: none when they have edge data, which wrk_added() adds then. */
static inline size_t wrk_where_n(const struct wrk_where *w)
{
    return w->edges ? 0 : w->ndeps;
}
/* The provider has added a node (or r says why not): its handle. */
CUresult wrk_added(struct wrk_call *c, struct wrk_where *w, CUresult r, CUgraphNode node,
                   uint64_t *handle);
/* A node that runs a host function of the guest: a plain one, or one for external semaphores. */
CUresult wrk_host_node(struct wrk_call *c, struct wrk_where *w, uint64_t cookie,
                       enum vgp_extsem_op semaphores, uint64_t *handle);
/* The context of a handle, NULL for 0. */
CUresult wrk_node_context(struct wrk_call *c, uint64_t handle, CUcontext *out);

#endif
