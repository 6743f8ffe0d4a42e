/* SPDX-License-Identifier: MIT */
/* Objects of graphs that name each other, ended in every order: what is named stays, or the name goes with it. */
#include "api/api_test.h"

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

/* While a stream captures into a graph, its nodes and the graph stay (documented with cuStreamGetCaptureInfo). */
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

/* Copies of a graph in itself and launches within launches double with each call: until there are 1 << 20 nodes and graphs. */
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
    assert_in_range(doubled, 15, 20);
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
    assert_in_range(doubled, 15, 20);
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

/* A launch that was captured behind a record of its graph waits for the event as it was before, not for itself. */
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

const struct CMUnitTest glifetime_tests[] = {
    cmocka_unit_test(test_capture_front),       cmocka_unit_test(test_capture_set),
    cmocka_unit_test(test_condition_held),      cmocka_unit_test(test_nesting),
    cmocka_unit_test(test_event_of_own_launch), cmocka_unit_test(test_doubling),
    cmocka_unit_test(test_count_of_nodes),
};
const size_t n_glifetime_tests = sizeof(glifetime_tests) / sizeof(glifetime_tests[0]);
