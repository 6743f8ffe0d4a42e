/* SPDX-License-Identifier: MIT */
/*
 * Branches of graphs. A branch is held with a gate, which the test opens when it has seen what the
 * other branches do meanwhile; tests/conform has branches that wait for each other.
 */
#include "api/api_test.h"

#include <sched.h>

static CUgraph new_graph(void)
{
    CUgraph g;

    OK(cuGraphCreate(&g, 0));
    return g;
}

static CUgraphNode add_host(CUgraph g, const CUgraphNode *after, CUhostFn fn, void *data)
{
    CUDA_HOST_NODE_PARAMS p = {fn, data};
    CUgraphNode n;

    OK(cuGraphAddHostNode(&n, g, after, after ? 1 : 0, &p));
    return n;
}

static CUgraphNode add_kernel(CUgraph g, const CUgraphNode *after, CUfunction f, CUdeviceptr p)
{
    void *args[] = {&p};
    CUDA_KERNEL_NODE_PARAMS_v2 k = {.func = f,
                                    .gridDimX = 1,
                                    .gridDimY = 1,
                                    .gridDimZ = 1,
                                    .blockDimX = 1,
                                    .blockDimY = 1,
                                    .blockDimZ = 1,
                                    .kernelParams = args};
    CUgraphNode n;

    OK(cuGraphAddKernelNode_v2(&n, g, after, after ? 1 : 0, &k));
    return n;
}

static void CUDA_CB count(void *n)
{
    __atomic_fetch_add((uint32_t *)n, 1, __ATOMIC_SEQ_CST);
}

static void launch(CUgraph g, CUstream s, CUgraphExec *x)
{
    OK(cuGraphInstantiateWithFlags(x, g, 0));
    OK(cuGraphLaunch(*x, s));
}

/* All branches are held at the same time, and the launch is not over before the last has ended. */
static void test_at_once(void **state)
{
    enum { N = 5 };
    struct gate gate[N] = {GATE_INIT, GATE_INIT, GATE_INIT, GATE_INIT, GATE_INIT};
    CUcontext c = ctx_begin();
    uint32_t behind = 0, at_end = 0;
    CUgraphNode n, ends[N];
    CUgraph g = new_graph();
    CUgraphExec x;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < N; i++) {
        n = add_host(g, NULL, gate_wait, &gate[i]);
        ends[i] = add_host(g, &n, count, &behind);
    }
    CUDA_HOST_NODE_PARAMS last = {count, &at_end};

    OK(cuGraphAddHostNode(&n, g, ends, N, &last));
    launch(g, s, &x);
    for (int i = N - 1; i >= 0; i--)
        gate_await(&gate[i]);
    for (int i = 0; i < N; i++) {
        assert_int_equal(__atomic_load_n(&at_end, __ATOMIC_SEQ_CST), 0);
        IS(cuStreamQuery(s), NOT_READY);
        gate_open(&gate[i]);
    }
    OK(cuStreamSynchronize(s));
    assert_int_equal(behind, N);
    assert_int_equal(at_end, 1);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

/* An event node stands for its launch; within a launch, a wait comes after a record that stands
   before it. */
static void test_event_order(void **state)
{
    struct gate held = GATE_INIT, other = GATE_INIT;
    CUcontext c = ctx_begin();
    uint32_t after_wait = 0;
    CUgraph g = new_graph();
    CUgraphNode n;
    CUgraphExec x;
    CUevent e;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    n = add_host(g, NULL, gate_wait, &held);
    OK(cuGraphAddEventRecordNode(&n, g, &n, 1, e));
    OK(cuGraphAddEventWaitNode(&n, g, NULL, 0, e));
    add_host(g, &n, count, &after_wait);
    add_host(g, NULL, gate_wait, &other); /* begun when everything before it has begun, or has to wait */
    launch(g, s, &x);
    gate_await(&held);
    gate_await(&other);
    assert_int_equal(__atomic_load_n(&after_wait, __ATOMIC_SEQ_CST), 0);
    gate_open(&other);
    gate_open(&held);
    OK(cuStreamSynchronize(s));
    assert_int_equal(after_wait, 1);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuEventDestroy_v2(e));
    ctx_end(c);
}

static uint64_t used_high(CUgraph g, CUstream s)
{
    cuuint64_t v = 0;
    CUgraphExec x;

    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v));
    launch(g, s, &x);
    OK(cuStreamSynchronize(s));
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v));
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    return v;
}

static CUgraphNode add_pair(CUgraph g, const CUgraphNode *after, size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {.bytesize = bytes};
    CUgraphNode n;

    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuGraphAddMemAllocNode(&n, g, after, after ? 1 : 0, &p));
    OK(cuGraphAddMemFreeNode(&n, g, &n, 1, p.dptr));
    return n;
}

/* What branches have counts together, what follows each other does not. */
static void test_memory(void **state)
{
    const size_t mib = 1 << 20;
    CUcontext c = ctx_begin();
    CUgraph g = new_graph();
    CUgraphNode n;
    uint64_t high;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    n = add_pair(g, NULL, 3 * mib);
    add_pair(g, &n, 2 * mib);
    assert_int_equal(used_high(g, s), 3 * mib);
    g = new_graph();
    n = add_pair(g, NULL, 3 * mib);
    add_pair(g, &n, 2 * mib);
    add_pair(g, NULL, 4 * mib);
    high = used_high(g, s); /* a bound: 3 and 2 are never there together */
    assert_true(high >= 7 * mib && high <= 9 * mib);
    g = new_graph();
    n = add_pair(g, NULL, 1 * mib);
    add_pair(g, &n, 8 * mib);
    add_pair(g, &n, 2 * mib);
    assert_int_equal(used_high(g, s), 10 * mib);
    ctx_end(c);
}

/* The context ends when all branches have; and with so many of them that threads are used again. */
static void test_ends(void **state)
{
    enum { N = 40 };
    struct gate gate = GATE_INIT;
    uint32_t behind = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        CUcontext c = ctx_begin();
        CUgraph g = new_graph();
        CUgraphExec x;
        CUstream s;

        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        gate.open = gate.reached = false;
        add_host(g, NULL, gate_wait, &gate);
        for (int k = 0; k < N; k++)
            add_host(g, NULL, count, &behind);
        launch(g, s, &x);
        OK(cuGraphExecDestroy(x)); /* while it runs */
        OK(cuGraphDestroy(g));
        gate_await(&gate);
        while (__atomic_load_n(&behind, __ATOMIC_SEQ_CST) < (uint32_t)(N * (i + 1)))
            sched_yield();
        gate_open(&gate);
        ctx_end(c);
    }
    assert_int_equal(behind, 3 * N);
}

/* The watchdog ends kernels that run at once; nothing behind them is begun any more. */
int branch_main(void)
{
    uint32_t behind = 0;
    CUmodule m = NULL;
    CUdeviceptr p;
    CUgraphNode n;
    CUgraphExec x;
    CUcontext c;
    CUresult r;
    CUgraph g;

    if (cuInit(0) || cuCtxCreate_v2(&c, 0, 0))
        return 1;
    CUfunction spin = get_kernel(&m, "spin");

    OK(cuMemAlloc_v2(&p, 4));
    OK(cuMemsetD32_v2(p, 0, 1));
    g = new_graph();
    for (int i = 0; i < 3; i++) {
        n = add_kernel(g, NULL, spin, p);
        add_host(g, &n, count, &behind);
    }
    launch(g, NULL, &x);
    r = cuStreamSynchronize(NULL);
    printf("%s\n", r == CUDA_ERROR_LAUNCH_TIMEOUT && !behind ? "right" : "wrong");
    return 0;
}

static void test_watchdog(void **state)
{
    (void)state;
    test_alone("VGPU_SOFT_WATCHDOG=100000 VGPU_SOFT_THREADS=2", "--branch");
}

const struct CMUnitTest gbranch_tests[] = {
    cmocka_unit_test(test_at_once), cmocka_unit_test(test_event_order), cmocka_unit_test(test_memory),
    cmocka_unit_test(test_ends),    cmocka_unit_test(test_watchdog),
};
const size_t n_gbranch_tests = sizeof(gbranch_tests) / sizeof(gbranch_tests[0]);
