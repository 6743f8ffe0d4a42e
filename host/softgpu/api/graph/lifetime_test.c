/* SPDX-License-Identifier: MIT */
/* Objects of graphs that name each other, ended in every order: what is named stays, or the name
   goes with it. */
#include "api/api_test.h"
#include "lib/testing/range.h"

#define NEST_MAX 64

static CUgraph new_graph(void)
{
    CUgraph g;

    OK(cuGraphCreate(&g, 0));
    return g;
}

static CUgraphNode add_empty(CUgraph g)
{
    CUgraphNode n;

    OK(cuGraphAddEmptyNode(&n, g, NULL, 0));
    return n;
}

static CUgraph add_child(CUgraph g, CUgraphNode *node)
{
    CUgraph empty = new_graph(), child;
    CUgraphNode n;

    OK(cuGraphAddChildGraphNode(&n, g, NULL, 0, empty));
    OK(cuGraphDestroy(empty));
    OK(cuGraphChildGraphNodeGetGraph(n, &child));
    if (node)
        *node = n;
    return child;
}

static CUresult add_condition(CUgraph g, CUcontext c, CUgraphConditionalHandle h, CUgraphNode *node)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};

    p.conditional.handle = h;
    p.conditional.type = CU_GRAPH_COND_TYPE_IF;
    p.conditional.size = 1;
    p.conditional.ctx = c;
    return cuGraphAddNode_v2(node, g, NULL, NULL, 0, &p);
}

/* While a stream captures into a graph, its nodes and the graph stay (documented with
   cuStreamGetCaptureInfo). */
static void test_capture_front(void **state)
{
    CUcontext c = ctx_begin();
    CUstreamCaptureStatus st;
    const CUgraphNode *front;
    CUgraphNode first, from[8], to[8];
    CUgraph g, out, copy, outer;
    CUgraphExec x;
    CUdeviceptr m;
    CUstream s;
    CUevent e;
    cuuint64_t id;
    size_t n = 0;

    (void)state;
    OK(cuMemAlloc_v2(&m, 4096));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async(m, 1, 64, s));
    OK(cuEventRecord(e, s));
    OK(cuStreamGetCaptureInfo_v2(s, &st, &id, &g, &front, &n));
    assert_int_equal(n, 1);
    first = front[0];
    IS(cuGraphDestroyNode(first), NOT_PERMITTED);
    IS(cuGraphDestroy(g), NOT_PERMITTED);
    outer = new_graph();
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

    p.graph.graph = g;
    p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    IS(cuGraphAddNode_v2(&to[0], outer, NULL, NULL, 0, &p), NOT_PERMITTED);
    OK(cuMemsetD8Async(m, 2, 64, s));
    OK(cuStreamWaitEvent(s, e, 0));
    OK(cuMemsetD8Async(m, 3, 64, s));
    OK(cuStreamEndCapture(s, &out));
    n = 8;
    OK(cuGraphGetEdges(out, from, to, &n));
    assert_int_equal(n, 3); /* 1 before 2, both before 3 */
    OK(cuGraphDestroyNode(first));
    n = 8;
    OK(cuGraphGetEdges(out, from, to, &n));
    assert_int_equal(n, 1);
    OK(cuGraphClone(&copy, out));
    OK(cuGraphInstantiateWithFlags(&x, copy, 0));
    OK(cuGraphDestroy(out));
    OK(cuGraphDestroy(copy));
    OK(cuGraphDestroy(outer));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
    ctx_end(c);
}

/* A capture into a graph of the application: the same, with dependencies that were set. */
static void test_capture_set(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph g = new_graph();
    CUgraphNode a = add_empty(g), b = add_empty(g);
    CUgraphNode deps[2] = {a, b}, foreign;
    CUgraph other = new_graph();
    CUdeviceptr m;
    CUstream s;

    (void)state;
    OK(cuMemAlloc_v2(&m, 4096));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    foreign = add_empty(other);
    IS(cuStreamBeginCaptureToGraph(s, g, &foreign, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED), INVALID_VALUE);
    OK(cuStreamBeginCaptureToGraph(s, g, deps, NULL, 2, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuStreamUpdateCaptureDependencies(s, &foreign, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES), INVALID_VALUE);
    IS(cuGraphDestroyNode(a), NOT_PERMITTED);
    OK(cuStreamUpdateCaptureDependencies(s, &b, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    IS(cuGraphDestroyNode(a), NOT_PERMITTED);
    OK(cuMemsetD8Async(m, 1, 64, s));
    OK(cuStreamDestroy_v2(s)); /* the capture ends with its stream */
    OK(cuGraphDestroyNode(a));
    OK(cuGraphDestroyNode(b));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(other));
    ctx_end(c);
}

/* A graph with a condition in one child by a handle of another child, which is gone. */
static CUgraph new_conditional(CUcontext c, CUgraphConditionalHandle stranger)
{
    CUgraph top = new_graph(), one, two, copy;
    CUgraphConditionalHandle h;
    CUgraphNode n_one, n;

    one = add_child(top, &n_one);
    two = add_child(top, NULL);
    IS(add_condition(two, c, stranger, &n), INVALID_VALUE); /* of no graph that is above or below */
    OK(cuGraphConditionalHandleCreate(&h, one, c, 0, 0));
    OK(add_condition(two, c, h, &n));
    IS(cuGraphClone(&copy, top), NOT_SUPPORTED); /* the condition is further below */
    OK(cuGraphDestroyNode(n_one));
    return top;
}

/* A number tested by a node is there as long as anything that was instantiated from the node. */
static void test_condition_held(void **state)
{
    CUcontext c = ctx_begin();
    CUgraphConditionalHandle stranger;
    CUgraph other = new_graph(), top, second;
    CUgraphExecUpdateResultInfo info;
    CUgraphExec x, y;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuGraphConditionalHandleCreate(&stranger, other, c, 0, 0));
    top = new_conditional(c, stranger);
    second = new_conditional(c, stranger);
    OK(cuGraphInstantiateWithFlags(&x, top, 0));
    IS(cuGraphInstantiateWithFlags(&y, top, 0), NOT_SUPPORTED);
    OK(cuGraphExecUpdate_v2(x, second, &info)); /* from now on x tests the number of the second */
    OK(cuGraphDestroy(second));
    OK(cuGraphDestroy(top));
    OK(cuGraphDestroy(other));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
    ctx_end(c);
}

/* From the outside in, too, graphs are nested to a depth that recursion stands. */
static void test_nesting(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph top = new_graph(), at = top, empty = new_graph();
    CUgraphNode n;
    CUgraphExec x;
    CUresult r = CUDA_SUCCESS;
    CUstream s;
    int depth = 0;

    (void)state;
    while (depth <= NEST_MAX && (r = cuGraphAddChildGraphNode(&n, at, NULL, 0, empty)) == CUDA_SUCCESS) {
        OK(cuGraphChildGraphNodeGetGraph(n, &at));
        depth++;
    }
    assert_int_equal(r, CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(depth, NEST_MAX - 1);
    OK(cuGraphInstantiateWithFlags(&x, top, 0));
    OK(cuGraphDestroy(top));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (depth = 0; depth <= 2 * NEST_MAX; depth++) { /* launches of launches */
        CUgraphExec next;
        CUgraph g;

        OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuGraphLaunch(x, s));
        OK(cuStreamEndCapture(s, &g));
        r = cuGraphInstantiateWithFlags(&next, g, 0);
        OK(cuGraphDestroy(g));
        if (r != CUDA_SUCCESS)
            break;
        OK(cuGraphExecDestroy(x));
        x = next;
    }
    assert_int_equal(r, CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(depth, NEST_MAX);
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(empty));
    ctx_end(c);
}

/* A graph that has g at the lowest of so many levels, each of which may have branches. Takes g
   over. */
static CUgraph nested_with(CUgraph g, int levels, bool branches)
{
    CUgraphNode n;

    while (levels-- > 0) {
        CUgraph above = new_graph();

        OK(cuGraphAddChildGraphNode(&n, above, NULL, 0, g));
        if (branches)
            add_empty(above);
        OK(cuGraphDestroy(g));
        g = above;
    }
    return g;
}

static CUgraph nested(CUgraph g, int levels)
{
    return nested_with(g, levels, true);
}

/* A graph with a captured launch of x. */
static CUgraph launching(CUgraphExec x, CUstream s)
{
    CUgraph g;

    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamEndCapture(s, &g));
    return g;
}

/* Children within captured launches within children: one bound for the sum, since each is in the
   stack of a thread. */
static void test_nesting_of_both(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph g = nested(new_graph(), NEST_MAX - 1);
    CUgraphExec x, next;
    CUstream s;
    int rounds = 0;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    OK(cuGraphDestroy(g));
    for (;; x = next, rounds++) {
        CUresult r;

        g = nested(launching(x, s), NEST_MAX - 1);
        r = cuGraphInstantiateWithFlags(&next, g, 0);
        OK(cuGraphDestroy(g));
        if (r != CUDA_SUCCESS) {
            assert_int_equal(r, CUDA_ERROR_NOT_SUPPORTED);
            break;
        }
        OK(cuGraphExecDestroy(x));
        assert_true(rounds < 1);
    }
    assert_int_equal(rounds, 1);
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
    ctx_end(c);
}

/* A graph with a child that has so many empty nodes, and others. */
static CUgraph with_child(int below, int beside)
{
    CUgraph g = new_graph(), child = new_graph();
    CUgraphNode n;

    while (below-- > 0)
        add_empty(child);
    OK(cuGraphAddChildGraphNode(&n, g, NULL, 0, child));
    while (beside-- > 0)
        add_empty(g);
    OK(cuGraphDestroy(child));
    return g;
}

/* ... also where a child is exchanged: the same steps in the same graphs, and not deeper than
   they may be. */
static void test_nesting_exchanged(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph g, top = new_graph(), one = with_child(1, 1), none = with_child(0, 2), deep;
    CUgraphExec x, low, lower;
    CUgraphNode n;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuGraphAddChildGraphNode(&n, top, NULL, 0, one));
    OK(cuGraphInstantiateWithFlags(&x, top, 0));
    assert_int_equal(cuGraphExecChildGraphNodeSetParams(x, n, none), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphExecChildGraphNodeSetParams(x, n, one));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(top));
    g = nested(new_graph(), NEST_MAX - 1);
    OK(cuGraphInstantiateWithFlags(&low, g, 0)); /* NEST_MAX levels */
    OK(cuGraphDestroy(g));
    g = nested(launching(low, s), NEST_MAX - 2); /* as many and NEST_MAX - 1 */
    OK(cuGraphInstantiateWithFlags(&lower, g, 0));
    OK(cuGraphDestroy(g));
    top = new_graph();
    deep = launching(lower, s); /* and one */
    OK(cuGraphAddChildGraphNode(&n, top, NULL, 0, none));
    OK(cuGraphInstantiateWithFlags(&x, top, 0));
    add_empty(deep);
    add_empty(deep);
    assert_int_equal(cuGraphExecChildGraphNodeSetParams(x, n, deep), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphDestroy(deep));
    deep = launching(low, s);
    add_empty(deep);
    add_empty(deep);
    OK(cuGraphExecChildGraphNodeSetParams(x, n, deep));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphExecDestroy(low));
    OK(cuGraphExecDestroy(lower));
    OK(cuGraphDestroy(one));
    OK(cuGraphDestroy(none));
    OK(cuGraphDestroy(deep));
    OK(cuGraphDestroy(top));
    ctx_end(c);
}

#define FORGET (UINT64_C(2) << 56) /* cudaStreamGraphFireAndForget */
#define DEPTH_EXCEEDED 65u         /* cudaErrorLaunchMaxDepthExceeded */

/* A graph of NEST_MAX levels for launches from the device. Its kernel launches x and says in
   *result how that went. */
static CUgraphExec forgetting(CUfunction f, CUgraphExec x, CUdeviceptr result)
{
    uint64_t exec = (uint64_t)(uintptr_t)x, mode = FORGET;
    void *params[] = {&exec, &mode, &result};
    CUDA_KERNEL_NODE_PARAMS k = {.func = f,
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    CUgraph g = new_graph();
    CUgraphNode n;
    CUgraphExec made;

    OK(cuGraphAddKernelNode_v2(&n, g, NULL, 0, &k));
    g = nested_with(g, NEST_MAX - 1, false);
    OK(cuGraphInstantiateWithFlags(&made, g, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
    OK(cuGraphDestroy(g));
    OK(cuGraphUpload(made, NULL));
    return made;
}

/* ... and what kernels launch runs within the graph that they are in. */
static void test_nesting_from_device(void **state)
{
    static const char ptx[] =
        ".version 7.8\n.target sm_75\n.address_size 64\n"
        ".extern .func (.param .b32 r) cudaGraphLaunch(.param .b64 x, .param .b64 s);\n"
        ".visible .entry k(.param .u64 x, .param .u64 mode, .param .u64 result)\n{\n"
        ".reg .b64 %d<4>;\n.reg .b32 %r;\n"
        "ld.param.u64 %d1, [x];\nld.param.u64 %d2, [mode];\nld.param.u64 %d3, [result];\n"
        "{\n.param .b64 p0;\n.param .b64 p1;\n.param .b32 r0;\n"
        "st.param.b64 [p0], %d1;\nst.param.b64 [p1], %d2;\n"
        "call.uni (r0), cudaGraphLaunch, (p0, p1);\nld.param.b32 %r, [r0];\n}\n"
        "st.global.u32 [%d3], %r;\nret;\n}\n";
    CUcontext c = ctx_begin();
    CUgraphExec x[3] = {NULL};
    uint32_t said[3];
    CUdeviceptr result;
    CUfunction f;
    CUmodule m;

    (void)state;
    OK(cuModuleLoadData(&m, ptx));
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuMemAlloc_v2(&result, sizeof(said)));
    OK(cuMemsetD8_v2(result, 0xff, sizeof(said)));
    for (unsigned i = 0; i < 3; i++)
        x[i] = forgetting(f, i ? x[i - 1] : NULL, result + 4 * i);
    OK(cuGraphLaunch(x[2], NULL));
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(said, result, sizeof(said)));
    assert_int_equal(said[2], 0);
    assert_int_equal(said[1], DEPTH_EXCEEDED);
    assert_int_equal(said[0], UINT32_MAX); /* it did not run */
    OK(cuGraphLaunch(x[1], NULL));         /* two of them may be within each other */
    OK(cuCtxSynchronize());
    OK(cuMemcpyDtoH_v2(said, result, sizeof(said)));
    assert_int_equal(said[1], 0);
    assert_int_not_equal(said[0], UINT32_MAX);
    for (unsigned i = 0; i < 3; i++)
        OK(cuGraphExecDestroy(x[i]));
    ctx_end(c);
}

/* Copies of a graph in itself and launches within launches double with each call: until there
   are 1 << 20 nodes and graphs. */
static void test_doubling(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph top = new_graph(), other = new_graph(), copy;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraphExec x;
    CUgraphNode n;
    CUresult r = CUDA_SUCCESS;
    CUstream s;
    int doubled = 0;

    (void)state;
    add_empty(top);
    while ((r = cuGraphAddChildGraphNode(&n, top, NULL, 0, top)) == CUDA_SUCCESS && ++doubled < 40)
        ;
    assert_int_equal(r, CUDA_ERROR_NOT_SUPPORTED);
    assert_uint_in_range(doubled, 15, 20);
    OK(cuGraphClone(&copy, top));
    OK(cuGraphAddChildGraphNode(&n, other, NULL, 0, top));
    IS(cuGraphAddChildGraphNode(&n, other, NULL, 0, top), NOT_SUPPORTED);
    p.graph.graph = copy;
    p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    IS(cuGraphAddNode_v2(&n, other, NULL, NULL, 0, &p), NOT_SUPPORTED);
    OK(cuGraphDestroy(copy)); /* it was not moved */
    OK(cuGraphDestroy(other));
    OK(cuGraphDestroy(top));

    top = new_graph();
    add_empty(top);
    OK(cuGraphInstantiateWithFlags(&x, top, 0));
    OK(cuGraphDestroy(top));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (doubled = 0; doubled < 40; doubled++) {
        CUgraphExec next;

        OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuGraphLaunch(x, s));
        OK(cuGraphLaunch(x, s));
        OK(cuStreamEndCapture(s, &top));
        r = cuGraphInstantiateWithFlags(&next, top, 0);
        OK(cuGraphDestroy(top));
        if (r != CUDA_SUCCESS)
            break;
        OK(cuGraphExecDestroy(x));
        x = next;
    }
    assert_int_equal(r, CUDA_ERROR_NOT_SUPPORTED);
    assert_uint_in_range(doubled, 15, 20);
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
    ctx_end(c);
}

/* The bound counts what is there, not what was. */
static void test_count_of_nodes(void **state)
{
    CUgraph top, child, kept;
    CUgraphNode n;

    (void)state;
    OK(cuInit(0));
    top = new_graph();
    child = new_graph();
    for (int i = 0; i < 1024; i++)
        add_empty(child);
    for (int i = 0; i < 1100; i++) { /* more than 1 << 20, one after the other */
        OK(cuGraphAddChildGraphNode(&n, top, NULL, 0, child));
        OK(cuGraphDestroyNode(n));
    }
    kept = new_graph();
    OK(cuGraphAddChildGraphNode(&n, kept, NULL, 0, child));
    OK(cuGraphDestroy(top));
    OK(cuGraphDestroy(child));
    OK(cuGraphDestroy(kept));
}

/* A launch that was captured behind a record of its graph waits for the event as it was before,
   not for itself. */
static void test_event_of_own_launch(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph waits = new_graph(), outer;
    CUgraphExec inner, x;
    CUgraphNode n;
    CUstream s;
    CUevent e;

    (void)state;
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuGraphAddEventWaitNode(&n, waits, NULL, 0, e));
    OK(cuGraphInstantiateWithFlags(&inner, waits, 0));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
    OK(cuGraphLaunch(inner, s));
    OK(cuStreamEndCapture(s, &outer));
    OK(cuGraphInstantiateWithFlags(&x, outer, 0));
    for (int i = 0; i < 3; i++)
        OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuEventQuery(e));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphExecDestroy(inner));
    OK(cuGraphDestroy(outer));
    OK(cuGraphDestroy(waits));
    ctx_end(c);
}

/* A node of the captured graph holds the event, and the event the capture. */
static void capture_with_event(void *arg)
{
    CUstream s;
    CUevent e;
    CUgraph g;

    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
    OK(cuEventRecord(e, s));
    if (arg) {
        OK(cuStreamEndCapture(s, &g));
        OK(cuGraphDestroy(g));
    }
    OK(cuStreamDestroy_v2(s)); /* abandons the capture */
    OK(cuEventDestroy_v2(e));
}

static void test_event_in_capture(void **state)
{
    CUcontext c = ctx_begin();

    (void)state;
    books_kept(capture_with_event, c);
    books_kept(capture_with_event, NULL);
    ctx_end(c);
}

const struct CMUnitTest glifetime_tests[] = {
    cmocka_unit_test(test_capture_front),
    cmocka_unit_test(test_capture_set),
    cmocka_unit_test(test_event_in_capture),
    cmocka_unit_test(test_condition_held),
    cmocka_unit_test(test_nesting),
    cmocka_unit_test(test_nesting_of_both),
    cmocka_unit_test(test_nesting_exchanged),
    cmocka_unit_test(test_nesting_from_device),
    cmocka_unit_test(test_event_of_own_launch),
    cmocka_unit_test(test_doubling),
    cmocka_unit_test(test_count_of_nodes),
};
const size_t n_glifetime_tests = sizeof(glifetime_tests) / sizeof(glifetime_tests[0]);
