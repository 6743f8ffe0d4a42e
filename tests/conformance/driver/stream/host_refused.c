// SPDX-License-Identifier: MIT
/*
 * Refused host functions never run; those issued before run without a further call of the program,
 * and the corrected call runs its function once.
 */
#include "conform.h"

#include <unistd.h>

#define LIMIT_S 20
#define TIMES 3
#define REST_US 1500000 /* time after which all threads of the library sleep, us */

static int good, bad; /* by atomic accesses */

static void CUDA_CB count(void *p)
{
    __atomic_add_fetch((int *)p, 1, __ATOMIC_RELAXED);
}

static void CUDA_CB count_after(CUstream stream, CUresult r, void *p)
{
    (void)stream;
    (void)r;
    count(p);
}

/* Polls memory only, without a call that reads from the device. */
static bool ran(const int *p, int want)
{
    for (int i = 0; i < LIMIT_S * 1000 && __atomic_load_n(p, __ATOMIC_RELAXED) < want; i++)
        usleep(1000);
    return __atomic_load_n(p, __ATOMIC_RELAXED) == want;
}

static CUresult by_function(CUstream s, int *p)
{
    return cuLaunchHostFunc(s, count, p);
}

static CUresult by_callback(CUstream s, int *p)
{
    return cuStreamAddCallback(s, count_after, p, 0);
}

static void refused(CUresult (*issue)(CUstream s, int *p))
{
    volatile uint32_t *word = NULL;
    unsigned refusals = 0;
    CUstream s = NULL, captured = NULL, gone = NULL;
    CUgraph g = NULL;
    CUdeviceptr d;

    good = bad = 0;
    NEED(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&d, (void *)(uintptr_t)word, 0));
    *word = 0;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&captured, CU_STREAM_DEFAULT));
    NEED(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamDestroy(gone));
    NEED(cuStreamWaitValue32(s, d, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK("issue", issue(s, &good));
    for (int i = 0; i < TIMES; i++) {
        NEED(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
        RC("implicit", issue(NULL, &bad), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        g = NULL;
        refusals += cuStreamEndCapture(captured, &g) != CUDA_SUCCESS;
    }
    cf_u64("captures_spoilt", refusals, TIMES);
    if (!cf_real())
        RC_IN("ended_stream", issue(gone, &bad), CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("no_function", cuLaunchHostFunc(s, NULL, &bad), CUDA_ERROR_INVALID_VALUE);
    RC("no_callback", cuStreamAddCallback(s, NULL, &bad, 0), CUDA_ERROR_INVALID_VALUE);
    usleep(REST_US);
    cf_true("not_yet", __atomic_load_n(&good, __ATOMIC_RELAXED) == 0);
    *word = 1;
    cf_true("runs_by_itself", ran(&good, 1));
    OK("right", issue(NULL, &good));
    cf_true("runs_again", ran(&good, 2));
    OK("wait", cuCtxSynchronize());
    cf_u64("once", (uint64_t)good, 2);
    cf_u64("never", (uint64_t)bad, 0);
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(captured));
    NEED(cuMemFreeHost((void *)(uintptr_t)word));
}

CASE(host_refused_function, CF_CTX | CF_ALONE)
{
    refused(by_function);
}

CASE(host_refused_callback, CF_CTX | CF_ALONE)
{
    refused(by_callback);
}
