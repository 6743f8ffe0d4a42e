/* SPDX-License-Identifier: MIT */
/* Driver API: the nodes and edges of a graph. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

/* With a NULL array these calls count, else they fill up to *n entries and zero the rest. */

struct list {
    CUgraphNode *a, *b; /* b NULL: nodes, not edges */
    size_t room, n;
    CUgraphEdgeData *edge; /* may be NULL */
    bool lossy;            /* edge data that is not ordinary was dropped for lack of an array */
};

static void put_edge(struct list *l, const struct sg_node *a, const struct sg_node *b, CUgraphEdgeData edge)
{
    if (l->a && l->n < l->room) {
        l->a[l->n] = SG_HANDLE(CUgraphNode, a);
        if (l->b)
            l->b[l->n] = SG_HANDLE(CUgraphNode, b);
        if (l->edge)
            l->edge[l->n] = edge;
        l->lossy |= !l->edge && !sg_edges_ordinary(&edge, 1);
    }
    l->n++;
}

static CUresult finish_list(struct list *l, size_t *n)
{
    if (l->lossy)
        return CUDA_ERROR_LOSSY_QUERY;
    for (size_t i = l->n; l->a && i < l->room; i++) {
        l->a[i] = NULL;
        if (l->b)
            l->b[i] = NULL;
    } /* edge data after the last edge stays unchanged: cuda.h specifies this only for nodes */
    *n = l->a && l->n > l->room ? l->room : l->n;
    return CUDA_SUCCESS;
}

static const CUgraphEdgeData ordinary;

CUresult sgd_cuGraphGetNodes(struct sg_graph *g, CUgraphNode *nodes, size_t *numNodes)
{
    struct list l = {.a = nodes, .room = nodes ? *numNodes : 0};

    pthread_mutex_lock(&sg_graph_lock);
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++)
        put_edge(&l, g->nodes[i], NULL, ordinary);
    pthread_mutex_unlock(&sg_graph_lock);
    return finish_list(&l, numNodes);
}

CUresult sgd_cuGraphGetRootNodes(struct sg_graph *g, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    struct list l = {.a = rootNodes, .room = rootNodes ? *numRootNodes : 0};

    pthread_mutex_lock(&sg_graph_lock);
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++) {
        if (!g->nodes[i]->ndeps)
            put_edge(&l, g->nodes[i], NULL, ordinary);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return finish_list(&l, numRootNodes);
}

CUresult sgd_cuGraphGetEdges_v2(struct sg_graph *g, CUgraphNode *from, CUgraphNode *to,
                                CUgraphEdgeData *edgeData, size_t *numEdges)
{
    struct list l = {.a = from, .b = to, .room = from ? *numEdges : 0, .edge = edgeData};

    pthread_mutex_lock(&sg_graph_lock);
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++) {
        for (size_t k = 0; k < g->nodes[i]->ndeps; k++)
            put_edge(&l, g->nodes[i]->deps[k], g->nodes[i], sg_node_edge(g->nodes[i], k));
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return finish_list(&l, numEdges);
}

CUresult sgd_cuGraphNodeGetDependencies_v2(struct sg_node *n, CUgraphNode *dependencies,
                                           CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    struct list l = {.a = dependencies, .room = dependencies ? *numDependencies : 0, .edge = edgeData};

    pthread_mutex_lock(&sg_graph_lock);
    for (size_t k = 0; k < n->ndeps; k++)
        put_edge(&l, n->deps[k], NULL, sg_node_edge(n, k));
    pthread_mutex_unlock(&sg_graph_lock);
    return finish_list(&l, numDependencies);
}

static int by_creation(const void *pa, const void *pb)
{
    const struct sg_node_user *a = pa, *b = pb;

    if (a->node != b->node)
        return a->node->index < b->node->index ? -1 : 1;
    return (a->dep > b->dep) - (a->dep < b->dep);
}

/* The nodes that depend on n, in the order of their creation. False: no memory. Under the lock. */
static bool put_users(struct list *l, const struct sg_node *n)
{
    struct sg_node_user *users;

    if (!l->a || !n->nusers) {
        l->n = n->nusers;
        return true;
    }
    users = malloc(n->nusers * sizeof(*users));
    if (!users)
        return false;
    memcpy(users, n->users, n->nusers * sizeof(*users));
    qsort(users, n->nusers, sizeof(*users), by_creation);
    for (size_t i = 0; i < n->nusers; i++)
        put_edge(l, users[i].node, NULL, sg_node_edge(users[i].node, users[i].dep));
    free(users);
    return true;
}

CUresult sgd_cuGraphNodeGetDependentNodes_v2(struct sg_node *n, CUgraphNode *dependentNodes,
                                             CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
    struct list l = {.a = dependentNodes, .room = dependentNodes ? *numDependentNodes : 0, .edge = edgeData};

    pthread_mutex_lock(&sg_graph_lock);
    const bool ok = put_users(&l, n);

    pthread_mutex_unlock(&sg_graph_lock);
    return ok ? finish_list(&l, numDependentNodes) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Checks edge data as cuda.h documents. */
static bool edge_ok(const struct sg_node *from, const struct sg_node *to, const CUgraphEdgeData *e)
{
    for (size_t i = 0; i < sizeof(e->reserved); i++) {
        if (e->reserved[i])
            return false;
    }
    if (e->to_port)
        return false;
    if (e->type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT)
        return e->from_port == CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
    return e->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
           (e->from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
            e->from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
           from->type == CU_GRAPH_NODE_TYPE_KERNEL && to->type == CU_GRAPH_NODE_TYPE_KERNEL;
}

struct edge_ends {
    SG_LENT const struct sg_node *from, *to; /* of the call */
};

static int by_ends(const void *a, const void *b)
{
    const struct edge_ends *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* True if two of the n edges have the same ends; true with *r set if memory is missing. */
static bool edge_repeats(struct sg_node *const *from, struct sg_node *const *to, size_t n, CUresult *r)
{
    struct edge_ends *ends = n > 1 ? malloc(n * sizeof(*ends)) : NULL;
    bool repeats = false;

    if (n > 1 && !ends) {
        *r = CUDA_ERROR_OUT_OF_MEMORY;
        return true;
    }
    for (size_t i = 0; ends && i < n; i++)
        ends[i] = (struct edge_ends){from[i], to[i]};
    if (ends)
        qsort(ends, n, sizeof(*ends), by_ends);
    for (size_t i = 1; ends && i < n && !repeats; i++)
        repeats = by_ends(&ends[i - 1], &ends[i]) == 0;
    free(ends);
    return repeats;
}

/* Documented: an edge that exists cannot be added, nor a missing one removed. The data of an edge to
 * remove need not be the edge's own (driver 580). */
static CUresult check_edges(struct sg_node *const *from, struct sg_node *const *to,
                            const CUgraphEdgeData *edge, size_t n, bool remove)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    for (size_t i = 0; i < n; i++) {
        if (from[i] == to[i] || (sg_node_find_dep(to[i], from[i]) != SIZE_MAX) != remove ||
            !edge_ok(from[i], to[i], edge ? &edge[i] : &ordinary))
            return r;
    }
    return edge_repeats(from, to, n, &r) ? r : CUDA_SUCCESS;
}

/* Changes all edges, or none. */
static CUresult change_edges(struct sg_graph *g, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *edge, size_t n, bool remove)
{
    struct sg_node **a = NULL, **b = NULL;
    size_t done = 0;
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    if (remove && n && g->has_memory)
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "edges of a graph with memory nodes cannot be deleted");
    else
        r = sg_nodes_get_locked(g, from, n, &a);
    if (r == CUDA_SUCCESS)
        r = sg_nodes_get_locked(g, to, n, &b);
    if (r == CUDA_SUCCESS)
        r = check_edges(a, b, edge, n, remove);
    for (; r == CUDA_SUCCESS && done < n; done++) {
        if (remove)
            sg_node_drop_dep(b[done], sg_node_find_dep(b[done], a[done]));
        else
            r = sg_node_add_edge(b[done], a[done], edge ? &edge[done] : &ordinary);
    }
    if (r != CUDA_SUCCESS && done) { /* memory was missing for edge done - 1: the last ones first */
        while (--done)
            sg_node_drop_dep(b[done - 1], b[done - 1]->ndeps - 1);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    sg_nodes_put(a, n);
    sg_nodes_put(b, n);
    return r;
}

CUresult sgd_cuGraphAddDependencies_v2(struct sg_graph *g, const CUgraphNode *from, const CUgraphNode *to,
                                       const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    return change_edges(g, from, to, edgeData, numDependencies, false);
}

CUresult sgd_cuGraphRemoveDependencies_v2(struct sg_graph *g, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    return change_edges(g, from, to, edgeData, numDependencies, true);
}
