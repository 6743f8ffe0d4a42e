/* SPDX-License-Identifier: MIT */
/*
 * Graphs in the guest. Handles of graphs and nodes are minted by the worker, which alone knows which
 * are live, but for graphs that the program builds call by call (build.c); those of executable graphs are minted here.
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
CUresult vcu_batch_node(const struct vgp_where *w, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, uint64_t *node);
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
/* node.c: will the provider accept a node of that context, and that it fills, reads or writes these bytes? Not sure is
 * what vcu_memory_is_private() excludes, and memory of another device than the context's. */
#define VCU_PITCH_SURE ((uint64_t)INT32_MAX) /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
bool vcu_node_context_sure(CUcontext ctx);
bool vcu_node_memory_sure(CUcontext ctx, uint64_t addr, uint64_t n);
/* copy_node.c */
CUresult vcu_copy_node(const char *call, const struct vgp_where *w, const CUDA_MEMCPY3D *p, CUcontext ctx,
                       uint64_t *node);

/*
 * build.c. A graph that the program creates and builds call by call is known here: its nodes, what they depend on. Its
 * handle and those of its nodes are minted here, and what cannot fail but for want of memory on the host needs no reply. If
 * it does fail the worker names call and error on the trace, and every later call about the graph fails with that error,
 * cuGraphInstantiate at the latest. Graphs of captures, clones and children are not known: each call about them is answered.
 * A worker older than 1.8, a recording, or VGPU_POST_NODES=0: all are.
 */

/* As the unit's `connected`: reads VGPU_POST_NODES. */
CUresult vcu_build_init(void);
/* May new graphs and nodes be named here at all? */
bool vcu_build_may_name(void);
/* The graph of that name is being created; NULL: none. */
void vcu_build_begun(CUgraph graph);
/* Makes w name the node that is about to be added (VGP_NODE_NAME), where the graph is known. */
void vcu_build_name(struct vgp_where *w);
/*
 * For a node of a type on which nothing else in its graph depends: does its addition need no reply (VGP_NODE_POST)?
 * sure: it cannot fail because of what the node is. Then the answer depends on its graph, on its dependencies, and on captures.
 */
bool vcu_build_post(const struct vgp_where *w, bool sure);
/* The same of a node that is a copy of the child graph, as the program has built that. */
bool vcu_build_post_child(const struct vgp_where *w, CUgraph child);
/* The program gets the handle of the graph of a node. */
void vcu_build_shown(CUgraphNode node);
/* Captures add nodes to the graph, or it has conditions: what its calls may do is the provider's to say from now on. */
void vcu_build_special(CUgraph graph);
/* The same where a node of the graph has become such that it may not be destroyed or copied. */
void vcu_build_special_node(CUgraphNode node);
/* Are the edges new, and sure to be added? If so, they count as added. */
bool vcu_build_post_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n);
/* The worker has been asked to change edges; all_added: and has added these. */
void vcu_build_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool all_added);
/* Is the node sure to be destroyed? */
bool vcu_build_post_end(CUgraphNode node);
/* The graph has become a part of another one's node. */
void vcu_build_moved(CUgraph child, CUgraph graph, CUgraphNode node);
/* Destroyed. */
void vcu_build_node_gone(CUgraphNode node);
void vcu_build_graph_gone(CUgraph graph);
/* A graph may name what is ending: then the worker refuses to change it, and has to say so. */
void vcu_build_doubt(void);

/* What was handed out about a node and lives as long as it: replaces what was kept; takes over. */
bool vcu_node_keep(CUgraphNode node, CUgraph graph, void *storage);
void vcu_node_forget(CUgraphNode node);
void vcu_node_forget_graph(CUgraph graph);

/* Executable graphs of a context go with it; copies of pageable memory are captured. */
extern const struct vcu_unit_ops vcu_graph_unit, vcu_copy_node_unit;

#endif
