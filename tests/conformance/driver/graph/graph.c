// SPDX-License-Identifier: MIT
/* Graphs built call by call. */
#include "graph/graph.h"

#include <unistd.h>

static void CUDA_CB count_up(void *p)
{
    __atomic_add_fetch((int *)p, 1, __ATOMIC_SEQ_CST);
}

CASE(graph_build, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N), q = words(N);
    unsigned n = N, v = 3, w = 4;
    void *fill[] = {&p, &n, &v}, *add[] = {&p, &n, &w};
    CUDA_KERNEL_NODE_PARAMS k1 = kernel("k_fill", fill), k2 = kernel("k_add", add), back;
    CUDA_MEMCPY3D c = copy(CU_MEMORYTYPE_DEVICE, q, CU_MEMORYTYPE_DEVICE, p, N * 4), cback;
    CUDA_MEMSET_NODE_PARAMS m = {.dst = q + 4, .value = 9, .elementSize = 4, .width = 2, .height = 1}, mback;
    int calls = 0;
    CUDA_HOST_NODE_PARAMS h = {count_up, &calls}, hback;
    CUgraphNode a = NULL, b = NULL, d = NULL, e = NULL, f = NULL, none = NULL, list[8];
    CUgraphNodeType type = -1;
    CUgraph g = NULL;
    size_t count = 0;

    OK("create", cuGraphCreate(&g, 0));
    RC("create_flags", cuGraphCreate(&g, 1), CUDA_ERROR_INVALID_VALUE);
    RC("create_null", cuGraphCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK("kernel", cuGraphAddKernelNode(&a, g, NULL, 0, &k1));
    v = 77; /* the parameters were copied */
    OK("kernel_2", cuGraphAddKernelNode(&b, g, &a, 1, &k2));
    OK("copy", cuGraphAddMemcpyNode(&d, g, &b, 1, &c, current()));
    OK("memset", cuGraphAddMemsetNode(&e, g, &d, 1, &m, current()));
    OK("host", cuGraphAddHostNode(&f, g, &e, 1, &h));
    OK("empty", cuGraphAddEmptyNode(&none, g, &f, 1));
    RC("kernel_null", cuGraphAddKernelNode(&a, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("kernel_no_graph", cuGraphAddKernelNode(&a, NULL, NULL, 0, &k1), CUDA_ERROR_INVALID_VALUE);
    RC("kernel_no_deps", cuGraphAddKernelNode(&a, g, NULL, 1, &k1), CUDA_ERROR_INVALID_VALUE);
    RC("kernel_no_out", cuGraphAddKernelNode(NULL, g, NULL, 0, &k1), CUDA_ERROR_INVALID_VALUE);
    RC("copy_null", cuGraphAddMemcpyNode(&d, g, NULL, 0, NULL, current()), CUDA_ERROR_INVALID_VALUE);
    RC("host_null", cuGraphAddHostNode(&f, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("count", cuGraphGetNodes(g, NULL, &count));
    cf_u64("count_value", count, 6);
    OK("type", cuGraphNodeGetType(d, &type));
    cf_u64("type_value", type, CU_GRAPH_NODE_TYPE_MEMCPY);
    OK("type_2", cuGraphNodeGetType(none, &type));
    cf_u64("type_2_value", type, CU_GRAPH_NODE_TYPE_EMPTY);
    RC("type_null", cuGraphNodeGetType(d, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("type_none", cuGraphNodeGetType(NULL, &type), CUDA_ERROR_INVALID_VALUE);
    OK("kernel_get", cuGraphKernelNodeGetParams(a, &back));
    cf_true("kernel_get_right", back.gridDimX == k1.gridDimX && back.blockDimX == 128 && back.kernelParams &&
                                    *(CUdeviceptr *)back.kernelParams[0] == p &&
                                    *(unsigned *)back.kernelParams[2] == 3);
    RC("kernel_get_other", cuGraphKernelNodeGetParams(d, &back), CUDA_ERROR_INVALID_VALUE);
    OK("copy_get", cuGraphMemcpyNodeGetParams(d, &cback));
    cf_true("copy_get_right",
            cback.srcDevice == p && cback.dstDevice == q && cback.WidthInBytes == N * 4 && cback.Height == 1);
    OK("memset_get", cuGraphMemsetNodeGetParams(e, &mback));
    cf_true("memset_get_right", mback.dst == q + 4 && mback.value == 9 && mback.width == 2);
    OK("host_get", cuGraphHostNodeGetParams(f, &hback));
    cf_true("host_get_right", hback.fn == count_up && hback.userData == &calls);
    OK("run", run(g, s, 3));
    cf_u64("calls", (uint64_t)calls, 3);
    cf_true("first", cf_filled(p, N, 7));
    uint32_t word[4] = {0};
    NEED(cuMemcpyDtoH(word, q, 16));
    cf_true("second", word[0] == 7 && word[1] == 9 && word[2] == 9 && word[3] == 10);
    OK("destroy_node", cuGraphDestroyNode(e));
    if (!cf_real()) /* a GPU's driver dereferences the dead handle */
        RC("destroy_node_twice", cuGraphDestroyNode(e), CUDA_ERROR_INVALID_VALUE);
    count = 8;
    OK("nodes", cuGraphGetNodes(g, list, &count));
    cf_u64("nodes_count", count, 5);
    OK("edges", cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    cf_u64("edges_count", count, 3);
    OK("destroy", cuGraphDestroy(g));
    if (!cf_real())
        RC("destroy_twice", cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
    NEED(cuStreamDestroy(s));
}

CASE(graph_edges, CF_CTX)
{
    CUgraph g = NULL, other = NULL, clone = NULL;
    CUgraphNode n[4] = {0}, far = NULL, found = NULL, list[4];
    size_t count = 4;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&other, 0));
    for (int i = 0; i < 4; i++)
        NEED(cuGraphAddEmptyNode(&n[i], g, NULL, 0));
    NEED(cuGraphAddEmptyNode(&far, other, NULL, 0));
    CUgraphNode from[] = {n[0], n[0], n[1]}, to[] = {n[1], n[2], n[3]};
    OK("add", cuGraphAddDependencies(g, from, to, NULL, 3));
    RC("add_twice", cuGraphAddDependencies(g, from, to, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    RC("add_far", cuGraphAddDependencies(g, &far, to, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    RC("add_null", cuGraphAddDependencies(g, NULL, to, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    OK("dependents", cuGraphNodeGetDependentNodes(n[0], list, NULL, &count));
    cf_u64("dependents_count", count, 2);
    count = 4;
    OK("dependencies", cuGraphNodeGetDependencies(n[3], list, NULL, &count));
    cf_true("dependencies_right", count == 1 && list[0] == n[1]);
    OK("clone", cuGraphClone(&clone, g));
    OK("find", cuGraphNodeFindInClone(&found, n[3], clone));
    cf_true("find_other", found && found != n[3]);
    RC("find_far", cuGraphNodeFindInClone(&found, far, clone), CUDA_ERROR_INVALID_VALUE);
    OK("remove", cuGraphRemoveDependencies(g, from, to, NULL, 1));
    RC("remove_twice", cuGraphRemoveDependencies(g, from, to, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    OK("count", cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    cf_u64("count_value", count, 2);
    OK("clone_count", cuGraphGetEdges(clone, NULL, NULL, NULL, &count));
    cf_u64("clone_count_value", count, 3);
    OK("clone_destroy", cuGraphDestroy(clone));
    RC("clone_after", cuGraphGetNodes(clone, NULL, &count), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(g));
    if (!cf_real()) /* a GPU's driver dereferences the dead handle */
        RC("node_after", cuGraphDestroyNode(n[0]), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(other));
}

CASE(graph_change, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    unsigned n = N, v = 3;
    void *fill[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_fill", fill);
    CUgraphNode a = NULL;
    CUgraphExec x = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddKernelNode(&a, g, NULL, 0, &k));
    NEED(cuGraphInstantiate(&x, g, 0));
    v = 50;
    OK("exec_set", cuGraphExecKernelNodeSetParams(x, a, &k));
    NEED(cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    cf_true("exec_changed", cf_filled(p, N, 50));
    v = 60;
    OK("set", cuGraphKernelNodeSetParams(a, &k));
    NEED(cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    cf_true("exec_not_changed", cf_filled(p, N, 50));
    OK("run", run(g, s, 1));
    cf_true("changed", cf_filled(p, N, 60));
    RC("exec_null", cuGraphExecKernelNodeSetParams(x, a, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("exec_no_node", cuGraphExecKernelNodeSetParams(x, NULL, &k), CUDA_ERROR_INVALID_VALUE);
    RC("exec_no_exec", cuGraphExecKernelNodeSetParams(NULL, a, &k), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphExecDestroy(x));
    RC("exec_gone", cuGraphExecKernelNodeSetParams(x, a, &k), CUDA_ERROR_INVALID_VALUE);
    RC("launch_gone", cuGraphLaunch(x, s), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(g));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

CASE(graph_child, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    unsigned n = N, v = 2;
    void *add[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_add", add);
    CUgraphNode a = NULL, c = NULL, d = NULL;
    CUgraph g = NULL, child = NULL, inner = NULL;
    size_t count = 0;

    NEED(cuMemsetD32(p, 0, N));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&child, 0));
    NEED(cuGraphAddKernelNode(&a, child, NULL, 0, &k));
    OK("add", cuGraphAddChildGraphNode(&c, g, NULL, 0, child));
    OK("add_2", cuGraphAddChildGraphNode(&d, g, &c, 1, child));
    RC("add_null", cuGraphAddChildGraphNode(&d, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("get", cuGraphChildGraphNodeGetGraph(c, &inner));
    cf_true("cloned", inner && inner != child);
    OK("inner_nodes", cuGraphGetNodes(inner, NULL, &count));
    cf_u64("inner_count", count, 1);
    NEED(cuGraphDestroy(child));
    OK("run", run(g, s, 2));
    uint32_t first = 0;
    NEED(cuMemcpyDtoH(&first, p, 4));
    cf_u64("right", first, 8);
    NEED(cuGraphDestroy(g));
    RC("inner_gone", cuGraphGetNodes(inner, NULL, &count), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

static int destroyed;

static void CUDA_CB destroy(void *p)
{
    __atomic_add_fetch((int *)p, 1, __ATOMIC_SEQ_CST);
}

static bool soon(const int *p, int want)
{
    for (int i = 0; i < 30000 && __atomic_load_n(p, __ATOMIC_SEQ_CST) < want; i++)
        usleep(1000);
    return __atomic_load_n(p, __ATOMIC_SEQ_CST) == want;
}

CASE(graph_user_object, CF_CTX)
{
    CUuserObject o = NULL, q = NULL;
    CUstream s = new_stream();
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUgraphNode n;

    destroyed = 0;
    OK("create", cuUserObjectCreate(&o, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    RC("create_flags", cuUserObjectCreate(&q, &destroyed, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("create_none", cuUserObjectCreate(&q, &destroyed, NULL, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("create_zero", cuUserObjectCreate(&q, &destroyed, destroy, 0, 1), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddEmptyNode(&n, g, NULL, 0));
    OK("retain", cuGraphRetainUserObject(g, o, 1, CU_GRAPH_USER_OBJECT_MOVE));
    RC("retain_null", cuGraphRetainUserObject(g, NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("retain_zero", cuGraphRetainUserObject(g, o, 0, 0), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphInstantiate(&x, g, 0));
    NEED(cuGraphDestroy(g));
    NEED(cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    cf_u64("still", (uint64_t)destroyed, 0);
    NEED(cuGraphExecDestroy(x));
    cf_true("gone", soon(&destroyed, 1));
    OK("create_2", cuUserObjectCreate(&o, &destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK("retain_2", cuUserObjectRetain(o, 2));
    OK("release_2", cuUserObjectRelease(o, 2));
    cf_u64("still_2", (uint64_t)destroyed, 1);
    OK("release_3", cuUserObjectRelease(o, 1));
    cf_true("gone_2", soon(&destroyed, 2));
    NEED(cuStreamDestroy(s));
}

/* Many operations after a host function: the completion of the function must still be delivered. */
static struct late {
    int open, issued;
} late;

static void CUDA_CB wait_open(void *p)
{
    struct late *l = p;
    int seen = -1;

    /* Opens when all was issued, or when issuing has stalled. */
    while (!__atomic_load_n(&l->open, __ATOMIC_SEQ_CST)) {
        int now = __atomic_load_n(&l->issued, __ATOMIC_SEQ_CST);

        if (now == seen && now > 0)
            break;
        seen = now;
        usleep(300000);
    }
}

CASE(graph_host_func_behind, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(4);
    bool ok = true;

    memset(&late, 0, sizeof(late));
    NEED(cuLaunchHostFunc(s, wait_open, &late));
    for (int i = 0; i < 20000; i++) {
        ok &= cuMemsetD32Async(p, (unsigned)i, 1, s) == CUDA_SUCCESS;
        __atomic_store_n(&late.issued, i + 1, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&late.open, 1, __ATOMIC_SEQ_CST);
    cf_true("issued", ok);
    OK("sync", cuStreamSynchronize(s));
    uint32_t last = 0;
    NEED(cuMemcpyDtoH(&last, p, 4));
    cf_u64("last", last, 19999);
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

CASE(graph_events, CF_CTX)
{
    CUstream s = new_stream(), other = new_stream();
    CUdeviceptr p = words(N), q = words(N);
    unsigned n = N, v = 5;
    void *fill[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_fill", fill);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    CUkernelNodeAttrValue value = {.priority = 0};
    CUgraphNode a = NULL, b = NULL, c = NULL;
    CUevent e = NULL, back = NULL;
    unsigned on = 9;
    CUgraph g = NULL;
    CUgraphExec x = NULL;

    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddKernelNode(&a, g, NULL, 0, &k));
    OK("record", cuGraphAddEventRecordNode(&b, g, &a, 1, e));
    RC("record_null", cuGraphAddEventRecordNode(&b, g, &a, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("get", cuGraphEventRecordNodeGetEvent(b, &back));
    cf_true("get_right", back == e);
    RC("get_other", cuGraphEventWaitNodeGetEvent(b, &back), CUDA_ERROR_INVALID_VALUE);
    any.memset.dst = q;
    any.memset.value = 7;
    any.memset.elementSize = 4;
    any.memset.width = 4;
    any.memset.height = 1;
    any.memset.ctx = current();
    OK("any", cuGraphAddNode(&c, g, &b, NULL, 1, &any));
    any.reserved2 = 1;
    RC("any_reserved", cuGraphAddNode(&c, g, &b, NULL, 1, &any), CUDA_ERROR_INVALID_VALUE);
    any.reserved2 = 0;
    RC("any_null", cuGraphAddNode(&c, g, &b, NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("attribute", cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    OK("attribute_get", cuGraphKernelNodeGetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    cf_u64("attribute_value", (uint64_t)value.priority, 0);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("enabled", cuGraphNodeGetEnabled(x, c, &on));
    cf_u64("enabled_value", on, 1);
    OK("disable", cuGraphNodeSetEnabled(x, c, 0));
    OK("launch", cuGraphLaunch(x, s));
    OK("wait", cuStreamWaitEvent(other, e, 0));
    OK("sync", cuStreamSynchronize(other));
    cf_true("ran_before", cf_filled(p, N, 5));
    NEED(cuStreamSynchronize(s));
    uint32_t word = 1;
    NEED(cuMemcpyDtoH(&word, q, 4));
    cf_u64("disabled", word, 0);
    OK("enable", cuGraphNodeSetEnabled(x, c, 1));
    NEED(cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    NEED(cuMemcpyDtoH(&word, q, 4));
    cf_u64("enabled_again", word, 7);
    OK("event_sync", cuEventSynchronize(e));
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    NEED(cuEventDestroy(e));
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(other));
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
}

static void in_dot(void *unused)
{
    (void)unused;
}

/* Hash of a text without its numbers and addresses. */
static uint64_t dot_form(const char *text)
{
    uint64_t form = 1469598103934665603u;

    while (*text) {
        size_t run = strspn(text, "0123456789");
        char c = *text;

        if (run) {
            c = '#';
            text += strspn(text, "0123456789abcdefx");
        } else if (!strncmp(text, "(nil)", 5)) {
            c = '#';
            text += 5;
        } else {
            text++;
        }
        form = (form ^ (unsigned char)c) * 1099511628211u;
    }
    return form;
}

/* A DOT file of nodes of many types, with all details, and of the graphs contained in nodes. */
CASE(graph_dot, CF_CTX)
{
    char path[] = "/tmp/conform-dot-XXXXXX", text[8192] = "";
    CUdeviceptr p = words(N);
    unsigned n = N, v = 1;
    void *add[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_add", add), back;
    CUDA_MEM_ALLOC_NODE_PARAMS a = {.bytesize = 64};
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 9, .elementSize = 4, .width = 2, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = in_dot};
    CUgraphNodeParams cond = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                              .conditional = {.type = CU_GRAPH_COND_TYPE_IF, .size = 1}};
    CUgraphNode kn = NULL, node = NULL;
    CUevent e = NULL;
    CUgraph g = NULL, child = NULL, middle = NULL;
    unsigned clusters = 0;
    int fd = mkstemp(path);

    cf_need_true("file", fd >= 0);
    close(fd);
    a.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    a.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    NEED(cuEventCreate(&e, 0));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddKernelNode(&kn, g, NULL, 0, &k));
    NEED(cuGraphAddMemAllocNode(&node, g, &kn, 1, &a));
    NEED(cuGraphAddMemsetNode(&node, g, &node, 1, &m, current()));
    NEED(cuGraphAddEventRecordNode(&node, g, &node, 1, e));
    NEED(cuGraphCreate(&child, 0));
    NEED(cuGraphAddHostNode(&node, child, NULL, 0, &host));
    NEED(cuGraphCreate(&middle, 0));
    NEED(cuGraphAddChildGraphNode(&node, middle, NULL, 0, child));
    NEED(cuGraphAddChildGraphNode(&node, g, NULL, 0, middle));
    NEED(cuGraphConditionalHandleCreate(&cond.conditional.handle, g, current(), 0, 0));
    cond.conditional.ctx = current();
    NEED(cuGraphAddNode(&node, g, NULL, NULL, 0, &cond));
    NEED(cuGraphAddEmptyNode(&node, cond.conditional.phGraph_out[0], NULL, 0));
    NEED(cuGraphKernelNodeGetParams(kn, &back));
    OK("print", cuGraphDebugDotPrint(g, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    RC("print_null", cuGraphDebugDotPrint(g, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("print_no_graph", cuGraphDebugDotPrint(NULL, path, 0), CUDA_ERROR_INVALID_VALUE);
    cf_true("parameters_stay", *(unsigned *)back.kernelParams[1] == N);
    FILE *f = fopen(path, "r");
    cf_need_true("open", f != NULL);
    size_t len = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[len] = 0;
    unlink(path);
    cf_true("digraph", strncmp(text, "digraph dot {", 13) == 0);
    cf_true("edges", strstr(text, "->") != NULL);
    if (!cf_real()) { /* a GPU's driver has other labels */
        cf_true("nodes_of_children", strstr(text, "{HOST | ") != NULL);
        cf_true("nodes_of_bodies", strstr(text, "{EMPTY | ") != NULL);
    }
    for (const char *at = text; (at = strstr(at, "subgraph cluster_")) != NULL; at++)
        clusters++;
    cf_u64("clusters", clusters, 4);
    cf_u64("form", dot_form(text), dot_form(text));
    OK("destroy", cuGraphDestroy(g));
    OK("destroy_middle", cuGraphDestroy(middle));
    OK("destroy_child", cuGraphDestroy(child));
}

/* A call whose third pair is wrong changes no edge; the manual does not say so. */
CASE(graph_edges_midway, CF_CTX)
{
    enum { MANY = 2100 };
    static CUgraphNode n[MANY], from[MANY], to[MANY];
    CUgraphNode far = NULL;
    CUgraph g = NULL, other = NULL;
    size_t count = 0;

    if (cf_real())
        return;
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&other, 0));
    for (int i = 0; i < MANY; i++)
        NEED(cuGraphAddEmptyNode(&n[i], g, NULL, 0));
    NEED(cuGraphAddEmptyNode(&far, other, NULL, 0));
    for (int i = 0; i < MANY - 1; i++) {
        from[i] = n[i];
        to[i] = n[i + 1];
    }
    from[2] = far;
    RC("add_far", cuGraphAddDependencies(g, from, to, NULL, 4), CUDA_ERROR_INVALID_VALUE);
    from[2] = to[2];
    RC("add_itself", cuGraphAddDependencies(g, from, to, NULL, 4), CUDA_ERROR_INVALID_VALUE);
    from[2] = from[0];
    to[2] = to[0];
    RC("add_repeated", cuGraphAddDependencies(g, from, to, NULL, 4), CUDA_ERROR_INVALID_VALUE);
    from[MANY - 1] = from[0];
    to[MANY - 1] = to[0];
    from[2] = n[2];
    to[2] = n[3];
    RC("add_many", cuGraphAddDependencies(g, from, to, NULL, MANY), CUDA_ERROR_INVALID_VALUE);
    OK("none", cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    cf_u64("none_count", count, 0);
    OK("add", cuGraphAddDependencies(g, from, to, NULL, MANY - 1));
    from[2] = from[0];
    to[2] = to[0];
    RC("remove_repeated", cuGraphRemoveDependencies(g, from, to, NULL, 4), CUDA_ERROR_INVALID_VALUE);
    from[2] = n[2];
    to[2] = n[1];
    RC("remove_missing", cuGraphRemoveDependencies(g, from, to, NULL, 4), CUDA_ERROR_INVALID_VALUE);
    to[2] = n[3];
    RC("remove_many", cuGraphRemoveDependencies(g, from, to, NULL, MANY), CUDA_ERROR_INVALID_VALUE);
    OK("all", cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    cf_u64("all_count", count, MANY - 1);
    OK("remove", cuGraphRemoveDependencies(g, from, to, NULL, MANY - 1));
    OK("left", cuGraphGetEdges(g, NULL, NULL, NULL, &count));
    cf_u64("left_count", count, 0);
    NEED(cuGraphDestroy(g));
    NEED(cuGraphDestroy(other));
}

/* Edges that let a kernel begin early: their data is kept, read back, and not lost silently. */
CASE(graph_programmatic, CF_CTX)
{
    const CUgraphEdgeData early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                   .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC},
                          order = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER,
                                   .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC},
                          plain = {0};
    CUgraphEdgeData bad, data[4];
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    unsigned n = N, v = 1;
    void *add[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = kernel("k_add", add);
    CUgraphNodeParams kp = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUgraphNode a = NULL, b = NULL, c = NULL, e = NULL, x[4], y[4];
    CUgraph g = NULL, clone = NULL;
    size_t count = 4;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddKernelNode(&a, g, NULL, 0, &k));
    NEED(cuGraphAddKernelNode(&b, g, NULL, 0, &k));
    NEED(cuGraphAddEmptyNode(&e, g, NULL, 0));
    OK("add", cuGraphAddDependencies(g, &a, &b, &early, 1));
    RC("add_twice", cuGraphAddDependencies(g, &a, &b, &early, 1), CUDA_ERROR_INVALID_VALUE);
    RC("add_to_empty", cuGraphAddDependencies(g, &b, &e, &early, 1), CUDA_ERROR_INVALID_VALUE);
    bad = early;
    bad.type = 7;
    RC("type", cuGraphAddDependencies(g, &b, &a, &bad, 1), CUDA_ERROR_INVALID_VALUE);
    bad = early;
    bad.to_port = 1;
    RC("to_port", cuGraphAddDependencies(g, &b, &a, &bad, 1), CUDA_ERROR_INVALID_VALUE);
    bad = early;
    bad.reserved[2] = 1;
    RC("reserved", cuGraphAddDependencies(g, &b, &a, &bad, 1), CUDA_ERROR_INVALID_VALUE);
    memcpy(&kp.kernel, &k, sizeof(k));
    OK("node", cuGraphAddNode(&c, g, &b, &order, 1, &kp));
    OK("edges", cuGraphGetEdges(g, x, y, data, &count));
    cf_u64("edges_count", count, 2);
    cf_true("edges_right", data[0].from_port == early.from_port && data[0].type == early.type &&
                               data[1].from_port == order.from_port && data[1].type == order.type);
    count = 4;
    RC("edges_lossy", cuGraphGetEdges(g, x, y, NULL, &count), CUDA_ERROR_LOSSY_QUERY);
    count = 4;
    RC("dependencies_lossy", cuGraphNodeGetDependencies(c, x, NULL, &count), CUDA_ERROR_LOSSY_QUERY);
    count = 4;
    OK("dependents", cuGraphNodeGetDependentNodes(a, x, data, &count));
    cf_true("dependents_right", count == 1 && x[0] == b && data[0].type == early.type);
    OK("clone", cuGraphClone(&clone, g));
    count = 4;
    RC("clone_lossy", cuGraphGetEdges(clone, x, y, NULL, &count), CUDA_ERROR_LOSSY_QUERY);
    CUgraphNodeParams none = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    OK("empty_set", cuGraphNodeSetParams(e, &none));
    if (!cf_real())
        RC("empty_set_other", cuGraphNodeSetParams(a, &none), CUDA_ERROR_INVALID_VALUE);
    RC("node_bad_edge", cuGraphAddNode(&c, g, &e, &early, 1, &kp), CUDA_ERROR_INVALID_VALUE);
    OK("nodes", cuGraphGetNodes(g, NULL, &count));
    cf_u64("nodes_count", count, 4);
    OK("run", run(g, s, 2));
    if (!cf_real()) /* on a GPU kernels that do not wait run at once */
        cf_true("ran", cf_filled(p, 1, 6));
    OK("remove", cuGraphRemoveDependencies(g, &a, &b, &plain, 1)); /* for any data of the edge */
    RC("remove_twice", cuGraphRemoveDependencies(g, &a, &b, &early, 1), CUDA_ERROR_INVALID_VALUE);
    OK("remove_2", cuGraphRemoveDependencies(g, &b, &c, &order, 1));
    count = 4;
    OK("edges_none", cuGraphGetEdges(g, x, y, NULL, &count));
    cf_u64("edges_none_count", count, 0);
    OK("destroy", cuGraphDestroy(g));
    OK("destroy_clone", cuGraphDestroy(clone));
}
