/* SPDX-License-Identifier: MIT */
/* The chain of filters in front of the provider: its order, and that of the worker's own filters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "main.h"

static struct wrk_worker w;
static char trace[16];

static void note(char c)
{
    size_t n = strlen(trace);

    if (n + 1 < sizeof(trace))
        trace[n] = c;
}

static CUresult library_count(int *n)
{
    note('L');
    *n = 1;
    return CUDA_SUCCESS;
}

static const struct vgp_provider *below_inner, *below_outer;

static CUresult inner_count(int *n)
{
    note('i');
    return below_inner->cuDeviceGetCount(n);
}

static CUresult outer_count(int *n)
{
    note('o');
    return below_outer->cuDeviceGetCount(n);
}

static void inner(struct wrk_worker *worker, struct vgp_provider *table, const struct vgp_provider *below)
{
    assert_ptr_equal(worker, &w);
    below_inner = below;
    if (below->cuDeviceGetCount)
        table->cuDeviceGetCount = inner_count;
}

static void outer(struct wrk_worker *worker, struct vgp_provider *table, const struct vgp_provider *below)
{
    (void)worker;
    below_outer = below;
    if (below->cuDeviceGetCount)
        table->cuDeviceGetCount = outer_count;
}

/* The first filter is next to the library; each finds what those before it have made. */
static void test_order(void **state)
{
    static const struct wrk_filter two[] = {{"inner", inner}, {"outer", outer}};
    int n = 0;

    (void)state;
    memset(&wrk_provider, 0, sizeof(wrk_provider));
    wrk_provider.cuDeviceGetCount = library_count;
    wrk_filters_apply(&w, two, 2);
    assert_int_equal(wrk_provider.cuDeviceGetCount(&n), CUDA_SUCCESS);
    assert_int_equal(n, 1);
    assert_string_equal(trace, "oiL");
    assert_ptr_equal(below_inner->cuDeviceGetCount, library_count);
    assert_ptr_equal(below_outer->cuDeviceGetCount, inner_count);
    assert_null(wrk_provider.cuInit); /* what the library lacks stays missing */
}

static CUresult library_free(CUdeviceptr p)
{
    (void)p;
    return CUDA_SUCCESS;
}

static CUresult library_limit(CUlimit limit, size_t value)
{
    (void)limit;
    (void)value;
    return CUDA_SUCCESS;
}

/* The worker's own list: its order is part of what it means (wrk_filters.c). */
static void test_own(void **state)
{
    static const char *const names[] = {"memory", "graphs", "ipc", "limits", "pools", "streams"};

    (void)state;
    assert_int_equal(wrk_filters_count, sizeof(names) / sizeof(names[0]));
    for (unsigned i = 0; i < wrk_filters_count; i++)
        assert_string_equal(wrk_filters[i].name, names[i]);
    memset(&wrk_provider, 0, sizeof(wrk_provider));
    wrk_provider.cuMemFree_v2 = library_free;
    wrk_provider.cuCtxSetLimit = library_limit;
    wrk_filters_install(&w);
    assert_ptr_not_equal(wrk_provider.cuMemFree_v2, library_free);
    assert_ptr_not_equal(wrk_provider.cuCtxSetLimit, library_limit);
    assert_int_equal(wrk_provider.cuMemFree_v2(0x1000), CUDA_SUCCESS);
    assert_int_equal(wrk_provider.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1), CUDA_SUCCESS);
    assert_null(wrk_provider.cuMemAlloc_v2);
    assert_null(wrk_provider.cuGraphLaunch);
    assert_null(wrk_provider.cuMemPoolDestroy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_own)};

    return cmocka_run_group_tests_name("filters", tests, NULL, NULL);
}
