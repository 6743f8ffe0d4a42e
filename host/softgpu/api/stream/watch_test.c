/* SPDX-License-Identifier: MIT */
/* sg_event_when(): when and where the function is called, and when it is not. */
#include <unistd.h>

#include "api/api_test.h"
#include "runtime/runtime.h"

struct told {
    CUevent event;
    _Atomic int calls, result, state; /* the event's, as the function saw it */
    _Atomic pthread_t thread;
};

static void tell(void *arg, CUresult r)
{
    struct told *t = arg;

    t->thread = pthread_self();
    t->result = (int)r;
    t->state = (int)cuEventQuery(t->event);
    t->calls++;
}

static void await(struct told *t, int calls)
{
    for (unsigned ms = 0; ms < 20000 && t->calls < calls; ms++)
        usleep(1000);
    assert_int_equal(t->calls, calls);
}

/* Nothing is called for what is complete, was never recorded, or is no event. */
static void test_not(void **state)
{
    CUcontext c = ctx_begin();
    struct told t = {0};
    CUstream s;

    (void)state;
    OK(cuEventCreate(&t.event, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    assert_false(sg_event_when(NULL, tell, &t));
    assert_false(sg_event_when((CUevent)s, tell, &t));
    assert_false(sg_event_when(t.event, tell, &t));
    OK(cuEventRecord(t.event, s));
    OK(cuStreamSynchronize(s));
    assert_false(sg_event_when(t.event, tell, &t));
    OK(cuStreamDestroy_v2(s));
    OK(cuEventDestroy_v2(t.event));
    assert_false(sg_event_when(t.event, tell, &t));
    assert_int_equal(t.calls, 0);
    ctx_end(c);
}

static void pending(void *arg)
{
    struct gate first = GATE_INIT, second = GATE_INIT;
    struct told t[3] = {{0}};
    CUstream s;

    (void)arg;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++)
        OK(cuEventCreate(&t[i].event, CU_EVENT_DISABLE_TIMING));
    OK(cuLaunchHostFunc(s, gate_wait, &first));
    OK(cuEventRecord(t[0].event, s));
    OK(cuEventRecord(t[1].event, s));
    OK(cuLaunchHostFunc(s, gate_wait, &second));
    OK(cuEventRecord(t[2].event, s));
    /* in another order than that of the work */
    assert_true(sg_event_when(t[2].event, tell, &t[2]));
    assert_true(sg_event_when(t[0].event, tell, &t[0]));
    assert_true(sg_event_when(t[1].event, tell, &t[1]));
    assert_true(sg_event_when(t[0].event, tell, &t[0]));
    gate_await(&first);
    assert_int_equal(t[0].calls + t[1].calls + t[2].calls, 0);
    gate_open(&first);
    gate_await(&second); /* what was due was called before later work */
    assert_int_equal(t[0].calls, 2);
    assert_int_equal(t[1].calls, 1);
    assert_int_equal(t[2].calls, 0);
    assert_int_equal(t[0].state, CUDA_SUCCESS);
    assert_int_equal(t[1].state, CUDA_SUCCESS);
    assert_true(pthread_equal(t[0].thread, t[1].thread));
    assert_false(pthread_equal(t[0].thread, pthread_self()));
    /* A stream that is destroyed is still worked off, and what it owes is called. */
    OK(cuStreamDestroy_v2(s));
    gate_open(&second);
    await(&t[2], 1);
    assert_int_equal(t[2].state, CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        OK(cuEventDestroy_v2(t[i].event));
}

static void test_pending(void **state)
{
    CUcontext c = ctx_begin();

    (void)state;
    books_kept(pending, NULL);
    ctx_end(c);
}

/* The record that counts is the latest at the call; recording again does not move it. */
static void test_recorded_again(void **state)
{
    struct gate first = GATE_INIT, second = GATE_INIT;
    CUcontext c = ctx_begin();
    struct told t = {0};
    CUstream s, other;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&t.event, CU_EVENT_DISABLE_TIMING));
    OK(cuLaunchHostFunc(s, gate_wait, &first));
    OK(cuEventRecord(t.event, s));
    assert_true(sg_event_when(t.event, tell, &t));
    OK(cuLaunchHostFunc(other, gate_wait, &second));
    OK(cuEventRecord(t.event, other));
    gate_open(&first);
    await(&t, 1);
    assert_int_equal(t.result, CUDA_SUCCESS);
    assert_int_equal(t.state, CUDA_ERROR_NOT_READY); /* that of the second record */
    gate_open(&second);
    OK(cuCtxSynchronize());
    assert_int_equal(t.calls, 1);
    OK(cuEventDestroy_v2(t.event));
    OK(cuStreamDestroy_v2(other));
    OK(cuStreamDestroy_v2(s));
    ctx_end(c);
}

/* Work that fails is complete, too. */
static void test_failed(void **state)
{
    struct gate g = GATE_INIT;
    CUcontext c = ctx_begin();
    struct told t = {0};
    CUdeviceptr nowhere = 16;
    uint32_t n = 1, value = 1;
    void *args[] = {&nowhere, &value, &n};
    CUmodule m = NULL;
    CUfunction f = get_kernel(&m, "fill");
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&t.event, CU_EVENT_DISABLE_TIMING));
    OK(cuLaunchHostFunc(s, gate_wait, &g));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
    OK(cuEventRecord(t.event, s));
    assert_true(sg_event_when(t.event, tell, &t));
    gate_open(&g);
    await(&t, 1);
    assert_int_equal(t.result, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(t.state, CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxDestroy_v2(c));
}

const struct CMUnitTest watch_tests[] = {cmocka_unit_test(test_not), cmocka_unit_test(test_pending),
                                         cmocka_unit_test(test_recorded_again),
                                         cmocka_unit_test(test_failed)};
const size_t n_watch_tests = sizeof(watch_tests) / sizeof(watch_tests[0]);
