/* SPDX-License-Identifier: MIT */
/* Many small pinned allocations: contents, reuse, and the time of reuse. */
#include "../conform.h"

#define MANY 10000u

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static size_t size_of(unsigned i)
{
    static const size_t sizes[] = {1, 64, 4096, 4097, 12288, 40000, 65536, 65537};

    return sizes[i % 8];
}

/* Natively limited by memory only; with a region each, the maximum would be 8192. */
CASE(pinned_small_many, CF_CTX)
{
    uint8_t **p = calloc(MANY, sizeof(*p));
    unsigned failed = 0, wrong = 0;
    uint32_t state = 7;

    cf_need_true("memory", p != NULL);
    for (unsigned i = 0; i < MANY; i++) {
        size_t n = i % 64 == 0 ? size_of(i / 64) : 64;

        failed += cuMemHostAlloc((void **)&p[i], n, CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS;
        if (p[i] != NULL)
            memset(p[i], (int)(i % 251), n);
    }
    cf_u64("alloc_failed", failed, 0);
    for (unsigned i = 0; i < MANY; i++) {
        size_t n = i % 64 == 0 ? size_of(i / 64) : 64;

        wrong += p[i] == NULL || p[i][0] != i % 251 || p[i][n - 1] != i % 251;
    }
    cf_u64("overlap", wrong, 0);
    for (unsigned i = 0; i < MANY; i++) {
        unsigned other = next(&state) % MANY;
        uint8_t *q = p[i];

        p[i] = p[other];
        p[other] = q;
    }
    for (unsigned i = 0; i < MANY; i++)
        failed += cuMemFreeHost(p[i]) != CUDA_SUCCESS;
    cf_u64("free_failed", failed, 0);
    free(p);
}

/* Each appears as a separate allocation in all queries. */
CASE(pinned_small_attributes, CF_CTX)
{
    uint8_t *a = NULL, *b = NULL;
    CUdeviceptr da = 0, db = 0, start = 0;
    unsigned long long ida = 0, idb = 0;
    unsigned flags = 0;
    size_t size = 0;

    NEED(cuMemHostAlloc((void **)&a, 5000, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostAlloc((void **)&b, 100, CU_MEMHOSTALLOC_DEVICEMAP));
    OK("device_a", cuMemHostGetDevicePointer(&da, a, 0));
    OK("device_b", cuMemHostGetDevicePointer(&db, b + 50, 0));
    OK("range", cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      (CUdeviceptr)(uintptr_t)(b + 99)));
    cf_true("range_is", start == (CUdeviceptr)(uintptr_t)b);
    OK("size", cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)(uintptr_t)a));
    cf_u64("size_is", size, 5000);
    OK("id_a", cuPointerGetAttribute(&ida, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)a));
    OK("id_b", cuPointerGetAttribute(&idb, CU_POINTER_ATTRIBUTE_BUFFER_ID, (CUdeviceptr)(uintptr_t)b));
    cf_true("ids_differ", ida != idb);
    OK("flags_a", cuMemHostGetFlags(&flags, a));
    cf_u64("flags_a_are", flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    OK("flags_b", cuMemHostGetFlags(&flags, b));
    cf_u64("flags_b_are", flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP); /* all memory is */
    void *combined = NULL;
    OK("combined", cuMemHostAlloc(&combined, 100, CU_MEMHOSTALLOC_WRITECOMBINED));
    OK("flags_combined", cuMemHostGetFlags(&flags, combined));
    cf_true("flags_combined_are", (flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0);
    OK("free_combined", cuMemFreeHost(combined));
    memset(a, 0x11, 5000);
    memset(b, 0x22, 100);
    OK("kernel", cf_fill(da, 1250, 9, NULL));
    OK("memset", cuMemsetD8(db, 0x33, 10));
    OK("sync", cuCtxSynchronize());
    cf_u64("a_last", ((uint32_t *)(void *)a)[1249], 9 + 1249);
    cf_u64("b_before", b[49], 0x22);
    cf_u64("b_first", b[50], 0x33);
    cf_u64("b_behind", b[60], 0x22);
    RC("interior", cuMemFreeHost(a + 4096), CUDA_ERROR_INVALID_VALUE);
    RC("unregister", cuMemHostUnregister(b), CUDA_ERROR_INVALID_VALUE);
    RC("register_again", cuMemHostRegister(a, 4096, 0), CUDA_ERROR_INVALID_VALUE); /* driver 580 */
    OK("free_a", cuMemFreeHost(a));
    RC("free_a_twice", cuMemFreeHost(a), CUDA_ERROR_INVALID_VALUE);
    RC("freed_pointer", cuMemHostGetDevicePointer(&da, a, 0), CUDA_ERROR_INVALID_VALUE);
    cf_u64("b_stays", b[50], 0x33);
    OK("free_b", cuMemFreeHost(b));
}

/* Memory that work may still write is not reused before that work has ended. */
CASE(pinned_small_reuse, CF_CTX)
{
    const size_t n = 65536;
    uint8_t *h = NULL, *again = NULL, *results = NULL;
    CUdeviceptr flag = 0, d = 0, dresults = 0;
    unsigned wrong = 0;
    CUstream s = NULL;

    NEED(cuMemAlloc(&d, n));
    NEED(cuMemAlloc(&flag, 4));
    NEED(cuMemHostAlloc((void **)&results, n, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&dresults, results, 0));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemsetD8(d, 0x77, n));
    for (unsigned i = 0; i < 200; i++) {
        NEED(cuMemHostAlloc((void **)&h, n, 0));
        for (unsigned k = 0; k < 4; k++)
            NEED(cf_fill(dresults, 16384, i, s));
        NEED(cuMemcpyDtoHAsync(h, d, n, s));
        NEED(cuMemFreeHost(h));
        NEED(cuMemHostAlloc((void **)&again, n, 0));
        memset(again, 0x11, n);
        NEED(cuStreamSynchronize(s));
        for (size_t k = 0; k < n; k++)
            wrong += again[k] != 0x11;
        NEED(cuMemFreeHost(again));
    }
    cf_u64("overwritten", wrong, 0);
    OK("destroy", cuStreamDestroy(s));
    OK("free_results", cuMemFreeHost(results));
    OK("free", cuMemFree(d));
    OK("free_flag", cuMemFree(flag));
}

/* Contexts share no allocation, and the end of a context does not affect another. */
CASE(pinned_small_contexts, CF_ALONE | CF_CTX)
{
    const unsigned contexts = cf_real() ? 5 : 100; /* a GPU takes much of a second per context */
    uint32_t *mine = NULL, *theirs = NULL, *later = NULL;
    CUcontext other = NULL;
    CUdeviceptr d = 0;

    NEED(cuMemHostAlloc((void **)&mine, 256, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuCtxCreate(&other, NULL, 0, 0));
    NEED(cuMemHostAlloc((void **)&theirs, 256, CU_MEMHOSTALLOC_DEVICEMAP));
    theirs[0] = 5;
    OK("destroy", cuCtxDestroy(other));
    OK("pointer", cuMemHostGetDevicePointer(&d, mine, 0));
    OK("kernel", cf_fill(d, 64, 3, NULL));
    OK("sync", cuCtxSynchronize());
    cf_u64("seen", mine[63], 66);
    for (unsigned i = 0; i < contexts; i++) {
        NEED(cuCtxCreate(&other, NULL, 0, 0));
        NEED(cuMemHostAlloc((void **)&later, 256, CU_MEMHOSTALLOC_DEVICEMAP));
        NEED(cuMemHostGetDevicePointer(&d, later, 0));
        NEED(cuMemsetD32(d, i, 64));
        NEED(cuCtxSynchronize());
        cf_need_true("written", later[63] == i);
        NEED(cuMemFreeHost(later));
        NEED(cuCtxDestroy(other));
    }
    OK("free", cuMemFreeHost(mine));
}

/* During a capture no call waits for work, so memory freed meanwhile is reused only later. */
CASE(pinned_small_capture, CF_CTX)
{
    uint8_t *h = NULL, *again = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUgraph graph = NULL;
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemHostAlloc((void **)&h, 4096, 0));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    RC("unsafe", cuMemHostAlloc((void **)&again, 4096, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("end_spoilt", cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    NEED(cuThreadExchangeStreamCaptureMode(&mode));
    OK("alloc", cuMemHostAlloc((void **)&again, 4096, 0));
    OK("free", cuMemFreeHost(h));
    OK("free_again", cuMemFreeHost(again));
    NEED(cuThreadExchangeStreamCaptureMode(&mode));
    OK("end", cuStreamEndCapture(s, &graph));
    OK("alloc_after", cuMemHostAlloc((void **)&h, 4096, 0));
    memset(h, 1, 4096);
    OK("free_after", cuMemFreeHost(h));
    OK("destroy_graph", cuGraphDestroy(graph));
    OK("destroy", cuStreamDestroy(s));
}
