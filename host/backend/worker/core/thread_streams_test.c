/* SPDX-License-Identifier: MIT */
/* Default streams of threads, which have no handles, are streams and objects of the client like any others. */
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CONTEXT(n) VGP_HANDLE(VGP_H_CONTEXT, 1, n)
#define PER_THREAD 2

static struct wrk_worker w;
static uintptr_t made; /* streams of the provider */

static CUresult stream_create(CUstream *s, unsigned flags)
{
    assert_int_equal(flags, CU_STREAM_DEFAULT);
    *s = (CUstream)++made;
    return CUDA_SUCCESS;
}

/* The stream that CU_STREAM_PER_THREAD is of a thread in a context; NULL: refused. */
static CUstream stream_of(uint64_t context, uint32_t thread)
{
    const struct vgp_record rec = {.context = context, .thread = thread};
    struct wrk_call c = {.w = &w, .rec = &rec};
    CUstream s = NULL;
    CUresult r = wrk_stream_get(&c, PER_THREAD, &s);

    assert_true(r == CUDA_SUCCESS || r == CUDA_ERROR_OUT_OF_MEMORY);
    return r == CUDA_SUCCESS ? s : NULL;
}

static int setup(void **state)
{
    (void)state;
    wrk_provider.cuStreamCreate = stream_create;
    wrk_client_limits.streams = wrk_client_limits.handles = 0;
    while (w.nthread_streams)
        wrk_thread_stream_gone(&w, 0);
    made = 0;
    return 0;
}

/* Threads t = 1, 2, ... in context 1 until one gets no stream; their number. */
static unsigned threads_served(void)
{
    uint32_t t = 1;

    while (t < 100 && stream_of(CONTEXT(1), t))
        t++;
    return t - 1;
}

static void test_streams(void **state)
{
    (void)state;
    w.handles.live[VGP_H_STREAM] = 3;
    wrk_client_limits.streams = 8;
    assert_int_equal(threads_served(), 5);
    assert_ptr_equal(stream_of(CONTEXT(1), 2), (CUstream)2); /* it is there */
    assert_null(stream_of(CONTEXT(2), 2));
    assert_false(wrk_limits_handle(&w.handles, VGP_H_STREAM));
    assert_true(wrk_limits_handle(&w.handles, VGP_H_EVENT));
    wrk_thread_stream_gone(&w, 0);
    assert_true(wrk_limits_handle(&w.handles, VGP_H_STREAM));
    assert_non_null(stream_of(CONTEXT(2), 2));
    assert_null(stream_of(CONTEXT(2), 3));
    w.handles.live[VGP_H_STREAM] = 0;
}

static void test_objects(void **state)
{
    (void)state;
    w.handles.live_all = 10;
    wrk_client_limits.handles = 16;
    assert_int_equal(threads_served(), 6);
    assert_false(wrk_limits_handle(&w.handles, VGP_H_EVENT));
    wrk_thread_stream_gone(&w, 5);
    assert_true(wrk_limits_handle(&w.handles, VGP_H_EVENT));
    w.handles.live_all = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_streams, setup),
                                       cmocka_unit_test_setup(test_objects, setup)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
