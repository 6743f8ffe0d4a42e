/* SPDX-License-Identifier: MIT */
/* Driver API: node parameters, event nodes, memory operation nodes, and nodes of any type. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

/* Replaces the operation of a node of that type; takes ownership of the new operation. */
static CUresult replace_op(CUgraphNode hNode, CUgraphNodeType type, struct sg_op *op, struct sg_node **out)
{
    SG_AUTO struct sg_node *n = SG_LOOKUP(hNode, SG_T_NODE);
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (!n || n->type != type) {
        sg_op_end(op);
        return r;
    }
    pthread_mutex_lock(&sg_graph_lock);
    sg_node_set_op(n, op, &r);
    pthread_mutex_unlock(&sg_graph_lock);
    if (r == CUDA_SUCCESS && out) {
        sg_obj_get(&n->obj);
        *out = n;
    }
    return r;
}

/* ---- copies, memsets, host functions ---- */

#define SG_SETTERS(NAME, STRUCT, FIELD, TYPE, BUILD) \
    CUresult sgd_cuGraph##NAME##NodeSetParams(CUgraphNode hNode, const STRUCT *nodeParams) \
    { \
        struct sg_node *n; \
        struct sg_op *op; \
        CUresult r = BUILD(nodeParams, &op); \
\
        if (r == CUDA_SUCCESS) \
            r = replace_op(hNode, TYPE, op, &n); \
        if (r == CUDA_SUCCESS) { \
            n->params.FIELD = *nodeParams; \
            n->has_params = true; \
            sg_obj_put(&n->obj); \
        } \
        return r; \
    }

SG_SETTERS(Memcpy, CUDA_MEMCPY3D, copy, CU_GRAPH_NODE_TYPE_MEMCPY, sg_copy_op)
SG_SETTERS(Memset, CUDA_MEMSET_NODE_PARAMS, set, CU_GRAPH_NODE_TYPE_MEMSET, sg_set_op)
SG_SETTERS(Host, CUDA_HOST_NODE_PARAMS, host, CU_GRAPH_NODE_TYPE_HOST, sg_host_op)

/* Checks of calls that name a context. */
static CUresult check_ctx(CUcontext ctx)
{
    SG_AUTO struct sg_ctx *c = SG_LOOKUP(ctx, SG_T_CTX);

    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sgd_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct sg_op *op;
    CUresult r = check_ctx(ctx);

    if (r == CUDA_SUCCESS)
        r = sg_copy_op(copyParams, &op);
    return r != CUDA_SUCCESS ? r : sg_exec_replace(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMCPY, op);
}

CUresult sgd_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    struct sg_op *op;
    CUresult r = check_ctx(ctx);

    if (r == CUDA_SUCCESS)
        r = sg_set_op(memsetParams, &op);
    return r != CUDA_SUCCESS ? r : sg_exec_replace(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_MEMSET, op);
}

CUresult sgd_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct sg_op *op;
    CUresult r = sg_host_op(nodeParams, &op);

    return r != CUDA_SUCCESS ? r : sg_exec_replace(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_HOST, op);
}

/* ---- events ---- */

static CUresult event_set(CUgraphExec exec, CUgraphNode hNode, CUevent event, bool is_exec, bool wait)
{
    CUgraphNodeType type = wait ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    struct sg_op *op;
    CUresult r;

    if (!hNode || (is_exec && !exec))
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_event_op(event, wait, &op);
    if (r != CUDA_SUCCESS)
        return r;
    return is_exec ? sg_exec_replace(exec, hNode, type, op) : replace_op(hNode, type, op, NULL);
}

static CUresult event_add(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n, CUevent event,
                          bool wait)
{
    struct sg_op *op;
    CUresult r = sg_event_op(event, wait, &op);

    if (r != CUDA_SUCCESS)
        return r;
    return sg_graph_add(out, g, deps, n,
                        wait ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD, op, NULL,
                        NULL);
}

static CUresult event_get(struct sg_node *n, CUevent *out, CUgraphNodeType type)
{
    if (n->type != type)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    *out = sg_event_of(n->gop->op);
    pthread_mutex_unlock(&sg_graph_lock);
    return CUDA_SUCCESS;
}

#define SG_EVENT_NODE(KIND, TYPE, WAIT) \
    CUresult sgd_cuGraphAddEvent##KIND##Node(CUgraphNode *phGraphNode, CUgraph hGraph, \
                                             const CUgraphNode *dependencies, size_t numDependencies, \
                                             CUevent event) \
    { \
        return event_add(phGraphNode, hGraph, dependencies, numDependencies, event, WAIT); \
    } \
    CUresult sgd_cuGraphEvent##KIND##NodeGetEvent(struct sg_node *n, CUevent *event_out) \
    { \
        return event_get(n, event_out, TYPE); \
    } \
    CUresult sgd_cuGraphEvent##KIND##NodeSetEvent(CUgraphNode hNode, CUevent event) \
    { \
        return event_set(NULL, hNode, event, false, WAIT); \
    } \
    CUresult sgd_cuGraphExecEvent##KIND##NodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, \
                                                      CUevent event) \
    { \
        return event_set(hGraphExec, hNode, event, true, WAIT); \
    }

SG_EVENT_NODE(Record, CU_GRAPH_NODE_TYPE_EVENT_RECORD, false)
SG_EVENT_NODE(Wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT, true)

/* ---- memory operations ---- */

/* Keeps a copy of the parameters with the node. */
static CUresult keep_batch(struct sg_node *n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    size_t bytes = p->count * sizeof(*p->paramArray);
    CUstreamBatchMemOpParams *list = malloc(bytes + 1); /* no operation is allowed, too */

    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (bytes)
        memcpy(list, p->paramArray, bytes);
    pthread_mutex_lock(&sg_graph_lock);
    if (n->has_params)
        free(n->params.batch.paramArray);
    n->params.batch = *p;
    n->params.batch.paramArray = list;
    n->has_params = true;
    pthread_mutex_unlock(&sg_graph_lock);
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    struct sg_node *n;
    struct sg_op *op;
    CUresult r = check_ctx(nodeParams->ctx);

    if (r == CUDA_SUCCESS)
        r = sg_memop_op(nodeParams, &op);
    if (r == CUDA_SUCCESS)
        r = sg_graph_add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                         op, NULL, &n);
    if (r == CUDA_SUCCESS) {
        r = keep_batch(n, nodeParams);
        sg_obj_put(&n->obj);
    }
    return r;
}

CUresult sgd_cuGraphBatchMemOpNodeGetParams(struct sg_node *n, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    pthread_mutex_lock(&sg_graph_lock);
    if (!n->has_params) /* it was captured */
        n->has_params = sg_memop_describe(n->gop->op, &n->params.batch);
    bool ok = n->has_params;

    if (ok)
        *nodeParams_out = n->params.batch;
    pthread_mutex_unlock(&sg_graph_lock);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sgd_cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    struct sg_node *n;
    struct sg_op *op;
    CUresult r = check_ctx(nodeParams->ctx);

    if (r == CUDA_SUCCESS)
        r = sg_memop_op(nodeParams, &op);
    if (r == CUDA_SUCCESS)
        r = replace_op(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, op, &n);
    if (r == CUDA_SUCCESS) {
        r = keep_batch(n, nodeParams);
        sg_obj_put(&n->obj);
    }
    return r;
}

CUresult sgd_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    struct sg_op *op;
    CUresult r = sg_memop_op(nodeParams, &op);

    return r != CUDA_SUCCESS ? r : sg_exec_replace(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, op);
}

/* ---- attributes of kernel nodes ---- */

#define SG_ATTRS 64

/* Attributes that are stored and returned; all are hints, except COOPERATIVE and
   CLUSTER_DIMENSION. */
static bool is_attribute(CUkernelNodeAttrID attr)
{
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return true;
    default:
        return false;
    }
}

CUresult sgd_cuGraphKernelNodeGetAttribute(struct sg_node *n, CUkernelNodeAttrID attr,
                                           CUkernelNodeAttrValue *value_out)
{
    struct sg_launch_attributes a;

    if (!value_out || n->type != CU_GRAPH_NODE_TYPE_KERNEL || !is_attribute(attr))
        return CUDA_ERROR_INVALID_VALUE;
    memset(value_out, 0, sizeof(*value_out));
    pthread_mutex_lock(&sg_graph_lock);
    sg_launch_get_attributes(n->gop->op, &a);
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
        value_out->cooperative = a.cooperative;
    } else if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        value_out->clusterDim.x = a.cluster[0];
        value_out->clusterDim.y = a.cluster[1];
        value_out->clusterDim.z = a.cluster[2];
    } else if (n->attrs) {
        *value_out = n->attrs[attr];
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return CUDA_SUCCESS;
}

static CUresult set_launch_locked(struct sg_node *n, const struct sg_launch_attributes *a)
{
    struct sg_op *op;
    CUresult r = sg_launch_again(n->gop->op, a, &op);

    if (r == CUDA_SUCCESS)
        sg_node_set_op(n, op, &r);
    return r;
}

static CUresult set_attribute_locked(struct sg_node *n, CUkernelNodeAttrID attr,
                                     const CUkernelNodeAttrValue *value)
{
    struct sg_launch_attributes a;
    CUresult r = CUDA_SUCCESS;

    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE || attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
        sg_launch_get_attributes(n->gop->op, &a);
        if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            a.cooperative = value->cooperative != 0;
        else
            r = sg_cluster_dimension(value->clusterDim.x, value->clusterDim.y, value->clusterDim.z,
                                     a.cluster);
        return r == CUDA_SUCCESS ? set_launch_locked(n, &a) : r;
    }
    if (attr == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) {
        r = sg_window_check(sg_launch_ctx(n->gop->op)->device, &value->accessPolicyWindow);
        if (r != CUDA_SUCCESS)
            return r;
    }
    if (!n->attrs && !(n->attrs = calloc(SG_ATTRS, sizeof(*n->attrs))))
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->attrs[attr] = *value;
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphKernelNodeSetAttribute(struct sg_node *n, CUkernelNodeAttrID attr,
                                           const CUkernelNodeAttrValue *value)
{
    CUresult r;

    if (value && n->type == CU_GRAPH_NODE_TYPE_KERNEL &&
        attr == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
        return value->deviceUpdatableKernelNode.deviceUpdatable
                   ? sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                             "kernel node attribute DEVICE_UPDATABLE_KERNEL_NODE: kernels "
                             "cannot change the nodes of graphs here")
                   : CUDA_SUCCESS;
    if (!value || n->type != CU_GRAPH_NODE_TYPE_KERNEL || !is_attribute(attr))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    r = set_attribute_locked(n, attr, value);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuGraphKernelNodeCopyAttributes(struct sg_node *to, struct sg_node *from)
{
    struct sg_launch_attributes a;
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    sg_launch_get_attributes(from->gop->op, &a);
    r = set_launch_locked(to, &a);
    if (r == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
        r = CUDA_ERROR_INVALID_VALUE; /* driver 580 */
    for (int i = 0; r == CUDA_SUCCESS && from->attrs && i < SG_ATTRS; i++) {
        if (is_attribute((CUkernelNodeAttrID)i) && i != CU_LAUNCH_ATTRIBUTE_COOPERATIVE &&
            i != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            r = set_attribute_locked(to, (CUkernelNodeAttrID)i, &from->attrs[i]);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* ---- nodes of any type ---- */

static CUresult check_any(const CUgraphNodeParams *p)
{
    if (!p || p->reserved0[0] || p->reserved0[1] || p->reserved0[2] || p->reserved2)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult refuse_any(const CUgraphNodeParams *p)
{
    if ((unsigned)p->type > CU_GRAPH_NODE_TYPE_CONDITIONAL)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "graph nodes of type %d", (int)p->type);
}

/* Adds the node first, then its edges: only kernel nodes can have such edges, and these can be
   removed again. */
static CUresult add_with_edges(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies,
                               const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *p)
{
    CUgraphNode node, *to;
    CUresult r;

    if (!out || p->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    to = calloc(n, sizeof(*to));
    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = cuGraphAddNode_v2(&node, hGraph, NULL, NULL, 0, p);
    for (size_t i = 0; i < n; i++)
        to[i] = node;
    if (r == CUDA_SUCCESS) {
        r = cuGraphAddDependencies_v2(hGraph, dependencies, to, data, n);
        if (r == CUDA_SUCCESS)
            *out = node;
        else
            sg_graph_take_back(node);
    }
    free(to);
    return r;
}

CUresult sgd_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               const CUgraphEdgeData *dependencyData, size_t numDependencies,
                               CUgraphNodeParams *nodeParams)
{
    CUgraphNode *out = phGraphNode;
    CUDA_MEMSET_NODE_PARAMS set;
    CUresult r = check_any(nodeParams);

    if (r != CUDA_SUCCESS)
        return r;
    if ((numDependencies && !dependencies) || numDependencies > SG_EDGES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_edges_ordinary(dependencyData, numDependencies))
        return add_with_edges(out, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
    switch (nodeParams->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: /* the third version has the fields of the second */
        return cuGraphAddKernelNode_v2(out, hGraph, dependencies, numDependencies,
                                       (const CUDA_KERNEL_NODE_PARAMS *)&nodeParams->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphAddMemcpyNode(out, hGraph, dependencies, numDependencies,
                                    &nodeParams->memcpy.copyParams, nodeParams->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &nodeParams->memset, sizeof(set));
        return cuGraphAddMemsetNode(out, hGraph, dependencies, numDependencies, &set, nodeParams->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphAddHostNode(out, hGraph, dependencies, numDependencies,
                                  (const CUDA_HOST_NODE_PARAMS *)&nodeParams->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        if (nodeParams->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
            return sg_graph_move(out, hGraph, dependencies, numDependencies, nodeParams->graph.graph);
        if (nodeParams->graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
            return CUDA_ERROR_INVALID_VALUE;
        return cuGraphAddChildGraphNode(out, hGraph, dependencies, numDependencies, nodeParams->graph.graph);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return cuGraphAddEmptyNode(out, hGraph, dependencies, numDependencies);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_add(out, hGraph, dependencies, numDependencies, nodeParams->eventWait.event, true);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_add(out, hGraph, dependencies, numDependencies, nodeParams->eventRecord.event, false);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphAddBatchMemOpNode(out, hGraph, dependencies, numDependencies,
                                        (const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&nodeParams->memOp);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: /* so has that of these two */
        return cuGraphAddExternalSemaphoresSignalNode(
            out, hGraph, dependencies, numDependencies,
            (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)&nodeParams->extSemSignal);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return cuGraphAddExternalSemaphoresWaitNode(
            out, hGraph, dependencies, numDependencies,
            (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)&nodeParams->extSemWait);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* the second version has the fields of the first */
        return cuGraphAddMemAllocNode(out, hGraph, dependencies, numDependencies,
                                      (CUDA_MEM_ALLOC_NODE_PARAMS *)&nodeParams->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cuGraphAddMemFreeNode(out, hGraph, dependencies, numDependencies, nodeParams->free.dptr);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return sg_condition_add(out, hGraph, dependencies, numDependencies, &nodeParams->conditional);
    default:
        return refuse_any(nodeParams);
    }
}

static CUresult empty_set(CUgraphNode node)
{
    SG_NODE(n, node);
    return n->type == CU_GRAPH_NODE_TYPE_EMPTY ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    CUDA_MEMSET_NODE_PARAMS set;
    CUresult r = check_any(nodeParams);

    if (r != CUDA_SUCCESS)
        return r;
    switch (nodeParams->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY: /* has none (driver 580) */
        return empty_set(hNode);
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphKernelNodeSetParams_v2(hNode, (const CUDA_KERNEL_NODE_PARAMS *)&nodeParams->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphMemcpyNodeSetParams(hNode, &nodeParams->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &nodeParams->memset, sizeof(set));
        return cuGraphMemsetNodeSetParams(hNode, &set);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphHostNodeSetParams(hNode, (const CUDA_HOST_NODE_PARAMS *)&nodeParams->host);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_set(NULL, hNode, nodeParams->eventWait.event, false, true);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_set(NULL, hNode, nodeParams->eventRecord.event, false, false);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphBatchMemOpNodeSetParams(hNode,
                                              (const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&nodeParams->memOp);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        return cuGraphExternalSemaphoresSignalNodeSetParams(
            hNode, (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)&nodeParams->extSemSignal);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return cuGraphExternalSemaphoresWaitNodeSetParams(
            hNode, (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)&nodeParams->extSemWait);
    default:
        return refuse_any(nodeParams);
    }
}

CUresult sgd_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      CUgraphNodeParams *nodeParams)
{
    CUDA_MEMSET_NODE_PARAMS set;
    CUresult r = check_any(nodeParams);

    if (r != CUDA_SUCCESS)
        return r;
    switch (nodeParams->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode,
                                                 (const CUDA_KERNEL_NODE_PARAMS *)&nodeParams->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuGraphExecMemcpyNodeSetParams(hGraphExec, hNode, &nodeParams->memcpy.copyParams,
                                              nodeParams->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &nodeParams->memset, sizeof(set));
        return cuGraphExecMemsetNodeSetParams(hGraphExec, hNode, &set, nodeParams->memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
        return cuGraphExecHostNodeSetParams(hGraphExec, hNode,
                                            (const CUDA_HOST_NODE_PARAMS *)&nodeParams->host);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return cuGraphExecChildGraphNodeSetParams(hGraphExec, hNode, nodeParams->graph.graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_set(hGraphExec, hNode, nodeParams->eventWait.event, true, true);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_set(hGraphExec, hNode, nodeParams->eventRecord.event, true, false);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return cuGraphExecBatchMemOpNodeSetParams(hGraphExec, hNode,
                                                  (const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&nodeParams->memOp);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        return cuGraphExecExternalSemaphoresSignalNodeSetParams(
            hGraphExec, hNode, (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)&nodeParams->extSemSignal);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return cuGraphExecExternalSemaphoresWaitNodeSetParams(
            hGraphExec, hNode, (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)&nodeParams->extSemWait);
    default:
        return refuse_any(nodeParams);
    }
}
