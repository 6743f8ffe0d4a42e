// SPDX-License-Identifier: MIT
/* Facts of streams and events that the library may answer by itself, and what changes them. */
#include "conform.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

/* Repeated queries, which the library may answer by itself, see each change and touch nothing in an error. */
CASE(stream_settings, CF_CTX)
{
    CUstream s = NULL, t = NULL, late = NULL;
    CUstreamAttrValue v = {0};
    unsigned long long id = 0, again = 0, other = 0;
    unsigned flags = 0xEEEEEEEE;
    int least = 0, greatest = 0, p = 0x6EEEEEEE;

    NEED(cuCtxGetStreamPriorityRange(&least, &greatest));
    NEED(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest - 7));
    NEED(cuStreamCreate(&t, CU_STREAM_DEFAULT));
    for (int i = 0; i < 3; i++) {
        p = 0x6EEEEEEE;
        flags = 0xEEEEEEEE;
        OK("priority", cuStreamGetPriority(s, &p));
        cf_true("priority_clamped", p == greatest);
        OK("flags", cuStreamGetFlags(s, &flags));
        cf_u64("flags_value", flags, CU_STREAM_NON_BLOCKING);
        OK("priority_default", cuStreamGetPriority(t, &p));
        cf_u64("priority_default_value", (uint64_t)p, 0);
        OK("flags_default", cuStreamGetFlags(t, &flags));
        cf_u64("flags_default_value", flags, CU_STREAM_DEFAULT);
        OK("id", cuStreamGetId(s, &id));
        OK("id_again", cuStreamGetId(s, &again));
        OK("id_other", cuStreamGetId(t, &other));
        cf_true("id_same", id == again);
        cf_true("id_differs", id != other);
        for (int k = 0; k < 3; k++) {
            const CUstream own[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};

            p = 0x6EEEEEEE;
            flags = 0xEEEEEEEE;
            OK("priority_own", cuStreamGetPriority(own[k], &p));
            cf_u64("priority_own_value", (uint64_t)p, 0);
            OK("flags_own", cuStreamGetFlags(own[k], &flags));
            cf_u64("flags_own_value", flags, CU_STREAM_DEFAULT);
        }
        RC("priority_own_null", cuStreamGetPriority(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
        RC("flags_own_null", cuStreamGetFlags(CU_STREAM_PER_THREAD, NULL), CUDA_ERROR_INVALID_VALUE);
    }
    v.priority = greatest;
    OK("set", cuStreamSetAttribute(t, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    OK("priority_set", cuStreamGetPriority(t, &p));
    cf_true("priority_set_value", p == greatest);
    OK("flags_set", cuStreamGetFlags(t, &flags));
    cf_u64("flags_set_value", flags, CU_STREAM_DEFAULT);
    OK("copy", cuStreamCopyAttributes(s, t));
    v.priority = 0;
    OK("set_back", cuStreamSetAttribute(t, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    OK("copy_back", cuStreamCopyAttributes(s, t));
    OK("priority_copied", cuStreamGetPriority(s, &p));
    cf_u64("priority_copied_value", (uint64_t)p, 0);
    RC("priority_null", cuStreamGetPriority(s, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("flags_null", cuStreamGetFlags(s, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("id_null", cuStreamGetId(s, NULL), CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamDestroy(s));
    p = 0x6EEEEEEE;
    flags = 0xEEEEEEEE;
    id = 0xEEEEEEEEEEEEEEEEull;
    RC("priority_stale", cuStreamGetPriority(s, &p), CUDA_ERROR_INVALID_HANDLE);
    RC("flags_stale", cuStreamGetFlags(s, &flags), CUDA_ERROR_INVALID_HANDLE);
    RC("id_stale", cuStreamGetId(s, &id), CUDA_ERROR_INVALID_HANDLE);
    cf_true("untouched", p == 0x6EEEEEEE && flags == 0xEEEEEEEE && id == 0xEEEEEEEEEEEEEEEEull);
    OK("create_late", cuStreamCreateWithPriority(&late, CU_STREAM_DEFAULT, greatest));
    OK("priority_late", cuStreamGetPriority(late, &p));
    cf_true("priority_late_value", p == greatest);
    NEED(cuStreamDestroy(late));
    NEED(cuStreamDestroy(t));
}

/* Times measured again and again, which the library may know by itself, are of the latest recordings. */
CASE(event_elapsed, CF_CTX)
{
    CUevent a = NULL, b = NULL, c = NULL, quiet = NULL;
    CUstream s = NULL;
    CUdeviceptr p = 0;
    unsigned n = 128, iters = 10;
    void *work[] = {&p, &n, &iters};
    float ms = -1, again = -1, back = -1, untouched;

    memset(&untouched, 0xEE, sizeof(untouched));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&a, 0));
    NEED(cuEventCreate(&b, 0));
    NEED(cuEventCreate(&c, 0));
    NEED(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    NEED(cuMemAlloc(&p, n * 4));
    NEED(cuMemsetD8(p, 1, n * 4));
    for (int round = 0; round < 6; round++) {
        struct timespec pause = {0, 20000000};

        NEED(cuEventRecord(a, s));
        NEED(cf_launch(cf_func("k_work"), 1, n, 0, s, work));
        if (round % 2) { /* so that one round is not taken for another */
            NEED(cuEventSynchronize(a));
            while (nanosleep(&pause, &pause)) /* signals disturb the suite */
                continue;
        }
        NEED(cuEventRecord(b, s));
        OK("sync", cuEventSynchronize(b));
        ms = untouched;
        OK("elapsed", cuEventElapsedTime(&ms, a, b));
        cf_true("elapsed_round", round % 2 ? ms >= 20 : ms >= 0 && ms < 100000);
        OK("elapsed_again", cuEventElapsedTime(&again, a, b));
        cf_true("elapsed_same", memcmp(&ms, &again, sizeof(ms)) == 0);
        OK("elapsed_back", cuEventElapsedTime(&back, b, a));
        cf_true("elapsed_negated", back == -ms);
        OK("elapsed_self", cuEventElapsedTime(&back, a, a));
        cf_true("elapsed_zero", back == 0);
    }
    /* The start is recorded again behind the end. */
    NEED(cuEventRecord(a, s));
    NEED(cuEventSynchronize(a));
    OK("elapsed_turned", cuEventElapsedTime(&ms, a, b));
    cf_true("elapsed_turned_value", ms <= 0);
    /* Not complete again, and waited for by another call. */
    struct cf_gate *g = cf_gate_put(s);
    NEED(cuEventRecord(b, s));
    ms = untouched;
    RC("elapsed_open", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    NEED(cuStreamSynchronize(s));
    OK("elapsed_synchronized", cuEventElapsedTime(&ms, a, b));
    cf_true("elapsed_synchronized_value", ms >= 0);
    /* An event whose partner was destroyed: the wait has nothing to bring along. */
    NEED(cuEventRecord(b, s));
    NEED(cuEventDestroy(a));
    OK("sync_partner", cuEventSynchronize(b));
    ms = untouched;
    RC("elapsed_stale", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    RC("elapsed_never", cuEventElapsedTime(&ms, c, b), CUDA_ERROR_INVALID_HANDLE);
    NEED(cuEventRecord(quiet, s));
    OK("sync_quiet", cuEventSynchronize(quiet));
    RC("elapsed_untimed", cuEventElapsedTime(&ms, b, quiet), CUDA_ERROR_INVALID_HANDLE);
    RC("elapsed_null", cuEventElapsedTime(NULL, b, b), CUDA_ERROR_INVALID_HANDLE);
    cf_true("untouched", memcmp(&ms, &untouched, sizeof(ms)) == 0);
    NEED(cuEventDestroy(b));
    NEED(cuEventDestroy(c));
    NEED(cuEventDestroy(quiet));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

static void *thread_priority(void *arg)
{
    CUcontext context = arg;
    int p = 0x6EEEEEEE;

    if (cuCtxSetCurrent(context) || cuStreamGetPriority(CU_STREAM_PER_THREAD, &p))
        p = 0x6EEEEEEE;
    return (void *)(intptr_t)p;
}

/* A thread that changes the priority of its default stream changes no other, and no other context's. */
CASE(stream_own_settings, CF_CTX | CF_ALONE)
{
    CUstreamAttrValue v = {0};
    CUcontext first = NULL, second = NULL;
    int least = 0, greatest = 0, p = 0;
    pthread_t thread;
    void *other;
    CUresult r;

    NEED(cuCtxGetCurrent(&first));
    NEED(cuCtxGetStreamPriorityRange(&least, &greatest));
    OK("before", cuStreamGetPriority(CU_STREAM_PER_THREAD, &p));
    NEED(pthread_create(&thread, NULL, thread_priority, first) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
    pthread_join(thread, &other);
    cf_true("other_before", (intptr_t)other == 0);
    v.priority = greatest;
    OK("set", cuStreamSetAttribute(CU_STREAM_PER_THREAD, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    for (int i = 0; i < 2; i++) {
        OK("after", cuStreamGetPriority(CU_STREAM_PER_THREAD, &p));
        cf_true("after_value", p == greatest);
        NEED(pthread_create(&thread, NULL, thread_priority, first) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        pthread_join(thread, &other);
        cf_true("other_after", (intptr_t)other == 0);
    }
    NEED(cuCtxCreate(&second, NULL, 0, 0));
    OK("second", cuStreamGetPriority(CU_STREAM_PER_THREAD, &p));
    cf_u64("second_value", (uint64_t)p, 0);
    r = cuStreamSetAttribute(NULL, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v);
    for (int i = 0; i < 2; i++) {
        OK("legacy", cuStreamGetPriority(CU_STREAM_LEGACY, &p));
        cf_true("legacy_value", p == (r == CUDA_SUCCESS ? greatest : 0));
    }
    NEED(cuCtxDestroy(second));
    NEED(cuCtxSetCurrent(first));
    OK("first", cuStreamGetPriority(CU_STREAM_PER_THREAD, &p));
    cf_true("first_value", p == greatest);
    OK("first_legacy", cuStreamGetPriority(NULL, &p));
    cf_u64("first_legacy_value", (uint64_t)p, 0);
    NEED(cuCtxSetCurrent(NULL));
    RC("none", cuStreamGetPriority(NULL, &p), CUDA_ERROR_INVALID_CONTEXT);
    NEED(cuCtxSetCurrent(first));
}
