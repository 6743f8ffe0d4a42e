// SPDX-License-Identifier: MIT
/* Conditional nodes. */
#include "conform.h"

static CUstream new_stream(void)
{
    CUstream s = NULL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUcontext current(void)
{
    CUcontext c = NULL;
    NEED(cuCtxGetCurrent(&c));
    return c;
}

static CUdeviceptr words(unsigned n)
{
    CUdeviceptr p = 0;
    NEED(cuMemAlloc(&p, n * 4));
    NEED(cuMemsetD32(p, 0, n));
    return p;
}

static CUresult add_kernel(CUgraphNode *node, CUgraph g, const CUgraphNode *after, const char *name,
                           void **params)
{
    CUDA_KERNEL_NODE_PARAMS k = {.func = cf_func(name),
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    return cuGraphAddKernelNode(node, g, after, after ? 1 : 0, &k);
}

/* p[0] += v */
static CUresult add_count(CUgraph g, CUdeviceptr p, unsigned v)
{
    unsigned one = 1;
    void *params[] = {&p, &one, &v};
    CUgraphNode n;
    return add_kernel(&n, g, NULL, "k_add", params);
}

static CUgraphNodeParams conditional(CUgraphConditionalHandle h, CUgraphConditionalNodeType type,
                                     unsigned size)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    p.conditional.handle = h;
    p.conditional.type = type;
    p.conditional.size = size;
    p.conditional.ctx = current();
    return p;
}

static uint32_t word(CUdeviceptr p)
{
    uint32_t v = 0;
    NEED(cuMemcpyDtoH(&v, p, 4));
    return v;
}

CASE(gcond_params, CF_CTX)
{
    CUgraphConditionalHandle h = 0, unused = 0;
    CUgraph g = NULL, copy = NULL, parent = NULL;
    CUDA_GRAPH_INSTANTIATE_PARAMS ip = {0};
    CUgraphNode node = NULL, other = NULL;
    CUgraphExec x = NULL, y = NULL;
    CUgraphNodeParams p;
    CUgraphNodeType type;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&parent, 0));
    OK("handle", cuGraphConditionalHandleCreate(&h, g, current(), 0, 0));
    cf_true("handle_value", h != 0);
    RC("handle_null", cuGraphConditionalHandleCreate(NULL, g, current(), 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("handle_flags", cuGraphConditionalHandleCreate(&unused, g, current(), 0, 4), CUDA_ERROR_INVALID_VALUE);
    RC("handle_no_graph", cuGraphConditionalHandleCreate(&unused, NULL, current(), 0, 0),
       CUDA_ERROR_INVALID_VALUE);
    RC_IN("instantiate_unused", cuGraphInstantiateWithParams(&x, g, &ip), CUDA_ERROR_INVALID_VALUE);
    cf_u64("instantiate_unused_why", ip.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
    p = conditional(h, CU_GRAPH_COND_TYPE_WHILE, 2);
    RC("while_size", cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(h, CU_GRAPH_COND_TYPE_IF, 3);
    RC("if_size", cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(h, CU_GRAPH_COND_TYPE_SWITCH, 0);
    RC("switch_size", cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(h, (CUgraphConditionalNodeType)9, 1);
    RC("type_unknown", cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(0, CU_GRAPH_COND_TYPE_IF, 1);
    RC("no_handle", cuGraphAddNode(&node, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(h, CU_GRAPH_COND_TYPE_IF, 1);
    RC("other_graph", cuGraphAddNode(&node, parent, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(h, CU_GRAPH_COND_TYPE_IF, 1);
    OK("add", cuGraphAddNode(&node, g, NULL, NULL, 0, &p));
    cf_true("body", p.conditional.phGraph_out && p.conditional.phGraph_out[0]);
    CUgraph body = p.conditional.phGraph_out ? p.conditional.phGraph_out[0] : NULL;
    OK("type", cuGraphNodeGetType(node, &type));
    cf_u64("type_value", type, CU_GRAPH_NODE_TYPE_CONDITIONAL);
    p = conditional(h, CU_GRAPH_COND_TYPE_IF, 1);
    RC("handle_twice", cuGraphAddNode(&other, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    RC("set", cuGraphNodeSetParams(node, &p), CUDA_ERROR_NOT_SUPPORTED);
    CUDA_HOST_NODE_PARAMS host = {(CUhostFn)abort, NULL};
    OK("body_host", cuGraphAddHostNode(&other, body, NULL, 0, &host)); /* instantiation fails */
    RC("instantiate_host", cuGraphInstantiate(&x, g, 0), CUDA_ERROR_INVALID_VALUE);
    OK("body_host_end", cuGraphDestroyNode(other));
    OK("body_empty", cuGraphAddEmptyNode(&other, body, NULL, 0));
    RC("body_destroy", cuGraphDestroy(body), CUDA_ERROR_INVALID_VALUE);
    RC_IN("clone", cuGraphClone(&copy, g), CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
    RC_IN("child", cuGraphAddChildGraphNode(&other, parent, NULL, 0, g), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    RC_IN("instantiate_twice", cuGraphInstantiate(&y, g, 0), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
    OK("destroy_parent", cuGraphDestroy(parent));
}

static void one_if(const char *name, unsigned start, unsigned size, unsigned then, unsigned els)
{
    CUgraphConditionalHandle h = 0;
    CUstream s = new_stream();
    CUdeviceptr p = words(2);
    CUgraphExec x = NULL;
    CUgraphNode node;
    CUgraph g = NULL;
    char check[64];

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphConditionalHandleCreate(&h, g, current(), start, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams c = conditional(h, CU_GRAPH_COND_TYPE_IF, size);
    NEED(cuGraphAddNode(&node, g, NULL, NULL, 0, &c));
    NEED(add_count(c.conditional.phGraph_out[0], p, 1));
    if (size == 2)
        NEED(add_count(c.conditional.phGraph_out[1], p + 4, 1));
    NEED(cuGraphInstantiate(&x, g, 0));
    for (int i = 0; i < 3; i++) {
        snprintf(check, sizeof(check), "%s_launch", name);
        OK(check, cuGraphLaunch(x, s));
    }
    snprintf(check, sizeof(check), "%s_sync", name);
    OK(check, cuStreamSynchronize(s));
    snprintf(check, sizeof(check), "%s_then", name);
    cf_u64(check, word(p), then);
    snprintf(check, sizeof(check), "%s_else", name);
    cf_u64(check, word(p + 4), els);
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
}

CASE(gcond_if_default, CF_CTX)
{
    one_if("true", 1, 1, 3, 0);
    one_if("false", 0, 1, 0, 0);
    one_if("true_2", 7, 2, 3, 0);
    one_if("false_2", 0, 2, 0, 3);
}

CASE(gcond_if_device, CF_CTX)
{
    CUgraphConditionalHandle h = 0;
    CUstream s = new_stream();
    CUdeviceptr p = words(2);
    CUgraphExec x = NULL;
    CUgraphNode set = NULL, node = NULL;
    CUgraph g = NULL;
    unsigned v = 1;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphConditionalHandleCreate(&h, g, current(), 0, 0));
    void *params[] = {&h, &v};
    OK("kernel", add_kernel(&set, g, NULL, "k_condition", params));
    CUgraphNodeParams c = conditional(h, CU_GRAPH_COND_TYPE_IF, 2);
    OK("node", cuGraphAddNode(&node, g, &set, NULL, 1, &c));
    OK("then", add_count(c.conditional.phGraph_out[0], p, 1));
    OK("else", add_count(c.conditional.phGraph_out[1], p + 4, 1));
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("taken", word(p) == 1 && word(p + 4) == 0);
    v = 0; /* the same graph with another value */
    CUDA_KERNEL_NODE_PARAMS k = {.func = cf_func("k_condition"),
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    OK("change", cuGraphExecKernelNodeSetParams(x, set, &k));
    OK("launch_2", cuGraphLaunch(x, s));
    OK("sync_2", cuStreamSynchronize(s));
    cf_true("other_taken", word(p) == 1 && word(p + 4) == 1);
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

CASE(gcond_while, CF_CTX)
{
    CUgraphConditionalHandle h = 0;
    CUstream s = new_stream();
    CUdeviceptr p = words(1), left = words(1);
    CUgraphExec x = NULL;
    CUgraphNode node = NULL, body = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphConditionalHandleCreate(&h, g, current(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams c = conditional(h, CU_GRAPH_COND_TYPE_WHILE, 1);
    OK("node", cuGraphAddNode(&node, g, NULL, NULL, 0, &c));
    CUgraph inner = c.conditional.phGraph_out[0];
    OK("count", add_count(inner, p, 1));
    void *params[] = {&h, &left};
    OK("down", add_kernel(&body, inner, NULL, "k_count_down", params));
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    for (unsigned n = 1; n <= 3; n++) {
        NEED(cuMemsetD32(p, 0, 1));
        NEED(cuMemsetD32(left, 5 * n, 1));
        NEED(cuCtxSynchronize());
        OK("launch", cuGraphLaunch(x, s));
        OK("sync", cuStreamSynchronize(s));
        cf_u64("times", word(p), 5 * n);
    }
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

CASE(gcond_switch, CF_CTX)
{
    CUgraphConditionalHandle h = 0;
    CUstream s = new_stream();
    CUdeviceptr p = words(3);
    CUgraphExec x = NULL;
    CUgraphNode set = NULL, node = NULL;
    CUgraph g = NULL;
    unsigned v = 0;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphConditionalHandleCreate(&h, g, current(), 0, 0));
    void *params[] = {&h, &v};
    OK("kernel", add_kernel(&set, g, NULL, "k_condition", params));
    CUgraphNodeParams c = conditional(h, CU_GRAPH_COND_TYPE_SWITCH, 3);
    OK("node", cuGraphAddNode(&node, g, &set, NULL, 1, &c));
    for (unsigned i = 0; i < 3; i++)
        OK("body", add_count(c.conditional.phGraph_out[i], p + 4 * i, i + 1));
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    const unsigned values[] = {0, 2, 1, 3, 1, 0xffffffffu};
    for (unsigned i = 0; i < 6; i++) {
        v = values[i];
        CUDA_KERNEL_NODE_PARAMS k = {.func = cf_func("k_condition"),
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
        NEED(cuGraphExecKernelNodeSetParams(x, set, &k));
        OK("launch", cuGraphLaunch(x, s));
    }
    OK("sync", cuStreamSynchronize(s));
    cf_true("results", word(p) == 1 && word(p + 4) == 4 && word(p + 8) == 3);
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

/* A loop in a loop, and a captured body. */
CASE(gcond_nested, CF_CTX)
{
    CUgraphConditionalHandle outer = 0, inner = 0;
    CUstream s = new_stream(), t = new_stream();
    CUdeviceptr p = words(1), a = words(1), b = words(1);
    CUgraphNode node = NULL, set = NULL, loop = NULL, down = NULL;
    CUgraph g = NULL, ended = NULL;
    CUgraphExec x = NULL;
    unsigned v = 1, one = 1;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphConditionalHandleCreate(&outer, g, current(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    NEED(cuGraphConditionalHandleCreate(&inner, g, current(), 0, 0));
    CUgraphNodeParams c = conditional(outer, CU_GRAPH_COND_TYPE_WHILE, 1);
    OK("node", cuGraphAddNode(&node, g, NULL, NULL, 0, &c));
    CUgraph body = c.conditional.phGraph_out[0];
    CUDA_MEMSET_NODE_PARAMS m = {.dst = b, .value = 3, .elementSize = 4, .width = 1, .height = 1};
    CUgraphNode reset = NULL;
    OK("reset", cuGraphAddMemsetNode(&reset, body, NULL, 0, &m, current()));
    void *on[] = {&inner, &v};
    OK("set", add_kernel(&set, body, &reset, "k_condition", on));
    CUgraphNodeParams d = conditional(inner, CU_GRAPH_COND_TYPE_WHILE, 1);
    OK("inner", cuGraphAddNode(&loop, body, &set, NULL, 1, &d));
    void *out[] = {&outer, &a};
    OK("outer_down", add_kernel(&down, body, &loop, "k_count_down", out));
    CUgraph deep = d.conditional.phGraph_out[0];
    OK("begin", cuStreamBeginCaptureToGraph(t, deep, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    void *count[] = {&p, &one, &v}, *in[] = {&inner, &b};
    OK("capture_count", cf_launch(cf_func("k_add"), 1, 1, 0, t, count));
    OK("capture_down", cf_launch(cf_func("k_count_down"), 1, 1, 0, t, in));
    OK("end", cuStreamEndCapture(t, &ended));
    cf_true("end_same", ended == deep);
    NEED(cuMemsetD32(a, 4, 1));
    NEED(cuCtxSynchronize());
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_u64("times", word(p), 12);
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

/* Graph i of a conditional node. */
static CUgraph body_of(CUgraphNodeParams *p, unsigned i)
{
    return p->conditional.phGraph_out ? p->conditional.phGraph_out[i] : NULL;
}

static size_t nodes_of(CUgraph g)
{
    size_t n = 0;
    return cuGraphGetNodes(g, NULL, &n) == CUDA_SUCCESS ? n : 99;
}

/* The call that adds a node returns its own errors, regardless of nodes added before. */
CASE(gcond_built, CF_CTX)
{
    CUgraphConditionalHandle h[4] = {0};
    CUgraphNode node[4] = {NULL}, out = NULL;
    CUgraphNode *const same = node;
    CUgraph g = NULL, inner = NULL;
    CUgraphExec x = NULL;
    CUgraphNodeParams p;

    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < 4; i++)
        NEED(cuGraphConditionalHandleCreate(&h[i], g, current(), 0, 0));
    cf_true("numbers", h[0] != h[1] && h[1] != h[2] && h[2] != h[3]);
    p = conditional(h[0], CU_GRAPH_COND_TYPE_IF, 1);
    OK("first", cuGraphAddNode(&node[0], g, NULL, NULL, 0, &p));
    inner = body_of(&p, 0);
    cf_true("first_body", inner && inner != g);
    cf_u64("first_nodes", nodes_of(inner), 0);
    p = conditional(h[0], CU_GRAPH_COND_TYPE_IF, 1);
    RC("first_again", cuGraphAddNode(&out, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(h[1], CU_GRAPH_COND_TYPE_SWITCH, 3);
    RC("no_deps", cuGraphAddNode(&out, g, NULL, NULL, 1, &p), CUDA_ERROR_INVALID_VALUE);
    RC("type", cuGraphAddNode(&out, NULL, same, NULL, 1, &p), CUDA_ERROR_INVALID_VALUE);
    RC("deps_twice", cuGraphAddNode(&out, g, (CUgraphNode[]){node[0], node[0]}, NULL, 2, &p),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphAddEmptyNode(&out, inner, NULL, 0));
    RC("deps_of_other", cuGraphAddNode(&node[1], g, &out, NULL, 1, &p), CUDA_ERROR_INVALID_VALUE);
    OK("second", cuGraphAddNode(&node[1], g, same, NULL, 1, &p));
    cf_true("second_bodies", body_of(&p, 0) != body_of(&p, 1) && body_of(&p, 1) != body_of(&p, 2) &&
                                 body_of(&p, 2) != inner && body_of(&p, 2) != NULL);
    OK("second_empty", cuGraphAddEmptyNode(&out, body_of(&p, 2), NULL, 0));
    cf_u64("second_nodes", nodes_of(body_of(&p, 2)), 1);
    /* In a node's graph, with a handle of the enclosing graph, which then uses it as well. */
    p = conditional(h[2], CU_GRAPH_COND_TYPE_WHILE, 1);
    OK("inner", cuGraphAddNode(&node[2], inner, NULL, NULL, 0, &p));
    OK("inner_empty", cuGraphAddEmptyNode(&out, body_of(&p, 0), NULL, 0));
    p = conditional(h[2], CU_GRAPH_COND_TYPE_WHILE, 1);
    RC("inner_again", cuGraphAddNode(&out, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    RC("instantiate_unused", cuGraphInstantiate(&x, g, 0), CUDA_ERROR_INVALID_VALUE);
    /* More graphs than are named in one call. */
    p = conditional(h[3], CU_GRAPH_COND_TYPE_SWITCH, 257);
    OK("many", cuGraphAddNode(&node[3], g, &node[1], NULL, 1, &p));
    cf_true("many_bodies", body_of(&p, 0) != body_of(&p, 256) && body_of(&p, 256) != NULL);
    cf_u64("many_nodes", nodes_of(body_of(&p, 256)), 0);
    p = conditional(h[3], CU_GRAPH_COND_TYPE_IF, 1);
    RC("many_again", cuGraphAddNode(&out, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    cf_u64("count", nodes_of(g), 3);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("exec_destroy", cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    cf_true("inner_ended", cuGraphAddEmptyNode(&out, inner, NULL, 0) == CUDA_ERROR_INVALID_VALUE);
}

/* Handles, nodes and their graphs end with the graph, and new ones reuse their slots. */
CASE(gcond_again, CF_CTX)
{
    for (unsigned i = 0; i < 50; i++) {
        CUgraphConditionalHandle h[2] = {0};
        CUgraph g = NULL;
        CUgraphExec x = NULL;
        CUgraphNode outer = NULL, deeper = NULL;
        CUgraphNodeParams p;

        NEED(cuGraphCreate(&g, 0));
        for (unsigned k = 0; k < 2; k++)
            NEED(cuGraphConditionalHandleCreate(&h[k], g, current(), 0, 0));
        p = conditional(h[0], CU_GRAPH_COND_TYPE_SWITCH, 1 + i % 7);
        NEED(cuGraphAddNode(&outer, g, NULL, NULL, 0, &p));
        CUgraph last = body_of(&p, i % 7);
        p = conditional(h[1], CU_GRAPH_COND_TYPE_IF, 2);
        NEED(cuGraphAddNode(&deeper, last, NULL, NULL, 0, &p));
        NEED(cuGraphAddEmptyNode(&deeper, body_of(&p, 1), NULL, 0));
        NEED(cuGraphInstantiate(&x, g, 0));
        NEED(cuGraphLaunch(x, NULL));
        NEED(cuGraphExecDestroy(x));
        NEED(cuGraphDestroy(g));
    }
    OK("synchronize", cuCtxSynchronize());
}

/* A node runs in the context of its handle; an ended context is invalid. */
CASE(gcond_context, CF_CTX)
{
    CUgraphConditionalHandle h = 0, gone = 0;
    CUcontext mine = current(), other = NULL;
    CUgraphNodeParams p;
    CUgraph g = NULL;
    CUgraphNode out = NULL;
    CUdevice device;

    NEED(cuCtxGetDevice(&device));
    NEED(cuCtxCreate(&other, NULL, 0, device));
    NEED(cuCtxSetCurrent(mine));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphConditionalHandleCreate(&h, g, NULL, 0, 0));
    NEED(cuGraphConditionalHandleCreate(&gone, g, other, 0, 0));
    p = conditional(h, CU_GRAPH_COND_TYPE_IF, 1);
    p.conditional.ctx = other;
    RC("other", cuGraphAddNode(&out, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    p = conditional(h, CU_GRAPH_COND_TYPE_IF, 1);
    OK("mine", cuGraphAddNode(&out, g, NULL, NULL, 0, &p));
    cf_u64("count", nodes_of(g), 1);
    NEED(cuCtxDestroy(other));
    p = conditional(gone, CU_GRAPH_COND_TYPE_IF, 1);
    p.conditional.ctx = other;
    RC("ended", cuGraphAddNode(&out, g, NULL, NULL, 0, &p), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(g));
}
