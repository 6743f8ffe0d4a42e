/* SPDX-License-Identifier: MIT */
/* What the calls about nodes of one type have in common. */
#ifndef VGB_GNODE_H
#define VGB_GNODE_H

#include "graph.h"
#include "vgp_worker.h"

/* Where a node is added, or which one is changed. */
struct vgb_where {
    uint32_t op;              /* enum vgp_node_op */
    struct vgb_graph *graph;  /* ADD */
    struct vgb_gnode *target; /* SET, EXEC */
    CUgraphExec exec;         /* EXEC */
    CUgraphNode *deps;        /* ADD; malloc'd */
    const CUgraphEdgeData *edges;
    uint32_t ndeps;
};

/* Looks up what op needs; to be ended with vgb_where_end in every case. */
CUresult vgb_where_get(struct vgb_call *c, struct vgb_where *w, uint32_t op, uint64_t graph,
                       uint64_t target, uint64_t exec, const uint64_t *dependencies, uint32_t n,
                       const void *edges, uint32_t edge_bytes);
#define VGB_WHERE(w)                                                                               \
    vgb_where_get(c, (w), a->op, a->graph, a->target, a->exec, dependencies,                       \
                  a->dependencies_len, edgeData, a->edgeData_len)
void vgb_where_end(struct vgb_where *w);
/* What to pass as dependencies: none when they have edge data, which vgb_added() adds then. */
static inline size_t vgb_where_n(const struct vgb_where *w)
{
    return w->edges ? 0 : w->ndeps;
}
/* The provider has added a node (or r says why not): its handle. */
CUresult vgb_added(struct vgb_call *c, struct vgb_where *w, CUresult r, CUgraphNode node,
                   uint64_t *handle);
/* A node that runs a host function of the guest: a plain one, or one for external semaphores. */
CUresult vgb_host_node(struct vgb_call *c, struct vgb_where *w, uint64_t cookie,
                       enum vgp_extsem_op semaphores, uint64_t *handle);
/* The context of a handle, NULL for 0. */
CUresult vgb_node_context(struct vgb_call *c, uint64_t handle, CUcontext *out);
/* The handle of an object of the provider, 0 when the client has none. */
uint64_t vgb_handle_of(struct vgb_worker *w, unsigned type, const void *object);

#endif
