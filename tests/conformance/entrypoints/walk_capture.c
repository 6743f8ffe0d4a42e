/* SPDX-License-Identifier: MIT */
/* A capture by the calling thread during a call, and the effect of the call on it. */
#include <stdio.h>

#include "walk.h"

const char *const wk_captures[] = {"global", "thread-local", "relaxed", "blocking", NULL};

static const struct {
    unsigned flags; /* of the stream */
    CUstreamCaptureMode mode;
} ways[] = {
    {CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL},
    {CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
    {CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED},
    {CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED},
};

static CUstream stream; /* NULL: none captures */
static CUevent event;

bool wk_capture_begin(unsigned capture)
{
    return cuStreamCreate(&stream, ways[capture].flags) == CUDA_SUCCESS &&
           cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
           cuStreamBeginCapture(stream, ways[capture].mode) == CUDA_SUCCESS &&
           cuEventRecord(event, stream) == CUDA_SUCCESS;
}

uint64_t wk_captured_handle(unsigned kind)
{
    return strcmp(wk_kinds[kind], "CUevent") == 0 ? (uint64_t)(uintptr_t)event : (uint64_t)(uintptr_t)stream;
}

/* Ends the capture of a stream; returns its number of nodes, -1 if invalidated. */
static int end_one(CUstream s)
{
    CUgraph graph = NULL;
    size_t nodes = 0;

    if (cuStreamEndCapture(s, &graph) != CUDA_SUCCESS || cuGraphGetNodes(graph, NULL, &nodes) != CUDA_SUCCESS)
        return -1;
    cuGraphDestroy(graph);
    return (int)nodes;
}

/* Ends captures that the call began on streams of its arguments. */
static void end_others(const struct wk_entry *e, const struct wk_vector *v)
{
    CUstreamCaptureStatus status;

    for (uint32_t i = 0; i < e->n_params; i++) {
        CUstream s = (CUstream)(uintptr_t)v->args[i];

        if (e->params[i].what == WK_HANDLE && s != NULL && s != stream &&
            strcmp(wk_kinds[e->params[i].extra], "CUstream") == 0 &&
            cuStreamIsCapturing(s, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
            end_one(s);
    }
}

const char *wk_capture_end(const struct wk_entry *e, const struct wk_vector *v)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureStatus status;
    static char text[32];
    int nodes;

    if (stream == NULL)
        return "";
    wk_live_enter(); /* the call may have ended that context */
    if (cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) {
        strcpy(text, "capture:gone");
    } else if (status == CU_STREAM_CAPTURE_STATUS_NONE) {
        strcpy(text, "capture:ended");
    } else {
        nodes = end_one(stream);
        snprintf(text, sizeof(text),
                 nodes < 0   ? "capture:invalidated"
                 : nodes > 0 ? "capture:+%d"
                             : "",
                 nodes);
    }
    end_others(e, v);
    cuThreadExchangeStreamCaptureMode(&mode); /* in case the call has changed it */
    if (strcmp(text, "capture:gone") != 0)
        cuStreamDestroy(stream);
    cuEventDestroy(event);
    stream = NULL;
    return text;
}
