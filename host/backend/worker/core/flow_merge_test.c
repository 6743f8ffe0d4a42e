/* SPDX-License-Identifier: MIT */
/* Work in flight in more streams than there are slots for work without a mark; keys of the durations of calls. */
#define _GNU_SOURCE
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "vgp_calls.h"

#define STREAM(n) ((CUstream)(uintptr_t)(0x10000 + (n)))
enum { EVENTS = 16384 };

static struct wrk_worker w = {.current = (CUcontext)(uintptr_t)0x20000};
static unsigned recorded[EVENTS], nevents, live, records, done; /* those recorded up to `done` are complete */

static CUresult event_create(CUevent *e, unsigned flags)
{
    (void)flags;
    assert_true(nevents < EVENTS - 1);
    live++;
    *e = (CUevent)(uintptr_t)++nevents;
    return CUDA_SUCCESS;
}

static CUresult event_record(CUevent e, CUstream s)
{
    (void)s;
    recorded[(uintptr_t)e] = ++records;
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent e)
{
    return recorded[(uintptr_t)e] <= done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_destroy(CUevent e)
{
    (void)e;
    live--;
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}

static void issue(CUstream stream)
{
    const struct vgp_record rec = {.call = VGP_vgpLaunch};
    static struct wrk_call c;

    c = (struct wrk_call){.w = &w, .rec = &rec, .stream = stream};
    wrk_flow_issued(&c);
}

static bool may_issue(void)
{
    return wrk_flow_may(&w, VGP_vgpLaunch, VGP_F_FILLS);
}

static unsigned issue_all(void)
{
    unsigned n = 0;

    for (; n < 5000 && may_issue(); n++)
        issue(STREAM(1));
    return n;
}

/* Work without an end in more streams than there are slots holds no call up below the bound. Marks are merged
 * only as far as a stream's own reach: their completion is the time limit's progress. */
static void test_many_streams(void **state)
{
    unsigned n = 0;

    (void)state;
    wrk_client_limits.queue = 4000; /* 250 calls a mark */
    for (; n < 5000 && may_issue(); n++)
        issue(STREAM(n % (n < 3000 ? 700 : 1)));
    assert_int_equal(n, 4000);
    assert_uint_in_range(live, 700, 2048);
    assert_false(may_issue()); /* all have marks */
    done = records - 1;
    assert_uint_in_range(issue_all(), 4000 - 250, 4000 - 1);
    done = records;
    assert_int_equal(issue_all(), 4000);
    wrk_flow_context_ends(&w, w.current, NULL);
    assert_int_equal(live, 0);
}

/* The key of a call's duration depends on what the description says, and on no argument that the record lacks. */
static void test_scales(void **state)
{
    struct vgp_args_vgpLaunch launch = {.func = 1, .gridX = 2, .gridY = 3, .gridZ = 4, .blockX = 5};
    struct vgp_args_cuMemsetD2D32Async fill = {.dstDevice = 1, .Width = 2, .Height = 3};
    struct vgp_args_cuGraphLaunch graph = {.hGraphExec = 1};
    uint32_t key = wrk_flow_key(VGP_vgpLaunch, (void *)&launch, sizeof(launch));

    (void)state;
    launch.blockX = 9;
    assert_int_equal(wrk_flow_key(VGP_vgpLaunch, (void *)&launch, sizeof(launch)), key);
    launch.gridZ = 9;
    assert_int_not_equal(wrk_flow_key(VGP_vgpLaunch, (void *)&launch, sizeof(launch)), key);
    launch.gridZ = 4;
    launch.func = 9;
    assert_int_not_equal(wrk_flow_key(VGP_vgpLaunch, (void *)&launch, sizeof(launch)), key);
    key = wrk_flow_key(VGP_cuMemsetD2D32Async, (void *)&fill, sizeof(fill));
    fill.dstDevice = 9;
    assert_int_equal(wrk_flow_key(VGP_cuMemsetD2D32Async, (void *)&fill, sizeof(fill)), key);
    fill.Height = 9;
    assert_int_not_equal(wrk_flow_key(VGP_cuMemsetD2D32Async, (void *)&fill, sizeof(fill)), key);
    key = wrk_flow_key(VGP_cuGraphLaunch, (void *)&graph, sizeof(graph));
    graph.hGraphExec = 9;
    assert_int_not_equal(wrk_flow_key(VGP_cuGraphLaunch, (void *)&graph, sizeof(graph)), key);
    key = wrk_flow_key(VGP_cuGraphLaunch, (void *)&graph, 4);
    graph.hGraphExec = 1;
    assert_int_equal(wrk_flow_key(VGP_cuGraphLaunch, (void *)&graph, 4), key);
    assert_int_equal(wrk_flow_key(VGP_cuGraphLaunch, NULL, 0), key);
    assert_int_not_equal(wrk_flow_key(0xffff, NULL, 0), key); /* no call */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_streams), cmocka_unit_test(test_scales)};

    wrk_provider.cuEventCreate = event_create;
    wrk_provider.cuEventRecord = event_record;
    wrk_provider.cuEventQuery = event_query;
    wrk_provider.cuEventDestroy_v2 = event_destroy;
    wrk_provider.cuCtxSetCurrent = set_current;
    return cmocka_run_group_tests_name("flow_merge", tests, NULL, NULL);
}
