/* SPDX-License-Identifier: MIT */
/*
 * Nodes of graphs and their edges. A node's dependencies are nodes of its own graph, each a counted
 * reference. A node that leaves its graph first leaves its dependents and the fronts of captures:
 * none of them can refer to a removed node.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

#include "lib/hash/hash.h"

static void node_free(struct sg_obj *obj)
{
    struct sg_node *n = (struct sg_node *)obj;

    sg_graph_op_put(n->gop);
    if (n->child)
        sg_obj_unregister(&n->child->obj); /* it belongs to the node */
    sg_obj_put((struct sg_obj *)n->child);
    if (n->mem || n->cond) {
        pthread_mutex_lock(&sg_graph_lock);
        sg_graph_memory_put(n->mem);
        sg_condition_free(n->cond);
        pthread_mutex_unlock(&sg_graph_lock);
    }
    sg_node_drop_deps(n);
    free(n->deps);
    free(n->dep_slot);
    free(n->dep_at);
    free(n->users); /* dependents hold references, so there are none left */
    free(n->edge);
    free(n->kernel_params);
    free(n->attrs);
    if (n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && n->has_params)
        free(n->params.batch.paramArray);
    free(n);
}

/* ---- dependencies ---- */

#define DEPS_SCANNED 16 /* up to this number a linear search; above, an open hash */

static size_t dep_home(const struct sg_node *n, const struct sg_node *dep)
{
    return (size_t)hsh_number(0, (uintptr_t)dep) & (n->dep_slots - 1);
}

/* The slot of dep in n->dep_slot, or the free slot for it. */
static size_t dep_place(const struct sg_node *n, const struct sg_node *dep)
{
    size_t i = dep_home(n, dep);

    while (n->dep_slot[i] && n->deps[n->dep_slot[i] - 1] != dep)
        i = (i + 1) & (n->dep_slots - 1);
    return i;
}

size_t sg_node_find_dep(const struct sg_node *n, const struct sg_node *dep)
{
    if (n->dep_slot) {
        const uint32_t at = n->dep_slot[dep_place(n, dep)];

        return at ? at - 1 : SIZE_MAX;
    }
    for (size_t i = 0; i < n->ndeps; i++) {
        if (n->deps[i] == dep)
            return i;
    }
    return SIZE_MAX;
}

/* Builds the hash for `room` dependencies; without memory the search stays linear. */
static void dep_index(struct sg_node *n, size_t cap)
{
    free(n->dep_slot);
    n->dep_slots = 2 * cap;
    n->dep_slot = cap > DEPS_SCANNED ? calloc(n->dep_slots, sizeof(*n->dep_slot)) : NULL;
    for (size_t i = 0; n->dep_slot && i < n->ndeps; i++)
        n->dep_slot[dep_place(n, n->deps[i])] = (uint32_t)i + 1;
}

/* Removes a dependency from the hash and moves entries that probed past its slot. */
static void dep_unindex(struct sg_node *n, const struct sg_node *dep)
{
    const size_t mask = n->dep_slots - 1;
    size_t hole = dep_place(n, dep);

    for (size_t i = (hole + 1) & mask; n->dep_slot[i]; i = (i + 1) & mask) {
        const size_t home = dep_home(n, n->deps[n->dep_slot[i] - 1]);

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            n->dep_slot[hole] = n->dep_slot[i];
            hole = i;
        }
    }
    n->dep_slot[hole] = 0;
}

/* Makes room for one more dependency. */
static bool node_grow_deps(struct sg_node *n)
{
    size_t cap = n->cap_deps ? 2 * n->cap_deps : 2;
    struct sg_node **grown;
    size_t *places;

    if (n->ndeps < n->cap_deps)
        return true;
    places = realloc(n->dep_at, cap * sizeof(*places));
    if (!places)
        return false;
    n->dep_at = places;
    grown = realloc(n->deps, cap * sizeof(*grown));
    if (!grown)
        return false;
    n->deps = grown;
    if (n->edge) {
        CUgraphEdgeData *edges = realloc(n->edge, cap * sizeof(*edges));

        if (!edges)
            return false;
        n->edge = edges;
    }
    n->cap_deps = cap;
    dep_index(n, cap);
    return true;
}

/* Makes room for one more dependent of n. */
static bool node_grow_users(struct sg_node *n)
{
    size_t cap = n->cap_users ? 2 * n->cap_users : 2;
    struct sg_node_user *grown;

    if (n->nusers < n->cap_users)
        return true;
    grown = realloc(n->users, cap * sizeof(*grown));
    if (!grown)
        return false;
    n->users = grown;
    n->cap_users = cap;
    return true;
}

CUresult sg_node_add_edge(struct sg_node *n, struct sg_node *dep, const CUgraphEdgeData *edge)
{
    const bool ordinary = !edge || sg_edges_ordinary(edge, 1);

    if (!n->graph || dep->graph != n->graph)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "a dependency on a node that is not in the graph");
    if (sg_node_find_dep(n, dep) != SIZE_MAX)
        return CUDA_SUCCESS;
    if (!node_grow_deps(n) || !node_grow_users(dep))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!n->edge && !ordinary && !(n->edge = calloc(n->cap_deps, sizeof(*n->edge))))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (n->edge)
        n->edge[n->ndeps] = edge ? *edge : (CUgraphEdgeData){0};
    sg_obj_get(&dep->obj);
    n->dep_at[n->ndeps] = dep->nusers;
    dep->users[dep->nusers++] = (struct sg_node_user){n, n->ndeps};
    n->deps[n->ndeps] = dep;
    if (n->dep_slot)
        n->dep_slot[dep_place(n, dep)] = (uint32_t)n->ndeps + 1;
    n->ndeps++;
    return CUDA_SUCCESS;
}

void sg_node_drop_dep(struct sg_node *n, size_t k)
{
    struct sg_node *dep = n->deps[k];
    const struct sg_node_user last = dep->users[--dep->nusers];

    if (n->dep_slot)
        dep_unindex(n, dep);
    dep->users[n->dep_at[k]] = last; /* the last entry replaces the removed entry, in both lists */
    last.node->dep_at[last.dep] = n->dep_at[k];
    n->ndeps--;
    if (k != n->ndeps) {
        if (n->dep_slot)
            n->dep_slot[dep_place(n, n->deps[n->ndeps])] = (uint32_t)k + 1;
        n->deps[k] = n->deps[n->ndeps];
        n->dep_at[k] = n->dep_at[n->ndeps];
        n->deps[k]->users[n->dep_at[k]].dep = k;
    }
    if (n->edge)
        n->edge[k] = n->edge[n->ndeps];
    sg_obj_put(&dep->obj);
}

void sg_node_drop_deps(struct sg_node *n)
{
    while (n->ndeps)
        sg_node_drop_dep(n, n->ndeps - 1);
}

CUgraphEdgeData sg_node_edge(const struct sg_node *n, size_t k)
{
    return n->edge ? n->edge[k] : (CUgraphEdgeData){0};
}

CUresult sg_graph_too_large(void)
{
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                   "more than %zu nodes and graphs, those of child graphs and captured launches counted",
                   SG_GRAPH_MAX);
}

CUresult sg_graph_may_grow(const struct sg_graph *g)
{
    return sg_graph_family_size(g) < SG_GRAPH_MAX ? CUDA_SUCCESS : sg_graph_too_large();
}

/* Checks that cuda.h allows the node in the graph of a conditional node. A host function is refused
   only when the graph is instantiated (driver 580). */
static bool body_may(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_HOST || type == CU_GRAPH_NODE_TYPE_KERNEL ||
           type == CU_GRAPH_NODE_TYPE_EMPTY || type == CU_GRAPH_NODE_TYPE_GRAPH ||
           type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

CUresult sg_node_new(struct sg_graph *g, CUgraphNodeType type, struct sg_op *op, struct sg_node *const *deps,
                     size_t ndeps, struct sg_node **out)
{
    if (g->body && !body_may(type)) {
        if (op)
            sg_op_end(op);
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "a node of type %d in the graph of a conditional node",
                       (int)type);
    }
    CUresult r = sg_graph_may_grow(g);

    if (r != CUDA_SUCCESS) {
        if (op)
            sg_op_end(op);
        return r;
    }
    struct sg_graph_op *gop = sg_graph_op_new(op);
    struct sg_node *n = gop ? calloc(1, sizeof(*n)) : NULL;

    if (!n) {
        sg_graph_op_put(gop);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_obj_init(&n->obj, SG_T_NODE, NULL, node_free);
    n->type = type;
    n->gop = gop;
    n->graph = g;
    for (size_t i = 0; r == CUDA_SUCCESS && i < ndeps; i++)
        r = sg_node_add_edge(n, deps[i], NULL);
    if (r == CUDA_SUCCESS && g->end == g->cap)
        sg_graph_settle(g);
    if (r == CUDA_SUCCESS && g->end == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 16;
        struct sg_node **grown = realloc(g->nodes, cap * sizeof(*grown));

        if (grown) {
            g->nodes = grown;
            g->cap = cap;
        } else {
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (r == CUDA_SUCCESS && !sg_obj_register(&n->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        sg_obj_put(&n->obj);
        return r;
    }
    n->index = g->end;
    n->number = g->made++;
    g->family->nodes++;
    g->n++;
    g->nodes[g->end++] = n; /* the graph takes the first reference */
    sg_obj_get(&n->obj);
    *out = n;
    return CUDA_SUCCESS;
}

void sg_node_set_op(struct sg_node *n, struct sg_op *op, CUresult *r)
{
    struct sg_graph_op *gop = sg_graph_op_new(op);

    *r = gop ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (gop) {
        sg_graph_op_put(n->gop);
        n->gop = gop;
    }
}

void sg_graph_settle(const struct sg_graph *graph)
{
    struct sg_graph *g = (struct sg_graph *)graph; /* which nodes it has, and their order, do not change */
    size_t to = 0;

    for (size_t i = 0; g->n < g->end && i < g->end; i++) {
        if (!g->nodes[i])
            continue;
        g->nodes[i]->index = to;
        g->nodes[to++] = g->nodes[i];
    }
    g->end = g->n;
}

void sg_node_remove(struct sg_node *n)
{
    struct sg_graph *g = n->graph;

    sg_captures_forget_node(g, n);
    while (n->nusers) {
        const struct sg_node_user user = n->users[n->nusers - 1];

        sg_node_drop_dep(user.node, user.dep);
    }
    g->nodes[n->index] = NULL;
    g->n--;
    sg_node_leave(n);
}

void sg_node_leave(struct sg_node *n)
{
    n->graph->family->nodes--;
    n->graph = NULL;
    sg_node_drop_deps(n);
    sg_obj_unregister(&n->obj);
    sg_obj_put(&n->obj);
}

void sg_nodes_put(struct sg_node **nodes, size_t n)
{
    for (size_t i = 0; nodes && i < n; i++)
        sg_obj_put((struct sg_obj *)nodes[i]);
    free(nodes);
}

CUresult sg_nodes_get_locked(struct sg_graph *g, const CUgraphNode *handles, size_t n, struct sg_node ***out)
{
    struct sg_node **nodes;

    if (n > g->n * g->n) /* exceeds the number of possible edges: nothing is read */
        return CUDA_ERROR_INVALID_VALUE;
    nodes = calloc(n + 1, sizeof(*nodes));
    if (!nodes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        nodes[i] = SG_LOOKUP(handles[i], SG_T_NODE);
        if (!nodes[i] || nodes[i]->graph != g) {
            sg_nodes_put(nodes, n);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    *out = nodes;
    return CUDA_SUCCESS;
}

static int compare_nodes(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t) * (struct sg_node *const *)a,
                    y = (uintptr_t) * (struct sg_node *const *)b;

    return x < y ? -1 : x > y;
}

CUresult sg_dependencies_get_locked(struct sg_graph *g, const CUgraphNode *handles, size_t n,
                                    struct sg_node ***out)
{
    struct sg_node **sorted;
    CUresult r = n > g->n ? CUDA_ERROR_INVALID_VALUE : sg_nodes_get_locked(g, handles, n, out);

    if (r != CUDA_SUCCESS || n < 2)
        return r;
    sorted = malloc(n * sizeof(*sorted));
    if (sorted) {
        memcpy(sorted, *out, n * sizeof(*sorted));
        qsort(sorted, n, sizeof(*sorted), compare_nodes);
        for (size_t i = 1; i < n && r == CUDA_SUCCESS; i++)
            if (sorted[i] == sorted[i - 1])
                r = sg_fail(CUDA_ERROR_INVALID_VALUE,
                            "a dependency of a new node occurs twice"); /* documented */
    } else {
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    free(sorted);
    if (r != CUDA_SUCCESS) {
        sg_nodes_put(*out, n);
        *out = NULL;
    }
    return r;
}

CUresult sg_nodes_get(struct sg_graph *g, const CUgraphNode *handles, size_t n, struct sg_node ***out)
{
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    r = sg_nodes_get_locked(g, handles, n, out);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sg_graph_add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                      CUgraphNodeType type, struct sg_op *op, struct sg_graph *child,
                      struct sg_node **node_out)
{
    SG_AUTO struct sg_graph *g = SG_LOOKUP(hGraph, SG_T_GRAPH);
    struct sg_node **deps = NULL, *node;
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sg_graph_lock);
    if (g && out && (!n || dependencies))
        r = sg_dependencies_get_locked(g, dependencies, n, &deps);
    if (r == CUDA_SUCCESS) {
        r = sg_node_new(g, type, op, deps, n, &node);
        op = NULL;
    }
    if (r == CUDA_SUCCESS) {
        if (child) {
            sg_obj_get(&child->obj);
            node->child = child;
        }
        *out = SG_HANDLE(CUgraphNode, node);
        if (node_out)
            *node_out = node; /* with the reference */
        else
            sg_obj_put(&node->obj);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    if (op)
        sg_op_end(op);
    sg_nodes_put(deps, n);
    return r;
}

bool sg_edges_ordinary(const CUgraphEdgeData *edge, size_t n)
{
    for (size_t i = 0; edge && i < n; i++) {
        if (edge[i].from_port || edge[i].to_port || edge[i].type)
            return false;
    }
    return true;
}
