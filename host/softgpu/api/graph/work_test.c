/* SPDX-License-Identifier: MIT */
/*
 * Work of single calls grows as the graph does. Each call is made on a graph and on one eight times
 * as large, and the calling thread's time for the larger one compared with that for the smaller.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/api_test.h"

#define TIMES 8u  /* as large */
#define MOST 28.0 /* times the work; by the square it would be 64 */
#define TRIES 5   /* of which the best counts */

/* See vgp_provider_ext.h. */
CUresult sg_graph_exec_name(CUgraphExec hGraphExec, uint64_t name);

static CUgraph graph;
static CUstream stream;

static CUgraphNode *add_empties(CUgraph g, unsigned n)
{
    CUgraphNode *nodes = calloc(n, sizeof(CUgraphNode));

    assert_non_null(nodes);
    for (unsigned i = 0; i < n; i++)
        OK(cuGraphAddEmptyNode(&nodes[i], g, NULL, 0));
    return nodes;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Each builds what it needs in `graph` and returns the seconds of the call that it is about. */

static double instantiate(void)
{
    CUgraphExec x;
    double t = now();

    OK(cuGraphInstantiateWithFlags(&x, graph, 0));
    t = now() - t;
    OK(cuGraphExecDestroy(x));
    return t;
}

/* Nodes that were created in the reverse of the order that their edges ask for. */
static double backwards(unsigned n)
{
    CUgraphNode *nodes = add_empties(graph, n);

    for (unsigned i = 1; i < n; i++)
        OK(cuGraphAddDependencies(graph, &nodes[i], &nodes[i - 1], 1));
    free(nodes);
    return instantiate();
}

/* A launch that records one event and waits for another, often. */
static double events(unsigned n)
{
    CUgraphNode node, last = NULL;
    CUgraphExec x;
    CUevent a, b;
    double t;

    OK(cuEventCreate(&a, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&b, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 2 * n; i++) {
        OK(i < n ? cuGraphAddEventRecordNode(&node, graph, &last, i != 0, a)
                 : cuGraphAddEventWaitNode(&node, graph, &last, 1, b));
        last = node;
    }
    OK(cuGraphInstantiateWithFlags(&x, graph, 0));
    t = now();
    OK(cuGraphLaunch(x, stream));
    t = now() - t;
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(x));
    OK(cuEventDestroy_v2(a));
    OK(cuEventDestroy_v2(b));
    return t;
}

/* Records of an event and waits for it that no edges order: the stream's thread has the work. */
static double event_branches(unsigned n)
{
    struct timespec a, b;
    CUgraphNode node;
    CUgraphExec x;
    CUevent e;

    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < 2 * n; i++)
        OK(i < n ? cuGraphAddEventRecordNode(&node, graph, NULL, 0, e)
                 : cuGraphAddEventWaitNode(&node, graph, NULL, 0, e));
    OK(cuGraphInstantiateWithFlags(&x, graph, 0));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    OK(cuGraphLaunch(x, stream));
    OK(cuStreamSynchronize(stream));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    OK(cuGraphExecDestroy(x));
    OK(cuEventDestroy_v2(e));
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

/* What depends on each node, asked of each. */
static double dependents(unsigned n)
{
    CUgraphNode *nodes = add_empties(graph, n), next;
    double t;

    for (unsigned i = 1; i < n; i++)
        OK(cuGraphAddDependencies(graph, &nodes[i - 1], &nodes[i], 1));
    t = now();
    for (unsigned i = 0; i + 1 < n; i++) {
        size_t count = 1;

        OK(cuGraphNodeGetDependentNodes(nodes[i], &next, &count));
        assert_int_equal(count, 1);
        assert_ptr_equal(next, nodes[i + 1]);
    }
    t = now() - t;
    free(nodes);
    return t;
}

/* Captures of nothing into a graph that has nodes already. */
static double small_captures(unsigned n)
{
    double t;

    free(add_empties(graph, n));
    t = now();
    for (unsigned i = 0; i < n; i++) {
        CUgraph g;

        OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuStreamEndCapture(stream, &g));
    }
    return now() - t;
}

/* One node that depends on all others: made so, made so by edges, copied, and without them
   again. */
static double dependencies(unsigned n)
{
    CUgraphNode *nodes = add_empties(graph, n), *to = calloc(n, sizeof(*to)), join;
    CUgraph copy;
    double t = now();

    assert_non_null(to);
    OK(cuGraphAddEmptyNode(&join, graph, nodes, n));
    OK(cuGraphAddEmptyNode(&join, graph, NULL, 0));
    for (unsigned i = 0; i < n; i++)
        to[i] = join;
    OK(cuGraphAddDependencies(graph, nodes, to, n));
    OK(cuGraphClone(&copy, graph));
    OK(cuGraphRemoveDependencies(graph, nodes, to, n));
    t = now() - t;
    OK(cuGraphDestroy(copy));
    free(nodes);
    free(to);
    return t;
}

static void CUDA_CB nothing(void *arg)
{
    (void)arg;
}

static double objects(unsigned n)
{
    CUgraph copy;
    double t;

    for (unsigned i = 0; i < n; i++) {
        CUuserObject o;

        OK(cuUserObjectCreate(&o, NULL, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        OK(cuGraphRetainUserObject(graph, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    }
    t = now();
    OK(cuGraphClone(&copy, graph));
    t = now() - t;
    OK(cuGraphDestroy(copy));
    return t + instantiate();
}

/* Handles without a node: found to be so at the end. */
static double conditions(unsigned n)
{
    CUgraphConditionalHandle h;
    CUgraphExec x;
    CUcontext c;
    double t;

    OK(cuCtxGetCurrent(&c));
    for (unsigned i = 0; i < n; i++)
        OK(cuGraphConditionalHandleCreate(&h, graph, c, 0, 0));
    t = now();
    assert_int_equal(cuGraphInstantiateWithFlags(&x, graph, 0), CUDA_ERROR_INVALID_VALUE);
    return now() - t;
}

/* Allocations that are freed at the end. */
static double memory(unsigned n)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                                    .bytesize = 512};
    CUdeviceptr *at = calloc(n, sizeof(*at));
    CUgraphNode node, last = NULL;

    assert_non_null(at);
    for (unsigned i = 0; i < n; i++) {
        OK(cuGraphAddMemAllocNode(&node, graph, &last, i != 0, &p));
        last = node;
        at[i] = p.dptr;
    }
    for (unsigned i = 0; i < n; i++) {
        OK(cuGraphAddMemFreeNode(&node, graph, &last, 1, at[i]));
        last = node;
    }
    free(at);
    return instantiate();
}

/* A capture that is to go on behind many nodes, with these: nodes far apart in memory take their
   time, too. */
static double front(unsigned n)
{
    CUgraphNode *nodes;
    CUgraph g;
    double t;

    OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    t = now();
    nodes = add_empties(graph, n);
    OK(cuStreamUpdateCaptureDependencies(stream, nodes, n, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    t = now() - t;
    OK(cuStreamEndCapture(stream, &g));
    free(nodes);
    return t;
}

/* Nodes that are taken back, as their edges are not as they must be, while many events were
   recorded in the capture. */
static double taken_back(unsigned n)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUgraphEdgeData odd = {.to_port = 1};
    CUevent *events = calloc(n, sizeof(CUevent));
    CUmodule m = NULL;
    CUgraphNode node, after;
    CUgraph g;
    size_t left;
    double t;

    assert_non_null(events);
    p.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = get_kernel(&m, "fill"), 1, 1, 1, 1, 1, 1};
    p.kernel.kernelParams = (void *[]){&t, &n, &n};
    OK(cuGraphAddEmptyNode(&after, graph, NULL, 0));
    OK(cuStreamBeginCaptureToGraph(stream, graph, &after, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < n; i++) {
        OK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
        OK(cuEventRecord(events[i], stream));
    }
    t = now();
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(cuGraphAddNode_v2(&node, graph, &after, &odd, 1, &p), CUDA_ERROR_INVALID_VALUE);
    t = now() - t;
    OK(cuStreamEndCapture(stream, &g));
    OK(cuGraphGetNodes(graph, NULL, &left));
    assert_int_equal(left, 1);
    for (unsigned i = 0; i < n; i++)
        OK(cuEventDestroy_v2(events[i]));
    free(events);
    return t;
}

/* Graphs that kernels may launch get the names that kernels give to them. */
static double names(unsigned n)
{
    CUDA_KERNEL_NODE_PARAMS k = {.gridDimX = 1, 1, 1, 1, 1, 1};
    CUgraphExec *x = calloc(n, sizeof(CUgraphExec));
    CUmodule m = NULL;
    CUgraphNode node;
    double t = 0;

    assert_non_null(x);
    k.func = get_kernel(&m, "fill");
    k.kernelParams = (void *[]){&t, &n, &n};
    OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &k));
    for (unsigned i = 0; i < n; i++)
        OK(cuGraphInstantiateWithFlags(&x[i], graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
    t = now();
    for (unsigned i = 0; i < n; i++)
        OK(sg_graph_exec_name(x[i], 1000 + i));
    t = now() - t;
    IS(sg_graph_exec_name(x[0], 1001), INVALID_HANDLE);
    for (unsigned i = 0; i < n; i++)
        OK(cuGraphExecDestroy(x[i]));
    free(x);
    return t;
}

static double seconds(double (*run)(unsigned n), unsigned n)
{
    double best = 0;

    for (int i = 0; i < TRIES; i++) {
        double t;

        OK(cuGraphCreate(&graph, 0));
        t = run(n);
        OK(cuGraphDestroy(graph));
        best = !i || t < best ? t : best;
    }
    return best;
}

static void grows_with(double (*run)(unsigned n), unsigned n)
{
    CUcontext c = ctx_begin();
    double one, many;

    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    one = seconds(run, n);
    many = seconds(run, TIMES * n);
    OK(cuStreamDestroy_v2(stream));
    ctx_end(c);
    if (many >= MOST * one)
        fail_msg("%u: %.2f ms, %u: %.2f ms", n, one * 1e3, TIMES * n, many * 1e3);
}

#define WORK(name, n) \
    static void test_work_##name(void **state) \
    { \
        (void)state; \
        grows_with(name, n); \
    }
WORK(backwards, 2000)
WORK(events, 2000)
WORK(dependencies, 4000)
WORK(objects, 2000)
WORK(conditions, 4000)
WORK(memory, 1000)
WORK(front, 16000)
WORK(event_branches, 2000)
WORK(dependents, 2000)
WORK(small_captures, 2000)
WORK(taken_back, 1000)
WORK(names, 1000)

const struct CMUnitTest gwork_tests[] = {
    cmocka_unit_test(test_work_backwards),    cmocka_unit_test(test_work_events),
    cmocka_unit_test(test_work_dependencies), cmocka_unit_test(test_work_objects),
    cmocka_unit_test(test_work_conditions),   cmocka_unit_test(test_work_memory),
    cmocka_unit_test(test_work_front),        cmocka_unit_test(test_work_event_branches),
    cmocka_unit_test(test_work_dependents),   cmocka_unit_test(test_work_small_captures),
    cmocka_unit_test(test_work_taken_back),   cmocka_unit_test(test_work_names),
};
const size_t n_gwork_tests = sizeof(gwork_tests) / sizeof(gwork_tests[0]);
