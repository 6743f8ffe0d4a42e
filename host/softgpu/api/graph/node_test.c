/* SPDX-License-Identifier: MIT */
/* Graphs that allocate, conditional nodes, what an update can change; the rest is in
 * tests/conformance/driver. */
#include "api/api_test.h"

static const char cond_ptx[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);\n"
    ".visible .entry set(.param .u64 h, .param .u32 v)\n{\n"
    "  .reg .b64 %rd1; .reg .b32 %r1;\n"
    "  ld.param.u64 %rd1, [h]; ld.param.u32 %r1, [v];\n"
    "  { .param .b64 p0; st.param.b64 [p0], %rd1; .param .b32 p1; st.param.b32 [p1], %r1;\n"
    "    call.uni cudaGraphSetConditional, (p0, p1); }\n  ret;\n}\n";

static CUgraph new_graph(void)
{
    CUgraph g;

    OK(cuGraphCreate(&g, 0));
    return g;
}

static CUgraphNode add_alloc(CUgraph g, const CUgraphNode *after, size_t bytes, CUdeviceptr *p)
{
    CUDA_MEM_ALLOC_NODE_PARAMS a = {.bytesize = bytes};
    CUgraphNode n;

    a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuGraphAddMemAllocNode(&n, g, after, after ? 1 : 0, &a));
    *p = a.dptr;
    return n;
}

static CUgraphNode add_free(CUgraph g, const CUgraphNode *after, CUdeviceptr p)
{
    CUgraphNode n;

    OK(cuGraphAddMemFreeNode(&n, g, after, after ? 1 : 0, p));
    return n;
}

static cuuint64_t attribute(CUgraphMem_attribute a)
{
    cuuint64_t v = 0;

    OK(cuDeviceGetGraphMemAttribute(0, a, &v));
    return v;
}

/* A launch counts the most that is allocated at one time; one that does not fit leaves nothing. */
static void test_peak(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph one = new_graph(), both = new_graph(), kept = new_graph();
    CUgraphExec x, y, z;
    CUgraphNode n;
    CUdeviceptr p, q;
    CUstream s, t;
    struct gate gate = GATE_INIT;
    size_t left, total, big;

    (void)state;
    OK(cuDeviceGraphMemTrim(0));
    OK(cuMemGetInfo_v2(&left, &total));
    big = left / 8 * 5;
    n = add_alloc(one, NULL, big, &p);
    n = add_free(one, &n, p);
    n = add_alloc(one, &n, big, &q);
    add_free(one, &n, q);
    n = add_alloc(both, NULL, big, &p);
    n = add_alloc(both, &n, big, &q);
    n = add_free(both, &n, p);
    add_free(both, &n, q);
    add_alloc(kept, NULL, big, &p);
    add_alloc(kept, NULL, big, &q);
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuGraphInstantiateWithFlags(&x, one, 0));
    OK(cuGraphInstantiateWithFlags(&y, both, 0));
    OK(cuGraphInstantiateWithFlags(&z, kept, 0));
    /* Launches of one executable graph follow each other: they share what they need. */
    OK(cuLaunchHostFunc(s, gate_wait, &gate));
    OK(cuGraphLaunch(x, s));
    OK(cuGraphLaunch(x, t));
    OK(cuGraphLaunch(x, s));
    assert_true(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) < 2 * big);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    OK(cuStreamSynchronize(t));
    IS(cuGraphLaunch(y, s), OUT_OF_MEMORY);
    IS(cuGraphLaunch(z, s), OUT_OF_MEMORY);
    OK(cuStreamSynchronize(s));
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_true(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= big);
    OK(cuGraphExecDestroy(y)); /* and their addresses: there are four for each byte of memory */
    OK(cuGraphExecDestroy(z));
    OK(cuGraphDestroy(both));
    OK(cuGraphDestroy(kept));
    IS(cuMemAlloc_v2(&p, big), OUT_OF_MEMORY); /* it stays the graphs' ... */
    OK(cuDeviceGraphMemTrim(0));               /* ... until it is asked for */
    OK(cuMemAlloc_v2(&p, big));
    IS(cuGraphLaunch(x, s), OUT_OF_MEMORY);
    OK(cuMemFree_v2(p));
    OK(cuGraphLaunch(x, s));
    OK(cuStreamSynchronize(s));
    OK(cuGraphExecDestroy(x));
    OK(cuDeviceGraphMemTrim(0));
    OK(cuGraphDestroy(one));
    ctx_end(c);
}

/* Kernels and copies meet memory of a graph only while it is allocated. */
static void dormant(bool kernel)
{
    CUcontext c = ctx_begin();
    CUgraph g = new_graph();
    CUmodule m = NULL;
    CUfunction fill = get_kernel(&m, "fill");
    CUgraphExec x;
    CUdeviceptr p;
    CUstream s;

    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    add_alloc(g, NULL, 4096, &p);
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    OK(cuGraphLaunch(x, s));
    launch_fill(fill, p, 7, 100, s);
    OK(cuMemsetD32Async(p, 1, 100, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    if (kernel)
        launch_fill(fill, p, 7, 100, s);
    else
        OK(cuMemsetD32Async(p, 1, 100, s));
    IS(cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    ctx_end(c);
}

static void test_dormant(void **state)
{
    (void)state;
    dormant(true);
    dormant(false);
}

static CUgraphNode add_condition(CUgraph g, CUgraphConditionalHandle h, CUgraph *body)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphNode n;

    p.conditional.handle = h;
    p.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    p.conditional.size = 1;
    OK(cuGraphAddNode_v2(&n, g, NULL, NULL, 0, &p));
    *body = p.conditional.phGraph_out[0];
    return n;
}

/* A loop without end ends with its context's work; an invented handle is a device error. */
static void test_condition_ends(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph g = new_graph(), body;
    CUgraphConditionalHandle h;
    CUmodule m = NULL, cm;
    CUfunction set;
    CUgraphExec x;
    CUgraphNode n;
    CUstream s, t;
    uint32_t v = 1;
    uint64_t bad = 12345;
    void *args[] = {&bad, &v};

    (void)state;
    (void)m;
    OK(cuModuleLoadData(&cm, cond_ptx));
    OK(cuModuleGetFunction(&set, cm, "set"));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuGraphConditionalHandleCreate(&h, g, NULL, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    add_condition(g, h, &body);
    OK(cuGraphAddEmptyNode(&n, body, NULL, 0));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    OK(cuGraphLaunch(x, s));
    IS(cuStreamQuery(s), NOT_READY);
    OK(cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, t, args, NULL));
    IS(cuStreamSynchronize(t), ILLEGAL_ADDRESS);
    IS(cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    ctx_end(c);
    OK(cuGraphDestroy(g));
}

/* The kernel of one context does not set the number of another. */
static void test_condition_context(void **state)
{
    CUcontext a = ctx_begin(), b;
    CUgraph g = new_graph();
    CUgraphConditionalHandle h;
    CUfunction set;
    CUmodule cm;
    uint32_t v = 1;
    void *args[] = {&h, &v};

    (void)state;
    OK(cuGraphConditionalHandleCreate(&h, g, a, 0, 0));
    OK(cuCtxCreate_v2(&b, 0, 0));
    OK(cuModuleLoadData(&cm, cond_ptx));
    OK(cuModuleGetFunction(&set, cm, "set"));
    OK(cuLaunchKernel(set, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    IS(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    OK(cuCtxDestroy_v2(b));
    OK(cuGraphDestroy(g));
    ctx_end(a);
}

static CUgraphExecUpdateResult update(CUgraphExec x, CUgraph g)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult r = cuGraphExecUpdate_v2(x, g, &info);

    assert_int_equal(r == CUDA_SUCCESS, info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    if (r != CUDA_SUCCESS)
        assert_int_equal(r, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    return info.result;
}

static void test_update(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph g = new_graph(), h = new_graph();
    CUDA_MEMSET_NODE_PARAMS set = {.value = 1, .elementSize = 4, .width = 4, .height = 1};
    CUgraphNode n[3], k[3];
    CUdeviceptr p;
    CUgraphExec x;

    (void)state;
    OK(cuMemAlloc_v2(&p, 4096));
    set.dst = p;
    OK(cuGraphAddMemsetNode(&n[0], g, NULL, 0, &set, c));
    OK(cuGraphAddEmptyNode(&n[1], g, &n[0], 1));
    OK(cuGraphAddEmptyNode(&n[2], g, &n[1], 1));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    set.value = 2;
    OK(cuGraphAddMemsetNode(&k[0], h, NULL, 0, &set, c));
    OK(cuGraphAddEmptyNode(&k[1], h, &k[0], 1));
    assert_int_equal(update(x, h), CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphAddEmptyNode(&k[2], h, &k[0], 1)); /* another edge */
    assert_int_equal(update(x, h), CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphRemoveDependencies(h, &k[0], &k[2], 1));
    OK(cuGraphAddDependencies(h, &k[1], &k[2], 1));
    assert_int_equal(update(x, h), CU_GRAPH_EXEC_UPDATE_SUCCESS);
    set.height = 2;
    set.pitch = 64;
    OK(cuGraphMemsetNodeSetParams(k[0], &set));
    assert_int_equal(update(x, h), CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    OK(cuGraphDestroy(h));
    h = new_graph();
    for (int i = 0; i < 3; i++)
        OK(cuGraphAddEmptyNode(&k[i], h, i ? &k[i - 1] : NULL, i != 0));
    assert_int_equal(update(x, h), CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    OK(cuGraphAddDependencies(h, &k[2], &k[0], 1)); /* a cycle */
    CUgraphExecUpdateResultInfo info;
    IS(cuGraphExecUpdate_v2(x, h, &info), INVALID_VALUE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR);
    CUDA_GRAPH_INSTANTIATE_PARAMS ip = {0};
    CUgraphExec y;
    IS(cuGraphInstantiateWithParams(&y, h, &ip), INVALID_VALUE);
    assert_int_equal(ip.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    assert_non_null(ip.hErrNode_out);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    OK(cuGraphDestroy(h));
    ctx_end(c);
}

/* Captured memory operations tell what they are. */
static void test_captured_memop(void **state)
{
    CUcontext c = ctx_begin();
    CUDA_BATCH_MEM_OP_NODE_PARAMS p;
    CUgraphNode n;
    CUdeviceptr d;
    CUgraph g;
    CUstream s;
    size_t count = 1;

    (void)state;
    OK(cuMemAlloc_v2(&d, 64));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuStreamWriteValue32_v2(s, d, 77, 0));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphGetNodes(g, &n, &count));
    OK(cuGraphBatchMemOpNodeGetParams(n, &p));
    assert_int_equal(p.count, 1);
    assert_int_equal(p.paramArray[0].operation, CU_STREAM_MEM_OP_WRITE_VALUE_32);
    assert_int_equal(p.paramArray[0].writeValue.address, d);
    assert_int_equal(p.paramArray[0].writeValue.value, 77);
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

/* A cooperative node is held to what a cooperative launch is held to, whichever call makes it so
   or so large. */
static void test_cooperative(void **state)
{
    CUkernelNodeAttrValue on = {.cooperative = 1}, is;
    CUDA_KERNEL_NODE_PARAMS p = {
        .gridDimX = 100000, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    CUcontext c = ctx_begin();
    CUmodule m = NULL;
    CUgraph g = new_graph();
    uint32_t value = 5, n = 0;
    CUdeviceptr d = 0;
    void *args[] = {&d, &value, &n};
    CUgraphExec x;
    CUgraphNode k;

    (void)state;
    p.func = get_kernel(&m, "fill");
    p.kernelParams = args;
    OK(cuGraphAddKernelNode_v2(&k, g, NULL, 0, &p));
    IS(cuGraphKernelNodeSetAttribute(k, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &on), COOPERATIVE_LAUNCH_TOO_LARGE);
    OK(cuGraphKernelNodeGetAttribute(k, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &is));
    assert_int_equal(is.cooperative, 0);
    p.gridDimX = 2;
    OK(cuGraphKernelNodeSetParams_v2(k, &p));
    OK(cuGraphKernelNodeSetAttribute(k, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &on));
    OK(cuGraphInstantiateWithFlags(&x, g, 0));
    p.gridDimX = 100000;
    IS(cuGraphKernelNodeSetParams_v2(k, &p), COOPERATIVE_LAUNCH_TOO_LARGE);
    IS(cuGraphExecKernelNodeSetParams_v2(x, k, &p), COOPERATIVE_LAUNCH_TOO_LARGE);
    p.gridDimX = 3;
    OK(cuGraphKernelNodeSetParams_v2(k, &p));
    OK(cuGraphExecKernelNodeSetParams_v2(x, k, &p));
    OK(cuGraphKernelNodeGetAttribute(k, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &is));
    assert_int_equal(is.cooperative, 1); /* new parameters leave attributes alone */
    OK(cuGraphLaunch(x, NULL));
    OK(cuCtxSynchronize());
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

/* A new node's dependencies have no duplicates; nothing is added otherwise. */
static void test_duplicates(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph g = new_graph();
    CUgraphNode n[2], twice[3], out;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                        .bytesize = 64};
    size_t count = 0;

    (void)state;
    OK(cuGraphAddEmptyNode(&n[0], g, NULL, 0));
    OK(cuGraphAddEmptyNode(&n[1], g, NULL, 0));
    twice[0] = twice[2] = n[0];
    twice[1] = n[1];
    IS(cuGraphAddEmptyNode(&out, g, twice, 3), INVALID_VALUE);
    IS(cuGraphAddMemAllocNode(&out, g, (CUgraphNode[]){n[1], n[1]}, 2, &alloc), INVALID_VALUE);
    IS(cuGraphAddDependencies(g, (CUgraphNode[]){n[0], n[0]}, (CUgraphNode[]){n[1], n[1]}, 2), INVALID_VALUE);
    OK(cuGraphGetEdges(g, NULL, NULL, &count)); /* nor is the first of the two edges */
    assert_int_equal(count, 0);
    OK(cuGraphGetNodes(g, NULL, &count));
    assert_int_equal(count, 2);
    OK(cuGraphAddEmptyNode(&out, g, twice, 2));
    OK(cuGraphDestroy(g));
    ctx_end(c);
}

/* Each call that takes an access policy window checks it. */
static void test_window(void **state)
{
    CUcontext c = ctx_begin();
    CUgraph g = new_graph();
    CUmodule m = NULL;
    CUfunction f = get_kernel(&m, "fill");
    CUdeviceptr p;
    unsigned value = 1, n = 0;
    void *args[] = {&p, &value, &n};
    CUDA_KERNEL_NODE_PARAMS_v2 kp = {.func = f,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = args};
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, &a, 1};
    CUaccessPolicyWindow *w = &a.value.accessPolicyWindow;
    CUgraphNode k;
    CUstream s;
    int most;

    (void)state;
    OK(cuMemAlloc_v2(&p, 64));
    OK(cuStreamCreate(&s, 0));
    OK(cuGraphAddKernelNode_v2(&k, g, NULL, 0, &kp));
    OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 0));
    for (int i = 0; i < 5; i++) {
        const CUresult want = i == 1 || i == 4 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

        memset(&a.value, 0, sizeof(a.value));
        w->num_bytes = (size_t)most + (i == 0);
        w->hitRatio = 0.5f;
        w->hitProp = i == 2 ? (CUaccessProperty)3 : CU_ACCESS_PROPERTY_PERSISTING;
        w->missProp = i == 3 ? CU_ACCESS_PROPERTY_PERSISTING : CU_ACCESS_PROPERTY_STREAMING;
        assert_int_equal(cuStreamSetAttribute(s, a.id, &a.value), want);
        assert_int_equal(cuGraphKernelNodeSetAttribute(k, a.id, &a.value), want);
        assert_int_equal(cuLaunchKernelEx(&config, f, args, NULL), want);
    }
    OK(cuCtxSynchronize());
    OK(cuStreamDestroy_v2(s));
    OK(cuGraphDestroy(g));
    OK(cuMemFree_v2(p));
    OK(cuModuleUnload(m));
    ctx_end(c);
}

const struct CMUnitTest gnode_tests[] = {
    cmocka_unit_test(test_cooperative),
    cmocka_unit_test(test_peak),
    cmocka_unit_test(test_dormant),
    cmocka_unit_test(test_condition_ends),
    cmocka_unit_test(test_condition_context),
    cmocka_unit_test(test_update),
    cmocka_unit_test(test_captured_memop),
    cmocka_unit_test(test_duplicates),
    cmocka_unit_test(test_window),
};
const size_t n_gnode_tests = sizeof(gnode_tests) / sizeof(gnode_tests[0]);
