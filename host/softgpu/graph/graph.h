/* SPDX-License-Identifier: MIT */
/*
 * Graphs and stream capture. A node holds the same operation that a stream would have run; a launch
 * of a graph runs its operations in an order that respects the edges, and independent branches
 * concurrently if a node takes long (graph/sg_graph_branches.c).
 *
 * One lock, sg_graph_lock, guards all graphs, nodes and captures. It is taken after a context's
 * issue lock and before an event's.
 */
#ifndef SG_GRAPH_H
#define SG_GRAPH_H

#include "module/module.h"

extern pthread_mutex_t sg_graph_lock;

/* An operation shared by nodes, their clones and programs. */
struct sg_graph_op {
    _Atomic uint32_t refs;
    SG_OWNED struct sg_op *op; /* NULL: nothing to run */
};

/* A node that depends on another, and the index of that dependency in its deps. */
struct sg_node_user {
    SG_LISTED struct sg_node *node;
    size_t dep;
};

struct sg_node {
    struct sg_obj obj;
    /* graph that contains the node; NULL once it has been removed */
    SG_LISTED struct sg_graph *graph;
    CUgraphNodeType type;
    SG_COUNTED struct sg_graph_op *gop;
    SG_COUNTED struct sg_graph *child; /* child graph, a reference: CU_GRAPH_NODE_TYPE_GRAPH */
    SG_COUNTED struct sg_node **deps;  /* nodes of the same graph */
    /* edge data per dependency; NULL: all ordinary. All edges run as ordinary edges */
    CUgraphEdgeData *edge;
    size_t *dep_at; /* per dependency: index of this node in the dependency's users */
    size_t ndeps, cap_deps;
    /* open hash of indexes in deps, + 1; NULL: linear search */
    uint32_t *dep_slot;
    size_t dep_slots;                    /* number of slots, a power of two */
    SG_OWNED struct sg_node_user *users; /* nodes that depend on this one */
    size_t nusers, cap_users;
    size_t index;      /* index in the graph's nodes */
    uint64_t number;   /* sequence number of the node in its graph */
    uint64_t original; /* handle of the node that this node was cloned from */
    bool has_params;   /* created by a call with parameters, not by capture */
    union {
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        CUDA_HOST_NODE_PARAMS host;
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch; /* the node owns paramArray */
    } params;
    void **kernel_params;                   /* returned by GetParams; freed with the node */
    CUlaunchAttributeValue *attrs;          /* attributes of a kernel node, by id; NULL: none set */
    SG_COUNTED struct sg_graph_memory *mem; /* set for nodes that allocate or free, a reference */
    SG_OWNED struct sg_condition *cond;     /* set for conditional nodes: see graph/sg_graph_condition.c */
    bool mark;
    size_t pos;    /* index of its step while a program is built */
    size_t fronts; /* number of entries in captures' fronts that refer to it */
};

/*
 * Memory of a graph (graph/sg_graph_memory.c): an address that an allocation node keeps for as long as
 * anything may allocate or use it. Launches claim the memory; without a claim it is dormant. All
 * fields are guarded by the lock.
 */
struct sg_graph_memory {
    uint32_t refs; /* references from nodes, programs and claims */
    uint64_t addr, size;
    int device;
    uint64_t owner;     /* id of the graph with the allocation node */
    bool freed_inside;  /* the same graph has a free node for it */
    bool freed_outside; /* another graph has a free node for it */
    size_t step;        /* allocating step, while a program is built; SIZE_MAX: none yet */
    bool unfreed;       /* in call order: allocated and not freed yet */
    unsigned claims;    /* launches that have allocated it and not freed it yet */
    /* claim of the launch that allocated it, until it is freed; compare only */
    const void *by;
    CUmemAccessDesc *access; /* as passed by the application; for GetParams */
    size_t naccess;
};

/* A conditional handle, a number known to kernels (graph/sg_graph_condition.c). */
struct sg_cond;
/* The extra state of a conditional node. */
struct sg_condition {
    SG_COUNTED struct sg_cond *cond; /* a reference */
    CUgraphConditionalNodeType type;
    unsigned size;
    /* body graphs, a reference each; the references belong to the node */
    SG_COUNTED struct sg_graph **body;
    CUgraph *handles; /* handles of the bodies, for the application */
};

/* References to user objects held by a graph or a program (graph/sg_graph_user_object.c); guarded by the
   lock. */
struct sg_uobj;
struct sg_urefs {
    struct sg_uref {
        SG_COUNTED struct sg_uobj *u;
        uint64_t count; /* a program may add to it in any number of calls */
    } * SG_OWNED ref;
    size_t n;
};

/*
 * A graph that is contained in no other, and all graphs below it; each graph holds a reference.
 * Guarded by the lock. Adding a copy of a graph to itself doubles the size with each call, hence
 * the bound.
 */
struct sg_graph_family {
    size_t graphs; /* number of references */
    size_t nodes;  /* number of nodes of all graphs */
};
/* limit of nodes and of graphs in a family, and of steps in a program */
#define SG_GRAPH_MAX ((size_t)1 << 20)

struct sg_graph {
    struct sg_obj obj;
    SG_COUNTED struct sg_node **nodes; /* references in order, with gaps until sg_graph_settle() */
    size_t n, end, cap;                /* number of nodes; length including gaps; capacity */
    uint64_t made;                     /* number of nodes created so far, including removed nodes */
    struct sg_urefs urefs;
    bool owned; /* owned by a node: the application must not destroy or instantiate it */
    bool body;  /* is the body of a conditional node, or below a body */
    /* it, or more often a graph below it, has nodes that allocate or free: see
       sg_graph_contents() */
    bool has_memory;
    uint64_t id; /* never reused, unlike an address */
    SG_COUNTED struct sg_graph_family *family;
    unsigned level;                    /* number of graphs above it */
    unsigned execs;                    /* number of executable graphs, where only one is allowed */
    SG_COUNTED struct sg_cond **conds; /* conditional handles created for the graph; references */
    size_t nconds;
};

/*
 * Dependencies between steps, for programs that are not a single chain; shared by copies of a
 * program. A step and everything below it (a child graph, the graphs of a conditional node) form a
 * unit; edges join units of the same level. Units are stored in an order that respects the edges.
 */
struct sg_edges {
    _Atomic uint32_t refs;
    uint32_t *waits; /* per step: number of units it waits for */
    /* per step, and one entry more: start in `next` of the units that wait for it */
    uint32_t *first;
    uint32_t *next;
};
/* Builds the edges of a program of `steps` steps from n (from, to) pairs. NULL: out of memory. */
struct sg_edges *sg_edges_new(const uint32_t (*pair)[2], size_t n, size_t steps);
void sg_edges_put(struct sg_edges *e);
/*
 * Indexes of g's nodes in an order that respects the edges, without nodes in or behind a cycle: *n
 * of them, to be freed by the caller. NULL: out of memory. Under the lock (graph/sg_graph_order.c).
 */
uint32_t *sg_graph_order(const struct sg_graph *g, size_t *n);

/* The steps of an executable graph; immutable once built. */
struct sg_step_index;
struct sg_program {
    _Atomic uint32_t refs;
    bool wide;                         /* the top level is not a chain */
    SG_COUNTED struct sg_edges *edges; /* a reference; NULL: each level is a chain */
    SG_COUNTED struct sg_step_index
        *index; /* a reference, under sg_graph_lock; NULL: no step has been looked up yet */
    /* maximum of memory that a launch frees itself, allocated at any one time; bytes */
    uint64_t peak[SG_MAX_DEVICES];
    struct sg_urefs urefs; /* user objects of the graph and its children */
    bool events;           /* contains event nodes: see issue_events() */
    bool memory;           /* contains nodes that allocate or free */
    unsigned levels;       /* maximum depth of nested graphs: see SG_GRAPH_LEVELS_MAX */
    /* steps, including those of captured launches, at every depth */
    size_t steps;
    SG_COUNTED struct sg_cond **conds; /* conditions that a launch may set; references */
    size_t nconds;
    size_t n;
    struct sg_step {
        SG_COUNTED struct sg_graph_op *gop;
        CUgraphNodeType type;
        uint64_t node;  /* handle of its node; 0: the body of a conditional node */
        uint64_t edges; /* number of dependencies that it represents */
        uint32_t child; /* number of following steps that are below it */
        bool wide;      /* child graph or body whose steps below are not a chain */
        bool waits;     /* it, or a step below it, waits for an event */
        bool disabled;
        SG_COUNTED struct sg_graph_memory *mem; /* a reference */
        /* memory: the matching free or allocation step; SIZE_MAX: none */
        size_t other;
        SG_LENT struct sg_cond *cond; /* an entry of conds */
        CUgraphConditionalNodeType cond_type;
        /* bodies: number of following steps without a node, each with its own body */
        unsigned cond_size;
    } step[];
};

struct sg_capture {
    _Atomic uint32_t refs;
    SG_COUNTED struct sg_graph *graph;     /* a reference; NULL once it has ended */
    SG_LENT struct sg_stream *origin;      /* an entry of streams */
    SG_COUNTED struct sg_stream **streams; /* each a reference */
    size_t nstreams;
    uint64_t first; /* sequence number of the first captured node */
    CUstreamCaptureMode mode;
    pthread_t thread;
    unsigned long long id;
    bool own; /* the graph was created for this capture, not passed by the program */
    bool invalid, ended;
    /* fronts of streams and events; each holds a reference to the capture */
    SG_LISTED struct sg_front *fronts;
    SG_LISTED struct sg_capture *next, **pprev; /* list of all captures in progress */
};

/*
 * The last nodes of a captured stream, or those recorded by an event: the next node depends on
 * them. They are nodes of the capture's graph. All fronts of a capture are in its list, so that
 * removing a node from the graph removes it from every front.
 */
struct sg_front {
    SG_COUNTED struct sg_capture *capture; /* a reference, or NULL */
    SG_COUNTED struct sg_node **nodes;     /* each a reference */
    size_t n;
    SG_LISTED struct sg_front *next, **pprev; /* capture->fronts; pprev NULL: not in a list */
};

#define SG_NEST_MAX 64 /* limit of nested child graphs: bounds recursion */
/*
 * Limit of nested graphs that a thread runs, of any kind: children, bodies, captured launches,
 * launches by kernels. Bounds the stack of a stream's thread, of which a level takes about 600
 * bytes; separate limits per kind would multiply.
 */
#define SG_GRAPH_LEVELS_MAX (2u * SG_NEST_MAX)

/* registered, with a reference for the caller; NULL: out of memory */
struct sg_graph *sg_graph_new(void);
/* Summary of g and the graphs below it, conditional handles included. Under the lock. */
struct sg_graph_contents {
    bool memory, condition;
    unsigned height; /* number of levels below g */
};
struct sg_graph_contents sg_graph_contents(const struct sg_graph *g);
/* 801: below `above`, g would be nested too deeply, or both and a node would exceed
   SG_GRAPH_MAX. Under the lock. */
CUresult sg_graph_may_attach(const struct sg_graph *g, const struct sg_graph *above);
/* Number of the family's graphs and nodes. Under the lock. */
static inline size_t sg_graph_family_size(const struct sg_graph *g)
{
    return g->family->graphs + g->family->nodes;
}
CUresult sg_graph_too_large(void);                    /* 801, with the limit in the detail text */
CUresult sg_graph_may_grow(const struct sg_graph *g); /* 801: at SG_GRAPH_MAX; under the lock */
/* Attaches g to a node of `above` if that is allowed; otherwise nothing changes. Under the lock. */
CUresult sg_graph_attach(struct sg_graph *g, const struct sg_graph *above);
/* Closes the gaps left by removed nodes; call before iterating over nodes. Under the lock. */
void sg_graph_settle(const struct sg_graph *g);
/* Adds a node that depends on deps; takes ownership of op, even on failure. Returns a reference. */
CUresult sg_node_new(struct sg_graph *g, CUgraphNodeType type, struct sg_op *op, struct sg_node *const *deps,
                     size_t ndeps, struct sg_node **out);
/*
 * Makes n depend on dep, with edge data (NULL: an ordinary edge); the only function that adds to
 * deps. An existing edge stays unchanged. 1: dep is not in the graph of n.
 */
CUresult sg_node_add_edge(struct sg_node *n, struct sg_node *dep, const CUgraphEdgeData *edge);
/* Index of dep in n->deps; SIZE_MAX: not found. */
size_t sg_node_find_dep(const struct sg_node *n, const struct sg_node *dep);
void sg_node_drop_dep(struct sg_node *n, size_t k);
void sg_node_drop_deps(struct sg_node *n);
CUgraphEdgeData sg_node_edge(const struct sg_node *n, size_t k);
void sg_node_set_op(struct sg_node *n, struct sg_op *op, CUresult *r);
/* Removes n from its graph, from the dependencies of other nodes and from the fronts of
   captures. */
void sg_node_remove(struct sg_node *n);
/* Called after n has left its graph's list: drops its edges, its handle and the graph's
   reference. */
void sg_node_leave(struct sg_node *n);
/* 1: the graph has a cycle, or a body has a forbidden node; *why (may be NULL) and *bad, the
   node or 0. */
CUresult sg_program_new(struct sg_graph *g, struct sg_program **out, CUgraphInstantiateResult *why,
                        uint64_t *bad);
void sg_program_put(struct sg_program *p);
/* The step of a node. NULL: none. Under the lock. */
struct sg_step *sg_program_step(struct sg_program *p, uint64_t node);
/* Shares the step index of `from`, whose steps have the same nodes. Under the lock. */
void sg_step_index_share(struct sg_program *to, const struct sg_program *from);
void sg_step_index_put(struct sg_step_index *x);
struct sg_program *sg_program_copy(const struct sg_program *p); /* NULL: out of memory */
CUresult sg_program_check_levels(unsigned levels);              /* 801: above SG_GRAPH_LEVELS_MAX */
/* Number of graphs of p above the graph that contains this step. */
unsigned sg_program_level(const struct sg_program *p, size_t step);
/* takes ownership of op; NULL: out of memory, op has ended */
struct sg_graph_op *sg_graph_op_new(struct sg_op *op);
void sg_graph_op_get(struct sg_graph_op *gop);
void sg_graph_op_put(struct sg_graph_op *gop);

/* Creates a user object with a handle and refs references held by the application. Returns false
   if out of memory. */
bool sg_uobj_new(void *ptr, CUhostFn destroy, unsigned refs, CUuserObject *out);
void sg_uobj_retain(struct sg_uobj *u, unsigned n);
/* 1: the application holds fewer references */
CUresult sg_uobj_release(struct sg_uobj *u, unsigned n);
/* Drops the reference of a list. */
void sg_uobj_let_go(struct sg_uobj *u);
/* Removes count references to u from a list. Returns false if it holds fewer. *gone: none are
   left, and the caller releases u. */
bool sg_urefs_drop(struct sg_urefs *l, const struct sg_uobj *u, unsigned count, bool *gone);
bool sg_urefs_add(struct sg_urefs *l, struct sg_uobj *u, unsigned count); /* false: out of memory */
/* Adds a reference to each. Returns false if out of memory. */
bool sg_urefs_copy(struct sg_urefs *to, const struct sg_urefs *from);
/* The same without merging duplicates: the list may then contain an object several times. */
bool sg_urefs_append(struct sg_urefs *to, const struct sg_urefs *from);
void sg_urefs_sort(struct sg_urefs *l); /* merges the duplicates */
void sg_urefs_clear(struct sg_urefs *l);

/* The nodes of g behind handles, each with a reference; 1 if a node is not in g. */
CUresult sg_nodes_get(struct sg_graph *g, const CUgraphNode *handles, size_t n, struct sg_node ***out);
CUresult sg_nodes_get_locked(struct sg_graph *g, const CUgraphNode *handles, size_t n, struct sg_node ***out);
/* The same for the dependencies of a new node: 1, too, if a node occurs twice. */
CUresult sg_dependencies_get_locked(struct sg_graph *g, const CUgraphNode *handles, size_t n,
                                    struct sg_node ***out);
void sg_nodes_put(struct sg_node **nodes, size_t n); /* nodes may be NULL */

void sg_front_clear(struct sg_front *f);
/* 1: a node is not in the capture's graph. */
CUresult sg_front_set(struct sg_front *f, struct sg_capture *c, struct sg_node *const *nodes, size_t n);
/* the same, adding to the front */
CUresult sg_front_merge(struct sg_front *f, struct sg_node *const *nodes, size_t n);
/* Removes n, which leaves g, from all captures. Under the lock, like all functions here. */
void sg_captures_forget_node(const struct sg_graph *g, struct sg_node *n);
bool sg_graph_captured(const struct sg_graph *g); /* a capture into it is in progress */
void sg_capture_put(struct sg_capture *c);

/* ---- memory of graphs (graph/sg_graph_memory.c, nodes: graph/sg_graph_memory_node.c); under the lock ---- */

/* Reserves addresses of that device for an allocation node of g; *out receives the first reference. 2. */
CUresult sg_graph_memory_new(struct sg_graph *g, int device, uint64_t size, struct sg_graph_memory **out);
/* The memory that starts at addr, without a reference; NULL: none. */
struct sg_graph_memory *sg_graph_memory_find(uint64_t addr);
void sg_graph_memory_get(struct sg_graph_memory *m); /* m may be NULL */
void sg_graph_memory_put(struct sg_graph_memory *m);
/* Memory that launches of an executable graph free themselves, in bytes. Launches of one
   executable graph run one after the other, so this is the largest need of a launch in progress. */
struct sg_ghold {
    unsigned pending;
    uint64_t held[SG_MAX_DEVICES];
};
/* Computes p->peak. Returns false if out of memory. */
bool sg_graph_memory_find_peak(struct sg_program *p);
/* The effect of a launch on its program's memory, in call order. */
struct sg_gclaim {
    SG_LENT struct sg_ghold *hold;
    bool *taken; /* per step: this launch claimed the memory or announced its free */
    bool *ran;   /* per step: it has run; under the lock */
    bool issued; /* false: the claim has no effect */
};
/* 1: allocated and not freed; 2. `again`: auto-free on launch. *out is malloc'd. */
CUresult sg_gclaim_new(const struct sg_program *p, bool again, struct sg_ghold *hold, struct sg_gclaim **out);
/* Called when step `step`, which allocates or frees, runs. Takes the lock. */
void sg_gclaim_step(const struct sg_program *p, struct sg_gclaim *c, size_t step);
void sg_gclaim_end(const struct sg_program *p, struct sg_gclaim *c); /* frees c; takes the lock */
/* Adds a node that allocates as described by p, which is valid, or a node that frees; both take
   the lock. */
CUresult sg_graph_memory_add_alloc(struct sg_graph *g, const CUgraphNode *dependencies, size_t n,
                                   CUDA_MEM_ALLOC_NODE_PARAMS *p, CUgraphNode *out);
CUresult sg_graph_memory_add_free(struct sg_graph *g, const CUgraphNode *dependencies, size_t n,
                                  uint64_t addr, CUgraphNode *out);
/* Returns memory reserved for graphs, but unused, to the device. */
void sg_graph_memory_trim(int device);
/* false: unknown attribute */
bool sg_graph_memory_attribute(int device, CUgraphMem_attribute attr, cuuint64_t *value);
/* resets a high watermark */
void sg_graph_memory_reset_high(int device, CUgraphMem_attribute attr);
/* cuMemFreeAsync and cuMemFree: 1 if the caller may not free it now. */
CUresult sg_graph_memory_free(uint64_t addr,
                              struct sg_graph_memory **out); /* with a reference; takes the lock */
void sg_graph_memory_unclaim(
    struct sg_graph_memory *m); /* after the free; drops the reference; takes the lock */

/* ---- conditional nodes (graph/sg_graph_condition.c, graph/sg_graph_condition_node.c); under the lock ---- */

/* A number for a new list: sg_cond_hold() adds each condition to that list only once. */
uint64_t sg_cond_list_new(void);
bool sg_cond_hold(struct sg_cond ***list, size_t *n, uint64_t number,
                  struct sg_cond *c); /* false: out of memory */
bool sg_cond_hold_all(struct sg_cond ***list, size_t *n, struct sg_cond *const *from, size_t nfrom);
void sg_cond_drop_all(struct sg_cond **list, size_t n); /* frees list */
bool sg_cond_unused(const struct sg_cond *c);
/* sets the default values at the start of a launch */
void sg_cond_begin(struct sg_cond *const *list, size_t n);
uint32_t sg_cond_value(const struct sg_cond *c);
/* Creates a handle for nodes of g, of a context. assign: each launch starts with that value. 2.
   Takes the lock. */
CUresult sg_cond_new(struct sg_graph *g, uint32_t ctx_id, uint32_t start, bool assign,
                     CUgraphConditionalHandle *out);
void sg_condition_free(struct sg_condition *c);
CUresult sg_condition_add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                          CUDA_CONDITIONAL_NODE_PARAMS *p); /* takes the lock */
/* called on behalf of a kernel; takes no lock of this library */
bool sg_cond_set(void *ctx, uint64_t handle, uint32_t value);

/* ---- called by streams and events ---- */

extern const struct sg_graph_hooks sg_graph_hooks; /* for sg_init() */
/* Adds op to the capture of s, with the result in *r. Returns false if s is not captured. */
bool sg_capture_op(struct sg_stream *s, struct sg_op *op, bool sync, CUresult *r);
/* Under the issue lock of s: refuses work on the legacy stream while blocking streams capture. */
CUresult sg_capture_check_legacy(struct sg_stream *s);
/* For calls that ask whether s captures: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT for the legacy stream
 * while blocking streams capture, whose captures go on (CUDA driver API, cuStreamIsCapturing). */
CUresult sg_capture_check_query(struct sg_stream *s);
/* For calls that query an event: true if it is part of a capture in progress, which is
   invalidated. */
bool sg_capture_ask_event(struct sg_event *e);
/* The same for a capture that has ended, since which the event was not recorded. */
bool sg_capture_left_event(struct sg_event *e);
/* For an external wait: true if the last record of e was captured; a capture of s is invalidated. */
bool sg_capture_refuse_wait(struct sg_stream *s, struct sg_event *e);
/* For calls that wait for or query a stream: 900, with the capture invalidated, if it is
   captured. */
CUresult sg_capture_check_wait(struct sg_stream *s);
CUresult sg_capture_check_ctx(struct sg_ctx *ctx); /* the same for all streams of a context */
/*
 * For calls that are potentially unsafe during a capture (they may synchronise, or use the legacy
 * stream): 900 if the mode of a capture forbids the call to this thread; that capture is
 * invalidated.
 */
CUresult sg_capture_check_unsafe(void);
void sg_capture_list(struct sg_capture *c);   /* the capture has begun; under the lock */
void sg_capture_abandon(struct sg_stream *s); /* s is being destroyed */
void sg_capture_close(struct sg_capture *c);  /* releases its streams; under the lock */
bool sg_capture_record(struct sg_stream *s, struct sg_event *e, CUresult *r);
/* Adds an event node to the capture of s; 1: s is not captured. */
CUresult sg_capture_event(struct sg_stream *s, CUevent event, bool wait);
bool sg_capture_wait(struct sg_stream *s, struct sg_event *e, CUresult *r);
/* Adds a node that allocates or frees m. Returns false if s is not captured. Under the lock. */
bool sg_capture_memory(struct sg_stream *s, CUgraphNodeType type, struct sg_graph_memory *m, CUresult *r);
/* cuMemAllocAsync and cuMemFreeAsync on a captured stream. Returns false if it is not captured. */
bool sg_capture_alloc(struct sg_stream *s, int device, uint64_t bytes, uint32_t access, CUdeviceptr *dptr,
                      CUresult *r);
bool sg_capture_free(struct sg_stream *s, CUdeviceptr dptr, CUresult *r);

/* ---- the objects behind handles, in entry points ---- */

#define SG_GRAPH(var, h) \
    SG_AUTO struct sg_graph *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_check_init(); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
        var = SG_LOOKUP((h), SG_T_GRAPH); \
        if (!var) \
            return CUDA_ERROR_INVALID_VALUE; \
    } while (0)
/* For calls that a capture forbids, after the check of the context. */
#define SG_NOT_CAPTURING() \
    do { \
        CUresult sg_rc_ = sg_capture_check_unsafe(); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)
#define SG_NODE(var, h) \
    SG_AUTO struct sg_node *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_check_init(); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
        var = SG_LOOKUP((h), SG_T_NODE); \
        if (!var) \
            return CUDA_ERROR_INVALID_VALUE; \
    } while (0)

/* ---- operations of nodes, the same that the calls of these names issue ---- */

extern const struct sg_graph_ops sg_device_graph_ops; /* used by kernels: graph/sg_graph_device_graph.c */
CUresult sg_host_op(const CUDA_HOST_NODE_PARAMS *p, struct sg_op **out);
CUresult sg_memop_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct sg_op **out);
/* The parameters of captured operations. */
void sg_host_describe(struct sg_op *op, CUDA_HOST_NODE_PARAMS *p);
/* paramArray is malloc'd. Returns false if out of memory. */
bool sg_memop_describe(struct sg_op *op, CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
/* True if the edge data is equivalent to none. */
bool sg_edges_ordinary(const CUgraphEdgeData *edge, size_t n);
#define SG_EDGES_MAX ((size_t)1 << 24) /* upper limit for arguments */

/* Adds a node with op and takes ownership of op; *node_out (may be NULL) receives a reference. */
CUresult sg_graph_add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                      CUgraphNodeType type, struct sg_op *op, struct sg_graph *child,
                      struct sg_node **node_out);
/* Removes a node that was just added, regardless of the state of its graph. */
void sg_graph_take_back(CUgraphNode hNode);
/* As cuGraphAddChildGraphNode, but moves the child to the node instead of copying it. */
CUresult sg_graph_move(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                       CUgraph childGraph);
/* Replaces the operation of a node's counterpart in an executable graph; takes ownership of it. */
CUresult sg_exec_replace(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeType type, struct sg_op *op);

/* ---- executable graphs ---- */

struct sg_graph_exec {
    struct sg_obj obj;
    unsigned long long flags;
    SG_COUNTED struct sg_program *program; /* replaced as a whole, under sg_graph_lock */
    /* graph that allows no other executable graph, a reference; or NULL */
    SG_COUNTED struct sg_graph *only;
    /* stream of the last launch, a reference; under sg_graph_lock */
    SG_COUNTED struct sg_stream *last;
    uint64_t last_seq;
    struct sg_ghold hold; /* under sg_graph_lock */
    /* State of launches from the device; under sg_graph_lock (graph/sg_graph_device_graph.c). */
    SG_LISTED struct sg_graph_exec *next_known;
    uint64_t name; /* name used by kernels */
    bool uploaded; /* uploaded since the last change */
    bool queued;   /* launched by a kernel and not started yet */
    bool running;
};

/* ---- graphs that kernels launch (graph/sg_graph_device_graph.c) ---- */

/* 0 if the device may launch p, or op as a node of such a graph; 801 if not; 1 if it is empty. */
CUresult sg_device_graph_check(const struct sg_ctx *ctx, const struct sg_program *p,
                               CUgraphInstantiateResult *why, uint64_t *node);
CUresult sg_device_graph_check_op(const struct sg_ctx *ctx, CUgraphNodeType type, struct sg_op *op);
/* call when it has its handle, which is its name; under the lock */
void sg_device_graph_add(struct sg_graph_exec *x);
/* under the lock; does nothing if it is not in the list */
void sg_device_graph_drop(struct sg_graph_exec *x);
/* Runs p, and then the graphs launched by its kernels; x may be NULL. */
CUresult sg_device_graph_run(struct sg_graph_exec *x, struct sg_program *p, struct sg_gclaim *claim,
                             struct sg_stream *s);
/* A kernel of sg_genv_now has ended: runs the fire-and-forget graphs that it launched. */
CUresult sg_device_graph_drain(struct sg_stream *s);
/* Runs the steps of p as part of the graph that s runs. */
CUresult sg_program_run(struct sg_program *p, struct sg_gclaim *claim, struct sg_stream *s);
/* ---- branches (graph/sg_graph_branches.c) ---- */

/* A level that is not a chain: the units of p from step `from` up to, and excluding, step `to`. */
struct sg_level {
    SG_LENT struct sg_program *p;
    size_t from, to;
    SG_LENT struct sg_stream *s;
    /* runs a unit; called by any thread, several at once */
    CUresult (*run)(void *arg, size_t step, struct sg_stream *s);
    void *arg;
};
/* Adds the number of event records that each unit waits for to left, indexed from l->from.
   Returns false if out of memory. The caller frees *out, which may be NULL.
   (graph/sg_graph_branch_events.c) */
struct sg_branch_events;
bool sg_branch_events_new(const struct sg_level *l, uint32_t *left, struct sg_branch_events **out);
void sg_branch_events_free(struct sg_branch_events *e);
/* Called when a unit has ended: calls go() for each unit that waits for one record less. */
void sg_branch_events_over(struct sg_branch_events *e, uint32_t unit, void (*go)(void *arg, uint32_t unit),
                           void *arg);
/*
 * Runs the units and returns when none runs any more, with the first failure in *r; no unit is
 * started after a failure. Returns false if out of memory; then nothing was run.
 */
bool sg_branches_run(const struct sg_level *l, CUresult *r);

/* Issues a launch of x on s. */
CUresult sg_graph_exec_launch(struct sg_graph_exec *x, struct sg_stream *s);
void sg_graph_exec_uploaded(struct sg_graph_exec *x);
/* A launch as an operation of a stream; graph_captured() makes it the operation of a node. */
struct sg_graph_launch {
    struct sg_op op;
    SG_COUNTED struct sg_program *program; /* a reference */
    SG_COUNTED struct sg_graph_exec *exec; /* a reference; NULL once captured: see serialise_launch() */
    SG_OWNED struct sg_gclaim *claim;      /* claim of memory; or NULL */
};
/* The program of a captured launch. */
static inline struct sg_program *sg_graph_op_program(struct sg_op *op)
{
    return ((struct sg_graph_launch *)op)->program;
}
/* The error with which the context's work must stop; 0: continue. */
CUresult sg_stream_stopped(const struct sg_stream *s);
/* Exported for the program that loads the library: sets the name that kernels use instead of the
   handle. */
CUresult sg_graph_exec_name(CUgraphExec hGraphExec, uint64_t name);

#define SG_GRAPH_EXEC(var, h) \
    SG_AUTO struct sg_graph_exec *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_check_init(); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
        var = SG_LOOKUP((h), SG_T_GRAPH_EXEC); \
        if (!var) \
            return CUDA_ERROR_INVALID_VALUE; \
    } while (0)

#endif
