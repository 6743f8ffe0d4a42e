/* SPDX-License-Identifier: MIT */
/* Graphs in the worker. The worker mints handles for graphs that the provider creates (captures,
 * clones, child graphs of nodes) and for their nodes; the guest mints the rest. Dispatcher only. */
#ifndef WRK_GRAPH_H
#define WRK_GRAPH_H

#include "memory/memory.h"

struct wrk_gnode;

struct wrk_graph {
    CUgraph object;
    uint64_t handle;
    VGB_LISTED struct wrk_gnode *nodes; /* nodes known to the guest */
    /* node whose child graph it is; NULL: a graph of the client */
    VGB_LISTED struct wrk_gnode *parent;
    /* the guest may destroy it; false: owned by a capture or a node */
    bool client;
    VGB_LISTED struct wrk_graph *next; /* next child of the same parent */
    /* user objects it is known to hold: struct wrk_uref, owned */
    struct btr_tree urefs;
    struct wrk_namer names; /* objects named by its nodes and those of its children */
    uint64_t *conditions;   /* handles issued for conditional nodes */
    uint32_t nconditions;
    size_t before_capture; /* number of its nodes when the capture into it began; SIZE_MAX: unknown */
    /* error of a posted node that could not be added; later calls on the graph fail with it */
    CUresult failed;
};

/*
 * A node of the client consists of a provider node, or two: a copy of memory that the worker cannot
 * access goes through accessible memory, with a host function before or after it to move the bytes.
 */
struct wrk_gnode {
    CUgraphNode object;  /* the node as seen by the client */
    CUgraphNode in, out; /* ends of incoming and outgoing edges; usually object */
    uint64_t cookie;     /* cookie of the copy's host function, 0 = none */
    /* the cookie has changed since creation: older executable graphs have another */
    bool changed;
    uint64_t handle;
    VGB_LISTED struct wrk_graph *graph;
    VGB_LISTED struct wrk_gnode *next, *prev; /* in graph->nodes */
    VGB_LISTED struct wrk_graph *child;       /* known child graphs, linked by next */
    uint64_t *bodies;                         /* conditional node: handles of its body graphs */
    uint32_t nbodies;
};

/* Look up the graph or node of a handle; INVALID_VALUE if there is none, as in the driver. */
CUresult wrk_graph_get(struct wrk_call *c, uint64_t handle, struct wrk_graph **out);
/* The same, also for a graph that names objects ended with their context, which no other call may
 * use. */
CUresult wrk_graph_get_any(struct wrk_call *c, uint64_t handle, struct wrk_graph **out);
CUresult wrk_gnode_get(struct wrk_call *c, uint64_t handle, struct wrk_gnode **out);
/* Provider nodes of handles, all in graph g (NULL: any graph); malloc'd, at least one element.
 * `from`: nodes where edges begin, else where they end. */
CUresult wrk_gnodes_get(struct wrk_call *c, const struct wrk_graph *g, const uint64_t *handles, uint32_t n,
                        bool from, CUgraphNode **out);
/* Joins a copy and its host function into a node. *handle: in, handle minted by the guest, else 0.
 * False: no memory. */
bool wrk_gnode_join(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object, CUgraphNode in,
                    CUgraphNode out, uint64_t cookie, uint64_t *handle);
/* Host-function half of a copy. */
static inline CUgraphNode wrk_gnode_func(const struct wrk_gnode *n)
{
    return n->in == n->object ? n->out : n->in;
}
/* Record of a node, or NULL. */
struct wrk_gnode *wrk_gnode_known(CUgraphNode object);
/* Record of a provider object, created if not known yet. NULL: no memory, handle limit of the
 * client reached, or the node is known as part of another graph. */
struct wrk_graph *wrk_graph_of(struct wrk_worker *w, CUgraph object);
struct wrk_gnode *wrk_gnode_of(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object);
/* The same for new objects with a reserved handle minted by the guest; 0: minted here. */
struct wrk_graph *wrk_graph_named(struct wrk_worker *w, CUgraph object, uint64_t name);
struct wrk_gnode *wrk_gnode_named(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object,
                                  uint64_t name);
/* Reserves a guest-minted handle for the graph or node that the call creates. An index outside the
 * guest's range is malformed. */
CUresult wrk_graph_reserve(struct wrk_call *c, uint64_t name, enum vgp_handle_type type);
/*
 * Handles the failure of a posted call. If the call adds a node, its graph no longer matches the
 * guest's view: later calls on the graph fail with r, and the guest is notified. False: the call
 * adds no node, and the error belongs to the process.
 */
bool wrk_graph_call_failed(struct wrk_call *c, CUresult r);
/*
 * Adds to `to` what the graph's nodes, and those of graphs below it, may name. The graph of a node was copied with its
 * nodes, which the graph around it alone has named; what is being captured is named by the captures. False: no memory.
 */
bool wrk_graph_names(struct wrk_namer *to, const struct wrk_graph *from);
/* Record of a graph, or NULL. */
struct wrk_graph *wrk_graph_known(CUgraph object);
/* True if a capture goes into the graph, one of its child and body graphs at any depth, or those of the node; either may
 * be NULL. */
bool wrk_capture_within(const struct wrk_graph *g, const struct wrk_gnode *n);
/* Drops the records of an object destroyed by the provider, including those of its nodes and their
 * children. */
void wrk_graph_forget(struct wrk_worker *w, struct wrk_graph *g);
void wrk_gnode_forget(struct wrk_worker *w, struct wrk_gnode *n);

/* Makes g a child or body graph of n. Idempotent. */
void wrk_graph_adopt(struct wrk_gnode *n, struct wrk_graph *g);

/* Drops the list that vgpGraphList pages through. To be called before a graph may change or a node
 * may end. */
void wrk_graph_list_forget(void);

/*
 * Checks the edge data of a call. *out: NULL if all edges are ordinary. False: inconsistent sizes.
 */
bool wrk_edges_ok(const void *data, uint32_t bytes, uint32_t edges, const CUgraphEdgeData **out);

/* ---- wrk_memory_peak.c: memory that a launch has at one time ---- */

#define WRK_GRAPH_NEST_MAX 64u /* maximum nesting depth of child graphs */
#define WRK_PEAK_KEPT UINT32_MAX
struct wrk_peak_mem {
    uint32_t alloc, free; /* node indices; free: WRK_PEAK_KEPT if the graph does not free it */
    uint64_t bytes;
};
/* Maximum bytes in use at a time; UINT64_MAX if a sum wraps. Edges: pairs of node indices. */
uint64_t wrk_peak(size_t nodes, const uint32_t (*edges)[2], size_t nedges, const struct wrk_peak_mem *mem,
                  size_t nmem);
struct wrk_graph_mem {
    uint64_t kept;    /* bytes allocated and not freed by the graph */
    uint64_t passing; /* peak bytes of allocations that the graph frees itself */
};
#define WRK_ANY_DEVICE (-1)
/*
 * Memory that g allocates on the device. False: neither g nor a child graph has allocation or free
 * nodes, for any device. depth: 0. UINT64_MAX if the worker has no memory to examine the graph.
 */
bool wrk_graph_mem_of(CUgraph g, int device, unsigned depth, struct wrk_graph_mem *out);

/* ---- wrk_executable.c ---- */

/* Namer of an executable graph; NULL: unknown. */
struct wrk_namer *wrk_exec_names(CUgraphExec exec);
/* True if it names an object that ended with its context. */
bool wrk_exec_stale(CUgraphExec exec);

/* Number of allocation and free nodes ever created by calls or captures; 0: no graph has any. */
extern uint64_t wrk_memory_nodes_made;
void wrk_memory_node_made(void);
/* True if g or a child graph has such nodes. bytes (optional): peak memory of a launch, by device. */
bool wrk_graph_memory(CUgraph g, uint64_t *bytes);
/* Bytes that the provider holds for graphs. */
uint64_t wrk_graph_memory_reserved(void);
/* Filter in front of launch and destruction of executable graphs, for their memory and host
 * functions. */
void wrk_exec_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* False: no memory. */
bool wrk_exec_made(CUgraphExec exec, const struct wrk_graph *g);
void wrk_exec_updated(CUgraphExec exec); /* its host functions are those of the graph again */
/* The context is about to be ended by `end`: its executable graphs are none any more. */
void wrk_exec_context_ends(CUcontext ctx, const struct wrk_wait *end);
/* `end` has landed with this result. */
void wrk_exec_context_gone(const struct wrk_wait *end, CUresult r);
struct wrk_host_func;
/* True if the node was given another function than that of this cookie. */
bool wrk_exec_has_func(CUgraphExec exec, const struct wrk_gnode *node, uint64_t cookie);
/* Sets the enum vgp_extsem_op of each host node of an executable graph, in order; NULL: all NONE.
 * Takes `types` over. False: no memory, `types` stays the caller's. */
bool wrk_exec_set_types(CUgraphExec exec, uint8_t *types, size_t n);
const uint8_t *wrk_exec_types(CUgraphExec exec, size_t *n);
/*
 * Sets the host function of a node, or of a copy's host-function half; f NULL: the node runs
 * nothing. On success the executable graph holds its own reference to f until no launch can run it.
 */
CUresult wrk_exec_set_func(CUgraphExec exec, const struct wrk_gnode *node, struct wrk_host_func *f);

/* ---- wrk_external_semaphore.c: what the provider takes for plain host nodes ---- */

/* Called after an executable graph was instantiated or updated from g. False: no memory. */
bool wrk_extsem_made(CUgraphExec exec, CUgraph g);
/* True if either graph could replace the other in an executable graph: types of external-semaphore
 * nodes must match. */
bool wrk_extsem_alike(CUgraph a, CUgraph b);
/* Node of g whose type differs from its counterpart's; NULL: none. */
CUgraphNode wrk_extsem_changed(CUgraphExec exec, CUgraph g);

/* ---- wrk_user_object.c ---- */

struct wrk_uref;
/* clear: g was destroyed. copy: `to` was cloned from `from`; the provider copies one reference of
 * each object. */
void wrk_urefs_clear(struct wrk_graph *g);
void wrk_urefs_copy(struct wrk_graph *to, const struct wrk_graph *from);
/* Give references to the graph, and take them from it; `entry`: what the handle table has for the object. The provider
 * has both functions. INVALID_VALUE: there are not so many, or there may not be so many. */
CUresult wrk_user_object_retain(struct wrk_graph *g, void *entry, uint32_t count, uint32_t flags);
CUresult wrk_user_object_release(struct wrk_graph *g, void *entry, uint32_t count);

/* ---- wrk_capture.c ---- */

/* True while the stream is part of a capture, valid or not. */
bool wrk_stream_captured(CUstream stream);
/*
 * Handles the failure of a call without reply. If the call was to be captured, its capture is
 * invalidated, so that ending the capture reports the error, and the guest is notified. False: not
 * captured, or unknown; the error then belongs to the process as well.
 */
bool wrk_capture_failed(struct wrk_call *c, CUresult r);
/* Implements wrk_capture_over. */
void wrk_capture_graph_over(struct wrk_worker *w, CUgraph object);
/* Graph that the stream is captured into, and its last node if there is exactly one. */
CUresult wrk_capture_front(CUstream stream, CUgraph *graph, CUgraphNode *last);

/* ---- wrk_host_function.c ---- */

/* Number of host-function nodes ever created; 0: no graph of the client has any. */
extern uint64_t wrk_host_nodes_made;
extern uint64_t wrk_semaphores_made; /* those for external semaphores */

/*
 * A host function as the provider calls it, with its argument. Reference counted; holders: the
 * caller that created it, a user object of the provider, an executable graph, a stream that runs a
 * one-time function, and each run. When the last reference to a function of a graph is dropped, the
 * guest is notified. NULL: too many, or no memory.
 */
struct wrk_host_func;
struct wrk_host_func *wrk_host_func_get(struct wrk_host_func *f);
void wrk_host_func_put(struct wrk_host_func *f);
/* Drops the caller's reference after its call failed: the guest does not expect a notification. */
void wrk_host_func_drop(struct wrk_host_func *f);
/* Sends notifications of functions released on the dispatcher while the ring was full. */
void wrk_host_funcs_tell(void);
struct wrk_host_func *wrk_host_func_new(struct wrk_worker *w, uint64_t cookie, bool one_time);
/* Creates a function for nodes of graph g, which holds the reference. It ends, and the guest is
 * notified, when no graph, clone or executable graph can run it any more. */
CUresult wrk_host_func_for(struct wrk_worker *w, CUgraph g, uint64_t cookie, struct wrk_host_func **out);
uint64_t wrk_host_func_cookie(const struct wrk_host_func *f);
/* Marks the function as a signal of, or wait for, external semaphores. */
void wrk_host_func_set_semaphores(struct wrk_host_func *f, enum vgp_extsem_op what);
enum vgp_extsem_op wrk_host_func_semaphores(const struct wrk_host_func *f);
/* Operation of a provider node, if its function is for external semaphores. */
enum vgp_extsem_op wrk_host_node_semaphores(CUgraphNode node);
void wrk_host_func_run(void *func);
/* The same as a callback of a stream, of which the guest hears the status. */
void wrk_host_func_call_back(CUstream stream, CUresult status, void *func);
/* Notifies the guest that the last reference to the object of this cookie was dropped. Provider
 * thread. */
void wrk_tell_released(struct wrk_worker *w, uint64_t cookie);
/* Issues a one-time function that the stream waits for, without blocking a provider thread where
 * possible. The context is current. Takes f over, also on failure. */
CUresult wrk_host_func_wait(struct wrk_worker *w, CUstream stream, struct wrk_host_func *f);
struct wrk_host_page;
/* Called by the dispatcher when a context begins to end, before the provider is asked and its
 * address can be reused. Returns the remainder for wrk_host_func_context_gone(); NULL: nothing. */
struct wrk_host_page *wrk_host_func_context_ends(CUcontext ctx);
/*
 * Called when the context has ended; `registered`: except for its registrations, and the context that has them is
 * current. Takes `page` over.
 */
void wrk_host_func_context_gone(struct wrk_host_page *page, bool registered);
/* No-op function for a node that no longer moves bytes. */
void wrk_host_func_nothing(void *unused);

/* ---- what the steps of calls need (vgp_worker.c) ---- */

/* Handles the failure of a call that introduced a host function. If the call was posted, the guest
 * is notified of the function's end, once more if a graph already holds it. */
void wrk_host_func_refused(struct wrk_call *c, uint64_t cookie);
/* Returns r, the result of passing f on; drops f where it failed. */
CUresult wrk_host_func_sent(struct wrk_host_func *f, CUresult r);
/*
 * Adds or changes a node that runs a host function of the guest, plain or for external semaphores.
 */
CUresult wrk_host_node(struct wrk_call *c, struct wrk_where *w, uint64_t cookie,
                       enum vgp_extsem_op semaphores, uint64_t *handle);
/* Records a graph owned by the client; destroyed if out of memory for its record. */
CUresult wrk_graph_made(struct wrk_call *c, CUgraph object, uint64_t *handle);
/* Graph of a node, owned by the node from now on. */
CUresult wrk_graph_child(struct wrk_call *c, uint64_t node, CUgraph object, uint64_t *handle);
/* Ends the record of a graph that the provider has destroyed. */
void wrk_graph_gone(struct wrk_call *c, uint64_t graph);
/* False for a graph of a node, or of a capture in progress: it is not the client's to destroy. */
bool wrk_graph_is_clients(struct wrk_call *c, uint64_t graph);
/* True while a capture records into it. */
bool wrk_graph_captured(struct wrk_call *c, uint64_t graph);
/* Handle of the node of a graph that the provider calls `object`. */
CUresult wrk_node_found(struct wrk_call *c, uint64_t graph, CUgraphNode object, uint64_t *handle);
/* Handle of the node's graph. */
uint64_t wrk_node_graph(struct wrk_call *c, uint64_t node);
bool wrk_node_is_copy(struct wrk_call *c, uint64_t node);
/* own: its type for the provider, which treats semaphore nodes as host-function nodes. */
uint32_t wrk_node_type(struct wrk_call *c, uint64_t node, CUgraphNodeType own);
/* The addresses are device addresses: the provider checks them against what this client has, or the
 * GPU's page tables do. */
CUstreamBatchMemOpParams wrk_memory_operation(uint32_t operation, uint32_t flags, uint64_t address,
                                              uint64_t value);
/* From four words for each; out: room for nwords / 4. */
CUresult wrk_memory_operations_packed(struct wrk_call *c, CUstreamBatchMemOpParams *out,
                                      const uint64_t *words, uint32_t nwords);

/* Context of a condition, named by its graph; the room for one more in the graph's list, which it then takes. */
CUresult wrk_condition_context(struct wrk_call *c, uint64_t graph, uint64_t context, CUcontext *out);
bool wrk_condition_room(struct wrk_call *c, uint64_t graph);
void wrk_condition_made(struct wrk_call *c, uint64_t graph, uint64_t condition);
/* Handles of the graphs of a conditional node, *n of them; NULL: it is none. */
const uint64_t *wrk_node_bodies(struct wrk_call *c, uint64_t node, uint32_t *n);
/* One of the four words of a memory operation, as wrk_memory_operations_packed() takes them. */
uint64_t wrk_memory_operation_word(const CUstreamBatchMemOpParams *p, unsigned word);
/* Client handle of the function that a kernel node launches, or of its kernel; 0: unknown. */
uint64_t wrk_kernel_node_function(struct wrk_worker *w, const CUDA_KERNEL_NODE_PARAMS *p);
/* Packs its parameters, *size bytes; *packed is valid until the next call. */
CUresult wrk_kernel_node_pack(const CUDA_KERNEL_NODE_PARAMS *p, const uint8_t **packed, uint32_t *size);
/* Adds a kernel node with its edge data in a single call, as a node cannot always be removed. */
CUresult wrk_kernel_node_add(struct wrk_where *w, CUgraphNode *node, const CUDA_KERNEL_NODE_PARAMS *p);
/* Records a clone of a graph, owned by the client; destroyed if out of memory for its record. */
CUresult wrk_graph_cloned(struct wrk_call *c, uint64_t from, CUgraph object, uint64_t *handle);
/* Notes the graph of a node that a call without reply changes. */
void wrk_node_builds(struct wrk_call *c, uint64_t node);
/* True while a capture is in the node's graph, or in a graph of the node. */
bool wrk_node_captured(struct wrk_call *c, uint64_t node);
/* Ends the record of a node that the provider has destroyed, and its other half. */
void wrk_node_gone(struct wrk_call *c, uint64_t node);
/* Updates of executable graphs: the objects that they name from now on, also where the update fails; the number of host
 * functions of a launch; the handle of a node of the graph, 0: none or unknown. */
bool wrk_exec_name(CUgraphExec exec, struct wrk_call *c, uint64_t graph);
uint32_t wrk_graph_host_nodes(CUgraph graph);
uint64_t wrk_node_named(struct wrk_call *c, uint64_t graph, CUgraphNode node);

/* User objects, by what the handle table has for them: the provider's object; whether the client may have so many
 * references more; counts references that it got; counts references that it gives up, false: it has not so many. */
CUuserObject wrk_user_object_of(const void *entry);
bool wrk_user_object_may(const void *entry, uint32_t count);
void wrk_user_object_own(void *entry, uint32_t count);
bool wrk_user_object_take(void *entry, uint32_t count);

/* True for a copy that consists of two nodes; switches both halves: a host function cannot be disabled, but can be replaced. */
bool wrk_node_joined(struct wrk_call *c, uint64_t node);
CUresult wrk_node_enable_joined(struct wrk_call *c, CUgraphExec exec, uint64_t node, unsigned enabled);
/* Provider nodes of the graph that a stream is captured into, by their handles; *nodes is to be freed. */
CUresult wrk_capture_nodes(struct wrk_call *c, CUstream stream, const uint64_t *handles, uint32_t n,
                           CUgraphNode **nodes);

/* Parameters of an allocation node; bytes: its size; access: kept by reference. */
CUDA_MEM_ALLOC_NODE_PARAMS wrk_alloc_node(uint32_t type, uint32_t handle_types, uint32_t location_type,
                                          int32_t location, uint64_t bytes, const CUmemAccessDesc *access,
                                          size_t n);

#endif
