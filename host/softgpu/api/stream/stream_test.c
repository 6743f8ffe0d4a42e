/* SPDX-License-Identifier: MIT */
/* Streams and events: order, default streams, asynchrony, callbacks. */
#include <unistd.h>

#include "api/api_test.h"

static _Atomic int count;

static void CUDA_CB add_one(void *arg)
{
    (void)arg;
    count++;
}

struct step {
    int seen; /* count when the function ran */
};

static void CUDA_CB note_count(void *arg)
{
    ((struct step *)arg)->seen = count;
}

static void test_stream_basics(void **state)
{
    CUcontext c = ctx_begin(), got;
    CUstream a, b;
    unsigned flags;
    unsigned long long ia, ib;
    int prio;

    (void)state;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreateWithPriority(&b, 0, -99));
    OK(cuStreamGetFlags(a, &flags));
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    OK(cuStreamGetPriority(b, &prio));
    assert_int_equal(prio, -5);
    OK(cuStreamGetCtx(a, &got));
    assert_ptr_equal(got, c);
    OK(cuStreamGetId(a, &ia));
    OK(cuStreamGetId(b, &ib));
    assert_true(ia != ib);
    OK(cuStreamQuery(a));
    OK(cuStreamQuery(NULL));
    OK(cuStreamSynchronize(CU_STREAM_LEGACY));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    IS(cuStreamCreate(&a, 0x10), INVALID_VALUE);
    IS(cuStreamCreate(NULL, 0), INVALID_VALUE);
    OK(cuStreamDestroy_v2(a));
    IS(cuStreamDestroy_v2(a), INVALID_HANDLE);
    IS(cuStreamQuery(a), INVALID_HANDLE);
    IS(cuStreamSynchronize((CUstream)0x7fff12345678), INVALID_HANDLE);
    IS(cuStreamSynchronize((CUstream)c), INVALID_HANDLE); /* a handle of another kind */
    IS(cuStreamDestroy_v2(NULL), INVALID_HANDLE);
    IS(cuStreamDestroy_v2(CU_STREAM_LEGACY), INVALID_HANDLE);
    IS(cuStreamDestroy_v2(CU_STREAM_PER_THREAD), INVALID_HANDLE);
    OK(cuStreamDestroy_v2(b));
    ctx_end(c);
}

static void test_async_is_async(void **state)
{
    CUcontext c = ctx_begin();
    struct gate g = GATE_INIT;
    struct step s = {-1};
    CUstream a;
    CUdeviceptr p;
    uint32_t *host, plain = 77;

    (void)state;
    count = 0;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&p, 4096));
    OK(cuMemHostAlloc((void **)&host, 4096, 0));
    OK(cuLaunchHostFunc(a, gate_wait, &g));
    gate_await(&g);
    IS(cuStreamQuery(a), NOT_READY);
    /* Everything behind the gate is queued: none of these may block. */
    host[0] = 1;
    OK(cuMemcpyHtoDAsync_v2(p, host, 4, a));
    OK(cuMemsetD32Async(p + 4, 2, 1, a));
    OK(cuMemcpyHtoDAsync_v2(p + 8, &plain, 4, a)); /* pageable: taken now */
    plain = 78;
    OK(cuMemcpyDtoHAsync_v2(host + 16, p, 12, a));
    OK(cuLaunchHostFunc(a, add_one, NULL));
    OK(cuLaunchHostFunc(a, note_count, &s));
    assert_int_equal(count, 0);
    OK(cuMemsetD32_v2(p + 64, 5, 1)); /* another stream is not held up */
    gate_open(&g);
    OK(cuStreamSynchronize(a));
    OK(cuStreamQuery(a));
    assert_int_equal(host[16], 1);
    assert_int_equal(host[17], 2);
    assert_int_equal(host[18], 77);
    assert_int_equal(s.seen, 1);
    OK(cuMemFreeHost(host));
    ctx_end(c);
}

/* The legacy stream waits for blocking streams and holds them up; not the non-blocking ones. */
static void test_legacy_default(void **state)
{
    CUcontext c = ctx_begin();
    struct gate g1 = GATE_INIT, g2 = GATE_INIT;
    CUstream blocking, free_running;
    struct step on_legacy = {-1}, on_blocking = {-1}, on_free = {-1};

    (void)state;
    count = 0;
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchHostFunc(blocking, gate_wait, &g1));
    OK(cuLaunchHostFunc(blocking, add_one, NULL));
    OK(cuLaunchHostFunc(NULL, note_count, &on_legacy));
    OK(cuLaunchHostFunc(NULL, gate_wait, &g2));
    OK(cuLaunchHostFunc(NULL, add_one, NULL));
    OK(cuLaunchHostFunc(blocking, note_count, &on_blocking));
    OK(cuLaunchHostFunc(free_running, note_count, &on_free));
    OK(cuStreamSynchronize(free_running));
    assert_int_equal(on_free.seen, 0);
    IS(cuStreamQuery(NULL), NOT_READY);
    gate_open(&g1);
    gate_await(&g2);
    assert_int_equal(on_legacy.seen, 1);
    assert_int_equal(on_blocking.seen, -1);
    IS(cuStreamQuery(blocking), NOT_READY);
    gate_open(&g2);
    OK(cuCtxSynchronize());
    assert_int_equal(on_blocking.seen, 2);
    ctx_end(c);
}

static void *other_thread(void *arg)
{
    void **a = arg;

    if (cuCtxSetCurrent(a[0]) != CUDA_SUCCESS)
        return NULL;
    if (cuLaunchHostFunc(CU_STREAM_PER_THREAD, note_count, a[1]) != CUDA_SUCCESS)
        return NULL;
    return cuStreamSynchronize_ptsz(NULL) == CUDA_SUCCESS ? a : NULL;
}

static void test_per_thread_default(void **state)
{
    CUcontext c = ctx_begin();
    struct gate g = GATE_INIT;
    struct step s = {-1};
    void *arg[] = {c, &s}, *r;
    pthread_t t;

    (void)state;
    count = 3;
    OK(cuLaunchHostFunc_ptsz(NULL, gate_wait, &g)); /* this thread's own stream */
    gate_await(&g);
    IS(cuStreamQuery_ptsz(NULL), NOT_READY);
    IS(cuStreamQuery(CU_STREAM_PER_THREAD), NOT_READY);
    pthread_create(&t, NULL, other_thread, arg); /* is not held up by it */
    pthread_join(t, &r);
    assert_non_null(r);
    assert_int_equal(s.seen, 3);
    gate_open(&g);
    OK(cuStreamSynchronize_ptsz(NULL));
    ctx_end(c);
}

static void test_events(void **state)
{
    CUcontext c = ctx_begin();
    struct gate g = GATE_INIT;
    struct step s = {-1};
    CUevent e, f, untimed, never;
    CUstream a, b;
    float ms;

    (void)state;
    count = 0;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&f, CU_EVENT_BLOCKING_SYNC));
    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&never, 0));
    OK(cuEventQuery(e)); /* never recorded counts as done */
    OK(cuEventSynchronize(e));
    OK(cuStreamWaitEvent(b, e, 0));
    IS(cuEventElapsedTime_v2(&ms, e, f), INVALID_HANDLE);
    OK(cuEventRecord(e, a));
    OK(cuLaunchHostFunc(a, gate_wait, &g));
    OK(cuLaunchHostFunc(a, add_one, NULL));
    OK(cuEventRecord(f, a));
    OK(cuEventRecord(untimed, a));
    gate_await(&g);
    OK(cuEventQuery(e));
    IS(cuEventQuery(f), NOT_READY);
    IS(cuEventElapsedTime_v2(&ms, e, f), NOT_READY);
    OK(cuStreamWaitEvent(b, f, 0));
    OK(cuLaunchHostFunc(b, note_count, &s));
    IS(cuStreamQuery(b), NOT_READY);
    usleep(20000);
    assert_int_equal(s.seen, -1);
    gate_open(&g);
    OK(cuEventSynchronize(f));
    OK(cuEventQuery(f));
    OK(cuStreamSynchronize(b));
    assert_int_equal(s.seen, 1);
    OK(cuEventElapsedTime_v2(&ms, e, f));
    assert_true(ms >= 19.0f && ms < 60000.0f);
    OK(cuEventElapsedTime(&ms, f, e));
    assert_true(ms <= -19.0f);
    IS(cuEventElapsedTime_v2(&ms, e, untimed), INVALID_HANDLE);
    IS(cuEventElapsedTime_v2(&ms, e, never), INVALID_HANDLE);
    IS(cuEventElapsedTime_v2(NULL, e, f), INVALID_HANDLE);
    IS(cuEventCreate(&never, CU_EVENT_INTERPROCESS), INVALID_VALUE);
    IS(cuEventCreate(&never, 0x80), INVALID_VALUE);
    IS(cuEventCreate(NULL, 0), INVALID_VALUE);
    OK(cuEventDestroy_v2(e));
    IS(cuEventDestroy_v2(e), INVALID_HANDLE);
    IS(cuEventQuery(e), INVALID_HANDLE);
    IS(cuEventRecord(e, a), INVALID_HANDLE);
    IS(cuStreamWaitEvent(a, e, 0), INVALID_HANDLE);
    IS(cuStreamWaitEvent(a, f, 8), INVALID_VALUE);
    ctx_end(c);
}

/* A wait refers to the record before it, not to later ones; destroyed things stay harmless. */
static void test_event_reuse(void **state)
{
    CUcontext c = ctx_begin();
    struct gate g1 = GATE_INIT, g2 = GATE_INIT;
    CUstream a, b;
    CUevent e;

    (void)state;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, 0));
    OK(cuLaunchHostFunc(a, gate_wait, &g1));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuLaunchHostFunc(a, gate_wait, &g2));
    OK(cuEventRecord(e, a));
    IS(cuStreamQuery(b), NOT_READY);
    gate_open(&g1);
    OK(cuStreamSynchronize(b));
    IS(cuEventQuery(e), NOT_READY);
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuEventDestroy_v2(e)); /* b still waits for what was recorded */
    OK(cuStreamDestroy_v2(a));
    IS(cuStreamQuery(b), NOT_READY);
    gate_open(&g2);
    OK(cuStreamSynchronize(b));
    ctx_end(c);
}

static void CUDA_CB try_api(void *arg)
{
    CUdeviceptr p;

    *(CUresult *)arg = cuMemAlloc_v2(&p, 4);
}

struct cb {
    CUstream stream;
    CUresult status;
    int seen;
};

static void CUDA_CB callback(CUstream stream, CUresult status, void *user)
{
    struct cb *cb = user;

    cb->stream = stream;
    cb->status = status;
    cb->seen = count;
}

static void test_callbacks(void **state)
{
    CUcontext c = ctx_begin();
    CUresult r = CUDA_SUCCESS;
    struct cb cb = {NULL, CUDA_ERROR_UNKNOWN, -1};
    CUstream a;

    (void)state;
    count = 0;
    OK(cuStreamCreate(&a, 0));
    OK(cuLaunchHostFunc(a, add_one, NULL));
    OK(cuStreamAddCallback(a, callback, &cb, 0));
    OK(cuLaunchHostFunc(a, try_api, &r));
    OK(cuStreamSynchronize(a));
    assert_ptr_equal(cb.stream, a);
    assert_int_equal(cb.status, CUDA_SUCCESS);
    assert_int_equal(cb.seen, 1);
    assert_int_equal(r, CUDA_ERROR_NOT_PERMITTED);
    IS(cuLaunchHostFunc(a, NULL, NULL), INVALID_VALUE);
    IS(cuStreamAddCallback(a, callback, NULL, 1), INVALID_VALUE);
    IS(cuStreamAddCallback(a, NULL, NULL, 0), INVALID_VALUE);
    ctx_end(c);
}

static void test_two_contexts(void **state)
{
    CUcontext a = ctx_begin(), b;
    struct gate g = GATE_INIT;
    CUstream sa, sb;
    CUdeviceptr pa;
    CUevent ea;

    (void)state;
    OK(cuStreamCreate(&sa, 0));
    OK(cuMemAlloc_v2(&pa, 64));
    OK(cuEventCreate(&ea, 0));
    OK(cuLaunchHostFunc(sa, gate_wait, &g));
    OK(cuCtxCreate_v2(&b, 0, 0));
    OK(cuStreamCreate(&sb, 0));
    OK(cuCtxSynchronize());       /* b's own work only */
    OK(cuMemsetD8_v2(pa, 1, 64)); /* memory of the other context, one device */
    IS(cuMemsetD8Async(pa, 1, 64, sa), INVALID_HANDLE);
    IS(cuEventRecord(ea, sb), INVALID_HANDLE);
    IS(cuStreamQuery(sa), NOT_READY); /* asking is fine */
    OK(cuEventRecord(ea, sa));
    OK(cuStreamWaitEvent(sb, ea, 0));
    IS(cuStreamQuery(sb), NOT_READY);
    gate_open(&g);
    OK(cuStreamSynchronize(sb));
    OK(cuCtxDestroy_v2(a));
    IS(cuStreamQuery(sa), INVALID_HANDLE);
    IS(cuMemsetD8_v2(pa, 1, 64), INVALID_VALUE);
    IS(cuEventQuery(ea), INVALID_HANDLE);
    ctx_end(b);
}

static void test_destroy_with_work(void **state)
{
    CUcontext c = ctx_begin();
    struct gate g = GATE_INIT;
    CUstream a;

    (void)state;
    count = 0;
    OK(cuStreamCreate(&a, 0));
    OK(cuLaunchHostFunc(a, gate_wait, &g));
    for (int i = 0; i < 100; i++)
        OK(cuLaunchHostFunc(a, add_one, NULL));
    OK(cuStreamDestroy_v2(a)); /* at once; the work goes on */
    assert_int_equal(count, 0);
    gate_open(&g);
    OK(cuCtxSynchronize());
    assert_int_equal(count, 100);
    ctx_end(c);
}

static void *hammer(void *arg)
{
    void **a = arg;
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)a[1];
    uint32_t v;

    if (cuCtxSetCurrent(a[0]) != CUDA_SUCCESS)
        return NULL;
    for (int i = 0; i < 500; i++) {
        if (cuMemcpyHtoDAsync_v2(p, &i, 4, a[2]) != CUDA_SUCCESS ||
            (i % 7 == 0 && cuLaunchHostFunc(a[2], add_one, NULL) != CUDA_SUCCESS) ||
            cuMemcpyDtoHAsync_v2(&v, p, 4, a[2]) != CUDA_SUCCESS || v != (uint32_t)i)
            return NULL;
    }
    return a;
}

static void test_many_threads(void **state)
{
    enum { N = 4 };
    CUcontext c = ctx_begin();
    void *arg[N][3], *r;
    pthread_t t[N];

    (void)state;
    count = 0;
    for (int i = 0; i < N; i++) {
        CUdeviceptr p;
        CUstream s = NULL;

        OK(cuMemAlloc_v2(&p, 64));
        if (i)
            OK(cuStreamCreate(&s, i & 1));
        arg[i][0] = c;
        arg[i][1] = (void *)(uintptr_t)p;
        arg[i][2] = s;
        pthread_create(&t[i], NULL, hammer, arg[i]);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], &r);
        assert_non_null(r);
    }
    OK(cuCtxSynchronize());
    assert_int_equal(count, N * 72);
    ctx_end(c);
}

static void test_stream_attributes(void **state)
{
    CUcontext c = ctx_begin();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUstreamCaptureStatus st;
    CUstreamAttrValue v = {0};
    CUstream a, b;

    (void)state;
    OK(cuStreamCreate(&a, 0));
    OK(cuStreamCreate(&b, 0));
    v.syncPolicy = CU_SYNC_POLICY_YIELD;
    OK(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    OK(cuStreamCopyAttributes(b, a));
    v.syncPolicy = 0;
    OK(cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    assert_int_equal(v.syncPolicy, CU_SYNC_POLICY_YIELD);
    v.syncPolicy = 99;
    IS(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v), INVALID_VALUE);
    IS(cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v), INVALID_VALUE);
    OK(cuStreamIsCapturing(a, &st));
    assert_int_equal(st, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamGetCaptureInfo_v3(a, &st, NULL, NULL, NULL, NULL, NULL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    ctx_end(c);
}

static void *open_later(void *arg)
{
    usleep(20000);
    gate_open(arg);
    return NULL;
}

/* Pageable sources are taken at the call, whether they fit into staging memory or not. */
static void test_pageable_sources(void **state)
{
    enum { N = 12 << 20, COPIES = 8 };
    CUcontext c = ctx_begin();
    struct gate g = GATE_INIT;
    unsigned char *src = malloc(N), out[COPIES];
    pthread_t t;
    CUdeviceptr p;
    CUstream a;

    (void)state;
    assert_non_null(src);
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&p, (size_t)N * COPIES));
    OK(cuLaunchHostFunc(a, gate_wait, &g));
    pthread_create(&t, NULL, open_later, &g);
    for (int i = 0; i < COPIES; i++) { /* 96 MiB: more than is staged */
        memset(src, i + 1, N);
        OK(cuMemcpyHtoDAsync_v2(p + (size_t)N * i, src, N, a));
    }
    memset(src, 0xff, N);
    OK(cuStreamSynchronize(a));
    for (int i = 0; i < COPIES; i++) {
        OK(cuMemcpyDtoH_v2(&out[i], p + (size_t)N * i + N - 1, 1));
        assert_int_equal(out[i], i + 1);
    }
    pthread_join(t, NULL);
    free(src);
    ctx_end(c);
}

struct beside {
    CUcontext ctx;
    bool ok;
};

/* Everything that a thread does while a stream of the same context waits for a value. */
static void *work_beside(void *arg)
{
    struct beside *b = arg;
    CUmodule m = NULL;
    CUstream s;
    CUdeviceptr p;
    uint32_t v[64] = {0};

    b->ok = !cuCtxSetCurrent(b->ctx) && !cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) &&
            !cuMemAlloc_v2(&p, sizeof(v)) && !cuMemcpyHtoD_v2(p, v, sizeof(v)) &&
            !cuModuleLoadData(&m, test_ptx);
    if (!b->ok)
        return NULL;
    for (int i = 0; i < 50 && b->ok; i++) {
        CUfunction f;
        int value = i, n = 64;
        void *args[] = {&p, &value, &n};

        b->ok = !cuModuleGetFunction(&f, m, "fill") &&
                !cuLaunchKernel(f, 2, 1, 1, 32, 1, 1, 0, i & 1 ? s : NULL, args, NULL) &&
                !cuStreamSynchronize(i & 1 ? s : NULL) && !cuMemcpyDtoH_v2(v, p, sizeof(v)) &&
                v[63] == (uint32_t)i;
    }
    b->ok &= !cuStreamDestroy_v2(s);
    return NULL;
}

static void test_waiting_stream_stops_nobody(void **state)
{
    CUcontext c = ctx_begin(), other;
    volatile uint32_t *host;
    struct beside b[2];
    pthread_t t[2];
    CUdeviceptr p;
    CUstream a;

    (void)state;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    *host = 0;
    OK(cuMemHostGetDevicePointer_v2(&p, (void *)host, 0));
    OK(cuStreamWaitValue32_v2(a, p, 1, CU_STREAM_WAIT_VALUE_EQ));
    other = ctx_begin();
    b[0].ctx = c;
    b[1].ctx = other;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, work_beside, &b[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        assert_true(b[i].ok);
    }
    ctx_end(other);
    OK(cuCtxSetCurrent(c));
    IS(cuStreamQuery(a), NOT_READY);
    *host = 1;
    OK(cuStreamSynchronize(a));
    OK(cuMemFreeHost((void *)host));
    ctx_end(c);
}

static void test_memory_words(void **state)
{
    CUcontext c = ctx_begin();
    volatile uint32_t *host;
    CUstreamBatchMemOpParams b[2] = {{0}};
    CUdeviceptr p;
    CUstream a;

    (void)state;
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer_v2(&p, (void *)host, 0));
    OK(cuStreamWaitValue32_v2(a, p, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuStreamWriteValue64_v2(a, p + 8, 0x123456789abcdefull, 0));
    IS(cuStreamQuery(a), NOT_READY);
    __atomic_store_n(&host[0], 4, __ATOMIC_RELEASE);
    usleep(5000);
    IS(cuStreamQuery(a), NOT_READY);
    __atomic_store_n(&host[0], 6, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(a));
    assert_int_equal(host[2], 0x89abcdef);
    assert_int_equal(host[3], 0x1234567);
    b[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    b[0].writeValue.address = p + 16;
    b[0].writeValue.value = 1;
    b[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    b[1].waitValue.address = p + 16;
    b[1].waitValue.value = 3;
    b[1].waitValue.flags = CU_STREAM_WAIT_VALUE_AND;
    OK(cuStreamBatchMemOp_v2(a, 2, b, 0));
    OK(cuStreamSynchronize(a));
    assert_int_equal(host[4], 1);
    OK(cuStreamBatchMemOp_v2(a, 0, b, 0));
    IS(cuStreamBatchMemOp_v2(a, 257, b, 0), INVALID_VALUE);
    IS(cuStreamWriteValue32_v2(a, p + 2, 1, 0), INVALID_VALUE);
    IS(cuStreamWriteValue32_v2(a, p + 64, 1, 0), INVALID_VALUE);
    IS(cuStreamWriteValue32_v2(a, p, 1, 4), INVALID_VALUE);
    IS(cuStreamWaitValue32_v2(a, p, 1, CU_STREAM_WAIT_VALUE_FLUSH), NOT_SUPPORTED);
    OK(cuMemFreeHost((void *)host));
    ctx_end(c);
}

const struct CMUnitTest stream_tests[] = {
    cmocka_unit_test(test_stream_basics),      cmocka_unit_test(test_ended_is_current),
    cmocka_unit_test(test_async_is_async),     cmocka_unit_test(test_legacy_default),
    cmocka_unit_test(test_per_thread_default), cmocka_unit_test(test_events),
    cmocka_unit_test(test_event_reuse),        cmocka_unit_test(test_callbacks),
    cmocka_unit_test(test_two_contexts),       cmocka_unit_test(test_destroy_with_work),
    cmocka_unit_test(test_many_threads),       cmocka_unit_test(test_stream_attributes),
    cmocka_unit_test(test_memory_words),       cmocka_unit_test(test_waiting_stream_stops_nobody),
    cmocka_unit_test(test_pageable_sources),
};
const size_t n_stream_tests = sizeof(stream_tests) / sizeof(stream_tests[0]);
