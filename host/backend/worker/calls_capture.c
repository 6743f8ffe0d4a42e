/* SPDX-License-Identifier: MIT */
/*
 * Stream capture. Every call of the guest is made by the dispatcher thread, so what CUDA ties to
 * threads (who may end a capture, what it forbids to whom) cannot be left to
 * the provider: the guest checks it, and the worker captures in relaxed mode.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

unsigned vgb_captures;

bool vgb_stream_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    /* The legacy stream cannot be captured; asking about it would be an error during a capture. */
    if (!vgb_captures || stream == NULL || stream == CU_STREAM_LEGACY)
        return false;
    return vgb_provider.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

struct info {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *deps;
    const CUgraphEdgeData *edges; /* NULL: all ordinary */
    size_t n;
};

static CUresult get_info(CUstream stream, struct info *i)
{
    memset(i, 0, sizeof(*i));
    if (vgb_provider.cuStreamGetCaptureInfo_v3)
        return vgb_provider.cuStreamGetCaptureInfo_v3(stream, &i->status, &i->id, &i->graph,
                                                      &i->deps, &i->edges, &i->n);
    return vgb_provider.cuStreamGetCaptureInfo_v2(stream, &i->status, &i->id, &i->graph, &i->deps,
                                                  &i->n);
}

CUresult vgb_capture_front(CUstream stream, CUgraph *graph, CUgraphNode *last)
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
    return vgb_provider.cuStreamBeginCapture_v2 && vgb_provider.cuStreamEndCapture &&
           vgb_provider.cuStreamIsCapturing &&
           (vgb_provider.cuStreamGetCaptureInfo_v3 || vgb_provider.cuStreamGetCaptureInfo_v2);
}

/* Of this thread, once; waiter threads only make calls that no capture forbids. */
static void relax(void)
{
    static bool done;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    if (!done && vgb_provider.cuThreadExchangeStreamCaptureMode)
        vgb_provider.cuThreadExchangeStreamCaptureMode(&mode);
    done = true;
}

CUresult vgb_do_vgpStreamBeginCapture(struct vgb_call *c,
                                      const struct vgp_args_vgpStreamBeginCapture *a,
                                      const uint64_t *dependencies, const void *edgeData)
{
    const CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    const CUgraphEdgeData *edges;
    struct vgb_graph *g;
    CUgraphNode *deps;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!provider_can())
        return vgb_missing(c, "cuStreamBeginCapture");
    relax();
    if (!a->graph) {
        r = vgb_provider.cuStreamBeginCapture_v2(stream, mode);
        vgb_captures += r == CUDA_SUCCESS;
        return r;
    }
    if (!vgb_provider.cuStreamBeginCaptureToGraph)
        return vgb_missing(c, "cuStreamBeginCaptureToGraph");
    if (!vgb_edges_ok(edgeData, a->edgeData_len, a->dependencies_len, &edges))
        return vgb_malformed(c, "edge data does not fit the dependencies");
    r = vgb_graph_get(c, a->graph, &g);
    if (r == CUDA_SUCCESS)
        r = vgb_gnodes_get(c, g, dependencies, a->dependencies_len, true, &deps);
    if (r != CUDA_SUCCESS)
        return r;
    r = vgb_provider.cuStreamBeginCaptureToGraph(
        stream, g->object, a->dependencies_len ? deps : NULL, edges, a->dependencies_len, mode);
    free(deps);
    vgb_captures += r == CUDA_SUCCESS;
    return r;
}

CUresult vgb_do_vgpStreamEndCapture(struct vgb_call *c,
                                    const struct vgp_args_vgpStreamEndCapture *a,
                                    struct vgp_ret_vgpStreamEndCapture *ret)
{
    CUgraph object = NULL;
    struct info before;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!provider_can())
        return vgb_missing(c, "cuStreamEndCapture");
    if (get_info(stream, &before) != CUDA_SUCCESS)
        memset(&before, 0, sizeof(before));
    r = vgb_provider.cuStreamEndCapture(stream, &object);
    bool over = before.status != CU_STREAM_CAPTURE_STATUS_NONE && !vgb_stream_captured(stream);
    if (over && vgb_captures)
        vgb_captures--;
    struct vgb_graph *g = r == CUDA_SUCCESS ? vgb_graph_of(c->w, object) : NULL;
    if (g) {
        ret->graph = g->handle;
        g->client = true;
        return r;
    }
    if (r == CUDA_SUCCESS) {
        vgb_provider.cuGraphDestroy(object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* Its graph, which the guest may have asked for meanwhile, is gone, unless it is older. */
    g = over ? vgb_graph_known(before.graph) : NULL;
    if (g && !g->client)
        vgb_graph_forget(c->w, g);
    return r;
}

CUresult vgb_do_vgpStreamCaptureInfo(struct vgb_call *c,
                                     const struct vgp_args_vgpStreamCaptureInfo *a,
                                     struct vgp_ret_vgpStreamCaptureInfo *ret,
                                     struct vgp_outs_vgpStreamCaptureInfo *o)
{
    const uint32_t room = sizeof(o->dependencies) / sizeof(o->dependencies[0]);
    struct info i;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

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
    struct vgb_graph *g = vgb_graph_of(c->w, i.graph);
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ret->id = i.id;
    ret->graph = g->handle;
    ret->total = i.n;
    for (uint64_t k = a->first; k < i.n && ret->dependencies_len < room; k++) {
        struct vgb_gnode *n = vgb_gnode_of(c->w, g, i.deps[k]);

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

CUresult vgb_do_vgpStreamUpdateCaptureDependencies(
    struct vgb_call *c, const struct vgp_args_vgpStreamUpdateCaptureDependencies *a,
    const uint64_t *dependencies, const void *edgeData)
{
    const CUgraphEdgeData *edges;
    CUgraphNode *deps;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_edges_ok(edgeData, a->edgeData_len, a->dependencies_len, &edges))
        return vgb_malformed(c, "edge data does not fit the dependencies");
    if (!vgb_provider.cuStreamUpdateCaptureDependencies_v2 &&
        (edges || !vgb_provider.cuStreamUpdateCaptureDependencies))
        return vgb_missing(c, "cuStreamUpdateCaptureDependencies_v2");
    r = vgb_gnodes_get(c, NULL, dependencies, a->dependencies_len, true, &deps);
    if (r != CUDA_SUCCESS)
        return r;
    if (vgb_provider.cuStreamUpdateCaptureDependencies_v2)
        r = vgb_provider.cuStreamUpdateCaptureDependencies_v2(stream, deps, edges,
                                                              a->dependencies_len, a->flags);
    else
        r = vgb_provider.cuStreamUpdateCaptureDependencies(stream, deps, a->dependencies_len,
                                                           a->flags);
    free(deps);
    return r;
}

/* Asking whether a captured stream is done is what a capture does not survive. */
CUresult vgb_do_vgpStreamInvalidateCapture(struct vgb_call *c,
                                           const struct vgp_args_vgpStreamInvalidateCapture *a)
{
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r == CUDA_SUCCESS && vgb_stream_captured(stream))
        vgb_cu.StreamQuery(stream);
    return r;
}

CUresult vgb_do_vgpCaptureHostFunc(struct vgb_call *c, const struct vgp_args_vgpCaptureHostFunc *a)
{
    struct vgb_host_func *f;
    CUgraphNode last;
    CUstream stream;
    CUgraph g;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuLaunchHostFunc)
        return vgb_missing(c, "cuLaunchHostFunc");
    if (!vgb_stream_captured(stream))
        return CUDA_ERROR_ILLEGAL_STATE; /* the capture has ended meanwhile */
    r = vgb_capture_front(stream, &g, &last);
    if (r == CUDA_SUCCESS)
        r = vgb_host_func_for(c->w, g, a->cookie, &f);
    return r == CUDA_SUCCESS ? vgb_provider.cuLaunchHostFunc(stream, vgb_host_func_run, f) : r;
}
