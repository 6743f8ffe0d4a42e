/* SPDX-License-Identifier: MIT */
/* Stream capture: begin, end and queries. core/link/vcu_capture_state.c knows which streams capture. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_capture_check_event(const char *call, CUevent hEvent)
{
    CUresult res = vcu_check_usable();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vgp_handle_live((uintptr_t)hEvent, VGP_H_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (__builtin_expect(atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0, 1))
        return CUDA_SUCCESS;
    res = vgp_call_cuEventQuery(hEvent);
    return res == CUDA_SUCCESS || res == CUDA_ERROR_NOT_READY ? vcu_capture_unsafe(call) : res;
}

/* ---- beginning and ending -------------------------------------------------------------------- */

CUresult vcu_capture_begin(const char *call, CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t n)
{
    struct vcu_capture *c;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    stream = vcu_stream(stream);
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    if (n >= VGP_HANDLE_INDEX_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (n > VGP_DEPENDENCIES_MAX)
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "more than %u dependencies", VGP_DEPENDENCIES_MAX);
    c = vcu_capture_new(stream, mode, graph != NULL);
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpStreamBeginCapture(stream, graph, dependencies, (uint32_t)n, edges,
                                         edges == NULL ? 0 : (uint32_t)(n * sizeof(*edges)));
    vcu_capture_begun(c, res == CUDA_SUCCESS);
    return res;
}

CUresult vcu_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    bool right_thread, unwanted;
    uint64_t graph = 0;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (atomic_load(&vcu_captures) == 0)
        return CUDA_ERROR_ILLEGAL_STATE;
    right_thread = vcu_capture_may_end(hStream);
    if (!right_thread) /* the capture ends nevertheless (driver 580) */
        vgp_call_vgpStreamInvalidateCapture(hStream);
    unwanted = phGraph == NULL && !vcu_capture_to_graph(hStream);
    vcu_capture_tell_spoilt(hStream);
    res = vgp_call_vgpStreamEndCapture(hStream, &graph);
    if (res == CUDA_ERROR_ILLEGAL_STATE || res == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
        return res;
    vcu_capture_forget_stream(hStream);
    if (phGraph != NULL)
        *phGraph = (CUgraph)(uintptr_t)graph;
    if (!right_thread)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (unwanted && res == CUDA_SUCCESS) {
        vgp_call_vgpGraphDestroy((CUgraph)(uintptr_t)graph);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return res;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Dependencies are lent to the caller until its next query, as documented; stored per thread. */
static CUresult take_dependencies(CUstream stream, uint32_t *status, uint64_t *id, uint64_t *graph,
                                  uint64_t *total)
{
    struct vcu_lent *lent = &vcu_thread()->lent;
    uint64_t have = 0;

    do {
        uint32_t n = 240, m = 240;
        CUresult res;

        if (lent->room < have + n) {
            size_t room = lent->room * 2 + 240;
            uint64_t *nodes = realloc(lent->nodes, room * sizeof(*nodes));
            uint64_t *edges = NULL;

            if (nodes != NULL) {
                lent->nodes = nodes;
                edges = realloc(lent->edges, room * sizeof(*edges));
            }
            if (edges == NULL)
                return CUDA_ERROR_OUT_OF_MEMORY;
            lent->edges = edges;
            lent->room = room;
        }
        *total = 0;
        res = vgp_call_vgpStreamCaptureInfo(stream, have, status, id, graph, total, lent->nodes + have, &n,
                                            lent->edges + have, &m);
        if (res != CUDA_SUCCESS)
            return res;
        if (n == 0 || m != n)
            break;
        have += n;
    } while (have < *total);
    *total = have < *total ? have : *total;
    return CUDA_SUCCESS;
}

static bool all_ordinary(const uint64_t *edges, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (edges[i] != 0)
            return false;
    }
    return true;
}

CUresult vcu_capture_info(CUstream stream, CUstreamCaptureStatus *status_out, cuuint64_t *id_out,
                          CUgraph *graph_out, const CUgraphNode **dependencies_out,
                          const CUgraphEdgeData **edges_out, size_t *n_out)
{
    const struct vcu_lent *lent = &vcu_thread()->lent;
    uint32_t status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t id = 0, graph = 0, total = 0;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    stream = vcu_stream(stream);
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    if (status_out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&vcu_captures) != 0) {
        if (id_out == NULL && graph_out == NULL && dependencies_out == NULL && n_out == NULL)
            res = vcu_capture_status(stream, &status);
        else
            res = take_dependencies(stream, &status, &id, &graph, &total);
    }
    if (res != CUDA_SUCCESS)
        return res;
    *status_out = (CUstreamCaptureStatus)status;
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS; /* the others are only written while capturing */
    if (dependencies_out != NULL && edges_out == NULL && !all_ordinary(lent->edges, total))
        return CUDA_ERROR_LOSSY_QUERY;
    if (id_out != NULL)
        *id_out = id;
    if (graph_out != NULL)
        *graph_out = (CUgraph)(uintptr_t)graph;
    if (dependencies_out != NULL)
        *dependencies_out = (const CUgraphNode *)lent->nodes;
    if (edges_out != NULL)
        *edges_out = all_ordinary(lent->edges, total) ? NULL : (const CUgraphEdgeData *)lent->edges;
    if (n_out != NULL)
        *n_out = total;
    return CUDA_SUCCESS;
}

CUresult vcu_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                  const CUgraphEdgeData *dependencyData,
                                                  size_t numDependencies, unsigned int flags)
{
    CUresult res = vcu_check_context();
    size_t done = 0;

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (numDependencies != 0 && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    if (atomic_load(&vcu_captures) == 0)
        return CUDA_ERROR_ILLEGAL_STATE;
    do { /* entries beyond one call are added by further calls */
        size_t n = numDependencies - done;

        if (n > VGP_DEPENDENCIES_MAX)
            n = VGP_DEPENDENCIES_MAX;
        res = vgp_call_vgpStreamUpdateCaptureDependencies(
            hStream, dependencies + done, (uint32_t)n, dependencyData == NULL ? NULL : dependencyData + done,
            dependencyData == NULL ? 0 : (uint32_t)(n * sizeof(*dependencyData)),
            done == 0 ? flags : CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
        done += n;
    } while (res == CUDA_SUCCESS && done < numDependencies);
    return res;
}
