/* SPDX-License-Identifier: MIT */
/* Driver API: creating and querying graphs. Execution is in api/graph/sgd_executable.c. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

CUresult sgd_cuGraphCreate(CUgraph *phGraph)
{
    SG_AUTO struct sg_graph *g = sg_graph_new();

    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phGraph = SG_HANDLE(CUgraph, g);
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphDestroy(struct sg_graph *g)
{
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    if (g->owned)
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "cuGraphDestroy: the graph belongs to a node");
    else if (sg_graph_captured(g)) /* documented with cuStreamGetCaptureInfo */
        r = sg_fail(CUDA_ERROR_NOT_PERMITTED, "cuGraphDestroy: a stream captures into the graph");
    else
        r = sg_obj_unregister(&g->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* ---- nodes ---- */

/* The context of a node: the given context, else the current context. */
static CUresult node_ctx(CUcontext h, struct sg_ctx **out)
{
    CUresult r = CUDA_SUCCESS;

    if (h) {
        *out = sg_ctx_find(h);
        return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    }
    r = sg_current(out);
    if (r != CUDA_SUCCESS) {
        *out = NULL;
        return r;
    }
    *out = sg_current_self(*out);
    sg_obj_get(&(*out)->obj);
    return CUDA_SUCCESS;
}

/* The same for a kernel: documented to be ignored if the node has a function, which belongs to
   the current context. */
static CUresult kernel_ctx(const CUDA_KERNEL_NODE_PARAMS *p, struct sg_ctx **out)
{
    CUresult r = node_ctx(p->ctx, out);
    struct sg_ctx *now;

    if (r != CUDA_SUCCESS || !p->func || !p->ctx || node_ctx(NULL, &now) != CUDA_SUCCESS)
        return r;
    sg_obj_put(&(*out)->obj);
    *out = now;
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                     const CUgraphNode *dependencies, size_t numDependencies,
                                     const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    SG_AUTO struct sg_ctx *ctx = NULL;
    struct sg_op *op;
    CUresult r = kernel_ctx(nodeParams, &ctx);

    if (r == CUDA_SUCCESS)
        r = sg_launch_op(ctx, nodeParams, NULL, &op);
    return r != CUDA_SUCCESS ? r
                             : sg_graph_add(phGraphNode, hGraph, dependencies, numDependencies,
                                            CU_GRAPH_NODE_TYPE_KERNEL, op, NULL, NULL);
}

/* NULL stands for the current context (driver 580). */
static CUresult node_context(CUcontext ctx)
{
    if (!ctx) {
        SG_CTX(current);
        (void)current;
        return CUDA_SUCCESS;
    }
    SG_AUTO struct sg_ctx *c = SG_LOOKUP(ctx, SG_T_CTX);

    return c ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sgd_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct sg_node *n;
    struct sg_op *op;
    CUresult r;

    r = node_context(ctx);
    if (r != CUDA_SUCCESS || !copyParams)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    r = sg_copy_op(copyParams, &op);
    if (r == CUDA_SUCCESS)
        r = sg_graph_add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMCPY, op,
                         NULL, &n);
    if (r == CUDA_SUCCESS) {
        n->params.copy = *copyParams;
        n->has_params = true;
        sg_obj_put(&n->obj);
    }
    return r;
}

CUresult sgd_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                  CUcontext ctx)
{
    struct sg_node *n;
    struct sg_op *op;
    CUresult r;

    r = node_context(ctx);
    if (r != CUDA_SUCCESS || !memsetParams)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    r = sg_set_op(memsetParams, &op);
    if (r == CUDA_SUCCESS)
        r = sg_graph_add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMSET, op,
                         NULL, &n);
    if (r == CUDA_SUCCESS) {
        n->params.set = *memsetParams;
        n->has_params = true;
        sg_obj_put(&n->obj);
    }
    return r;
}

CUresult sgd_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct sg_node *n;
    struct sg_op *op;
    CUresult r = sg_host_op(nodeParams, &op);

    if (r == CUDA_SUCCESS)
        r = sg_graph_add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_HOST, op,
                         NULL, &n);
    if (r == CUDA_SUCCESS) {
        n->params.host = *nodeParams;
        n->has_params = true;
        sg_obj_put(&n->obj);
    }
    return r;
}

static void *sg_memdup(const void *p, size_t n)
{
    void *copy = malloc(n + 1);

    return copy ? memcpy(copy, p, n) : NULL;
}

/* Copies g: operations are shared, edges are equal. Under the lock. */
static CUresult clone_locked(struct sg_graph *g, struct sg_graph *to, unsigned depth)
{
    if (depth == SG_NEST_MAX)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "child graphs nested deeper than %d", SG_NEST_MAX);
    if (!sg_urefs_copy(&to->urefs, &g->urefs))
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++) {
        struct sg_node *from = g->nodes[i], *n;
        CUresult r = sg_node_new(to, from->type, NULL, NULL, 0, &n);

        if (r != CUDA_SUCCESS)
            return r;
        sg_graph_op_put(n->gop);
        n->gop = from->gop;
        sg_graph_op_get(n->gop);
        if (from->child) {
            n->child = sg_graph_new();
            if (!n->child)
                r = CUDA_ERROR_OUT_OF_MEMORY;
            else
                r = sg_graph_attach(n->child, to);
            if (r == CUDA_SUCCESS) {
                n->child->body = to->body;
                r = clone_locked(from->child, n->child, depth + 1);
            }
            if (r != CUDA_SUCCESS) {
                sg_obj_put(&n->obj);
                return r;
            }
        }
        n->has_params = from->has_params;
        n->params = from->params;
        if (n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && n->has_params &&
            !(n->params.batch.paramArray =
                  sg_memdup(from->params.batch.paramArray,
                            from->params.batch.count * sizeof(*from->params.batch.paramArray)))) {
            sg_obj_put(&n->obj);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        n->original = from->obj.handle;
        sg_obj_put(&n->obj);
    }
    for (size_t i = 0; i < g->n; i++) {
        for (size_t k = 0; k < g->nodes[i]->ndeps; k++) {
            const CUgraphEdgeData e = sg_node_edge(g->nodes[i], k);

            const CUresult r = sg_node_add_edge(to->nodes[i], to->nodes[g->nodes[i]->deps[k]->index], &e);

            if (r != CUDA_SUCCESS)
                return r;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult clone_graph(struct sg_graph *g, const struct sg_graph *into, struct sg_graph **out)
{
    struct sg_graph *to = sg_graph_new();
    CUresult r;

    if (!to)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&sg_graph_lock);
    const struct sg_graph_contents has = sg_graph_contents(g);

    to->body = into && into->body;
    if (has.memory || has.condition) /* documented */
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "copies of graphs with %s nodes",
                    has.memory ? "memory" : "conditional");
    else
        r = into ? sg_graph_attach(to, into) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        r = clone_locked(g, to, 0);
    pthread_mutex_unlock(&sg_graph_lock);
    if (r != CUDA_SUCCESS) {
        sg_obj_unregister(&to->obj);
        sg_obj_put(&to->obj);
        return r;
    }
    *out = to;
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphClone(CUgraph *phGraphClone, struct sg_graph *g)
{
    SG_AUTO struct sg_graph *to = NULL;
    CUresult r = clone_graph(g, NULL, &to);

    if (r == CUDA_SUCCESS)
        *phGraphClone = SG_HANDLE(CUgraph, to);
    return r;
}

CUresult sgd_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, struct sg_graph *g)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (!phNode || !hOriginalNode)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->original == (uint64_t)(uintptr_t)hOriginalNode) {
            *phNode = SG_HANDLE(CUgraphNode, g->nodes[i]);
            r = CUDA_SUCCESS;
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* The child is copied at the call, as documented; the copy belongs to the node. */
CUresult sgd_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                      const CUgraphNode *dependencies, size_t numDependencies,
                                      struct sg_graph *child)
{
    SG_AUTO struct sg_graph *copy = NULL;
    CUresult r;

    SG_GRAPH(g, hGraph);
    /* In a single critical section: g may be moved below another graph, and the copy would keep
       the old level. */
    pthread_mutex_lock(&sg_graph_lock);
    r = clone_graph(child, g, &copy);
    if (r == CUDA_SUCCESS) {
        r = sg_graph_add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_GRAPH, NULL,
                         copy, NULL);
        if (r != CUDA_SUCCESS)
            sg_obj_unregister(&copy->obj);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sg_graph_move(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                       CUgraph childGraph)
{
    CUresult r = CUDA_SUCCESS;

    SG_GRAPH(child, childGraph);
    SG_GRAPH(g, hGraph);
    pthread_mutex_lock(&sg_graph_lock);
    const struct sg_graph_contents has = sg_graph_contents(child);

    if (child->owned || child->execs || child->family == g->family)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (sg_graph_captured(child)) /* as its end: documented with cuStreamGetCaptureInfo */
        r = sg_fail(CUDA_ERROR_NOT_PERMITTED, "a graph that a stream captures into becomes no child");
    else if (has.condition || g->body)
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "a child graph with conditional nodes, or one that is "
                                              "moved into the graph of a conditional node");
    else
        r = sg_graph_may_attach(child, g);
    if (r == CUDA_SUCCESS)
        r = sg_graph_add(out, hGraph, dependencies, n, CU_GRAPH_NODE_TYPE_GRAPH, NULL, child, NULL);
    if (r == CUDA_SUCCESS) {
        sg_graph_attach(child, g);
        g->has_memory |= has.memory;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuGraphDestroyNode(struct sg_node *n)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sg_graph_lock);
    if (n->graph && n->graph->has_memory) {
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuGraphDestroyNode: nodes of a graph with memory "
                                              "nodes cannot be deleted");
    } else if (n->graph && sg_graph_captured(n->graph)) { /* documented with cuStreamGetCaptureInfo */
        r = sg_fail(CUDA_ERROR_NOT_PERMITTED, "cuGraphDestroyNode: a stream captures into the graph");
    } else if (n->graph) {
        sg_node_remove(n);
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

void sg_graph_take_back(CUgraphNode hNode)
{
    SG_AUTO struct sg_node *n = SG_LOOKUP(hNode, SG_T_NODE);

    pthread_mutex_lock(&sg_graph_lock);
    if (n && n->graph)
        sg_node_remove(n);
    pthread_mutex_unlock(&sg_graph_lock);
}

/* ---- parameters ---- */

CUresult sgd_cuGraphKernelNodeGetParams_v2(struct sg_node *n, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    r = sg_launch_describe(n->gop->op, nodeParams, &n->kernel_params);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuGraphKernelNodeSetParams_v2(struct sg_node *n, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    SG_AUTO struct sg_ctx *ctx = NULL;
    struct sg_launch_attributes kept;
    struct sg_op *op;
    CUresult r = kernel_ctx(nodeParams, &ctx);

    pthread_mutex_lock(&sg_graph_lock);
    sg_launch_get_attributes(n->gop->op, &kept);
    pthread_mutex_unlock(&sg_graph_lock);
    if (r == CUDA_SUCCESS)
        r = sg_launch_op(ctx, nodeParams, &kept, &op);
    if (r == CUDA_SUCCESS) {
        pthread_mutex_lock(&sg_graph_lock);
        sg_node_set_op(n, op, &r);
        pthread_mutex_unlock(&sg_graph_lock);
    }
    return r;
}

static CUresult check_params(const struct sg_node *n, CUgraphNodeType type, const void *out)
{
    return out && n->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuGraphMemcpyNodeGetParams(struct sg_node *n, CUDA_MEMCPY3D *nodeParams)
{
    CUresult r = check_params(n, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams);

    pthread_mutex_lock(&sg_graph_lock);
    if (r == CUDA_SUCCESS)
        *nodeParams = n->params.copy;
    if (r == CUDA_SUCCESS && !n->has_params)
        sg_copy_describe(n->gop->op, nodeParams);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuGraphMemsetNodeGetParams(struct sg_node *n, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    CUresult r = check_params(n, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams);

    pthread_mutex_lock(&sg_graph_lock);
    if (r == CUDA_SUCCESS)
        *nodeParams = n->params.set;
    if (r == CUDA_SUCCESS && !n->has_params)
        sg_set_describe(n->gop->op, nodeParams);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuGraphHostNodeGetParams(struct sg_node *n, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    CUresult r = check_params(n, CU_GRAPH_NODE_TYPE_HOST, nodeParams);

    pthread_mutex_lock(&sg_graph_lock);
    if (r == CUDA_SUCCESS)
        *nodeParams = n->params.host;
    if (r == CUDA_SUCCESS && !n->has_params)
        sg_host_describe(n->gop->op, nodeParams);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}
