/* SPDX-License-Identifier: MIT */
/*
 * Graphs in the guest. Handles of graphs and nodes are minted by the worker, which alone knows which
 * are live; those of executable graphs are minted here.
 */
#ifndef VCU_GRAPH_H
#define VCU_GRAPH_H

#include "../stream/stream.h"

#include "../../../protocol/vgp_guest_rt.h"

/* Could this be the handle of a node? The worker knows whether it is. */
static inline bool vcu_node_ok(CUgraphNode n)
{
    return VGP_HANDLE_TYPE((uintptr_t)n) == VGP_H_GRAPH_NODE;
}
static inline bool vcu_exec_ok(CUgraphExec x)
{
    return vgp_handle_live((uintptr_t)x, VGP_H_GRAPH_EXEC);
}

/* Where a node is added, or which one is changed: the first parameters of the calls about nodes. */
struct vcu_where {
    uint32_t op; /* enum vgp_node_op */
    CUgraph graph;
    CUgraphNode target;
    CUgraphExec exec;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges;
    size_t ndeps;
};
#define VCU_WHERE(w)                                                                               \
    (w)->op, (w)->graph, (w)->target, (w)->exec, (w)->deps, (uint32_t)(w)->ndeps, (w)->edges,     \
        (w)->edges == NULL ? 0 : (uint32_t)((w)->ndeps * sizeof(CUgraphEdgeData))
/* The checks of every addition, in the driver's order. */
CUresult vcu_where_add(const char *call, CUgraphNode *out, struct vcu_where *w, CUgraph graph,
                       const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n);
CUresult vcu_where_set(struct vcu_where *w, CUgraphNode node);
CUresult vcu_where_exec(struct vcu_where *w, CUgraphExec exec, CUgraphNode node);

/* One function per type of node, for adding and changing; *node is the new one's handle. */
CUresult vcu_kernel_node(const char *call, const struct vcu_where *w,
                         const CUDA_KERNEL_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_memset_node(const struct vcu_where *w, const CUDA_MEMSET_NODE_PARAMS *p,
                         CUcontext ctx, uint64_t *node);
CUresult vcu_host_node(const struct vcu_where *w, const CUDA_HOST_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_event_node(const struct vcu_where *w, CUevent event, bool wait, uint64_t *node);
CUresult vcu_batch_node(const char *call, const struct vcu_where *w,
                        const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_child_node(const struct vcu_where *w, CUgraph child, uint64_t *node);
CUresult vcu_move_node(const struct vcu_where *w, CUgraph child, uint64_t *node);
/* semaphore_node.c */
CUresult vcu_extsem_signal_node(const char *call, const struct vcu_where *w,
                                const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_extsem_wait_node(const char *call, const struct vcu_where *w,
                              const CUDA_EXT_SEM_WAIT_NODE_PARAMS *p, uint64_t *node);
/* memory_node.c */
CUresult vcu_alloc_node(const struct vcu_where *w, CUDA_MEM_ALLOC_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_free_node(const struct vcu_where *w, CUdeviceptr dptr, uint64_t *node);
CUresult vcu_condition_node(const struct vcu_where *w, CUDA_CONDITIONAL_NODE_PARAMS *p,
                            uint64_t *node);
/* Have its launches to be answered, because they may be refused? */
bool vcu_graph_has_memory(CUgraph graph);
/* copy_node.c */
CUresult vcu_copy_node(const char *call, const struct vcu_where *w, const CUDA_MEMCPY3D *p,
                       CUcontext ctx, uint64_t *node);

/* What was handed out about a node and lives as long as it: replaces what was kept; takes over. */
bool vcu_node_keep(CUgraphNode node, CUgraph graph, void *storage);
void vcu_node_forget(CUgraphNode node);
void vcu_node_forget_graph(CUgraph graph);

/* Executable graphs of a context go with it; copies of pageable memory are captured. */
extern const struct vcu_unit_ops vcu_graph_unit, vcu_copy_node_unit;

#endif
