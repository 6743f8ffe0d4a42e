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

static void gexec_free(struct sg_obj *obj)
{
    sg_program_put(((struct gexec *)obj)->program);
    free(obj);
}

static CUresult instantiate(CUgraphExec *out, CUgraph hGraph, unsigned long long flags)
{
    struct gexec *x;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    SG_AUTO struct sg_graph *g = SG_LOOKUP(hGraph, SG_T_GRAPH);

    if (!out || !g || (flags & ~(unsigned long long)(SG_INSTANTIATE_FLAGS |
                                                     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "graphs launched from the device");
    x = calloc(1, sizeof(*x));
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&x->obj, SG_T_GEXEC, NULL, gexec_free);
    x->flags = flags;
    pthread_mutex_lock(&sg_graph_lock);
    r = sg_program_new(g, &x->program);
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
    return instantiate(phGraphExec, hGraph, flags);
}

static CUresult instantiate_old(CUgraphExec *out, CUgraph hGraph, CUgraphNode *phErrorNode,
                                char *logBuffer, size_t bufferSize)
{
    if (phErrorNode)
        *phErrorNode = NULL;
    if (logBuffer && bufferSize)
        logBuffer[0] = '\0';
    return instantiate(out, hGraph, 0);
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
    CUresult r;

    SG_INIT();
    if (!instantiateParams)
        return CUDA_ERROR_INVALID_VALUE;
    r = instantiate(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out =
        r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
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
    return sg_obj_unregister(&x->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
};

static CUresult graph_run(struct sg_op *op, struct sg_stream *s)
{
    const struct sg_program *p = ((struct graph_op *)op)->program;

    for (size_t i = 0; i < p->n; i++) {
        struct sg_op *step = p->step[i].disabled ? NULL : p->step[i].gop->op;
        CUresult r = step ? step->run(step, s) : CUDA_SUCCESS;

        if (r != CUDA_SUCCESS)
            return r;
    }
    return CUDA_SUCCESS;
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
        struct sg_op *step = p->step[i].gop->op;

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

static void graph_issued(struct sg_op *op, struct sg_stream *s)
{
    sg_program_issued(((struct graph_op *)op)->program, op, s);
}

static void graph_drop(struct sg_op *op)
{
    sg_program_put(((struct graph_op *)op)->program);
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
    pthread_mutex_unlock(&sg_graph_lock);
    if (o->program->events)
        o->op.issued = graph_issued;
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

static struct sg_program *copy_program(const struct sg_program *p)
{
    struct sg_program *c = calloc(1, sizeof(*c) + p->n * sizeof(p->step[0]));

    if (!c)
        return NULL;
    atomic_init(&c->refs, 1);
    if (!sg_urefs_copy(&c->urefs, &p->urefs)) {
        sg_program_put(c);
        return NULL;
    }
    c->n = p->n;
    c->events = p->events;
    for (size_t i = 0; i < p->n; i++) {
        c->step[i] = p->step[i];
        sg_gop_get(c->step[i].gop);
    }
    return c;
}

static CUresult replace_step(struct gexec *x, uint64_t node, CUgraphNodeType type,
                             struct sg_gop *gop)
{
    struct sg_program *c;

    for (size_t i = 0; i < x->program->n; i++) {
        if (x->program->step[i].node != node || x->program->step[i].type != type)
            continue;
        c = copy_program(x->program);
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
        struct sg_program *c = copy_program(x->program);

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
    struct sg_program *c = copy_program(x->program);
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
    r = sg_program_new(g, &p);
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

/* Same number of steps, same types in the same order; then everything may differ. */
static CUgraphExecUpdateResult update(struct gexec *x, struct sg_program *p, uint64_t *node)
{
    if (p->n != x->program->n)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < p->n; i++) {
        if (p->step[i].type != x->program->step[i].type) {
            *node = p->step[i].node;
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
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
    r = sg_program_new(g, &p);
    resultInfo->result = r == CUDA_SUCCESS ? update(x, p, &node) : CU_GRAPH_EXEC_UPDATE_ERROR;
    if (resultInfo->result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        sg_program_put(x->program);
        x->program = p;
        p = NULL;
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
