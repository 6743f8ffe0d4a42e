// SPDX-License-Identifier: MIT
/*
 * counters PART ROUNDS: runs ROUNDS rounds of an operation measured by `bench`, for bench_check.py,
 * which compares libcuda's counters (VGPU_STATS). Links nothing: finds libcuda.so.1 as usual.
 *
 * Controls of limits that libcuda's switches cannot exceed, by COUNTERS_AS: "twice" does the work
 * of each round, and of the start, twice; "pageable" uses ordinary memory instead of pinned.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static struct api a;
static CUdeviceptr p;
static void *pinned;
static char pageable[256 << 10];

static CUresult round_trip(void)
{
    size_t free_bytes, total;

    return a.cuMemGetInfo(&free_bytes, &total);
}

static CUresult issue(void)
{
    return api_launch(&a, p, 32, 1);
}

static CUresult launch_and_wait(void)
{
    CUresult r = api_launch(&a, p, 32, 1);

    return r ? r : a.cuCtxSynchronize();
}

/* Work that takes milliseconds: a waiter that does not poll sleeps. */
static CUresult slow_wait(void)
{
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 32 && !r; i++)
        r = api_launch(&a, p, sizeof(pageable) / 4, 1);
    return r ? r : a.cuCtxSynchronize();
}

/* Waits for a result after several inputs, as for a decoded token. */
static CUresult inputs_and_result(void)
{
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 8 && !r; i++)
        r = a.cuMemcpyHtoD(p + 64 * (unsigned)i, pageable, 64);
    r = r ? r : a.cuMemsetD8(p + 1024, 0, 1024);
    r = r ? r : api_launch(&a, p, 32, 1);
    return r ? r : a.cuMemcpyDtoH(pageable, p, 64);
}

static CUresult small_to_host(void)
{
    return a.cuMemcpyDtoH(pageable, p, 4000);
}

static CUresult large_to_device(void)
{
    return a.cuMemcpyHtoD(p, pageable, sizeof(pageable));
}

static CUresult large_to_host(void)
{
    return a.cuMemcpyDtoH(pageable, p, sizeof(pageable));
}

static CUresult pinned_to_device(void)
{
    return a.cuMemcpyHtoD(p, pinned, sizeof(pageable));
}

static CUresult pinned_to_host(void)
{
    return a.cuMemcpyDtoH(pinned, p, sizeof(pageable));
}

static CUresult query_complete(void)
{
    return a.cuStreamQuery(NULL);
}

/* Events recorded before a wait for their busy stream: each is queried once. */
static CUresult query_covered(void)
{
    static CUstream done, busy;
    static CUevent events[8];
    CUresult r = CUDA_SUCCESS;

    if (!done) {
        r = a.cuStreamCreate(&done, CU_STREAM_NON_BLOCKING);
        r = r ? r : a.cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING);
        for (int i = 0; i < 8 && !r; i++)
            r = a.cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING);
    }
    for (int i = 0; i < 8 && !r; i++)
        r = a.cuEventRecord(events[i], done);
    r = r ? r : a.cuMemsetD8Async(p, 1, 64, busy);
    r = r ? r : a.cuStreamSynchronize(done);
    r = r ? r : a.cuMemsetD8Async(p, 1, 64, busy);
    for (int i = 0; i < 8 && !r; i++)
        r = a.cuEventQuery(events[i]);
    return r;
}

static CUresult occupancy(void)
{
    int blocks, grid, block;
    CUresult r = a.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, a.add, 128, 0);

    return r ? r : a.cuOccupancyMaxPotentialBlockSize(&grid, &block, a.add, NULL, 0, 0);
}

static CUresult limits(void)
{
    int least, greatest;
    size_t value;
    CUresult r = a.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE);

    return r ? r : a.cuCtxGetStreamPriorityRange(&least, &greatest);
}

/* Sets the current value again, as programs do before each launch. */
static CUresult attribute(void)
{
    return a.cuFuncSetAttribute(a.add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
}

/* A small buffer of pinned memory is allocated and freed, with no work outstanding. */
static CUresult pinned_alloc(void)
{
    void *h;
    CUresult r = a.cuMemHostAlloc(&h, 4096, 0);

    return r ? r : a.cuMemFreeHost(h);
}

/* Temporary buffers around kernels, as used by libraries, and a wait: one round trip. */
static CUresult pool_buffers(void)
{
    static CUmemoryPool pool;
    cuuint64_t all = UINT64_MAX;
    CUresult r = CUDA_SUCCESS;

    /* As frameworks do. */
    if (!pool) {
        r = a.cuDeviceGetDefaultMemPool(&pool, 0);
        r = r ? r : a.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    }

    for (int i = 0; i < 8 && !r; i++) {
        CUdeviceptr first = 0, second = 0;
        unsigned n = 32, v = 1;
        void *params[] = {&first, &n, &v};

        r = a.cuMemAllocAsync(&first, 4096, NULL);
        r = r ? r : a.cuMemAllocAsync(&second, 65536, NULL);
        r = r ? r : a.cuLaunchKernel(a.add, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
        r = r ? r : a.cuMemFreeAsync(second, NULL);
        r = r ? r : a.cuMemFreeAsync(first, NULL);
    }
    return r ? r : a.cuStreamSynchronize(NULL);
}

static void CUDA_CB host_function(void *arg)
{
    (void)arg;
}

static CUresult captured_work(CUstream s)
{
    unsigned n = 32, v = 1;
    void *params[] = {&p, &n, &v};
    CUresult r = a.cuLaunchKernel(a.add, 1, 1, 1, 128, 1, 1, 0, s, params, NULL);

    r = r ? r : a.cuMemsetD8Async(p, 0, 64, s);
    r = r ? r : a.cuMemcpyDtoDAsync(p, p + 4096, 64, s);
    return r ? r : a.cuMemcpyDtoHAsync(pinned, p, 64, s);
}

/* Two branches of eight identical nodes. Begin, end and destruction: a round trip each. */
static CUresult capture(void)
{
    static CUstream s[2];
    static CUevent e[2];
    CUgraph g = NULL;
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 2 && !s[i] && !r; i++) {
        r = a.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING);
        r = r ? r : a.cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING);
    }
    r = r ? r : a.cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    r = r ? r : a.cuEventRecord(e[0], s[0]);
    r = r ? r : a.cuStreamWaitEvent(s[1], e[0], 0);
    for (int i = 0; i < 16 && !r; i++)
        r = captured_work(s[i % 2]);
    r = r ? r : a.cuLaunchHostFunc(s[1], host_function, NULL);
    r = r ? r : a.cuEventRecord(e[1], s[1]);
    r = r ? r : a.cuStreamWaitEvent(s[0], e[1], 0);
    r = r ? r : a.cuStreamEndCapture(s[0], &g);
    return r ? r : a.cuGraphDestroy(g);
}

static CUDA_KERNEL_NODE_PARAMS add_params(void *params[3])
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = a.add,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 128,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

/* 100 kernels in two chains, joined by an empty node; one is removed. Destruction: a round trip. */
static CUresult graph(void)
{
    unsigned n = 32, v = 1;
    void *params[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = add_params(params);
    CUgraphNode node[101];
    CUgraph g = NULL;
    CUresult r = a.cuGraphCreate(&g, 0);

    for (int i = 0; i < 100 && !r; i++)
        r = a.cuGraphAddKernelNode(&node[i], g, i < 2 ? NULL : &node[i - 2], i >= 2, &k);
    r = r ? r : a.cuGraphAddEmptyNode(&node[100], g, &node[99], 1);
    r = r ? r : a.cuGraphAddDependencies(g, &node[98], &node[100], NULL, 1);
    r = r ? r : a.cuGraphDestroyNode(node[50]);
    return r ? r : a.cuGraphDestroy(g);
}

/* Nodes without common arguments, in two chains per part. Destruction: a round trip. */
enum { CHAIN = 20 };

static CUresult in_chains(CUresult (*add)(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n))
{
    CUgraphNode node[CHAIN];
    CUgraph g = NULL;
    CUresult r = a.cuGraphCreate(&g, 0);

    for (int i = 0; i < CHAIN && !r; i++)
        r = add(&node[i], g, i < 2 ? NULL : &node[i - 2], i >= 2);
    r = r ? r : a.cuGraphDestroyNode(node[CHAIN / 2]);
    return r ? r : a.cuGraphDestroy(g);
}

static CUcontext current(void)
{
    CUcontext ctx = NULL;

    return a.cuCtxGetCurrent(&ctx) ? NULL : ctx;
}

static CUresult add_memset(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    const CUDA_MEMSET_NODE_PARAMS rows = {
        .dst = p + 64, .pitch = 64, .value = 1, .elementSize = 4, .width = 8, .height = 4};

    return a.cuGraphAddMemsetNode(out, g, after, n, &rows, current());
}

static CUresult graph_memset(void)
{
    return in_chains(add_memset);
}

/* Alternately on the device, and between it and pinned memory. */
static CUresult add_copy(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static unsigned turn;
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p,
                       .srcPitch = 64,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p + 1024,
                       .dstPitch = 64,
                       .WidthInBytes = 32,
                       .Height = 4,
                       .Depth = 1};

    turn++;
    if (turn % 3 == 1) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = pinned;
    } else if (turn % 3 == 2) {
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = pinned;
    }
    return a.cuGraphAddMemcpyNode(out, g, after, n, &c, current());
}

static CUresult graph_copy(void)
{
    return in_chains(add_copy);
}

static CUresult add_event(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static CUevent event;
    static unsigned turn;
    CUresult r = event ? CUDA_SUCCESS : a.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    if (r)
        return r;
    return turn++ % 2 ? a.cuGraphAddEventWaitNode(out, g, after, n, event)
                      : a.cuGraphAddEventRecordNode(out, g, after, n, event);
}

static CUresult graph_event(void)
{
    return in_chains(add_event);
}

static void CUDA_CB called(void *user)
{
    (void)user;
}

static CUresult add_host(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    const CUDA_HOST_NODE_PARAMS host = {called, NULL};

    return a.cuGraphAddHostNode(out, g, after, n, &host);
}

static CUresult graph_host(void)
{
    return in_chains(add_host);
}

/* The child is created once; its contents are added and removed again in each round. */
static CUresult add_child(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static CUgraph child;
    CUgraphNode inner[2];
    CUresult r = child ? CUDA_SUCCESS : a.cuGraphCreate(&child, 0);

    if (!r && n == 0) {
        r = add_memset(&inner[0], child, NULL, 0);
        r = r ? r : add_host(&inner[1], child, inner, 1);
    }
    r = r ? r : a.cuGraphAddChildGraphNode(out, g, after, n, child);
    if (!r && n == 0) {
        r = a.cuGraphDestroyNode(inner[0]);
        r = r ? r : a.cuGraphDestroyNode(inner[1]);
    }
    return r;
}

static CUresult graph_child(void)
{
    return in_chains(add_child);
}

/* Nodes of all these types in turn, by the generic call. */
static CUresult add_any(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static unsigned turn;
    static CUevent event;
    static CUgraph child;
    unsigned count = 32, v = 1;
    void *params[] = {&p, &count, &v};
    const CUDA_KERNEL_NODE_PARAMS kernel = add_params(params);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    CUresult r = event ? CUDA_SUCCESS : a.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    r = r || child ? r : a.cuGraphCreate(&child, 0);
    if (r)
        return r;
    switch (turn++ % 6) {
    case 0:
        any.type = CU_GRAPH_NODE_TYPE_KERNEL;
        memcpy(&any.kernel, &kernel, sizeof(kernel)); /* the newer version appends fields */
        break;
    case 1:
        any.type = CU_GRAPH_NODE_TYPE_MEMSET;
        any.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
            .dst = p, .value = 1, .elementSize = 4, .width = 8, .height = 1, .ctx = current()};
        break;
    case 2:
        any.type = CU_GRAPH_NODE_TYPE_HOST;
        any.host.fn = called;
        break;
    case 3:
        any.type = CU_GRAPH_NODE_TYPE_GRAPH;
        any.graph.graph = child;
        any.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
        break;
    case 4:
        any.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
        any.eventRecord.event = event;
        break;
    default:
        break;
    }
    return a.cuGraphAddNode(out, g, after, NULL, n, &any);
}

static CUresult graph_any(void)
{
    return in_chains(add_any);
}

static CUresult add_semaphore(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal;
    static const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait;
    static CUexternalSemaphore semaphore;
    static unsigned turn;
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD};

    if (!semaphore) {
        d.handle.fd = eventfd(0, EFD_NONBLOCK);
        CUresult r = a.cuImportExternalSemaphore(&semaphore, &d);
        if (r)
            return r;
    }
    if (turn++ % 2)
        return a.cuGraphAddExternalSemaphoresWaitNode(out, g, after, n,
                                                      &(CUDA_EXT_SEM_WAIT_NODE_PARAMS){&semaphore, &wait, 1});
    return a.cuGraphAddExternalSemaphoresSignalNode(
        out, g, after, n, &(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS){&semaphore, &signal, 1});
}

static CUresult graph_semaphore(void)
{
    return in_chains(add_semaphore);
}

/* Alternately a write to the device and a wait for a pinned word, and both in one node. */
static CUresult add_memop(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static unsigned turn;
    CUstreamBatchMemOpParams list[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = p, .value = 1}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = (uintptr_t)pinned}}};
    const unsigned first = turn % 3 == 1, count = turn % 3 == 2 ? 2 : 1;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {
        .ctx = current(), .count = count, .paramArray = list + first};

    turn++;
    return a.cuGraphAddBatchMemOpNode(out, g, after, n, &batch);
}

static CUresult graph_memop(void)
{
    return in_chains(add_memop);
}

/* From device memory to an array, to another array, and to pinned memory. */
static CUresult add_array(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static CUarray array[2];
    static unsigned turn;
    const CUDA_ARRAY_DESCRIPTOR d = {
        .Width = 16, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                       .srcXInBytes = 8,
                       .srcY = 1,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstY = 4,
                       .WidthInBytes = 64,
                       .Height = 4,
                       .Depth = 1};

    for (int i = 0; i < 2 && !array[i]; i++) {
        CUresult r = a.cuArrayCreate(&array[i], &d);
        if (r)
            return r;
    }
    c.srcArray = array[0];
    c.dstArray = array[1];
    if (turn % 3 == 0) {
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = p;
        c.srcPitch = 128;
    } else if (turn % 3 == 2) {
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = pinned;
        c.dstPitch = 128;
    }
    turn++;
    return a.cuGraphAddMemcpyNode(out, g, after, n, &c, current());
}

static CUresult graph_array(void)
{
    return in_chains(add_array);
}

/* A handle takes a round trip, its node none; destruction one. */
static CUresult graph_condition(void)
{
    CUgraphNode node[CHAIN];
    CUgraph g = NULL;
    CUresult r = a.cuGraphCreate(&g, 0);

    for (int i = 0; i < CHAIN && !r; i++) {
        CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};

        any.conditional.type = (CUgraphConditionalNodeType)(i % 3); /* if, while, switch */
        any.conditional.size = i % 3 == 2 ? 5 : 1;
        any.conditional.ctx = current();
        r = a.cuGraphConditionalHandleCreate(&any.conditional.handle, g, i % 2 ? current() : NULL, 0, 0);
        r = r ? r : a.cuGraphAddNode(&node[i], g, i < 2 ? NULL : &node[i - 2], NULL, i >= 2, &any);
        r = r || any.conditional.phGraph_out[0] ? r : CUDA_ERROR_UNKNOWN;
    }
    return r ? r : a.cuGraphDestroy(g);
}

/* Library load, first allocation and module precede the rounds: cost before the first launch. */
static CUresult nothing(void)
{
    return CUDA_SUCCESS;
}

static bool start(bool without_pinned)
{
    static char ordinary[sizeof(pageable)];

    if (!api_open(&a, "libcuda.so.1") || a.cuMemAlloc(&p, sizeof(pageable)))
        return false;
    if (without_pinned)
        pinned = ordinary;
    else if (a.cuMemHostAlloc(&pinned, sizeof(pageable), 0))
        return false;
    return a.cuCtxSynchronize() == CUDA_SUCCESS;
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
                 {"pinned-alloc", pinned_alloc},
                 {"pool-buffers", pool_buffers},
                 {"capture", capture},
                 {"graph", graph},
                 {"graph-memset", graph_memset},
                 {"graph-copy", graph_copy},
                 {"graph-event", graph_event},
                 {"graph-host", graph_host},
                 {"graph-child", graph_child},
                 {"graph-any", graph_any},
                 {"graph-semaphore", graph_semaphore},
                 {"graph-memop", graph_memop},
                 {"graph-array", graph_array},
                 {"graph-condition", graph_condition},
                 {"start", nothing}};

    const char *as = getenv("COUNTERS_AS") ? getenv("COUNTERS_AS") : "";
    int times = strcmp(as, "twice") == 0 ? 2 : 1;

    if (argc != 3)
        return 2;
    for (int i = 0; i < times; i++)
        if (!start(strcmp(as, "pageable") == 0))
            return 2;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(argv[1], parts[i].name))
            continue;
        for (int n = times * atoi(argv[2]); n > 0; n--) {
            CUresult r = parts[i].run();

            if (r) {
                fprintf(stderr, "counters: %s: error %d\n", argv[1], r);
                return 1;
            }
        }
        return a.cuCtxSynchronize() != CUDA_SUCCESS;
    }
    return 2;
}
