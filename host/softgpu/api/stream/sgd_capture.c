/* SPDX-License-Identifier: MIT */
/* Driver API: stream capture. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

static _Atomic unsigned long long next_capture_id = 1;

static CUresult begin_locked(struct sg_stream *s, struct sg_graph *g, CUstreamCaptureMode mode,
                             struct sg_node *const *deps, size_t ndeps, bool own)
{
    struct sg_capture *c = calloc(1, sizeof(*c));
    CUresult r;

    if (!c || !(c->streams = malloc(sizeof(*c->streams)))) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_init(&c->refs, 1);
    sg_obj_get(&g->obj);
    c->graph = g;
    c->first = g->made;
    c->own = own;
    c->mode = mode;
    c->thread = pthread_self();
    c->id = atomic_fetch_add(&next_capture_id, 1);
    r = sg_front_set(s->front, c, deps, ndeps);
    if (r == CUDA_SUCCESS) {
        sg_obj_get(&s->obj);
        c->streams[c->nstreams++] = s;
        c->origin = s;
        sg_capture_list(c);
    } else {
        free(c->streams);
    }
    sg_capture_put(c); /* the stream's front holds it */
    return r;
}

/* g: a graph to append to, or NULL. */
static CUresult begin_capture(CUstream h, struct sg_graph *g, CUstreamCaptureMode mode,
                              struct sg_node *const *deps, size_t ndeps)
{
    SG_AUTO struct sg_stream *s = NULL;
    SG_AUTO struct sg_graph *made = NULL;
    CUresult r;

    SG_CTX(ctx);
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_stream_get(ctx, h, &s);
    if (r != CUDA_SUCCESS) {
        s = NULL;
        return r;
    }
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!g) {
        g = made = sg_graph_new();
        if (!g)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&ctx->issue);
    pthread_mutex_lock(&sg_graph_lock);
    if (s->dying) /* another thread destroys it */
        r = CUDA_ERROR_INVALID_HANDLE;
    else
        r = s->front->capture ? CUDA_ERROR_ILLEGAL_STATE
                              : begin_locked(s, g, mode, deps, ndeps, made != NULL);
    pthread_mutex_unlock(&sg_graph_lock);
    pthread_mutex_unlock(&ctx->issue);
    if (r != CUDA_SUCCESS && made)
        sg_obj_unregister(&made->obj);
    return r;
}

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    return begin_capture(hStream, NULL, mode, NULL, 0);
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream hStream)
{
    return begin_capture(hStream, NULL, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, 0);
}

/* Captures have ordinary edges only; a number that no graph has is not read. */
static CUresult check_edges(const CUgraphEdgeData *edge, size_t n)
{
    if (n > SG_EDGES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; edge && i < n; i++) {
        if (edge[i].to_port || edge[i].from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER ||
            edge[i].type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return sg_edges_ordinary(edge, n)
               ? CUDA_SUCCESS
               : sg_fail(CUDA_ERROR_NOT_SUPPORTED, "a capture that begins with programmatic edges");
}

CUresult sgd_cuStreamBeginCaptureToGraph(CUstream hStream, struct sg_graph *g,
                                         const CUgraphNode *dependencies,
                                         const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                         CUstreamCaptureMode mode)
{
    struct sg_node **deps = NULL;
    CUresult r = check_edges(dependencyData, numDependencies);

    if (r != CUDA_SUCCESS)
        return r;
    r = sg_nodes_get(g, dependencies, numDependencies, &deps);
    if (r == CUDA_SUCCESS)
        r = begin_capture(hStream, g, mode, deps, numDependencies);
    sg_nodes_put(deps, numDependencies);
    return r;
}

/* Every captured node must precede a current dependency of the origin. */
static bool streams_joined(struct sg_capture *c)
{
    struct sg_graph *g = c->graph;

    size_t first;

    sg_graph_settle(g);
    for (first = g->n; first && g->nodes[first - 1]->number >= c->first; first--)
        g->nodes[first - 1]->mark = false;
    for (size_t i = 0; i < c->origin->front->n; i++)
        c->origin->front->nodes[i]->mark = true;
    /* Captured nodes depend only on earlier nodes, so one pass from the end marks all ancestors
       among them. */
    for (size_t i = g->n; i-- > first;) {
        for (size_t k = 0; g->nodes[i]->mark && k < g->nodes[i]->ndeps; k++)
            g->nodes[i]->deps[k]->mark = true;
    }
    for (size_t i = first; i < g->n; i++) {
        if (!g->nodes[i]->mark)
            return false;
    }
    return true;
}

/* want: the caller takes the graph. */
static CUresult end_locked(struct sg_stream *s, bool want, struct sg_graph **out)
{
    struct sg_capture *c = s->front->capture;
    CUresult r = CUDA_SUCCESS;

    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s) {
        c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; /* the capture ends nevertheless (driver 580) */
    else if (c->invalid)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!streams_joined(c))
        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    else if (!want && c->own) /* a capture into an existing graph does not return it again */
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        *out = c->graph;
        sg_obj_get(&c->graph->obj);
    } else if (c->own) {
        sg_obj_unregister(&c->graph->obj);
    }
    sg_capture_close(c);
    return r;
}

CUresult sgd_cuStreamEndCapture(struct sg_ctx *ctx, CUstream hStream, CUgraph *phGraph)
{
    SG_AUTO struct sg_graph *g = NULL;
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r = sg_stream_get(ctx, hStream, &s);

    if (r != CUDA_SUCCESS) {
        s = NULL;
        return r;
    }
    pthread_mutex_lock(&ctx->issue);
    pthread_mutex_lock(&sg_graph_lock);
    r = end_locked(s, phGraph != NULL, &g);
    pthread_mutex_unlock(&sg_graph_lock);
    pthread_mutex_unlock(&ctx->issue);
    if (!phGraph)
        return r;
    if (r == CUDA_SUCCESS)
        *phGraph = SG_HANDLE(CUgraph, g);
    else if (r != CUDA_ERROR_ILLEGAL_STATE && r != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
        *phGraph = NULL;
    return r;
}

/* ---- asking ---- */

CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *status,
                                           cuuint64_t *id_out, CUgraph *graph_out,
                                           const CUgraphNode **dependencies_out,
                                           const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)
{
    static __thread CUgraphNode *handles; /* lent to the caller until the next call */
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r = sg_stream_get_any(hStream, &s);

    if (r != CUDA_SUCCESS) {
        s = NULL;
        return r;
    }
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_capture_check_query(s);
    if (r != CUDA_SUCCESS)
        return r;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_lock(&sg_graph_lock);
    struct sg_front *f = s->front;

    if (f->capture) {
        *status =
            f->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
        if (id_out)
            *id_out = f->capture->id;
        if (graph_out)
            *graph_out = SG_HANDLE(CUgraph, f->capture->graph);
        if (numDependencies_out)
            *numDependencies_out = f->n;
        if (edgeData_out)
            *edgeData_out = NULL; /* every edge is ordinary */
        if (dependencies_out) {
            CUgraphNode *grown = realloc(handles, (f->n + 1) * sizeof(*grown));

            if (grown) {
                handles = grown;
                for (size_t i = 0; i < f->n; i++)
                    handles[i] = SG_HANDLE(CUgraphNode, f->nodes[i]);
                *dependencies_out = handles;
            } else {
                r = CUDA_ERROR_OUT_OF_MEMORY;
            }
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuStreamUpdateCaptureDependencies_v2(struct sg_stream *s, CUgraphNode *dependencies,
                                                  const CUgraphEdgeData *dependencyData,
                                                  size_t numDependencies, unsigned int flags)
{
    struct sg_node **nodes = NULL;
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    struct sg_capture *c = s->front->capture;

    if (!c)
        r = CUDA_ERROR_ILLEGAL_STATE;
    else
        r = check_edges(dependencyData, numDependencies);
    if (r == CUDA_SUCCESS)
        r = sg_nodes_get_locked(c->graph, dependencies, numDependencies, &nodes);
    if (r == CUDA_SUCCESS && flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
        r = sg_front_set(s->front, c, nodes, numDependencies);
    } else if (r == CUDA_SUCCESS) {
        r = sg_front_merge(s->front, nodes, numDependencies);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    sg_nodes_put(nodes, numDependencies);
    return r;
}

/* ---- the same with the per-thread default stream instead of 0 ---- */
