/* SPDX-License-Identifier: MIT */
/*
 * Context flags: every query returns the value of every setter, for each flag alone and all
 * together.
 */
#include "conform.h"

static const unsigned sched[] = {CU_CTX_SCHED_AUTO, CU_CTX_SCHED_SPIN, CU_CTX_SCHED_YIELD,
                                 CU_CTX_SCHED_BLOCKING_SYNC};
static const unsigned others[] = {0,
                                  CU_CTX_MAP_HOST,
                                  CU_CTX_LMEM_RESIZE_TO_MAX,
                                  CU_CTX_COREDUMP_ENABLE,
                                  CU_CTX_USER_COREDUMP_ENABLE,
                                  CU_CTX_SYNC_MEMOPS,
                                  CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_SYNC_MEMOPS};
#define N (sizeof(sched) / sizeof(sched[0]) * (sizeof(others) / sizeof(others[0])))

static unsigned nth(unsigned i)
{
    return sched[i % 4] | others[i / 4];
}

/*
 * True if cuCtxGetFlags returns these. Mapping of memory is always possible, whether reported or
 * not.
 */
static bool current_has(unsigned flags)
{
    unsigned got = 0;

    return cuCtxGetFlags(&got) == CUDA_SUCCESS && (got | CU_CTX_MAP_HOST) == (flags | CU_CTX_MAP_HOST);
}

CASE(flags_set, CF_CTX)
{
    unsigned good = 0;

    for (unsigned i = 0; i < N; i++)
        good += cuCtxSetFlags(nth(i)) == CUDA_SUCCESS && current_has(nth(i));
    cf_u64("kept", good, N);
    good = 0;
    for (unsigned bit = 0; bit < 32; bit++) {
        const unsigned f = 1u << bit;
        bool known = false;

        for (unsigned i = 0; i < N; i++)
            known = known || (nth(i) & f) != 0;
        if (!known)
            good += cuCtxSetFlags(f) == CUDA_ERROR_INVALID_VALUE && current_has(nth(N - 1));
    }
    cf_u64("unknown_refused", good, 32 - 8);
    RC("two_ways_to_wait", cuCtxSetFlags(CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD), CUDA_ERROR_INVALID_VALUE);
    cf_true("refusal_leaves_them", current_has(nth(N - 1)));
    NEED(cuCtxSetFlags(0));
}

CASE(flags_create, CF_ALONE)
{
    unsigned good = 0, current = 0;
    CUcontext c;

    NEED(cuInit(0));
    for (unsigned i = 0; i < N; i++) {
        if (cuCtxCreate(&c, NULL, nth(i), 0) != CUDA_SUCCESS)
            continue;
        good += current_has(nth(i));
        NEED(cuCtxDestroy(c));
        NEED(cuCtxGetCurrent(&c));
        current += c != NULL;
    }
    cf_u64("kept", good, N);
    cf_u64("none_is_current", current, 0);
}

CASE(flags_primary, CF_ALONE)
{
    unsigned good = 0, used = 0, after = 0, flags, got;
    int active;
    CUcontext c;

    NEED(cuInit(0));
    for (unsigned i = 0; i < N; i++) {
        flags = nth(i);
        if (cuDevicePrimaryCtxSetFlags(0, flags) != CUDA_SUCCESS)
            continue;
        got = active = 99;
        NEED(cuDevicePrimaryCtxGetState(0, &got, &active));
        good += (got | CU_CTX_MAP_HOST) == (flags | CU_CTX_MAP_HOST) && active == 0;
        NEED(cuDevicePrimaryCtxRetain(&c, 0));
        NEED(cuCtxSetCurrent(c));
        NEED(cuDevicePrimaryCtxGetState(0, &got, &active));
        used += current_has(flags) && active == 1;
        if (i % 2)
            NEED(cuDevicePrimaryCtxReset(0));
        else
            NEED(cuDevicePrimaryCtxRelease(0));
        NEED(cuDevicePrimaryCtxGetState(0, &got, &active));
        after += active == 0;
    }
    cf_u64("kept", good, N);
    cf_u64("in_use", used, N);
    cf_u64("inactive_after", after, N);
}

/* A green context shares its primary context's flags. */
CASE(flags_green, CF_CTX)
{
    unsigned good = 0, both = 0;
    CUdevResourceDesc desc;
    CUcontext primary, c;
    CUdevResource all;
    CUgreenCtx green;

    NEED(cuCtxGetCurrent(&primary));
    NEED(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    NEED(cuDevResourceGenerateDesc(&desc, &all, 1));
    NEED(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    NEED(cuCtxFromGreenCtx(&c, green));
    for (unsigned i = 0; i < N; i++) {
        NEED(cuCtxSetCurrent(c));
        good += cuCtxSetFlags(nth(i)) == CUDA_SUCCESS && current_has(nth(i));
        NEED(cuCtxSetCurrent(primary));
        both += current_has(nth(i));
    }
    cf_u64("kept", good, N);
    cf_u64("of_primary", both, N);
    NEED(cuCtxSetFlags(0));
    NEED(cuGreenCtxDestroy(green));
}
