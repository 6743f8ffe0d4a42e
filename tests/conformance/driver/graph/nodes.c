// SPDX-License-Identifier: MIT
/*
 * Nodes of each type added call by call: the refusals of each addition, without effect on the
 * graph.
 */
#include "graph/graph.h"

/*
 * Functions of a context that is not current: a driver refuses such a node at once, each time. The
 * graph is unchanged.
 */
CASE(gnode_kernel_context, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    unsigned count = N, v = 3;
    void *fill[] = {&p, &count, &v};
    const CUDA_KERNEL_NODE_PARAMS k = kernel("k_fill", fill);
    CUgraphNode first = UNTOUCHED, out[2] = {UNTOUCHED, UNTOUCHED};
    CUcontext second = NULL;
    CUgraph g = NULL, other = NULL;
    CUresult r;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&other, 0));
    NEED(cuCtxCreate(&second, NULL, 0, 0));
    r = cuGraphAddKernelNode(&out[0], other, NULL, 0, &k);
    NEED(cuCtxPopCurrent(NULL));
    OK("add", cuGraphAddKernelNode(&first, g, NULL, 0, &k)); /* known as a node from here on */
    NEED(cuCtxPushCurrent(second));
    RC("again", cuGraphAddKernelNode(&out[1], g, NULL, 0, &k), r);
    NEED(cuCtxPopCurrent(NULL));
    cf_true("untouched", (out[0] == UNTOUCHED) == (out[1] == UNTOUCHED));
    cf_u64("count", nodes_of(g) - nodes_of(other), 1);
    OK("run", run(g, s, 1));
    NEED(cuGraphDestroy(g));
    NEED(cuGraphDestroy(other));
    NEED(cuCtxDestroy(second));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

CASE(gnode_memset, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N), managed = 0, pooled = 0;
    CUDA_MEMSET_NODE_PARAMS m = {
        .dst = p + 16, .pitch = 64, .value = 7, .elementSize = 4, .width = 2, .height = 3};
    CUDA_MEMSET_NODE_PARAMS bad = m, back;
    CUgraphNode n = UNTOUCHED, out = UNTOUCHED;
    CUgraphNode implied = NULL;
    CUgraph g = NULL;
    uint32_t word[N];
    bool ok = true;

    NEED(cuGraphCreate(&g, 0));
    refused("null", cuGraphAddMemsetNode(&out, g, NULL, 0, NULL, current()), CUDA_ERROR_INVALID_VALUE, &out);
    OK("no_context", cuGraphAddMemsetNode(&implied, g, NULL, 0, &m, NULL)); /* the current one */
    OK("no_context_end", cuGraphDestroyNode(implied));
    refused("no_graph", cuGraphAddMemsetNode(&out, NULL, NULL, 0, &m, current()), CUDA_ERROR_INVALID_VALUE,
            &out);
    for (unsigned size = 0; size < 6; size += size == 0 ? 3 : 5) {
        bad.elementSize = size;
        refused("element", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
                &out);
    }
    bad = m;
    bad.dst = p + 2;
    refused("between", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &out);
    bad = m;
    bad.pitch = 4;
    refused("pitch", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE, &out);
    bad = m;
    bad.width = 0;
    refused("width", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE, &out);
    bad = m;
    bad.height = 0;
    refused("height", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &out);
    bad = m;
    bad.height = N;
    refused("behind", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &out);
    bad = m;
    bad.height = (size_t)1 << 60;
    if (!cf_real()) /* a GPU's driver takes it for existing memory */
        refused("wraps", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
                &out);
    bad = m;
    bad.dst = 0;
    refused("nowhere", cuGraphAddMemsetNode(&out, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &out);
    cf_u64("none", nodes_of(g), 0);
    OK("add", cuGraphAddMemsetNode(&n, g, NULL, 0, &m, current()));
    refused("no_deps", cuGraphAddMemsetNode(&out, g, NULL, 1, &m, current()), CUDA_ERROR_INVALID_VALUE, &out);
    edges_and_end(g, n);
    OK("get", cuGraphMemsetNodeGetParams(n, &back));
    cf_true("get_right", back.dst == m.dst && back.value == 7 && back.width == 2 && back.height == 3);
    m.value = 8;
    OK("set", cuGraphMemsetNodeSetParams(n, &m));
    /* Other kinds of memory. */
    NEED(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    NEED(cuMemAllocAsync(&pooled, 64, s));
    m = (CUDA_MEMSET_NODE_PARAMS){.dst = managed, .value = 9, .elementSize = 1, .width = 64, .height = 1};
    OK("managed", cuGraphAddMemsetNode(&out, g, &n, 1, &m, current()));
    m.dst = pooled;
    OK("pooled", cuGraphAddMemsetNode(&out, g, &n, 1, &m, current()));
    OK("end", cuGraphDestroyNode(out));
    cf_u64("count", nodes_of(g), 2);
    OK("run", run(g, s, 2));
    NEED(cuMemcpyDtoH(word, p, sizeof(word)));
    for (unsigned i = 0; i < N; i++)
        ok &= word[i] == (i >= 4 && i < 52 && (i - 4) % 16 < 2 ? 8 : 0);
    cf_true("right", ok);
    cf_u64("managed_right", *(uint8_t *)managed, 9);
    NEED(cuGraphDestroy(g));
    NEED(cuMemFreeAsync(pooled, s));
    NEED(cuStreamSynchronize(s));
    NEED(cuMemFree(managed));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

static CUDA_MEMCPY3D rows(CUmemorytype to, const void *dst, CUmemorytype from, const void *src)
{
    CUDA_MEMCPY3D c = copy(to, (CUdeviceptr)dst, from, (CUdeviceptr)src, 8);

    c.srcPitch = c.dstPitch = 64;
    c.Height = 3;
    return c;
}

#define DEVICE CU_MEMORYTYPE_DEVICE
#define HOST CU_MEMORYTYPE_HOST

CASE(gnode_copy, CF_CTX)
{
    static uint32_t in[N], out[N];
    CUstream s = new_stream();
    CUdeviceptr p = words(N), q = words(N);
    uint32_t *pinned = NULL;
    CUDA_MEMCPY3D c = rows(DEVICE, (void *)q, DEVICE, (void *)p), bad = c, back;
    CUgraphNode n[8], none = UNTOUCHED;
    CUgraphNode implied = NULL;
    CUgraph g = NULL;
    bool ok = true;

    memset(n, 0xEE, sizeof(n));
    NEED(cuMemHostAlloc((void **)&pinned, N * 4, 0));
    for (unsigned i = 0; i < N; i++) {
        in[i] = 100 + i;
        out[i] = pinned[i] = 0;
    }
    NEED(cuGraphCreate(&g, 0));
    refused("null", cuGraphAddMemcpyNode(&none, g, NULL, 0, NULL, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    OK("no_context", cuGraphAddMemcpyNode(&implied, g, NULL, 0, &c, NULL)); /* the current one */
    OK("no_context_end", cuGraphDestroyNode(implied));
    bad.dstDevice = q + N * 4 - 130;
    refused("behind", cuGraphAddMemcpyNode(&none, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    bad = c;
    bad.srcPitch = 4;
    refused("pitch", cuGraphAddMemcpyNode(&none, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    bad = c;
    bad.WidthInBytes = 0;
    refused("width", cuGraphAddMemcpyNode(&none, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    bad = c;
    bad.Depth = (size_t)1 << 60;
    refused("wraps", cuGraphAddMemcpyNode(&none, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    bad = c;
    bad.srcDevice = 0;
    refused("nowhere", cuGraphAddMemcpyNode(&none, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    bad = c;
    bad.srcMemoryType = 77;
    refused("type", cuGraphAddMemcpyNode(&none, g, NULL, 0, &bad, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    cf_u64("none", nodes_of(g), 0);
    /* in -> p -> q -> pinned -> p + 32 -> out + 8, and from host to host. */
    CUDA_MEMCPY3D way[] = {rows(DEVICE, (void *)p, HOST, in),
                           c,
                           rows(HOST, pinned, DEVICE, (void *)q),
                           rows(DEVICE, (void *)(p + 32), HOST, pinned),
                           rows(HOST, out + 8, DEVICE, (void *)(p + 32)),
                           rows(HOST, out, HOST, pinned)};
    for (unsigned i = 0; i < 6; i++)
        ok &=
            cuGraphAddMemcpyNode(&n[i], g, i ? &n[i - 1] : NULL, i != 0, &way[i], current()) == CUDA_SUCCESS;
    cf_true("added", ok);
    refused("no_deps", cuGraphAddMemcpyNode(&none, g, NULL, 1, &c, current()), CUDA_ERROR_INVALID_VALUE,
            &none);
    edges_and_end(g, n[0]); /* consists of two parts in a guest */
    edges_and_end(g, n[1]);
    OK("get", cuGraphMemcpyNodeGetParams(n[0], &back));
    cf_true("get_right",
            back.srcHost == in && back.dstDevice == p && back.WidthInBytes == 8 && back.Height == 3);
    OK("get_pinned", cuGraphMemcpyNodeGetParams(n[2], &back));
    cf_true("get_pinned_right", back.dstHost == pinned && back.srcDevice == q);
    OK("extra", cuGraphAddMemcpyNode(&n[6], g, &n[0], 1, &way[0], current()));
    OK("end", cuGraphDestroyNode(n[6]));
    OK("run", run(g, s, 2));
    ok = true;
    for (unsigned i = 0; i < N; i++) {
        const unsigned row = i / 16, x = i % 16;

        ok &= out[i] == (row < 3 && x < 2 ? in[i] : row < 3 && x >= 8 && x < 10 ? in[i - 8] : 0);
    }
    cf_true("right", ok);
    NEED(cuGraphDestroy(g));
    NEED(cuMemFreeHost(pinned));
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
    NEED(cuStreamDestroy(s));
}

CASE(gnode_event, CF_CTX)
{
    CUstream s = new_stream();
    CUevent e = NULL, timed = NULL, back = NULL;
    CUgraphNode record = UNTOUCHED, wait = UNTOUCHED, out = UNTOUCHED;
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};
    CUgraph g = NULL;

    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&timed, 0));
    NEED(cuGraphCreate(&g, 0));
    refused("record_null", cuGraphAddEventRecordNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE, &out);
    refused("wait_null", cuGraphAddEventWaitNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE, &out);
    refused("record_no_graph", cuGraphAddEventRecordNode(&out, NULL, NULL, 0, e), CUDA_ERROR_INVALID_VALUE,
            &out);
    refused("wait_no_deps", cuGraphAddEventWaitNode(&out, g, NULL, 1, e), CUDA_ERROR_INVALID_VALUE, &out);
    cf_u64("none", nodes_of(g), 0);
    OK("record", cuGraphAddEventRecordNode(&record, g, NULL, 0, e));
    OK("wait", cuGraphAddEventWaitNode(&wait, g, &record, 1, e));
    edges_and_end(g, record);
    edges_and_end(g, wait);
    OK("get", cuGraphEventWaitNodeGetEvent(wait, &back));
    cf_true("get_right", back == e);
    OK("set", cuGraphEventRecordNodeSetEvent(record, timed));
    any.eventWait.event = timed;
    OK("any", cuGraphAddNode(&out, g, &wait, NULL, 1, &any));
    OK("end", cuGraphDestroyNode(out));
    cf_u64("count", nodes_of(g), 2);
    OK("run", run(g, s, 2));
    OK("sync", cuEventSynchronize(timed));
    OK("query", cuEventQuery(timed));
    NEED(cuGraphDestroy(g));
    NEED(cuEventDestroy(timed));
    NEED(cuEventDestroy(e));
    NEED(cuStreamDestroy(s));
}

/* An object named by a graph may end before instantiation: the driver keeps it. */
CASE(gnode_event_gone, CF_CTX | CF_UB)
{
    CUstream s = new_stream();
    CUevent e = NULL, shared = NULL;
    CUgraphNode record = UNTOUCHED, out = UNTOUCHED;
    CUgraph g = NULL;

    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    NEED(cuGraphCreate(&g, 0));
    refused("shared", cuGraphAddEventRecordNode(&out, g, NULL, 0, shared), CUDA_ERROR_NOT_SUPPORTED, &out);
    OK("record", cuGraphAddEventRecordNode(&record, g, NULL, 0, e));
    NEED(cuEventDestroy(e));
    refused("gone", cuGraphAddEventWaitNode(&out, g, &record, 1, e), CUDA_ERROR_INVALID_HANDLE, &out);
    OK("run", run(g, s, 1));
    NEED(cuGraphDestroy(g));
    NEED(cuEventDestroy(shared));
    NEED(cuStreamDestroy(s));
}

static void CUDA_CB note_call(void *p)
{
    __atomic_add_fetch((int *)p, 1, __ATOMIC_SEQ_CST);
}

CASE(gnode_host, CF_CTX)
{
    CUstream s = new_stream();
    int first = 0, second = 0, dropped = 0;
    CUDA_HOST_NODE_PARAMS h = {note_call, &first}, none = {NULL, &first}, back;
    CUgraphNode n[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED}, out = UNTOUCHED;
    CUgraph g = NULL, clone = NULL;

    NEED(cuGraphCreate(&g, 0));
    refused("null", cuGraphAddHostNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_function", cuGraphAddHostNode(&out, g, NULL, 0, &none), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_graph", cuGraphAddHostNode(&out, NULL, NULL, 0, &h), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_deps", cuGraphAddHostNode(&out, g, NULL, 1, &h), CUDA_ERROR_INVALID_VALUE, &out);
    cf_u64("none", nodes_of(g), 0);
    OK("add", cuGraphAddHostNode(&n[0], g, NULL, 0, &h));
    h.userData = &dropped;
    OK("add_2", cuGraphAddHostNode(&n[1], g, &n[0], 1, &h));
    h.userData = &second;
    OK("add_3", cuGraphAddHostNode(&n[2], g, &n[1], 1, &h));
    edges_and_end(g, n[2]);
    OK("end", cuGraphDestroyNode(n[1]));
    OK("get", cuGraphHostNodeGetParams(n[0], &back));
    cf_true("get_right", back.fn == note_call && back.userData == &first);
    OK("clone", cuGraphClone(&clone, g));
    OK("run", run(g, s, 2));
    OK("destroy", cuGraphDestroy(g));
    OK("run_clone", run(clone, s, 1));
    cf_u64("first", (uint64_t)__atomic_load_n(&first, __ATOMIC_SEQ_CST), 3);
    cf_u64("second", (uint64_t)__atomic_load_n(&second, __ATOMIC_SEQ_CST), 3);
    cf_u64("dropped", (uint64_t)__atomic_load_n(&dropped, __ATOMIC_SEQ_CST), 0);
    NEED(cuGraphDestroy(clone));
    NEED(cuStreamDestroy(s));
}

/*
 * A capture adds nodes to a graph built call by call: memory nodes, which forbid that nodes are
 * destroyed.
 */
CASE(gnode_captured, CF_CTX)
{
    CUstream s = new_stream();
    CUgraphNode first = UNTOUCHED, other = UNTOUCHED;
    CUdeviceptr p = 0;
    CUgraph g = NULL, same = NULL;

    NEED(cuGraphCreate(&g, 0));
    OK("first", cuGraphAddEmptyNode(&first, g, NULL, 0));
    OK("begin", cuStreamBeginCaptureToGraph(s, g, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("alloc", cuMemAllocAsync(&p, 64, s));
    OK("free", cuMemFreeAsync(p, s));
    OK("end", cuStreamEndCapture(s, &same));
    cf_true("same", same == g);
    OK("other", cuGraphAddEmptyNode(&other, g, NULL, 0));
    RC("destroy", cuGraphDestroyNode(other), CUDA_ERROR_NOT_SUPPORTED);
    cf_u64("nodes", nodes_of(g), 4);
    OK("run", run(g, s, 1));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamDestroy(s));
}

CASE(gnode_child, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N);
    static uint32_t in[N];
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 5, .elementSize = 4, .width = 2, .height = 1};
    CUDA_MEMCPY3D c = copy(DEVICE, p + 16, HOST, (CUdeviceptr)in, 8);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraphNode a = UNTOUCHED, b = UNTOUCHED, n[3] = {UNTOUCHED, UNTOUCHED, UNTOUCHED}, out = UNTOUCHED;
    CUgraph g = NULL, child = NULL, inner = NULL, bad = NULL;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                        .bytesize = 64};
    uint32_t word[6] = {0};

    in[0] = 6;
    in[1] = 7;
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&child, 0));
    refused("null", cuGraphAddChildGraphNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_graph", cuGraphAddChildGraphNode(&out, NULL, NULL, 0, child), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_deps", cuGraphAddChildGraphNode(&out, g, NULL, 1, child), CUDA_ERROR_INVALID_VALUE, &out);
    cf_u64("none", nodes_of(g), 0);
    NEED(cuGraphAddMemsetNode(&a, child, NULL, 0, &m, current()));
    OK("add", cuGraphAddChildGraphNode(&n[0], g, NULL, 0, child));
    /* Later changes of the child are not in the copy. */
    NEED(cuGraphAddMemcpyNode(&b, child, &a, 1, &c, current()));
    OK("add_2", cuGraphAddChildGraphNode(&n[1], g, &n[0], 1, child));
    OK("remove", cuGraphDestroyNode(b));
    NEED(cuGraphDestroy(child));
    edges_and_end(g, n[0]);
    OK("get", cuGraphChildGraphNodeGetGraph(n[0], &inner));
    cf_u64("get_nodes", nodes_of(inner), 1);
    OK("get_2", cuGraphChildGraphNodeGetGraph(n[1], &inner));
    cf_u64("get_2_nodes", nodes_of(inner), 2);
    OK("run", run(g, s, 1));
    NEED(cuMemcpyDtoH(word, p, sizeof(word)));
    cf_true("right", word[0] == 5 && word[1] == 5 && word[4] == 6 && word[5] == 7);
    /* Children of children, and a child added as a node of any type. */
    NEED(cuGraphCreate(&child, 0));
    OK("deeper", cuGraphAddChildGraphNode(&out, child, NULL, 0, g));
    out = UNTOUCHED;
    any.graph.graph = g;
    any.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    OK("any", cuGraphAddNode(&n[2], child, NULL, NULL, 0, &any));
    cf_true("any_copy", any.graph.graph == g); /* queries its copy */
    cf_u64("any_nodes", nodes_of(any.graph.graph), 2);
    OK("any_end", cuGraphDestroyNode(n[2]));
    OK("run_deeper", run(child, s, 2));
    /* Copies of memory nodes and conditional nodes are refused at once. */
    CUgraphConditionalHandle handle;
    NEED(cuGraphCreate(&bad, 0));
    NEED(cuGraphAddMemAllocNode(&n[2], bad, NULL, 0, &alloc));
    refused("memory", cuGraphAddChildGraphNode(&out, g, NULL, 0, bad), CUDA_ERROR_NOT_SUPPORTED, &out);
    NEED(cuGraphDestroy(bad));
    NEED(cuGraphCreate(&bad, 0));
    NEED(cuGraphConditionalHandleCreate(&handle, bad, current(), 0, 0));
    refused("condition", cuGraphAddChildGraphNode(&out, g, NULL, 0, bad), CUDA_ERROR_NOT_SUPPORTED, &out);
    NEED(cuGraphDestroy(bad));
    cf_u64("count", nodes_of(g), 2);
    NEED(cuGraphDestroy(child));
    NEED(cuGraphDestroy(g));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

/* What an executable graph's memset may change (cuda.h, cuGraphExecMemsetNodeSetParams). */
CASE(gnode_memset_rows, CF_CTX)
{
    CUdeviceptr p = words(N);
    CUDA_MEMSET_NODE_PARAMS row = {.dst = p, .elementSize = 4, .value = 1, .width = 8, .height = 1};
    CUDA_MEMSET_NODE_PARAMS rows = {
        .dst = p, .pitch = 64, .elementSize = 4, .value = 2, .width = 8, .height = 2};
    CUDA_MEMSET_NODE_PARAMS to;
    CUgraphExecUpdateResultInfo info;
    CUgraphNode one = NULL, two = NULL;
    CUstream s = new_stream();
    CUgraphExec x = NULL;
    CUgraph g = NULL;
    uint32_t word[20] = {0};

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddMemsetNode(&one, g, NULL, 0, &row, current()));
    NEED(cuGraphAddMemsetNode(&two, g, &one, 1, &rows, current()));
    NEED(cuGraphInstantiate(&x, g, 0));
    to = rows;
    RC("row_height", cuGraphExecMemsetNodeSetParams(x, one, &to, current()), CUDA_ERROR_INVALID_VALUE);
    to = row;
    RC("rows_height", cuGraphExecMemsetNodeSetParams(x, two, &to, current()), CUDA_ERROR_INVALID_VALUE);
    to = rows;
    to.width = 4;
    RC("rows_width", cuGraphExecMemsetNodeSetParams(x, two, &to, current()), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphMemsetNodeSetParams(two, &to));
    RC("update_width", cuGraphExecUpdate(x, g, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    cf_u64("update_width_why", info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    to = rows;
    to.pitch = 128;
    RC("rows_pitch", cuGraphExecMemsetNodeSetParams(x, two, &to, current()), CUDA_ERROR_INVALID_VALUE);
    to = rows;
    to.elementSize = 1;
    to.width = 32;
    RC("rows_element", cuGraphExecMemsetNodeSetParams(x, two, &to, current()), CUDA_ERROR_INVALID_VALUE);
    to = rows;
    to.height = 3;
    RC("rows_more", cuGraphExecMemsetNodeSetParams(x, two, &to, current()), CUDA_ERROR_INVALID_VALUE);
    to = rows;
    to.value = 3;
    to.dst = p + 4;
    OK("rows_value", cuGraphExecMemsetNodeSetParams(x, two, &to, current()));
    to = row;
    to.value = 5;
    OK("row_value", cuGraphExecMemsetNodeSetParams(x, one, &to, current()));
    OK("launch", cuGraphLaunch(x, s));
    NEED(cuStreamSynchronize(s));
    NEED(cuMemcpyDtoH(word, p, sizeof(word)));
    cf_true("right", word[0] == 5 && word[1] == 3 && word[8] == 3 && word[9] == 0 && word[17] == 3);
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamDestroy(s));
    NEED(cuMemFree(p));
}
