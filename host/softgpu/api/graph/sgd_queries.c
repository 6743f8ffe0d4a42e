/* SPDX-License-Identifier: MIT */
/* Driver API: a graph as a Graphviz file, and the parameters of a node of any type;
   lib/driver/graph.h. */
#include <stdlib.h>

#include "api/api.h"

#include "lib/driver/driver.h"

static CUresult about_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    void **storage = NULL;
    CUresult r;

    SG_NODE(n, node);
    pthread_mutex_lock(&sg_graph_lock);
    r = sg_launch_describe(n->gop->op, p, &storage);
    pthread_mutex_unlock(&sg_graph_lock);
    free(storage);
    return r;
}

static CUresult about_alloc(CUgraphNode node, CUdeviceptr *ptr, size_t *bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p;
    CUresult r = cuGraphMemAllocNodeGetParams(node, &p);

    if (r == CUDA_SUCCESS) {
        *ptr = p.dptr;
        *bytes = p.bytesize;
    }
    return r;
}

/* Stored parameters stay at the same address. */
static CUresult about_memory_operations(CUgraphNode node, unsigned *count)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS p;
    CUresult r = cuGraphBatchMemOpNodeGetParams(node, &p);

    if (r == CUDA_SUCCESS)
        *count = p.count;
    return r;
}

static CUresult about_body(CUgraphNode node, unsigned i, unsigned *total, CUgraph *body)
{
    SG_NODE(n, node);
    pthread_mutex_lock(&sg_graph_lock);
    *total = n->cond ? n->cond->size : 0;
    *body = i < *total ? n->cond->handles[i] : NULL;
    pthread_mutex_unlock(&sg_graph_lock);
    return CUDA_SUCCESS;
}

static unsigned about_number(const void *handle)
{
    return (unsigned)((uintptr_t)handle >> 4);
}

static const struct cua_graph_ops graph_ops = {
    .nodes = cuGraphGetNodes,
    .edges = cuGraphGetEdges_v2,
    .type = cuGraphNodeGetType,
    .child = cuGraphChildGraphNodeGetGraph,
    .kernel = cuGraphKernelNodeGetParams_v2,
    .copy = cuGraphMemcpyNodeGetParams,
    .set = cuGraphMemsetNodeGetParams,
    .host = cuGraphHostNodeGetParams,
    .event_wait = cuGraphEventWaitNodeGetEvent,
    .event_record = cuGraphEventRecordNodeGetEvent,
    .semaphore_signal = cuGraphExternalSemaphoresSignalNodeGetParams,
    .semaphore_wait = cuGraphExternalSemaphoresWaitNodeGetParams,
    .alloc = cuGraphMemAllocNodeGetParams,
    .free = cuGraphMemFreeNodeGetParams,
    .memory_operations = cuGraphBatchMemOpNodeGetParams,
    .kernel_brief = about_kernel,
    .alloc_brief = about_alloc,
    .memory_operations_brief = about_memory_operations,
    .body = about_body,
    .number = about_number,
};

CUresult sgd_cuGraphDebugDotPrint(struct sg_graph *g, const char *path, unsigned int flags)
{
    CUresult r = cua_graph_dot(&graph_ops, SG_HANDLE(CUgraph, g), path, flags);

    return r == CUDA_ERROR_OPERATING_SYSTEM ? sg_fail(r, "cuGraphDebugDotPrint: cannot write %s", path) : r;
}

CUresult CUDAAPI cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    const char *why = NULL;
    CUresult r;

    SG_NODE(n, hNode);
    (void)n;
    r = cua_node_params(&graph_ops, hNode, nodeParams, &why);
    return why ? sg_fail(r, "cuGraphNodeGetParams: %s", why) : r;
}
