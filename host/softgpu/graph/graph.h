/* SPDX-License-Identifier: MIT */
/*
 * Graphs and stream capture. A node holds the very operation that a stream would have run; running a
 * graph runs its operations in an order that its edges allow, those of independent branches at once
 * when one of them takes long (graph/branches.c).
 *
 * One lock, sg_graph_lock, guards all graphs, nodes and captures; it is taken after a context's issue
 * lock and before an event's.
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

/* That a node depends on another, as that one of its dependencies. */
struct sg_node_user {
    SG_LISTED struct sg_node *node;
    size_t dep;
};

struct sg_node {
    struct sg_obj obj;
    SG_LISTED struct sg_graph *graph; /* valid while the node is in it, else NULL */
    CUgraphNodeType type;
    SG_COUNTED struct sg_graph_op *gop;
    SG_COUNTED struct sg_graph *child; /* a reference: CU_GRAPH_NODE_TYPE_GRAPH */
    SG_COUNTED struct sg_node **deps;  /* nodes of the same graph */
    CUgraphEdgeData *edge;             /* of each of deps; NULL: all ordinary. They run as ordinary ones */
    size_t *dep_at;                    /* of each of deps: where it lists this node among its users */
    size_t ndeps, cap_deps;
    uint32_t
        *dep_slot;    /* many deps: an open hash of their places in it, + 1; NULL: they are looked through */
    size_t dep_slots; /* a power of two */
    SG_OWNED struct sg_node_user *users; /* nodes that depend on this one */
    size_t nusers, cap_users;
    size_t index;      /* in the graph's nodes */
    uint64_t number;   /* counts the nodes that were made for the graph */
    uint64_t original; /* handle of the node that this is a clone of */
    bool has_params;   /* made by a call with parameters, not by capture */
    union {
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        CUDA_HOST_NODE_PARAMS host;
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch; /* paramArray is the node's */
    } params;
    void **kernel_params;                   /* what GetParams handed out; freed with the node */
    CUlaunchAttributeValue *attrs;          /* of a kernel node, by id; NULL: none was set */
    SG_COUNTED struct sg_graph_memory *mem; /* a reference: nodes that allocate or free */
    SG_OWNED struct sg_condition *cond;     /* a conditional node's: see graph/condition.c */
    bool mark;
    size_t pos;    /* where its step is, while a program is made */
    size_t fronts; /* places of captures' fronts that name it */
};

/*
 * Memory of a graph (graph/memory_node.c): an address that an allocation node has for as long as anything may
 * allocate or use it. Launches claim it; while nobody does it is dormant. All under the lock.
 */
struct sg_graph_memory {
    uint32_t refs; /* of nodes, programs and claims */
    uint64_t addr, size;
    int device;
    uint64_t owner;     /* id of the graph that allocates it */
    bool freed_inside;  /* its graph has a node that frees it */
    bool freed_outside; /* another graph has */
    size_t step;        /* that allocates it, while a program is made; SIZE_MAX: none yet */
    bool unfreed;       /* in the order of calls: allocated, and not freed by anybody yet */
    unsigned claims;    /* launches that allocated it and whose free has not happened yet */
    const void *by;     /* the claim of the launch that allocated it, until it is freed; to compare only */
    CUmemAccessDesc *access; /* as given; for GetParams */
    size_t naccess;
};

/* A conditional handle, a number that kernels know (graph/condition.c). */
struct sg_cond;
/* The additional state of a conditional node. */
struct sg_condition {
    SG_COUNTED struct sg_cond *cond; /* held */
    CUgraphConditionalNodeType type;
    unsigned size;
    SG_COUNTED struct sg_graph **body; /* each a reference; theirs is the node */
    CUgraph *handles;                  /* the same, for the application */
};

/* User objects that a graph or a program holds (graph/user_object.c); under the lock. */
struct sg_uobj;
struct sg_urefs {
    struct sg_uref {
        SG_COUNTED struct sg_uobj *u;
        unsigned count;
    } * SG_OWNED ref;
    size_t n;
};

/*
 * A graph that is in no other and all graphs below it; each of them has a reference. Under the lock. Copies of a graph in
 * itself double it with each call, hence the bound.
 */
struct sg_graph_family {
    size_t graphs; /* the references */
    size_t nodes;  /* of all of them */
};
#define SG_GRAPH_MAX ((size_t)1 << 20) /* nodes and graphs of a family; steps of a program */

struct sg_graph {
    struct sg_obj obj;
    SG_COUNTED struct sg_node **nodes; /* each a reference; in order, with gaps until sg_graph_settle() */
    size_t n, end, cap;                /* nodes; with gaps; room */
    uint64_t made;                     /* nodes so far, with those that are gone */
    struct sg_urefs urefs;
    bool owned;      /* a node has it: not the application's to destroy or to make executable */
    bool body;       /* of a conditional node, or below one */
    bool has_memory; /* nodes that allocate or free, here or, mostly, below: see sg_graph_contents() */
    uint64_t id;     /* never used again, unlike an address */
    SG_COUNTED struct sg_graph_family *family;
    unsigned level;                    /* so many graphs are above it */
    unsigned execs;                    /* executable graphs of it, where there may be only one */
    SG_COUNTED struct sg_cond **conds; /* made for it; held */
    size_t nconds;
};

/*
 * Which steps wait for which, for programs that are not one chain; shared by copies of a program. A step
 * and all that is below it (a child graph, the graphs of a conditional node) are one unit: edges join
 * units of the same level. Units follow each other in an order that the edges allow.
 */
struct sg_edges {
    _Atomic uint32_t refs;
    uint32_t *waits; /* by step: how many units it waits for */
    uint32_t *first; /* by step, and one more: where in `next` the units that wait for it begin */
    uint32_t *next;
};
/* from and to of each of n edges, of a program of so many steps; NULL: no memory. */
struct sg_edges *sg_edges_new(const uint32_t (*pair)[2], size_t n, size_t steps);
void sg_edges_put(struct sg_edges *e);
/*
 * Indexes of the nodes of g in an order that its edges allow, those of a cycle and behind it left out: *n of them, to be
 * freed; NULL: no memory. Under the lock (graph/order.c).
 */
uint32_t *sg_graph_order(const struct sg_graph *g, size_t *n);

/* What an executable graph runs; does not change once made. */
struct sg_step_index;
struct sg_program {
    _Atomic uint32_t refs;
    bool wide;                         /* the uppermost level is no chain */
    SG_COUNTED struct sg_edges *edges; /* a reference; NULL: every level is a chain */
    SG_COUNTED struct sg_step_index
        *index;                        /* a reference; NULL: no step was looked up yet; under sg_graph_lock */
    uint64_t peak[SG_MAX_DEVICES];     /* the most memory that it frees itself and can have at one time */
    struct sg_urefs urefs;             /* of the graph and its children */
    bool events;                       /* there are event nodes: see issue_events() */
    bool memory;                       /* there are nodes that allocate or free */
    unsigned levels;                   /* graphs within each other, at most: see SG_GRAPH_LEVELS_MAX */
    size_t steps;                      /* its own and those of captured launches, at every depth */
    SG_COUNTED struct sg_cond **conds; /* whose values a launch may set; held */
    size_t nconds;
    size_t n;
    struct sg_step {
        SG_COUNTED struct sg_graph_op *gop;
        CUgraphNodeType type;
        uint64_t node;  /* handle of the node it came from; 0: the body of a conditional node */
        uint64_t edges; /* stands for what it depends on */
        uint32_t child; /* so many of the following steps are below it */
        bool wide;      /* child graphs, bodies: the steps below are no chain */
        bool waits;     /* it waits for an event, or one below it does */
        bool disabled;
        SG_COUNTED struct sg_graph_memory *mem; /* a reference */
        size_t other;                 /* memory: the step that frees, or allocates, it; SIZE_MAX: none */
        SG_LENT struct sg_cond *cond; /* one of conds */
        CUgraphConditionalNodeType cond_type;
        unsigned cond_size; /* bodies: so many steps without a node follow, each with its own */
    } step[];
};

struct sg_capture {
    _Atomic uint32_t refs;
    SG_COUNTED struct sg_graph *graph;     /* a reference */
    SG_LENT struct sg_stream *origin;      /* one of streams */
    SG_COUNTED struct sg_stream **streams; /* each a reference */
    size_t nstreams;
    uint64_t first; /* number of the first node that was captured */
    CUstreamCaptureMode mode;
    pthread_t thread;
    unsigned long long id;
    bool own; /* the graph was made for this capture, not given */
    bool invalid, ended;
    SG_LISTED struct sg_front *fronts;          /* of streams and events; each holds the capture */
    SG_LISTED struct sg_capture *next, **pprev; /* all that have not ended */
};

/*
 * The last nodes of a captured stream, or those of it that an event stands for: what comes next depends on them.
 * They are nodes of the capture's graph; all fronts of a capture are in its list, so that a node that is taken out of
 * the graph leaves every one of them.
 */
struct sg_front {
    SG_COUNTED struct sg_capture *capture; /* a reference, or NULL */
    SG_COUNTED struct sg_node **nodes;     /* each a reference */
    size_t n;
    SG_LISTED struct sg_front *next, **pprev; /* capture->fronts; pprev NULL: in no list */
};

#define SG_NEST_MAX 64 /* child graphs within child graphs: bounds recursion */
/*
 * Graphs within each other that a thread runs, of whichever kind: children, bodies, captured launches, launches by kernels.
 * Bounds the stack of a stream's thread, of which a level takes about 600 bytes: each kind alone would multiply the others.
 */
#define SG_GRAPH_LEVELS_MAX (2u * SG_NEST_MAX)

struct sg_graph *sg_graph_new(void); /* registered, with a reference for the caller; or NULL */
/* What there is in g and below it; handles of conditions, too. Under the lock. */
struct sg_graph_contents {
    bool memory, condition;
    unsigned height; /* levels of graphs below g */
};
struct sg_graph_contents sg_graph_contents(const struct sg_graph *g);
/* 801: below `above`, g would be nested too deeply, or they and a node would be more than SG_GRAPH_MAX. Under the lock. */
CUresult sg_graph_may_attach(const struct sg_graph *g, const struct sg_graph *above);
CUresult sg_graph_too_large(void); /* 801, with the bound in a text */
CUresult
sg_graph_may_grow(const struct sg_graph *g); /* 801: no node more, for the same reason. Under the lock */
/* g comes to a node of `above`, unless it may not: then nothing happens. Under the lock. */
CUresult sg_graph_attach(struct sg_graph *g, const struct sg_graph *above);
/* Closes the gaps that removed nodes left: before nodes is walked. Under the lock. */
void sg_graph_settle(const struct sg_graph *g);
/* Adds a node that depends on deps and takes op over (also on failure). With a reference. */
CUresult sg_node_new(struct sg_graph *g, CUgraphNodeType type, struct sg_op *op, struct sg_node *const *deps,
                     size_t ndeps, struct sg_node **out);
/*
 * The only way into deps: n depends on dep, with edge data (NULL: an ordinary edge). An edge that is there stays as it
 * is. 1: dep is not in the graph of n.
 */
CUresult sg_node_add_edge(struct sg_node *n, struct sg_node *dep, const CUgraphEdgeData *edge);
/* Where dep is in n->deps; SIZE_MAX: nowhere. */
size_t sg_node_find_dep(const struct sg_node *n, const struct sg_node *dep);
void sg_node_drop_dep(struct sg_node *n, size_t k);
void sg_node_drop_deps(struct sg_node *n);
CUgraphEdgeData sg_node_edge(const struct sg_node *n, size_t k);
void sg_node_set_op(struct sg_node *n, struct sg_op *op, CUresult *r);
/* Takes n out of its graph, the dependencies of the others and the fronts of captures. */
void sg_node_remove(struct sg_node *n);
/* n is no longer in the list of its graph: its edges, its handle and the graph's reference to it go. */
void sg_node_leave(struct sg_node *n);
/* 1: a cycle, or what a body may not have; *why (may be NULL) and *bad: the node, or 0. */
CUresult sg_program_new(struct sg_graph *g, struct sg_program **out, CUgraphInstantiateResult *why,
                        uint64_t *bad);
void sg_program_put(struct sg_program *p);
/* The step of a node; NULL: there is none. Under the lock. */
struct sg_step *sg_program_step(struct sg_program *p, uint64_t node);
/* The steps of both have the same nodes. Under the lock. */
void sg_step_index_share(struct sg_program *to, const struct sg_program *from);
void sg_step_index_put(struct sg_step_index *x);
struct sg_program *sg_program_copy(const struct sg_program *p); /* NULL: no memory */
CUresult sg_program_check_levels(unsigned levels);              /* 801: more than SG_GRAPH_LEVELS_MAX */
/* How many graphs of p the graph that has this step is below. */
unsigned sg_program_level(const struct sg_program *p, size_t step);
struct sg_graph_op *sg_graph_op_new(struct sg_op *op); /* takes op over; NULL: no memory, op ended */
void sg_graph_op_get(struct sg_graph_op *gop);
void sg_graph_op_put(struct sg_graph_op *gop);

/* A user object with a handle and so many references of the application; false: no memory. */
bool sg_uobj_new(void *ptr, CUhostFn destroy, unsigned refs, CUuserObject *out);
void sg_uobj_retain(struct sg_uobj *u, unsigned n);
CUresult sg_uobj_release(struct sg_uobj *u, unsigned n); /* 1: the application has fewer */
/* A list that held it does so no more. */
void sg_uobj_let_go(struct sg_uobj *u);
/* Takes count references of u out of a list; false: it has fewer. *gone: none is left, the caller releases u. */
bool sg_urefs_drop(struct sg_urefs *l, const struct sg_uobj *u, unsigned count, bool *gone);
bool sg_urefs_add(struct sg_urefs *l, struct sg_uobj *u, unsigned count); /* false: no memory */
/* Adds one reference each. False: no memory. */
bool sg_urefs_copy(struct sg_urefs *to, const struct sg_urefs *from);
/* The same without a look at what is there already: one object may then be in the list several times. */
bool sg_urefs_append(struct sg_urefs *to, const struct sg_urefs *from);
void sg_urefs_sort(struct sg_urefs *l); /* ... and once again afterwards */
void sg_urefs_clear(struct sg_urefs *l);

/* The nodes of g behind handles, each with a reference; 1 when one is not in g. */
CUresult sg_nodes_get(struct sg_graph *g, const CUgraphNode *handles, size_t n, struct sg_node ***out);
CUresult sg_nodes_get_locked(struct sg_graph *g, const CUgraphNode *handles, size_t n, struct sg_node ***out);
void sg_nodes_put(struct sg_node **nodes, size_t n); /* NULL is fine */

void sg_front_clear(struct sg_front *f);
/* 1: one of the nodes is not in the capture's graph. */
CUresult sg_front_set(struct sg_front *f, struct sg_capture *c, struct sg_node *const *nodes, size_t n);
CUresult sg_front_merge(struct sg_front *f, struct sg_node *const *nodes, size_t n); /* the same */
/* n leaves g: no capture names it any more. Under the lock, as all of these. */
void sg_captures_forget_node(const struct sg_graph *g, struct sg_node *n);
bool sg_graph_captured(const struct sg_graph *g); /* a capture into it has not ended */
void sg_capture_put(struct sg_capture *c);

/* ---- memory of graphs (graph/memory_node.c); under the lock ---- */

void sg_graph_memory_get(struct sg_graph_memory *m); /* NULL is fine */
void sg_graph_memory_put(struct sg_graph_memory *m);
/* Bytes for what launches free themselves, of an executable graph: those run one after the other, so
 * it is the most that one of those under way needs. */
struct sg_ghold {
    unsigned pending;
    uint64_t held[SG_MAX_DEVICES];
};
/* Fills p->peak in. False: no memory. */
bool sg_graph_memory_find_peak(struct sg_program *p);
/* What a launch does to the memory of its program, in the order of calls. */
struct sg_gclaim {
    SG_LENT struct sg_ghold *hold;
    bool *taken; /* by step: claimed, or its free announced, by this launch */
    bool *ran;   /* by step: it has been run; under the lock */
    bool issued; /* else nothing of it happens */
};
/* 1: allocated and not freed; 2. `again`: auto-free on launch. *out is malloc'd. */
CUresult sg_gclaim_new(const struct sg_program *p, bool again, struct sg_ghold *hold, struct sg_gclaim **out);
/* Step number `step`, which allocates or frees, is run. Takes the lock. */
void sg_gclaim_step(const struct sg_program *p, struct sg_gclaim *c, size_t step);
void sg_gclaim_end(const struct sg_program *p, struct sg_gclaim *c); /* frees c; takes the lock */
/* Adds a node that allocates as p, which is valid, says, or one that frees; these take the lock. */
CUresult sg_graph_memory_add_alloc(struct sg_graph *g, const CUgraphNode *dependencies, size_t n,
                                   CUDA_MEM_ALLOC_NODE_PARAMS *p, CUgraphNode *out);
CUresult sg_graph_memory_add_free(struct sg_graph *g, const CUgraphNode *dependencies, size_t n,
                                  uint64_t addr, CUgraphNode *out);
/* What is reserved for graphs and not used goes back to the device. */
void sg_graph_memory_trim(int device);
bool sg_graph_memory_attribute(int device, CUgraphMem_attribute attr, cuuint64_t *value); /* false: unknown */
void sg_graph_memory_reset_high(int device, CUgraphMem_attribute attr); /* a high watermark */
/* cuMemFreeAsync and cuMemFree: 1 when it is not the caller's to free now. */
CUresult sg_graph_memory_free(uint64_t addr,
                              struct sg_graph_memory **out); /* with a reference; takes the lock */
void sg_graph_memory_unclaim(
    struct sg_graph_memory *m); /* that happened; lets the reference go; takes the lock */

/* ---- conditional nodes (graph/condition.c); under the lock ---- */

/* A number for a list that is being made: sg_cond_hold() takes each condition into it once. */
uint64_t sg_cond_list_new(void);
bool sg_cond_hold(struct sg_cond ***list, size_t *n, uint64_t number,
                  struct sg_cond *c); /* false: no memory */
bool sg_cond_hold_all(struct sg_cond ***list, size_t *n, struct sg_cond *const *from, size_t nfrom);
void sg_cond_drop_all(struct sg_cond **list, size_t n); /* frees list */
bool sg_cond_unused(const struct sg_cond *c);
void sg_cond_begin(struct sg_cond *const *list, size_t n); /* default values, at a launch's start */
uint32_t sg_cond_value(const struct sg_cond *c);
/* A handle for nodes of g, of a context; assign: each launch begins with that value. 2. Takes the lock. */
CUresult sg_cond_new(struct sg_graph *g, uint32_t ctx_id, uint32_t start, bool assign,
                     CUgraphConditionalHandle *out);
void sg_condition_free(struct sg_condition *c);
CUresult sg_condition_add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                          CUDA_CONDITIONAL_NODE_PARAMS *p);   /* takes the lock */
bool sg_cond_set(void *ctx, uint64_t handle, uint32_t value); /* a kernel did; takes no lock of ours */

/* ---- asked by streams and events ---- */

extern const struct sg_graph_hooks sg_graph_hooks; /* for sg_init() */
/* Takes op into the capture that s is part of. False: s is not captured; *r says how it went. */
bool sg_capture_op(struct sg_stream *s, struct sg_op *op, bool sync, CUresult *r);
/* Under the issue lock of s: work on the legacy stream is refused while blocking ones capture. */
CUresult sg_capture_check_legacy(struct sg_stream *s);
/* For calls that ask about an event: true if it is of a capture, which is lost if it still goes on. */
bool sg_capture_ask_event(struct sg_event *e);
/* For calls that wait or ask: 900 (and the capture is lost) on a captured stream. */
CUresult sg_capture_check_wait(struct sg_stream *s);
CUresult sg_capture_check_ctx(struct sg_ctx *ctx); /* the same for all streams of a context */
/*
 * For calls that are potentially unsafe while a stream captures (they may synchronise, or use the
 * legacy stream): 900, and the captures whose mode forbids it to this thread are lost.
 */
CUresult sg_capture_check_unsafe(void);
void sg_capture_list(struct sg_capture *c);   /* it has begun; under the lock */
void sg_capture_abandon(struct sg_stream *s); /* s is being destroyed */
void sg_capture_close(struct sg_capture *c);  /* lets its streams go; under the lock */
bool sg_capture_record(struct sg_stream *s, struct sg_event *e, CUresult *r);
/* Makes an event node of the capture that s is part of; 1: there is none. */
CUresult sg_capture_event(struct sg_stream *s, CUevent event, bool wait);
bool sg_capture_wait(struct sg_stream *s, struct sg_event *e, CUresult *r);
/* Makes a node that allocates or frees m. False: s is not captured. Under the lock. */
bool sg_capture_memory(struct sg_stream *s, CUgraphNodeType type, struct sg_graph_memory *m, CUresult *r);
/* cuMemAllocAsync and cuMemFreeAsync on a captured stream. False: it is not captured. */
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
/* For the calls that a capture forbids, after the context is checked. */
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

/* ---- operations for nodes: as the calls of the same name would issue them ---- */

extern const struct sg_graph_ops sg_device_graph_ops; /* for kernels: graph/device_graph.c */
CUresult sg_host_op(const CUDA_HOST_NODE_PARAMS *p, struct sg_op **out);
CUresult sg_memop_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct sg_op **out);
/* The parameters of operations that were captured. */
void sg_host_describe(struct sg_op *op, CUDA_HOST_NODE_PARAMS *p);
/* paramArray is malloc'd. False: no memory. */
bool sg_memop_describe(struct sg_op *op, CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
/* Edge data that says no more than none does. */
bool sg_edges_ordinary(const CUgraphEdgeData *edge, size_t n);
#define SG_EDGES_MAX ((size_t)1 << 24) /* more are a mistake */

/* Adds a node with op, which it takes over; *node_out (may be NULL) comes with a reference. */
CUresult sg_graph_add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                      CUgraphNodeType type, struct sg_op *op, struct sg_graph *child,
                      struct sg_node **node_out);
/* Removes a node that was just added, whatever its graph has. */
void sg_graph_take_back(CUgraphNode hNode);
/* As cuGraphAddChildGraphNode, but the child itself becomes the node's. */
CUresult sg_graph_move(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                       CUgraph childGraph);
/* Gives a node's counterpart in an executable graph another operation, which it takes over. */
CUresult sg_exec_replace(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeType type, struct sg_op *op);

/* ---- executable graphs ---- */

struct sg_graph_exec {
    struct sg_obj obj;
    unsigned long long flags;
    SG_COUNTED struct sg_program *program; /* replaced as a whole, under sg_graph_lock */
    SG_COUNTED struct sg_graph *only;      /* a reference: the graph that may have no other; or NULL */
    SG_COUNTED struct sg_stream *last;     /* of the last launch, a reference; under sg_graph_lock */
    uint64_t last_seq;
    struct sg_ghold hold; /* under sg_graph_lock */
    /* Launches from the device; under sg_graph_lock (graph/device_graph.c). */
    SG_LISTED struct sg_graph_exec *next_known;
    uint64_t name; /* what kernels call it */
    bool uploaded; /* since it was last changed */
    bool queued;   /* a kernel launched it, and it has not begun */
    bool running;
};

/* ---- graphs that kernels launch (graph/device_graph.c) ---- */

/* 0 if the device may launch p, or op as a node of such a graph; else 801, or 1 when it is empty. */
CUresult sg_device_graph_check(const struct sg_ctx *ctx, const struct sg_program *p,
                               CUgraphInstantiateResult *why, uint64_t *node);
CUresult sg_device_graph_check_op(const struct sg_ctx *ctx, CUgraphNodeType type, struct sg_op *op);
void sg_device_graph_add(struct sg_graph_exec *x);  /* it has its handle, which is its name; under the lock */
void sg_device_graph_drop(struct sg_graph_exec *x); /* under the lock; not in the list: nothing happens */
/* Runs p, and then what its kernels launched; x: may be NULL. */
CUresult sg_device_graph_run(struct sg_graph_exec *x, struct sg_program *p, struct sg_gclaim *claim,
                             struct sg_stream *s);
/* A kernel of sg_genv_now has ended: runs what it launched to be forgotten. */
CUresult sg_device_graph_drain(struct sg_stream *s);
/* The steps of p, in the graph that s runs. */
CUresult sg_program_run(struct sg_program *p, struct sg_gclaim *claim, struct sg_stream *s);
/* ---- branches (graph/branches.c) ---- */

/* A level that is no chain: units of p from step `from` up to, and without, step `to`. */
struct sg_level {
    SG_LENT struct sg_program *p;
    size_t from, to;
    SG_LENT struct sg_stream *s;
    CUresult (*run)(void *arg, size_t step, struct sg_stream *s); /* a unit; by any thread, several at once */
    void *arg;
};
/* Adds to left, by step from l->from on, the records of events that each unit waits for. False: no memory; *out, which may
 * be NULL then, is to be freed. (graph/branch_events.c) */
struct sg_branch_events;
bool sg_branch_events_new(const struct sg_level *l, uint32_t *left, struct sg_branch_events **out);
void sg_branch_events_free(struct sg_branch_events *e);
/* A unit is over: go() for each that waits for one record less. */
void sg_branch_events_over(struct sg_branch_events *e, uint32_t unit, void (*go)(void *arg, uint32_t unit),
                           void *arg);
/*
 * Runs them, and returns when none runs any more: with the first failure, after which no further one
 * was begun. False: no memory, nothing was run.
 */
bool sg_branches_run(const struct sg_level *l, CUresult *r);

/* Issues a launch of x on s. */
CUresult sg_graph_exec_launch(struct sg_graph_exec *x, struct sg_stream *s);
void sg_graph_exec_uploaded(struct sg_graph_exec *x);
struct sg_program *sg_graph_op_program(struct sg_op *op); /* of a launch that was captured */
/* True if the work of the context must stop. */
CUresult sg_stream_stopped(const struct sg_stream *s);
/* Exported for the loader of the library: the name that kernels use in place of the handle. */
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
