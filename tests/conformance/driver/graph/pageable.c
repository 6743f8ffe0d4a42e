// SPDX-License-Identifier: MIT
/* Graphs that copy ordinary (unregistered) memory. */
#include "graph/graph.h"

/* Ordinary memory in graphs is read and written by each run of the graph. */
CASE(graph_pageable, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    static uint32_t in[N], out[N], third[N];
    unsigned n = N, v = 1;
    void *add[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_add", add);
    CUDA_MEMCPY3D c = copy(CU_MEMORYTYPE_DEVICE, p, CU_MEMORYTYPE_HOST, (CUdeviceptr)in, N * 4), back;
    CUDA_MEMCPY3D d = copy(CU_MEMORYTYPE_HOST, (CUdeviceptr)out, CU_MEMORYTYPE_DEVICE, p, N * 4);
    CUgraphNode a = NULL, b = NULL, e = NULL, list[8], to[8];
    CUgraphNodeType type = -1;
    CUgraph g = NULL, clone = NULL;
    CUgraphExec x = NULL;
    size_t count = 0;
    bool ok = true;

    NEED(cuGraphCreate(&g, 0));
    OK("in", cuGraphAddMemcpyNode(&a, g, NULL, 0, &c, current()));
    OK("kernel", cuGraphAddKernelNode(&b, g, &a, 1, &k));
    OK("out", cuGraphAddMemcpyNode(&e, g, &b, 1, &d, current()));
    count = 8;
    OK("nodes", cuGraphGetNodes(g, list, &count));
    cf_u64("nodes_count", count, 3);
    OK("type", cuGraphNodeGetType(a, &type));
    cf_u64("type_value", type, CU_GRAPH_NODE_TYPE_MEMCPY);
    count = 8;
    OK("edges", cuGraphGetEdges(g, list, to, NULL, &count));
    cf_u64("edges_count", count, 2);
    count = 8;
    OK("roots", cuGraphGetRootNodes(g, list, &count));
    cf_true("root", count == 1 && list[0] == a);
    count = 8;
    OK("dependents", cuGraphNodeGetDependentNodes(a, list, NULL, &count));
    cf_true("dependent", count == 1 && list[0] == b);
    OK("get", cuGraphMemcpyNodeGetParams(a, &back));
    cf_true("get_right", back.srcHost == in && back.dstDevice == p && back.WidthInBytes == N * 4);
    OK("clone", cuGraphClone(&clone, g));
    OK("clone_nodes", cuGraphGetNodes(clone, NULL, &count));
    cf_u64("clone_count", count, 3);
    OK("instantiate", cuGraphInstantiate(&x, clone, 0));
    NEED(cuGraphDestroy(g));
    NEED(cuGraphDestroy(clone));
    for (unsigned r = 1; r < 4; r++) {
        for (unsigned i = 0; i < N; i++)
            in[i] = r * 100 + i;
        NEED(cuGraphLaunch(x, s));
        NEED(cuStreamSynchronize(s));
        for (unsigned i = 0; i < N; i++)
            ok &= out[i] == r * 100 + i + 1;
    }
    cf_true("bytes_of_each_launch", ok);
    NEED(cuGraphExecDestroy(x));
    /* The same by capture, and from host to host. */
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("capture_in", cuMemcpyHtoDAsync(p, in, N * 4, s));
    OK("capture_kernel", cf_launch(cf_func("k_add"), (N + 127) / 128, 128, 0, s, add));
    OK("capture_out", cuMemcpyDtoHAsync(out, p, N * 4, s));
    OK("capture_host", cuMemcpyAsync((CUdeviceptr)third, (CUdeviceptr)out, N * 4, s));
    OK("capture_end", cuStreamEndCapture(s, &g));
    OK("capture_nodes", cuGraphGetNodes(g, NULL, &count));
    cf_u64("capture_count", count, 4);
    NEED(cuGraphInstantiate(&x, g, 0));
    NEED(cuGraphDestroy(g));
    ok = true;
    for (unsigned r = 1; r < 4; r++) {
        for (unsigned i = 0; i < N; i++)
            in[i] = r * 1000 + i;
        NEED(cuGraphLaunch(x, s));
        NEED(cuStreamSynchronize(s));
        for (unsigned i = 0; i < N; i++)
            ok &= third[i] == r * 1000 + i + 1;
    }
    cf_true("capture_right", ok);
    NEED(cuGraphExecDestroy(x));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

static void number(uint32_t *p, unsigned first)
{
    for (unsigned i = 0; i < N; i++)
        p[i] = first + i;
}

static bool launched(CUgraphExec x, CUstream s, const uint32_t *out, unsigned first)
{
    bool ok = true;

    NEED(cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    for (unsigned i = 0; i < N; i++)
        ok &= out[i] == first + i;
    return ok;
}

/* Copies of ordinary memory are changed, disabled, and part of child graphs, like other copies. */
CASE(graph_pageable_change, CF_CTX)
{
    static uint32_t in[N], second[N], third[N], out[N];
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    unsigned n = N, v = 1, enabled = 9;
    void *add[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_add", add);
    CUDA_MEMCPY3D c = copy(CU_MEMORYTYPE_DEVICE, p, CU_MEMORYTYPE_HOST, (CUdeviceptr)in, N * 4), back;
    CUDA_MEMCPY3D d = copy(CU_MEMORYTYPE_HOST, (CUdeviceptr)out, CU_MEMORYTYPE_DEVICE, p, N * 4);
    CUgraphNode a = NULL, b = NULL, e = NULL, child = NULL, after = NULL, list[8];
    CUgraph g = NULL, parent = NULL, inner = NULL;
    CUgraphExec x = NULL, y = NULL;
    void *pinned = NULL;
    size_t count = 8;

    NEED(cuMemHostAlloc(&pinned, N * 4, 0));
    number(in, 100);
    number(second, 200);
    number(third, 300);
    number(pinned, 400);
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddMemcpyNode(&a, g, NULL, 0, &c, current()));
    NEED(cuGraphAddKernelNode(&b, g, &a, 1, &k));
    NEED(cuGraphAddMemcpyNode(&e, g, &b, 1, &d, current()));

    /* As a child: the copy belongs to the parent. */
    NEED(cuGraphCreate(&parent, 0));
    OK("child", cuGraphAddChildGraphNode(&child, parent, NULL, 0, g));
    OK("child_after", cuGraphAddEmptyNode(&after, parent, &child, 1));
    OK("child_graph", cuGraphChildGraphNodeGetGraph(child, &inner));
    OK("child_nodes", cuGraphGetNodes(inner, list, &count));
    cf_u64("child_count", count, 3);

    c.srcHost = second;
    OK("set", cuGraphMemcpyNodeSetParams(a, &c));
    OK("get", cuGraphMemcpyNodeGetParams(a, &back));
    cf_true("get_right", back.srcHost == second && back.dstDevice == p);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    cf_true("launch_set", launched(x, s, out, 201));
    c.srcHost = third;
    OK("exec_set", cuGraphExecMemcpyNodeSetParams(x, a, &c, current()));
    cf_true("launch_exec_set", launched(x, s, out, 301));
    OK("get_2", cuGraphMemcpyNodeGetParams(a, &back));
    cf_true("get_same", back.srcHost == second);
    c.srcHost = pinned;
    OK("exec_pinned", cuGraphExecMemcpyNodeSetParams(x, a, &c, current()));
    cf_true("launch_pinned", launched(x, s, out, 401));
    c.srcHost = in;
    OK("exec_set_2", cuGraphExecMemcpyNodeSetParams(x, a, &c, current()));
    cf_true("launch_exec_set_2", launched(x, s, out, 101));
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));

    OK("child_instantiate", cuGraphInstantiate(&y, parent, 0));
    OK("destroy_parent", cuGraphDestroy(parent));
    cf_true("launch_child", launched(y, s, out, 101));
    OK("exec_destroy_2", cuGraphExecDestroy(y));

    NEED(cuGraphCreate(&g, 0));
    c.srcHost = second;
    NEED(cuGraphAddMemcpyNode(&a, g, NULL, 0, &c, current()));
    NEED(cuGraphAddKernelNode(&b, g, &a, 1, &k));
    NEED(cuGraphAddMemcpyNode(&e, g, &b, 1, &d, current()));
    OK("instantiate_3", cuGraphInstantiate(&x, g, 0));
    cf_true("launch_on", launched(x, s, out, 201));
    OK("off", cuGraphNodeSetEnabled(x, a, 0));
    OK("off_get", cuGraphNodeGetEnabled(x, a, &enabled));
    cf_u64("off_value", enabled, 0);
    cf_true("launch_off", launched(x, s, out, 202)); /* the old value plus one */
    OK("off_out", cuGraphNodeSetEnabled(x, e, 0));
    memset(out, 0, sizeof(out));
    NEED(cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    cf_true("launch_off_out", out[0] == 0 && out[N - 1] == 0);
    OK("on", cuGraphNodeSetEnabled(x, a, 1));
    OK("on_out", cuGraphNodeSetEnabled(x, e, 1));
    OK("on_get", cuGraphNodeGetEnabled(x, e, &enabled));
    cf_u64("on_value", enabled, 1);
    cf_true("launch_on_again", launched(x, s, out, 201));
    OK("exec_destroy_3", cuGraphExecDestroy(x));
    OK("destroy_3", cuGraphDestroy(g));
    NEED(cuMemFreeHost(pinned));
}

/*
 * Child graphs with such copies, never queried: destroying them frees the copies, and a later graph
 * at the same address does not inherit them.
 */
CASE(graph_pageable_child, CF_CTX)
{
    static uint32_t in[N], out[N];
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    CUDA_MEMCPY3D c = copy(CU_MEMORYTYPE_DEVICE, p, CU_MEMORYTYPE_HOST, (CUdeviceptr)in, N * 4);
    CUDA_MEMCPY3D d = copy(CU_MEMORYTYPE_HOST, (CUdeviceptr)out, CU_MEMORYTYPE_DEVICE, p, N * 4);
    bool right = true;

    for (unsigned i = 1; i <= 4; i++) {
        CUgraphNode a = NULL, b = NULL, child = NULL, second = NULL;
        CUgraph g = NULL, parent = NULL;
        CUgraphExec x = NULL;

        number(in, 100 * i);
        memset(out, 0, sizeof(out));
        NEED(cuGraphCreate(&g, 0));
        NEED(cuGraphAddMemcpyNode(&a, g, NULL, 0, &c, current()));
        if (i % 2)
            NEED(cuGraphAddEmptyNode(&b, g, &a, 1));
        NEED(cuGraphAddMemcpyNode(&b, g, &a, 1, &d, current()));
        NEED(cuGraphCreate(&parent, 0));
        NEED(cuGraphAddChildGraphNode(&child, parent, NULL, 0, g));
        NEED(cuGraphAddChildGraphNode(&second, parent, &child, 1, g));
        if (i > 2)
            NEED(cuGraphDestroyNode(second));
        NEED(cuGraphDestroy(g));
        NEED(cuGraphInstantiate(&x, parent, 0));
        NEED(cuGraphDestroy(parent));
        right &= launched(x, s, out, 100 * i);
        NEED(cuGraphExecDestroy(x));
    }
    cf_true("right", right);
}
