/* SPDX-License-Identifier: MIT */
/* Adds conditional nodes, with the graphs that belong to them. */
#include <stdlib.h>

#include "graph/condition.h"

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
    sg_cond_get(cond);
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
