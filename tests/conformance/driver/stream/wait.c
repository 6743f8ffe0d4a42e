/* SPDX-License-Identifier: MIT */
/*
 * Waits after copies whose completion only a wait can show: calls after the wait find them
 * complete.
 */
#include "conform.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define WORDS 16384u
#define ROUNDS 60u

static uint32_t words[WORDS];

static void count_up(uint32_t first)
{
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = first + i;
}

#define BALLAST (256u << 10)

/*
 * Copies `words` to the device in pieces, each followed by a wait. Slower copies within the device
 * precede them, so that a missing wait is detected.
 */
static CUresult upload(CUdeviceptr p, unsigned pieces, CUstream s)
{
    static CUdeviceptr from, to;
    CUresult r = CUDA_SUCCESS;

    if (!from) {
        NEED(cuMemAlloc(&from, BALLAST));
        NEED(cuMemAlloc(&to, BALLAST));
    }
    for (unsigned i = 0; i < 100 && r == CUDA_SUCCESS; i++)
        r = cuMemcpyDtoDAsync(to, from, BALLAST, s);

    for (unsigned i = 0; i < pieces && r == CUDA_SUCCESS; i++) {
        size_t at = i * (sizeof(words) / pieces);

        r = cuMemcpyHtoDAsync(p + at, (char *)words + at, sizeof(words) / pieces, s);
        if (r == CUDA_SUCCESS)
            r = cuStreamSynchronize(s);
    }
    return r;
}

/* p[i] += v in another stream, ordered after the copies by the host's wait only. */
static CUresult add_in(CUdeviceptr p, unsigned n, unsigned v, CUstream s)
{
    void *params[] = {&p, &n, &v};

    return cf_launch(cf_func("k_add"), (n + 127) / 128, 128, 0, s, params);
}

static bool are(CUdeviceptr p, uint32_t first, CUstream s)
{
    static uint32_t got[WORDS];

    if (cuMemcpyDtoHAsync(got, p, sizeof(got), s) != CUDA_SUCCESS || cuStreamSynchronize(s) != CUDA_SUCCESS)
        return false;
    for (unsigned i = 0; i < WORDS; i++) {
        if (got[i] != first + i)
            return false;
    }
    return true;
}

CASE(wait_other_stream, CF_ALONE | CF_CTX)
{
    CUstream a = NULL, b = NULL;
    CUdeviceptr p = 0;
    unsigned wrong = 0, failed = 0;

    NEED(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, sizeof(words)));
    cf_func("k_add");
    for (unsigned i = 0; i < ROUNDS; i++) {
        count_up(i * 1000);
        failed += upload(p, 1u << i % 4, a) != CUDA_SUCCESS;
        failed += add_in(p, WORDS, 5, b) != CUDA_SUCCESS;
        wrong += !are(p, i * 1000 + 5, b);
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    /* The default streams too, and synchronous copies. */
    for (unsigned i = 0; i < ROUNDS; i++) {
        count_up(i);
        failed += cuMemcpyHtoD(p, words, 4096) != CUDA_SUCCESS;
        failed += cuMemcpyHtoD(p + 4096, words + 1024, sizeof(words) - 4096) != CUDA_SUCCESS;
        failed += add_in(p, WORDS, 1, a) != CUDA_SUCCESS;
        wrong += !are(p, i + 1, a);
    }
    cf_u64("failed_default", failed, 0);
    cf_u64("wrong_default", wrong, 0);
    OK("free", cuMemFree(p));
}

static CUresult add_result;
static CUdeviceptr add_to;

static void *add_thread(void *stream)
{
    CUcontext ctx = NULL;

    add_result = cuDevicePrimaryCtxRetain(&ctx, 0);
    if (add_result == CUDA_SUCCESS)
        add_result = cuCtxSetCurrent(ctx);
    if (add_result == CUDA_SUCCESS)
        add_result = add_in(add_to, WORDS, 7, stream);
    cuDevicePrimaryCtxRelease(0);
    return NULL;
}

CASE(wait_other_thread, CF_ALONE | CF_CTX)
{
    CUstream a = NULL, b = NULL;
    unsigned wrong = 0, failed = 0;
    pthread_t t;

    NEED(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&add_to, sizeof(words)));
    cf_func("k_add");
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        count_up(i);
        failed += upload(add_to, 4, a) != CUDA_SUCCESS;
        if (pthread_create(&t, NULL, add_thread, b) == 0)
            pthread_join(t, NULL);
        failed += add_result != CUDA_SUCCESS;
        wrong += !are(add_to, i + 7, b);
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    OK("free", cuMemFree(add_to));
}

static void *upload_thread(void *count)
{
    CUcontext ctx = NULL;

    add_result = cuDevicePrimaryCtxRetain(&ctx, 0);
    if (add_result == CUDA_SUCCESS)
        add_result = cuCtxSetCurrent(ctx);
    if (add_result == CUDA_SUCCESS)
        add_result = upload(add_to, *(unsigned *)count, CU_STREAM_PER_THREAD);
    cuDevicePrimaryCtxRelease(0);
    return NULL;
}

/*
 * A wait for a thread's default stream holds for other threads too, even after the thread has
 * ended.
 */
CASE(wait_per_thread, CF_ALONE | CF_CTX)
{
    CUstream b = NULL;
    unsigned wrong = 0, failed = 0, pieces;
    pthread_t t;

    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&add_to, sizeof(words)));
    cf_func("k_add");
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        count_up(i);
        pieces = 1u << i % 4;
        if (pthread_create(&t, NULL, upload_thread, &pieces) == 0)
            pthread_join(t, NULL);
        failed += add_result != CUDA_SUCCESS;
        failed += add_in(add_to, WORDS, 7, b) != CUDA_SUCCESS;
        wrong += !are(add_to, i + 7, b);
        /* This thread's own stream, and after a copy that was not waited for. */
        failed += upload(add_to, pieces, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        failed += cuMemcpyHtoDAsync(add_to, words, 4096, CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(CU_STREAM_PER_THREAD) != CUDA_SUCCESS;
        failed += add_in(add_to, WORDS, 9, b) != CUDA_SUCCESS;
        wrong += !are(add_to, i + 9, b);
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    OK("free", cuMemFree(add_to));
}

/*
 * A copy from pinned memory reads the data written there by earlier work, and no data written by
 * the host after the wait.
 */
CASE(wait_pinned, CF_ALONE | CF_CTX)
{
    unsigned wrong_order = 0, wrong_late = 0, failed = 0, got[1024];
    CUdeviceptr p = 0, q = 0;
    unsigned *host = NULL;
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemAlloc(&q, 4096));
    NEED(cuMemHostAlloc((void **)&host, 4096, 0));
    for (unsigned i = 0; i < ROUNDS; i++) {
        CUstream own = i % 2 ? s : CU_STREAM_PER_THREAD;

        host[0] = host[1023] = i;
        failed += cuMemcpyHtoDAsync(p, host, 4096, own) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(own) != CUDA_SUCCESS;
        host[0] = host[1023] = ~i; /* the copy is complete: it must not read this */
        failed += cuMemcpyDtoHAsync(host, p, 4096, s) != CUDA_SUCCESS;
        failed += cuMemcpyHtoDAsync(q, host, 4096, s) != CUDA_SUCCESS;
        failed += cuMemcpyDtoHAsync(got, q, 4096, s) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(s) != CUDA_SUCCESS;
        wrong_late += host[0] != i || host[1023] != i;
        wrong_order += got[0] != i || got[1023] != i;
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong_order", wrong_order, 0);
    cf_u64("wrong_late", wrong_late, 0);
    OK("free_host", cuMemFreeHost(host));
    OK("free", cuMemFree(p));
}

/*
 * A wait for the legacy stream covers all streams that it synchronises with, even if it has no work
 * itself.
 */
CASE(wait_legacy, CF_ALONE | CF_CTX)
{
    CUdeviceptr p = 0, there = 0;
    unsigned *host = NULL, wrong = 0, failed = 0;
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, 0));
    NEED(cuMemAlloc(&p, sizeof(words)));
    NEED(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&there, host, 0));
    for (unsigned i = 0; i < ROUNDS; i++) {
        failed += cuStreamSynchronize(NULL) != CUDA_SUCCESS;
        failed += upload(p, 1, s) != CUDA_SUCCESS;
        for (unsigned k = 0; k < 5; k++)
            failed += add_in(p, WORDS, 1, s) != CUDA_SUCCESS;
        failed += cf_fill(there, 1024, i, s) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(i % 2 ? CU_STREAM_LEGACY : NULL) != CUDA_SUCCESS;
        wrong += host[0] != i || host[1023] != i + 1023;
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    OK("free_host", cuMemFreeHost(host));
    OK("free", cuMemFree(p));
}

/* Streams destroyed with work in flight: a wait for everything includes that work. */
CASE(wait_destroyed_stream, CF_ALONE | CF_CTX)
{
    CUdeviceptr p = 0;
    unsigned wrong = 0, failed = 0, got = 0;

    NEED(cuMemAlloc(&p, sizeof(words)));
    cf_func("k_add");
    for (unsigned i = 0; i < ROUNDS / 2; i++) {
        CUstream a = NULL, b = NULL;

        count_up(i);
        failed += cuStreamCreate(&a, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
        failed += upload(p, 1, a) != CUDA_SUCCESS;
        for (unsigned k = 0; k < 10; k++)
            failed += add_in(p, WORDS, 1, a) != CUDA_SUCCESS;
        failed += cuStreamDestroy(a) != CUDA_SUCCESS;
        failed += cuStreamCreate(&b, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(b) != CUDA_SUCCESS;
        failed += cuCtxSynchronize() != CUDA_SUCCESS;
        failed += cuMemcpyDtoHAsync(&got, p, 4, b) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(b) != CUDA_SUCCESS;
        wrong += got != i + 10;
        failed += cuStreamDestroy(b) != CUDA_SUCCESS;
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    OK("free", cuMemFree(p));
}

/* Queries after a wait return complete, however the wait was answered. */
CASE(wait_then_query, CF_ALONE | CF_CTX)
{
    CUstream s = NULL;
    CUevent e = NULL;
    CUdeviceptr p = 0;
    unsigned stream = 0, event = 0, failed = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuMemAlloc(&p, sizeof(words)));
    for (unsigned i = 0; i < ROUNDS; i++) {
        failed += upload(p, 2, s) != CUDA_SUCCESS;
        stream += cuStreamQuery(s) != CUDA_SUCCESS;
        failed += cuMemcpyHtoDAsync(p, words, 4096, s) != CUDA_SUCCESS;
        failed += cuEventRecord(e, s) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(s) != CUDA_SUCCESS;
        event += cuEventQuery(e) != CUDA_SUCCESS;
        failed += upload(p, 2, s) != CUDA_SUCCESS;
        failed += cuCtxSynchronize() != CUDA_SUCCESS;
        stream += cuStreamQuery(s) != CUDA_SUCCESS;
    }
    cf_u64("failed", failed, 0);
    cf_u64("stream_busy", stream, 0);
    cf_u64("event_busy", event, 0);
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

/* A deferred wait must not wait for work issued after it. */
CASE(wait_not_behind, CF_ALONE | CF_CTX)
{
    CUstream a = NULL, b = NULL;
    CUdeviceptr p = 0, flag_there = 0, out = 0;
    unsigned *flag = NULL, limit = 0, got = 0;
    void *params[] = {&flag_there, &out, &limit};

    NEED(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, sizeof(words)));
    NEED(cuMemAlloc(&out, 4));
    NEED(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&flag_there, flag, 0));
    cf_func("k_wait");
    for (unsigned i = 0; i < 4; i++) {
        flag[0] = 0;
        OK("upload", upload(p, 4, a));
        OK("kernel", cf_launch(cf_func("k_wait"), 1, 1, 0, a, params));
        /* Only the host lets the kernel end, and only after these calls. */
        OK("other_stream", cuMemcpyHtoDAsync(p, words, 64, b));
        OK("other_wait", cuStreamSynchronize(b));
        RC("busy", cuStreamQuery(a), CUDA_ERROR_NOT_READY);
        __atomic_store_n(flag, 9 + i, __ATOMIC_SEQ_CST);
        OK("wait", cuStreamSynchronize(a));
        OK("read", cuMemcpyDtoH(&got, out, 4));
        cf_u64("value", got, 9 + i);
    }
    OK("free_host", cuMemFreeHost(flag));
    OK("free", cuMemFree(p));
}

/* Calls that leave nothing in the stream that could wait for the legacy stream. */
static CUresult leave_nothing(bool event, CUdeviceptr *more, CUstream s)
{
    CUevent e = NULL;
    CUresult r;

    if (!event)
        return cuMemAllocAsync(more, 4096, s);
    r = cuEventCreate(&e, CU_EVENT_DISABLE_TIMING);
    r = r ? r : cuStreamWaitEvent(s, e, 0);
    return r ? r : cuEventDestroy(e);
}

/* The wait of another stream does not show that the legacy stream is complete. */
CASE(wait_empty_stream, CF_ALONE | CF_CTX)
{
    CUdeviceptr flag_there = 0, out = 0, more = 0;
    unsigned *flag = NULL, limit = 0, got = 0;
    void *params[] = {&flag_there, &out, &limit};

    NEED(cuMemAlloc(&out, 4));
    NEED(cuMemHostAlloc((void **)&flag, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&flag_there, flag, 0));
    cf_func("k_wait");
    for (unsigned i = 0; i < 2; i++) {
        flag[0] = 0;
        OK("kernel", cf_launch(cf_func("k_wait"), 1, 1, 0, NULL, params));
        OK("nothing", leave_nothing(i, &more, CU_STREAM_PER_THREAD));
        OK("other_wait", cuStreamSynchronize(CU_STREAM_PER_THREAD));
        RC("busy", cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
        __atomic_store_n(flag, 9 + i, __ATOMIC_SEQ_CST);
        OK("wait", cuStreamSynchronize(NULL));
        OK("read", cuMemcpyDtoH(&got, out, 4));
        cf_u64("value", got, 9 + i);
    }
    OK("free_host", cuMemFreeHost(flag));
    OK("free", cuMemFree(out));
    OK("free_more", cuMemFree(more));
}

static atomic_bool add_begins;

static void *await_event(void *event)
{
    atomic_store(&add_begins, true);
    add_result = cuEventSynchronize(event);
    return NULL;
}

/* A wait is for the record before it: an event may be recorded again meanwhile, in the same stream too. */
CASE(wait_recorded_again, CF_ALONE | CF_CTX)
{
    CUstream s = NULL, b = NULL;
    CUevent e = NULL;
    unsigned failed = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 4; i++) {
        struct cf_gate *first = cf_gate_put(s), *second;
        CUstream again = i % 2 ? b : s;
        pthread_t t;

        NEED(cuEventRecord(e, s));
        atomic_store(&add_begins, false);
        cf_need_true("thread", pthread_create(&t, NULL, await_event, e) == 0);
        while (!atomic_load(&add_begins))
            sched_yield();
        usleep(20000); /* it is in the call, and most likely waits */
        second = cf_gate_put(again);
        if (i % 2) /* the first stream's work runs behind the event, hence behind the second stream's work */
            failed += cuStreamWaitEvent(b, e, 0) != CUDA_SUCCESS;
        failed += cuEventRecord(e, again) != CUDA_SUCCESS;
        failed += cuStreamWaitEvent(s, e, 0) != CUDA_SUCCESS;
        cf_gate_open(first);
        usleep(20000);
        cf_gate_open(second);
        pthread_join(t, NULL);
        failed += add_result != CUDA_SUCCESS;
        failed += cuStreamSynchronize(s) != CUDA_SUCCESS;
    }
    cf_u64("failed", failed, 0);
    OK("event", cuEventDestroy(e));
    OK("b", cuStreamDestroy(b));
    OK("s", cuStreamDestroy(s));
}

/*
 * Kernels always complete before a wait returns: their writes to host memory are visible after it.
 */
CASE(wait_sees_kernel, CF_ALONE | CF_CTX)
{
    CUstream s = NULL;
    CUdeviceptr p = 0, there = 0;
    unsigned *host = NULL, wrong = 0, failed = 0;

    NEED(cuStreamCreate(&s, 0));
    NEED(cuMemAlloc(&p, sizeof(words)));
    NEED(cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&there, host, 0));
    for (unsigned i = 0; i < ROUNDS; i++) {
        failed += upload(p, 2, s) != CUDA_SUCCESS;
        failed += cf_fill(there, 1024, i, s) != CUDA_SUCCESS;
        failed += cuMemcpyHtoDAsync(p, words, 128, s) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(s) != CUDA_SUCCESS;
        wrong += host[0] != i || host[1023] != i + 1023;
        /* A copy to host memory after copies without a reply. */
        words[5] = 100 + i;
        failed += upload(p, 1, s) != CUDA_SUCCESS;
        failed += cuMemcpyDtoHAsync(host, p, 4096, s) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(s) != CUDA_SUCCESS;
        wrong += host[5] != 100 + i;
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    OK("free_host", cuMemFreeHost(host));
    OK("free", cuMemFree(p));
}

/* Fills without a wait: in the stream, in the default stream, in rows, for each element size. */
CASE(wait_fill, CF_ALONE | CF_CTX)
{
    CUstream a = NULL, b = NULL;
    CUdeviceptr p = 0;
    unsigned wrong = 0, failed = 0;
    static uint32_t got[WORDS];

    NEED(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, sizeof(words)));
    cf_func("k_add");
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint32_t value = i % 3 == 0 ? 0x01010101u * i : i % 3 == 1 ? 0x00010001u * i : i * 77777u;

        failed += upload(p, 2, a) != CUDA_SUCCESS;
        switch (i % 9) {
        case 0:
            failed += cuMemsetD8Async(p, (unsigned char)i, sizeof(words), a) != CUDA_SUCCESS;
            break;
        case 1:
            failed += cuMemsetD16Async(p, (unsigned short)i, WORDS * 2, a) != CUDA_SUCCESS;
            break;
        case 2:
            failed += cuMemsetD32Async(p, value, WORDS, a) != CUDA_SUCCESS;
            break;
        case 3:
            failed += cuMemsetD2D8Async(p, 256, (unsigned char)i, 256, WORDS / 64, a) != CUDA_SUCCESS;
            break;
        case 4:
            failed += cuMemsetD2D16Async(p, 256, (unsigned short)i, 128, WORDS / 64, a) != CUDA_SUCCESS;
            break;
        case 5:
            failed += cuMemsetD2D32Async(p, 256, value, 64, WORDS / 64, a) != CUDA_SUCCESS;
            break;
        case 6:
            failed += cuMemsetD8(p, (unsigned char)i, sizeof(words)) != CUDA_SUCCESS;
            break;
        case 7:
            failed += cuMemsetD2D16(p, 512, (unsigned short)i, 256, WORDS / 128) != CUDA_SUCCESS;
            break;
        default:
            failed += cuMemsetD32(p, value, WORDS) != CUDA_SUCCESS;
            break;
        }
        failed += (i % 9 < 6 ? cuStreamSynchronize(a) : cuCtxSynchronize()) != CUDA_SUCCESS;
        failed += add_in(p, WORDS, 5, b) != CUDA_SUCCESS;
        failed += cuMemcpyDtoHAsync(got, p, sizeof(got), b) != CUDA_SUCCESS;
        failed += cuStreamSynchronize(b) != CUDA_SUCCESS;
        for (unsigned k = 0; k < WORDS; k++)
            wrong += got[k] != value + 5;
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    /* Errors that a driver reports at the call are reported at the call. */
    cf_rc("too_long", cuMemsetD32Async(p, 0, WORDS + 1, a), CUDA_ERROR_INVALID_VALUE);
    cf_rc("between_words", cuMemsetD32Async(p + 2, 0, 1, a), CUDA_ERROR_INVALID_VALUE);
    cf_rc("too_long_rows", cuMemsetD2D8(p, 256, 0, 256, WORDS / 64 + 1), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a GPU's driver wraps the number of bytes, and the fill faults */
        cf_rc("endless", cuMemsetD16(p, 0, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    OK("nothing", cuMemsetD8Async(p, 0, 0, a));
    OK("free", cuMemFree(p));
    cf_rc("freed", cuMemsetD8(p, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

/* With a second context no call is left without a wait. */
CASE(wait_two_contexts, CF_ALONE | CF_CTX)
{
    CUcontext first = NULL, second = NULL;
    CUdeviceptr p = 0, q = 0;
    unsigned wrong = 0, failed = 0;

    NEED(cuCtxGetCurrent(&first));
    NEED(cuMemAlloc(&p, sizeof(words)));
    count_up(3);
    OK("upload", upload(p, 4, NULL));
    OK("create", cuCtxCreate(&second, NULL, 0, 0));
    NEED(cuMemAlloc(&q, sizeof(words)));
    for (unsigned i = 0; i < 10; i++) {
        NEED(cuCtxSetCurrent(first));
        count_up(i);
        failed += upload(p, 4, NULL) != CUDA_SUCCESS;
        NEED(cuCtxSetCurrent(second));
        failed += cuMemcpyPeer(q, second, p, first, sizeof(words)) != CUDA_SUCCESS;
        wrong += !are(q, i, NULL);
    }
    cf_u64("failed", failed, 0);
    cf_u64("wrong", wrong, 0);
    OK("destroy", cuCtxDestroy(second));
}
