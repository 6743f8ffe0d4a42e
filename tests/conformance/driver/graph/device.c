// SPDX-License-Identifier: MIT
/* Graphs launched by kernels: fire and forget, tail and sibling launches. */
#include "conform.h"

#define TAIL (1ull << 56)
#define FORGET (2ull << 56)
#define SIBLING (3ull << 56)
#define DEVICE CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH

static CUstream new_stream(void)
{
    CUstream s = NULL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUdeviceptr words(unsigned n)
{
    CUdeviceptr p = 0;
    NEED(cuMemAlloc(&p, n * 4));
    NEED(cuMemsetD32(p, 0, n));
    return p;
}

static CUgraph new_graph(void)
{
    CUgraph g = NULL;
    NEED(cuGraphCreate(&g, 0));
    return g;
}

/* Adds a node after `after`, or a root node. */
static CUgraphNode add(CUgraph g, CUgraphNode after, const char *name, void **params)
{
    CUDA_KERNEL_NODE_PARAMS k = {.func = cf_func(name),
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    CUgraphNode n = NULL;
    NEED(cuGraphAddKernelNode(&n, g, after ? &after : NULL, after != NULL, &k));
    return n;
}

static CUgraphNode note(CUgraph g, CUgraphNode after, CUdeviceptr order, unsigned what)
{
    void *params[] = {&order, &what};
    return add(g, after, "k_note", params);
}

static CUgraphNode launcher(CUgraph g, CUgraphNode after, CUgraphExec x, uint64_t mode, unsigned times,
                            CUdeviceptr result)
{
    uint64_t exec = (uint64_t)(uintptr_t)x;
    void *params[] = {&exec, &mode, &times, &result};
    return add(g, after, "k_graph_launch", params);
}

static void destroy_graphs(unsigned n, const CUgraph *g)
{
    for (unsigned i = 0; i < n; i++)
        NEED(cuGraphDestroy(g[i]));
}

static CUgraphExec ready(CUgraph g, unsigned flags, CUstream s)
{
    CUgraphExec x = NULL;
    NEED(cuGraphInstantiate(&x, g, flags));
    NEED(cuGraphUpload(x, s));
    NEED(cuStreamSynchronize(s));
    return x;
}

/* "1 2 3" */
static void order_is(const char *name, CUdeviceptr order, const char *expect)
{
    unsigned v[64] = {0};
    char got[256] = "";

    NEED(cuMemcpyDtoH(v, order, sizeof(v)));
    for (unsigned i = 0; i < v[0] && i < 63; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), i ? " %u" : "%u", v[1 + i]);
    cf_str(name, got, expect);
}

static uint32_t word(CUdeviceptr p)
{
    uint32_t v = 0;
    NEED(cuMemcpyDtoH(&v, p, 4));
    return v;
}

CASE(gdevice_params, CF_CTX)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS ip = {.flags = DEVICE};
    CUDA_HOST_NODE_PARAMS host = {(CUhostFn)abort, NULL};
    CUgraph g = new_graph(), empty = new_graph();
    CUdeviceptr order = words(64);
    CUgraphNode n, h = NULL;
    CUgraphExec x = NULL;
    cuuint64_t flags = 0;
    CUgraphExecUpdateResultInfo info;

    n = note(g, NULL, order, 1);
    RC_IN("empty", cuGraphInstantiate(&x, empty, DEVICE), CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED);
    RC("auto_free", cuGraphInstantiate(&x, g, DEVICE | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
       CUDA_ERROR_INVALID_VALUE);
    OK("instantiate", cuGraphInstantiate(&x, g, DEVICE));
    OK("flags", cuGraphExecGetFlags(x, &flags));
    cf_u64("flags_value", flags, DEVICE);
    OK("update", cuGraphExecUpdate(x, g, &info));
    NEED(cuGraphAddHostNode(&h, g, &n, 1, &host));
    OK("exec_destroy", cuGraphExecDestroy(x));
    RC_IN("host_node", cuGraphInstantiateWithParams(&x, g, &ip), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
    cf_u64("host_node_why", ip.result_out, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
    cf_true("host_node_which", ip.hErrNode_out == h);
    OK("destroy", cuGraphDestroy(g));
    OK("destroy_empty", cuGraphDestroy(empty));
}

/*
 * From the host such a graph can be launched like any other; a kernel outside of graphs launches
 * none.
 */
CASE(gdevice_host, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr order = words(64), result = words(2), self = words(2);
    CUgraph g = new_graph();
    uint64_t mode = FORGET, exec, id = 1;
    unsigned times = 1;

    note(g, NULL, order, 1);
    CUgraphExec x = ready(g, DEVICE, s);
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    order_is("order", order, "1");
    exec = (uint64_t)(uintptr_t)x;
    void *params[] = {&exec, &mode, &times, &result}, *out[] = {&self};
    /* A GPU's driver does not even launch the kernel. */
    CUresult r = cf_launch(cf_func("k_graph_launch"), 1, 1, 0, s, params);
    RC_IN("no_graph", r, CUDA_SUCCESS, CUDA_ERROR_NOT_SUPPORTED);
    OK("no_graph_self", cf_launch(cf_func("k_graph_self"), 1, 1, 0, s, out));
    OK("no_graph_sync", cuStreamSynchronize(s));
    if (r == CUDA_SUCCESS)
        cf_u64("no_graph_result", word(result), 1);
    NEED(cuMemcpyDtoH(&id, self, 8));
    cf_u64("no_graph_id", id, 0);
    order_is("no_graph_order", order, "1");
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

/*
 * The launcher's tail waits for its fire-and-forget launches; a second launch of the same graph
 * fails.
 */
CASE(gdevice_modes, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr order = words(64), result = words(8);
    CUgraph child = new_graph(), last = new_graph(), next = new_graph(), g = new_graph();
    CUgraphExec c, l, t, x = NULL;
    CUgraphNode n;

    note(child, NULL, order, 10);
    note(last, NULL, order, 30);
    c = ready(child, DEVICE, s);
    l = ready(last, DEVICE, s);
    n = note(next, NULL, order, 20);
    launcher(next, n, l, TAIL, 1, result + 16);
    t = ready(next, DEVICE, s);
    n = launcher(g, NULL, t, TAIL, 1, result + 8);
    n = launcher(g, n, c, FORGET, 2, result);
    note(g, n, order, 1);
    OK("instantiate", cuGraphInstantiate(&x, g, 0)); /* launches itself from the host only */
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_u64("first", word(result), 0);
    cf_u64("second", word(result + 4), 1); /* still pending */
    cf_u64("tail", word(result + 8), 0);
    cf_u64("tail_of_tail", word(result + 16), 0);
    unsigned v[8] = {0};
    NEED(cuMemcpyDtoH(v, order, sizeof(v)));
    cf_u64("count", v[0], 4);
    cf_true("before_tail", v[1] + v[2] == 11); /* concurrently, in either order */
    cf_true("tails", v[3] == 20 && v[4] == 30);
    OK("again", cuGraphLaunch(x, s));
    OK("again_sync", cuStreamSynchronize(s));
    cf_u64("again_count", word(order), 8);
    NEED(cuGraphExecDestroy(c));
    /* Undefined on a GPU. */
    if (!cf_real()) {
        OK("gone", cuGraphLaunch(x, s)); /* the kernel names a destroyed graph */
        OK("gone_sync", cuStreamSynchronize(s));
        cf_u64("gone_result", word(result), 1);
        cf_u64("gone_count", word(order), 11);
    }
    OK("exec_destroy", cuGraphExecDestroy(x));
    destroy_graphs(4, (CUgraph[]){child, last, next, g});
}

/* A sibling is independent of its launcher, whose tail does not wait for it. */
CASE(gdevice_sibling, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr order = words(64), result = words(8);
    CUgraph child = new_graph(), last = new_graph(), middle = new_graph(), g = new_graph();
    CUgraphExec c, l, m, x = NULL;
    CUgraphNode n;
    unsigned v[8] = {0}, sum = 0;

    note(child, NULL, order, 10);
    note(last, NULL, order, 30);
    c = ready(child, DEVICE, s);
    l = ready(last, DEVICE, s);
    launcher(middle, NULL, c, SIBLING, 1, result);
    m = ready(middle, DEVICE, s);
    n = launcher(g, NULL, m, FORGET, 1, result + 4);
    n = launcher(g, n, l, TAIL, 1, result + 8);
    launcher(g, n, l, 0, 1, result + 12); /* not a stream of the device */
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("results", !word(result) && !word(result + 4) && !word(result + 8));
    cf_u64("stream", word(result + 12), 1);
    NEED(cuMemcpyDtoH(v, order, sizeof(v)));
    cf_u64("count", v[0], 2);
    for (unsigned i = 1; i < 3; i++)
        sum += v[i];
    cf_u64("all", sum, 40);
    cf_u64("tail_last", v[2], 30); /* waits for its launching graph, whose child c is */
    OK("exec_destroy", cuGraphExecDestroy(x));
    destroy_graphs(4, (CUgraph[]){child, last, middle, g});
}

/* A graph that relaunches itself for a number of times; and the maximum of pending launches. */
CASE(gdevice_self, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr order = words(64), result = words(256), left = words(1), self = words(2);
    CUgraph g = new_graph(), many = new_graph();
    uint64_t id = 0;
    CUgraphExec x, y = NULL;
    CUgraphNode n;
    unsigned add1 = 1, first = 0, bad = 0;

    void *again[] = {&left, &result}, *out[] = {&self}, *count[] = {&order, &add1, &add1};
    n = add(g, NULL, "k_add", count);
    n = add(g, n, "k_graph_self", out);
    add(g, n, "k_graph_again", again);
    x = ready(g, DEVICE, s);
    NEED(cuMemsetD32(left, 1000, 1));
    NEED(cuCtxSynchronize());
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_u64("times", word(order), 1000);
    cf_u64("result", word(result), 0);
    NEED(cuMemcpyDtoH(&id, self, 8));
    cf_true("self", id == (uint64_t)(uintptr_t)x);

    /* A graph without upload; then 130 graphs, of which 120 may be launched by fire and forget. */
    CUgraph one = new_graph();
    CUgraphExec e[130] = {NULL};
    add(one, NULL, "k_add", count);
    for (unsigned i = 0; i < 130; i++)
        NEED(cuGraphInstantiate(&e[i], one, DEVICE));
    n = launcher(many, NULL, e[0], FORGET, 1, result);
    for (unsigned i = 1; i < 130; i++) {
        NEED(cuGraphUpload(e[i], s));
        n = launcher(many, n, e[i], FORGET, 1, result + 4 * i);
    }
    NEED(cuMemsetD32(order, 0, 64));
    NEED(cuGraphInstantiate(&y, many, 0));
    NEED(cuCtxSynchronize());
    OK("many", cuGraphLaunch(y, s));
    OK("many_sync", cuStreamSynchronize(s));
    unsigned r[130];
    NEED(cuMemcpyDtoH(r, result, sizeof(r)));
    first = r[0];
    for (unsigned i = 1; i < 130; i++)
        bad += r[i] != 0;
    cf_u64("not_uploaded", first, 1);
    cf_u64("too_many", bad, 9);
    cf_u64("ran", word(order), 120);
    destroy_graphs(3, (CUgraph[]){g, many, one});
}
