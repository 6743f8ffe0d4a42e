/* SPDX-License-Identifier: MIT */
/*
 * Blocks that a thread runs concurrently because they wait for each other: the blocks of a cluster
 * or, in a cooperative launch, all blocks of the thread. They are resident and scheduled
 * round-robin. A cluster is never split, so its shared memory belongs to one thread, like that of a
 * block.
 */
#include "exec/run.h"
#include "exec/code.h"
#include "exec/profile.h"

#include <sched.h>

static struct sg_cta *block_at(const struct sg_layout *y, uint64_t i)
{
    return (struct sg_cta *)(void *)(y->own + i * y->own_total);
}

/* Makes n blocks, which are whole clusters. */
static void make_blocks(struct sg_run *run, uint32_t worker, const struct sg_layout *y, uint64_t n,
                        struct sg_fault *fault)
{
    for (uint64_t i = 0; i < n; i++) {
        struct sg_cta *c = sg_block_place(y, i, run, worker, fault);

        c->cluster_rank = (uint32_t)(i % run->cluster_size);
        c->cluster = block_at(y, i - c->cluster_rank);
        c->cluster_stride = y->own_total;
        c->cluster_size = run->cluster_size;
    }
}

/* Initialises the blocks from `first` on as cluster number u of the grid; no block runs before
   all are initialised. */
static void start_cluster(const struct sg_run *run, struct sg_cta *first, uint64_t u)
{
    const uint32_t *size = run->cluster;
    const uint32_t nx = run->l->grid[0] / size[0], ny = run->l->grid[1] / size[1];
    const uint32_t id[3] = {(uint32_t)(u % nx), (uint32_t)(u / nx % ny), (uint32_t)(u / nx / ny)};

    for (uint32_t r = 0; r < run->cluster_size; r++) {
        const uint32_t in[3] = {r % size[0], r / size[0] % size[1], r / size[0] / size[1]};
        struct sg_cta *c = sg_cluster_block(first, r);
        uint32_t ctaid[3];

        for (int k = 0; k < 3; k++) {
            c->clusterid[k] = id[k];
            c->cluster_ctaid[k] = in[k];
            ctaid[k] = id[k] * size[k] + in[k];
        }
        sg_block_start(c, ctaid);
    }
}

static uint64_t block_number(const struct sg_run *run, const struct sg_cta *c)
{
    return c->ctaid[0] + (uint64_t)run->l->grid[0] * (c->ctaid[1] + (uint64_t)run->l->grid[1] * c->ctaid[2]);
}

/* Runs n blocks to their end; false: the launch has ended before. */
static bool run_blocks(struct sg_run *run, const struct sg_layout *y, uint64_t n)
{
    uint64_t done = 0;

    while (done < n) {
        for (uint64_t i = 0; i < n; i++) {
            struct sg_cta *c = block_at(y, i);
            int r;

            if (!c->alive)
                continue;
            r = sg_cta_slice(c);
            if (r == SG_FAULTED)
                sg_run_fault(run, c->fault, block_number(run, c));
            if (sg_block_must_stop(run, c, true))
                return false;
            done += r == SG_NEXT;
        }
        if (run->l->cooperative && run->nworkers > 1)
            sched_yield();
    }
    return true;
}

void sg_run_together(struct sg_run *run, uint32_t worker)
{
    const bool all = run->l->cooperative; /* this worker has clusters worker, worker + nworkers, ... */
    struct sg_fault fault;
    struct sg_layout y;
    uint64_t n = 1, u;

    if (worker >= run->total)
        return;
    if (all)
        n = (run->total - worker + run->nworkers - 1) / run->nworkers;
    if (n > UINT32_MAX)
        n = UINT32_MAX; /* exceeds the memory */
    if (!sg_block_memory(run, &y, n * run->cluster_size))
        return;
    make_blocks(run, worker, &y, n * run->cluster_size, &fault);
    for (uint64_t i = 0; i < n && all; i++)
        start_cluster(run, block_at(&y, i * run->cluster_size), worker + i * run->nworkers);
    if (all)
        run_blocks(run, &y, n * run->cluster_size);
    while (!all && (u = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED)) < run->total &&
           !sg_block_must_stop(run, block_at(&y, 0), false)) {
        start_cluster(run, block_at(&y, 0), u);
        if (!run_blocks(run, &y, run->cluster_size))
            break;
    }
    sg_block_remember(block_at(&y, 0));
    for (uint64_t i = 0; i < n * run->cluster_size && sg_profile_on(); i++)
        __atomic_add_fetch(&run->icount, block_at(&y, i)->icount, __ATOMIC_RELAXED);
}
