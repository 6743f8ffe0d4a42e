/* SPDX-License-Identifier: MIT */
/*
 * The order in which the nodes of a graph become the steps of its program: passes over the nodes in
 * order of creation, each taking the nodes whose dependencies have been taken before. The pass of a
 * node follows from its dependencies, so the work is linear in nodes and edges, not in passes times
 * nodes.
 */
#include <stdlib.h>

#include "graph/graph.h"

struct passes {
    SG_COUNTED struct sg_edges *edges; /* between indexes of nodes, a reference */
    uint32_t *pass;                    /* by node */
    uint32_t *queue;                   /* nodes whose pass is known */
    size_t known;
};

static struct sg_edges *edges_of(const struct sg_graph *g)
{
    struct sg_edges *e;
    size_t n = 0, all = 0;
    uint32_t(*pair)[2];

    for (size_t i = 0; i < g->n; i++)
        all += g->nodes[i]->ndeps;
    pair = malloc((all + 1) * sizeof(*pair));
    if (!pair)
        return NULL;
    for (size_t i = 0; i < g->n; i++) {
        for (size_t k = 0; k < g->nodes[i]->ndeps; k++) {
            pair[n][0] = (uint32_t)g->nodes[i]->deps[k]->index;
            pair[n++][1] = (uint32_t)i;
        }
    }
    e = sg_edges_new((const uint32_t(*)[2])pair, n, g->n);
    free(pair);
    return e;
}

/* Nodes in or behind a cycle never get a pass. */
static void find_passes(struct passes *p, size_t n)
{
    uint32_t *left = p->edges->waits;

    for (size_t i = 0; i < n; i++) {
        if (!left[i])
            p->queue[p->known++] = (uint32_t)i;
    }
    for (size_t head = 0; head < p->known; head++) {
        const uint32_t from = p->queue[head];

        for (uint32_t k = p->edges->first[from]; k < p->edges->first[from + 1]; k++) {
            const uint32_t to = p->edges->next[k];
            /* this pass has already gone past `to` */
            const uint32_t pass = p->pass[from] + (from > to);

            p->pass[to] = pass > p->pass[to] ? pass : p->pass[to];
            if (!--left[to])
                p->queue[p->known++] = to;
        }
    }
}

/* Sorts by pass, then by index; `place` has one entry more than there are passes. */
static void sort_known(const struct passes *p, size_t n, uint32_t *place, uint32_t *order)
{
    for (size_t i = 0; i < p->known; i++)
        place[p->pass[p->queue[i]] + 1]++;
    for (size_t i = 1; i <= n; i++)
        place[i] += place[i - 1];
    for (size_t i = 0; i < n; i++) {
        if (!p->edges->waits[i])
            order[place[p->pass[i]]++] = (uint32_t)i;
    }
}

uint32_t *sg_graph_order(const struct sg_graph *g, size_t *n)
{
    struct passes p = {.edges = edges_of(g)};
    uint32_t *order = malloc((g->n + 1) * sizeof(*order)), *place = calloc(g->n + 2, sizeof(*place));

    p.pass = calloc(g->n + 1, sizeof(*p.pass));
    p.queue = malloc((g->n + 1) * sizeof(*p.queue));
    if (p.edges && order && place && p.pass && p.queue) {
        find_passes(&p, g->n);
        sort_known(&p, g->n, place, order);
        *n = p.known;
    } else {
        free(order);
        order = NULL;
    }
    sg_edges_put(p.edges);
    free(p.pass);
    free(p.queue);
    free(place);
    return order;
}
