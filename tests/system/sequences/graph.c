/* SPDX-License-Identifier: MIT */
/* Graphs: nodes of each type, executable graphs and their updates, conditions, user objects. */
#include "sequences.h"

#include <string.h>

static CUdeviceptr graph_argument;
static void *graph_arguments[] = {&graph_argument};

/* Up to two nodes to depend on, mostly none. */
static size_t graph_dependencies(CUgraphNode deps[2])
{
    deps[0] = SEQ_ANY(node);
    deps[1] = SEQ_ANY(node);
    return seq_random(3) ? 0 : seq_random(3);
}

static CUresult graph_keep(CUresult r, CUgraphNode n)
{
    if (r == CUDA_SUCCESS)
        SEQ_PUT(node, n);
    return r;
}

static CUDA_KERNEL_NODE_PARAMS graph_kernel(void)
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

static CUDA_MEMCPY3D graph_copy(void)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = SEQ_ANY(memory),
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = SEQ_ANY(memory),
                           .WidthInBytes = 64,
                           .Height = 1,
                           .Depth = 1};
}

static CUDA_MEMSET_NODE_PARAMS graph_fill(void)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = SEQ_ANY(memory), .elementSize = 1, .width = 64, .height = 1, .value = 3};
}

static CUresult create(void)
{
    return cuGraphCreate(SEQ_SLOT(graph), 0);
}
static CUresult destroy(void)
{
    return cuGraphDestroy(SEQ_ANY(graph));
}
static CUresult clone(void)
{
    return cuGraphClone(SEQ_SLOT(graph), SEQ_ANY(graph));
}

static CUresult add_empty(void)
{
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    return graph_keep(cuGraphAddEmptyNode(&n, SEQ_ANY(graph), deps, k), n);
}

static CUresult add_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS p = graph_kernel();
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    graph_argument = seq.memory[0];
    return graph_keep(cuGraphAddKernelNode_v2(&n, SEQ_ANY(graph), deps, k, &p), n);
}

static CUresult add_host(void)
{
    CUDA_HOST_NODE_PARAMS p = {seq_host_function, NULL};
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    return graph_keep(cuGraphAddHostNode(&n, SEQ_ANY(graph), deps, k, &p), n);
}

static CUresult add_fill(void)
{
    CUDA_MEMSET_NODE_PARAMS p = graph_fill();
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    return graph_keep(cuGraphAddMemsetNode(&n, SEQ_ANY(graph), deps, k, &p, SEQ_ANY(context)), n);
}

static CUresult add_copy(void)
{
    CUDA_MEMCPY3D p = graph_copy();
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    return graph_keep(cuGraphAddMemcpyNode(&n, SEQ_ANY(graph), deps, k, &p, SEQ_ANY(context)), n);
}

static CUresult add_event(void)
{
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    return graph_keep(seq_random(2) ? cuGraphAddEventRecordNode(&n, SEQ_ANY(graph), deps, k, SEQ_ANY(event))
                                    : cuGraphAddEventWaitNode(&n, SEQ_ANY(graph), deps, k, SEQ_ANY(event)),
                      n);
}

static CUresult add_child(void)
{
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    return graph_keep(cuGraphAddChildGraphNode(&n, SEQ_ANY(graph), deps, k, SEQ_ANY(graph)), n);
}

static CUresult add_moved_child(void)
{
    CUgraphNodeParams p;
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_GRAPH;
    p.graph.graph = SEQ_ANY(graph);
    p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    return graph_keep(cuGraphAddNode_v2(&n, SEQ_ANY(graph), deps, NULL, k, &p), n);
}

static CUresult child_of(void)
{
    CUgraph child;
    CUresult r = cuGraphChildGraphNodeGetGraph(SEQ_ANY(node), &child);

    if (r == CUDA_SUCCESS)
        SEQ_PUT(graph, child);
    return r;
}

static CUresult condition(void)
{
    return cuGraphConditionalHandleCreate(SEQ_SLOT(condition), SEQ_ANY(graph), SEQ_ANY(context),
                                          seq_random(2), seq_random(2));
}

static CUresult add_conditional(void)
{
    CUgraphNodeParams p;
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);
    CUresult r;

    memset(&p, 0, sizeof(p));
    p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    p.conditional.handle = SEQ_ANY(condition);
    p.conditional.type = CU_GRAPH_COND_TYPE_IF;
    p.conditional.size = 1 + seq_random(2);
    p.conditional.ctx = SEQ_ANY(context);
    r = graph_keep(cuGraphAddNode_v2(&n, SEQ_ANY(graph), deps, NULL, k, &p), n);
    if (r == CUDA_SUCCESS)
        SEQ_PUT(graph, p.conditional.phGraph_out[0]);
    return r;
}

static CUresult add_alloc(void)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p;
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);
    CUresult r;

    memset(&p, 0, sizeof(p));
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.bytesize = SEQ_BYTES;
    r = graph_keep(cuGraphAddMemAllocNode(&n, SEQ_ANY(graph), deps, k, &p), n);
    if (r == CUDA_SUCCESS)
        SEQ_PUT(memory, p.dptr);
    return r;
}

static CUresult add_free(void)
{
    CUgraphNode deps[2], n = NULL;
    size_t k = graph_dependencies(deps);

    return graph_keep(cuGraphAddMemFreeNode(&n, SEQ_ANY(graph), deps, k, SEQ_ANY(memory)), n);
}

static CUresult destroy_node(void)
{
    return cuGraphDestroyNode(SEQ_ANY(node));
}
static CUresult add_edge(void)
{
    return cuGraphAddDependencies_v2(SEQ_ANY(graph), SEQ_SLOT(node), SEQ_SLOT(node), NULL, 1);
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

    return cuGraphInstantiateWithFlags(SEQ_SLOT(exec), SEQ_ANY(graph), flags[seq_random(7)]);
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

    return cuGraphExecUpdate_v2(SEQ_ANY(exec), SEQ_ANY(graph), &info);
}
static CUresult enable(void)
{
    return cuGraphNodeSetEnabled(SEQ_ANY(exec), SEQ_ANY(node), seq_random(2));
}

static CUresult set_host(void)
{
    CUDA_HOST_NODE_PARAMS p = {seq_host_function, NULL};

    return seq_random(2) ? cuGraphExecHostNodeSetParams(SEQ_ANY(exec), SEQ_ANY(node), &p)
                         : cuGraphHostNodeSetParams(SEQ_ANY(node), &p);
}

static CUresult set_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS p = graph_kernel();

    return seq_random(2) ? cuGraphExecKernelNodeSetParams_v2(SEQ_ANY(exec), SEQ_ANY(node), &p)
                         : cuGraphKernelNodeSetParams_v2(SEQ_ANY(node), &p);
}

static CUresult get_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS p;
    CUresult r = cuGraphKernelNodeGetParams_v2(SEQ_ANY(node), &p);

    if (r == CUDA_SUCCESS && p.kernelParams && p.kernelParams[0])
        (void)*(volatile char *)p.kernelParams[0];
    return r;
}

static CUresult set_fill(void)
{
    CUDA_MEMSET_NODE_PARAMS p = graph_fill();

    return seq_random(2) ? cuGraphExecMemsetNodeSetParams(SEQ_ANY(exec), SEQ_ANY(node), &p, SEQ_ANY(context))
                         : cuGraphMemsetNodeSetParams(SEQ_ANY(node), &p);
}

static CUresult set_copy(void)
{
    CUDA_MEMCPY3D p = graph_copy();

    return seq_random(2) ? cuGraphExecMemcpyNodeSetParams(SEQ_ANY(exec), SEQ_ANY(node), &p, SEQ_ANY(context))
                         : cuGraphMemcpyNodeSetParams(SEQ_ANY(node), &p);
}

static CUresult set_event(void)
{
    return seq_random(2) ? cuGraphExecEventRecordNodeSetEvent(SEQ_ANY(exec), SEQ_ANY(node), SEQ_ANY(event))
                         : cuGraphEventWaitNodeSetEvent(SEQ_ANY(node), SEQ_ANY(event));
}
static CUresult set_child(void)
{
    return cuGraphExecChildGraphNodeSetParams(SEQ_ANY(exec), SEQ_ANY(node), SEQ_ANY(graph));
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

const struct seq_step seq_graph_steps[] = {
    {"cuGraphCreate", create, 2},
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
    {"cuGraph...HostNodeSetParams", set_host, 2},
    {"cuGraph...KernelNodeSetParams", set_kernel, 2},
    {"cuGraphKernelNodeGetParams", get_kernel, 1},
    {"cuGraph...MemsetNodeSetParams", set_fill, 1},
    {"cuGraph...MemcpyNodeSetParams", set_copy, 1},
    {"cuGraph...Event...NodeSetEvent", set_event, 1},
    {"cuGraphExecChildGraphNodeSetParams", set_child, 2},
    {"cuUserObjectCreate", user_create, 1},
    {"cuGraphRetainUserObject", user_retain, 2},
    {"cu...UserObject release", user_release, 2},
    {NULL, NULL, 0},
};
