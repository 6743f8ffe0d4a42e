/* SPDX-License-Identifier: MIT */
/* The parameters of a node of any type: those that the call for its type tells. */

#include <string.h>

#include "api/api.h"

static CUresult child_of(CUgraphNode node, CUDA_CHILD_GRAPH_NODE_PARAMS *p)
{
    p->ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    return cuGraphChildGraphNodeGetGraph(node, &p->graph);
}

/* The fields of the older structures come first in the newer ones, which add the context: it is not told. */
static CUresult params_of(CUgraphNode n, CUgraphNodeParams *p)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeGetParams_v2(n, (CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeGetParams(n, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return cuGraphMemsetNodeGetParams(n, (CUDA_MEMSET_NODE_PARAMS *)&p->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphHostNodeGetParams(n, (CUDA_HOST_NODE_PARAMS *)&p->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return child_of(n, &p->graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuGraphEventWaitNodeGetEvent(n, &p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuGraphEventRecordNodeGetEvent(n, &p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        return cuGraphExternalSemaphoresSignalNodeGetParams(
            n, (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)&p->extSemSignal);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return cuGraphExternalSemaphoresWaitNodeGetParams(n, (CUDA_EXT_SEM_WAIT_NODE_PARAMS *)&p->extSemWait);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return cuGraphMemAllocNodeGetParams(n, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphMemFreeNodeGetParams(n, &p->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphBatchMemOpNodeGetParams(n, (CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp);
    default:
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "parameters of nodes of type %d (a condition) are not kept",
                       (int)p->type);
    }
}

CUresult CUDAAPI cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    CUgraphNodeParams p = {0};
    CUresult r;

    SG_NODE(n, hNode);
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    p.type = n->type;
    r = params_of(hNode, &p);
    if (r == CUDA_SUCCESS)
        *nodeParams = p;
    return r;
}

/* ---- numbers: those of handles, shorter ---- */

static unsigned number_of(const struct sg_obj *obj)
{
    return (unsigned)(obj->handle >> 4);
}

CUresult sgd_cuGraphGetId(struct sg_graph *g, unsigned int *graphId)
{
    *graphId = number_of(&g->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphExecGetId(struct sg_graph_exec *x, unsigned int *graphId)
{
    *graphId = number_of(&x->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphNodeGetLocalId(struct sg_node *n, unsigned int *nodeId)
{
    *nodeId = number_of(&n->obj);
    return CUDA_SUCCESS;
}

/* The graph that the node is in; 0: it was taken out. */
static uint64_t graph_of(const struct sg_node *n)
{
    uint64_t handle;

    pthread_mutex_lock(&sg_graph_lock);
    handle = n->graph ? n->graph->obj.handle : 0;
    pthread_mutex_unlock(&sg_graph_lock);
    return handle;
}

CUresult sgd_cuGraphNodeGetToolsId(struct sg_node *n, unsigned long long *toolsNodeId)
{
    *toolsNodeId = (graph_of(n) >> 4) << 32 | number_of(&n->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphNodeGetContainingGraph(struct sg_node *n, CUgraph *phGraph)
{
    *phGraph = (CUgraph)(uintptr_t)graph_of(n);
    return *phGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
