/* SPDX-License-Identifier: MIT */
/* Queries about graphs, implemented with a driver's calls: the parameters of a node of any type,
   and the dot file. */
#ifndef CUA_GRAPH_H
#define CUA_GRAPH_H

#include <cuda.h>

/* The driver's versions of the driver API calls; parameters as for those calls, except in the
   last group. */
struct cua_graph_ops {
    CUresult (*nodes)(CUgraph graph, CUgraphNode *nodes, size_t *n);
    CUresult (*edges)(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *n);
    CUresult (*type)(CUgraphNode node, CUgraphNodeType *type);
    CUresult (*child)(CUgraphNode node, CUgraph *graph);
    CUresult (*kernel)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p);
    CUresult (*copy)(CUgraphNode node, CUDA_MEMCPY3D *p);
    CUresult (*set)(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p);
    CUresult (*host)(CUgraphNode node, CUDA_HOST_NODE_PARAMS *p);
    CUresult (*event_wait)(CUgraphNode node, CUevent *event);
    CUresult (*event_record)(CUgraphNode node, CUevent *event);
    CUresult (*semaphore_signal)(CUgraphNode node, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *p);
    CUresult (*semaphore_wait)(CUgraphNode node, CUDA_EXT_SEM_WAIT_NODE_PARAMS *p);
    CUresult (*alloc)(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *p);
    CUresult (*free)(CUgraphNode node, CUdeviceptr *ptr);
    CUresult (*memory_operations)(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
    /* The same without memory owned by the node: values returned to the program earlier stay
       valid. */
    CUresult (*kernel_brief)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p);
    CUresult (*alloc_brief)(CUgraphNode node, CUdeviceptr *ptr, size_t *bytes);
    CUresult (*memory_operations_brief)(CUgraphNode node, unsigned *count);
    /* Body i of a conditional node, and the number of bodies. */
    CUresult (*body)(CUgraphNode node, unsigned i, unsigned *total, CUgraph *body);
    /* The number of a graph or node, as returned by cuGraphGetId. */
    unsigned (*number)(const void *handle);
};

/* cuGraphNodeGetParams, for a live node. NOT_SUPPORTED: *why is a constant that names the
   missing parameters. */
CUresult cua_node_params(const struct cua_graph_ops *ops, CUgraphNode node, CUgraphNodeParams *params,
                         const char **why);
/* cuGraphDebugDotPrint, for a live graph. OPERATING_SYSTEM: the file cannot be written. */
CUresult cua_graph_dot(const struct cua_graph_ops *ops, CUgraph graph, const char *path, unsigned flags);

#endif
