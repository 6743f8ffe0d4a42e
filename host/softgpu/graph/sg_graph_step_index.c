/* SPDX-License-Identifier: MIT */
/*
 * The steps of a program by node handle: sorted at the first look-up, constant afterwards. Programs
 * with the same nodes at the same steps share the index.
 */
#include <stdlib.h>

#include "graph/graph.h"

struct sg_step_index {
    _Atomic uint32_t refs;
    size_t n;
    struct entry {
        uint64_t node;
        size_t step;
    } entry[]; /* by node, then by step */
};

static int by_node(const void *va, const void *vb)
{
    const struct entry *a = va, *b = vb;

    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->step < b->step ? -1 : a->step > b->step;
}

static struct sg_step_index *index_new(const struct sg_program *p)
{
    struct sg_step_index *x = malloc(sizeof(*x) + p->n * sizeof(x->entry[0]));
    bool sorted = true; /* usual for nodes, which were added one after the other */

    if (!x)
        return NULL;
    atomic_init(&x->refs, 1);
    x->n = p->n;
    for (size_t i = 0; i < p->n; i++) {
        x->entry[i] = (struct entry){p->step[i].node, i};
        sorted &= !i || p->step[i - 1].node <= p->step[i].node;
    }
    if (!sorted)
        qsort(x->entry, x->n, sizeof(x->entry[0]), by_node);
    return x;
}

void sg_step_index_put(struct sg_step_index *x)
{
    if (x && atomic_fetch_sub(&x->refs, 1) == 1)
        free(x);
}

void sg_step_index_share(struct sg_program *to, const struct sg_program *from)
{
    sg_step_index_put(to->index);
    to->index = from->index;
    if (to->index)
        atomic_fetch_add(&to->index->refs, 1);
}

/* Linear search, if there is no memory for an index. */
static struct sg_step *find_slowly(struct sg_program *p, uint64_t node)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->step[i].node == node)
            return &p->step[i];
    }
    return NULL;
}

struct sg_step *sg_program_step(struct sg_program *p, uint64_t node)
{
    const struct sg_step_index *x = p->index ? p->index : (p->index = index_new(p));
    size_t lo = 0, hi = x ? x->n : 0;

    if (!x)
        return find_slowly(p, node);
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;

        if (x->entry[mid].node < node)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < x->n && x->entry[lo].node == node ? &p->step[x->entry[lo].step] : NULL;
}
