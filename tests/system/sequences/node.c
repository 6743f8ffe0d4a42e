/* SPDX-License-Identifier: MIT */
/* Parameters of nodes, in graphs and in executable graphs. */
#include "sequences.h"

static CUresult set_host(void)
{
    CUDA_HOST_NODE_PARAMS p = {seq_host_function, NULL};
    CUgraphNode n;
    CUgraphExec x = seq_graph_exec(&n, CU_GRAPH_NODE_TYPE_HOST);

    return seq_random(2) ? cuGraphExecHostNodeSetParams(x, n, &p) : cuGraphHostNodeSetParams(n, &p);
}

static CUresult set_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS p = seq_graph_kernel();
    CUgraphNode n;
    CUgraphExec x = seq_graph_exec(&n, CU_GRAPH_NODE_TYPE_KERNEL);

    return seq_random(2) ? cuGraphExecKernelNodeSetParams_v2(x, n, &p) : cuGraphKernelNodeSetParams_v2(n, &p);
}

static CUresult get_kernel(void)
{
    CUDA_KERNEL_NODE_PARAMS p;
    CUresult r = cuGraphKernelNodeGetParams_v2(seq_graph_node(SEQ_ANY(graph), CU_GRAPH_NODE_TYPE_KERNEL), &p);

    /* Another thread may destroy the node, and these parameters with it. */
    if (r == CUDA_SUCCESS && seq_threads == 1 && p.kernelParams && p.kernelParams[0])
        (void)*(volatile char *)p.kernelParams[0];
    return r;
}

static CUresult set_fill(void)
{
    CUDA_MEMSET_NODE_PARAMS p = seq_graph_fill();
    CUgraphNode n;
    CUgraphExec x = seq_graph_exec(&n, CU_GRAPH_NODE_TYPE_MEMSET);

    return seq_random(2) ? cuGraphExecMemsetNodeSetParams(x, n, &p, SEQ_ANY(context))
                         : cuGraphMemsetNodeSetParams(n, &p);
}

static CUresult set_copy(void)
{
    CUDA_MEMCPY3D p = seq_graph_copy(seq_random(6));
    CUgraphNode n;
    CUgraphExec x = seq_graph_exec(&n, CU_GRAPH_NODE_TYPE_MEMCPY);

    return seq_random(2) ? cuGraphExecMemcpyNodeSetParams(x, n, &p, SEQ_ANY(context))
                         : cuGraphMemcpyNodeSetParams(n, &p);
}

static CUresult set_event(void)
{
    const bool waits = seq_random(2);
    CUgraphNode n;
    CUgraphExec x =
        seq_graph_exec(&n, waits ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD);

    if (waits)
        return seq_random(2) ? cuGraphExecEventWaitNodeSetEvent(x, n, SEQ_ANY(event))
                             : cuGraphEventWaitNodeSetEvent(n, SEQ_ANY(event));
    return seq_random(2) ? cuGraphExecEventRecordNodeSetEvent(x, n, SEQ_ANY(event))
                         : cuGraphEventRecordNodeSetEvent(n, SEQ_ANY(event));
}
static CUresult set_child(void)
{
    CUgraphNode n;
    CUgraphExec x = seq_graph_exec(&n, CU_GRAPH_NODE_TYPE_GRAPH);
    CUgraph g = SEQ_ANY(graph);

    if (seq_random(2) && cuGraphChildGraphNodeGetGraph(n, &g) != CUDA_SUCCESS)
        g = SEQ_ANY(graph);
    return cuGraphExecChildGraphNodeSetParams(x, n, g);
}

static CUresult set_batch(void)
{
    CUstreamBatchMemOpParams op = {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .value = 2}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.ctx = SEQ_ANY(context), .count = 1, .paramArray = &op}, has;
    CUgraphNode n;
    CUgraphExec x = seq_graph_exec(&n, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);

    op.writeValue.address = seq_memory();
    if (seq_random(3) == 0)
        return cuGraphBatchMemOpNodeGetParams(n, &has);
    return seq_random(2) ? cuGraphExecBatchMemOpNodeSetParams(x, n, &p)
                         : cuGraphBatchMemOpNodeSetParams(n, &p);
}

static CUresult attributes(void)
{
    CUlaunchAttributeValue v = {.priority = 0};
    CUgraph g = SEQ_ANY(graph);
    CUgraphNode a = seq_graph_node(g, CU_GRAPH_NODE_TYPE_KERNEL),
                b = seq_graph_node(g, CU_GRAPH_NODE_TYPE_KERNEL);

    return seq_random(2) ? cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v)
                         : cuGraphKernelNodeCopyAttributes(a, b);
}

const struct seq_step seq_node_steps[] = {
    {"cuGraph...HostNodeSetParams", set_host, 2},         {"cuGraph...KernelNodeSetParams", set_kernel, 2},
    {"cuGraphKernelNodeGetParams", get_kernel, 1},        {"cuGraph...MemsetNodeSetParams", set_fill, 1},
    {"cuGraph...MemcpyNodeSetParams", set_copy, 1},       {"cuGraph...Event...NodeSetEvent", set_event, 1},
    {"cuGraphExecChildGraphNodeSetParams", set_child, 2}, {"cuGraph...BatchMemOpNodeSetParams", set_batch, 1},
    {"cuGraphKernelNode... attributes", attributes, 1},   {NULL, NULL, 0},
};
