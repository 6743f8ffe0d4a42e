/* SPDX-License-Identifier: MIT */
/* Marks of streams that fill up: a mark that another stream takes over returns its events. */
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "vgp_worker.h"

#define CONTEXT ((CUcontext)(uintptr_t)0x1000)
#define STREAM(i) VGP_HANDLE(VGP_H_STREAM, 1, i)

static struct wrk_worker w;
static unsigned created, destroyed;
static CUresult on_query;

static CUresult query(CUstream s)
{
    (void)s;
    return on_query;
}

static CUresult create(CUevent *e, unsigned flags)
{
    (void)flags;
    *e = (CUevent)(uintptr_t)(0x3000 + created++);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent e, CUstream s)
{
    (void)e;
    (void)s;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent e)
{
    (void)e;
    destroyed++;
    return CUDA_SUCCESS;
}

static CUresult throttle(uint64_t stream)
{
    struct vgp_args_vgpStreamThrottle a = {.stream = stream};
    struct vgp_record rec = {.reply_slot = VGP_NO_REPLY};
    struct wrk_call c = {.w = &w, .rec = &rec};

    return wrk_do_vgpStreamThrottle(&c, &a);
}

/* The number of events is bounded by that of marks, for any number of streams, and none is lost. */
static void test_many_streams(void **state)
{
    enum { STREAMS = 3 * WRK_MARKS_MAX };
    unsigned pooled = 0;

    (void)state;
    wrk_waits_init(&w.waits);
    w.current = CONTEXT;
    w.quota.dispatcher = pthread_self();
    wrk_provider.cuStreamQuery = query;
    wrk_provider.cuEventCreate = create;
    wrk_provider.cuEventRecord = record;
    wrk_provider.cuEventDestroy_v2 = destroy;
    on_query = CUDA_ERROR_NOT_READY;
    for (uint32_t i = 1; i <= STREAMS; i++) {
        assert_int_equal(wrk_handles_reserve(&w.handles, STREAM(i), VGP_H_STREAM), CUDA_SUCCESS);
        wrk_handles_put(&w.handles, STREAM(i), VGP_H_STREAM, (void *)(uintptr_t)(0x2000 + i), 0);
        assert_int_equal(throttle(STREAM(i)), CUDA_SUCCESS);
        assert_true(created - destroyed <= WRK_MARKS_MAX + 1);
    }
    assert_int_equal(w.waits.npolled, 0);
    assert_int_equal(w.nmarks, WRK_MARKS_MAX);
    for (unsigned i = 0; i < w.nmarks; i++)
        wrk_wait_free(&w, w.marks[i].wait);
    for (unsigned i = 0; i < WRK_EVENT_POOLS; i++)
        pooled += w.waits.pools[i].n;
    assert_int_equal(created - destroyed, pooled); /* no event is lost */
    for (uint32_t i = 1; i <= STREAMS; i++)
        assert_true(wrk_handles_remove(&w.handles, STREAM(i), VGP_H_STREAM));
    wrk_waits_forget_context(&w, CONTEXT);
    wrk_handles_fini(&w.handles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_streams)};

    return cmocka_run_group_tests_name("throttle", tests, NULL, NULL);
}
