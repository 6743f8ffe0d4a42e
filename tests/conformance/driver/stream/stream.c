// SPDX-License-Identifier: MIT
/* Streams, events, host functions: order and asynchrony. A gate keeps a stream busy. */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

CASE(stream_create, CF_CTX)
{
    CUstream s = NULL, t = NULL, other = NULL;
    unsigned flags = 9;
    int lo = 0, hi = 0, p = 99;
    CUcontext c = NULL, prim = NULL;
    unsigned long long id = 0, id2 = 0;

    OK("create", cuStreamCreate(&s, CU_STREAM_DEFAULT));
    OK("flags", cuStreamGetFlags(s, &flags));
    cf_u64("flags_value", flags, 0);
    OK("create_non_blocking", cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK("flags_2", cuStreamGetFlags(t, &flags));
    cf_u64("flags_2_value", flags, 1);
    RC("create_flags", cuStreamCreate(&other, 0x40), CUDA_ERROR_INVALID_VALUE);
    RC("create_null", cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK("query", cuStreamQuery(s));
    OK("sync", cuStreamSynchronize(s));
    NEED(cuCtxGetCurrent(&prim));
    OK("ctx", cuStreamGetCtx(s, &c));
    cf_true("ctx_value", c == prim);
    OK("ctx_default", cuStreamGetCtx(NULL, &c));
    cf_true("ctx_default_value", c == prim);
    OK("id", cuStreamGetId(s, &id));
    OK("id_2", cuStreamGetId(t, &id2));
    cf_true("id_differs", id != id2);
    NEED(cuCtxGetStreamPriorityRange(&lo, &hi));
    OK("priority", cuStreamGetPriority(s, &p));
    cf_u64("priority_value", (uint64_t)p, 0);
    OK("destroy", cuStreamDestroy(s));
    OK("destroy_2", cuStreamDestroy(t));
    OK("create_priority", cuStreamCreateWithPriority(&s, 0, hi));
    OK("priority_2", cuStreamGetPriority(s, &p));
    cf_true("priority_2_value", p == hi);
    OK("destroy_3", cuStreamDestroy(s));
    OK("create_clamped", cuStreamCreateWithPriority(&s, 0, hi - 100));
    OK("priority_3", cuStreamGetPriority(s, &p));
    cf_true("priority_3_value", p == hi);
    OK("destroy_4", cuStreamDestroy(s));
    RC("destroy_null", cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    OK("query_default", cuStreamQuery(NULL));
    OK("query_legacy", cuStreamQuery(CU_STREAM_LEGACY));
    OK("query_per_thread", cuStreamQuery(CU_STREAM_PER_THREAD));
    OK("sync_per_thread", cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK("flags_default", cuStreamGetFlags(NULL, &flags));
}

CASE(stream_busy, CF_CTX)
{
    CUstream s = NULL;
    CUevent e = NULL;
    CUdeviceptr p = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    NEED(cuMemAlloc(&p, 400));
    NEED(cuMemsetD8(p, 0, 400));
    NEED(cuCtxSynchronize());
    struct cf_gate *g = cf_gate_put(s);
    OK("kernel", cf_fill(p, 100, 8, s));
    OK("record", cuEventRecord(e, s));
    RC("query", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    RC("event_query", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    usleep(30000);
    RC("query_later", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    OK("other_stream", cuStreamQuery(CU_STREAM_PER_THREAD));
    cf_gate_open(g);
    OK("sync", cuStreamSynchronize(s));
    OK("query_after", cuStreamQuery(s));
    OK("event_after", cuEventQuery(e));
    cf_true("result", cf_filled(p, 100, 8));
    OK("destroy", cuStreamDestroy(s));
    OK("event_destroy", cuEventDestroy(e));
    OK("free", cuMemFree(p));
}

/* Work of one stream runs in the order of issue. */
CASE(stream_order, CF_CTX)
{
    CUstream s = NULL;
    CUdeviceptr p = 0;
    unsigned n = 64, one = 1, iters = 200;
    void *add[] = {&p, &n, &one}, *work[] = {&p, &n, &iters};
    CUfunction fadd = cf_func("k_add"), fwork = cf_func("k_work");
    uint32_t h[64], x = 3;
    bool ok = true;

    NEED(cuStreamCreate(&s, 0));
    NEED(cuMemAlloc(&p, 256));
    OK("set", cuMemsetD32Async(p, 3, 64, s));
    for (int i = 0; i < 40; i++) {
        ok &= cf_launch(fwork, 1, 64, 0, s, work) == CUDA_SUCCESS;
        ok &= cf_launch(fadd, 1, 64, 0, s, add) == CUDA_SUCCESS;
        for (int k = 0; k < 200; k++)
            x = x * 1664525u + 1013904223u;
        x++;
    }
    cf_true("issued", ok);
    OK("read", cuMemcpyDtoHAsync(h, p, sizeof(h), s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("result", h[0] == x && h[63] == x);
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

/*
 * The legacy default stream waits for blocking streams, and vice versa; not for non-blocking
 * streams.
 */
CASE(stream_legacy, CF_CTX)
{
    CUstream blocking = NULL, free_running = NULL;
    CUdeviceptr p = 0;

    NEED(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    NEED(cuStreamCreate(&free_running, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, 400));
    NEED(cf_fill(p, 100, 0, NULL));
    NEED(cuCtxSynchronize());

    struct cf_gate *g = cf_gate_put(blocking);
    OK("after_blocking", cf_fill(p, 100, 1, NULL));
    usleep(20000);
    RC("default_waits", cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    OK("non_blocking", cf_fill(p, 100, 2, free_running));
    OK("non_blocking_runs", cuStreamSynchronize(free_running));
    cf_gate_open(g);
    OK("default_ends", cuStreamSynchronize(NULL));
    cf_true("default_last", cf_filled(p, 100, 1));

    g = cf_gate_put(NULL);
    OK("behind_default", cf_fill(p, 100, 3, blocking));
    usleep(20000);
    RC("blocking_waits", cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    OK("not_for_non_blocking", cuStreamSynchronize(free_running));
    cf_gate_open(g);
    OK("blocking_ends", cuStreamSynchronize(blocking));
    cf_true("blocking_result", cf_filled(p, 100, 3));
    OK("destroy", cuStreamDestroy(blocking));
    OK("destroy_2", cuStreamDestroy(free_running));
    OK("free", cuMemFree(p));
}

CASE(stream_wait_event, CF_CTX)
{
    CUstream a = NULL, b = NULL;
    CUevent e = NULL;
    CUdeviceptr p = 0;
    unsigned n = 100, ten = 10;
    void *add[] = {&p, &n, &ten};

    NEED(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuMemAlloc(&p, 400));
    OK("unrecorded", cuStreamWaitEvent(b, e, 0));
    OK("unrecorded_sync", cuStreamSynchronize(b));
    struct cf_gate *g = cf_gate_put(a);
    OK("first", cf_fill(p, 100, 1, a));
    OK("record", cuEventRecord(e, a));
    OK("wait", cuStreamWaitEvent(b, e, 0));
    OK("second", cf_launch(cf_func("k_add"), 1, 128, 0, b, add));
    usleep(20000);
    RC("waits", cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    OK("sync", cuStreamSynchronize(b));
    cf_true("result", cf_filled(p, 100, 11));
    RC("flags", cuStreamWaitEvent(b, e, 0x10), CUDA_ERROR_INVALID_VALUE);
    RC("event_null", cuStreamWaitEvent(b, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    OK("destroy_event", cuEventDestroy(e));
    OK("destroy", cuStreamDestroy(a));
    OK("destroy_2", cuStreamDestroy(b));
    OK("free", cuMemFree(p));
}

/* Destruction returns at once and the work still completes. */
CASE(stream_destroy_busy, CF_CTX)
{
    CUstream s = NULL;
    CUevent e = NULL, e2 = NULL;
    CUdeviceptr p = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    NEED(cuEventCreate(&e2, 0));
    NEED(cuMemAlloc(&p, 400));
    struct cf_gate *g = cf_gate_put(s);
    OK("kernel", cf_fill(p, 100, 6, s));
    OK("record", cuEventRecord(e, s));
    OK("record_2", cuEventRecord(e2, s));
    OK("destroy", cuStreamDestroy(s));
    OK("destroy_event", cuEventDestroy(e2));
    RC("event_open", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    OK("event_sync", cuEventSynchronize(e));
    OK("ctx_sync", cuCtxSynchronize());
    cf_true("result", cf_filled(p, 100, 6));
    OK("event_destroy", cuEventDestroy(e));
    OK("free", cuMemFree(p));
}

/* Queries of the runtime in a thread without a current context: events identify their context. */
CASE(event_without_context, CF_CTX)
{
    CUevent start = NULL, end = NULL, again = NULL;
    CUcontext mine = NULL;
    CUstream s = NULL;
    CUresult r = CUDA_ERROR_UNKNOWN;
    CUdeviceptr p = 0;
    float ms = -1;

    NEED(cuCtxGetCurrent(&mine));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&start, 0));
    NEED(cuEventCreate(&end, 0));
    NEED(cuMemAlloc(&p, 1 << 20));
    NEED(cuEventRecord(start, s));
    NEED(cuMemsetD8Async(p, 1, 1 << 20, s));
    NEED(cuEventRecord(end, s));
    NEED(cuCtxSetCurrent(NULL));
    r = cuEventQuery(end);
    cf_true("query", r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
    OK("synchronize", cuEventSynchronize(end));
    OK("query_done", cuEventQuery(end));
    OK("elapsed", cuEventElapsedTime(&ms, start, end));
    cf_true("elapsed_value", ms >= 0);
    RC("create", cuEventCreate(&again, 0), CUDA_ERROR_INVALID_CONTEXT);
    NEED(cuCtxSetCurrent(mine));
    NEED(cuMemFree(p));
    NEED(cuEventDestroy(start));
    NEED(cuEventDestroy(end));
    NEED(cuStreamDestroy(s));
}

CASE(event, CF_CTX)
{
    CUevent a = NULL, b = NULL, quiet = NULL;
    CUstream s = NULL;
    float ms = -1;
    CUdeviceptr p = 0;
    unsigned n = 4096, iters = 3000;
    void *work[] = {&p, &n, &iters};

    OK("create", cuEventCreate(&a, 0));
    OK("create_2", cuEventCreate(&b, CU_EVENT_BLOCKING_SYNC));
    RC("create_flags", cuEventCreate(&quiet, 0x80), CUDA_ERROR_INVALID_VALUE);
    OK("create_quiet", cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    RC("create_null", cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK("query_fresh", cuEventQuery(a));
    OK("sync_fresh", cuEventSynchronize(a));
    RC("elapsed_fresh", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    s = NULL;
    NEED(cuStreamCreate(&s, 0));
    NEED(cuMemAlloc(&p, n * 4));
    NEED(cuMemsetD8(p, 1, n * 4));
    OK("record", cuEventRecord(a, s));
    OK("work", cf_launch(cf_func("k_work"), n / 128, 128, 0, s, work));
    OK("record_2", cuEventRecord(b, s));
    OK("sync", cuEventSynchronize(b));
    OK("query", cuEventQuery(a));
    OK("elapsed", cuEventElapsedTime(&ms, a, b));
    cf_true("elapsed_positive", ms > 0 && ms < 100000);
    OK("elapsed_back", cuEventElapsedTime(&ms, b, a));
    cf_true("elapsed_negative", ms < 0);
    RC("elapsed_null", cuEventElapsedTime(NULL, a, b), CUDA_ERROR_INVALID_HANDLE);
    OK("record_quiet", cuEventRecord(quiet, s));
    OK("quiet_sync", cuEventSynchronize(quiet));
    RC("elapsed_quiet", cuEventElapsedTime(&ms, a, quiet), CUDA_ERROR_INVALID_HANDLE);
    struct cf_gate *g = cf_gate_put(s);
    OK("record_again", cuEventRecord(b, s));
    RC("elapsed_open", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    RC("query_open", cuEventQuery(b), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    OK("sync_again", cuEventSynchronize(b));
    OK("elapsed_again", cuEventElapsedTime(&ms, a, b));
    OK("record_default", cuEventRecord(a, NULL));
    OK("sync_default", cuEventSynchronize(a));
    RC("record_null", cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("query_null", cuEventQuery(NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("sync_null", cuEventSynchronize(NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("destroy_null", cuEventDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    OK("destroy", cuEventDestroy(a));
    OK("destroy_2", cuEventDestroy(b));
    OK("destroy_3", cuEventDestroy(quiet));
    OK("stream_destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

/* A host function appends its number; 32 of them, between copies. */
static unsigned order[64];
static atomic_uint order_n;

static void CUDA_CB note_order(void *p)
{
    unsigned i = atomic_fetch_add(&order_n, 1);
    if (i < 64)
        order[i] = (unsigned)(uintptr_t)p;
}

CASE(host_func, CF_CTX)
{
    CUstream s = NULL;
    CUdeviceptr p = 0;
    bool ok = true;

    NEED(cuStreamCreate(&s, 0));
    NEED(cuMemAlloc(&p, 400));
    order_n = 0;
    for (uintptr_t i = 0; i < 32; i++) {
        ok &= cf_fill(p, 100, (unsigned)i, s) == CUDA_SUCCESS;
        ok &= cuLaunchHostFunc(s, note_order, (void *)i) == CUDA_SUCCESS;
    }
    cf_true("issued", ok);
    OK("sync", cuStreamSynchronize(s));
    cf_u64("called", order_n, 32);
    for (unsigned i = 0; i < 32; i++)
        ok &= order[i] == i;
    cf_true("in_order", ok);
    OK("default", cuLaunchHostFunc(NULL, note_order, NULL));
    OK("ctx_sync", cuCtxSynchronize());
    cf_u64("called_again", order_n, 33);
    RC("null", cuLaunchHostFunc(s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

static CUresult inside[3];

static void CUDA_CB call_inside(void *unused)
{
    CUdeviceptr p = 0;

    (void)unused;
    inside[0] = cuMemAlloc(&p, 64);
    inside[1] = cuCtxSynchronize();
    inside[2] = cuMemcpyDtoH(&p, (CUdeviceptr)(uintptr_t)&p, 4);
}

/*
 * CUDA calls are not permitted in host functions; this takes precedence over the missing context.
 */
CASE(host_func_calls, CF_CTX | CF_UB)
{
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, 0));
    for (unsigned i = 0; i < 3; i++)
        inside[i] = CUDA_SUCCESS;
    OK("func", cuLaunchHostFunc(s, call_inside, NULL));
    OK("sync", cuStreamSynchronize(s));
    for (unsigned i = 0; i < 3; i++)
        RC_IN("inside", inside[i], CUDA_ERROR_NOT_PERMITTED,
              cf_real() ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED);
    OK("destroy", cuStreamDestroy(s));
}

/* Both variants of memset after a host function that another thread of this process has to run. */
CASE(host_func_memset, CF_CTX)
{
    CUstream s = NULL;
    CUdeviceptr p = 0;
    unsigned char got[64] = {0};
    bool ok = true;

    NEED(cuStreamCreate(&s, 0));
    NEED(cuMemAlloc(&p, sizeof(got)));
    order_n = 0;
    OK("func", cuLaunchHostFunc(s, note_order, NULL));
    OK("memset", cuMemsetD8(p, 0x11, sizeof(got))); /* the legacy stream waits for s */
    OK("func_again", cuLaunchHostFunc(NULL, note_order, NULL));
    OK("memset_again", cuMemsetD8(p, 0x22, sizeof(got)));
    OK("copy", cuMemcpyDtoH(got, p, sizeof(got)));
    for (unsigned i = 0; i < sizeof(got); i++)
        ok &= got[i] == 0x22;
    cf_true("value", ok);
    cf_u64("called", order_n, 2);
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

static struct {
    CUcontext ctx;
    CUmodule mod;
    pthread_barrier_t together;
} share;

/* One thread: its own stream, its own data, two hundred launches and copies. */
static void *stream_thread(void *arg)
{
    unsigned id = (unsigned)(uintptr_t)arg, n = 512, add = id + 1;
    CUdeviceptr p = 0;
    CUstream s = NULL;
    CUfunction f = NULL;
    uint32_t h[512];
    void *params[] = {&p, &n, &add};
    uintptr_t bad = 0;

    bad += cuCtxSetCurrent(share.ctx) != 0;
    bad += cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) != 0;
    bad += cuMemAlloc(&p, sizeof(h)) != 0;
    bad += cuModuleGetFunction(&f, share.mod, "k_add") != 0;
    pthread_barrier_wait(&share.together);
    for (unsigned round = 0; !bad && round < 10; round++) {
        for (unsigned i = 0; i < n; i++)
            h[i] = i * id + round;
        bad += cuMemcpyHtoDAsync(p, h, sizeof(h), s) != 0;
        for (int k = 0; k < 20; k++)
            bad += cf_launch(f, 4, 128, 0, s, params) != 0;
        bad += cuMemcpyDtoHAsync(h, p, sizeof(h), s) != 0;
        bad += cuStreamSynchronize(s) != 0;
        for (unsigned i = 0; i < n; i++)
            bad += h[i] != i * id + round + 20 * add;
    }
    if (s)
        cuStreamDestroy(s);
    cuMemFree(p);
    return (void *)bad;
}

CASE(threads, CF_CTX)
{
    pthread_t t[8];
    uintptr_t bad = 0;

    NEED(cuCtxGetCurrent(&share.ctx));
    share.mod = cf_module();
    pthread_barrier_init(&share.together, NULL, 8);
    for (uintptr_t i = 0; i < 8; i++)
        cf_need_true("thread", !pthread_create(&t[i], NULL, stream_thread, (void *)i));
    for (int i = 0; i < 8; i++) {
        void *r;
        pthread_join(t[i], &r);
        bad += (uintptr_t)r;
    }
    cf_u64("bad", bad, 0);
    OK("sync", cuCtxSynchronize());
}

static void *per_thread_gate(void *arg)
{
    struct cf_gate **g = arg;
    cuCtxSetCurrent(share.ctx);
    *g = cf_gate_put(CU_STREAM_PER_THREAD);
    return (void *)(uintptr_t)cuStreamQuery(CU_STREAM_PER_THREAD);
}

/* CU_STREAM_PER_THREAD is a different stream in each thread. */
CASE(stream_per_thread, CF_CTX)
{
    pthread_t t;
    struct cf_gate *g = NULL;
    void *r = NULL;

    NEED(cuCtxGetCurrent(&share.ctx));
    cf_need_true("thread", !pthread_create(&t, NULL, per_thread_gate, &g));
    pthread_join(t, &r);
    RC("theirs", (CUresult)(uintptr_t)r, CUDA_ERROR_NOT_READY);
    OK("mine", cuStreamQuery(CU_STREAM_PER_THREAD));
    OK("mine_sync", cuStreamSynchronize(CU_STREAM_PER_THREAD));
    cf_need_true("gate", g != NULL);
    cf_gate_open(g);
    OK("all", cuCtxSynchronize());
}

/* A thread fills a blocked stream, far beyond the number of operations that may be pending. */
struct filler {
    CUcontext ctx;
    CUstream s;
    CUdeviceptr p;
    unsigned n;
    _Atomic unsigned issued;
    bool ok;
};

static void *fill_up(void *arg)
{
    struct filler *f = arg;

    f->ok = cuCtxSetCurrent(f->ctx) == CUDA_SUCCESS;
    for (unsigned i = 0; i < f->n && f->ok; i++) {
        f->ok = cuMemsetD32Async(f->p, i, 1, f->s) == CUDA_SUCCESS;
        atomic_store(&f->issued, i + 1);
    }
    return NULL;
}

/* ... and other streams continue: a stream of another thread unblocks the first. */
CASE(stream_full, CF_CTX)
{
    /* A GPU's driver has a common limit for pending launches of all streams of a context. */
    struct filler f = {.n = cf_real() ? 300 : 40000};
    CUstream other = NULL;
    CUdeviceptr flag = 0, mine = 0;
    pthread_t t;
    unsigned before, same = 0;
    uint32_t v = 0;

    NEED(cuCtxGetCurrent(&f.ctx));
    NEED(cuStreamCreate(&f.s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&flag, 4));
    NEED(cuMemAlloc(&f.p, 4));
    NEED(cuMemAlloc(&mine, 4000));
    NEED(cuMemsetD32(flag, 0, 1));
    NEED(cuCtxSynchronize());
    NEED(cf_fill(mine, 1000, 0, other)); /* loads the code, for which a GPU's driver waits */
    NEED(cuStreamSynchronize(other));
    OK("wait", cuStreamWaitValue32(f.s, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    cf_need_true("thread", pthread_create(&t, NULL, fill_up, &f) == 0);
    /* Until the count is stable: stopping earlier weakens the test, but is no error. */
    for (before = 0; same < 5; usleep(20000)) {
        unsigned now = atomic_load(&f.issued);

        same = now == before && now != 0 ? same + 1 : 0;
        before = now;
    }
    OK("fill", cf_fill(mine, 1000, 3, other));
    OK("sync", cuStreamSynchronize(other));
    cf_true("filled", cf_filled(mine, 1000, 3));
    OK("go", cuStreamWriteValue32(other, flag, 1, 0));
    pthread_join(t, NULL);
    cf_true("all_issued", f.ok && atomic_load(&f.issued) == f.n);
    OK("sync_2", cuStreamSynchronize(f.s));
    OK("read", cuMemcpyDtoH(&v, f.p, 4));
    cf_u64("last", v, f.n - 1);
    OK("destroy", cuStreamDestroy(f.s));
    OK("destroy_2", cuStreamDestroy(other));
    OK("free", cuMemFree(flag));
    OK("free_2", cuMemFree(f.p));
    OK("free_3", cuMemFree(mine));
}
