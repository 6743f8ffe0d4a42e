// SPDX-License-Identifier: MIT
/*
 * counters PART ROUNDS: runs ROUNDS rounds of an operation measured by `bench`, for bench_check.py,
 * which compares libcuda's counters (VGPU_STATS). Links nothing: finds libcuda.so.1 as usual.
 *
 * Controls of limits that libcuda's switches cannot exceed, by COUNTERS_AS: "twice" does the work
 * of each round, and of the start, twice; "pageable" uses ordinary memory instead of pinned; "apart"
 * pauses before each round, long enough for a worker that does not poll to fall asleep.
 */
#include "counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct counters counters;
static char pageable[256 << 10];

static CUresult round_trip(void)
{
    size_t free_bytes, total;

    return counters.a.cuMemGetInfo(&free_bytes, &total);
}

static CUresult issue(void)
{
    return api_launch(&counters.a, counters.p, 32, 1);
}

static CUresult launch_and_wait(void)
{
    CUresult r = api_launch(&counters.a, counters.p, 32, 1);

    return r ? r : counters.a.cuCtxSynchronize();
}

/* Work that takes milliseconds: a waiter that does not poll sleeps. */
static CUresult slow_wait(void)
{
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 32 && !r; i++)
        r = api_launch(&counters.a, counters.p, sizeof(pageable) / 4, 1);
    return r ? r : counters.a.cuCtxSynchronize();
}

/* Waits for a result after several inputs, as for a decoded token. */
static CUresult inputs_and_result(void)
{
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 8 && !r; i++)
        r = counters.a.cuMemcpyHtoD(counters.p + 64 * (unsigned)i, pageable, 64);
    r = r ? r : counters.a.cuMemsetD8(counters.p + 1024, 0, 1024);
    r = r ? r : api_launch(&counters.a, counters.p, 32, 1);
    return r ? r : counters.a.cuMemcpyDtoH(pageable, counters.p, 64);
}

/* The same with waits, in the thread's stream, after a fill without a stream that no call waits for, as
   for ggml's buffers * of quantised weights. */
static CUresult inputs_after_fill(void)
{
    const CUstream own = CU_STREAM_PER_THREAD;
    static bool filled;
    CUresult r = filled ? CUDA_SUCCESS : counters.a.cuMemsetD8(counters.p + 1024, 0, 1024);

    filled = true;
    for (int i = 0; i < 8 && !r; i++) {
        r = counters.a.cuMemcpyHtoDAsync(counters.p + 64 * (unsigned)i, pageable, 64, own);
        r = r ? r : counters.a.cuStreamSynchronize(own);
    }
    r = r ? r : counters.a.cuMemcpyDtoHAsync(pageable, counters.p, 64, own);
    return r ? r : counters.a.cuStreamSynchronize(own);
}

static CUresult small_to_host(void)
{
    return counters.a.cuMemcpyDtoH(pageable, counters.p, 4000);
}

static CUresult large_to_device(void)
{
    return counters.a.cuMemcpyHtoD(counters.p, pageable, sizeof(pageable));
}

static CUresult large_to_host(void)
{
    return counters.a.cuMemcpyDtoH(pageable, counters.p, sizeof(pageable));
}

static CUresult pinned_to_device(void)
{
    return counters.a.cuMemcpyHtoD(counters.p, counters.pinned, sizeof(pageable));
}

static CUresult pinned_to_host(void)
{
    return counters.a.cuMemcpyDtoH(counters.pinned, counters.p, sizeof(pageable));
}

static CUresult query_complete(void)
{
    return counters.a.cuStreamQuery(NULL);
}

/* Events recorded before a wait for their busy stream: each is queried once. */
static CUresult query_covered(void)
{
    static CUstream done, busy;
    static CUevent events[8];
    CUresult r = CUDA_SUCCESS;

    if (!done) {
        r = counters.a.cuStreamCreate(&done, CU_STREAM_NON_BLOCKING);
        r = r ? r : counters.a.cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING);
        for (int i = 0; i < 8 && !r; i++)
            r = counters.a.cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING);
    }
    for (int i = 0; i < 8 && !r; i++)
        r = counters.a.cuEventRecord(events[i], done);
    r = r ? r : counters.a.cuMemsetD8Async(counters.p, 1, 64, busy);
    r = r ? r : counters.a.cuStreamSynchronize(done);
    r = r ? r : counters.a.cuMemsetD8Async(counters.p, 1, 64, busy);
    for (int i = 0; i < 8 && !r; i++)
        r = counters.a.cuEventQuery(events[i]);
    return r;
}

static CUresult occupancy(void)
{
    int blocks, grid, block;
    CUresult r = counters.a.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, counters.a.add, 128, 0);

    return r ? r : counters.a.cuOccupancyMaxPotentialBlockSize(&grid, &block, counters.a.add, NULL, 0, 0);
}

static CUresult limits(void)
{
    int least, greatest;
    size_t value;
    CUresult r = counters.a.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE);

    return r ? r : counters.a.cuCtxGetStreamPriorityRange(&least, &greatest);
}

/* What libraries ask of a stream that they are given. */
static CUresult stream_facts(void)
{
    static CUstream streams[2];
    unsigned long long id;
    unsigned flags;
    int priority;
    CUcontext ctx;
    CUdevice device;
    CUresult r = CUDA_SUCCESS;

    if (!streams[0]) {
        r = counters.a.cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING);
        r = r ? r : counters.a.cuStreamCreateWithPriority(&streams[1], CU_STREAM_DEFAULT, -1);
    }
    for (int i = 0; i < 2 && !r; i++) {
        r = counters.a.cuStreamGetFlags(streams[i], &flags);
        r = r ? r : counters.a.cuStreamGetPriority(streams[i], &priority);
        r = r ? r : counters.a.cuStreamGetId(streams[i], &id);
        r = r ? r : counters.a.cuStreamGetCtx(streams[i], &ctx);
        r = r ? r : counters.a.cuStreamGetDevice(streams[i], &device);
    }
    return r;
}

/* The settings of a new stream are known without a query. */
static CUresult new_stream(void)
{
    unsigned flags;
    int priority;
    CUstream s;
    CUresult r = counters.a.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);

    r = r ? r : counters.a.cuStreamGetFlags(s, &flags);
    r = r ? r : counters.a.cuStreamGetPriority(s, &priority);
    return r ? r : counters.a.cuStreamDestroy(s);
}

/* The same of the default streams. */
static CUresult default_streams(void)
{
    const CUstream streams[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    unsigned flags;
    int priority;
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 3 && !r; i++) {
        r = counters.a.cuStreamGetFlags(streams[i], &flags);
        r = r ? r : counters.a.cuStreamGetPriority(streams[i], &priority);
    }
    return r;
}

static CUresult wait_event(CUevent event)
{
    return counters.a.cuEventSynchronize(event);
}

static CUresult wait_stream(CUevent event)
{
    (void)event;
    return counters.a.cuStreamSynchronize(NULL);
}

static CUresult wait_context(CUevent event)
{
    (void)event;
    return counters.a.cuCtxSynchronize();
}

/* The time of a kernel, measured as in every example: the wait is the one round trip. */
static CUresult elapsed_after(CUresult (*wait)(CUevent))
{
    static CUevent from, to;
    float milliseconds;
    CUresult r = CUDA_SUCCESS;

    if (!from) {
        r = counters.a.cuEventCreate(&from, CU_EVENT_DEFAULT);
        r = r ? r : counters.a.cuEventCreate(&to, CU_EVENT_DEFAULT);
    }
    r = r ? r : counters.a.cuEventRecord(from, NULL);
    r = r ? r : api_launch(&counters.a, counters.p, 32, 1);
    r = r ? r : counters.a.cuEventRecord(to, NULL);
    r = r ? r : wait(to);
    for (int i = 0; i < 3 && !r; i++)
        r = counters.a.cuEventElapsedTime(&milliseconds, from, to);
    return r;
}

static CUresult elapsed(void)
{
    return elapsed_after(wait_event);
}

static CUresult elapsed_stream(void)
{
    return elapsed_after(wait_stream);
}

static CUresult elapsed_context(void)
{
    return elapsed_after(wait_context);
}

/* Waits for events that an earlier wait has covered. */
static CUresult wait_covered(void)
{
    static CUevent events[2];
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 2 && !r && !events[i]; i++)
        r = counters.a.cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING);
    r = r ? r : api_launch(&counters.a, counters.p, 32, 1);
    for (int i = 0; i < 2 && !r; i++)
        r = counters.a.cuEventRecord(events[i], NULL);
    r = r ? r : counters.a.cuEventSynchronize(events[0]);
    r = r ? r : counters.a.cuEventSynchronize(events[0]);
    r = r ? r : counters.a.cuStreamSynchronize(NULL);
    r = r ? r : counters.a.cuEventSynchronize(events[1]);
    return r ? r : counters.a.cuEventSynchronize(events[0]);
}

/* Sets the current value again, as programs do before each launch. */
static CUresult attribute(void)
{
    return counters.a.cuFuncSetAttribute(counters.a.add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         1024);
}

/* A small buffer of pinned memory is allocated and freed, with no work outstanding. */
static CUresult pinned_alloc(void)
{
    void *h;
    CUresult r = counters.a.cuMemHostAlloc(&h, 4096, 0);

    return r ? r : counters.a.cuMemFreeHost(h);
}

/* Temporary buffers around kernels, as used by libraries, and a wait: one round trip. */
static CUresult pool_buffers(void)
{
    static CUmemoryPool pool;
    cuuint64_t all = UINT64_MAX;
    CUresult r = CUDA_SUCCESS;

    /* As frameworks do. */
    if (!pool) {
        r = counters.a.cuDeviceGetDefaultMemPool(&pool, 0);
        r = r ? r : counters.a.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    }

    for (int i = 0; i < 8 && !r; i++) {
        CUdeviceptr first = 0, second = 0;
        unsigned n = 32, v = 1;
        void *params[] = {&first, &n, &v};

        r = counters.a.cuMemAllocAsync(&first, 4096, NULL);
        r = r ? r : counters.a.cuMemAllocAsync(&second, 65536, NULL);
        r = r ? r : counters.a.cuLaunchKernel(counters.a.add, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
        r = r ? r : counters.a.cuMemFreeAsync(second, NULL);
        r = r ? r : counters.a.cuMemFreeAsync(first, NULL);
    }
    return r ? r : counters.a.cuStreamSynchronize(NULL);
}

/* Library load, first allocation and module precede the rounds: cost before the first launch. */
static CUresult nothing(void)
{
    return CUDA_SUCCESS;
}

static bool start(bool without_pinned)
{
    static char ordinary[sizeof(pageable)];

    if (!api_open(&counters.a, "libcuda.so.1") || counters.a.cuMemAlloc(&counters.p, sizeof(pageable)))
        return false;
    if (without_pinned)
        counters.pinned = ordinary;
    else if (counters.a.cuMemHostAlloc(&counters.pinned, sizeof(pageable), 0))
        return false;
    return counters.a.cuCtxSynchronize() == CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        CUresult (*run)(void);
    } parts[] = {{"round-trip", round_trip},
                 {"issue", issue},
                 {"launch-and-wait", launch_and_wait},
                 {"slow-wait", slow_wait},
                 {"inputs-and-result", inputs_and_result},
                 {"inputs-after-fill", inputs_after_fill},
                 {"small-to-host", small_to_host},
                 {"large-to-device", large_to_device},
                 {"large-to-host", large_to_host},
                 {"pinned-to-device", pinned_to_device},
                 {"pinned-to-host", pinned_to_host},
                 {"query-complete", query_complete},
                 {"query-covered", query_covered},
                 {"occupancy", occupancy},
                 {"attribute", attribute},
                 {"limits", limits},
                 {"elapsed", elapsed},
                 {"elapsed-stream", elapsed_stream},
                 {"elapsed-context", elapsed_context},
                 {"wait-covered", wait_covered},
                 {"default-streams", default_streams},
                 {"stream-facts", stream_facts},
                 {"new-stream", new_stream},
                 {"pinned-alloc", pinned_alloc},
                 {"pool-buffers", pool_buffers},
                 {"capture", counters_capture},
                 {"graph", counters_graph},
                 {"graph-memset", counters_graph_memset},
                 {"graph-copy", counters_graph_copy},
                 {"graph-event", counters_graph_event},
                 {"graph-host", counters_graph_host},
                 {"graph-child", counters_graph_child},
                 {"graph-any", counters_graph_any},
                 {"graph-semaphore", counters_graph_semaphore},
                 {"graph-memop", counters_graph_memop},
                 {"graph-array", counters_graph_array},
                 {"graph-condition", counters_graph_condition},
                 {"start", nothing}};

    const char *as = getenv("COUNTERS_AS") ? getenv("COUNTERS_AS") : "";
    int times = strcmp(as, "twice") == 0 ? 2 : 1;
    useconds_t pause = strcmp(as, "apart") == 0 ? 3000 : 0;

    if (argc != 3)
        return 2;
    for (int i = 0; i < times; i++)
        if (!start(strcmp(as, "pageable") == 0))
            return 2;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(argv[1], parts[i].name))
            continue;
        for (int n = times * atoi(argv[2]); n > 0; n--) {
            if (pause)
                usleep(pause);

            CUresult r = parts[i].run();

            if (r) {
                fprintf(stderr, "counters: %s: error %d\n", argv[1], r);
                return 1;
            }
        }
        return counters.a.cuCtxSynchronize() != CUDA_SUCCESS;
    }
    return 2;
}
