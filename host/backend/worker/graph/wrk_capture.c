/* SPDX-License-Identifier: MIT */
/*
 * Stream capture. The dispatcher thread makes all calls of the guest, so rules that CUDA ties to
 * threads (which thread may end a capture, which operations are forbidden on which thread) cannot
 * be left to the provider: the guest checks them, and the worker captures in relaxed mode.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

bool wrk_stream_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (!wrk_captures)
        return false;
    /*
     * The legacy stream cannot be captured; querying it during a capture is an error. In a green context these are the
     * names of its own default stream, of which nothing is documented: a driver may let it join a capture.
     */
    if ((stream == NULL || stream == CU_STREAM_LEGACY) && !wrk_greens_exist())
        return false;
    /* An error does not count as "not captured": an operation forbidden during a capture could
     * follow. */
    return wrk_provider.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool wrk_capture_failed(struct wrk_call *c, CUresult r)
{
    if (!wrk_captures || c->w->minor < 7)
        return false;
    /* stream unknown: losing a capture needlessly is better than a wrong capture */
    if (!c->has_stream) {
        wrk_captures_lose();
    } else if (wrk_stream_captured(c->stream)) {
        wrk_ask_stream(&wrk_provider, c->stream); /* as vgpStreamInvalidateCapture */
    } else {
        return false;
    }
    if (r != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) /* follows from an error already reported */
        wrk_async_capture_lost(c->w, c->rec->call, r);
    return c->has_stream;
}

/* SIZE_MAX: unknown. */
static size_t count_nodes(const struct wrk_graph *g)
{
    size_t n = 0;

    return wrk_provider.cuGraphGetNodes && wrk_provider.cuGraphGetNodes(g->object, NULL, &n) == CUDA_SUCCESS
               ? n
               : SIZE_MAX;
}

/* Nodes of a graph that is captured into are not removed, so the number tells whether there are others. */
static bool has_captured(const struct wrk_graph *g)
{
    const size_t n = count_nodes(g);

    return n == SIZE_MAX || n != g->before_capture;
}

void wrk_capture_graph_over(struct wrk_worker *w, CUgraph object)
{
    struct wrk_graph *g = wrk_graph_known(object);

    /* The guest may have queried the graph meanwhile. A graph it began with or has obtained stays:
     * its own, or a node's, with the nodes that were captured, also where the capture has failed. */
    if (g && !g->client && !g->parent)
        wrk_graph_forget(w, g);
    else if (g && has_captured(g) && !wrk_namer_copy(&g->names, &wrk_capturing) && g->failed == CUDA_SUCCESS)
        g->failed = CUDA_ERROR_OUT_OF_MEMORY;
}

bool wrk_graph_captured(struct wrk_call *c, uint64_t graph)
{
    struct wrk_graph *g;

    return wrk_graph_get_any(c, graph, &g) == CUDA_SUCCESS && wrk_capture_within(g, NULL);
}

struct info {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges; /* NULL: all ordinary */
    size_t n;
};

static CUresult ask_info(CUstream stream, struct info *i)
{
    memset(i, 0, sizeof(*i));
    if (wrk_provider.cuStreamGetCaptureInfo_v3)
        return wrk_provider.cuStreamGetCaptureInfo_v3(stream, &i->status, &i->id, &i->graph, &i->deps,
                                                      &i->edges, &i->n);
    return wrk_provider.cuStreamGetCaptureInfo_v2(stream, &i->status, &i->id, &i->graph, &i->deps, &i->n);
}

/* No record for a graph whose end is unknown. */
static CUresult get_info(CUstream stream, struct info *i)
{
    CUresult r = ask_info(stream, i);

    return r == CUDA_SUCCESS && i->status == CU_STREAM_CAPTURE_STATUS_ACTIVE && !wrk_capture_into(i->graph)
               ? CUDA_ERROR_UNKNOWN
               : r;
}

CUresult wrk_capture_front(CUstream stream, CUgraph *graph, CUgraphNode *last)
{
    struct info i;
    CUresult r = get_info(stream, &i);

    if (r != CUDA_SUCCESS)
        return r;
    if (i.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return i.status == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_ERROR_ILLEGAL_STATE
                                                         : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *graph = i.graph;
    *last = i.n == 1 ? i.deps[0] : NULL;
    return CUDA_SUCCESS;
}

static bool provider_can(void)
{
    return wrk_provider.cuStreamBeginCapture_v2 && wrk_provider.cuStreamEndCapture &&
           wrk_provider.cuStreamIsCapturing && wrk_provider.cuGraphDestroy &&
           (wrk_provider.cuStreamGetCaptureInfo_v3 || wrk_provider.cuStreamGetCaptureInfo_v2);
}

/* Set once for this thread; waiter threads only make calls allowed during captures. */
static void relax_capture(void)
{
    static bool done;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (!done && wrk_provider.cuThreadExchangeStreamCaptureMode)
        wrk_provider.cuThreadExchangeStreamCaptureMode(&mode);
    done = true;
}

/* Captures into a graph created by the provider. */
static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult r = wrk_provider.cuStreamBeginCapture_v2(stream, mode);
    CUgraph graph = NULL;
    struct info i;

    if (r != CUDA_SUCCESS)
        return r;
    r = ask_info(stream, &i);
    if (r == CUDA_SUCCESS && i.status == CU_STREAM_CAPTURE_STATUS_ACTIVE && i.graph) {
        wrk_capture_begun(stream, i.graph, true);
        return r;
    }
    if (wrk_provider.cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph)
        wrk_provider.cuGraphDestroy(graph);
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_UNKNOWN;
}

CUresult wrk_do_vgpStreamBeginCapture(struct wrk_call *c, const struct vgp_args_vgpStreamBeginCapture *a,
                                      const uint64_t *dependencies, const void *edgeData)
{
    const CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const CUgraphEdgeData *edges;
    struct wrk_graph *g;
    CUgraphNode *deps;
    CUstream stream;
    CUresult r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    /* Documented for the legacy stream. The default stream of a green context has no name of its own to know it by. */
    if (stream == NULL || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!provider_can())
        return wrk_missing(c, "cuStreamBeginCapture");
    if (!wrk_capture_room())
        return CUDA_ERROR_OUT_OF_MEMORY;
    relax_capture();
    if (!a->graph)
        return begin_capture(stream, mode);
    if (!wrk_provider.cuStreamBeginCaptureToGraph)
        return wrk_missing(c, "cuStreamBeginCaptureToGraph");
    if (!wrk_edges_ok(edgeData, a->edgeData_len, a->dependencies_len, &edges))
        return wrk_malformed(c, "edge data does not fit the dependencies");
    r = wrk_graph_get(c, a->graph, &g);
    if (r == CUDA_SUCCESS)
        r = wrk_gnodes_get(c, g, dependencies, a->dependencies_len, true, &deps);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_capture_into(g->object))
        g->before_capture = count_nodes(g);
    r = wrk_provider.cuStreamBeginCaptureToGraph(stream, g->object, a->dependencies_len ? deps : NULL, edges,
                                                 a->dependencies_len, mode);
    free(deps);
    if (r == CUDA_SUCCESS)
        wrk_capture_begun(stream, g->object, false);
    return r;
}

CUresult wrk_do_vgpStreamEndCapture(struct wrk_call *c, const struct vgp_args_vgpStreamEndCapture *a,
                                    struct vgp_ret_vgpStreamEndCapture *ret)
{
    CUgraph object = NULL;
    struct wrk_graph *g = NULL;
    CUstream stream;
    CUresult r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!provider_can())
        return wrk_missing(c, "cuStreamEndCapture");
    r = wrk_provider.cuStreamEndCapture(stream, &object);
    if (r == CUDA_SUCCESS) {
        g = wrk_graph_of(c->w, object);
        if (g && wrk_namer_copy(&g->names, &wrk_capturing)) {
            /* the graph of a conditional node still belongs to the node */
            g->client = !g->parent;
            ret->graph = g->handle;
        } else {
            if (g)
                wrk_graph_forget(c->w, g);
            wrk_provider.cuGraphDestroy(object);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        wrk_capture_forget(stream);
    }
    wrk_captures_look(); /* the failed capture may have ended, too */
    wrk_captures_settle(c->w);
    return r;
}

CUresult wrk_do_vgpStreamCaptureInfo(struct wrk_call *c, const struct vgp_args_vgpStreamCaptureInfo *a,
                                     struct vgp_ret_vgpStreamCaptureInfo *ret,
                                     struct vgp_outs_vgpStreamCaptureInfo *o)
{
    const uint32_t room = sizeof(o->dependencies) / sizeof(o->dependencies[0]);
    struct info i;
    CUstream stream;
    CUresult r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!provider_can())
        return CUDA_SUCCESS; /* NONE: nothing can capture */
    r = get_info(stream, &i);
    if (r != CUDA_SUCCESS)
        return r;
    ret->status = (uint32_t)i.status;
    if (i.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    struct wrk_graph *g = wrk_graph_of(c->w, i.graph);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ret->id = i.id;
    ret->graph = g->handle;
    ret->total = i.n;
    for (uint64_t k = a->first; k < i.n && ret->dependencies_len < room; k++) {
        struct wrk_gnode *n = wrk_gnode_of(c->w, g, i.deps[k]);

        if (!n)
            return CUDA_ERROR_OUT_OF_MEMORY;
        o->dependencies[ret->dependencies_len++] = n->handle;
        o->edgeData[ret->edgeData_len] = 0;
        if (i.edges)
            memcpy(&o->edgeData[ret->edgeData_len], &i.edges[k], sizeof(i.edges[k]));
        ret->edgeData_len++;
    }
    return CUDA_SUCCESS;
}

CUresult wrk_capture_nodes(struct wrk_call *c, CUstream stream, const uint64_t *handles, uint32_t n,
                           CUgraphNode **nodes)
{
    struct wrk_graph *g = NULL;
    struct info i;

    /* The driver may not distinguish nodes of other graphs from those of the captured graph. */
    if (n && provider_can() && get_info(stream, &i) == CUDA_SUCCESS &&
        i.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        g = wrk_graph_of(c->w, i.graph);
        if (!g)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return wrk_gnodes_get(c, g, handles, n, true, nodes);
}

static CUresult capture_host_func(struct wrk_call *c, uint64_t handle, uint64_t cookie, bool *kept)
{
    struct wrk_host_func *f = NULL;
    CUgraphNode last;
    CUstream stream;
    CUgraph graph;
    CUresult r = wrk_handle_get(c, handle, VGP_H_STREAM, true, (void **)&stream);

    if (r == CUDA_SUCCESS)
        r = wrk_capture_front(stream, &graph, &last);
    if (r == CUDA_SUCCESS)
        r = wrk_host_func_for(c->w, graph, cookie, &f);
    if (r != CUDA_SUCCESS)
        return r;
    *kept = true;
    return wrk_provider.cuLaunchHostFunc(stream, wrk_host_func_run, f);
}

CUresult wrk_do_vgpCapturedHostFunc(struct wrk_call *c, const struct vgp_args_vgpCapturedHostFunc *a)
{
    struct wrk_host_func *f;
    bool kept = false;
    CUresult r;

    if (!wrk_provider.cuLaunchHostFunc)
        r = wrk_missing(c, "cuLaunchHostFunc");
    else
        r = capture_host_func(c, a->stream, a->cookie, &kept);
    f = kept ? NULL : wrk_host_func_new(c->w, a->cookie, false);
    if (f)
        wrk_host_func_put(f); /* notifies the guest, later if there is no room now */
    return r;
}
