// SPDX-License-Identifier: MIT
/* Contexts: life of the primary context, the stack of a thread, other threads. */
#include "conform.h"

#include <pthread.h>

CASE(ctx_primary, CF_ALONE)
{
    CUcontext a = NULL, b = NULL, c = NULL;
    unsigned flags = 99;
    int active = 99;
    CUdeviceptr p = 0;

    NEED(cuInit(0));
    OK("state", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("state_active", (uint64_t)active, 0);
    RC("release_unretained", cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    OK("retain", cuDevicePrimaryCtxRetain(&a, 0));
    OK("retain_again", cuDevicePrimaryCtxRetain(&b, 0));
    cf_true("same", a && a == b);
    OK("state_2", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("state_2_active", (uint64_t)active, 1);
    OK("current", cuCtxGetCurrent(&c));
    cf_true("retain_does_not_set", c == NULL);
    RC("retain_null", cuDevicePrimaryCtxRetain(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("retain_device", cuDevicePrimaryCtxRetain(&c, 77), CUDA_ERROR_INVALID_DEVICE);
    OK("set", cuCtxSetCurrent(a));
    OK("alloc", cuMemAlloc(&p, 4096));
    OK("release", cuDevicePrimaryCtxRelease(0));
    OK("still_valid", cuMemsetD8(p, 1, 4096));
    OK("release_last", cuDevicePrimaryCtxRelease(0));
    OK("state_3", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("state_3_active", (uint64_t)active, 0);
    RC_IN("use_after_end", cuMemAlloc(&p, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT);
    RC("release_too_often", cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    OK("retain_new", cuDevicePrimaryCtxRetain(&b, 0));
    OK("set_new", cuCtxSetCurrent(b));
    OK("alloc_new", cuMemAlloc(&p, 4096));
    OK("reset", cuDevicePrimaryCtxReset(0));
    OK("end", cuCtxSetCurrent(NULL));
}

CASE(ctx_reset_frees, CF_ALONE)
{
    CUcontext c = NULL;
    CUdeviceptr p = 0;
    CUstream s = NULL;
    unsigned long long first = 0, second = 0, third = 0;

    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&c, 0));
    NEED(cuCtxSetCurrent(c));
    NEED(cuCtxGetId(c, &first));
    NEED(cuMemAlloc(&p, 1 << 20));
    NEED(cuStreamCreate(&s, 0));
    OK("reset", cuDevicePrimaryCtxReset(0));
    OK("retain", cuDevicePrimaryCtxRetain(&c, 0));
    OK("set", cuCtxSetCurrent(c));
    /* cuFFT caches tables in device memory by the id of the context. */
    OK("id", cuCtxGetId(c, &second));
    cf_true("id_is_new", first != second);
    RC("old_memory", cuMemsetD8(p, 0, 16), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real())
        RC_IN("old_stream", cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE,
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
    NEED(cuMemAlloc(&p, 1 << 20));
    OK("new_memory", cuMemsetD8(p, 0, 1 << 20));
    OK("release", cuDevicePrimaryCtxRelease(0));
    OK("retain_3", cuDevicePrimaryCtxRetain(&c, 0));
    OK("id_3", cuCtxGetId(c, &third));
    cf_true("id_3_is_new", third != first && third != second);
}

/*
 * Small copies and their waits may be answered ahead of the device: no such state outlives the
 * context.
 */
CASE(ctx_reset_waits, CF_ALONE)
{
    CUcontext c = NULL;
    CUdeviceptr p = 0;
    uint32_t v = 0, n = 128, first;
    void *params[] = {&p, &n, &first};
    CUmodule m = NULL;
    CUfunction f = NULL;

    NEED(cuInit(0));
    for (unsigned i = 0; i < 2; i++) {
        NEED(cuDevicePrimaryCtxRetain(&c, 0));
        NEED(cuCtxSetCurrent(c));
        NEED(cuModuleLoadData(&m, cf_ptx));
        NEED(cuModuleGetFunction(&f, m, "k_fill"));
        NEED(cuMemAlloc(&p, 128 * 4));
        OK("idle", cuCtxSynchronize());
        v = i + 1;
        OK("copy", cuMemcpyHtoD(p, &v, sizeof(v)));
        first = 5 + i;
        OK("fill", cf_launch(f, 1, 128, 0, NULL, params));
        OK("read", cuMemcpyDtoH(&v, p + 64, sizeof(v)));
        cf_u64("value", v, first + 16);
        OK("complete", cuCtxSynchronize());
        OK("reset", cuDevicePrimaryCtxReset(0));
    }
}

/*
 * Calls that destroy an object need no current context: the driver finds the context of the object.
 * Numba's finalizers and FFmpeg's filters rely on that.
 */
CASE(ctx_end_without, CF_CTX)
{
    static char host[8192];
    CUcontext prim = NULL, c = NULL;
    CUdeviceptr p = 0, managed = 0, async = 0;
    CUstream s = NULL;
    CUevent e = NULL;
    CUmodule m = NULL;
    void *pinned = NULL;

    OK("current", cuCtxGetCurrent(&prim));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    NEED(cuMemAllocAsync(&async, 4096, 0));
    NEED(cuMemHostAlloc(&pinned, 4096, 0));
    NEED(cuMemHostRegister(host, sizeof(host), 0));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    NEED(cuModuleLoadData(&m, cf_ptx));
    OK("none", cuCtxSetCurrent(NULL));
    OK("free", cuMemFree(p));
    OK("free_managed", cuMemFree(managed));
    OK("free_async", cuMemFree(async));
    OK("free_host", cuMemFreeHost(pinned));
    OK("unregister", cuMemHostUnregister(host));
    OK("stream", cuStreamDestroy(s));
    OK("event", cuEventDestroy(e));
    OK("module", cuModuleUnload(m));
    OK("still_none", cuCtxGetCurrent(&c));
    cf_true("still_none_null", c == NULL);
    RC("alloc", cuMemAlloc(&p, 4096), CUDA_ERROR_INVALID_CONTEXT);
    OK("back", cuCtxSetCurrent(prim));
    if (!cf_real())
        RC("free_again", cuMemFree(managed), CUDA_ERROR_INVALID_VALUE);
}

CASE(ctx_stack, CF_CTX)
{
    CUcontext prim = NULL, c = NULL;
    CUdevice d = -1;
    unsigned version = 0, flags = 0;

    OK("current", cuCtxGetCurrent(&prim));
    cf_true("current_set", prim != NULL);
    OK("push", cuCtxPushCurrent(prim));
    OK("pop", cuCtxPopCurrent(&c));
    cf_true("pop_value", c == prim);
    OK("below", cuCtxGetCurrent(&c));
    cf_true("below_value", c == prim);
    OK("pop_null_out", cuCtxPopCurrent(NULL));
    OK("empty", cuCtxGetCurrent(&c));
    cf_true("empty_null", c == NULL);
    RC("pop_empty", cuCtxPopCurrent(&c), CUDA_ERROR_INVALID_CONTEXT);
    RC_IN("push_null", cuCtxPushCurrent(NULL), CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE);
    OK("set", cuCtxSetCurrent(prim));
    OK("set_replaces", cuCtxSetCurrent(prim));
    OK("pop_once", cuCtxPopCurrent(&c));
    RC("pop_twice", cuCtxPopCurrent(&c), CUDA_ERROR_INVALID_CONTEXT);
    OK("set_back", cuCtxSetCurrent(prim));
    OK("device", cuCtxGetDevice(&d));
    cf_u64("device_value", (uint64_t)d, 0);
    RC("device_null", cuCtxGetDevice(NULL), CUDA_ERROR_INVALID_VALUE);
    OK("version", cuCtxGetApiVersion(prim, &version));
    cf_true("version_value", version >= 3010);
    OK("flags", cuCtxGetFlags(&flags));
    OK("set_null", cuCtxSetCurrent(NULL));
    OK("set_null_current", cuCtxGetCurrent(&c));
    cf_true("set_null_value", c == NULL);
    RC("current_out_null", cuCtxGetCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
    OK("restore", cuCtxSetCurrent(prim));
    OK("sync", cuCtxSynchronize());
}

CASE(ctx_limits, CF_CTX)
{
    size_t v = 0, now = 0;
    int lo = -99, hi = 99;

    OK("stack", cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE));
    cf_true("stack_value", v > 0);
    OK("printf", cuCtxGetLimit(&v, CU_LIMIT_PRINTF_FIFO_SIZE));
    OK("heap", cuCtxGetLimit(&v, CU_LIMIT_MALLOC_HEAP_SIZE));
    OK("heap_set", cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 2 * v));
    OK("heap_again", cuCtxGetLimit(&now, CU_LIMIT_MALLOC_HEAP_SIZE));
    cf_true("heap_changed", now >= 2 * v); /* earlier answers are not cached */
    RC_IN("unknown", cuCtxGetLimit(&v, (CUlimit)77), CUDA_ERROR_UNSUPPORTED_LIMIT, CUDA_ERROR_INVALID_VALUE);
    RC("null", cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
    RC_IN("set_unknown", cuCtxSetLimit((CUlimit)77, 1), CUDA_ERROR_UNSUPPORTED_LIMIT,
          CUDA_ERROR_INVALID_VALUE);
    OK("range", cuCtxGetStreamPriorityRange(&lo, &hi));
    cf_true("range_order", lo >= hi && lo == 0);
    OK("range_null", cuCtxGetStreamPriorityRange(NULL, NULL));
}

struct other {
    CUcontext seen;
    CUresult current, alloc_none, set, alloc, sync;
};

static void *other_thread(void *arg)
{
    struct other *o = arg;
    CUdeviceptr p = 0;
    CUcontext c = NULL, mine = o->seen;

    o->current = cuCtxGetCurrent(&c);
    o->seen = c;
    o->alloc_none = cuMemAlloc(&p, 64);
    o->set = cuCtxSetCurrent(mine);
    o->alloc = cuMemAlloc(&p, 64);
    o->sync = cuCtxSynchronize();
    cuMemFree(p);
    return NULL;
}

/* Takes 48 MiB from the heap and uses the last word: 42 in the output; 0 if there is no such block. */
static const char heap_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func (.param .b64 r) malloc (.param .b64 n);\n.extern .func free (.param .b64 p);\n"
    ".visible .entry k_heap(.param .u64 out)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r<3>;\n.reg .pred %p;\n"
    "ld.param.u64 %rd1, [out];\n"
    "{ .param .b64 n;\n.param .b64 r;\nst.param.b64 [n], 50331648;\ncall.uni (r), malloc, (n);\n"
    "ld.param.b64 %rd2, [r];\n}\n"
    "mov.u32 %r1, 0;\nsetp.eq.u64 %p, %rd2, 0;\n@%p bra done;\n"
    "mov.u32 %r1, 41;\nst.u32 [%rd2+50331644], %r1;\nld.u32 %r1, [%rd2+50331644];\nadd.u32 %r1, %r1, 1;\n"
    "{ .param .b64 p;\nst.param.b64 [p], %rd2;\ncall.uni free, (p);\n}\n"
    "done: st.global.u32 [%rd1], %r1;\nret;\n}\n";

/* The heap of kernels has the size of the limit, which a program sets before it loads their module. */
CASE(ctx_limit_heap, CF_CTX | CF_ALONE)
{
    CUdeviceptr out = 0;
    void *params[] = {&out};
    uint32_t word = 7;
    CUmodule m;
    CUfunction f;

    OK("set", cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 20));
    NEED(cuModuleLoadData(&m, heap_text));
    NEED(cuModuleGetFunction(&f, m, "k_heap"));
    NEED(cuMemAlloc(&out, 4));
    OK("launch", cf_launch(f, 1, 1, 0, NULL, params));
    OK("read", cuMemcpyDtoH(&word, out, 4));
    cf_u64("word", word, 42);
    RC("set_used", cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 << 20), CUDA_ERROR_INVALID_VALUE);
    OK("set_other", cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 2 << 20));
    OK("free", cuMemFree(out));
    OK("unload", cuModuleUnload(m));
}

/* A new thread has no current context and does not inherit that of another thread. */
CASE(ctx_thread, CF_CTX)
{
    struct other o = {0};
    pthread_t t;

    NEED(cuCtxGetCurrent(&o.seen));
    cf_need_true("thread", !pthread_create(&t, NULL, other_thread, &o));
    pthread_join(t, NULL);
    OK("current", o.current);
    cf_true("none", o.seen == NULL);
    RC("alloc_none", o.alloc_none, CUDA_ERROR_INVALID_CONTEXT);
    OK("set", o.set);
    OK("alloc", o.alloc);
    OK("sync", o.sync);
}

CASE(ctx_garbage, CF_CTX | CF_UB)
{
    CUcontext prim;
    CUevent e = NULL;

    NEED(cuCtxGetCurrent(&prim));
    NEED(cuEventCreate(&e, 0));
    RC_IN("set", cuCtxSetCurrent((CUcontext)(uintptr_t)0x1234560), CUDA_ERROR_INVALID_CONTEXT,
          CUDA_ERROR_INVALID_VALUE);
    RC_IN("push", cuCtxPushCurrent((CUcontext)(uintptr_t)0x1234560), CUDA_ERROR_INVALID_CONTEXT,
          CUDA_ERROR_INVALID_VALUE);
    RC_IN("event_as_context", cuCtxSetCurrent((CUcontext)e), CUDA_ERROR_INVALID_CONTEXT,
          CUDA_ERROR_INVALID_VALUE);
    CUcontext c = NULL;
    OK("current", cuCtxGetCurrent(&c));
    cf_true("unchanged", c == prim);
    OK("destroy", cuEventDestroy(e));
}

static void *pushing_thread(void *arg)
{
    CUcontext c = arg;
    CUresult *r = calloc(1, sizeof(*r));

    *r = cuCtxPushCurrent(c);
    for (int i = 0; i < 20 && *r == CUDA_SUCCESS; i++) {
        CUdeviceptr p = 0;
        *r = cuMemAlloc(&p, 1024);
        if (*r == CUDA_SUCCESS)
            *r = cuMemFree(p);
    }
    if (*r == CUDA_SUCCESS)
        *r = cuCtxPopCurrent(&c);
    return r;
}

CASE(ctx_threads_share, CF_CTX)
{
    pthread_t t[8];
    CUcontext c;
    unsigned bad = 0;

    NEED(cuCtxGetCurrent(&c));
    for (int i = 0; i < 8; i++)
        cf_need_true("thread", !pthread_create(&t[i], NULL, pushing_thread, c));
    for (int i = 0; i < 8; i++) {
        void *r;
        pthread_join(t[i], &r);
        bad += *(CUresult *)r != CUDA_SUCCESS;
        free(r);
    }
    cf_u64("bad", bad, 0);
}

/* Settings of the context are refused while a stream captures, and the capture is invalidated. */
CASE(ctx_settings_captured, CF_CTX)
{
    static const CUstreamCaptureMode modes[] = {
        CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED};
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 6; i++) {
        const bool relaxed = modes[i / 2] == CU_STREAM_CAPTURE_MODE_RELAXED;
        const CUresult want = relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        CUgraph g = NULL;

        NEED(cuStreamBeginCapture(s, modes[i / 2]));
        if (i % 2)
            RC("limit", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), want);
        else
            RC("cache", cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE), want);
        RC("end", cuStreamEndCapture(s, &g), relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        if (g)
            NEED(cuGraphDestroy(g));
    }
    NEED(cuStreamDestroy(s));
}
