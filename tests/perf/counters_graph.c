// SPDX-License-Identifier: MIT
/* The parts of `counters` that capture and build graphs. */
#include "counters.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static void CUDA_CB host_function(void *arg)
{
    (void)arg;
}

static CUresult captured_work(CUstream s)
{
    unsigned n = 32, v = 1;
    void *params[] = {&counters.p, &n, &v};
    CUresult r = counters.a.cuLaunchKernel(counters.a.add, 1, 1, 1, 128, 1, 1, 0, s, params, NULL);

    r = r ? r : counters.a.cuMemsetD8Async(counters.p, 0, 64, s);
    r = r ? r : counters.a.cuMemcpyDtoDAsync(counters.p, counters.p + 4096, 64, s);
    return r ? r : counters.a.cuMemcpyDtoHAsync(counters.pinned, counters.p, 64, s);
}

/* Two branches of eight identical nodes. Begin, end and destruction: a round trip each. */
CUresult counters_capture(void)
{
    static CUstream s[2];
    static CUevent e[2];
    CUgraph g = NULL;
    CUresult r = CUDA_SUCCESS;

    for (int i = 0; i < 2 && !s[i] && !r; i++) {
        r = counters.a.cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING);
        r = r ? r : counters.a.cuEventCreate(&e[i], CU_EVENT_DISABLE_TIMING);
    }
    r = r ? r : counters.a.cuStreamBeginCapture(s[0], CU_STREAM_CAPTURE_MODE_GLOBAL);
    r = r ? r : counters.a.cuEventRecord(e[0], s[0]);
    r = r ? r : counters.a.cuStreamWaitEvent(s[1], e[0], 0);
    for (int i = 0; i < 16 && !r; i++)
        r = captured_work(s[i % 2]);
    r = r ? r : counters.a.cuLaunchHostFunc(s[1], host_function, NULL);
    r = r ? r : counters.a.cuEventRecord(e[1], s[1]);
    r = r ? r : counters.a.cuStreamWaitEvent(s[0], e[1], 0);
    r = r ? r : counters.a.cuStreamEndCapture(s[0], &g);
    return r ? r : counters.a.cuGraphDestroy(g);
}

static CUDA_KERNEL_NODE_PARAMS add_params(void *params[3])
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = counters.a.add,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 128,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

/* 100 kernels in two chains, joined by an empty node; one is removed. Destruction: a round trip. */
CUresult counters_graph(void)
{
    unsigned n = 32, v = 1;
    void *params[] = {&counters.p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = add_params(params);
    CUgraphNode node[101];
    CUgraph g = NULL;
    CUresult r = counters.a.cuGraphCreate(&g, 0);

    for (int i = 0; i < 100 && !r; i++)
        r = counters.a.cuGraphAddKernelNode(&node[i], g, i < 2 ? NULL : &node[i - 2], i >= 2, &k);
    r = r ? r : counters.a.cuGraphAddEmptyNode(&node[100], g, &node[99], 1);
    r = r ? r : counters.a.cuGraphAddDependencies(g, &node[98], &node[100], NULL, 1);
    r = r ? r : counters.a.cuGraphDestroyNode(node[50]);
    return r ? r : counters.a.cuGraphDestroy(g);
}

/* Nodes without common arguments, in two chains per part. Destruction: a round trip. */
enum { CHAIN = 20 };

static CUresult in_chains(CUresult (*add)(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n))
{
    CUgraphNode node[CHAIN];
    CUgraph g = NULL;
    CUresult r = counters.a.cuGraphCreate(&g, 0);

    for (int i = 0; i < CHAIN && !r; i++)
        r = add(&node[i], g, i < 2 ? NULL : &node[i - 2], i >= 2);
    r = r ? r : counters.a.cuGraphDestroyNode(node[CHAIN / 2]);
    return r ? r : counters.a.cuGraphDestroy(g);
}

static CUcontext current(void)
{
    CUcontext ctx = NULL;

    return counters.a.cuCtxGetCurrent(&ctx) ? NULL : ctx;
}

static CUresult add_memset(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    const CUDA_MEMSET_NODE_PARAMS rows = {
        .dst = counters.p + 64, .pitch = 64, .value = 1, .elementSize = 4, .width = 8, .height = 4};

    return counters.a.cuGraphAddMemsetNode(out, g, after, n, &rows, current());
}

CUresult counters_graph_memset(void)
{
    return in_chains(add_memset);
}

/* Alternately on the device, and between it and pinned memory. */
static CUresult add_copy(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static unsigned turn;
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = counters.p,
                       .srcPitch = 64,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = counters.p + 1024,
                       .dstPitch = 64,
                       .WidthInBytes = 32,
                       .Height = 4,
                       .Depth = 1};

    turn++;
    if (turn % 3 == 1) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST;
        c.srcHost = counters.pinned;
    } else if (turn % 3 == 2) {
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = counters.pinned;
    }
    return counters.a.cuGraphAddMemcpyNode(out, g, after, n, &c, current());
}

CUresult counters_graph_copy(void)
{
    return in_chains(add_copy);
}

static CUresult add_event(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static CUevent event;
    static unsigned turn;
    CUresult r = event ? CUDA_SUCCESS : counters.a.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    if (r)
        return r;
    return turn++ % 2 ? counters.a.cuGraphAddEventWaitNode(out, g, after, n, event)
                      : counters.a.cuGraphAddEventRecordNode(out, g, after, n, event);
}

CUresult counters_graph_event(void)
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

    return counters.a.cuGraphAddHostNode(out, g, after, n, &host);
}

CUresult counters_graph_host(void)
{
    return in_chains(add_host);
}

/* The child is created once; its contents are added and removed again in each round. */
static CUresult add_child(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static CUgraph child;
    CUgraphNode inner[2];
    CUresult r = child ? CUDA_SUCCESS : counters.a.cuGraphCreate(&child, 0);

    if (!r && n == 0) {
        r = add_memset(&inner[0], child, NULL, 0);
        r = r ? r : add_host(&inner[1], child, inner, 1);
    }
    r = r ? r : counters.a.cuGraphAddChildGraphNode(out, g, after, n, child);
    if (!r && n == 0) {
        r = counters.a.cuGraphDestroyNode(inner[0]);
        r = r ? r : counters.a.cuGraphDestroyNode(inner[1]);
    }
    return r;
}

CUresult counters_graph_child(void)
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
    void *params[] = {&counters.p, &count, &v};
    const CUDA_KERNEL_NODE_PARAMS kernel = add_params(params);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    CUresult r = event ? CUDA_SUCCESS : counters.a.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

    r = r || child ? r : counters.a.cuGraphCreate(&child, 0);
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
            .dst = counters.p, .value = 1, .elementSize = 4, .width = 8, .height = 1, .ctx = current()};
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
    return counters.a.cuGraphAddNode(out, g, after, NULL, n, &any);
}

CUresult counters_graph_any(void)
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
        CUresult r = counters.a.cuImportExternalSemaphore(&semaphore, &d);
        if (r)
            return r;
    }
    if (turn++ % 2)
        return counters.a.cuGraphAddExternalSemaphoresWaitNode(
            out, g, after, n, &(CUDA_EXT_SEM_WAIT_NODE_PARAMS){&semaphore, &wait, 1});
    return counters.a.cuGraphAddExternalSemaphoresSignalNode(
        out, g, after, n, &(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS){&semaphore, &signal, 1});
}

CUresult counters_graph_semaphore(void)
{
    return in_chains(add_semaphore);
}

/* Alternately a write to the device and a wait for a pinned word, and both in one node. */
static CUresult add_memop(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
    static unsigned turn;
    CUstreamBatchMemOpParams list[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = counters.p, .value = 1}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = (uintptr_t)counters.pinned}}};
    const unsigned first = turn % 3 == 1, count = turn % 3 == 2 ? 2 : 1;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {
        .ctx = current(), .count = count, .paramArray = list + first};

    turn++;
    return counters.a.cuGraphAddBatchMemOpNode(out, g, after, n, &batch);
}

CUresult counters_graph_memop(void)
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
        CUresult r = counters.a.cuArrayCreate(&array[i], &d);
        if (r)
            return r;
    }
    c.srcArray = array[0];
    c.dstArray = array[1];
    if (turn % 3 == 0) {
        c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        c.srcDevice = counters.p;
        c.srcPitch = 128;
    } else if (turn % 3 == 2) {
        c.dstMemoryType = CU_MEMORYTYPE_HOST;
        c.dstHost = counters.pinned;
        c.dstPitch = 128;
    }
    turn++;
    return counters.a.cuGraphAddMemcpyNode(out, g, after, n, &c, current());
}

CUresult counters_graph_array(void)
{
    return in_chains(add_array);
}

/* A handle takes a round trip, its node none; destruction takes one. */
CUresult counters_graph_condition(void)
{
    CUgraphNode node[CHAIN];
    CUgraph g = NULL;
    CUresult r = counters.a.cuGraphCreate(&g, 0);

    for (int i = 0; i < CHAIN && !r; i++) {
        CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};

        any.conditional.type = (CUgraphConditionalNodeType)(i % 3); /* if, while, switch */
        any.conditional.size = i % 3 == 2 ? 5 : 1;
        any.conditional.ctx = current();
        r = counters.a.cuGraphConditionalHandleCreate(&any.conditional.handle, g, i % 2 ? current() : NULL, 0,
                                                      0);
        r = r ? r : counters.a.cuGraphAddNode(&node[i], g, i < 2 ? NULL : &node[i - 2], NULL, i >= 2, &any);
        r = r || any.conditional.phGraph_out[0] ? r : CUDA_ERROR_UNKNOWN;
    }
    return r ? r : counters.a.cuGraphDestroy(g);
}
