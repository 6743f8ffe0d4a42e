/* SPDX-License-Identifier: MIT */
/* The parameters of a node of any type: those that the call for its type tells. */
#include "../graph/graph.h"

#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

static CUresult child_of(CUgraphNode node, CUDA_CHILD_GRAPH_NODE_PARAMS *p)
{
    p->ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
    return vcu_cuGraphChildGraphNodeGetGraph(node, &p->graph);
}

/* The fields of the older structures come first in the newer ones, which add the context: it is not told. */
static CUresult params_of(CUgraphNode n, CUgraphNodeParams *p)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return vcu_cuGraphKernelNodeGetParams_v2(n, (CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return vcu_cuGraphMemcpyNodeGetParams(n, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return vcu_cuGraphMemsetNodeGetParams(n, (CUDA_MEMSET_NODE_PARAMS *)&p->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        return vcu_cuGraphHostNodeGetParams(n, (CUDA_HOST_NODE_PARAMS *)&p->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return child_of(n, &p->graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return vcu_cuGraphEventWaitNodeGetEvent(n, &p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return vcu_cuGraphEventRecordNodeGetEvent(n, &p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        return vcu_cuGraphExternalSemaphoresSignalNodeGetParams(
            n, (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)&p->extSemSignal);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return vcu_cuGraphExternalSemaphoresWaitNodeGetParams(
            n, (CUDA_EXT_SEM_WAIT_NODE_PARAMS *)&p->extSemWait);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return vcu_cuGraphMemAllocNodeGetParams(n, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return vcu_cuGraphMemFreeNodeGetParams(n, &p->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return vcu_cuGraphBatchMemOpNodeGetParams(n, (CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp);
    default:
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuGraphNodeGetParams",
                          "parameters of nodes of type %d (a condition) are not kept", (int)p->type);
    }
}

CUresult vcu_cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    CUgraphNodeParams p;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && (nodeParams == NULL || !vcu_node_ok(hNode)))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        return res;
    memset(&p, 0, sizeof(p));
    res = vcu_cuGraphNodeGetType(hNode, &p.type);
    if (res == CUDA_SUCCESS)
        res = params_of(hNode, &p);
    if (res == CUDA_SUCCESS)
        *nodeParams = p;
    return res;
}
