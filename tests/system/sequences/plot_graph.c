/* SPDX-License-Identifier: MIT */
/*
 * Plots about graphs: updates, ends during a run, conditions, captures, user objects, memory nodes.
 */
#include "plot.h"

#include <string.h>

static CUdeviceptr cast_argument;
static void *cast_arguments[] = {&cast_argument};
#define CAST_NODE seq_cast.node[seq_random(SEQ_CAST)][seq_random(seq_cast.nodes)]

static CUDA_KERNEL_NODE_PARAMS cast_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS p = seq_graph_kernel();

    cast_argument = seq.memory[0];
    p.func = seq_cast.function;
    p.kernelParams = cast_arguments;
    return p;
}

static CUDA_MEMCPY3D cast_copy(unsigned sides)
{
    CUDA_MEMCPY3D p = seq_graph_copy(sides);

    p.srcDevice = p.dstDevice = seq_cast.memory;
    return p;
}

static CUDA_MEMSET_NODE_PARAMS cast_fill(void)
{
    CUDA_MEMSET_NODE_PARAMS p = seq_graph_fill();

    p.dst = seq_cast.memory;
    return p;
}

static CUresult cast_add(CUgraphNode *n, CUgraph g, const CUgraphNode *deps, size_t k, int type,
                         unsigned sides)
{
    CUDA_HOST_NODE_PARAMS host = {seq_host_function, NULL};
    CUDA_KERNEL_NODE_PARAMS kernel = cast_kernel();
    CUDA_MEMSET_NODE_PARAMS fill = cast_fill();
    CUDA_MEMCPY3D copy = cast_copy(sides);

    switch (type) {
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphAddHostNode(n, g, deps, k, &host);
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphAddKernelNode_v2(n, g, deps, k, &kernel);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphAddMemsetNode(n, g, deps, k, &fill, seq_cast.context);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphAddMemcpyNode(n, g, deps, k, &copy, seq_cast.context);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphAddEventRecordNode(n, g, deps, k, CAST_ANY(event));
    default:
        return cuGraphAddEmptyNode(n, g, deps, k);
    }
}

static int cast_type(void)
{
    static const int types[] = {CU_GRAPH_NODE_TYPE_HOST,   CU_GRAPH_NODE_TYPE_HOST,
                                CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY,
                                CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_KERNEL,
                                CU_GRAPH_NODE_TYPE_EMPTY,  CU_GRAPH_NODE_TYPE_EVENT_RECORD};

    return types[seq_random(sizeof(types) / sizeof(types[0]))];
}

/* ---- acts of several plots ---- */

CUresult seq_act_instantiate(void)
{
    const unsigned j = seq_random(SEQ_CAST);
    CUresult r = cuGraphInstantiateWithFlags(&seq_cast.exec[j], CAST_ANY(graph),
                                             seq_random(8) ? 0 : 1u << seq_random(4));

    if (r == CUDA_SUCCESS && seq_random(2))
        SEQ_PUT(exec, seq_cast.exec[j]);
    return r;
}

CUresult seq_act_launch_graph(void)
{
    return cuGraphLaunch(CAST_ANY(exec), CAST_ANY(stream));
}

CUresult seq_act_destroy_graph(void)
{
    return cuGraphDestroy(CAST_ANY(graph));
}

CUresult seq_act_destroy_exec(void)
{
    return cuGraphExecDestroy(CAST_ANY(exec));
}

static CUresult clone_graph(void)
{
    return cuGraphClone(CAST_SLOT(graph), CAST_ANY(graph));
}

/* Adds one to three nodes in sequence, mostly the same in each of the graphs. */
static CUresult make_alike(void)
{
    const unsigned n = 1 + seq_random(SEQ_CAST_NODES), sides = seq_random(6);
    CUresult r = CUDA_SUCCESS;

    seq_cast.nodes = n;
    for (unsigned k = 0; k < n; k++)
        seq_cast.type[k] = cast_type();
    for (unsigned i = 0; r == CUDA_SUCCESS && i < SEQ_CAST; i++) {
        r = cuGraphCreate(&seq_cast.graph[i], 0);
        for (unsigned k = 0; r == CUDA_SUCCESS && k < n; k++)
            r = cast_add(&seq_cast.node[i][k], seq_cast.graph[i], k ? &seq_cast.node[i][k - 1] : NULL, k != 0,
                         seq_random(16) ? seq_cast.type[k] : cast_type(), sides);
        if (seq_random(2))
            SEQ_PUT(graph, seq_cast.graph[i]);
    }
    return r;
}

static CUresult update(void)
{
    CUgraphExecUpdateResultInfo info;

    return cuGraphExecUpdate_v2(CAST_ANY(exec), CAST_ANY(graph), &info);
}

static CUresult enable(void)
{
    return cuGraphNodeSetEnabled(CAST_ANY(exec), CAST_NODE, seq_random(4) != 0);
}

/* Sets parameters of a node in an executable graph, or in its source graph. */
static CUresult set_node(void)
{
    const unsigned k = seq_random(seq_cast.nodes), in_exec = seq_random(4);
    CUDA_HOST_NODE_PARAMS host = {seq_host_function, seq_random(2) ? &cast_argument : NULL};
    CUDA_KERNEL_NODE_PARAMS kernel = cast_kernel();
    CUDA_MEMSET_NODE_PARAMS fill = cast_fill();
    CUDA_MEMCPY3D copy = cast_copy(seq_random(6));
    CUgraphNode n = seq_cast.node[seq_random(SEQ_CAST)][k];
    CUgraphExec x = CAST_ANY(exec);

    switch (seq_cast.type[k]) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return in_exec ? cuGraphExecKernelNodeSetParams_v2(x, n, &kernel)
                       : cuGraphKernelNodeSetParams_v2(n, &kernel);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return in_exec ? cuGraphExecMemsetNodeSetParams(x, n, &fill, seq_cast.context)
                       : cuGraphMemsetNodeSetParams(n, &fill);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return in_exec ? cuGraphExecMemcpyNodeSetParams(x, n, &copy, seq_cast.context)
                       : cuGraphMemcpyNodeSetParams(n, &copy);
    default:
        return in_exec ? cuGraphExecHostNodeSetParams(x, n, &host) : cuGraphHostNodeSetParams(n, &host);
    }
}

static CUresult destroy_node(void)
{
    return cuGraphDestroyNode(CAST_NODE);
}

static const struct seq_act of_updates[] = {
    {"plot update: graphs", make_alike},
    {"plot update: instantiate", seq_act_instantiate},
    {"plot update: instantiate 2", seq_act_instantiate},
    {"plot update: update", update},
    {"plot update: enable", enable},
    {"plot update: set", set_node},
    {"plot update: launch", seq_act_launch_graph},
    {"plot update: destroy a graph", seq_act_destroy_graph},
    {"plot update: launch 2", seq_act_launch_graph},
    {"plot update: update 2", update},
    {"plot update: enable 2", enable},
    {"plot update: destroy a graph 2", seq_act_destroy_graph},
    {"plot update: launch 3", seq_act_launch_graph},
    {"plot update: destroy an executable", seq_act_destroy_exec},
    {"plot update: launch 4", seq_act_launch_graph},
};

/* While a host function runs, another object ends, or faults. */
static const struct seq_act of_ends[] = {
    {"plot end: graphs", make_alike},
    {"plot end: instantiate", seq_act_instantiate},
    {"plot end: set", set_node},
    {"plot end: set 2", set_node},
    {"plot end: hold", seq_act_hold},
    {"plot end: launch", seq_act_launch_graph},
    {"plot end: launch 2", seq_act_launch_graph},
    {"plot end: fault", seq_act_fault},
    {"plot end: synchronize", seq_act_synchronize},
    {"plot end: set 3", set_node},
    {"plot end: destroy a graph", seq_act_destroy_graph},
    {"plot end: destroy an executable", seq_act_destroy_exec},
    {"plot end: destroy the context", seq_act_destroy_context},
    {"plot end: release", seq_act_release},
    {"plot end: synchronize 2", seq_act_synchronize},
    {"plot end: destroy an executable 2", seq_act_destroy_exec},
};

/* ---- conditions, child graphs ---- */

/* Creates an empty graph, mostly containing another. */
static CUresult make_nested(void)
{
    const unsigned i = seq_random(SEQ_CAST);
    CUgraph inner = NULL;
    CUresult r = cuGraphCreate(&seq_cast.graph[i], 0);

    if (r == CUDA_SUCCESS && seq_random(4) && cuGraphCreate(&inner, 0) == CUDA_SUCCESS) {
        r = cuGraphAddChildGraphNode(&seq_cast.node[i][0], seq_cast.graph[i], NULL, 0, inner);
        if (r == CUDA_SUCCESS)
            r = cuGraphChildGraphNodeGetGraph(seq_cast.node[i][0], &seq_cast.sub[i]);
        cuGraphDestroy(inner);
    }
    if (r == CUDA_SUCCESS && seq_random(2))
        SEQ_PUT(graph, seq_cast.graph[i]);
    return r;
}

static CUgraph cast_any_level(void)
{
    const unsigned i = seq_random(SEQ_CAST);

    return seq_random(2) && seq_cast.sub[i] ? seq_cast.sub[i] : seq_cast.graph[i];
}

static CUresult make_condition(void)
{
    return cuGraphConditionalHandleCreate(CAST_SLOT(condition), cast_any_level(), seq_cast.context,
                                          seq_random(2), seq_random(4) != 0);
}

static CUresult add_conditional(void)
{
    const unsigned i = seq_random(SEQ_CAST), sides = seq_random(6);
    CUgraphNode inside;
    CUgraphNodeParams p;
    CUresult r;

    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = CAST_ANY(condition);
    p.conditional.type = seq_random(4) ? CU_GRAPH_COND_TYPE_IF : CU_GRAPH_COND_TYPE_SWITCH;
    p.conditional.size = 1 + seq_random(2);
    p.conditional.ctx = seq_cast.context;
    r = cuGraphAddNode_v2(&seq_cast.node[i][1], cast_any_level(), NULL, NULL, 0, &p);
    if (r == CUDA_SUCCESS && seq_random(2))
        cast_add(&inside, p.conditional.phGraph_out[0], NULL, 0, cast_type(), sides);
    return r;
}

static CUresult add_setter(void)
{
    CUDA_KERNEL_NODE_PARAMS p = cast_kernel();
    CUgraphConditionalHandle h = CAST_ANY(condition);
    void *arguments[] = {&h};

    if (!seq_setter)
        return CUDA_ERROR_NOT_FOUND;
    p.func = seq_setter;
    p.kernelParams = arguments;
    return cuGraphAddKernelNode_v2(&seq_cast.node[0][2], cast_any_level(), NULL, 0, &p);
}

static CUresult add_child(void)
{
    return cuGraphAddChildGraphNode(&seq_cast.node[0][0], CAST_ANY(graph), NULL, 0, CAST_ANY(graph));
}

static const struct seq_act of_conditions[] = {
    {"plot condition: graph", make_nested},
    {"plot condition: graph 2", make_nested},
    {"plot condition: number", make_condition},
    {"plot condition: number 2", make_condition},
    {"plot condition: node", add_conditional},
    {"plot condition: node 2", add_conditional},
    {"plot condition: kernel sets", add_setter},
    {"plot condition: instantiate", seq_act_instantiate},
    {"plot condition: instantiate 2", seq_act_instantiate},
    {"plot condition: update", update},
    {"plot condition: destroy a node", destroy_node},
    {"plot condition: destroy a graph", seq_act_destroy_graph},
    {"plot condition: destroy a graph 2", seq_act_destroy_graph},
    {"plot condition: launch", seq_act_launch_graph},
    {"plot condition: launch 2", seq_act_launch_graph},
    {"plot condition: synchronize", seq_act_synchronize},
};

/* ---- captures ---- */

static CUresult begin_capture(void)
{
    if (seq_random(4) == 0 && cuGraphCreate(CAST_SLOT(graph), 0) == CUDA_SUCCESS)
        return cuStreamBeginCaptureToGraph(CAST_ANY(stream), CAST_ANY(graph), NULL, NULL, 0,
                                           CU_STREAM_CAPTURE_MODE_RELAXED);
    return cuStreamBeginCapture_v2(CAST_ANY(stream), CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult captured_call(void)
{
    CUstream s = CAST_ANY(stream);

    switch (seq_random(4)) {
    case 0:
        return cuLaunchHostFunc(s, seq_host_function, NULL);
    case 1:
        return cuMemcpyDtoDAsync_v2(seq_cast.memory, seq_cast.memory + 512, 64, s);
    case 2:
        return cuLaunchKernel(seq_cast.function, 1, 1, 1, 32, 1, 1, 0, s, cast_arguments, NULL);
    default:
        return cuMemsetD8Async(seq_cast.memory, 1, 64, s);
    }
}

/* Returns the graph and the dependencies of the next captured call. */
static CUresult capture_info(void)
{
    const unsigned i = seq_random(SEQ_CAST);
    CUstreamCaptureStatus status;
    const CUgraphNode *front;
    cuuint64_t id;
    CUgraph g = NULL;
    size_t n = 0;
    CUresult r = cuStreamGetCaptureInfo_v2(CAST_ANY(stream), &status, &id, &g, &front, &n);

    if (r == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        seq_cast.sub[i] = g;
        for (size_t k = 0; k < n && k < SEQ_CAST_NODES; k++)
            seq_cast.node[i][k] = front[k];
    }
    return r;
}

/* Usually refused. */
static CUresult destroy_captured(void)
{
    CUresult r = destroy_node();

    return r == CUDA_ERROR_NOT_PERMITTED ? CUDA_SUCCESS : r;
}

static CUresult set_front(void)
{
    return cuStreamUpdateCaptureDependencies_v2(CAST_ANY(stream), seq_cast.node[seq_random(SEQ_CAST)], NULL,
                                                seq_random(3), seq_random(2));
}

static CUresult add_behind(void)
{
    CUgraphNode n;

    return cast_add(&n, CAST_ANY(sub), seq_cast.node[seq_random(SEQ_CAST)], seq_random(3), cast_type(), 0);
}

static CUresult fork_join(void)
{
    const unsigned e = seq_random(SEQ_CAST), s = seq_random(SEQ_CAST);

    cuEventRecord(seq_cast.event[e], seq_cast.stream[s]);
    return cuStreamWaitEvent(seq_cast.stream[!s], seq_cast.event[e], 0);
}

static CUresult end_capture(void)
{
    return cuStreamEndCapture(CAST_ANY(stream), CAST_SLOT(graph));
}

static const struct seq_act of_captures[] = {
    {"plot capture: begin", begin_capture},
    {"plot capture: call", captured_call},
    {"plot capture: fork", fork_join},
    {"plot capture: call 2", captured_call},
    {"plot capture: front", capture_info},
    {"plot capture: node behind it", add_behind},
    {"plot capture: set the front", set_front},
    {"plot capture: destroy a node", destroy_captured},
    {"plot capture: call 3", captured_call},
    {"plot capture: destroy a graph", seq_act_destroy_graph},
    {"plot capture: join", fork_join},
    {"plot capture: end", end_capture},
    {"plot capture: end 2", end_capture},
    {"plot capture: destroy a node 2", destroy_node},
    {"plot capture: clone", clone_graph},
    {"plot capture: instantiate", seq_act_instantiate},
    {"plot capture: launch", seq_act_launch_graph},
    {"plot capture: synchronize", seq_act_synchronize},
};

/* ---- user objects, memory nodes ---- */

static CUresult make_user(void)
{
    return cuUserObjectCreate(CAST_SLOT(user), &cast_argument, seq_host_function, 1 + seq_random(2),
                              CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
}
static CUresult retain_user(void)
{
    return cuGraphRetainUserObject(CAST_ANY(graph), CAST_ANY(user), 1, seq_random(2));
}
static CUresult release_user(void)
{
    return seq_random(2) ? cuUserObjectRelease(CAST_ANY(user), 1)
                         : cuGraphReleaseUserObject(CAST_ANY(graph), CAST_ANY(user), 1);
}

static CUresult add_alloc(void)
{
    const unsigned i = seq_random(SEQ_CAST);
    CUDA_MEM_ALLOC_NODE_PARAMS p;
    CUresult r;

    memset(&p, 0, sizeof(p));
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.bytesize = SEQ_BYTES;
    r = cuGraphAddMemAllocNode(&seq_cast.node[i][0], seq_cast.graph[i], NULL, 0, &p);
    if (r == CUDA_SUCCESS)
        seq_cast.allocated[i] = p.dptr;
    return r;
}
static CUresult add_free(void)
{
    const unsigned i = seq_random(SEQ_CAST);

    return cuGraphAddMemFreeNode(&seq_cast.node[i][1], seq_cast.graph[i], &seq_cast.node[i][0], 1,
                                 CAST_ANY(allocated));
}
static CUresult free_allocated(void)
{
    return seq_random(2) ? cuMemFree_v2(CAST_ANY(allocated))
                         : cuMemFreeAsync(CAST_ANY(allocated), CAST_ANY(stream));
}
static CUresult trim(void)
{
    return cuDeviceGraphMemTrim(0);
}

static const struct seq_act of_users[] = {
    {"plot user: graph", make_nested},
    {"plot user: graph 2", make_nested},
    {"plot user: object", make_user},
    {"plot user: retain", retain_user},
    {"plot user: retain 2", retain_user},
    {"plot user: child", add_child},
    {"plot user: clone", clone_graph},
    {"plot user: instantiate", seq_act_instantiate},
    {"plot user: release", release_user},
    {"plot user: destroy a graph", seq_act_destroy_graph},
    {"plot user: launch", seq_act_launch_graph},
    {"plot user: release 2", release_user},
    {"plot user: update", update},
    {"plot user: destroy an executable", seq_act_destroy_exec},
};

static const struct seq_act of_memory_nodes[] = {
    {"plot memory node: graphs", make_nested},
    {"plot memory node: graph 2", make_nested},
    {"plot memory node: allocate", add_alloc},
    {"plot memory node: free", add_free},
    {"plot memory node: instantiate", seq_act_instantiate},
    {"plot memory node: instantiate 2", seq_act_instantiate},
    {"plot memory node: hold", seq_act_hold},
    {"plot memory node: launch", seq_act_launch_graph},
    {"plot memory node: free outside", free_allocated},
    {"plot memory node: destroy a graph", seq_act_destroy_graph},
    {"plot memory node: launch 2", seq_act_launch_graph},
    {"plot memory node: destroy an executable", seq_act_destroy_exec},
    {"plot memory node: trim", trim},
    {"plot memory node: release", seq_act_release},
};

const struct seq_plot seq_graph_plots[] = {
    SEQ_PLOT("update", false, of_updates),
    SEQ_PLOT("end", true, of_ends),
    SEQ_PLOT("condition", false, of_conditions),
    SEQ_PLOT("capture", false, of_captures),
    SEQ_PLOT("user", false, of_users),
    SEQ_PLOT("memory node", false, of_memory_nodes),
    {NULL, false, 0, NULL},
};
