/* SPDX-License-Identifier: MIT */
/*
 * The test provider's graphs: enough of them to see what the worker does about handles and memory. A
 * launch runs nothing; it takes the memory of the graph's allocation nodes for good.
 *
 * As a driver may, it keeps raw pointers to what nodes name (functions, events, arrays). Cloning, instantiating,
 * updating and launching follow them: one whose object has ended ends the process.
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "testprov.h"

#define NODES_MAX 256u

struct name {
    bool (*live)(const void *object); /* NULL: none */
    const void *object;
};
struct node {
    CUgraphNodeType type;
    struct name names[2];
    CUdeviceptr dptr;
    size_t bytes;
    CUgraph child, bodies[8];
    CUDA_HOST_NODE_PARAMS host;
    bool off; /* of an executable graph: disabled */
};
struct graph {
    struct node *node[NODES_MAX];
    size_t n;
    CUuserObject user[NODES_MAX]; /* one reference each */
    size_t nusers;
};
/* What was made of a graph; its nodes' numbers are those of `of`, children are not looked into. */
struct exec {
    const struct node *of[NODES_MAX];
    CUgraph copy;
};

static CUgraph capturing;  /* of one stream at a time */
static bool capturing_own; /* it was not there before */
static CUstream captured;
static bool invalidated;

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

CUresult cuGraphRetainUserObject(CUgraph h, CUuserObject u, unsigned n, unsigned flags)
{
    struct graph *g = (struct graph *)h;

    if (n > NODES_MAX - g->nusers)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < n; i++)
        g->user[g->nusers++] = u;
    return flags & CU_GRAPH_USER_OBJECT_MOVE ? CUDA_SUCCESS : cuUserObjectRetain(u, n);
}

CUresult cuGraphReleaseUserObject(CUgraph h, CUuserObject u, unsigned n)
{
    struct graph *g = (struct graph *)h;

    for (size_t i = g->nusers; i-- > 0 && n;) {
        if (g->user[i] != u)
            continue;
        g->user[i] = g->user[--g->nusers];
        n--;
        cuUserObjectRelease(u, 1);
    }
    return n ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
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
    for (size_t i = 0; i < g->nusers; i++)
        cuUserObjectRelease(g->user[i], 1);
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
    (void)deps, (void)n;
    return add(out, g, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    struct node *made;
    CUresult r = add(out, g, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &made);

    (void)deps, (void)n;
    if (r != CUDA_SUCCESS)
        return r;
    made->bytes = p->bytesize;
    p->dptr = made->dptr = next_address;
    next_address += p->bytesize;
    return r;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode n, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
    *p =
        (CUDA_MEM_ALLOC_NODE_PARAMS){.bytesize = ((struct node *)n)->bytes, .dptr = ((struct node *)n)->dptr};
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
    (void)g, (void)ctx, (void)value, (void)flags;
    *out = next_condition++;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, const CUgraphEdgeData *edges,
                           size_t n, CUgraphNodeParams *p)
{
    static CUgraph list[8];
    struct node *made;
    CUresult r = add(out, g, p->type, &made);

    (void)deps, (void)edges, (void)n;
    if (r == CUDA_SUCCESS && p->type == CU_GRAPH_NODE_TYPE_GRAPH)
        made->child = p->graph.graph;
    for (unsigned i = 0;
         r == CUDA_SUCCESS && p->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && i < p->conditional.size && i < 8;
         i++) {
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

    (void)deps, (void)n;
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

/* ---- what names objects ---- */

static struct node *named(CUgraphNode h, bool (*live)(const void *), const void *a, const void *b)
{
    struct node *n = (struct node *)h;

    n->names[0] = (struct name){a ? live : NULL, a};
    n->names[1] = (struct name){b ? live : NULL, b};
    return n;
}

static void look(CUgraph h)
{
    const struct graph *g = (const struct graph *)h;

    for (size_t i = 0; i < g->n; i++) {
        const struct node *n = g->node[i];

        for (int k = 0; k < 2; k++) {
            if (n->names[k].live && !n->names[k].live(n->names[k].object))
                abort();
        }
        if (n->child)
            look(n->child);
    }
}

CUresult cuGraphClone(CUgraph *out, CUgraph h)
{
    const struct graph *g = (const struct graph *)h;
    struct node *made;
    CUgraphNode node;

    look(h);
    if (cuGraphCreate(out, 0) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n; i++) {
        if (add(&node, *out, g->node[i]->type, &made) != CUDA_SUCCESS)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *made = *g->node[i];
        memset(made->bodies, 0, sizeof(made->bodies));
        if (made->child && cuGraphClone(&made->child, made->child) != CUDA_SUCCESS)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < g->nusers; i++) {
        size_t k = 0;

        while (g->user[k] != g->user[i])
            k++;
        if (k == i && cuGraphRetainUserObject(*out, g->user[i], 1, 0) != CUDA_SUCCESS)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode n, CUgraph clone)
{
    (void)n;
    *out = (CUgraphNode)((struct graph *)clone)->node[0];
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                  CUgraph child)
{
    struct node *made;
    CUresult r = add(out, g, CU_GRAPH_NODE_TYPE_GRAPH, &made);

    (void)deps, (void)n;
    return r == CUDA_SUCCESS ? cuGraphClone(&made->child, child) : r;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    struct exec *x = calloc(1, sizeof(*x));

    (void)flags;
    if (!x)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(x->of, ((struct graph *)g)->node, sizeof(x->of));
    *out = (CUgraphExec)x;
    return cuGraphClone(&x->copy, g);
}

/* A node of a child graph that is of another type than before. */
static CUgraphNode changed(CUgraph was, CUgraph is)
{
    const struct graph *a = (const struct graph *)was, *b = (const struct graph *)is;

    for (size_t i = 0; i < a->n && i < b->n; i++) {
        const struct graph *c = (const struct graph *)a->node[i]->child,
                           *d = (const struct graph *)b->node[i]->child;

        if (c && d && c->n && d->n && c->node[0]->type != d->node[0]->type)
            return (CUgraphNode)d->node[0];
    }
    return NULL;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec h, CUgraph g, CUgraphExecUpdateResultInfo *info)
{
    struct exec *x = (struct exec *)h;

    look(x->copy);
    info->errorNode = changed(x->copy, g);
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (info->errorNode)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    cuGraphDestroy(x->copy);
    info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    return cuGraphClone(&x->copy, g);
}

CUresult cuGraphExecDestroy(CUgraphExec h)
{
    cuGraphDestroy(((struct exec *)h)->copy);
    free(h);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec h, CUstream s)
{
    const struct exec *x = (const struct exec *)h;
    const struct graph *g = (const struct graph *)x->copy;
    CUgraphNode node;

    look(x->copy);
    if (capturing && s == captured)
        return cuGraphAddChildGraphNode(&node, capturing, NULL, 0, x->copy);
    for (size_t i = 0; i < g->n; i++)
        used += g->node[i]->bytes;
    return CUDA_SUCCESS;
}

/* The node of an executable graph that one of its graph became. */
static CUgraphNode in_exec(CUgraphExec h, CUgraphNode n)
{
    const struct exec *x = (const struct exec *)h;

    look(x->copy);
    for (size_t i = 0; i < ((struct graph *)x->copy)->n; i++) {
        if (x->of[i] == (struct node *)n)
            return (CUgraphNode)((struct graph *)x->copy)->node[i];
    }
    return NULL;
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec x, CUgraphNode n, const CUDA_HOST_NODE_PARAMS *p)
{
    CUgraphNode mine = in_exec(x, n);

    return mine ? cuGraphHostNodeSetParams(mine, p) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec x, CUgraphNode n, unsigned on)
{
    struct node *mine = (struct node *)in_exec(x, n);

    if (!mine)
        return CUDA_ERROR_INVALID_VALUE;
    mine->off = !on;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec x, CUgraphNode n, unsigned *on)
{
    const struct node *mine = (const struct node *)in_exec(x, n);

    *on = mine && !mine->off;
    return mine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    named(n, testprov_function_live, p->kern ? (void *)p->kern : (void *)p->func, NULL);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                                 const CUDA_KERNEL_NODE_PARAMS *p)
{
    CUresult r = add(out, g, CU_GRAPH_NODE_TYPE_KERNEL, NULL);

    (void)deps, (void)n;
    return r == CUDA_SUCCESS ? cuGraphKernelNodeSetParams_v2(*out, p) : r;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec x, CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS *p)
{
    CUgraphNode mine = in_exec(x, n);

    return mine ? cuGraphKernelNodeSetParams_v2(mine, p) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode n, CUevent e)
{
    named(n, testprov_event_live, e, NULL);
    return CUDA_SUCCESS;
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode n, CUevent e)
{
    return cuGraphEventRecordNodeSetEvent(n, e);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n, CUevent e)
{
    CUresult r = add(out, g, CU_GRAPH_NODE_TYPE_EVENT_RECORD, NULL);

    (void)deps, (void)n;
    return r == CUDA_SUCCESS ? cuGraphEventRecordNodeSetEvent(*out, e) : r;
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n, CUevent e)
{
    return cuGraphAddEventRecordNode(out, g, deps, n, e);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec x, CUgraphNode n, CUevent e)
{
    CUgraphNode mine = in_exec(x, n);

    return mine ? cuGraphEventRecordNodeSetEvent(mine, e) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec x, CUgraphNode n, CUevent e)
{
    return cuGraphExecEventRecordNodeSetEvent(x, n, e);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode n, const CUDA_MEMCPY3D *p)
{
    named(n, testprov_array_live, p->srcArray, p->dstArray);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *deps, size_t n,
                              const CUDA_MEMCPY3D *p, CUcontext ctx)
{
    CUresult r = add(out, g, CU_GRAPH_NODE_TYPE_MEMCPY, NULL);

    (void)deps, (void)n, (void)ctx;
    return r == CUDA_SUCCESS ? cuGraphMemcpyNodeSetParams(*out, p) : r;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec x, CUgraphNode n, const CUDA_MEMCPY3D *p, CUcontext ctx)
{
    CUgraphNode mine = in_exec(x, n);

    (void)ctx;
    return mine ? cuGraphMemcpyNodeSetParams(mine, p) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode n)
{
    memset(((struct node *)n)->names, 0, sizeof(((struct node *)n)->names)); /* stays, and does nothing */
    return CUDA_SUCCESS;
}

/* ---- captures ---- */

CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode)
{
    (void)mode;
    if (capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    captured = s;
    invalidated = false;
    capturing_own = true;
    return cuGraphCreate(&capturing, 0);
}

CUresult cuStreamBeginCaptureToGraph(CUstream s, CUgraph g, const CUgraphNode *deps,
                                     const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode)
{
    (void)deps, (void)edges, (void)n, (void)mode;
    if (capturing)
        return CUDA_ERROR_ILLEGAL_STATE;
    captured = s;
    invalidated = false;
    capturing_own = false;
    capturing = g;
    return CUDA_SUCCESS;
}

/* Takes whatever it is given. */
CUresult cuStreamUpdateCaptureDependencies_v2(CUstream s, CUgraphNode *deps, const CUgraphEdgeData *edges,
                                              size_t n, unsigned flags)
{
    (void)deps, (void)edges, (void)n, (void)flags;
    return capturing && s == captured ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
}

void testprov_stream_ends(CUstream s)
{
    if (!capturing || s != captured)
        return;
    if (capturing_own)
        cuGraphDestroy(capturing);
    capturing = NULL;
}

bool testprov_stream_asked(CUstream s)
{
    bool yes = capturing && s == captured;

    invalidated |= yes;
    return yes;
}

CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status)
{
    /* The default stream of a green context joins every capture, as a driver might have it. */
    const bool part = s == captured || (!s && testprov_is_green(testprov_current()));

    *status = !capturing || !part ? CU_STREAM_CAPTURE_STATUS_NONE
              : invalidated       ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *g,
                                   const CUgraphNode **deps, size_t *n)
{
    cuStreamIsCapturing(s, status);
    *id = 1;
    *g = capturing;
    *deps = NULL;
    *n = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *g)
{
    if (!capturing || s != captured)
        return CUDA_ERROR_ILLEGAL_STATE;
    *g = invalidated ? NULL : capturing;
    if (invalidated && capturing_own)
        cuGraphDestroy(capturing);
    capturing = NULL;
    return invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream s, void **params, void **extra)
{
    const CUDA_KERNEL_NODE_PARAMS p = {.func = f};
    CUgraphNode node;

    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)params, (void)extra;
    if (!testprov_function_live(f))
        abort();
    return capturing && s == captured ? cuGraphAddKernelNode_v2(&node, capturing, NULL, 0, &p) : CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags)
{
    CUgraphNode node;

    if (capturing && s == captured && flags)
        return cuGraphAddEventRecordNode(&node, capturing, NULL, 0, e);
    return cuEventRecord(e, s);
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice d, CUgraphMem_attribute attr, void *value)
{
    (void)d, (void)attr;
    *(cuuint64_t *)value = used;
    return CUDA_SUCCESS;
}
