/* SPDX-License-Identifier: MIT */
/* The test provider's graphs: enough of them to see what the worker does about handles and memory. A
 * launch runs nothing; it takes the memory of the graph's allocation nodes for good. */
#include <cuda.h>
#include <stdlib.h>

#define NODES_MAX 256u

struct node {
    CUgraphNodeType type;
    CUdeviceptr dptr;
    size_t bytes;
    CUgraph child, bodies[8];
    CUDA_HOST_NODE_PARAMS host;
};
struct graph {
    struct node *node[NODES_MAX];
    size_t n;
};

static cuuint64_t used, next_address = 0x700000000000, next_condition = 0x1000;

static CUresult add(CUgraphNode *out, CUgraph h, CUgraphNodeType type, struct node **made)
{
    struct graph *g = (struct graph *)h;
    struct node *n = g->n < NODES_MAX ? calloc(1, sizeof(*n)) : NULL;

    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->type = type;
    g->node[g->n++] = n;
    *out = (CUgraphNode)n;
    if (made)
        *made = n;
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
    (void)flags;
    *out = calloc(1, sizeof(struct graph));
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph h)
{
    struct graph *g = (struct graph *)h;

    for (size_t i = 0; i < g->n; i++) {
        if (g->node[i]->child)
            cuGraphDestroy(g->node[i]->child);
        for (unsigned b = 0; b < 8 && g->node[i]->bodies[b]; b++)
            cuGraphDestroy(g->node[i]->bodies[b]);
        free(g->node[i]);
    }
    free(g);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph h, CUgraphNode *nodes, size_t *n)
{
    struct graph *g = (struct graph *)h;

    for (size_t i = 0; nodes && i < g->n && i < *n; i++)
        nodes[i] = (CUgraphNode)g->node[i];
    if (!nodes || *n > g->n)
        *n = g->n;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode n, CUgraphNodeType *type)
{
    *type = ((struct node *)n)->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph *g)
{
    *g = ((struct node *)n)->child;
    return *g ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n)
{
    (void)deps;
    (void)n;
    return add(out, g, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    struct node *made;
    CUresult r = add(out, g, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &made);

    (void)deps;
    (void)n;
    if (r != CUDA_SUCCESS)
        return r;
    made->bytes = p->bytesize;
    p->dptr = made->dptr = next_address;
    next_address += p->bytesize;
    return r;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    *p = (CUDA_MEM_ALLOC_NODE_PARAMS){.bytesize = ((struct node *)n)->bytes,
                                      .dptr = ((struct node *)n)->dptr};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode n, CUdeviceptr *dptr)
{
    *dptr = ((struct node *)n)->dptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph g, CUcontext ctx,
                                        unsigned value, unsigned flags)
{
    (void)g;
    (void)ctx;
    (void)value;
    (void)flags;
    *out = next_condition++;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *deps,
                           const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p)
{
    static CUgraph list[8];
    struct node *made;
    CUresult r = add(out, g, p->type, &made);

    (void)deps;
    (void)edges;
    (void)n;
    if (r == CUDA_SUCCESS && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        made->child = p->graph.graph;
    for (unsigned i = 0; r == CUDA_SUCCESS && p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
                         i < p->conditional.size && i < 8; i++) {
        r = cuGraphCreate(&made->bodies[i], 0);
        list[i] = made->bodies[i];
        p->conditional.phGraph_out = list;
    }
    return r;
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                            const CUDA_HOST_NODE_PARAMS *p)
{
    struct node *made;
    CUresult r = add(out, g, CU_GRAPH_NODE_TYPE_HOST, &made);

    (void)deps;
    (void)n;
    if (r == CUDA_SUCCESS)
        made->host = *p;
    return r;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode n, CUDA_HOST_NODE_PARAMS *p)
{
    *p = ((struct node *)n)->host;
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p)
{
    ((struct node *)n)->host = *p;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec x, CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p)
{
    (void)x;
    (void)n;
    (void)p;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    CUgraph *x = malloc(sizeof(*x));

    (void)flags;
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *x = g;
    *out = (CUgraphExec)x;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec x)
{
    free(x);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec x, CUstream s)
{
    const struct graph *g = (const struct graph *)*(CUgraph *)x;

    (void)s;
    for (size_t i = 0; i < g->n; i++)
        used += g->node[i]->bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice d, CUgraphMem_attribute attr, void *value)
{
    (void)d;
    (void)attr;
    *(cuuint64_t *)value = used;
    return CUDA_SUCCESS;
}
