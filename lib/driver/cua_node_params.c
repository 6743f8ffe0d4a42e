/* SPDX-License-Identifier: MIT */
/* The parameters of a node of any type, as returned by the call for its type. */
#include "graph.h"

#include <string.h>

/* The newer structures begin with the fields of the older ones and add the context, which is not
   returned. */
static CUresult node_params_of_type(const struct cua_graph_ops *ops, CUgraphNode n, CUgraphNodeParams *p,
                                    const char **why)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return ops->kernel(n, (CUDA_KERNEL_NODE_PARAMS *)&p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return ops->copy(n, &p->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return ops->set(n, (CUDA_MEMSET_NODE_PARAMS *)&p->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        return ops->host(n, (CUDA_HOST_NODE_PARAMS *)&p->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        p->graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
        return ops->child(n, &p->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return ops->event_wait(n, &p->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return ops->event_record(n, &p->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        return ops->semaphore_signal(n, (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)&p->extSemSignal);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return ops->semaphore_wait(n, (CUDA_EXT_SEM_WAIT_NODE_PARAMS *)&p->extSemWait);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return ops->alloc(n, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return ops->free(n, &p->free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return ops->memory_operations(n, (CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp);
    default:
        *why = "parameters of nodes of type 13 (a condition) are not kept";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cua_node_params(const struct cua_graph_ops *ops, CUgraphNode node, CUgraphNodeParams *params,
                         const char **why)
{
    CUgraphNodeParams p;
    CUresult r;

    if (params == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memset(&p, 0, sizeof(p));
    r = ops->type(node, &p.type);
    if (r == CUDA_SUCCESS)
        r = node_params_of_type(ops, node, &p, why);
    if (r == CUDA_SUCCESS)
        *params = p;
    return r;
}
