// SPDX-License-Identifier: MIT
/* Calls that are potentially unsafe while a stream captures: what each capture mode forbids, and to which thread. */
#include "conform.h"

#include <pthread.h>

struct other {
    CUcontext ctx;
    bool relax; /* first: cuThreadExchangeStreamCaptureMode */
    CUstreamCaptureMode mode;
    CUresult r;
};

static void *other_alloc(void *arg)
{
    struct other *o = arg;
    CUdeviceptr p = 0;

    NEED(cuCtxSetCurrent(o->ctx));
    if (o->relax)
        NEED(cuThreadExchangeStreamCaptureMode(&o->mode));
    o->r = cuMemAlloc(&p, 64);
    return NULL;
}

static CUresult on_other(bool relax, CUstreamCaptureMode mode)
{
    struct other o = {.relax = relax, .mode = mode, .r = CUDA_ERROR_UNKNOWN};
    pthread_t t;

    NEED(cuCtxGetCurrent(&o.ctx));
    cf_need_true("thread", pthread_create(&t, NULL, other_alloc, &o) == 0);
    pthread_join(t, NULL);
    return o.r;
}

static CUresult end_capture(CUstream s)
{
    CUgraph g = NULL;
    CUresult r = cuStreamEndCapture(s, &g);

    if (g)
        cuGraphDestroy(g);
    return r;
}

CASE(capture_unsafe, CF_CTX)
{
    const CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL,
                              local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                              relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUstreamCaptureMode mode;
    CUdeviceptr p = 0, q = 0;
    CUmodule m = NULL;
    CUevent e = NULL;
    CUstream s = NULL;
    void *host = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    NEED(cuMemAlloc(&p, 4000));
    OK("begin", cuStreamBeginCapture(s, global));
    OK("before", cf_fill(p, 1000, 1, s));
    RC("alloc", cuMemAlloc(&q, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK("status", cuStreamIsCapturing(s, &status));
    cf_u64("status_value", status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    RC("after", cf_fill(p, 1000, 1, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    RC("end", end_capture(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK("alloc_again", cuMemAlloc(&q, 64));

    NEED(cuStreamBeginCapture(s, local));
    RC("free", cuMemFree(q), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("end_free", end_capture(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuStreamBeginCapture(s, global));
    RC("host", cuMemHostAlloc(&host, 64, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("end_host", end_capture(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuStreamBeginCapture(s, global));
    RC("module", cuModuleLoadData(&m, cf_ptx), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("end_module", end_capture(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuStreamBeginCapture(s, global));
    RC("query", cuEventQuery(e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("end_query", end_capture(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    NEED(cuStreamBeginCapture(s, relaxed));
    OK("relaxed_alloc", cuMemAlloc(&q, 64));
    OK("relaxed_query", cuEventQuery(e));
    OK("relaxed_free", cuMemFree(q));
    OK("relaxed_end", end_capture(s));

    mode = relaxed;
    NEED(cuThreadExchangeStreamCaptureMode(&mode));
    NEED(cuStreamBeginCapture(s, global));
    OK("exchanged_alloc", cuMemAlloc(&q, 64));
    OK("exchanged_end", end_capture(s));
    NEED(cuThreadExchangeStreamCaptureMode(&mode));
    cf_u64("exchanged_mode", mode, relaxed);

    NEED(cuStreamBeginCapture(s, global));
    RC("other_thread", on_other(false, global), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("other_thread_end", end_capture(s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuStreamBeginCapture(s, global));
    OK("other_local", on_other(true, local));
    OK("other_relaxed", on_other(true, relaxed));
    OK("other_end", end_capture(s));
    NEED(cuStreamBeginCapture(s, local));
    OK("local_other", on_other(false, global));
    OK("local_other_end", end_capture(s));
    NEED(cuStreamBeginCapture(CU_STREAM_PER_THREAD, global));
    RC("per_thread_other", on_other(false, global), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("per_thread_end", end_capture(CU_STREAM_PER_THREAD), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK("last", cuMemAlloc(&q, 64));
}
