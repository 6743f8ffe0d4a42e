/* SPDX-License-Identifier: MIT */
/* Graphs: nodes, edges, and the programs made of them. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "sg_graph.h"

/* Recursive: the last reference to a graph may go while it is held, or while it is not. */
pthread_mutex_t sg_graph_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* ---- shared operations ---- */

struct sg_gop *sg_gop_new(struct sg_op *op)
{
    struct sg_gop *gop = calloc(1, sizeof(*gop));

    if (!gop) {
        if (op)
            sg_op_end(op);
        return NULL;
    }
    atomic_init(&gop->refs, 1);
    gop->op = op;
    return gop;
}

void sg_gop_get(struct sg_gop *gop)
{
    atomic_fetch_add(&gop->refs, 1);
}

void sg_gop_put(struct sg_gop *gop)
{
    if (gop && atomic_fetch_sub(&gop->refs, 1) == 1) {
        if (gop->op)
            sg_op_end(gop->op);
        free(gop);
    }
}

/* ---- nodes ---- */

static void node_free(struct sg_obj *obj)
{
    struct sg_node *n = (struct sg_node *)obj;

    sg_gop_put(n->gop);
    if (n->child)
        sg_obj_unregister(&n->child->obj); /* it is the node's */
    sg_obj_put((struct sg_obj *)n->child);
    free(n->deps);
    free(n->kernel_params);
    free(n->attrs);
    if (n->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && n->has_params)
        free(n->params.batch.paramArray);
    free(n);
}

bool sg_node_add_dep(struct sg_node *n, struct sg_node *dep)
{
    for (size_t i = 0; i < n->ndeps; i++) {
        if (n->deps[i] == dep)
            return true;
    }
    if (n->ndeps == n->cap_deps) {
        size_t cap = n->cap_deps ? 2 * n->cap_deps : 2;
        struct sg_node **grown = realloc(n->deps, cap * sizeof(*grown));

        if (!grown)
            return false;
        n->deps = grown;
        n->cap_deps = cap;
    }
    n->deps[n->ndeps++] = dep;
    return true;
}

CUresult sg_node_new(struct sg_graph *g, CUgraphNodeType type, struct sg_op *op,
                     struct sg_node *const *deps, size_t ndeps, struct sg_node **out)
{
    struct sg_gop *gop = sg_gop_new(op);
    struct sg_node *n = gop ? calloc(1, sizeof(*n)) : NULL;

    if (!n) {
        sg_gop_put(gop);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_obj_init(&n->obj, SG_T_NODE, NULL, node_free);
    n->type = type;
    n->gop = gop;
    bool ok = true;

    for (size_t i = 0; ok && i < ndeps; i++)
        ok = sg_node_add_dep(n, deps[i]);
    if (ok && g->n == g->cap) {
        size_t cap = g->cap ? 2 * g->cap : 16;
        struct sg_node **grown = realloc(g->nodes, cap * sizeof(*grown));

        ok = grown != NULL;
        if (ok) {
            g->nodes = grown;
            g->cap = cap;
        }
    }
    if (!ok || !sg_obj_register(&n->obj)) {
        sg_obj_put(&n->obj);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    n->graph = g;
    n->index = g->n;
    g->nodes[g->n++] = n; /* the graph's reference is the first one */
    sg_obj_get(&n->obj);
    *out = n;
    return CUDA_SUCCESS;
}

void sg_node_set_op(struct sg_node *n, struct sg_op *op, CUresult *r)
{
    struct sg_gop *gop = sg_gop_new(op);

    *r = gop ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (gop) {
        sg_gop_put(n->gop);
        n->gop = gop;
    }
}

void sg_node_remove(struct sg_node *n)
{
    struct sg_graph *g = n->graph;

    for (size_t i = 0; i < g->n; i++) {
        struct sg_node *o = g->nodes[i];
        size_t kept = 0;

        for (size_t k = 0; k < o->ndeps; k++) {
            if (o->deps[k] != n)
                o->deps[kept++] = o->deps[k];
        }
        o->ndeps = kept;
    }
    memmove(&g->nodes[n->index], &g->nodes[n->index + 1],
            (g->n - n->index - 1) * sizeof(*g->nodes));
    g->n--;
    for (size_t i = n->index; i < g->n; i++)
        g->nodes[i]->index = i;
    n->graph = NULL;
    n->ndeps = 0;
    sg_obj_unregister(&n->obj);
    sg_obj_put(&n->obj);
}

void sg_nodes_put(struct sg_node **nodes, size_t n)
{
    for (size_t i = 0; nodes && i < n; i++)
        sg_obj_put((struct sg_obj *)nodes[i]);
    free(nodes);
}

CUresult sg_nodes_get_locked(struct sg_graph *g, const CUgraphNode *handles, size_t n,
                             struct sg_node ***out)
{
    struct sg_node **nodes = calloc(n + 1, sizeof(*nodes));

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

CUresult sg_nodes_get(struct sg_graph *g, const CUgraphNode *handles, size_t n,
                      struct sg_node ***out)
{
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    r = sg_nodes_get_locked(g, handles, n, out);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* ---- graphs ---- */

static void graph_free(struct sg_obj *obj)
{
    struct sg_graph *g = (struct sg_graph *)obj;

    pthread_mutex_lock(&sg_graph_lock);
    for (size_t i = 0; i < g->n; i++) {
        g->nodes[i]->graph = NULL;
        g->nodes[i]->ndeps = 0;
        sg_obj_unregister(&g->nodes[i]->obj);
        sg_obj_put(&g->nodes[i]->obj);
    }
    sg_urefs_clear(&g->urefs);
    pthread_mutex_unlock(&sg_graph_lock);
    free(g->nodes);
    free(g);
}

struct sg_graph *sg_graph_new(void)
{
    struct sg_graph *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    sg_obj_init(&g->obj, SG_T_GRAPH, NULL, graph_free);
    if (!sg_obj_register(&g->obj)) {
        sg_obj_put(&g->obj);
        return NULL;
    }
    return g;
}

/* ---- programs ---- */

void sg_program_put(struct sg_program *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1) {
        for (size_t i = 0; i < p->n; i++)
            sg_gop_put(p->step[i].gop);
        sg_urefs_clear(&p->urefs);
        free(p);
    }
}

static size_t count_steps(const struct sg_graph *g, unsigned depth)
{
    size_t n = g->n;

    for (size_t i = 0; depth < SG_NEST_MAX && i < g->n; i++) {
        if (g->nodes[i]->child)
            n += count_steps(g->nodes[i]->child, depth + 1);
    }
    return n;
}

/* Appends g's nodes in an order that its edges allow; of those possible, the order of creation. */
static CUresult flatten(struct sg_graph *g, struct sg_program *p, unsigned depth)
{
    size_t done = 0, before;

    if (depth == SG_NEST_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_urefs_copy(&p->urefs, &g->urefs))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->n; i++)
        g->nodes[i]->mark = false;
    do {
        before = done;
        for (size_t i = 0; i < g->n; i++) {
            struct sg_node *n = g->nodes[i];
            bool ready = !n->mark;

            for (size_t k = 0; ready && k < n->ndeps; k++)
                ready = n->deps[k]->mark;
            if (!ready)
                continue;
            sg_gop_get(n->gop);
            size_t at = p->n++;

            p->step[at] = (struct sg_step){.gop = n->gop, .type = n->type, .node = n->obj.handle};
            p->events |= n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
                         n->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
                         (n->type == CU_GRAPH_NODE_TYPE_GRAPH && n->gop->op);
            if (n->child) {
                CUresult r = flatten(n->child, p, depth + 1);

                if (r != CUDA_SUCCESS)
                    return r;
                p->step[at].child = (uint32_t)(p->n - at - 1);
            }
            n->mark = true;
            done++;
        }
    } while (done < g->n && done > before);
    return done == g->n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sg_program_new(struct sg_graph *g, struct sg_program **out)
{
    size_t n = count_steps(g, 0);
    struct sg_program *p = calloc(1, sizeof(*p) + n * sizeof(p->step[0]));
    CUresult r;

    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&p->refs, 1);
    r = flatten(g, p, 0);
    if (r != CUDA_SUCCESS) {
        sg_program_put(p);
        return r;
    }
    *out = p;
    return CUDA_SUCCESS;
}
