/* SPDX-License-Identifier: MIT */
/*
 * Conditional nodes: a graph, or one of several graphs, that runs once, in a loop, or not at all,
 * depending on a number set by kernels (cudaGraphSetConditional, an external function in PTX).
 * Kernels name the number by a handle. It lives as long as its graph or anything instantiated from
 * that graph. A graph with such nodes has at most one executable graph, so a single number
 * suffices.
 */
#include <stdlib.h>

#include "graph/graph.h"

struct sg_cond {
    struct sg_obj obj; /* registered while references exist */
    uint32_t ctx_id;   /* context whose kernels may set it */
    uint32_t start;    /* at the beginning of each launch, when assign */
    bool assign;
    bool used;        /* a node uses it */
    unsigned holders; /* under sg_graph_lock */
    uint64_t list;    /* number of the list that took it last; under sg_graph_lock */
    uint64_t graph;   /* handle of the graph it was made for */
    _Atomic uint32_t value;
};

static void cond_free(struct sg_obj *obj)
{
    free(obj);
}

/* A holder has a reference; without a holder kernels do not find the number any more. */
static void cond_hold(struct sg_cond *c)
{
    sg_obj_get(&c->obj);
    c->holders++;
}

static void cond_let_go(struct sg_cond *c)
{
    if (--c->holders == 0)
        sg_obj_unregister(&c->obj);
    sg_obj_put(&c->obj);
}

/* Entries that a list of n has room for: the next power of two. */
static size_t list_room(size_t n)
{
    size_t room = 1;

    while (room < n)
        room *= 2;
    return room;
}

bool sg_cond_hold_all(struct sg_cond ***list, size_t *n, struct sg_cond *const *from, size_t nfrom)
{
    struct sg_cond **grown;

    if (!nfrom)
        return true;
    if (*n == 0 || list_room(*n) < *n + nfrom) {
        grown = realloc(*list, list_room(*n + nfrom) * sizeof(*grown));
        if (!grown)
            return false;
        *list = grown;
    }
    grown = *list;
    for (size_t i = 0; i < nfrom; i++) {
        cond_hold(from[i]);
        grown[(*n)++] = from[i];
    }
    return true;
}

uint64_t sg_cond_list_new(void)
{
    static uint64_t number; /* under sg_graph_lock */

    return ++number;
}

bool sg_cond_hold(struct sg_cond ***list, size_t *n, uint64_t number, struct sg_cond *c)
{
    if (c->list == number)
        return true;
    c->list = number;
    return sg_cond_hold_all(list, n, &c, 1);
}

void sg_cond_drop_all(struct sg_cond **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cond_let_go(list[i]);
    free(list);
}

bool sg_cond_unused(const struct sg_cond *c)
{
    return !c->used;
}

void sg_cond_begin(struct sg_cond *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i]->assign)
            atomic_store(&list[i]->value, list[i]->start);
    }
}

uint32_t sg_cond_value(const struct sg_cond *c)
{
    return atomic_load(&c->value);
}

bool sg_cond_set(void *ctx, uint64_t handle, uint32_t value)
{
    SG_AUTO struct sg_cond *c = sg_lookup(handle, SG_T_COND);

    if (!c || c->ctx_id != ((const struct sg_ctx *)ctx)->id)
        return false;
    atomic_store(&c->value, value);
    return true;
}

CUresult sg_cond_new(struct sg_graph *g, uint32_t ctx_id, uint32_t start, bool assign,
                     CUgraphConditionalHandle *out)
{
    struct sg_cond *c = calloc(1, sizeof(*c));

    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&c->obj, SG_T_COND, NULL, cond_free);
    c->ctx_id = ctx_id;
    c->start = start;
    c->assign = assign;
    c->graph = g->obj.handle;
    pthread_mutex_lock(&sg_graph_lock);
    bool ok = sg_obj_register(&c->obj);

    if (ok && !sg_cond_hold_all(&g->conds, &g->nconds, &c, 1)) {
        sg_obj_unregister(&c->obj);
        ok = false;
    }
    if (ok)
        *out = c->obj.handle;
    pthread_mutex_unlock(&sg_graph_lock);
    sg_obj_put(&c->obj);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- nodes ---- */

void sg_condition_free(struct sg_condition *c)
{
    if (!c)
        return;
    for (unsigned i = 0; c->body && i < c->size; i++) {
        if (!c->body[i])
            continue;
        sg_obj_unregister(&c->body[i]->obj); /* it belongs to the node */
        sg_obj_put(&c->body[i]->obj);
    }
    if (c->cond)
        cond_let_go(c->cond);
    free(c->body);
    free(c->handles);
    free(c);
}

#define SG_BODIES_MAX 65536u /* graphs of a switch: bounds the work of a call */

static CUresult condition_new(struct sg_cond *cond, const struct sg_graph *above,
                              CUgraphConditionalNodeType type, unsigned size, struct sg_condition **out)
{
    struct sg_condition *c = calloc(1, sizeof(*c));
    CUresult r = CUDA_SUCCESS;

    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->type = type;
    c->size = size;
    c->body = calloc(size, sizeof(*c->body));
    c->handles = calloc(size, sizeof(*c->handles));
    for (unsigned i = 0; c->body && c->handles && i < size; i++) {
        c->body[i] = sg_graph_new();
        if (!c->body[i])
            break;
        c->body[i]->body = true;
        r = sg_graph_attach(c->body[i], above);
        if (r != CUDA_SUCCESS)
            break;
        c->handles[i] = SG_HANDLE(CUgraph, c->body[i]);
    }
    if (!c->handles || !c->body || !c->handles[size - 1]) {
        sg_condition_free(c);
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->cond = cond;
    cond_hold(cond);
    *out = c;
    return CUDA_SUCCESS;
}

static bool size_ok(const CUDA_CONDITIONAL_NODE_PARAMS *p)
{
    switch (p->type) {
    case CU_GRAPH_COND_TYPE_IF:
        return p->size == 1 || p->size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
        return p->size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
        return p->size != 0;
    default:
        return false;
    }
}

/* Documented: a handle is valid for nodes of its graph, or of a child of that graph. */
static bool cond_is_of(const struct sg_cond *c, const struct sg_graph *g)
{
    SG_AUTO struct sg_graph *of = sg_lookup(c->graph, SG_T_GRAPH);

    return of && of->family == g->family;
}

/* The node's part of cuGraphAddNode. */
CUresult sg_condition_add(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *dependencies, size_t n,
                          CUDA_CONDITIONAL_NODE_PARAMS *p)
{
    struct sg_condition *made = NULL;
    struct sg_node *node = NULL;
    CUresult r;

    SG_GRAPH(g, hGraph);
    SG_AUTO struct sg_cond *c = sg_lookup(p->handle, SG_T_COND);
    SG_AUTO struct sg_ctx *ctx = p->ctx ? sg_ctx_find_base(p->ctx) : NULL;

    if (!c || !size_ok(p) || (p->ctx && (!ctx || ctx->id != c->ctx_id)))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->size > SG_BODIES_MAX)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "a conditional node with more than %u graphs",
                       SG_BODIES_MAX);
    pthread_mutex_lock(&sg_graph_lock);
    /* documented: one node per handle */
    r = c->used || !cond_is_of(c, g) ? CUDA_ERROR_INVALID_VALUE
                                     : condition_new(c, g, p->type, p->size, &made);
    if (r == CUDA_SUCCESS)
        r = sg_graph_add(out, hGraph, dependencies, n, CU_GRAPH_NODE_TYPE_CONDITIONAL, NULL, NULL, &node);
    if (r == CUDA_SUCCESS) {
        node->cond = made;
        c->used = true;
        p->phGraph_out = made->handles;
        sg_obj_put(&node->obj);
    } else {
        sg_condition_free(made);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}
