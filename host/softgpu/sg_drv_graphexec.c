/* SPDX-License-Identifier: MIT */
/* Driver API: making graphs executable, changing and launching them. */
#include <stdlib.h>
#include <string.h>

#include "sg_graph.h"

#define SG_INSTANTIATE_FLAGS                                                                       \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |        \
     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

struct gexec {
    struct sg_obj obj;
    unsigned long long flags;
    struct sg_program *program; /* replaced as a whole, under sg_graph_lock */
    struct sg_graph *only; /* a reference: the graph that may have no other; or NULL */
    struct sg_stream *last; /* of the last launch, a reference; under sg_graph_lock */
    uint64_t last_seq;
    struct sg_ghold hold; /* under sg_graph_lock */
};

#define SG_GEXEC(var, h)                                                                           \
    SG_AUTO struct gexec *var = NULL;                                                              \
    do {                                                                                           \
        CUresult sg_rc_ = sg_check_init();                                                         \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
        var = SG_LOOKUP((h), SG_T_GEXEC);                                                          \
        if (!var)                                                                                  \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
    } while (0)

/* Its graph may have another one from now on. */
static void leave_graph(struct gexec *x)
{
    pthread_mutex_lock(&sg_graph_lock);
    struct sg_graph *g = x->only;

    x->only = NULL;
    if (g)
        g->execs--;
    pthread_mutex_unlock(&sg_graph_lock);
    sg_obj_put((struct sg_obj *)g);
}

static void gexec_free(struct sg_obj *obj)
{
    struct gexec *x = (struct gexec *)obj;

    leave_graph(x);
    sg_program_put(x->program);
    sg_obj_put((struct sg_obj *)x->last);
    free(obj);
}

struct made {
    CUgraphInstantiateResult why;
    uint64_t node; /* at which it failed; 0: none */
};

static CUresult make_locked(struct gexec *x, struct sg_graph *g, struct made *made)
{
    CUresult r;

    if (g->owned)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiate: the graph belongs to a node");
    if ((g->has_memory || g->has_condition) && g->execs) /* documented */
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuGraphInstantiate: a graph with memory or "
                       "conditional nodes can have one executable graph at a time");
    r = sg_program_new(g, &x->program, &made->why, &made->node);
    if (r == CUDA_SUCCESS && (g->has_memory || g->has_condition)) {
        sg_obj_get(&g->obj);
        x->only = g;
        g->execs++;
    }
    return r;
}

/* An executable graph is of the context that was current: with it goes the handle. */
static CUresult instantiate(CUgraphExec *out, CUgraph hGraph, unsigned long long flags,
                            struct made *made)
{
    const unsigned long long known = SG_INSTANTIATE_FLAGS | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    struct gexec *x;
    CUresult r;

    made->why = CUDA_GRAPH_INSTANTIATE_ERROR;
    made->node = 0;
    SG_CTX(ctx);
    SG_AUTO struct sg_graph *g = SG_LOOKUP(hGraph, SG_T_GRAPH);

    if (!out || !g || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) &&
        (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
        return CUDA_ERROR_INVALID_VALUE; /* documented */
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "graphs launched from the device");
    x = calloc(1, sizeof(*x));
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&x->obj, SG_T_GEXEC, ctx, gexec_free);
    x->flags = flags;
    pthread_mutex_lock(&sg_graph_lock);
    r = make_locked(x, g, made);
    pthread_mutex_unlock(&sg_graph_lock);
    if (r == CUDA_SUCCESS && !sg_obj_register(&x->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        *out = SG_HANDLE(CUgraphExec, x);
    sg_obj_put(&x->obj);
    return r;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                             unsigned long long flags)
{
    struct made made;

    return instantiate(phGraphExec, hGraph, flags, &made);
}

static CUresult instantiate_old(CUgraphExec *out, CUgraph hGraph, CUgraphNode *phErrorNode,
                                char *logBuffer, size_t bufferSize)
{
    struct made made;
    CUresult r;

    if (logBuffer && bufferSize)
        logBuffer[0] = '\0';
    r = instantiate(out, hGraph, 0, &made);
    if (phErrorNode)
        *phErrorNode = (CUgraphNode)(uintptr_t)made.node;
    return r;
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
                                       CUgraphNode *phErrorNode, char *logBuffer,
                                       size_t bufferSize)
{
    return instantiate_old(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
                                    CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
    return instantiate_old(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult CUDAAPI cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                              CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    SG_AUTO struct sg_stream *upload = NULL;
    struct made made;
    CUresult r = CUDA_SUCCESS;

    SG_CTX(ctx);
    if (!instantiateParams)
        return CUDA_ERROR_INVALID_VALUE;
    if (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        r = sg_stream_get(ctx, instantiateParams->hUploadStream, &upload);
    if (r != CUDA_SUCCESS) {
        upload = NULL;
        return r;
    }
    r = instantiate(phGraphExec, hGraph, instantiateParams->flags, &made);
    instantiateParams->hErrNode_out = (CUgraphNode)(uintptr_t)made.node;
    instantiateParams->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : made.why;
    return r;
}

CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                                   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    return cuGraphInstantiateWithParams(phGraphExec, hGraph, params);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    SG_GEXEC(x, hGraphExec);
    if (!sg_obj_unregister(&x->obj))
        return CUDA_ERROR_INVALID_VALUE;
    leave_graph(x);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    SG_GEXEC(x, hGraphExec);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = x->flags;
    return CUDA_SUCCESS;
}

/* ---- launch ---- */

struct graph_op {
    struct sg_op op;
    struct sg_program *program; /* a reference */
    struct gexec *exec;         /* a reference; NULL once captured: see order() */
    struct sg_gclaim *claim;    /* of memory; or NULL */
};

static CUresult run_steps(struct graph_op *o, size_t from, size_t to, struct sg_stream *s);

/* Has the work of the context to stop? A condition may be true for ever. */
static CUresult stopped(const struct sg_stream *s)
{
    CUresult r = (CUresult)atomic_load(&s->ctx->fault);

    return r == CUDA_SUCCESS && s->ctx->abort ? CUDA_ERROR_LAUNCH_FAILED : r;
}

/* The step of body number n, which may have further ones. */
static size_t find_body(const struct sg_program *p, size_t at, unsigned n)
{
    at++;
    while (n-- > 0)
        at += 1 + p->step[at].child;
    return at;
}

static CUresult run_condition(struct graph_op *o, size_t at, struct sg_stream *s)
{
    const struct sg_step *st = &o->program->step[at];
    uint32_t v = sg_cond_value(st->cond);
    CUresult r = CUDA_SUCCESS;
    size_t body;

    if (st->cond_type == CU_GRAPH_COND_TYPE_IF)
        v = v ? 0 : 1;
    if (st->cond_type != CU_GRAPH_COND_TYPE_WHILE) {
        if (v >= st->cond_size)
            return CUDA_SUCCESS;
        body = find_body(o->program, at, v);
        return run_steps(o, body + 1, body + 1 + o->program->step[body].child, s);
    }
    body = at + 1;
    for (; v && r == CUDA_SUCCESS; v = sg_cond_value(st->cond)) {
        r = run_steps(o, body + 1, body + 1 + o->program->step[body].child, s);
        if (r == CUDA_SUCCESS)
            r = stopped(s);
    }
    return r;
}

static CUresult run_steps(struct graph_op *o, size_t from, size_t to, struct sg_stream *s)
{
    const struct sg_program *p = o->program;

    for (size_t i = from; i < to; i++) {
        const struct sg_step *st = &p->step[i];
        struct sg_op *step = st->disabled ? NULL : st->gop->op;
        CUresult r = CUDA_SUCCESS;
        size_t at = i;

        if (st->cond) {
            r = run_condition(o, i, s);
            i += st->child;
        } else if (st->mem) {
            if (st->type == CU_GRAPH_NODE_TYPE_MEM_FREE || st->other != SIZE_MAX)
                sg_gclaim_step(p, i);
        } else if (step) {
            r = step->run(step, s);
        }
        if (r != CUDA_SUCCESS)
            return r;
        if (o->claim && o->claim->done <= at)
            o->claim->done = i + 1;
    }
    return CUDA_SUCCESS;
}

static CUresult graph_run(struct sg_op *op, struct sg_stream *s)
{
    struct graph_op *o = (struct graph_op *)op;

    sg_cond_begin(o->program->conds, o->program->nconds);
    return run_steps(o, 0, o->program->n, s);
}

/* Is the event of a wait recorded by the same launch before? Then the order of steps is enough. */
static bool recorded_before(const struct sg_program *p, size_t i)
{
    CUevent e = sg_event_of(p->step[i].gop->op);

    while (i-- > 0) {
        if (p->step[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD &&
            sg_event_of(p->step[i].gop->op) == e)
            return true;
    }
    return false;
}

void sg_program_issued(struct sg_program *p, struct sg_op *op, struct sg_stream *s)
{
    bool ok = true;

    /* First what is waited for: the events as they are before this launch records them. */
    for (size_t i = 0; i < p->n; i++) {
        if (p->step[i].type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && !recorded_before(p, i))
            ok &= sg_event_node_wait(p->step[i].gop->op, op);
    }
    for (size_t i = 0; i < p->n; i++) {
        struct sg_op *step = p->step[i].gop ? p->step[i].gop->op : NULL;

        if (p->step[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
            ok &= sg_event_node_record(step, op, s);
        else if (p->step[i].type == CU_GRAPH_NODE_TYPE_GRAPH && step)
            sg_program_issued(((struct graph_op *)step)->program, op, s);
    }
    if (!ok) { /* as for any operation without memory: the context fails */
        sg_device_fail("no memory for the events of a graph");
        sg_set_fault(s->ctx, CUDA_ERROR_OUT_OF_MEMORY);
    }
}

/* Launches of one executable graph run one after the other, in whatever streams (documented). */
static bool order(struct gexec *x, struct sg_op *op, struct sg_stream *s)
{
    bool ok = true;

    pthread_mutex_lock(&sg_graph_lock);
    if (x->last && x->last != s)
        ok = sg_op_add_dep(op, x->last, x->last_seq);
    if (x->last != s) {
        sg_obj_put((struct sg_obj *)x->last);
        sg_obj_get(&s->obj);
        x->last = s;
    }
    x->last_seq = op->seq;
    pthread_mutex_unlock(&sg_graph_lock);
    return ok;
}

static void graph_issued(struct sg_op *op, struct sg_stream *s)
{
    struct graph_op *o = (struct graph_op *)op;

    if (o->claim)
        o->claim->issued = true;
    if (o->exec && !order(o->exec, op, s)) {
        sg_device_fail("no memory for the order of graph launches");
        sg_set_fault(s->ctx, CUDA_ERROR_OUT_OF_MEMORY);
    }
    sg_program_issued(o->program, op, s);
}

static void graph_drop(struct sg_op *op)
{
    struct graph_op *o = (struct graph_op *)op;

    sg_gclaim_end(o->program, o->claim);
    sg_program_put(o->program);
    sg_obj_put((struct sg_obj *)o->exec);
    free(op);
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct graph_op *o;
    CUresult r;

    SG_CTX(ctx);
    SG_GEXEC(x, hGraph);
    r = sg_stream_get(ctx, hStream, &s);
    if (r != CUDA_SUCCESS) {
        s = NULL;
        return r;
    }
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = graph_run;
    o->op.drop = graph_drop;
    o->op.node_type = CU_GRAPH_NODE_TYPE_GRAPH;
    pthread_mutex_lock(&sg_graph_lock);
    o->program = x->program;
    atomic_fetch_add(&o->program->refs, 1);
    bool captured = s->front->capture != NULL;

    if (captured && (o->program->memory || o->program->nconds)) /* it would become a child */
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "capture of the launch of a graph with memory or "
                    "conditional nodes");
    else if (o->program->memory)
        r = sg_gclaim_new(o->program, x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
                          &x->hold, &o->claim);
    pthread_mutex_unlock(&sg_graph_lock);
    if (r != CUDA_SUCCESS) {
        graph_drop(&o->op);
        return r;
    }
    o->op.issued = graph_issued;
    if (!captured) {
        sg_obj_get(&x->obj);
        o->exec = x;
    }
    return sg_issue(s, &o->op, SG_ISSUE_ASYNC);
}

CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec hGraph, CUstream hStream)
{
    return cuGraphLaunch(hGraph, SG_PTSZ(hStream));
}

/* There is nowhere to bring it: the first launch is as fast as the others. */
CUresult CUDAAPI cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r;

    SG_CTX(ctx);
    SG_GEXEC(x, hGraph);
    r = sg_stream_get(ctx, hStream, &s);
    if (r != CUDA_SUCCESS)
        s = NULL;
    return r;
}

CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec hGraph, CUstream hStream)
{
    return cuGraphUpload(hGraph, SG_PTSZ(hStream));
}

/* ---- changes: launches under way keep the program that they were given ---- */

static CUresult replace_step(struct gexec *x, uint64_t node, CUgraphNodeType type,
                             struct sg_gop *gop)
{
    struct sg_program *c;

    for (size_t i = 0; i < x->program->n; i++) {
        if (x->program->step[i].node != node || x->program->step[i].type != type)
            continue;
        c = sg_program_copy(x->program);
        if (!c)
            return CUDA_ERROR_OUT_OF_MEMORY;
        sg_gop_put(c->step[i].gop);
        sg_gop_get(gop);
        c->step[i].gop = gop;
        sg_program_put(x->program);
        x->program = c;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_exec_replace(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeType type,
                         struct sg_op *op)
{
    struct sg_gop *gop = sg_gop_new(op);
    CUresult r;

    if (!gop)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SG_AUTO struct gexec *x = SG_LOOKUP(hGraphExec, SG_T_GEXEC);

    pthread_mutex_lock(&sg_graph_lock);
    r = x ? replace_step(x, (uint64_t)(uintptr_t)hNode, type, gop) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&sg_graph_lock);
    sg_gop_put(gop);
    return r;
}

/* The step of a node; NULL: the executable graph has none. Under the lock. */
static struct sg_step *find_step(struct sg_program *p, CUgraphNode hNode)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->step[i].node == (uint64_t)(uintptr_t)hNode)
            return &p->step[i];
    }
    return NULL;
}

static bool can_disable(const struct sg_step *st)
{
    return st && (st->type == CU_GRAPH_NODE_TYPE_KERNEL || st->type == CU_GRAPH_NODE_TYPE_MEMSET ||
                  st->type == CU_GRAPH_NODE_TYPE_MEMCPY);
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       unsigned int isEnabled)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    SG_GEXEC(x, hGraphExec);
    if (!hNode)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    if (can_disable(find_step(x->program, hNode))) {
        struct sg_program *c = sg_program_copy(x->program);

        r = c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (c) {
            find_step(c, hNode)->disabled = !isEnabled;
            sg_program_put(x->program);
            x->program = c;
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                                       unsigned int *isEnabled)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    SG_GEXEC(x, hGraphExec);
    if (!hNode || !isEnabled)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    struct sg_step *st = find_step(x->program, hNode);

    if (can_disable(st)) {
        *isEnabled = !st->disabled;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* The steps of a child are replaced when they are as many and of the same types. */
static CUresult replace_child(struct gexec *x, CUgraphNode hNode, const struct sg_program *with)
{
    struct sg_program *c = sg_program_copy(x->program);
    struct sg_step *st = c ? find_step(c, hNode) : NULL;
    CUresult r = c ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;

    if (st && st->type == CU_GRAPH_NODE_TYPE_GRAPH && st->child == with->n) {
        r = sg_urefs_copy(&c->urefs, &with->urefs) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < with->n && r == CUDA_SUCCESS; i++) {
            struct sg_step *to = st + 1 + i;

            if (to->type != with->step[i].type) {
                r = CUDA_ERROR_INVALID_VALUE;
                break;
            }
            sg_gop_put(to->gop);
            to->gop = with->step[i].gop;
            sg_gop_get(to->gop);
        }
    }
    if (r == CUDA_SUCCESS) {
        struct sg_program *old = x->program;

        c->events |= with->events;
        x->program = c;
        c = old;
    }
    sg_program_put(c);
    return r;
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                    CUgraph childGraph)
{
    struct sg_program *p = NULL;
    CUresult r;

    SG_GEXEC(x, hGraphExec);
    SG_AUTO struct sg_graph *g = SG_LOOKUP(childGraph, SG_T_GRAPH);

    if (!g || !hNode)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    r = sg_program_new(g, &p, NULL, NULL);
    if (r == CUDA_SUCCESS && (p->memory || p->nconds))
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "child graphs with memory or conditional nodes");
    if (r == CUDA_SUCCESS)
        r = replace_child(x, hNode, p);
    sg_program_put(p);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                   const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct sg_op *op;
    CUresult r;

    SG_CTX(ctx);
    SG_GEXEC(x, hGraphExec);
    if (!nodeParams || !hNode)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_launch_op(ctx, nodeParams, &op);
    return r == CUDA_SUCCESS ? sg_exec_replace(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL, op)
                             : r;
}

CUresult CUDAAPI cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p = {0};

    if (!nodeParams)
        return cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, NULL);
    memcpy(&p, nodeParams, sizeof(*nodeParams)); /* the second version appends two fields */
    return cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &p);
}

static bool same_sides(struct sg_op *a, struct sg_op *b)
{
    CUDA_MEMCPY3D p, q;

    sg_copy_describe(a, &p);
    sg_copy_describe(b, &q);
    return p.srcMemoryType == q.srcMemoryType && p.dstMemoryType == q.dstMemoryType;
}

static bool same_rows(struct sg_op *a, struct sg_op *b)
{
    CUDA_MEMSET_NODE_PARAMS p, q;

    sg_set_describe(a, &p);
    sg_set_describe(b, &q);
    return (p.height > 1) == (q.height > 1);
}

/* What cuda.h says that an update cannot change about a step. */
static CUgraphExecUpdateResult update_step(const struct sg_step *to, const struct sg_step *is)
{
    if (to->type != is->type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (to->edges != is->edges || !to->node != !is->node)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (to->mem != is->mem)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    if (!to->cond != !is->cond || to->cond_type != is->cond_type ||
        to->cond_size != is->cond_size)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (to->child != is->child)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if ((to->type == CU_GRAPH_NODE_TYPE_MEMCPY && !same_sides(to->gop->op, is->gop->op)) ||
        (to->type == CU_GRAPH_NODE_TYPE_MEMSET && !same_rows(to->gop->op, is->gop->op)))
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* Same nodes with the same edges; what else may differ depends on the type. */
static CUgraphExecUpdateResult update(struct gexec *x, struct sg_program *p, uint64_t *node)
{
    if (p->n != x->program->n)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < p->n; i++) {
        CUgraphExecUpdateResult r = update_step(&p->step[i], &x->program->step[i]);

        if (r != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
            *node = p->step[i].node;
            return r;
        }
    }
    for (size_t i = 0; i < p->n; i++) { /* the executable graph keeps the names of its nodes */
        p->step[i].node = x->program->step[i].node;
        p->step[i].disabled = x->program->step[i].disabled;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                      CUgraphExecUpdateResultInfo *resultInfo)
{
    struct sg_program *p = NULL;
    uint64_t node = 0;
    CUresult r;

    SG_GEXEC(x, hGraphExec);
    SG_AUTO struct sg_graph *g = SG_LOOKUP(hGraph, SG_T_GRAPH);

    if (!g || !resultInfo)
        return CUDA_ERROR_INVALID_VALUE;
    memset(resultInfo, 0, sizeof(*resultInfo));
    pthread_mutex_lock(&sg_graph_lock);
    r = g->owned ? sg_fail(CUDA_ERROR_INVALID_VALUE, "cuGraphExecUpdate: the graph belongs to a node")
                 : sg_program_new(g, &p, NULL, NULL);
    resultInfo->result = r == CUDA_SUCCESS ? update(x, p, &node) : CU_GRAPH_EXEC_UPDATE_ERROR;
    if (resultInfo->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        struct sg_program *old = x->program;

        x->program = p;
        p = old;
    } else if (r == CUDA_SUCCESS) {
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    resultInfo->errorNode = (CUgraphNode)(uintptr_t)node;
    sg_program_put(p);
    return r;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
                                   CUgraphNode *hErrorNode_out,
                                   CUgraphExecUpdateResult *updateResult_out)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult r;

    if (!hErrorNode_out || !updateResult_out)
        return CUDA_ERROR_INVALID_VALUE;
    r = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    *hErrorNode_out = info.errorNode;
    *updateResult_out = info.result;
    return r;
}
