// SPDX-License-Identifier: MIT
/*
 * Calls introduced by CUDA 13.1 to 13.5: newer than the toolkit's cuda.h, so programs look them up
 * by name.
 */
#include "conform.h"

static void newest_only(void)
{
    int version = 0;

    NEED(cuDriverGetVersion(&version));
    if (version < 13050)
        cf_skip("the driver is older than the calls");
}

/* Returns the newest version of an export; ends the case if there is none. */
static void *newest(const char *name)
{
    CUdriverProcAddressQueryResult found;
    void *p = NULL;

    newest_only();
    cf_need(name, cuGetProcAddress(name, &p, 13050, 0, &found));
    cf_need_true(name, p != NULL);
    return p;
}

#define NEWEST(var, name, ...) CUresult (*var)(__VA_ARGS__) = (CUresult(*)(__VA_ARGS__))newest(name)

CASE(newer_driver_version, 0)
{
    int version = 0;

    OK("version", cuDriverGetVersion(&version));
    cf_true("known", version >= 11080 && version <= 13050);
}

CASE(newer_kernel_param_count, CF_CTX)
{
    NEWEST(count, "cuKernelGetParamCount", CUkernel, size_t *);
    CUlibrary lib = NULL;
    CUkernel k = NULL;
    size_t n = 99;

    NEED(cuLibraryLoadData(&lib, cf_fatbin, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuLibraryGetKernel(&k, lib, "k_reduce"));
    OK("kernel", count(k, &n));
    cf_u64("value", n, 3);
    RC("null", count(k, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("no_kernel", count(NULL, &n), CUDA_ERROR_INVALID_HANDLE);
    OK("unload", cuLibraryUnload(lib));
}

static void CUDA_CB add_one(void *data)
{
    __atomic_fetch_add((int *)data, 1, __ATOMIC_SEQ_CST);
}

CASE(newer_host_function, CF_CTX)
{
    NEWEST(launch, "cuLaunchHostFunc", CUstream, CUhostFn, void *, unsigned);
    int calls = 0;

    OK("blocking", launch(NULL, add_one, &calls, 0));
    OK("spinning", launch(NULL, add_one, &calls, 1));
    OK("sync", cuCtxSynchronize());
    cf_u64("calls", (uint64_t)calls, 2);
    RC("mode", launch(NULL, add_one, &calls, 2), CUDA_ERROR_INVALID_VALUE);
    RC("null", launch(NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(newer_copies, CF_CTX)
{
    NEWEST(copy, "cuMemcpyWithAttributesAsync", CUdeviceptr, CUdeviceptr, size_t, CUmemcpyAttributes *,
           CUstream);
    NEWEST(copy3d, "cuMemcpy3DWithAttributesAsync", CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream);
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY3D_BATCH_OP op;
    CUdeviceptr a, b, c;
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&a, 4096));
    NEED(cuMemAlloc(&b, 4096));
    NEED(cuMemAlloc(&c, 4096));
    NEED(cf_fill(a, 1024, 7, s));
    OK("copy", copy(b, a, 4096, &how, s));
    memset(&op, 0, sizeof(op));
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = b;
    op.dst.op.ptr.ptr = c;
    op.extent.width = 4096;
    op.extent.height = op.extent.depth = 1;
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    OK("copy_3d", copy3d(&op, 0, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("copied", cf_filled(b, 1024, 7));
    cf_true("copied_3d", cf_filled(c, 1024, 7));
    RC("order", copy(b, a, 4096, &(CUmemcpyAttributes){0}, s), CUDA_ERROR_INVALID_VALUE);
    RC("no_order", copy(b, a, 4096, NULL, s), CUDA_ERROR_INVALID_VALUE);
    RC("flags", copy3d(&op, 1, s), CUDA_ERROR_INVALID_VALUE);
    RC("no_operation", copy3d(NULL, 0, s), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemFree(a));
    OK("free", cuMemFree(b));
    OK("free", cuMemFree(c));
    OK("destroy", cuStreamDestroy(s));
}

CASE(newer_graph_numbers, CF_CTX)
{
    NEWEST(graph_id, "cuGraphGetId", CUgraph, unsigned *);
    NEWEST(exec_id, "cuGraphExecGetId", CUgraphExec, unsigned *);
    NEWEST(local_id, "cuGraphNodeGetLocalId", CUgraphNode, unsigned *);
    NEWEST(tools_id, "cuGraphNodeGetToolsId", CUgraphNode, unsigned long long *);
    NEWEST(graph_of, "cuGraphNodeGetContainingGraph", CUgraphNode, CUgraph *);
    unsigned id[2] = {0}, node[2] = {0}, x = 0;
    unsigned long long tools[2] = {0};
    CUgraphNode n[2], inner;
    CUgraph g[2], child = NULL, of = NULL;
    CUgraphExec exec;

    for (int i = 0; i < 2; i++) {
        NEED(cuGraphCreate(&g[i], 0));
        NEED(cuGraphAddEmptyNode(&n[i], g[0], NULL, 0));
        OK("graph", graph_id(g[i], &id[i]));
        OK("node", local_id(n[i], &node[i]));
        OK("tools", tools_id(n[i], &tools[i]));
    }
    cf_true("differ", id[0] != id[1] && node[0] != node[1] && tools[0] != tools[1]);
    OK("of", graph_of(n[0], &of));
    cf_true("of_graph", of == g[0]);
    NEED(cuGraphAddEmptyNode(&inner, g[1], NULL, 0));
    NEED(cuGraphAddChildGraphNode(&inner, g[0], NULL, 0, g[1]));
    NEED(cuGraphChildGraphNodeGetGraph(inner, &child));
    size_t one = 1;

    NEED(cuGraphGetNodes(child, &inner, &one));
    OK("of_child", graph_of(inner, &of));
    cf_true("of_child_graph", of == child);
    NEED(cuGraphInstantiate(&exec, g[0], 0));
    OK("executable", exec_id(exec, &x));
    RC("graph_null", graph_id(NULL, &x), CUDA_ERROR_INVALID_VALUE);
    RC("graph_out", graph_id(g[0], NULL), CUDA_ERROR_INVALID_VALUE);
    RC("exec_null", exec_id(NULL, &x), CUDA_ERROR_INVALID_VALUE);
    RC("exec_out", exec_id(exec, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("node_null", local_id(NULL, &x), CUDA_ERROR_INVALID_VALUE);
    RC("node_out", local_id(n[0], NULL), CUDA_ERROR_INVALID_VALUE);
    RC("tools_null", tools_id(NULL, tools), CUDA_ERROR_INVALID_VALUE);
    RC("of_out", graph_of(n[0], NULL), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroyNode(n[0]));
    RC("gone", local_id(n[0], &x), CUDA_ERROR_INVALID_VALUE);
    RC("of_gone", graph_of(n[0], &of), CUDA_ERROR_INVALID_VALUE);
    OK("exec_destroy", cuGraphExecDestroy(exec));
    for (int i = 0; i < 2; i++)
        OK("destroy", cuGraphDestroy(g[i]));
}

CASE(newer_graph_nodes, CF_CTX)
{
    NEWEST(add, "cuGraphAddNode", CUgraphNode *, CUgraph, const CUgraphNode *, const CUgraphEdgeData *,
           size_t, CUgraphNodeParams *);
    NEWEST(set, "cuGraphNodeSetParams", CUgraphNode, CUgraphNodeParams *);
    NEWEST(get, "cuGraphNodeGetParams", CUgraphNode, CUgraphNodeParams *);
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET}, q;
    CUgraphNode n, host, empty;
    CUgraphExec exec;
    CUdeviceptr a;
    CUgraph g;
    int calls = 0;
    unsigned char byte = 0;

    NEED(cuMemAlloc(&a, 64));
    NEED(cuGraphCreate(&g, 0));
    p.memset.dst = a;
    p.memset.value = 5;
    p.memset.elementSize = 1;
    p.memset.width = 64;
    p.memset.height = 1;
    NEED(cuCtxGetCurrent(&p.memset.ctx));
    OK("add", add(&n, g, NULL, NULL, 0, &p));
    p.memset.value = 9;
    OK("set", set(n, &p));
    memset(&q, 0xff, sizeof(q));
    OK("get", get(n, &q));
    cf_true("got", q.type == CU_GRAPH_NODE_TYPE_MEMSET && q.memset.dst == a && q.memset.value == 9 &&
                       q.memset.width == 64);
    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_HOST;
    p.host.fn = add_one;
    p.host.userData = &calls;
    OK("add_host", add(&host, g, &n, NULL, 1, &p));
    OK("get_host", get(host, &q));
    cf_true("got_host",
            q.type == CU_GRAPH_NODE_TYPE_HOST && q.host.fn == add_one && q.host.userData == &calls);
    NEED(cuGraphAddEmptyNode(&empty, g, NULL, 0));
    OK("get_empty", get(empty, &q));
    cf_true("got_empty", q.type == CU_GRAPH_NODE_TYPE_EMPTY);
    NEED(cuGraphInstantiate(&exec, g, 0));
    NEED(cuGraphLaunch(exec, NULL));
    OK("run", cuCtxSynchronize());
    NEED(cuMemcpyDtoH(&byte, a, 1));
    cf_u64("value", byte, 9);
    cf_u64("calls", (uint64_t)calls, 1);
    RC("get_null", get(n, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("get_no_node", get(NULL, &q), CUDA_ERROR_INVALID_VALUE);
    OK("exec_destroy", cuGraphExecDestroy(exec));
    OK("destroy", cuGraphDestroy(g));
    OK("free", cuMemFree(a));
}

CASE(newer_stream_resource, CF_CTX)
{
    NEWEST(of, "cuStreamGetDevResource", CUstream, CUdevResource *, CUdevResourceType);
    CUdevResource device, stream;
    CUdevice d;
    CUstream s;

    NEED(cuCtxGetDevice(&d));
    NEED(cuDeviceGetDevResource(d, &device, CU_DEV_RESOURCE_TYPE_SM));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK("stream", of(s, &stream, CU_DEV_RESOURCE_TYPE_SM));
    cf_true("all", stream.type == CU_DEV_RESOURCE_TYPE_SM && stream.sm.smCount == device.sm.smCount);
    OK("default_stream", of(NULL, &stream, CU_DEV_RESOURCE_TYPE_SM));
    RC("type", of(s, &stream, (CUdevResourceType)1000), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    RC("null", of(s, NULL, CU_DEV_RESOURCE_TYPE_SM), CUDA_ERROR_INVALID_VALUE);
    OK("destroy", cuStreamDestroy(s));
}

/* Layout of cuda.h 13.5. */
struct sm_group {
    unsigned sms, together, preferred, flags, domain, reserved[11];
};

CASE(newer_sm_groups, CF_CTX)
{
    NEWEST(split, "cuDevSmResourceSplit", CUdevResource *, unsigned, const CUdevResource *, CUdevResource *,
           unsigned, struct sm_group *);
    struct sm_group g[2] = {{.sms = 0}}, zero = {0}, bad;
    CUdevResource all, part[2], left, none = {0};
    CUdevResourceDesc d = NULL;
    CUgreenCtx green = NULL;
    unsigned n;

    NEED(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    n = all.sm.smCount;
    RC("result_count", split(part, 0, &all, NULL, 0, g), CUDA_ERROR_INVALID_VALUE);
    RC("many", split(part, 100000, &all, NULL, 0, g), CUDA_ERROR_INVALID_VALUE);
    RC("input", split(part, 1, NULL, NULL, 0, g), CUDA_ERROR_INVALID_VALUE);
    RC("flags", split(part, 1, &all, NULL, 1, g), CUDA_ERROR_INVALID_VALUE);
    RC("params", split(part, 1, &all, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("type", split(part, 1, &none, NULL, 0, g), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    bad = zero;
    bad.reserved[10] = 1;
    RC("reserved", split(part, 1, &all, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE);
    bad = zero;
    bad.sms = 1;
    RC("odd", split(part, 1, &all, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE);
    bad.sms = n + 2;
    RC("too_many", split(part, 1, &all, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE);
    cf_true("unchanged", bad.sms == n + 2);
    OK("how_many", split(NULL, 1, &all, NULL, 0, g));
    cf_true("how_many_fit", g[0].sms <= n);
    if (n < 4)
        return; /* a group has two */
    g[0] = (struct sm_group){.sms = 2, .together = 2};
    g[1] = (struct sm_group){.together = 2};
    OK("two", split(part, 2, &all, &left, 0, g));
    cf_u64("first", part[0].sm.smCount, 2);
    cf_true("second", part[1].sm.smCount == g[1].sms && g[1].sms == (n - 2) / 2 * 2);
    cf_true("rest", n % 2 ? left.sm.smCount == 1 : left.type == CU_DEV_RESOURCE_TYPE_INVALID);
    RC("again", split(&left, 1, &part[1], NULL, 0, g), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    OK("describe", cuDevResourceGenerateDesc(&d, part, 2));
    OK("create", cuGreenCtxCreate(&green, d, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK("resource", cuGreenCtxGetDevResource(green, &left, CU_DEV_RESOURCE_TYPE_SM));
    cf_true("resource_count", left.sm.smCount == 2 + g[1].sms);
    OK("destroy", cuGreenCtxDestroy(green));
    g[0] = (struct sm_group){.sms = 2, .together = 2};
    OK("one", split(part, 1, &all, &left, 0, g));
    OK("rest_again", split(part, 1, &left, NULL, 0, g));
}

/* libcuda exports them and refuses; the software GPU does not have them. */
CASE(newer_refused, CF_CTX)
{
    static const char *const names[] = {"cuCheckpointOperationComplete", "cuCoredumpRegisterStartCallback",
                                        "cuDeviceGetCliqueCount",        "cuDeviceGetFabricClusterUuid",
                                        "cuFabricCpyBatchAsync",         "cuLogicalEndpointCreate",
                                        "cuMemGetLocationInfo",          "cuStreamBeginCaptureToCig",
                                        "cuStreamBeginRecaptureToGraph", "cuTensorMapSetAllocationClass"};
    CUdriverProcAddressQueryResult found;

    newest_only();
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *p = NULL;
        CUresult r = cuGetProcAddress(names[i], &p, 13050, 0, &found);

        if (r == CUDA_SUCCESS && p)
            r = ((CUresult(*)(void *, void *, void *, void *, void *, void *))p)(NULL, NULL, NULL, NULL, NULL,
                                                                                 NULL);
        cf_true(names[i], r == CUDA_ERROR_NOT_SUPPORTED || (r == CUDA_SUCCESS && !p));
        OK("older", cuGetProcAddress(names[i], &p, 13000, 0, &found));
        cf_true("older_none", p == NULL);
    }
}
