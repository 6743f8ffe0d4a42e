/* SPDX-License-Identifier: MIT */
/*
 * Host functions issued in each way: each runs without a further call of the program, as often as
 * it was issued, and a callback receives the status of its stream.
 */
#include "conform.h"

#include <unistd.h>

#define LIMIT_S 20
#define NODES 3u
#define REST_US 600000 /* time after which idle threads of the library sleep, us */

static unsigned runs; /* by atomic accesses */
static int told;

static void CUDA_CB count(void *p)
{
    __atomic_add_fetch((unsigned *)p, 1, __ATOMIC_RELAXED);
}

static void CUDA_CB count_after(CUstream stream, CUresult r, void *p)
{
    (void)stream;
    __atomic_store_n(&told, (int)r, __ATOMIC_RELAXED);
    count(p);
}

/* Creates a graph with n host functions in sequence. */
static CUgraph graph_of(unsigned n)
{
    const CUDA_HOST_NODE_PARAMS host = {.fn = count, .userData = &runs};
    CUgraphNode node = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < n; i++)
        NEED(cuGraphAddHostNode(&node, g, node != NULL ? &node : NULL, node != NULL, &host));
    return g;
}

/* Creates a graph with n nodes and no host function. */
static CUgraph graph_without(unsigned n)
{
    CUgraphNode node = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < n; i++)
        NEED(cuGraphAddEmptyNode(&node, g, node != NULL ? &node : NULL, node != NULL));
    return g;
}

static CUgraph graph_in_graph(CUgraph child)
{
    CUgraphNode node = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddChildGraphNode(&node, g, NULL, 0, child));
    NEED(cuGraphDestroy(child));
    return g;
}

static CUgraphExec ready(CUgraph g)
{
    CUgraphExec x = NULL;

    NEED(cuGraphInstantiate(&x, g, 0));
    NEED(cuGraphDestroy(g));
    return x;
}

static CUgraphExec by_instantiate(CUstream s)
{
    (void)s;
    return ready(graph_of(NODES));
}

static CUgraphExec by_child(CUstream s)
{
    (void)s;
    return ready(graph_in_graph(graph_of(NODES)));
}

static CUgraphExec by_capture(CUstream s)
{
    CUgraph g = NULL;

    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < NODES; i++)
        NEED(cuLaunchHostFunc(s, count, &runs));
    NEED(cuStreamEndCapture(s, &g));
    return ready(g);
}

static CUgraphExec by_params(CUstream s)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD, .hUploadStream = s};
    CUgraph g = graph_of(NODES);
    CUgraphExec x = NULL;

    NEED(cuGraphInstantiateWithParams(&x, g, &how));
    NEED(cuGraphDestroy(g));
    return x;
}

/* The host functions of a child graph are replaced. */
static CUgraphExec by_child_update(CUstream s)
{
    CUgraph with = graph_of(NODES), outer = graph_in_graph(graph_of(NODES));
    CUgraphNode node = NULL;
    CUgraphExec x = NULL;
    size_t one = 1;

    (void)s;
    NEED(cuGraphInstantiate(&x, outer, 0));
    NEED(cuGraphGetNodes(outer, &node, &one));
    NEED(cuGraphExecChildGraphNodeSetParams(x, node, with));
    NEED(cuGraphDestroy(with));
    NEED(cuGraphDestroy(outer));
    return x;
}

static CUgraphExec by_update(CUstream s)
{
    CUgraph with = graph_of(NODES);
    CUgraphExecUpdateResultInfo info;
    CUgraphExec x = by_instantiate(s);

    memset(&info, 0xee, sizeof(info));
    NEED(cuGraphExecUpdate(x, with, &info));
    NEED(cuGraphDestroy(with));
    return x;
}

/* A refused update keeps the old functions. */
static CUgraphExec by_refused_update(CUstream s)
{
    CUgraph without = graph_without(NODES + 1);
    CUgraphExecUpdateResultInfo info;
    CUgraphExec x = by_instantiate(s);

    for (int i = 0; i < 2; i++)
        RC("update_refused", cuGraphExecUpdate(x, without, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    NEED(cuGraphDestroy(without));
    return x;
}

static bool ran(unsigned want)
{
    for (int i = 0; i < LIMIT_S * 1000 && __atomic_load_n(&runs, __ATOMIC_RELAXED) < want; i++)
        usleep(1000);
    return __atomic_load_n(&runs, __ATOMIC_RELAXED) == want;
}

CASE(host_alone_graphs, CF_CTX | CF_ALONE)
{
    static const struct {
        const char *name;
        CUgraphExec (*make)(CUstream s);
    } ways[] = {{"instantiate", by_instantiate},
                {"child", by_child},
                {"capture", by_capture},
                {"params", by_params},
                {"update", by_update},
                {"refused_update", by_refused_update},
                {"child_update", by_child_update}};
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        volatile uint32_t *word = NULL;
        CUgraphExec x = ways[i].make(s);
        CUdeviceptr d;
        char check[64];

        runs = 0;
        NEED(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
        NEED(cuMemHostGetDevicePointer(&d, (void *)(uintptr_t)word, 0));
        *word = 0;
        NEED(cuStreamWaitValue32(s, d, 1, CU_STREAM_WAIT_VALUE_GEQ));
        NEED(cuGraphLaunch(x, s));
        NEED(cuGraphLaunch(x, s));
        usleep(REST_US);
        snprintf(check, sizeof(check), "%s_not_yet", ways[i].name);
        cf_u64(check, __atomic_load_n(&runs, __ATOMIC_RELAXED), 0);
        *word = 1;
        snprintf(check, sizeof(check), "%s_all", ways[i].name);
        cf_true(check, ran(2 * NODES));
        NEED(cuStreamSynchronize(s));
        NEED(cuGraphExecDestroy(x));
        NEED(cuMemFreeHost((void *)(uintptr_t)word));
    }
    NEED(cuStreamDestroy(s));
}

/*
 * A callback receives the status of its stream, even of a failed stream, which runs no host
 * function.
 */
CASE(host_alone_status, CF_CTX | CF_ALONE)
{
    volatile uint32_t *word = NULL;
    CUfunction trap = cf_func("k_trap");
    CUstream s = NULL;
    CUdeviceptr d;

    NEED(cuMemHostAlloc((void **)&word, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&d, (void *)(uintptr_t)word, 0));
    *word = 0;
    NEED(cuFuncLoad(trap));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    told = 0xee;
    OK("issue", cuStreamAddCallback(s, count_after, &runs, 0));
    cf_true("runs", ran(1));
    cf_u64("status", (uint64_t)__atomic_load_n(&told, __ATOMIC_RELAXED), CUDA_SUCCESS);
    told = 0xee;
    NEED(cuStreamWaitValue32(s, d, 1, CU_STREAM_WAIT_VALUE_GEQ));
    NEED(cf_launch(trap, 1, 1, 0, s, NULL));
    OK("failing_function", cuLaunchHostFunc(s, count, &runs));
    OK("failing_issue", cuStreamAddCallback(s, count_after, &runs, 0));
    *word = 1;
    cf_true("failing_runs", ran(2)); /* the callback, not the function */
    cf_u64("failing_status", (uint64_t)__atomic_load_n(&told, __ATOMIC_RELAXED), CUDA_ERROR_LAUNCH_FAILED);
    RC("failing_wait", cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED);
    cf_u64("failing_once", __atomic_load_n(&runs, __ATOMIC_RELAXED), 2);
}
