/* SPDX-License-Identifier: MIT */
/* Driver API: numbers of graphs and nodes, derived from their handles, but shorter. */
#include "api/api.h"

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

/* The graph that contains the node; 0: it was removed. */
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
