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

struct opener {
    struct cf_gate *gate;
    CUcontext context;
    CUevent event;
    CUstream stream;
    bool record, opened;
};

static void *open_later(void *arg)
{
    struct opener *o = arg;
    struct timespec pause = {0, 20000000};

    while (nanosleep(&pause, &pause))
        continue;
    __atomic_store_n(&o->opened, true, __ATOMIC_SEQ_CST);
    cf_gate_open(o->gate);
    return NULL;
}

static void *record_now(void *arg)
{
    struct opener *o = arg;

    return cuCtxSetCurrent(o->context) || cuEventRecord(o->event, o->stream) ? arg : NULL;
}

/* A wait for an event that another wait has covered ends at once, unless it is recorded again. */
CASE(event_waits, CF_CTX)
{
    CUevent e = NULL, quiet = NULL;
    CUstream s = NULL, t = NULL;
    CUcontext context = NULL;
    CUgraph g = NULL;
    struct opener o;
    pthread_t thread;
    void *failed = NULL;

    NEED(cuCtxGetCurrent(&context));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    NEED(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    OK("never", cuEventSynchronize(e));
    OK("never_again", cuEventSynchronize(e));
    for (int way = 0; way < 4; way++) {
        NEED(cuEventRecord(e, s));
        OK("cover", way == 0   ? cuEventSynchronize(e)
                    : way == 1 ? cuStreamSynchronize(s)
                    : way == 2 ? cuCtxSynchronize()
                               : cuStreamSynchronize(NULL)); /* does not cover it */
        OK("wait", cuEventSynchronize(e));
        OK("wait_again", cuEventSynchronize(e));
        /* Recorded again, by this thread and by another; behind work. */
        o = (struct opener){cf_gate_put(way % 2 ? t : s), context, e, way % 2 ? t : s, way >= 2, false};
        if (way >= 2) {
            NEED(pthread_create(&thread, NULL, record_now, &o) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
            pthread_join(thread, &failed);
            cf_true("record_other", failed == NULL);
        } else {
            NEED(cuEventRecord(e, o.stream));
        }
        RC("open", cuEventQuery(e), CUDA_ERROR_NOT_READY);
        NEED(pthread_create(&thread, NULL, open_later, &o) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        OK("wait_open", cuEventSynchronize(e));
        cf_true("waited", __atomic_load_n(&o.opened, __ATOMIC_SEQ_CST));
        pthread_join(thread, NULL);
        OK("closed", cuEventQuery(e));
    }
    /* A wait for another stream covers nothing. */
    o = (struct opener){cf_gate_put(s), context, e, s, false, false};
    NEED(cuEventRecord(e, s));
    NEED(cuEventRecord(quiet, t));
    OK("other", cuStreamSynchronize(t));
    OK("other_wait", cuEventSynchronize(quiet));
    NEED(pthread_create(&thread, NULL, open_later, &o) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
    OK("other_open", cuEventSynchronize(e));
    cf_true("other_waited", __atomic_load_n(&o.opened, __ATOMIC_SEQ_CST));
    pthread_join(thread, NULL);
    /* Recorded by a capture, it is no event of the stream any more. */
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuEventRecord(e, s));
    NEED(cuStreamEndCapture(s, &g));
    OK("captured_sync", cuStreamSynchronize(s));
    OK("captured_context", cuCtxSynchronize());
    RC_IN("captured_query", cuEventQuery(e), CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_CAPTURED_EVENT);
    for (int i = 0; i < 3; i++)
        RC_IN("captured_wait", cuEventSynchronize(e), CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE,
              CUDA_ERROR_CAPTURED_EVENT);
    NEED(cuEventRecord(e, s));
    OK("recorded_wait", cuEventSynchronize(e));
    NEED(cuGraphDestroy(g));
    NEED(cuEventDestroy(e));
    RC("stale", cuEventSynchronize(e), CUDA_ERROR_INVALID_HANDLE);
    NEED(cuEventDestroy(quiet));
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(t));
}

static void record_pair(CUevent a, CUevent b, CUstream s, CUdeviceptr p)
{
    NEED(cuEventRecord(a, s));
    NEED(cf_fill(p, 64, 1, s));
    NEED(cuEventRecord(b, s));
}

/* Times whose second event was waited for with its stream, or with its context. */
CASE(event_elapsed_waits, CF_CTX)
{
    CUevent a = NULL, b = NULL, c = NULL, d = NULL;
    CUstream s = NULL, t = NULL;
    CUcontext first = NULL, second = NULL;
    CUdeviceptr p = 0;
    CUgraph g = NULL;
    struct cf_gate *gate;
    float ms, other, untouched;

    memset(&untouched, 0xEE, sizeof(untouched));
    NEED(cuCtxGetCurrent(&first));
    NEED(cuMemAlloc(&p, 256));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&a, 0));
    NEED(cuEventCreate(&b, 0));
    NEED(cuEventCreate(&c, 0));
    NEED(cuEventCreate(&d, 0));
    for (int round = 0; round < 8; round++) {
        struct timespec pause = {0, 20000000};

        NEED(cuEventRecord(a, s));
        if (round % 2) {
            NEED(cuStreamSynchronize(s));
            while (nanosleep(&pause, &pause))
                continue;
        }
        NEED(cf_fill(p, 64, 1, s));
        NEED(cuEventRecord(b, s));
        OK("sync", round & 2 ? cuCtxSynchronize() : cuStreamSynchronize(s));
        ms = untouched;
        OK("elapsed", cuEventElapsedTime(&ms, a, b));
        cf_true("elapsed_value", round % 2 ? ms >= 20 : ms >= 0 && ms < 100000);
        OK("elapsed_again", cuEventElapsedTime(&other, a, b));
        cf_true("elapsed_same", memcmp(&ms, &other, sizeof(ms)) == 0);
        OK("elapsed_back", cuEventElapsedTime(&other, b, a));
        cf_true("elapsed_back_value", other == -ms);
    }
    /* The end recorded again after the wait, and open: the answer that came along is old. */
    record_pair(a, b, s, p);
    NEED(cuStreamSynchronize(s));
    gate = cf_gate_put(s);
    NEED(cuEventRecord(b, s));
    ms = untouched;
    RC("open", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    OK("open_other", cuStreamSynchronize(t));
    RC("still_open", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    cf_true("untouched", memcmp(&ms, &untouched, sizeof(ms)) == 0);
    cf_gate_open(gate);
    NEED(cuStreamSynchronize(s));
    OK("opened", cuEventElapsedTime(&ms, a, b));
    /* Each event in another stream, of which only the second is waited for. */
    gate = cf_gate_put(t);
    NEED(cuEventRecord(a, t));
    NEED(cuEventRecord(b, s));
    NEED(cuStreamSynchronize(s));
    ms = untouched;
    RC("start_open", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    cf_gate_open(gate);
    NEED(cuCtxSynchronize());
    OK("start_opened", cuEventElapsedTime(&ms, a, b));
    /* Two pairs and one wait. */
    for (int round = 0; round < 3; round++) {
        record_pair(a, b, s, p);
        record_pair(c, d, t, p);
        NEED(cuCtxSynchronize());
        OK("two_first", cuEventElapsedTime(&ms, a, b));
        OK("two_second", cuEventElapsedTime(&other, c, d));
        cf_true("two_values", ms >= 0 && other >= 0);
    }
    /* Recorded by a capture before the wait. */
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuEventRecord(b, s));
    NEED(cuStreamEndCapture(s, &g));
    NEED(cuCtxSynchronize());
    RC_IN("captured", cuEventElapsedTime(&ms, a, b), CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_CAPTURED_EVENT);
    NEED(cuGraphDestroy(g));
    /* The start destroyed between the recordings and the wait. */
    record_pair(a, b, s, p);
    NEED(cuEventDestroy(a));
    OK("gone_sync", cuStreamSynchronize(s));
    OK("gone_context", cuCtxSynchronize());
    RC("gone", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
    NEED(cuEventDestroy(b));
    NEED(cuStreamDestroy(s));
    /* Events of another context, busy there and then gone. */
    NEED(cuCtxCreate(&second, NULL, 0, 0));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&a, 0));
    NEED(cuEventCreate(&b, 0));
    for (int round = 0; round < 3; round++) {
        NEED(cuEventRecord(a, s));
        gate = cf_gate_put(s);
        NEED(cuEventRecord(b, s));
        NEED(cuCtxSetCurrent(first));
        OK("first_sync", cuCtxSynchronize());
        RC("first_open", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
        cf_gate_open(gate);
        NEED(cuCtxSetCurrent(second));
        OK("second_sync", cuCtxSynchronize());
        OK("second_elapsed", cuEventElapsedTime(&ms, a, b));
        NEED(cuCtxSetCurrent(first));
        OK("second_from_first", cuEventElapsedTime(&other, a, b));
        cf_true("second_same", memcmp(&ms, &other, sizeof(ms)) == 0);
        OK("second_wait", cuEventSynchronize(b));
        NEED(cuCtxSetCurrent(second));
    }
    NEED(cuCtxDestroy(second));
    NEED(cuCtxSetCurrent(first));
    ms = untouched;
    RC_IN("second_gone", cuEventElapsedTime(&ms, a, b), CUDA_ERROR_INVALID_HANDLE,
          CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC_IN("second_gone_wait", cuEventSynchronize(b), CUDA_ERROR_INVALID_HANDLE,
          CUDA_ERROR_CONTEXT_IS_DESTROYED);
    cf_true("second_untouched", memcmp(&ms, &untouched, sizeof(ms)) == 0);
    NEED(cuEventDestroy(c));
    NEED(cuEventDestroy(d));
    NEED(cuStreamDestroy(t));
    NEED(cuMemFree(p));
}

/* An error of the device between: it is what every wait and every question says from then on. */
CASE(event_waits_fault, CF_CTX | CF_ALONE)
{
    CUevent a = NULL, b = NULL;
    CUdeviceptr p = 0;
    unsigned flags;
    float ms, untouched;
    int priority;
    CUresult r;

    memset(&untouched, 0xEE, sizeof(untouched));
    ms = untouched;
    NEED(cuMemAlloc(&p, 256));
    NEED(cuEventCreate(&a, 0));
    NEED(cuEventCreate(&b, 0));
    record_pair(a, b, NULL, p);
    NEED(cuCtxSynchronize());
    OK("elapsed", cuEventElapsedTime(&ms, a, b));
    OK("flags", cuStreamGetFlags(NULL, &flags));
    OK("priority", cuStreamGetPriority(NULL, &priority));
    record_pair(a, b, NULL, p);
    NEED(cuEventSynchronize(b));
    OK("launch", cf_launch(cf_func("k_trap"), 1, 1, 0, NULL, NULL));
    r = cuCtxSynchronize();
    cf_true("fault", r != CUDA_SUCCESS);
    ms = untouched;
    RC("wait", cuEventSynchronize(b), r);
    RC("elapsed_after", cuEventElapsedTime(&ms, a, b), r);
    cf_true("untouched", memcmp(&ms, &untouched, sizeof(ms)) == 0);
    RC("sync_again", cuStreamSynchronize(NULL), r);
    RC("wait_again", cuEventSynchronize(b), r);
    RC_IN("flags_after", cuStreamGetFlags(NULL, &flags), CUDA_SUCCESS, r);
    RC_IN("priority_after", cuStreamGetPriority(NULL, &priority), CUDA_SUCCESS, r);
}
