/* SPDX-License-Identifier: MIT */
/* Stream capture and graphs. */
#include "api/api_test.h"

static _Atomic int count;

static void CUDA_CB add_one(void *arg)
{
    (void)arg;
    count++;
}

static uint32_t word(CUdeviceptr p)
{
    uint32_t v = 0;

    OK(cuMemcpyDtoH_v2(&v, p, 4));
    return v;
}

static CUgraphExec make_exec(CUgraph g)
{
    CUgraphExec x;

    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    return x;
}

static void test_capture(void **state)
{
    CUcontext c = ctx_begin();
    CUstreamCaptureStatus st;
    CUmodule m = NULL;
    CUfunction late = get_kernel(&m, "late");
    CUgraphNode nodes[8];
    CUgraphNodeType type;
    CUdeviceptr p, q;
    void *args[] = {&p};
    uint32_t host = 0;
    CUgraphExec x;
    CUgraph g;
    CUstream s;
    size_t n = 0;
    cuuint64_t id;

    (void)state;
    count = 0;
    OK(cuMemAlloc_v2(&p, 64));
    OK(cuMemAlloc_v2(&q, 64));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamIsCapturing(s, &st));
    assert_int_equal(st, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuLaunchKernel(late, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
    OK(cuMemcpyDtoDAsync_v2(q, p, 4, s));
    OK(cuMemcpyDtoHAsync_v2(&host, q, 4, s));
    OK(cuMemsetD32Async(q + 4, 9, 1, s));
    OK(cuLaunchHostFunc(s, add_one, NULL));
    OK(cuStreamGetCaptureInfo_v2(s, &st, &id, &g, NULL, &n));
    assert_int_equal(n, 1);
    OK(cuStreamEndCapture(s, &g));
    OK(cuStreamIsCapturing(s, &st));
    assert_int_equal(st, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuStreamSynchronize(s));
    assert_int_equal(count, 0); /* nothing has run */
    assert_int_equal(word(p), 0);
    OK(cuGraphGetNodes(g, NULL, &n));
    assert_int_equal(n, 5);
    OK(cuGraphGetNodes(g, nodes, &n));
    OK(cuGraphNodeGetType(nodes[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_KERNEL);
    OK(cuGraphNodeGetType(nodes[4], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_HOST);
    OK(cuGraphGetEdges(g, NULL, NULL, &n));
    assert_int_equal(n, 4);
    x = make_exec(g);
    OK(cuGraphDestroy(g)); /* the executable graph does not need it */
    IS(cuGraphDestroy(g), INVALID_VALUE);
    for (uint32_t i = 0; i < 5; i++) {
        OK(cuGraphLaunch(x, s));
        OK(cuStreamSynchronize(s));
        assert_int_equal(count, i + 1);
        assert_int_equal(host, 7 + i); /* the kernel counts in a module variable */
        assert_int_equal(word(q + 4), 9);
    }
    OK(cuGraphExecDestroy(x));
    IS(cuGraphLaunch(x, s), INVALID_VALUE);
    ctx_end(c);
}

static void test_fork_and_join(void **state)
{
    CUcontext c = ctx_begin();
    CUgraphNode from[16], to[16];
    CUdeviceptr p;
    CUevent e, f;
    CUstream a, b;
    CUgraph g;
    size_t n;

    (void)state;
    OK(cuMemAlloc_v2(&p, 64));
    OK(cuStreamCreate(&a, 0));
    OK(cuStreamCreate(&b, 0));
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&f, 0));
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemsetD32Async(p, 1, 1, a));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0)); /* b joins */
    OK(cuMemsetD32Async(p + 4, 2, 1, b));
    OK(cuMemsetD32Async(p + 8, 3, 1, a));
    OK(cuEventRecord(f, b));
    OK(cuStreamWaitEvent(a, f, 0));
    OK(cuMemsetD32Async(p + 12, 4, 1, a));
    OK(cuStreamEndCapture(a, &g));
    OK(cuGraphGetEdges(g, NULL, NULL, &n));
    assert_int_equal(n, 4); /* a diamond */
    n = 16;
    OK(cuGraphGetEdges(g, from, to, &n));
    assert_int_equal(n, 4);
    assert_null(from[4]);
    IS(cuEventQuery(f), INVALID_VALUE);
    IS(cuEventSynchronize(f), INVALID_VALUE);
    OK(cuGraphGetRootNodes(g, NULL, &n));
    assert_int_equal(n, 1);
    CUgraphExec x = make_exec(g);

    OK(cuMemsetD8_v2(p, 0, 64));
    OK(cuGraphLaunch(x, NULL));
    assert_int_equal(word(p), 1);
    assert_int_equal(word(p + 4), 2);
    assert_int_equal(word(p + 8), 3);
    assert_int_equal(word(p + 12), 4);
    OK(cuEventRecord(f, b)); /* an ordinary event again */
    OK(cuEventSynchronize(f));
    ctx_end(c);
}

static void test_capture_errors(void **state)
{
    CUcontext c = ctx_begin();
    CUevent e, outside;
    CUstream a, b, d;
    CUdeviceptr p;
    CUgraph g;

    (void)state;
    OK(cuMemAlloc_v2(&p, 64));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&d, 0));
    OK(cuEventCreate(&e, 0));
    OK(cuEventCreate(&outside, 0));
    OK(cuEventRecord(outside, b));
    IS(cuStreamBeginCapture_v2(NULL, 0), STREAM_CAPTURE_UNSUPPORTED);
    IS(cuStreamBeginCapture_v2(a, (CUstreamCaptureMode)7), INVALID_VALUE);
    IS(cuStreamEndCapture(a, &g), ILLEGAL_STATE);
    for (int wait = 0; wait < 2; wait++) { /* asking for a captured event: the capture is lost */
        OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuEventRecord(e, a));
        IS(wait ? cuEventSynchronize(e) : cuEventQuery(e), CAPTURED_EVENT);
        IS(cuStreamEndCapture(a, &g), STREAM_CAPTURE_INVALIDATED);
    }
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED), ILLEGAL_STATE);
    IS(cuStreamSynchronize(a), STREAM_CAPTURE_UNSUPPORTED); /* and it is lost */
    IS(cuMemsetD8Async(p, 0, 4, a), STREAM_CAPTURE_INVALIDATED);
    IS(cuStreamEndCapture(a, &g), STREAM_CAPTURE_INVALIDATED);
    assert_null(g);
    OK(cuMemsetD8Async(p, 0, 4, a)); /* an ordinary stream again */

    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, a));
    OK(cuStreamWaitEvent(b, e, 0));
    OK(cuMemsetD8Async(p, 0, 4, b));
    IS(cuStreamEndCapture(a, &g), STREAM_CAPTURE_UNJOINED);
    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED)); /* the graph has nowhere to go */
    IS(cuStreamEndCapture(a, NULL), INVALID_VALUE);
    IS(cuStreamEndCapture(a, &g), ILLEGAL_STATE);

    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuStreamWaitEvent(a, outside, 0), STREAM_CAPTURE_ISOLATION);
    IS(cuStreamEndCapture(a, &g), STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuEventRecord(e, b));
    IS(cuStreamWaitEvent(a, e, 0), STREAM_CAPTURE_MERGE);
    IS(cuStreamEndCapture(a, &g), STREAM_CAPTURE_INVALIDATED);
    IS(cuStreamEndCapture(b, &g), STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(d, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuMemsetD8_v2(p, 0, 4), STREAM_CAPTURE_IMPLICIT); /* legacy stream, d is blocking */
    IS(cuStreamEndCapture(d, &g), STREAM_CAPTURE_INVALIDATED);
    OK(cuMemsetD8_v2(p, 0, 4));

    OK(cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
    IS(cuCtxSynchronize(), STREAM_CAPTURE_UNSUPPORTED);
    OK(cuStreamDestroy_v2(a)); /* takes its capture along */
    OK(cuCtxSynchronize());
    OK(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED));
    ctx_end(c); /* so does the context */
}

static void test_explicit_graph(void **state)
{
    CUcontext c = ctx_begin();
    CUmodule m = NULL;
    CUdeviceptr p;
    uint32_t v = 5, k = 16, host[16] = {0};
    void *args[] = {&p, &v, &k};
    CUDA_KERNEL_NODE_PARAMS kp = {.func = get_kernel(&m, "fill"),
                                  .gridDimX = 1,
                                  .gridDimY = 1,
                                  .gridDimZ = 1,
                                  .blockDimX = 32,
                                  .blockDimY = 1,
                                  .blockDimZ = 1,
                                  .kernelParams = args},
                            got;
    CUDA_MEMSET_NODE_PARAMS sp = {.value = 1, .elementSize = 4, .width = 16, .height = 1};
    CUDA_MEMCPY3D cp = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = host,
                        .WidthInBytes = 64,
                        .Height = 1,
                        .Depth = 1};
    CUDA_HOST_NODE_PARAMS hp = {add_one, NULL};
    CUgraphExecUpdateResultInfo info;
    CUgraphNode set, fill, copy, func, child, found;
    CUgraphExec x;
    CUgraph g, clone, outer;
    size_t n;

    (void)state;
    count = 0;
    OK(cuMemAlloc_v2(&p, 64));
    sp.dst = cp.srcDevice = p;
    OK(cuGraphCreate(&g, 0));
    IS(cuGraphCreate(&g, 1), INVALID_VALUE);
    OK(cuGraphAddMemcpyNode(&copy, g, NULL, 0, &cp, c));
    OK(cuGraphAddMemsetNode(&set, g, NULL, 0, &sp, c));
    OK(cuGraphAddKernelNode_v2(&fill, g, &set, 1, &kp));
    OK(cuGraphAddDependencies(g, &fill, &copy, 1)); /* the copy was made first, runs last */
    IS(cuGraphAddDependencies(g, &fill, &copy, 1), INVALID_VALUE);
    OK(cuGraphAddHostNode(&func, g, &copy, 1, &hp));
    OK(cuGraphNodeGetDependencies(copy, NULL, &n));
    assert_int_equal(n, 1);
    OK(cuGraphNodeGetDependentNodes(set, &found, &n));
    assert_ptr_equal(found, fill);
    OK(cuGraphKernelNodeGetParams_v2(fill, &got));
    assert_int_equal(*(uint32_t *)got.kernelParams[1], 5);
    assert_int_equal(got.blockDimX, 32);
    x = make_exec(g);
    OK(cuGraphLaunch(x, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(host[15], 5);
    assert_int_equal(count, 1);

    v = 6;
    OK(cuGraphExecKernelNodeSetParams_v2(x, fill, &kp)); /* the executable graph only */
    OK(cuGraphLaunch(x, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(host[15], 6);
    OK(cuGraphClone(&clone, g));
    OK(cuGraphNodeFindInClone(&found, fill, clone));
    v = 7;
    OK(cuGraphKernelNodeSetParams_v2(found, &kp));
    OK(cuGraphExecUpdate_v2(x, clone, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cuGraphLaunch(x, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(host[15], 7);
    OK(cuGraphDestroyNode(func));
    IS(cuGraphDestroyNode(func), INVALID_VALUE);
    IS(cuGraphExecUpdate_v2(x, g, &info), GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);

    OK(cuGraphCreate(&outer, 0));
    OK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, g));
    OK(cuGraphAddHostNode(&func, outer, &child, 1, &hp));
    OK(cuGraphDestroy(g));
    host[15] = 0;
    CUgraphExec y = make_exec(outer);

    OK(cuGraphLaunch(y, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(host[15], 5);
    assert_int_equal(count, 4);

    OK(cuGraphAddDependencies(outer, &func, &child, 1)); /* a cycle */
    IS(cuGraphInstantiateWithFlags(&y, outer, 0), INVALID_VALUE);
    OK(cuGraphRemoveDependencies(outer, &func, &child, 1));
    IS(cuGraphRemoveDependencies(outer, &func, &child, 1), INVALID_VALUE);
    IS(cuGraphInstantiateWithFlags(&y, outer, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), NOT_SUPPORTED);
    IS(cuGraphInstantiateWithFlags(&y, outer, 1u << 20), INVALID_VALUE);
    IS(cuGraphAddEmptyNode(&found, clone, &child, 1), INVALID_VALUE); /* of another graph */
    IS(cuGraphAddKernelNode_v2(&found, clone, NULL, 0, NULL), INVALID_VALUE);
    IS(cuGraphNodeGetType((CUgraphNode)outer, NULL), INVALID_VALUE);
    ctx_end(c);
}

/* A failing kernel inside a graph is a device error like any other. */
static void test_graph_fault(void **state)
{
    CUcontext c = ctx_begin();
    CUmodule m = NULL;
    CUfunction oob = get_kernel(&m, "oob");
    CUdeviceptr bad = 0x10;
    void *args[] = {&bad};
    CUstream s;
    CUgraph g;

    (void)state;
    count = 0;
    OK(cuStreamCreate(&s, 0));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuLaunchKernel(oob, 1, 1, 1, 1, 1, 1, 0, s, args, NULL));
    OK(cuLaunchHostFunc(s, add_one, NULL));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphLaunch(make_exec(g), s));
    IS(cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    assert_int_equal(count, 0);
    ctx_end(c);
}

enum { MANY = 64 };

/* Nodes in order of creation and their edges are those of the model: edge[i][j]: j depends on i. */
static void check_graph(CUgraph g, const CUgraphNode *node, unsigned n, bool edge[MANY][MANY])
{
    CUgraphNode got[MANY], from[MANY * MANY], to[MANY * MANY];
    size_t count_of = MANY, edges = (size_t)MANY * MANY, want = 0, at[2];

    OK(cuGraphGetNodes(g, got, &count_of));
    assert_int_equal(count_of, n);
    assert_memory_equal(got, node, n * sizeof(*node));
    OK(cuGraphGetEdges_v2(g, from, to, NULL, &edges));
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < n; j++)
            want += edge[i][j];
    assert_int_equal(edges, want);
    for (size_t e = 0; e < edges; e++) {
        for (at[0] = 0; node[at[0]] != from[e];)
            at[0]++;
        for (at[1] = 0; node[at[1]] != to[e];)
            at[1]++;
        assert_true(edge[at[0]][at[1]]);
    }
}

static void remove_node(CUgraphNode *node, unsigned *n, unsigned k, bool edge[MANY][MANY])
{
    OK(cuGraphDestroyNode(node[k]));
    --*n;
    memmove(&node[k], &node[k + 1], (*n - k) * sizeof(*node));
    memmove(edge[k], edge[k + 1], (*n - k) * sizeof(edge[0]));
    for (unsigned i = 0; i < *n; i++)
        memmove(&edge[i][k], &edge[i][k + 1], *n - k);
}

/* Nodes and edges come and go; between walks of the graph several nodes go. */
static void test_graph_beside_a_model(void **state)
{
    static bool edge[MANY][MANY];
    CUcontext c = ctx_begin();
    CUgraphNode node[MANY];
    unsigned n = 0;
    CUgraph g;

    (void)state;
    srandom(5);
    OK(cuGraphCreate(&g, 0));
    for (unsigned step = 0; step < 6000; step++) {
        const unsigned a = n ? (unsigned)random() % n : 0, b = n ? (unsigned)random() % n : 0;

        if (n < 2 || (n < MANY && random() % 4 == 0)) {
            memset(edge[n], 0, sizeof(edge[n]));
            for (unsigned i = 0; i < n; i++)
                edge[i][n] = false;
            OK(cuGraphAddEmptyNode(&node[n++], g, NULL, 0));
        } else if (random() % 5 == 0) {
            remove_node(node, &n, a, edge);
        } else if (a < b && edge[a][b]) {
            OK(cuGraphRemoveDependencies_v2(g, &node[a], &node[b], NULL, 1));
            edge[a][b] = false;
        } else if (a < b) {
            OK(cuGraphAddDependencies_v2(g, &node[a], &node[b], NULL, 1));
            edge[a][b] = true;
        }
        if (step % 7 == 0)
            check_graph(g, node, n, edge);
        if (step % 500 == 0)
            OK(cuGraphExecDestroy(make_exec(g)));
    }
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

static uint64_t used_by_graphs(void)
{
    cuuint64_t v = 0;

    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v));
    return v;
}

struct launched {
    CUcontext ctx;
    CUgraphExec exec;
    CUresult result;
};

static void *launch_in_default_stream(void *arg)
{
    struct launched *l = arg;

    OK(cuCtxSetCurrent(l->ctx));
    l->result = cuGraphLaunch(l->exec, NULL);
    return NULL;
}

#define PENDING_MAX 16384 /* operations of a stream; issuing one more waits */

/* A launch that is refused in the end gives its memory up; so had another thread, which freed it
   meanwhile. */
static void test_freed_while_refused(void **state)
{
    CUcontext c = ctx_begin();
    CUDA_MEM_ALLOC_NODE_PARAMS p = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                    .bytesize = 4096};
    CUgraph g, lost = NULL;
    struct launched l = {.ctx = c};
    CUstream s, blocking;
    CUdeviceptr word;
    CUgraphNode n;
    pthread_t t;

    (void)state;
    OK(cuGraphCreate(&g, 0));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cuMemAlloc_v2(&word, 8));
    OK(cuMemsetD8_v2(word, 0, 8));
    OK(cuGraphAddMemAllocNode(&n, g, NULL, 0, &p));
    OK(cuGraphInstantiateWithFlags(&l.exec, g, 0));
    OK(cuStreamWaitValue32_v2(NULL, word, 1, CU_STREAM_WAIT_VALUE_EQ));
    for (unsigned i = 0; i < PENDING_MAX; i++)
        OK(cuMemsetD8Async(word + 4, 0, 1, NULL));
    assert_int_equal(pthread_create(&t, NULL, launch_in_default_stream, &l), 0);
    while (!used_by_graphs())
        sched_yield();
    OK(cuMemFreeAsync(p.dptr, s));
    OK(cuStreamSynchronize(s));
    OK(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamWriteValue32_v2(s, word, 1, 0));
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_int_equal(l.result, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_int_equal(used_by_graphs(), 0);
    IS(cuStreamEndCapture(blocking, &lost), STREAM_CAPTURE_INVALIDATED);
    OK(cuGraphLaunch(l.exec, s)); /* as if nothing had been */
    assert_int_equal(used_by_graphs(), 4096);
    OK(cuMemFreeAsync(p.dptr, s));
    OK(cuStreamSynchronize(s));
    assert_int_equal(used_by_graphs(), 0);
    OK(cuGraphExecDestroy(l.exec));
    OK(cuGraphMemAllocNodeGetParams(n, &p)); /* the node has it still */
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

const struct CMUnitTest graph_tests[] = {
    cmocka_unit_test(test_capture),
    cmocka_unit_test(test_fork_and_join),
    cmocka_unit_test(test_capture_errors),
    cmocka_unit_test(test_explicit_graph),
    cmocka_unit_test(test_graph_fault),
    cmocka_unit_test(test_graph_beside_a_model),
    cmocka_unit_test(test_freed_while_refused),
};
const size_t n_graph_tests = sizeof(graph_tests) / sizeof(graph_tests[0]);
