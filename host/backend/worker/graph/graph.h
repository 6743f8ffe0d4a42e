/* SPDX-License-Identifier: MIT */
/*
 * Graphs in the worker. Handles of those that the provider makes while it captures, when it clones, as children of
 * nodes, and of their nodes, are minted here; those that the guest makes by itself it mints. Dispatcher only.
 */
#ifndef WRK_GRAPH_H
#define WRK_GRAPH_H

#include "memory/memory.h"

struct wrk_gnode;

struct wrk_graph {
    CUgraph object;
    uint64_t handle;
    VGB_LISTED struct wrk_gnode *nodes;  /* those that the guest was told of */
    VGB_LISTED struct wrk_gnode *parent; /* the node whose child it is; NULL: the client's own */
    bool client;                         /* the guest may destroy it; else a capture or a node has it */
    VGB_LISTED struct wrk_graph *next;   /* of the same parent */
    struct btr_tree urefs;               /* user objects that it is known to hold: struct wrk_uref, owned */
    struct wrk_namer names;              /* what its nodes and those of its children name */
    uint64_t *conditions;                /* numbers given out for conditional nodes */
    uint32_t nconditions;
    CUresult failed; /* a posted node that could not be added: what is asked of the graph fails with it */
};

/*
 * A node of the client is one of the provider, or two: a copy of memory that the worker cannot see
 * goes through memory that it can, moved there or back by a host function before or after it.
 */
struct wrk_gnode {
    CUgraphNode object;  /* what the client means */
    CUgraphNode in, out; /* whom edges to it and from it belong to; usually object */
    uint64_t cookie;     /* host function of a copy, 0 = none */
    bool changed;        /* ... since it was made: older executable graphs have another one */
    uint64_t handle;
    VGB_LISTED struct wrk_graph *graph;
    VGB_LISTED struct wrk_gnode *next, *prev; /* in graph->nodes */
    VGB_LISTED struct wrk_graph *child;       /* those told of, linked by next */
    uint64_t *bodies;                         /* of a conditional node: handles of its graphs */
    uint32_t nbodies;
};

/* The graph or node behind a handle; INVALID_VALUE when there is none, as the driver says. */
CUresult wrk_graph_get(struct wrk_call *c, uint64_t handle, struct wrk_graph **out);
/* Also one that names what has ended with its context, which no other call may use. */
CUresult wrk_graph_get_any(struct wrk_call *c, uint64_t handle, struct wrk_graph **out);
CUresult wrk_gnode_get(struct wrk_call *c, uint64_t handle, struct wrk_gnode **out);
/* The provider's nodes behind handles, all of graph g (NULL: of any); malloc'd, at least one long.
 * `from`: where edges begin, else where they end. */
CUresult wrk_gnodes_get(struct wrk_call *c, const struct wrk_graph *g, const uint64_t *handles, uint32_t n,
                        bool from, CUgraphNode **out);
/* Makes a copy and its host function one node; *handle: its name where the guest has minted it, else 0. False: no memory. */
bool wrk_gnode_join(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object, CUgraphNode in,
                    CUgraphNode out, uint64_t cookie, uint64_t *handle);
/* The half of a copy that is a host function. */
static inline CUgraphNode wrk_gnode_func(const struct wrk_gnode *n)
{
    return n->in == n->object ? n->out : n->in;
}
/* The record of a node when there is one. */
struct wrk_gnode *wrk_gnode_known(CUgraphNode object);
/* The record of an object of the provider, made when it is not known yet. NULL: no memory, or as many
 * handles as one client may have, or a node that is known as another graph's. */
struct wrk_graph *wrk_graph_of(struct wrk_worker *w, CUgraph object);
struct wrk_gnode *wrk_gnode_of(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object);
/* The same of new ones whose handle the guest has minted, and is reserved; 0: minted here. */
struct wrk_graph *wrk_graph_named(struct wrk_worker *w, CUgraph object, uint64_t name);
struct wrk_gnode *wrk_gnode_named(struct wrk_worker *w, struct wrk_graph *g, CUgraphNode object,
                                  uint64_t name);
/* The guest has minted the handle of a graph or node that the call makes: reserves it. Other indices are malformed. */
CUresult wrk_graph_reserve(struct wrk_call *c, uint64_t name, enum vgp_handle_type type);
/*
 * A posted call has failed. Did it add a node, its graph is not what the guest believes: what is asked of the graph from
 * now on fails with r as well, and the guest is told. False: it did not, and the error is the process's.
 */
bool wrk_graph_call_failed(struct wrk_call *c, CUresult r);
/* The record of a graph when there is one. */
struct wrk_graph *wrk_graph_known(CUgraph object);
/* The provider has destroyed it: its record, those of its nodes and of their children go. */
void wrk_graph_forget(struct wrk_worker *w, struct wrk_graph *g);
void wrk_gnode_forget(struct wrk_worker *w, struct wrk_gnode *n);

/* g is n's: a child graph, or a body. Again: nothing happens. */
void wrk_graph_adopt(struct wrk_gnode *n, struct wrk_graph *g);

/* Before anything that may change a graph or end a node: what pages of lists are taken from (vgpGraphList) goes. */
void wrk_graph_list_forget(void);

/* Edge data of a call: NULL when all are ordinary edges. False: the sizes do not agree. */
bool wrk_edges_ok(const void *data, uint32_t bytes, uint32_t edges, const CUgraphEdgeData **out);

/* ---- memory_peak.c: memory that a launch has at one time ---- */

#define WRK_GRAPH_NEST_MAX 64u /* child graphs within child graphs */
#define WRK_PEAK_KEPT UINT32_MAX
struct wrk_peak_mem {
    uint32_t alloc, free; /* nodes; free: WRK_PEAK_KEPT when the graph does not free it */
    uint64_t bytes;
};
/* The most that can be in use at one time; UINT64_MAX when a sum wraps. Edges: indices of nodes. */
uint64_t wrk_peak(size_t nodes, const uint32_t (*edges)[2], size_t nedges, const struct wrk_peak_mem *mem,
                  size_t nmem);
struct wrk_graph_mem {
    uint64_t kept;    /* allocated and not freed by the graph */
    uint64_t passing; /* the most at one time of what it frees itself */
};
/* False: g has no nodes that allocate or free, here or in a child. depth: 0. */
bool wrk_graph_mem_of(CUgraph g, unsigned depth, struct wrk_graph_mem *out);

/* ---- executable.c ---- */

/* What it names; NULL: it is not known. */
struct wrk_namer *wrk_exec_names(CUgraphExec exec);
/* Names what has ended with its context. */
bool wrk_exec_stale(CUgraphExec exec);

/* Nodes that allocate or free, ever made by calls or captures; 0: no graph has any. */
extern uint64_t wrk_memory_nodes_made;
/* Has g such nodes, here or in a child? *bytes (may be NULL): what a launch has at one time. */
bool wrk_graph_memory(CUgraph g, uint64_t *bytes);
/* Bytes that the provider holds for graphs. */
uint64_t wrk_graph_memory_reserved(void);
/* A filter: memory and host functions of executable graphs, in front of launching and destroying them. */
void wrk_exec_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below);
/* False: no memory. */
bool wrk_exec_made(CUgraphExec exec, const struct wrk_graph *g);
void wrk_exec_updated(CUgraphExec exec);     /* its host functions are the graph's again */
void wrk_exec_forget_context(CUcontext ctx); /* before it ends */
struct wrk_host_func;
/* Was another function than that of this cookie put there? */
bool wrk_exec_has_func(CUgraphExec exec, const struct wrk_gnode *node, uint64_t cookie);
/* Of an executable graph's host nodes, in order: enum vgp_extsem_op. NULL: all NONE. Takes over;
 * false: no memory, and it does not. */
bool wrk_exec_set_types(CUgraphExec exec, uint8_t *types, size_t n);
const uint8_t *wrk_exec_types(CUgraphExec exec, size_t *n);
/* Sets the host function of a node (of a copy: of its half); f NULL: the node runs nothing. If that succeeds, the
 * executable graph has a reference of its own to f until no launch can run it. */
CUresult wrk_exec_set_func(CUgraphExec exec, const struct wrk_gnode *node, struct wrk_host_func *f);

/* ---- external_semaphore.c: what the provider takes for plain host nodes ---- */

/* An executable graph was made of g, or updated to be like it. False: no memory. */
bool wrk_extsem_made(CUgraphExec exec, CUgraph g);
/* Could one graph take the other's place in an executable graph? Not when such a node is of another type. */
bool wrk_extsem_alike(CUgraph a, CUgraph b);
/* The node of g that is of another type than the one in its place; NULL: there is none. */
CUgraphNode wrk_extsem_changed(CUgraphExec exec, CUgraph g);

/* ---- user_object.c ---- */

struct wrk_uref;
/* g has been destroyed, or its clone made: the provider copies one reference of each. */
void wrk_urefs_clear(struct wrk_graph *g);
void wrk_urefs_copy(struct wrk_graph *to, const struct wrk_graph *from);

/* ---- capture.c ---- */

/* True while the stream is part of a capture, valid or not. */
bool wrk_stream_captured(CUstream stream);
/*
 * A call without a reply has failed. Was it to be captured, its capture is invalidated, so that ending it says what the
 * call could not, and the guest is told. False: it was not, or that is unknown; then the error is the process's as well.
 */
bool wrk_capture_failed(struct wrk_call *c, CUresult r);
/* As wrk_capture_over. */
void wrk_capture_graph_over(struct wrk_worker *w, CUgraph object);
/* The graph that it is captured into, and the node that is last when there is exactly one. */
CUresult wrk_capture_front(CUstream stream, CUgraph *graph, CUgraphNode *last);

/* ---- host_function.c ---- */

/* Host functions that became nodes, ever; 0: no graph of the client has any. */
extern uint64_t wrk_host_nodes_made;
extern uint64_t wrk_semaphores_made; /* those among them that are for external semaphores */

/*
 * What the provider calls, and its argument. Counted: the caller that made it, a user object of the provider's, what was
 * put into an executable graph, a stream that runs a one-time function, and each run have a reference. With the
 * last one of what was in a graph the guest is told. NULL: too many, or no memory.
 */
struct wrk_host_func;
struct wrk_host_func *wrk_host_func_get(struct wrk_host_func *f);
void wrk_host_func_put(struct wrk_host_func *f);
/* The caller's reference, when the call failed that brought it: the guest does not wait to hear of its end. */
void wrk_host_func_drop(struct wrk_host_func *f);
/* Those whose last reference went on the dispatcher while the guest had no room to be told. */
void wrk_host_funcs_tell(void);
struct wrk_host_func *wrk_host_func_new(struct wrk_worker *w, uint64_t cookie, bool one_time);
/* One for nodes of graph g, which has the reference: it ends, and the guest is told, when no graph, clone or
 * executable graph can run it any more. */
CUresult wrk_host_func_for(struct wrk_worker *w, CUgraph g, uint64_t cookie, struct wrk_host_func **out);
uint64_t wrk_host_func_cookie(const struct wrk_host_func *f);
/* It is what the guest signals external semaphores with, or waits for them. */
void wrk_host_func_set_semaphores(struct wrk_host_func *f, enum vgp_extsem_op what);
/* What a node of the provider is: such a function, or none. */
enum vgp_extsem_op wrk_host_node_semaphores(CUgraphNode node);
void wrk_host_func_run(void *func);
/* On a thread of the provider's: the last reference to what the guest knows by this cookie has gone. */
void wrk_tell_released(struct wrk_worker *w, uint64_t cookie);
/* Issues a one-time function whose end the stream waits for, if it can be without a thread of the
 * provider's meanwhile. The context is current. Takes f over, also on failure. */
CUresult wrk_host_func_wait(struct wrk_worker *w, CUstream stream, struct wrk_host_func *f);
struct wrk_host_page;
/*
 * The end of a context begins, its address may soon be another one's: what is left of it for wrk_host_func_context_gone(),
 * NULL: nothing. The dispatcher alone, before the provider is asked.
 */
struct wrk_host_page *wrk_host_func_context_ends(CUcontext ctx);
/* The context has ended; registered: but for what it has registered. Takes `page` over. */
void wrk_host_func_context_gone(struct wrk_host_page *page, bool registered);
/* In place of one that moved bytes, when a node does not any more. */
void wrk_host_func_nothing(void *unused);

#endif
