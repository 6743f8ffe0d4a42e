/* SPDX-License-Identifier: MIT */
/*
 * Stream capture. The worker captures, in relaxed mode, because it makes all calls on one thread; so
 * who may end a capture is decided here.
 */
#include "vcu_graph.h"

#include <stdlib.h>
#include <string.h>

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/generated/vgp_guest.h"

struct capture {
    struct capture *next;
    CUstream stream;  /* as on the wire: 2 is the per-thread stream of that thread and context */
    uint64_t context; /* of the stream */
    uint32_t thread;  /* that began it */
    CUstreamCaptureMode mode;
    bool to_graph; /* that the program gave */
    bool spoilt; /* by another thread, which cannot name this thread's per-thread stream */
};

_Atomic uint32_t vcu_captures;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static uint64_t context_of(CUstream stream)
{
    if ((uintptr_t)stream <= 2)
        return vcu_current_context();
    return (uint64_t)(uintptr_t)vcu_handle_data((uintptr_t)stream, VGP_H_STREAM);
}

static bool is_stream(const struct capture *c, CUstream stream)
{
    if (c->stream != stream)
        return false;
    return stream != CU_STREAM_PER_THREAD ||
           (c->thread == vcu_thread()->number && c->context == vcu_current_context());
}

/* Takes out the captures for which fn says true. */
static void drop_if(bool (*fn)(const struct capture *c, const void *arg), const void *arg)
{
    pthread_mutex_lock(&lock);
    for (struct capture **p = &captures; *p != NULL;) {
        struct capture *c = *p;

        if (!fn(c, arg)) {
            p = &c->next;
            continue;
        }
        *p = c->next;
        free(c);
        atomic_fetch_sub(&vcu_captures, 1);
    }
    pthread_mutex_unlock(&lock);
}

static bool of_stream(const struct capture *c, const void *arg)
{
    return is_stream(c, *(const CUstream *)arg);
}

static bool of_context(const struct capture *c, const void *arg)
{
    return c->context == *(const uint64_t *)arg;
}

void vcu_capture_forget_stream(CUstream stream)
{
    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0)
        drop_if(of_stream, &stream);
}

void vcu_capture_forget_context(uint64_t context)
{
    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) != 0)
        drop_if(of_context, &context);
}

/* ---- what may not happen meanwhile ----------------------------------------------------------- */

static CUresult ask(CUstream stream, uint32_t *status)
{
    return vgp_call_vgpStreamCaptureInfo(stream, UINT64_MAX, status, NULL, NULL, NULL, NULL,
                                         &(uint32_t){ 0 }, NULL, &(uint32_t){ 0 });
}

bool vcu_stream_captured(CUstream stream)
{
    uint32_t status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0 || (uintptr_t)stream <= 1)
        return false;
    return ask(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult vcu_capture_spoil(const char *call, CUstream stream)
{
    vgp_call_vgpStreamInvalidateCapture(stream);
    return VCU_REFUSE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call,
                      "cannot be captured; the capture of the stream is lost");
}

/* What cuThreadExchangeStreamCaptureMode is documented to forbid to this thread. */
static bool forbids(const struct capture *c, uint32_t thread)
{
    if (c->thread == thread)
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/* The next stream whose capture is lost by it, or NULL. Per-thread streams of others are marked. */
static CUstream next_forbidding(uint32_t thread, bool *any)
{
    CUstream found = NULL;

    pthread_mutex_lock(&lock);
    for (struct capture *c = captures; c != NULL && found == NULL; c = c->next) {
        if (!forbids(c, thread) || c->spoilt)
            continue;
        c->spoilt = true;
        *any = true;
        if (c->stream != CU_STREAM_PER_THREAD || c->thread == thread)
            found = c->stream;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static bool still_forbidden(uint32_t thread)
{
    bool any = false;

    pthread_mutex_lock(&lock);
    for (struct capture *c = captures; c != NULL; c = c->next)
        any |= forbids(c, thread);
    pthread_mutex_unlock(&lock);
    return any;
}

CUresult vcu_capture_forbids(const char *call)
{
    uint32_t thread = vcu_thread()->number;
    CUstream stream;
    bool any = false;

    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || !still_forbidden(thread))
        return CUDA_SUCCESS;
    while ((stream = next_forbidding(thread, &any)) != NULL)
        vgp_call_vgpStreamInvalidateCapture(stream);
    return VCU_REFUSE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call,
                      "not while a stream captures in this mode; the capture is lost");
}

/* The capture that began on this stream was lost while nobody could tell the worker. */
static void tell_spoilt(CUstream stream)
{
    bool spoilt = false;

    pthread_mutex_lock(&lock);
    for (struct capture *c = captures; c != NULL; c = c->next)
        spoilt |= is_stream(c, stream) && c->spoilt && stream == CU_STREAM_PER_THREAD;
    pthread_mutex_unlock(&lock);
    if (spoilt)
        vgp_call_vgpStreamInvalidateCapture(stream);
}

/* A captured event is an error of its own, which the worker knows. */
static CUresult check_event(const char *call, CUevent hEvent)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vgp_handle_live((uintptr_t)hEvent, VGP_H_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (__builtin_expect(atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0, 1))
        return CUDA_SUCCESS;
    res = vgp_call_cuEventQuery(hEvent);
    return res == CUDA_SUCCESS || res == CUDA_ERROR_NOT_READY ? vcu_capture_unsafe(call) : res;
}

CUresult vcu_cuEventQuery(CUevent hEvent)
{
    CUresult res = check_event("cuEventQuery", hEvent);

    return res != CUDA_SUCCESS ? res : vgp_call_cuEventQuery(hEvent);
}

CUresult vcu_cuEventSynchronize(CUevent hEvent)
{
    CUresult res = check_event("cuEventSynchronize", hEvent);

    return res != CUDA_SUCCESS ? res : vgp_call_cuEventSynchronize(hEvent);
}

CUresult vcu_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode old = thread_mode;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (mode == NULL || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* ---- beginning and ending -------------------------------------------------------------------- */

static CUresult begin(const char *call, CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                      const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t n)
{
    struct capture *c;
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
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "more than %u dependencies",
                          VGP_DEPENDENCIES_MAX);
    c = malloc(sizeof(*c));
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (struct capture){
        .stream = stream,
        .context = context_of(stream),
        .thread = vcu_thread()->number,
        .mode = mode,
        .to_graph = graph != NULL,
    };
    res = vgp_call_vgpStreamBeginCapture(stream, graph, dependencies, (uint32_t)n, edges,
                                         edges == NULL ? 0 : (uint32_t)(n * sizeof(*edges)));
    if (res != CUDA_SUCCESS) {
        free(c);
        return res;
    }
    pthread_mutex_lock(&lock);
    c->next = captures;
    captures = c;
    atomic_fetch_add(&vcu_captures, 1);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult vcu_cuStreamBeginCapture(CUstream hStream)
{
    return begin("cuStreamBeginCapture", hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, NULL,
                 0);
}

CUresult vcu_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    return begin("cuStreamBeginCapture", hStream, mode, NULL, NULL, NULL, 0);
}

CUresult vcu_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                         const CUgraphNode *dependencies,
                                         const CUgraphEdgeData *dependencyData,
                                         size_t numDependencies, CUstreamCaptureMode mode)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_graph_ok(hGraph) || (numDependencies != 0 && dependencies == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return begin("cuStreamBeginCaptureToGraph", hStream, mode, hGraph, dependencies,
                 dependencyData, numDependencies);
}

/* May the calling thread end the capture that began on this stream? */
static bool may_end(CUstream stream)
{
    uint32_t thread = vcu_thread()->number;
    bool ok = true;

    pthread_mutex_lock(&lock);
    for (struct capture *c = captures; c != NULL; c = c->next) {
        if (is_stream(c, stream) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
            c->thread != thread)
            ok = false;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

/* Is this a capture to a graph that the program has already? Then it need not be told again. */
static bool to_graph(CUstream stream)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (const struct capture *c = captures; c != NULL && !found; c = c->next)
        found = is_stream(c, stream) && c->to_graph;
    pthread_mutex_unlock(&lock);
    return found;
}

CUresult vcu_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    uint64_t graph = 0;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (phGraph == NULL && !to_graph(hStream))
        return CUDA_ERROR_INVALID_VALUE;
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (atomic_load(&vcu_captures) == 0)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!may_end(hStream))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    tell_spoilt(hStream);
    res = vgp_call_vgpStreamEndCapture(hStream, &graph);
    if (res == CUDA_ERROR_ILLEGAL_STATE || res == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
        return res;
    vcu_capture_forget_stream(hStream);
    if (phGraph != NULL)
        *phGraph = (CUgraph)(uintptr_t)graph;
    return res;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* Dependencies are lent to the caller until its next question, as documented: by the thread. */
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
        res = vgp_call_vgpStreamCaptureInfo(stream, have, status, id, graph, total,
                                            lent->nodes + have, &n, lent->edges + have, &m);
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

static CUresult info(CUstream stream, CUstreamCaptureStatus *status_out, cuuint64_t *id_out,
                     CUgraph *graph_out, const CUgraphNode **dependencies_out,
                     const CUgraphEdgeData **edges_out, size_t *n_out, bool lossy)
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
            res = ask(stream, &status);
        else
            res = take_dependencies(stream, &status, &id, &graph, &total);
    }
    if (res != CUDA_SUCCESS)
        return res;
    *status_out = (CUstreamCaptureStatus)status;
    if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS; /* the others are only written while capturing */
    if (lossy && !all_ordinary(lent->edges, total))
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

CUresult vcu_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    return info(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL, false);
}

CUresult vcu_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                    cuuint64_t *id_out)
{
    return info(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL, false);
}

CUresult vcu_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                       cuuint64_t *id_out, CUgraph *graph_out,
                                       const CUgraphNode **dependencies_out,
                                       size_t *numDependencies_out)
{
    return info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                numDependencies_out, dependencies_out != NULL);
}

CUresult vcu_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                       cuuint64_t *id_out, CUgraph *graph_out,
                                       const CUgraphNode **dependencies_out,
                                       const CUgraphEdgeData **edgeData_out,
                                       size_t *numDependencies_out)
{
    return info(hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                numDependencies_out, dependencies_out != NULL && edgeData_out == NULL);
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
    do { /* what does not fit one call is added by further ones */
        size_t n = numDependencies - done;

        if (n > VGP_DEPENDENCIES_MAX)
            n = VGP_DEPENDENCIES_MAX;
        res = vgp_call_vgpStreamUpdateCaptureDependencies(
            hStream, dependencies + done, (uint32_t)n,
            dependencyData == NULL ? NULL : dependencyData + done,
            dependencyData == NULL ? 0 : (uint32_t)(n * sizeof(*dependencyData)),
            done == 0 ? flags : CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
        done += n;
    } while (res == CUDA_SUCCESS && done < numDependencies);
    return res;
}

CUresult vcu_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                               size_t numDependencies, unsigned int flags)
{
    return vcu_cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
                                                    flags);
}
