/* SPDX-License-Identifier: MIT */
/*
 * Graphs in the guest. The worker, which alone knows the live ones, mints the handles of graphs and
 * nodes, except for graphs that the program builds call by call (vcu_build.c); the guest mints those
 * and the handles of executable graphs.
 */
#ifndef VCU_GRAPH_H
#define VCU_GRAPH_H

#include "../stream/stream.h"

#include "../../../protocol/vgp_guest_rt.h"

/* Checks common to all additions and changes of nodes, in the driver's order; fill *w. */
CUresult vcu_where_add(const char *call, CUgraphNode *out, struct vgp_where *w, CUgraph graph,
                       const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n);
CUresult vcu_where_set(struct vgp_where *w, CUgraphNode node);
CUresult vcu_where_exec(struct vgp_where *w, CUgraphExec exec, CUgraphNode node);
/* For nodes with no parameters that a provider could refuse (empty nodes, host functions): makes
 * the operation VGP_NODE_POST if the addition is certain to succeed. */
CUresult vcu_where_post(struct vgp_where *w);
/* Completes an addition: stores the new node's handle, or releases the handle minted for it.
 * Returns r. */
CUresult vcu_where_added(const struct vgp_where *w, CUresult r, uint64_t *node);

/* One function per node type, for adding and changing; *node is the handle of the new node. */
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
/* vcu_semaphore_node.c */
CUresult vcu_extsem_signal_node(const char *call, const struct vgp_where *w,
                                const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_extsem_wait_node(const char *call, const struct vgp_where *w,
                              const CUDA_EXT_SEM_WAIT_NODE_PARAMS *p, uint64_t *node);
/* vcu_memory_node.c */
CUresult vcu_alloc_node(const struct vgp_where *w, CUDA_MEM_ALLOC_NODE_PARAMS *p, uint64_t *node);
CUresult vcu_free_node(const struct vgp_where *w, CUdeviceptr dptr, uint64_t *node);
CUresult vcu_condition_node(const struct vgp_where *w, CUDA_CONDITIONAL_NODE_PARAMS *p, uint64_t *node);
/* True if its launches need a reply, because they may be refused. */
bool vcu_graph_has_memory(CUgraph graph);
/* vcu_node_sure.c: true if the provider is sure to accept a node of that context that fills, reads or
 * writes these bytes. Not sure: memory excluded by vcu_memory_is_private(), and memory of another
 * device than the context's. */
#define VCU_PITCH_SURE ((uint64_t)INT32_MAX) /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
bool vcu_node_context_sure(CUcontext ctx);
/* The context of a copy or memset node; NULL stands for the current one where a node is added (driver 580). */
CUcontext vcu_node_context(const struct vgp_where *w, CUcontext ctx);
bool vcu_node_memory_sure(CUcontext ctx, uint64_t addr, uint64_t n);
/* vcu_copy_node.c */
CUresult vcu_copy_node(const char *call, const struct vgp_where *w, const CUDA_MEMCPY3D *p, CUcontext ctx,
                       uint64_t *node);

/*
 * vcu_build.c. For a graph that the program creates and builds call by call, the guest tracks the nodes
 * and their dependencies. It mints the handles of the graph and its nodes, and calls that can fail
 * only for lack of memory on the host need no reply. If such a call does fail, the worker names
 * call and error on the trace, and every later call about the graph fails with that error,
 * cuGraphInstantiate at the latest. Graphs of captures, clones and children are not tracked: each
 * call about them has a reply. With a worker older than 1.8, a recording, or VGPU_POST_NODES=0,
 * every call has a reply.
 */

/* As the unit's `connected`: reads VGPU_POST_NODES. */
CUresult vcu_build_init(void);
/* True if the guest may name new graphs and nodes. */
bool vcu_build_may_name(void);
/* Starts tracking the graph of that handle, which is being created; NULL: not tracked. */
void vcu_build_begun(CUgraph graph);
/* Makes w name the node that is about to be added (VGP_NODE_NAME), where the graph is tracked. */
void vcu_build_name(struct vgp_where *w);
/*
 * For a node of a type on which no other state of its graph depends: true if its addition needs no
 * reply (VGP_NODE_POST). sure: the node's own properties cannot make it fail; the answer then
 * depends on its graph, its dependencies, and captures.
 */
bool vcu_build_post(const struct vgp_where *w, bool sure);
/* Same for a node that copies the child graph in its present state. */
bool vcu_build_post_child(const struct vgp_where *w, CUgraph child);
/* Notes that the program got the condition for nodes of the graph. */
void vcu_build_condition(CUgraph graph, uint64_t condition, CUcontext ctx);
/* Notes that the node which is about to be added tests the condition, and mints the handles of its
 * graphs. False: the worker mints them, as it does for bodies NULL. */
bool vcu_build_bodies(const struct vgp_where *w, uint64_t condition, CUgraph *bodies, uint32_t size);
/* As vcu_build_post(), for a conditional node that is valid by itself, after vcu_build_bodies(). */
bool vcu_build_post_condition(const struct vgp_where *w, CUcontext ctx);
/* Notes that the program gets the handle of the graph of a node. */
void vcu_build_shown(CUgraphNode node);
/* Notes that captures add nodes to the graph, or that it has conditions: from now on the provider
 * checks its calls. */
void vcu_build_special(CUgraph graph);
/* Same where a node of the graph may no longer be destroyed or copied. */
void vcu_build_special_node(CUgraphNode node);
/* True if the edges are new and sure to be added; they then count as added. */
bool vcu_build_post_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n);
/* Notes that the worker was asked to change edges; all_added: it has added these. */
void vcu_build_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool all_added);
/* True if the node is sure to be destroyed. */
bool vcu_build_post_end(CUgraphNode node);
/* Notes that the graph has become part of a node of another graph. */
void vcu_build_moved(CUgraph child, CUgraph graph, CUgraphNode node);
/* Destroyed. */
void vcu_build_node_gone(CUgraphNode node);
void vcu_build_graph_gone(CUgraph graph);
/* Notes that an ending object may be named by a graph: the worker then refuses to change that
 * graph, so calls need a reply. */
void vcu_build_doubt(void);

/* ---- vcu_node_keep.c ---- */

/* Stores data handed out about a node that lives as long as the node; takes ownership. */
bool vcu_node_keep(CUgraphNode node, CUgraph graph, void *storage);
void vcu_node_forget(CUgraphNode node);
void vcu_node_forget_graph(CUgraph graph);

/* A context takes its executable graphs with it; copies of pageable memory are captured. */
extern const struct vcu_unit_ops vcu_graph_unit, vcu_copy_node_unit;

/* ---- vcu_graph.c ---- */

CUresult vcu_graph_check_launch(CUgraphExec exec, CUstream stream);
/*
 * Common rule of the lists: without arrays only the number is returned; else at most *count entries
 * are written, the rest of the arrays is set to NULL, and *count becomes the number written. An
 * array may be absent; edge data other than the default must not be lost silently.
 */
CUresult vcu_graph_items(uint32_t what, uint64_t object, CUgraphNode *from, CUgraphNode *to,
                         CUgraphEdgeData *edges, size_t *count, bool edges_matter);
/* By the same rule: what a node depends on, or what depends on it. */
CUresult vcu_node_neighbours(uint32_t what, CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges,
                             size_t *n);

/* ---- vcu_node.c ---- */

/* Adds or removes edges. Split into calls of maximum size; an error leaves the edges before it, as the driver does. */
CUresult vcu_graph_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                         const CUgraphEdgeData *data, size_t n, bool remove);
/* set: *value is stored, else read: 0 or 1. */
CUresult vcu_node_enabled(CUgraphExec exec, CUgraphNode node, bool set, uint32_t *value);

/* ---- vcu_user_object.c ---- */

/* count: of references, 1 to INT32_MAX. */
CUresult vcu_user_object_check(CUuserObject object, unsigned count);
CUresult vcu_user_object_retain(CUuserObject object, unsigned count);
CUresult vcu_user_object_release(CUuserObject object, unsigned count);
/* Gives references to a graph, or takes them from it. */
CUresult vcu_graph_user_object(CUgraph graph, CUuserObject object, unsigned count, unsigned flags,
                               bool release);

#endif
