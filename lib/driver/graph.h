/* SPDX-License-Identifier: MIT */
/* What is asked about graphs, in terms of a driver's calls: the parameters of a node of any type, and the dot file. */
#ifndef CUA_GRAPH_H
#define CUA_GRAPH_H

#include <cuda.h>

/* The driver's forms of the driver API's calls; each has that call's parameters, but for the last group. */
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
    /* The same without memory that belongs to the node: what a program was given before stays as it is. */
    CUresult (*kernel_brief)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p);
    CUresult (*alloc_brief)(CUgraphNode node, CUdeviceptr *ptr, size_t *bytes);
    CUresult (*memory_operations_brief)(CUgraphNode node, unsigned *count);
    /* Body i of a conditional node, and the number of its bodies. */
    CUresult (*body)(CUgraphNode node, unsigned i, unsigned *total, CUgraph *body);
    /* The number of a graph or a node, as cuGraphGetId gives it. */
    unsigned (*number)(const void *handle);
};

/* cuGraphNodeGetParams, of a live node. NOT_SUPPORTED: *why is a constant that says what is not kept. */
CUresult cua_node_params(const struct cua_graph_ops *ops, CUgraphNode node, CUgraphNodeParams *params,
                         const char **why);
/* cuGraphDebugDotPrint, of a live graph. OPERATING_SYSTEM: the file cannot be written. */
CUresult cua_graph_dot(const struct cua_graph_ops *ops, CUgraph graph, const char *path, unsigned flags);

#endif
