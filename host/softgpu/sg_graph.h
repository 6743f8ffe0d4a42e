/* SPDX-License-Identifier: MIT */
/*
 * Graphs and stream capture. A node holds the very operation that a stream would have run; running a
 * graph runs its operations one after the other, in an order that its edges allow.
 *
 * One lock, sg_graph_lock, guards all graphs, nodes and captures; it is taken after a context's issue
 * lock and before an event's.
 */
#ifndef SG_GRAPH_H
#define SG_GRAPH_H

#include "sg_int.h"

extern pthread_mutex_t sg_graph_lock;

/* An operation shared by nodes, their clones and programs. */
struct sg_gop {
    _Atomic uint32_t refs;
    struct sg_op *op; /* NULL: nothing to run */
};

struct sg_node {
    struct sg_obj obj;
    struct sg_graph *graph; /* valid while the node is in it, else NULL */
    CUgraphNodeType type;
    struct sg_gop *gop;
    struct sg_graph *child; /* a reference: CU_GRAPH_NODE_TYPE_GRAPH */
    struct sg_node **deps;  /* nodes of the same graph */
    CUgraphEdgeData *edge;  /* of each of deps; NULL: all ordinary. They run as ordinary ones */
    size_t ndeps, cap_deps, index;
    uint64_t original; /* handle of the node that this is a clone of */
    bool has_params;   /* made by a call with parameters, not by capture */
    union {
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS set;
        CUDA_HOST_NODE_PARAMS host;
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch; /* paramArray is the node's */
    } params;
    void **kernel_params; /* what GetParams handed out; freed with the node */
    CUlaunchAttributeValue *attrs; /* of a kernel node, by id; NULL: none was set */
    struct sg_gmem *mem; /* a reference: nodes that allocate or free */
    struct sg_condition *cond; /* a conditional node's: see sg_gcond.c */
    bool mark;
    size_t pos; /* where its step is, while a program is made */
};

/*
 * Memory of a graph (sg_gmem.c): an address that an allocation node has for as long as anything may
 * allocate or use it. Launches claim it; while nobody does it is dormant. All under the lock.
 */
struct sg_gmem {
    uint32_t refs; /* of nodes, programs and claims */
    uint64_t addr, size;
    int device;
    const struct sg_graph *owner; /* compare only */
    bool freed_inside;  /* its graph has a node that frees it */
    bool freed_outside; /* another graph has */
    bool unfreed;       /* in the order of calls: allocated, and not freed by anybody yet */
    unsigned claims;    /* launches that allocated it and whose free has not happened yet */
    CUmemAccessDesc *access; /* as given; for GetParams */
    size_t naccess;
};

/* A conditional handle, a number that kernels know (sg_gcond.c). */
struct sg_cond;
/* What a conditional node has beyond other nodes. */
struct sg_condition {
    struct sg_cond *cond; /* held */
    CUgraphConditionalNodeType type;
    unsigned size;
    struct sg_graph **body; /* each a reference; theirs is the node */
    CUgraph *handles;       /* the same, for the application */
};

/* User objects that a graph or a program holds (sg_drv_userobj.c); under the lock. */
struct sg_uobj;
struct sg_urefs {
    struct sg_uref {
        struct sg_uobj *u;
        unsigned count;
    } *ref;
    size_t n;
};

struct sg_graph {
    struct sg_obj obj;
    struct sg_node **nodes; /* each a reference */
    size_t n, cap;
    struct sg_urefs urefs;
    bool owned;      /* a node has it: not the application's to destroy or to make executable */
    bool body;       /* of a conditional node, or below one */
    bool has_memory; /* nodes that allocate or free, here or in a child */
    bool has_condition;
    unsigned execs;  /* executable graphs of it, where there may be only one */
    struct sg_cond **conds; /* made for it; held */
    size_t nconds;
};

/* What an executable graph runs; does not change once made. */
struct sg_program {
    _Atomic uint32_t refs;
    struct sg_urefs urefs; /* of the graph and its children */
    bool events; /* there are event nodes: see sg_program_issued() */
    bool memory; /* there are nodes that allocate or free */
    struct sg_cond **conds; /* whose values a launch may set; held */
    size_t nconds;
    size_t n;
    struct sg_step {
        struct sg_gop *gop;
        CUgraphNodeType type;
        uint64_t node;  /* handle of the node it came from; 0: the body of a conditional node */
        uint64_t edges; /* stands for what it depends on */
        uint32_t child; /* so many of the following steps are below it */
        bool disabled;
        struct sg_gmem *mem;  /* a reference */
        size_t other;         /* memory: the step that frees, or allocates, it; SIZE_MAX: none */
        struct sg_cond *cond; /* one of conds */
        CUgraphConditionalNodeType cond_type;
        unsigned cond_size; /* bodies: so many steps without a node follow, each with its own */
    } step[];
};

struct sg_capture {
    _Atomic uint32_t refs;
    struct sg_graph *graph; /* a reference */
    struct sg_stream *origin; /* one of streams */
    struct sg_stream **streams; /* each a reference */
    size_t nstreams;
    size_t first; /* index of the first node that was captured */
    CUstreamCaptureMode mode;
    pthread_t thread;
    unsigned long long id;
    bool own; /* the graph was made for this capture, not given */
    bool invalid, ended;
    struct sg_capture *next, **pprev; /* all that have not ended */
};

/* The last nodes of a captured stream: what comes next depends on them. */
struct sg_front {
    struct sg_capture *capture; /* a reference, or NULL */
    struct sg_node **nodes;     /* each a reference */
    size_t n;
};

#define SG_NEST_MAX 64 /* child graphs within child graphs: bounds recursion */

struct sg_graph *sg_graph_new(void); /* registered, with a reference for the caller; or NULL */
/* Adds a node that depends on deps and takes op over (also on failure). With a reference. */
CUresult sg_node_new(struct sg_graph *g, CUgraphNodeType type, struct sg_op *op,
                     struct sg_node *const *deps, size_t ndeps, struct sg_node **out);
bool sg_node_add_dep(struct sg_node *n, struct sg_node *dep); /* once; false: no memory */
/* The same with edge data; and taking an edge away. */
bool sg_node_add_edge(struct sg_node *n, struct sg_node *dep, const CUgraphEdgeData *edge);
void sg_node_drop_dep(struct sg_node *n, size_t k);
CUgraphEdgeData sg_node_edge(const struct sg_node *n, size_t k);
void sg_node_set_op(struct sg_node *n, struct sg_op *op, CUresult *r);
void sg_node_remove(struct sg_node *n); /* out of its graph, with its edges */
/* 1: a cycle, or what a body may not have; *why (may be NULL) and *bad: the node, or 0. */
CUresult sg_program_new(struct sg_graph *g, struct sg_program **out, CUgraphInstantiateResult *why,
                        uint64_t *bad);
void sg_program_put(struct sg_program *p);
struct sg_program *sg_program_copy(const struct sg_program *p); /* NULL: no memory */
struct sg_gop *sg_gop_new(struct sg_op *op); /* takes op over; NULL: no memory, op ended */
void sg_gop_get(struct sg_gop *gop);
void sg_gop_put(struct sg_gop *gop);

bool sg_urefs_add(struct sg_urefs *l, struct sg_uobj *u, unsigned count); /* false: no memory */
bool sg_urefs_copy(struct sg_urefs *to, const struct sg_urefs *from);     /* one reference each */
void sg_urefs_clear(struct sg_urefs *l);

/* The nodes of g behind handles, each with a reference; 1 when one is not in g. */
CUresult sg_nodes_get(struct sg_graph *g, const CUgraphNode *handles, size_t n,
                      struct sg_node ***out);
CUresult sg_nodes_get_locked(struct sg_graph *g, const CUgraphNode *handles, size_t n,
                             struct sg_node ***out);
void sg_nodes_put(struct sg_node **nodes, size_t n); /* NULL is fine */

void sg_front_clear(struct sg_front *f);
CUresult sg_front_set(struct sg_front *f, struct sg_capture *c, struct sg_node *const *nodes,
                      size_t n);
CUresult sg_front_merge(struct sg_front *f, const struct sg_front *from);
void sg_capture_put(struct sg_capture *c);

/* ---- memory of graphs (sg_gmem.c); under the lock ---- */

void sg_gmem_get(struct sg_gmem *m); /* NULL is fine */
void sg_gmem_put(struct sg_gmem *m);
extern _Atomic unsigned sg_gmem_live; /* objects; 0: no memory can be dormant */
bool sg_gmem_dormant(uint64_t addr);  /* takes no lock of ours */
/* An operation meets such memory: the context fails. */
CUresult sg_gmem_fault(struct sg_stream *s, const char *what);
/* Bytes for what launches free themselves, of an executable graph: those run one after the other, so
 * it is the most that one of those under way needs. */
struct sg_ghold {
    unsigned pending;
    uint64_t held[SG_MAX_DEVICES];
};
/* What a launch does to the memory of its program, in the order of calls. */
struct sg_gclaim {
    struct sg_ghold *hold;
    bool *taken;  /* by step: claimed, or its free announced, by this launch */
    bool issued;  /* else nothing of it happens */
    size_t done;  /* steps that have been run */
};
/* 1: allocated and not freed; 2. `again`: auto-free on launch. *out is malloc'd. */
CUresult sg_gclaim_new(const struct sg_program *p, bool again, struct sg_ghold *hold,
                       struct sg_gclaim **out);
void sg_gclaim_step(const struct sg_program *p, size_t step); /* takes the lock */
void sg_gclaim_end(const struct sg_program *p, struct sg_gclaim *c); /* frees c; takes the lock */
/* cuMemFreeAsync and cuMemFree: 1 when it is not the caller's to free now. */
CUresult sg_gmem_free(uint64_t addr, struct sg_gmem **out); /* with a reference; takes the lock */
void sg_gmem_unclaim(struct sg_gmem *m); /* that happened; lets the reference go; takes the lock */

/* ---- conditional nodes (sg_gcond.c); under the lock ---- */

bool sg_cond_hold_all(struct sg_cond ***list, size_t *n, struct sg_cond *const *from, size_t nfrom);
void sg_cond_drop_all(struct sg_cond **list, size_t n); /* frees list */
bool sg_cond_unused(const struct sg_cond *c);
void sg_cond_begin(struct sg_cond *const *list, size_t n); /* default values, at a launch's start */
uint32_t sg_cond_value(const struct sg_cond *c);
void sg_condition_free(struct sg_condition *c);
CUresult sg_condition_add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies,
                          size_t n, CUDA_CONDITIONAL_NODE_PARAMS *p); /* takes the lock */
bool sg_cond_set(void *ctx, uint64_t handle, uint32_t value); /* a kernel did; takes no lock of ours */

/* ---- asked by streams and events ---- */

extern _Atomic unsigned sg_captures; /* captures in progress; 0: nothing below needs asking */
/* Takes op into the capture that s is part of. False: s is not captured; *r says how it went. */
bool sg_capture_op(struct sg_stream *s, struct sg_op *op, bool sync, CUresult *r);
/* Under the issue lock of s: work on the legacy stream is refused while blocking ones capture. */
CUresult sg_capture_check_legacy(struct sg_stream *s);
/* For calls that wait or ask: 900 (and the capture is lost) on a captured stream. */
CUresult sg_capture_check_wait(struct sg_stream *s);
CUresult sg_capture_check_ctx(struct sg_ctx *ctx); /* the same for all streams of a context */
/*
 * For calls that are potentially unsafe while a stream captures (they may synchronise, or use the
 * legacy stream): 900, and the captures whose mode forbids it to this thread are lost.
 */
CUresult sg_capture_check_unsafe(void);
void sg_capture_list(struct sg_capture *c); /* it has begun; under the lock */
void sg_capture_abandon(struct sg_stream *s);      /* s is being destroyed */
void sg_capture_close(struct sg_capture *c);       /* lets its streams go; under the lock */
bool sg_capture_record(struct sg_stream *s, struct sg_event *e, CUresult *r);
/* Makes an event node of the capture that s is part of; 1: there is none. */
CUresult sg_capture_event(struct sg_stream *s, CUevent event, bool wait);
bool sg_capture_wait(struct sg_stream *s, struct sg_event *e, CUresult *r);
/* Makes a node that allocates or frees m. False: s is not captured. Under the lock. */
bool sg_capture_memory(struct sg_stream *s, CUgraphNodeType type, struct sg_gmem *m, CUresult *r);
/* cuMemAllocAsync and cuMemFreeAsync on a captured stream. False: it is not captured. */
bool sg_capture_alloc(struct sg_stream *s, int device, uint64_t bytes, uint32_t access,
                      CUdeviceptr *dptr, CUresult *r);
bool sg_capture_free(struct sg_stream *s, CUdeviceptr dptr, CUresult *r);

/* ---- the objects behind handles, in entry points ---- */

#define SG_GRAPH(var, h)                                                                           \
    SG_AUTO struct sg_graph *var = NULL;                                                           \
    do {                                                                                           \
        CUresult sg_rc_ = sg_check_init();                                                         \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
        var = SG_LOOKUP((h), SG_T_GRAPH);                                                          \
        if (!var)                                                                                  \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
    } while (0)
/* For the calls that a capture forbids, after the context is checked. */
#define SG_NOT_CAPTURING()                                                                         \
    do {                                                                                           \
        CUresult sg_rc_ = sg_capture_check_unsafe();                                               \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
    } while (0)
#define SG_NODE(var, h)                                                                            \
    SG_AUTO struct sg_node *var = NULL;                                                            \
    do {                                                                                           \
        CUresult sg_rc_ = sg_check_init();                                                         \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
        var = SG_LOOKUP((h), SG_T_NODE);                                                           \
        if (!var)                                                                                  \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
    } while (0)

/* ---- operations for nodes: as the calls of the same name would issue them ---- */

CUresult sg_launch_op(struct sg_ctx *ctx, const CUDA_KERNEL_NODE_PARAMS *p, struct sg_op **out);
bool sg_launch_nests(struct sg_op *op); /* its kernel launches kernels */
struct sg_ctx *sg_launch_ctx(struct sg_op *op);
extern const struct sg_graph_ops sg_gdev_ops; /* for kernels: sg_gdevice.c */
CUresult sg_launch_describe(struct sg_op *op, CUDA_KERNEL_NODE_PARAMS *p, void ***storage);
CUresult sg_copy_op(const CUDA_MEMCPY3D *p, struct sg_op **out);
CUresult sg_set_op(const CUDA_MEMSET_NODE_PARAMS *p, struct sg_op **out);
CUresult sg_host_op(const CUDA_HOST_NODE_PARAMS *p, struct sg_op **out);
CUresult sg_memop_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct sg_op **out);
CUresult sg_event_op(CUevent event, bool wait, struct sg_op **out);
CUevent sg_event_of(struct sg_op *op);
/* The parameters of operations that were captured. */
void sg_copy_describe(struct sg_op *op, CUDA_MEMCPY3D *p);
void sg_set_describe(struct sg_op *op, CUDA_MEMSET_NODE_PARAMS *p);
void sg_host_describe(struct sg_op *op, CUDA_HOST_NODE_PARAMS *p);
/* paramArray is malloc'd. False: no memory. */
bool sg_memop_describe(struct sg_op *op, CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
/* Edge data that says no more than none does. */
bool sg_edges_ordinary(const CUgraphEdgeData *edge, size_t n);
#define SG_EDGES_MAX ((size_t)1 << 24) /* more are a mistake */
/* A kernel's operation once more, with another attribute; *cooperative: what it is, or shall be. */
CUresult sg_launch_again(struct sg_op *op, bool cooperative, struct sg_op **out);
bool sg_launch_cooperative(struct sg_op *op);

/* Under the issue lock, when a launch is issued as operation `op` of s: its events stand for it from
 * now on, and it waits for the events that its nodes wait for. */
void sg_program_issued(struct sg_program *p, struct sg_op *op, struct sg_stream *s);
bool sg_event_node_record(struct sg_op *node, struct sg_op *op, struct sg_stream *s);
bool sg_event_node_wait(struct sg_op *node, struct sg_op *op);

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
CUresult sg_exec_replace(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeType type,
                         struct sg_op *op);

#endif
