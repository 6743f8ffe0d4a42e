/* SPDX-License-Identifier: MIT */
/* Allocation and free nodes, conditional nodes, moved child graphs. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

CUDA_MEM_ALLOC_NODE_PARAMS wrk_alloc_node(uint32_t type, uint32_t handle_types, uint32_t location_type,
                                          int32_t location, uint64_t bytes, const CUmemAccessDesc *access,
                                          size_t n)
{
    return (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = (CUmemAllocationType)type,
                      .handleTypes = (CUmemAllocationHandleType)handle_types,
                      .location = {.type = (CUmemLocationType)location_type, .id = location}},
        .accessDescs = n ? access : NULL,
        .accessDescCount = n,
        .bytesize = bytes};
}

/* ---- conditions ---- */

#define CONDITIONS_MAX 65536u /* of a graph; bounds the worker's memory */
#define BODIES_MAX 65536u     /* of a node; each is a graph */

CUresult wrk_condition_context(struct wrk_call *c, uint64_t graph, uint64_t context, CUcontext *out)
{
    struct wrk_graph *g;
    CUresult r = wrk_graph_get(c, graph, &g);

    if (r != CUDA_SUCCESS)
        return r;
    wrk_naming_for(c, &g->names);
    return wrk_node_context(c, context, out);
}

bool wrk_condition_room(struct wrk_call *c, uint64_t graph)
{
    struct wrk_graph *g;
    uint64_t *grown;

    if (wrk_graph_get(c, graph, &g) != CUDA_SUCCESS || g->nconditions == CONDITIONS_MAX)
        return false;
    grown = realloc(g->conditions, (g->nconditions + 1) * sizeof(*grown));
    if (!grown)
        return false;
    g->conditions = grown;
    return true;
}

void wrk_condition_made(struct wrk_call *c, uint64_t graph, uint64_t condition)
{
    struct wrk_graph *g;

    if (wrk_graph_get(c, graph, &g) == CUDA_SUCCESS)
        g->conditions[g->nconditions++] = condition;
}

/* True if the number was issued for this graph or an enclosing graph. */
static bool knows_condition(const struct wrk_graph *g, uint64_t handle)
{
    for (; g; g = g->parent ? g->parent->graph : NULL) {
        for (uint32_t i = 0; i < g->nconditions; i++) {
            if (g->conditions[i] == handle)
                return true;
        }
    }
    return false;
}

/* A conditional node to be added, of either call. */
struct condition {
    uint64_t handle;
    uint32_t type, size;
    uint64_t context;
    const uint64_t *names; /* handles that the guest minted for its graphs; NULL: they are minted here */
};

/* Records of the graphs of a conditional node. */
static CUresult note_bodies(struct wrk_worker *w, struct wrk_gnode *n, CUgraph *bodies,
                            const struct condition *p)
{
    n->bodies = calloc(p->size, sizeof(*n->bodies));
    if (!n->bodies)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < p->size; i++) {
        struct wrk_graph *g = wrk_graph_named(w, bodies[i], p->names ? p->names[i] : 0);

        if (!g || (p->names && g->handle != p->names[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
        wrk_graph_adopt(n, g);
        n->bodies[n->nbodies++] = g->handle;
    }
    return CUDA_SUCCESS;
}

static CUresult condition_node(struct wrk_call *c, struct wrk_where *w, const struct condition *of,
                               uint64_t *handle)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUgraphNode node = NULL;
    CUcontext ctx = NULL;
    struct wrk_gnode *n;
    CUresult r = wrk_node_context(c, of->context, &ctx);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuGraphAddNode_v2)
        return wrk_missing(c, "cuGraphAddNode_v2");
    if (!knows_condition(w->graph, of->handle))
        return CUDA_ERROR_INVALID_VALUE;
    if (of->size > BODIES_MAX) {
        wrk_notify_detail(c->w, "a conditional node with more than 65536 graphs");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    p.conditional.handle = of->handle;
    p.conditional.type = (CUgraphConditionalNodeType)of->type;
    p.conditional.size = of->size;
    p.conditional.ctx = ctx;
    r = wrk_provider.cuGraphAddNode_v2(&node, w->graph->object, w->deps, w->edges, w->ndeps, &p);
    w->edges = NULL; /* already added */
    r = wrk_added(c, w, r, node, handle);
    if (r != CUDA_SUCCESS)
        return r;
    n = wrk_gnode_of(c->w, w->graph, node);
    r = note_bodies(c->w, n, p.conditional.phGraph_out, of);
    if (r != CUDA_SUCCESS && wrk_provider.cuGraphDestroyNode &&
        wrk_provider.cuGraphDestroyNode(node) == CUDA_SUCCESS)
        wrk_gnode_forget(c->w, n);
    return r;
}

CUresult wrk_do_vgpGraphConditionalNode(struct wrk_call *c, const struct vgp_args_vgpGraphConditionalNode *a,
                                        const uint64_t *dependencies, const void *edgeData,
                                        struct vgp_ret_vgpGraphConditionalNode *ret)
{
    const struct condition p = {a->handle, a->type, a->size, a->context, NULL};
    struct wrk_where w;
    CUresult r = WRK_WHERE(&w);

    if (r == CUDA_SUCCESS && w.op != VGP_NODE_ADD)
        r = wrk_malformed(c, "conditional nodes cannot be changed");
    if (r == CUDA_SUCCESS)
        r = condition_node(c, &w, &p, &ret->node);
    wrk_where_end(&w);
    return r;
}

/* Checks handles for graphs that the call creates. Lack of memory for one shows when it is entered. */
static bool bodies_ok(struct wrk_call *c, const uint64_t *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        wrk_graph_reserve(c, names[i], VGP_H_GRAPH);
        for (uint32_t k = 0; k < i && !c->malformed; k++) {
            if (names[k] == names[i])
                wrk_malformed(c, "handle %#llx for two graphs", (unsigned long long)names[i]);
        }
        if (c->malformed)
            return false;
    }
    return true;
}

CUresult wrk_do_vgpGraphConditionalNamed(struct wrk_call *c,
                                         const struct vgp_args_vgpGraphConditionalNamed *a,
                                         const uint64_t *dependencies, const void *edgeData,
                                         const uint64_t *bodies, struct vgp_ret_vgpGraphConditionalNamed *ret)
{
    const struct condition p = {a->handle, a->type, a->bodies_len, a->context, bodies};
    struct wrk_where w;
    CUresult r;

    if (!bodies_ok(c, bodies, a->bodies_len))
        return CUDA_ERROR_INVALID_VALUE;
    r = WRK_WHERE(&w); /* later than the graphs: the handle of the node is the one that the call makes */
    if (r == CUDA_SUCCESS && w.op != VGP_NODE_ADD)
        r = wrk_malformed(c, "conditional nodes cannot be changed");
    if (r == CUDA_SUCCESS)
        r = condition_node(c, &w, &p, &ret->node);
    wrk_where_end(&w);
    /* The guest believes in graphs of a posted node: calls about them fail as the node has. */
    for (uint32_t i = 0; r != CUDA_SUCCESS && c->builds && i < a->bodies_len; i++)
        wrk_handles_fail(&c->w->handles, bodies[i], VGP_H_GRAPH, r);
    return r;
}

const uint64_t *wrk_node_bodies(struct wrk_call *c, uint64_t node, uint32_t *n)
{
    struct wrk_gnode *of;

    if (wrk_gnode_get(c, node, &of) != CUDA_SUCCESS)
        return NULL;
    *n = of->nbodies;
    return of->bodies;
}

/* ---- children ---- */

static CUresult move_node(struct wrk_call *c, struct wrk_where *w, struct wrk_graph *child, uint64_t *handle)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraphNode node = NULL;
    CUresult r;

    if (!wrk_provider.cuGraphAddNode_v2)
        return wrk_missing(c, "cuGraphAddNode_v2");
    /* Owned by a capture or another node; or it would become a part of itself. */
    if (!child->client)
        return CUDA_ERROR_INVALID_VALUE;
    if (wrk_capture_within(child, NULL)) /* without a record for the node it would be destroyed with it */
        return CUDA_ERROR_NOT_PERMITTED;
    for (const struct wrk_graph *g = w->graph; g; g = g->parent ? g->parent->graph : NULL) {
        if (g == child)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!wrk_graph_names(w->names, child))
        return CUDA_ERROR_OUT_OF_MEMORY;
    p.graph.graph = child->object;
    p.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    r = wrk_provider.cuGraphAddNode_v2(&node, w->graph->object, w->deps, w->edges, w->ndeps, &p);
    if (r != CUDA_SUCCESS)
        return r;
    w->edges = NULL;
    child->client = false;
    r = wrk_added(c, w, r, node, handle);
    if (r == CUDA_SUCCESS)
        wrk_graph_adopt(wrk_gnode_of(c->w, w->graph, node), child);
    else
        wrk_graph_forget(c->w, child); /* destroyed with the node */
    return r;
}

CUresult wrk_do_vgpGraphMoveNode(struct wrk_call *c, const struct vgp_args_vgpGraphMoveNode *a,
                                 const uint64_t *dependencies, const void *edgeData,
                                 struct vgp_ret_vgpGraphMoveNode *ret)
{
    struct wrk_graph *child;
    struct wrk_where w;
    CUresult r = WRK_WHERE(&w);

    if (r == CUDA_SUCCESS && w.op != VGP_NODE_ADD)
        r = wrk_malformed(c, "a child graph is moved when it is added");
    if (r == CUDA_SUCCESS)
        r = wrk_graph_get(c, a->child, &child);
    if (r == CUDA_SUCCESS)
        r = move_node(c, &w, child, &ret->node);
    wrk_where_end(&w);
    return r;
}
