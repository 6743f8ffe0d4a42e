/* SPDX-License-Identifier: MIT */
/*
 * sg_event_when() while what it is about ends or changes: events of several processes, of a kernel that
 * does not end, destroyed or recorded again, of contexts that end, from several threads. Linked with the
 * objects of the library, to run operations and to be another process of a shared event.
 */
#include <unistd.h>

#include "api/api_test.h"
#include "runtime/ipc_event.h"
#include "runtime/runtime.h"

struct told {
    _Atomic int calls, result;
};

static void tell(void *arg, CUresult r)
{
    struct told *t = arg;

    t->result = (int)r;
    t->calls++;
}

static void await(struct told *t, int calls)
{
    for (unsigned ms = 0; ms < 20000 && t->calls < calls; ms++)
        usleep(1000);
    assert_int_equal(t->calls, calls);
}

/* ---- operations that another thread runs ---- */

struct gate_op {
    struct sg_op op;
    struct gate *g;
    struct sg_stream *s;
};

static CUresult gate_run(struct sg_op *op, struct sg_stream *s)
{
    (void)s;
    gate_wait(((struct gate_op *)op)->g);
    return CUDA_SUCCESS;
}

static void gate_drop(struct sg_op *op)
{
    free(op);
}

static void *issue(void *arg)
{
    struct gate_op *o = arg;

    return (void *)(uintptr_t)sg_issue(o->s, &o->op, SG_ISSUE_SYNC);
}

static void gate_told(void *arg, CUresult r)
{
    (void)r;
    gate_wait(arg);
}

/* An operation that another thread completes while the stream's thread is between two others: what is due is called
 * before later work. */
static void test_run_by_another_thread(void **state)
{
    struct gate first = GATE_INIT, watch = GATE_INIT, other = GATE_INIT, last = GATE_INIT;
    struct gate_op *o = calloc(1, sizeof(*o));
    CUcontext c = ctx_begin();
    struct told t = {0};
    pthread_t thread;
    void *result;
    CUevent e;
    CUstream h;

    (void)state;
    OK(cuStreamCreate(&h, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    struct sg_stream *s = SG_LOOKUP(h, SG_T_STREAM);
    OK(cuLaunchHostFunc(h, gate_wait, &first));
    OK(cuEventRecord(e, h));
    assert_true(sg_event_when(e, gate_told, &watch));
    *o = (struct gate_op){.op = {.run = gate_run, .drop = gate_drop, .node_type = -1}, .g = &other, .s = s};
    assert_int_equal(pthread_create(&thread, NULL, issue, o), 0);
    while (atomic_load(&s->submitted) < 3)
        usleep(1000);
    assert_true(sg_stream_when(s, 3, tell, &t));
    OK(cuLaunchHostFunc(h, gate_wait, &last));
    gate_open(&first);
    gate_await(&watch); /* the stream's thread has the last operation, and is in the event's function */
    gate_await(&other);
    gate_open(&other);
    pthread_join(thread, &result);
    assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
    assert_int_equal(t.calls, 0);
    gate_open(&watch);
    gate_await(&last);
    assert_int_equal(t.calls, 1);
    gate_open(&last);
    OK(cuStreamSynchronize(h));
    sg_obj_put(&s->obj);
    OK(cuEventDestroy_v2(e));
    OK(cuStreamDestroy_v2(h));
    ctx_end(c);
}

/* ---- events of several processes ---- */

/* The same event as another process has it. */
static CUevent open_again(CUevent e)
{
    uint8_t token[SG_SHARE_TOKEN];
    struct sg_ctx *ctx;
    unsigned flags;
    CUevent other;

    OK(sg_event_token(e, token, &flags));
    OK(sg_current(&ctx));
    OK(sg_event_open(ctx, token, flags, &other));
    return other;
}

static void shared(void *arg)
{
    struct gate first = GATE_INIT, second = GATE_INIT;
    struct told mine = {0}, others = {0};
    CUevent e, other;
    CUstream s, p;

    (void)arg;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&p, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    other = open_again(e);
    assert_false(sg_event_when(e, tell, &mine)); /* never recorded */
    OK(cuLaunchHostFunc(p, gate_wait, &first));
    OK(cuEventRecord(other, p));
    assert_false(sg_event_when(e, tell, &mine)); /* no stream of this process completes it */
    assert_true(sg_event_when(other, tell, &others));
    OK(cuLaunchHostFunc(s, gate_wait, &second));
    OK(cuEventRecord(e, s));
    assert_false(sg_event_when(other, tell, &others));
    assert_true(sg_event_when(e, tell, &mine));
    gate_open(&second);
    await(&mine, 1); /* the record that counts is its own */
    assert_int_equal(others.calls, 0);
    /* Both ends go before the work does. */
    OK(cuEventDestroy_v2(e));
    OK(cuEventDestroy_v2(other));
    assert_int_equal(others.calls, 0);
    gate_open(&first);
    await(&others, 1);
    assert_int_equal(mine.calls, 1);
    assert_int_equal(mine.result, CUDA_SUCCESS);
    assert_int_equal(others.result, CUDA_SUCCESS);
    OK(cuStreamDestroy_v2(s));
    OK(cuStreamDestroy_v2(p));
}

static void test_shared(void **state)
{
    CUcontext c = ctx_begin();

    (void)state;
    books_kept(shared, NULL);
    ctx_end(c);
}

/* ---- a kernel that does not end, and the end of its context ---- */

static void *destroy_context(void *c)
{
    return (void *)(uintptr_t)cuCtxDestroy_v2(c);
}

static void test_kernel_and_context(void **state)
{
    CUcontext c = ctx_begin();
    struct told t[3] = {{0}};
    CUstream s, idle;
    pthread_t thread;
    CUmodule m = NULL;
    CUdeviceptr p;
    uint32_t *flag;
    CUevent e[3];
    void *result;

    (void)state;
    OK(cuMemHostAlloc((void **)&flag, sizeof(*flag), CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer_v2(&p, flag, 0));
    *flag = 0;
    void *args[] = {&p};
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchKernel(get_kernel(&m, "spin"), 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
    for (int i = 0; i < 3; i++) {
        OK(cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(e[i], s));
        assert_true(sg_event_when(e[i], tell, &t[i]));
    }
    OK(cuEventRecord(e[0], idle)); /* complete at once; the function waits for the record before */
    assert_false(sg_event_when(e[0], tell, &t[0]));
    OK(cuEventDestroy_v2(e[1]));
    assert_false(sg_event_when(e[1], tell, &t[1]));
    OK(cuStreamDestroy_v2(s));
    assert_true(sg_event_when(e[2], tell, &t[2])); /* the stream is still worked off */
    assert_int_equal(pthread_create(&thread, NULL, destroy_context, c), 0);
    usleep(50000);
    assert_int_equal(t[0].calls + t[1].calls + t[2].calls, 0);
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, &result);
    assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        await(&t[i], i == 2 ? 2 : 1);
    while (cuCtxPopCurrent_v2(NULL) == CUDA_SUCCESS)
        continue;
}

/* ---- several threads ---- */

#define THREADS 4
#define ROUNDS 300
#define STREAMS 2

static struct {
    CUcontext ctx;
    CUstream stream[STREAMS];
    _Atomic int promised, called, failed;
} many;

static void count(void *arg, CUresult r)
{
    (void)arg;
    many.failed += r != CUDA_SUCCESS;
    many.called++;
}

static void CUDA_CB nothing(void *arg)
{
    (void)arg;
}

/* 0: all calls succeeded. */
static int record_and_watch(CUevent e, CUstream s)
{
    int r = cuLaunchHostFunc(s, nothing, NULL) | cuEventRecord(e, s);

    if (r == 0 && sg_event_when(e, count, NULL))
        many.promised++;
    return r;
}

static void *rounds(void *arg)
{
    const unsigned thread = (unsigned)(uintptr_t)arg;
    int r = cuCtxSetCurrent(many.ctx);

    for (unsigned i = 0; i < ROUNDS && r == 0; i++) {
        CUstream s = many.stream[(i + thread) % STREAMS], other = many.stream[(i + thread + 1) % STREAMS];
        CUevent e;

        r = cuEventCreate(&e, i % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT);
        if (r == 0)
            r = record_and_watch(e, s);
        if (r == 0 && i % 3 == 1)
            r = record_and_watch(e, other);
        if (r == 0 && i % 5 == 2)
            r = cuStreamSynchronize(s);
        if (r == 0)
            r = cuEventDestroy_v2(e);
    }
    return (void *)(uintptr_t)r;
}

/* Each in a context of its own, which ends at once. */
static void *contexts(void *arg)
{
    int r = 0;

    (void)arg;
    for (unsigned i = 0; i < ROUNDS / 10 && r == 0; i++) {
        CUcontext c;
        CUstream s;
        CUevent e;

        r = cuCtxCreate_v2(&c, 0, 0) | cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) |
            cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
        if (r == 0)
            r = record_and_watch(e, s);
        if (r == 0)
            r = cuCtxDestroy_v2(c);
    }
    return (void *)(uintptr_t)r;
}

static void test_threads(void **state)
{
    pthread_t thread[THREADS + 1];
    void *result;

    (void)state;
    many.ctx = ctx_begin();
    for (unsigned i = 0; i < STREAMS; i++)
        OK(cuStreamCreate(&many.stream[i], CU_STREAM_NON_BLOCKING));
    for (uintptr_t i = 0; i <= THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, i < THREADS ? rounds : contexts, (void *)i), 0);
    for (unsigned i = 0; i <= THREADS; i++) {
        pthread_join(thread[i], &result);
        assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
    }
    for (unsigned ms = 0; ms < 20000 && many.called < many.promised; ms++)
        usleep(1000);
    print_message("%d of %d\n", many.promised, ROUNDS / 3 * 4 * THREADS + ROUNDS / 10);
    assert_int_equal(many.called, many.promised);
    assert_int_equal(many.failed, 0);
    for (unsigned i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy_v2(many.stream[i]));
    ctx_end(many.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_by_another_thread), cmocka_unit_test(test_shared),
        cmocka_unit_test(test_kernel_and_context), cmocka_unit_test(test_threads)};

    if (cuInit(0) != CUDA_SUCCESS)
        return 1;
    return cmocka_run_group_tests_name("watches", tests, NULL, NULL);
}
