/* SPDX-License-Identifier: MIT */
/* Graphs: nodes of each type, executable graphs and their updates, conditions, user objects. */
#include "sequences.h"

#include <string.h>

static CUdeviceptr graph_argument;
static void *graph_arguments[] = {&graph_argument};

/* Source of the executable graph in the same slot. */
static CUgraph graph_source[SEQ_SLOTS];

/* Finds a node of TYPE in G, of any type if TYPE is -1; false if there is none. */
static bool graph_has(CUgraph g, int type, CUgraphNode *node)
{
    CUgraphNode list[32];
    size_t n = 32;

    if (cuGraphGetNodes(g, list, &n) != CUDA_SUCCESS || n == 0 || n > 32)
        return false;
    for (size_t i = 0, at = seq_random((unsigned)n); i < n; i++) {
        CUgraphNodeType is;

        *node = list[(at + i) % n];
        if (type < 0 || (cuGraphNodeGetType(*node, &is) == CUDA_SUCCESS && (int)is == type))
            return true;
    }
    return false;
}

CUgraphNode seq_graph_node(CUgraph g, int type)
{
    CUgraphNode node;

    if (seq_random(8) && (graph_has(g, type, &node) || graph_has(g, -1, &node)))
        return node;
    return SEQ_ANY(node);
}

CUgraphExec seq_graph_exec(CUgraphNode *n, int type)
{
    const unsigned first = seq_random(seq_slots);

    /*
     * Few graphs have a node of a rare type, so calls for these would succeed once in hundreds of
     * tries.
     */
    for (unsigned k = 0; k < seq_slots && seq_random(8); k++) {
        const unsigned i = (first + k) % seq_slots;

        if (seq.exec[i] && graph_has(graph_source[i], type, n))
            return seq.exec[i];
    }
    *n = seq_graph_node(graph_source[first], type);
    return seq.exec[first];
}

/* Chooses up to two nodes to depend on. */
static size_t graph_dependencies(CUgraph g, CUgraphNode deps[2])
{
    const size_t n = seq_random(2) ? 0 : seq_random(3);

    for (size_t i = 0; i < n; i++)
        deps[i] = seq_graph_node(g, -1);
    return n;
}

static CUresult graph_keep(CUresult r, CUgraphNode n)
{
    if (r == CUDA_SUCCESS)
        SEQ_PUT(node, n);
    return r;
}

CUDA_KERNEL_NODE_PARAMS seq_graph_kernel(void)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = SEQ_ANY(function),
                                     .gridDimX = 1 + seq_random(2),
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 32,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = graph_arguments};
}

CUDA_MEMCPY3D seq_graph_copy(unsigned sides)
{
    CUDA_MEMCPY3D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = seq_memory(),
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = seq_memory(),
                       .WidthInBytes = 64,
                       .Height = 1,
                       .Depth = 1};

    if (sides == 3 || sides == 5) {
        p.srcMemoryType = CU_MEMORYTYPE_HOST;
        p.srcHost = seq_host;
    }
    if (sides > 3) {
        p.dstMemoryType = CU_MEMORYTYPE_HOST;
        p.dstHost = seq_host + 64;
    }
    return p;
}

CUDA_MEMSET_NODE_PARAMS seq_graph_fill(void)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = seq_memory(), .elementSize = 1, .width = 64, .height = 1, .value = 3};
}

/* The last two graphs with the same nodes: either can update an executable graph of the other. */
static CUgraph graph_alike[2];

static CUgraph graph_any(void)
{
    return graph_alike[0] && seq_random(4) == 0 ? graph_alike[seq_random(2)] : SEQ_ANY(graph);
}

static CUresult create(void)
{
    return cuGraphCreate(SEQ_SLOT(graph), 0);
}
static CUresult destroy(void)
{
    return cuGraphDestroy(graph_any());
}
/* Copies of copies double with each call; the time taken by that is not a finding. */
static unsigned graph_copied;

static bool graph_may_copy(void)
{
    return graph_copied++ < 12;
}

static CUresult clone(void)
{
    return graph_may_copy() ? cuGraphClone(SEQ_SLOT(graph), SEQ_ANY(graph)) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult add_empty(void)
{
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    return graph_keep(cuGraphAddEmptyNode(&n, g, deps, k), n);
}

static CUresult add_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS p = seq_graph_kernel();
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    graph_argument = seq.memory[0];
    return graph_keep(cuGraphAddKernelNode_v2(&n, g, deps, k, &p), n);
}

static CUresult add_host(void)
{
    CUDA_HOST_NODE_PARAMS p = {seq_host_function, NULL};
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    return graph_keep(cuGraphAddHostNode(&n, g, deps, k, &p), n);
}

static CUresult add_fill(void)
{
    CUDA_MEMSET_NODE_PARAMS p = seq_graph_fill();
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    return graph_keep(cuGraphAddMemsetNode(&n, g, deps, k, &p, SEQ_ANY(context)), n);
}

static CUresult add_copy(void)
{
    CUDA_MEMCPY3D p = seq_graph_copy(seq_random(6));
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    return graph_keep(cuGraphAddMemcpyNode(&n, g, deps, k, &p, SEQ_ANY(context)), n);
}

static CUresult add_event(void)
{
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    return graph_keep(seq_random(2) ? cuGraphAddEventRecordNode(&n, g, deps, k, SEQ_ANY(event))
                                    : cuGraphAddEventWaitNode(&n, g, deps, k, SEQ_ANY(event)),
                      n);
}

static CUresult add_child(void)
{
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    if (!graph_may_copy())
        return CUDA_ERROR_NOT_SUPPORTED;
    return graph_keep(cuGraphAddChildGraphNode(&n, g, deps, k, SEQ_ANY(graph)), n);
}

static CUresult add_moved_child(void)
{
    CUgraphNodeParams p;
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = SEQ_ANY(graph);
    p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    return graph_keep(cuGraphAddNode_v2(&n, g, deps, NULL, k, &p), n);
}

/*
 * Creates two graphs of the same nodes in sequence: an executable graph of one can be updated with
 * the other.
 */
static CUresult create_alike(void)
{
    const unsigned n = 1 + seq_random(2), sides = seq_random(6);
    CUDA_HOST_NODE_PARAMS function = {seq_host_function, NULL};
    CUgraph g[2] = {NULL, NULL};
    unsigned type[2];
    CUresult r = CUDA_SUCCESS;

    for (unsigned k = 0; k < n; k++)
        type[k] = seq_random(4);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < 2; i++) {
        CUgraphNode last = NULL;

        r = cuGraphCreate(&g[i], 0);
        for (unsigned k = 0; r == CUDA_SUCCESS && k < n; k++) {
            CUDA_MEMSET_NODE_PARAMS fill = seq_graph_fill();
            CUDA_MEMCPY3D copy = seq_graph_copy(sides);
            CUgraphNode node = NULL;

            if (type[k] == 0)
                r = cuGraphAddHostNode(&node, g[i], &last, k, &function);
            else if (type[k] == 1)
                r = cuGraphAddMemsetNode(&node, g[i], &last, k, &fill, seq_home());
            else
                r = cuGraphAddMemcpyNode(&node, g[i], &last, k, &copy, seq_home());
            last = node;
        }
        if (g[i])
            SEQ_PUT(graph, graph_alike[i] = g[i]);
    }
    return r;
}

/*
 * Parent of the graph in the same slot; graph of the condition in the same slot, and that graph's
 * parent.
 */
static CUgraph graph_above[SEQ_SLOTS], condition_graph[SEQ_SLOTS], condition_above[SEQ_SLOTS];

static CUresult child_of(void)
{
    CUgraph child, g = SEQ_ANY(graph);
    CUresult r = cuGraphChildGraphNodeGetGraph(seq_graph_node(g, CU_GRAPH_NODE_TYPE_GRAPH), &child);

    if (r == CUDA_SUCCESS) {
        const unsigned i = seq_random(seq_slots);

        seq.graph[i] = child;
        graph_above[i] = g;
    }
    return r;
}

static CUresult condition_make(unsigned i, unsigned initial, unsigned flags)
{
    const unsigned of = seq_random(seq_slots);
    CUgraph g = seq.graph[of], above = graph_above[of], child;
    CUresult r;

    if (seq_random(2) &&
        cuGraphChildGraphNodeGetGraph(seq_graph_node(g, CU_GRAPH_NODE_TYPE_GRAPH), &child) == CUDA_SUCCESS) {
        above = g;
        g = child;
    }
    r = cuGraphConditionalHandleCreate(&seq.condition[i], g, SEQ_ANY(context), initial, flags);
    if (r == CUDA_SUCCESS) {
        condition_graph[i] = g;
        condition_above[i] = above;
    }
    return r;
}

static CUresult condition(void)
{
    return condition_make(seq_random(seq_slots), seq_random(2), seq_random(2));
}

/* Returns the graph of a condition, a parent or sibling of it, or any. */
static CUgraph condition_relative(unsigned i)
{
    CUgraph child;

    switch (seq_random(4)) {
    case 0:
        return condition_graph[i];
    case 1:
        return condition_above[i] ?: condition_graph[i];
    case 2:
        if (cuGraphChildGraphNodeGetGraph(seq_graph_node(condition_above[i], CU_GRAPH_NODE_TYPE_GRAPH),
                                          &child) == CUDA_SUCCESS)
            return child;
        return condition_graph[i];
    default:
        return SEQ_ANY(graph);
    }
}

static CUresult add_conditional(void)
{
    const unsigned i = seq_random(seq_slots);
    CUgraphNodeParams p;
    CUgraphNode deps[2], n = NULL;
    CUresult r;

    if (seq_random(2)) /* a handle without a node prevents instantiation */
        condition_make(i, seq_random(2), 1);
    CUgraph g = condition_relative(i);
    size_t k = graph_dependencies(g, deps);

    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = seq.condition[i];
    p.conditional.type = seq_random(4) ? CU_GRAPH_COND_TYPE_IF : CU_GRAPH_COND_TYPE_SWITCH;
    p.conditional.size = 1 + seq_random(2);
    p.conditional.ctx = SEQ_ANY(context);
    r = graph_keep(cuGraphAddNode_v2(&n, g, deps, NULL, k, &p), n);
    if (r == CUDA_SUCCESS && seq_random(4) == 0)
        SEQ_PUT(graph, p.conditional.phGraph_out[0]);
    return r;
}

static CUresult add_alloc(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p;
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);
    CUresult r;

    memset(&p, 0, sizeof(p));
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.bytesize = SEQ_BYTES;
    r = graph_keep(cuGraphAddMemAllocNode(&n, g, deps, k, &p), n);
    if (r == CUDA_SUCCESS)
        SEQ_PUT(memory, p.dptr);
    return r;
}

static CUresult add_free(void)
{
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    return graph_keep(cuGraphAddMemFreeNode(&n, g, deps, k, seq_memory()), n);
}

static CUresult destroy_node(void)
{
    static const int types[] = {-1, -1, CU_GRAPH_NODE_TYPE_GRAPH, CU_GRAPH_NODE_TYPE_CONDITIONAL};

    return cuGraphDestroyNode(seq_graph_node(SEQ_ANY(graph), types[seq_random(4)]));
}
static CUresult add_edge(void)
{
    CUgraph g = SEQ_ANY(graph);
    CUgraphNode from = seq_graph_node(g, -1), to = seq_graph_node(g, -1);

    return cuGraphAddDependencies_v2(g, &from, &to, NULL, 1);
}
static CUresult remove_edge(void)
{
    CUgraphNode from[16], to[16];
    size_t n = 16;
    CUgraph g = SEQ_ANY(graph);
    CUresult r = cuGraphGetEdges_v2(g, from, to, NULL, &n);

    return r == CUDA_SUCCESS && n ? cuGraphRemoveDependencies_v2(g, from, to, NULL, 1)
                                  : CUDA_ERROR_INVALID_VALUE;
}

static CUresult nodes(void)
{
    CUgraphNode list[64];
    size_t n = 64;
    CUgraph g = SEQ_ANY(graph);
    CUresult r = seq_random(2) ? cuGraphGetNodes(g, list, &n) : cuGraphGetRootNodes(g, list, &n);

    for (size_t i = 0; r == CUDA_SUCCESS && i < n && i < 4; i++)
        SEQ_PUT(node, list[i]);
    return r;
}

static CUresult instantiate(void)
{
    static const unsigned long long flags[] = {0, 0, 0, 1, 2, 4, 8};

    const unsigned i = seq_random(seq_slots);
    CUgraph g = graph_any();
    CUresult r = cuGraphInstantiateWithFlags(&seq.exec[i], g, flags[seq_random(7)]);

    if (r == CUDA_SUCCESS)
        graph_source[i] = g;
    return r;
}
static CUresult destroy_exec(void)
{
    return cuGraphExecDestroy(SEQ_ANY(exec));
}
static CUresult launch(void)
{
    return cuGraphLaunch(SEQ_ANY(exec), SEQ_ANY(stream));
}
static CUresult upload(void)
{
    return cuGraphUpload(SEQ_ANY(exec), SEQ_ANY(stream));
}
static CUresult update(void)
{
    CUgraphExecUpdateResultInfo info;

    const unsigned i = seq_random(seq_slots);

    return cuGraphExecUpdate_v2(seq.exec[i], seq_random(2) ? graph_source[i] : graph_any(), &info);
}
static CUresult enable(void)
{
    static const int types[] = {CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMSET,
                                CU_GRAPH_NODE_TYPE_MEMCPY};
    CUgraphNode n;
    CUgraphExec x = seq_graph_exec(&n, types[seq_random(3)]);

    return cuGraphNodeSetEnabled(x, n, seq_random(4) != 0);
}

static CUresult user_create(void)
{
    return cuUserObjectCreate(SEQ_SLOT(user), &graph_argument, seq_host_function, 1 + seq_random(2),
                              CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
}
static CUresult user_retain(void)
{
    return cuGraphRetainUserObject(SEQ_ANY(graph), SEQ_ANY(user), 1, seq_random(2));
}
static CUresult user_release(void)
{
    return seq_random(2) ? cuGraphReleaseUserObject(SEQ_ANY(graph), SEQ_ANY(user), 1)
                         : cuUserObjectRelease(SEQ_ANY(user), 1);
}

/* Adds a kernel that sets a condition, which may be of another graph or destroyed. */
static CUresult add_setter(void)
{
    CUgraphConditionalHandle h = SEQ_ANY(condition);
    void *arguments[] = {&h};
    CUDA_KERNEL_NODE_PARAMS p = seq_graph_kernel();
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    if (!seq_setter)
        return CUDA_ERROR_NOT_FOUND;
    p.func = seq_setter;
    p.kernelParams = arguments;
    return graph_keep(cuGraphAddKernelNode_v2(&n, g, deps, k, &p), n);
}

static CUresult add_batch(void)
{
    CUstreamBatchMemOpParams op = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .value = 1}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.ctx = SEQ_ANY(context), .count = 1, .paramArray = &op};
    CUgraphNode deps[2], n = NULL;
    CUgraph g = SEQ_ANY(graph);
    size_t k = graph_dependencies(g, deps);

    op.writeValue.address = seq_memory();
    return graph_keep(cuGraphAddBatchMemOpNode(&n, g, deps, k, &p), n);
}

static CUresult look(void)
{
    CUgraph g = SEQ_ANY(graph);
    CUgraphNode n = seq_graph_node(g, -1), list[16];
    size_t k = 16;

    switch (seq_random(4)) {
    case 0:
        return cuGraphDebugDotPrint(g, "/dev/null", 1);
    case 1:
        return cuGraphNodeFindInClone(list, n, SEQ_ANY(graph));
    case 2:
        return cuGraphNodeGetDependencies_v2(n, list, NULL, &k);
    default:
        return cuGraphNodeGetDependentNodes_v2(n, list, NULL, &k);
    }
}

static CUresult trim(void)
{
    return cuDeviceGraphMemTrim(0);
}

const struct seq_step seq_graph_steps[] = {
    {"cuGraphCreate", create, 2},
    {"cuGraphCreate (two alike)", create_alike, 2},
    {"cuGraphDestroy", destroy, 1},
    {"cuGraphClone", clone, 1},
    {"cuGraphAddEmptyNode", add_empty, 1},
    {"cuGraphAddKernelNode", add_kernel, 3},
    {"cuGraphAddHostNode", add_host, 2},
    {"cuGraphAddMemsetNode", add_fill, 2},
    {"cuGraphAddMemcpyNode", add_copy, 2},
    {"cuGraphAddEvent...Node", add_event, 2},
    {"cuGraphAddChildGraphNode", add_child, 3},
    {"cuGraphAddNode (moved graph)", add_moved_child, 2},
    {"cuGraphChildGraphNodeGetGraph", child_of, 2},
    {"cuGraphConditionalHandleCreate", condition, 3},
    {"cuGraphAddNode (conditional)", add_conditional, 4},
    {"cuGraphAddMemAllocNode", add_alloc, 1},
    {"cuGraphAddMemFreeNode", add_free, 1},
    {"cuGraphDestroyNode", destroy_node, 2},
    {"cuGraphAddDependencies", add_edge, 1},
    {"cuGraphRemoveDependencies", remove_edge, 1},
    {"cuGraphGetNodes", nodes, 2},
    {"cuGraphInstantiate", instantiate, 5},
    {"cuGraphExecDestroy", destroy_exec, 1},
    {"cuGraphLaunch", launch, 6},
    {"cuGraphUpload", upload, 1},
    {"cuGraphExecUpdate", update, 3},
    {"cuGraphNodeSetEnabled", enable, 2},
    {"cuGraphAddKernelNode (sets)", add_setter, 2},
    {"cuGraphAddBatchMemOpNode", add_batch, 1},
    {"cuGraphDebugDotPrint, FindInClone", look, 1},
    {"cuDeviceGraphMemTrim", trim, 1},
    {"cuUserObjectCreate", user_create, 1},
    {"cuGraphRetainUserObject", user_retain, 2},
    {"cu...UserObject release", user_release, 2},
    {NULL, NULL, 0},
};
