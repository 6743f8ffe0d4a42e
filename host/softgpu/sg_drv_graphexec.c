/* SPDX-License-Identifier: MIT */
/* Driver API: making graphs executable and launching them. Changing them is in sg_drv_graphupd.c. */
#include <stdlib.h>
#include <string.h>

#include "sg_gexec.h"

#define SG_INSTANTIATE_FLAGS                                                                       \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |        \
     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

/* Its graph may have another one from now on, and no kernel launches it. */
static void leave_graph(struct gexec *x)
{
    pthread_mutex_lock(&sg_graph_lock);
    struct sg_graph *g = x->only;

    x->only = NULL;
    if (g)
        g->execs--;
    sg_gdev_drop(x);
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

static CUresult make_locked(struct gexec *x, struct sg_graph *g, const struct sg_ctx *ctx,
                            struct made *made)
{
    CUresult r;

    if (g->owned)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiate: the graph belongs to a node");
    if ((g->has_memory || g->has_condition) && g->execs) /* documented */
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuGraphInstantiate: a graph with memory or "
                       "conditional nodes can have one executable graph at a time");
    r = sg_program_new(g, &x->program, &made->why, &made->node);
    if (r == CUDA_SUCCESS && (x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
        r = sg_gdev_check(ctx, x->program, &made->why, &made->node);
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
    x = calloc(1, sizeof(*x));
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&x->obj, SG_T_GEXEC, ctx, gexec_free);
    x->flags = flags;
    pthread_mutex_lock(&sg_graph_lock);
    r = make_locked(x, g, ctx, made);
    if (r == CUDA_SUCCESS && !sg_obj_register(&x->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)) {
        x->uploaded = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
        sg_gdev_add(x);
    }
    pthread_mutex_unlock(&sg_graph_lock);
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

/* A condition may be true for ever. */
CUresult sg_stream_stopped(const struct sg_stream *s)
{
    CUresult r = (CUresult)atomic_load(&s->ctx->fault);

    if (r == CUDA_SUCCESS && sg_stream_cut(s))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
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
            r = sg_stream_stopped(s);
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
            if (r == CUDA_SUCCESS && st->type == CU_GRAPH_NODE_TYPE_KERNEL)
                r = sg_gdev_drain(s);
        }
        if (r != CUDA_SUCCESS)
            return r;
        if (o->claim && o->claim->done <= at)
            o->claim->done = i + 1;
    }
    return CUDA_SUCCESS;
}

CUresult sg_program_run(struct sg_program *p, struct sg_gclaim *claim, struct sg_stream *s)
{
    struct graph_op o = {.program = p, .claim = claim};

    sg_cond_begin(p->conds, p->nconds);
    return run_steps(&o, 0, p->n, s);
}

struct sg_program *sg_graph_op_program(struct sg_op *op)
{
    return ((struct graph_op *)op)->program;
}

/* A launch that was captured is part of the graph that has it. */
static CUresult graph_run(struct sg_op *op, struct sg_stream *s)
{
    struct graph_op *o = (struct graph_op *)op;

    return s->genv ? sg_program_run(o->program, o->claim, s)
                   : sg_gdev_run(o->exec, o->program, o->claim, s);
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

static void mark_uploaded(struct gexec *x)
{
    pthread_mutex_lock(&sg_graph_lock);
    x->uploaded = true;
    pthread_mutex_unlock(&sg_graph_lock);
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
        mark_uploaded(x);
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
    else
        mark_uploaded(x);
    return r;
}

CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec hGraph, CUstream hStream)
{
    return cuGraphUpload(hGraph, SG_PTSZ(hStream));
}
