// SPDX-License-Identifier: MIT
/*
 * Calls that are potentially unsafe while a stream captures: the calls forbidden by each capture
 * mode, and the threads affected.
 */
#include "conform.h"

#include <pthread.h>

struct other {
    CUcontext ctx;
    bool relax; /* calls cuThreadExchangeStreamCaptureMode first */
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

/* Calls that no manual documents as unsafe, but that a GPU's driver refuses. */
static CUresult unload_library(CUmodule m)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUlibrary lib = NULL;
    CUresult r;

    (void)m;
    NEED(cuLibraryLoadData(&lib, cf_fatbin, NULL, NULL, 0, NULL, NULL, 0));
    r = cuLibraryUnload(lib);
    if (r != CUDA_SUCCESS) {
        NEED(cuThreadExchangeStreamCaptureMode(&mode));
        NEED(cuLibraryUnload(lib));
        NEED(cuThreadExchangeStreamCaptureMode(&mode));
    }
    return r;
}

static CUresult unload_module(CUmodule m)
{
    return cuModuleUnload(m);
}

static CUresult set_limit(CUmodule m)
{
    (void)m;
    return cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048);
}

static CUresult set_cache(CUmodule m)
{
    (void)m;
    return cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE);
}

static CUresult set_pool(CUmodule m)
{
    CUmemoryPool pool = NULL;

    (void)m;
    NEED(cuDeviceGetMemPool(&pool, 0));
    return cuDeviceSetMemPool(0, pool);
}

#define UNSAFE 5u

/* Refused in capture modes that forbid the call; a relaxed capture allows it. */
static void each_unsafe(unsigned i, CUstream s, CUmodule m)
{
    static const struct {
        const char *name;
        CUresult (*call)(CUmodule m);
    } calls[UNSAFE] = {{"library_unload", unload_library},
                       {"set_limit", set_limit},
                       {"set_cache", set_cache},
                       {"set_pool", set_pool},
                       {"module_unload", unload_module}};
    char name[64];

    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
        const bool relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;

        NEED(cuStreamBeginCapture(s, (CUstreamCaptureMode)mode));
        snprintf(name, sizeof(name), "%s_%d", calls[i].name, mode);
        RC(name, calls[i].call(m), relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        snprintf(name, sizeof(name), "%s_%d_end", calls[i].name, mode);
        RC(name, end_capture(s), relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
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
    OK("module", cuModuleLoadData(&m, cf_ptx)); /* PyTorch and Triton load code while capturing */
    OK("end_module", end_capture(s));
    for (unsigned i = 0; i < UNSAFE; i++)
        each_unsafe(i, s, m);
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
