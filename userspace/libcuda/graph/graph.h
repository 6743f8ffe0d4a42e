/* SPDX-License-Identifier: MIT */
/*
 * Graphs in the guest. Handles of graphs and nodes are minted by the worker, which alone knows which
 * are live; those of executable graphs are minted here.
 */
#ifndef VCU_GRAPH_H
#define VCU_GRAPH_H

#include "../stream/stream.h"

#include "../../../protocol/vgp_guest_rt.h"

/* One function per type of node, for adding and changing; *node is the new one's handle. */
CUresult vcu_kernel_node(const char *call, const struct vgp_where *w, const CUDA_KERNEL_NODE_PARAMS *p,
                         uint64_t *node);
CUresult vcu_memset_node(const struct vgp_where *w, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx,
                         uint64_t *node);
CUresult vcu_host_node(const struct vgp_where *w, const CUDA_HOST_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_event_node(const struct vgp_where *w, CUevent event, bool wait, uint64_t *node);
CUresult vcu_batch_node(const char *call, const struct vgp_where *w, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p,
                        uint64_t *node);
CUresult vcu_child_node(const struct vgp_where *w, CUgraph child, uint64_t *node);
CUresult vcu_any_node(const char *call, const struct vgp_where *w, CUgraphNodeParams *p, uint64_t *node);
CUresult vcu_move_node(const struct vgp_where *w, CUgraph child, uint64_t *node);
/* op: 0 get, 1 set, 2 copy all of `source`. */
CUresult vcu_kernel_attribute(CUgraphNode node, CUgraphNode source, uint32_t op, uint32_t id,
                              const void *value, void *result);
/* semaphore_node.c */
CUresult vcu_extsem_signal_node(const char *call, const struct vgp_where *w,
                                const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_extsem_wait_node(const char *call, const struct vgp_where *w,
                              const CUDA_EXT_SEM_WAIT_NODE_PARAMS *p, uint64_t *node);
/* memory_node.c */
CUresult vcu_alloc_node(const struct vgp_where *w, CUDA_MEM_ALLOC_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_free_node(const struct vgp_where *w, CUdeviceptr dptr, uint64_t *node);
CUresult vcu_condition_node(const struct vgp_where *w, CUDA_CONDITIONAL_NODE_PARAMS *p, uint64_t *node);
/* Have its launches to be answered, because they may be refused? */
bool vcu_graph_has_memory(CUgraph graph);
/* copy_node.c */
CUresult vcu_copy_node(const char *call, const struct vgp_where *w, const CUDA_MEMCPY3D *p, CUcontext ctx,
                       uint64_t *node);

/* What was handed out about a node and lives as long as it: replaces what was kept; takes over. */
bool vcu_node_keep(CUgraphNode node, CUgraph graph, void *storage);
void vcu_node_forget(CUgraphNode node);
void vcu_node_forget_graph(CUgraph graph);

/* Executable graphs of a context go with it; copies of pageable memory are captured. */
extern const struct vcu_unit_ops vcu_graph_unit, vcu_copy_node_unit;

#endif
