/* SPDX-License-Identifier: MIT */
/*
 * Conditional nodes: a graph, or one of several graphs, that runs once, in a loop, or not at all,
 * depending on a number set by kernels (cudaGraphSetConditional, an external function in PTX).
 * Kernels name the number by a handle. It lives as long as its graph or anything instantiated from
 * that graph. A graph with such nodes has at most one executable graph, so a single number
 * suffices.
 */
#include <stdlib.h>

#include "graph/condition.h"

static void cond_free(struct sg_obj *obj)
{
    free(obj);
}

void sg_cond_get(struct sg_cond *c)
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
        sg_cond_get(from[i]);
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

/* ---- the state of a node ---- */

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
