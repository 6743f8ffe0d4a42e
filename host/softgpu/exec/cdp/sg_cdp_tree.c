/* SPDX-License-Identifier: MIT */
/*
 * Kernels that launch kernels. A grid keeps a list of the launches of its threads. When all its
 * blocks are done, the children run, each followed by its own children, with those of the tail
 * stream last; then the grid is complete, as defined by the guide. A kernel cannot wait for a child
 * (CUDA 12 has no such call), so programs cannot distinguish this from children that run
 * concurrently.
 */
#include "exec/cdp/cdp.h"

#include <stdlib.h>
#include <string.h>

void sg_tree_count(const struct sg_launch *l, uint64_t instructions)
{
    *l->children->taken += instructions + 1;
}

static int run_with_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid, u32 depth,
                             u32 *total, uint64_t *taken);

static int run_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid,
                        struct sg_children *k, bool tail)
{
    int r = 0;

    for (struct sg_child *c = k->first; c && !r; c = c->next) {
        struct sg_launch one = *l;

        if (c->tail != tail)
            continue;
        r = sg_cdp_may_go_on(l, fault, *k->taken);
        if (r)
            break;
        if (!c->kernel) {
            r = sg_cdp_run_memory(l, fault, c, k->taken);
            continue;
        }
        one.kernel = c->kernel;
        memcpy(one.grid, c->grid, sizeof(one.grid));
        memcpy(one.block, c->block, sizeof(one.block));
        one.dynamic_shared = c->dynamic;
        one.params = c->params;
        memset(one.cluster, 0, sizeof(one.cluster)); /* use the kernel's own size */
        one.cooperative = false;
        r = run_with_children(&one, fault, grid, k->depth + 1, k->total, k->taken);
    }
    return r;
}

static int run_with_children(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid, u32 depth,
                             u32 *total, uint64_t *taken)
{
    struct sg_children k = {.depth = depth, .total = total, .taken = taken};
    struct sg_launch with = *l;
    int r;

    k.last = &k.first;
    pthread_mutex_init(&k.lock, NULL);
    with.children = &k;
    if (l->max_instructions) /* the caller has checked that launches are left */
        with.max_instructions = l->max_instructions - *taken;
    r = grid(&with, fault);
    if (!r && k.first)
        r = run_children(l, fault, grid, &k, false);
    if (!r && k.first)
        r = run_children(l, fault, grid, &k, true);
    __atomic_sub_fetch(total, k.n, __ATOMIC_RELAXED);
    for (struct sg_child *c; (c = k.first ? k.first : k.waiting) != NULL; sg_child_free(c)) {
        if (k.first)
            k.first = c->next;
        else
            k.waiting = c->next;
    }
    for (struct sg_cdp_error *e; (e = k.errors) != NULL; free(e))
        k.errors = e->next;
    pthread_mutex_destroy(&k.lock);
    return r;
}

int sg_run_tree(const struct sg_launch *l, struct sg_fault *fault, sg_run_grid *grid)
{
    uint64_t taken = 0;
    u32 total = 0;

    return run_with_children(l, fault, grid, 0, &total, &taken);
}
