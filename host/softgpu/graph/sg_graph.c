/* SPDX-License-Identifier: MIT */
/* Graphs, and the programs compiled from them. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* ---- graphs ---- */

static void graph_leave_family(struct sg_graph *g)
{
    if (--g->family->graphs == 0)
        free(g->family);
}

static void graph_free(struct sg_obj *obj)
{
    struct sg_graph *g = (struct sg_graph *)obj;

    pthread_mutex_lock(&sg_graph_lock);
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++)
        sg_node_leave(g->nodes[i]);
    sg_urefs_clear(&g->urefs);
    sg_cond_drop_all(g->conds, g->nconds);
    graph_leave_family(g);
    pthread_mutex_unlock(&sg_graph_lock);
    free(g->nodes);
    free(g);
}

struct sg_graph *sg_graph_new(void)
{
    static _Atomic uint64_t next_id = 1;
    struct sg_graph *g = calloc(1, sizeof(*g));

    if (!g || !(g->family = calloc(1, sizeof(*g->family)))) {
        free(g);
        return NULL;
    }
    g->family->graphs = 1;
    g->id = atomic_fetch_add(&next_id, 1);
    sg_obj_init(&g->obj, SG_T_GRAPH, NULL, graph_free);
    if (!sg_obj_register(&g->obj)) {
        sg_obj_put(&g->obj);
        return NULL;
    }
    return g;
}

/* The graphs below a node: its child, or those of its condition. NULL: no further graph. */
static struct sg_graph *graph_below(const struct sg_node *n, unsigned i)
{
    if (n->child)
        return i == 0 ? n->child : NULL;
    return n->cond && i < n->cond->size ? n->cond->body[i] : NULL;
}

struct sg_graph_contents sg_graph_contents(const struct sg_graph *g)
{
    struct sg_graph_contents all = {g->has_memory, g->nconds != 0, 0};
    struct sg_graph *sub;

    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++) {
        all.condition |= g->nodes[i]->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
        for (unsigned k = 0; (sub = graph_below(g->nodes[i], k)) != NULL; k++) {
            const struct sg_graph_contents c = sg_graph_contents(sub);

            all.memory |= c.memory;
            all.condition |= c.condition;
            all.height = c.height + 1 > all.height ? c.height + 1 : all.height;
        }
    }
    return all;
}

static void graph_set_family(struct sg_graph *g, struct sg_graph_family *family, unsigned level)
{
    struct sg_graph *sub;

    if (g->family != family) {
        g->family->nodes -= g->n;
        graph_leave_family(g);
        g->family = family;
        family->graphs++;
        family->nodes += g->n;
    }
    g->level = level;
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++) {
        for (unsigned k = 0; (sub = graph_below(g->nodes[i], k)) != NULL; k++)
            graph_set_family(sub, family, level + 1);
    }
}

CUresult sg_graph_may_attach(const struct sg_graph *g, const struct sg_graph *above)
{
    if (above->level + 1 + sg_graph_contents(g).height >= SG_NEST_MAX)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "graphs nested deeper than %d", SG_NEST_MAX);
    return sg_graph_family_size(g) + sg_graph_family_size(above) < SG_GRAPH_MAX ? CUDA_SUCCESS
                                                                                : sg_graph_too_large();
}

CUresult sg_graph_attach(struct sg_graph *g, const struct sg_graph *above)
{
    const CUresult r = sg_graph_may_attach(g, above);

    if (r == CUDA_SUCCESS) {
        g->owned = true;
        graph_set_family(g, above->family, above->level + 1);
    }
    return r;
}

/* ---- programs ---- */

static void program_free(struct sg_program *p)
{
    sg_edges_put(p->edges);
    sg_step_index_put(p->index);
    for (size_t i = 0; i < p->n; i++)
        sg_graph_op_put(p->step[i].gop);
    sg_urefs_clear(&p->urefs);
    pthread_mutex_lock(&sg_graph_lock);
    for (size_t i = 0; i < p->n; i++)
        sg_graph_memory_put(p->step[i].mem);
    sg_cond_drop_all(p->conds, p->nconds);
    pthread_mutex_unlock(&sg_graph_lock);
    free(p);
}

void sg_program_put(struct sg_program *p)
{
    if (p && atomic_fetch_sub(&p->refs, 1) == 1)
        program_free(p);
}

struct sg_program *sg_program_copy(const struct sg_program *p)
{
    struct sg_program *c = calloc(1, sizeof(*c) + p->n * sizeof(p->step[0]));

    if (!c)
        return NULL;
    atomic_init(&c->refs, 1);
    if (!sg_urefs_copy(&c->urefs, &p->urefs) ||
        !sg_cond_hold_all(&c->conds, &c->nconds, p->conds, p->nconds)) {
        sg_program_put(c);
        return NULL;
    }
    c->n = p->n;
    c->events = p->events;
    c->levels = p->levels;
    c->steps = p->steps;
    c->memory = p->memory;
    c->wide = p->wide;
    memcpy(c->peak, p->peak, sizeof(c->peak));
    c->edges = p->edges;
    if (c->edges)
        atomic_fetch_add(&c->edges->refs, 1);
    sg_step_index_share(c, p);
    for (size_t i = 0; i < p->n; i++) {
        c->step[i] = p->step[i];
        if (c->step[i].gop)
            sg_graph_op_get(c->step[i].gop);
        sg_graph_memory_get(c->step[i].mem);
    }
    return c;
}

CUresult sg_program_check_levels(unsigned levels)
{
    return levels <= SG_GRAPH_LEVELS_MAX
               ? CUDA_SUCCESS
               : sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                         "more than %u graphs within each other, those of captured launches counted",
                         SG_GRAPH_LEVELS_MAX);
}

unsigned sg_program_level(const struct sg_program *p, size_t step)
{
    unsigned level = 0;

    for (size_t i = 0; i < step;) {
        const bool above = step - i <= p->step[i].child;

        /* A conditional node and the head of a body count as a single level. */
        level += above && p->step[i].node;
        i += above ? 1 : 1 + p->step[i].child;
    }
    return level;
}

static size_t count_steps(const struct sg_graph *g, unsigned depth)
{
    size_t n = g->n;

    sg_graph_settle(g);
    for (size_t i = 0; depth < SG_NEST_MAX && i < g->n; i++) {
        const struct sg_condition *c = g->nodes[i]->cond;

        if (g->nodes[i]->child)
            n += count_steps(g->nodes[i]->child, depth + 1);
        for (unsigned b = 0; c && b < c->size; b++)
            n += 1 + count_steps(c->body[b], depth + 1);
    }
    return n;
}

struct flat {
    SG_LENT struct sg_program *p;
    uint64_t bad;        /* a node of a cycle, or that its graph may not have */
    uint32_t (*pair)[2]; /* edges between steps: from, to */
    size_t npairs, cap;
    uint64_t conds; /* number of the list of conditions */
    bool wide;      /* some level is no chain */
};

static bool note_edge(struct flat *f, size_t from, size_t to)
{
    if (f->npairs == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 64;
        uint32_t(*grown)[2] = realloc(f->pair, cap * sizeof(*grown));

        if (!grown)
            return false;
        f->pair = grown;
        f->cap = cap;
    }
    f->pair[f->npairs][0] = (uint32_t)from;
    f->pair[f->npairs++][1] = (uint32_t)to;
    return true;
}

/* wide: set when the nodes of g are no chain. */
static CUresult flatten_graph(struct sg_graph *g, struct flat *f, unsigned depth, bool *wide);

/* The graphs below a node follow its step. */
static CUresult append_child_graphs(struct sg_node *n, struct flat *f, size_t at, unsigned depth)
{
    struct sg_program *p = f->p;
    CUresult r = n->child ? flatten_graph(n->child, f, depth + 1, &p->step[at].wide) : CUDA_SUCCESS;

    for (unsigned b = 0; n->cond && b < n->cond->size && r == CUDA_SUCCESS; b++) {
        size_t head = p->n++;

        p->step[head].type = CU_GRAPH_NODE_TYPE_GRAPH;
        p->step[head].other = SIZE_MAX;
        r = flatten_graph(n->cond->body[b], f, depth + 1, &p->step[head].wide);
        p->step[head].child = (uint32_t)(p->n - head - 1);
    }
    p->step[at].child = (uint32_t)(p->n - at - 1);
    for (size_t i = at + 1; i < p->n; i++)
        p->step[at].waits |= p->step[i].waits;
    return r;
}

static uint64_t mix_hash(uint64_t v)
{
    v = (v ^ (v >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return v ^ (v >> 29);
}

/*
 * Appends the step of a node whose dependencies already have steps. first: start of its graph;
 * *last: the previous unit, SIZE_MAX: none; *wide: set if the step does not wait for that unit.
 */
static CUresult append_node(struct sg_node *n, struct flat *f, size_t first, size_t *last, bool *wide,
                            unsigned depth)
{
    bool follows = *last == SIZE_MAX;
    struct sg_program *p = f->p;
    size_t at = p->n++;
    struct sg_step *st = &p->step[at];

    *st = (struct sg_step){
        .gop = n->gop, .type = n->type, .node = n->obj.handle, .mem = n->mem, .other = SIZE_MAX};
    sg_graph_op_get(n->gop);
    sg_graph_memory_get(n->mem);
    n->pos = at;
    if (n->graph->body && n->type == CU_GRAPH_NODE_TYPE_HOST) {
        f->bad = n->obj.handle;
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "a host function in the graph of a conditional node");
    }
    for (size_t k = 0; k < n->ndeps; k++) { /* in whatever order they are listed */
        CUgraphEdgeData e = sg_node_edge(n, k);

        st->edges += mix_hash((n->deps[k]->pos - first + 1) << 16 | e.type << 8 | e.from_port);
        follows |= n->deps[k]->pos == *last;
        if (!note_edge(f, n->deps[k]->pos, at))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *last = at;
    *wide |= !follows;
    f->wide |= !follows;
    st->waits = n->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    if (n->cond) {
        /* The handle may belong to another graph, which can end first. */
        if (!sg_cond_hold(&p->conds, &p->nconds, f->conds, n->cond->cond))
            return CUDA_ERROR_OUT_OF_MEMORY;
        st->cond = n->cond->cond;
        st->cond_type = n->cond->type;
        st->cond_size = n->cond->size;
    }
    if (n->type == CU_GRAPH_NODE_TYPE_GRAPH && n->gop->op) { /* a launch that was captured */
        const unsigned levels = depth + 1 + sg_graph_op_program(n->gop->op)->levels;

        p->levels = levels > p->levels ? levels : p->levels;
        p->steps += sg_graph_op_program(n->gop->op)->steps;
    }
    p->memory |= n->mem != NULL;
    p->events |= n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || n->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT ||
                 (n->type == CU_GRAPH_NODE_TYPE_GRAPH && n->gop->op);
    n->mark = true;
    return n->child || n->cond ? append_child_graphs(n, f, at, depth) : CUDA_SUCCESS;
}

/* Appends g's nodes in an order that respects its edges; among the possible nodes, in order of
   creation. */
static CUresult flatten_graph(struct sg_graph *g, struct flat *f, unsigned depth, bool *wide)
{
    size_t done = 0, first = f->p->n, last = SIZE_MAX;
    CUresult r = CUDA_SUCCESS;
    uint32_t *order;

    if (depth == SG_NEST_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (f->p->levels < depth + 1)
        f->p->levels = depth + 1;
    if (!sg_urefs_append(&f->p->urefs, &g->urefs))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->nconds; i++) {
        if (!sg_cond_hold(&f->p->conds, &f->p->nconds, f->conds, g->conds[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++)
        g->nodes[i]->mark = false;
    order = sg_graph_order(g, &done);
    if (!order)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < done && r == CUDA_SUCCESS; i++)
        r = append_node(g->nodes[order[i]], f, first, &last, wide, depth);
    free(order);
    if (r != CUDA_SUCCESS)
        return r;
    for (size_t i = 0; i < g->n && !f->bad; i++)
        f->bad = g->nodes[i]->mark ? 0 : g->nodes[i]->obj.handle;
    return done == g->n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Finds for each allocation the step that frees it. */
static void match_memory(struct sg_program *p)
{
    for (size_t i = 0; p->memory && i < p->n; i++) {
        if (p->step[i].mem)
            p->step[i].mem->step = SIZE_MAX;
    }
    for (size_t i = 0; p->memory && i < p->n; i++) {
        struct sg_graph_memory *m = p->step[i].mem;

        if (m && p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            m->step = i;
        } else if (m && m->step != SIZE_MAX) {
            p->step[m->step].other = i;
            p->step[i].other = m->step;
            m->step = SIZE_MAX;
        }
    }
}

CUresult sg_program_new(struct sg_graph *g, struct sg_program **out, CUgraphInstantiateResult *why,
                        uint64_t *bad)
{
    size_t n = count_steps(g, 0);
    struct flat f = {.p = calloc(1, sizeof(*f.p) + n * sizeof(f.p->step[0])), .conds = sg_cond_list_new()};
    CUgraphInstantiateResult reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    CUresult r;

    if (!f.p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    atomic_init(&f.p->refs, 1);
    f.p->steps = n;
    r = flatten_graph(g, &f, 0, &f.p->wide);
    sg_urefs_sort(&f.p->urefs);
    if (r == CUDA_SUCCESS)
        r = sg_program_check_levels(f.p->levels);
    if (r == CUDA_SUCCESS && f.p->steps > SG_GRAPH_MAX)
        r = sg_graph_too_large();
    if (r == CUDA_SUCCESS && f.wide &&
        !(f.p->edges = sg_edges_new((const uint32_t(*)[2])f.pair, f.npairs, f.p->n)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    free(f.pair);
    if (r != CUDA_SUCCESS)
        reason = f.bad ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE : CUDA_GRAPH_INSTANTIATE_ERROR;
    for (size_t i = 0; r == CUDA_SUCCESS && i < f.p->nconds; i++) {
        if (sg_cond_unused(f.p->conds[i])) {
            reason = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
            r = sg_fail(CUDA_ERROR_INVALID_VALUE, "a conditional handle has no node");
        }
    }
    if (why)
        *why = reason;
    if (bad)
        *bad = f.bad;
    if (r != CUDA_SUCCESS) {
        sg_program_put(f.p);
        return r;
    }
    match_memory(f.p);
    if (!sg_graph_memory_find_peak(f.p)) {
        sg_program_put(f.p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = f.p;
    return CUDA_SUCCESS;
}
