/* SPDX-License-Identifier: MIT */
/* Driver API: instantiating and launching graphs. Updates are in api/graph/sgd_update.c. */
#include <stdlib.h>

#include "api/api.h"

#define SG_INSTANTIATE_FLAGS \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

/* Allows the graph to be instantiated again, and prevents launches by kernels. */
static void leave_graph(struct sg_graph_exec *x)
{
    pthread_mutex_lock(&sg_graph_lock);
    struct sg_graph *g = x->only;

    x->only = NULL;
    if (g)
        g->execs--;
    sg_device_graph_drop(x);
    pthread_mutex_unlock(&sg_graph_lock);
    sg_obj_put((struct sg_obj *)g);
}

static void graph_exec_free(struct sg_obj *obj)
{
    struct sg_graph_exec *x = (struct sg_graph_exec *)obj;

    leave_graph(x);
    sg_program_put(x->program);
    sg_obj_put((struct sg_obj *)x->last);
    free(obj);
}

struct made {
    CUgraphInstantiateResult why;
    uint64_t node; /* at which it failed; 0: none */
};

static CUresult make_locked(struct sg_graph_exec *x, struct sg_graph *g, const struct sg_ctx *ctx,
                            struct made *made)
{
    CUresult r;

    if (g->owned)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "cuGraphInstantiate: the graph belongs to a node");
    const struct sg_graph_contents has = sg_graph_contents(g);

    if ((has.memory || has.condition) && g->execs) /* documented */
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuGraphInstantiate: a graph with memory or "
                                                 "conditional nodes can have one executable graph at a time");
    r = sg_program_new(g, &x->program, &made->why, &made->node);
    if (r == CUDA_SUCCESS && (x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
        r = sg_device_graph_check(ctx, x->program, &made->why, &made->node);
    if (r == CUDA_SUCCESS && (has.memory || has.condition)) {
        sg_obj_get(&g->obj);
        x->only = g;
        g->execs++;
    }
    return r;
}

/* An executable graph is of the context that was current: with it goes the handle. */
static CUresult instantiate_graph(CUgraphExec *out, CUgraph hGraph, unsigned long long flags,
                                  struct made *made)
{
    const unsigned long long known = SG_INSTANTIATE_FLAGS | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    struct sg_graph_exec *x;
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
    sg_obj_init(&x->obj, SG_T_GRAPH_EXEC, ctx, graph_exec_free);
    x->flags = flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD; /* documented: not returned */
    pthread_mutex_lock(&sg_graph_lock);
    r = make_locked(x, g, ctx, made);
    if (r == CUDA_SUCCESS && !sg_obj_register(&x->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)) {
        x->uploaded = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
        sg_device_graph_add(x);
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
    SG_CTX(ctx);
    (void)ctx;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        return CUDA_ERROR_INVALID_VALUE; /* documented: only for cuGraphInstantiateWithParams */
    return instantiate_graph(phGraphExec, hGraph, flags, &made);
}

static CUresult instantiate_old(CUgraphExec *out, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                size_t bufferSize)
{
    struct made made;
    CUresult r;

    if (logBuffer && bufferSize)
        logBuffer[0] = '\0';
    r = instantiate_graph(out, hGraph, 0, &made);
    if (phErrorNode)
        *phErrorNode = (CUgraphNode)(uintptr_t)made.node;
    return r;
}

CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                                       char *logBuffer, size_t bufferSize)
{
    return instantiate_old(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult sgd_cuGraphInstantiateWithParams(struct sg_ctx *ctx, CUgraphExec *phGraphExec, CUgraph hGraph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    SG_AUTO struct sg_stream *upload = NULL;
    struct made made;
    CUresult r = CUDA_SUCCESS;

    if (instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
        r = sg_stream_get(ctx, instantiateParams->hUploadStream, &upload);
    if (r != CUDA_SUCCESS) {
        upload = NULL;
        return r;
    }
    r = instantiate_graph(phGraphExec, hGraph, instantiateParams->flags, &made);
    instantiateParams->hErrNode_out = (CUgraphNode)(uintptr_t)made.node;
    instantiateParams->result_out = r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : made.why;
    return r;
}

CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                                   CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    return cuGraphInstantiateWithParams(phGraphExec, hGraph, params);
}

CUresult sgd_cuGraphExecDestroy(struct sg_graph_exec *x)
{
    if (!sg_obj_unregister(&x->obj))
        return CUDA_ERROR_INVALID_VALUE;
    leave_graph(x);
    return CUDA_SUCCESS;
}

/* ---- launch ---- */

/* There is no device to upload to: the first launch is as fast as later launches. */
CUresult sgd_cuGraphUpload(struct sg_ctx *ctx, struct sg_graph_exec *x, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r = sg_stream_get(ctx, hStream, &s);

    if (r != CUDA_SUCCESS)
        s = NULL;
    else
        sg_graph_exec_uploaded(x);
    return r;
}
