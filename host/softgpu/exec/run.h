/* SPDX-License-Identifier: MIT */
/* One launch under way: what the pool of threads and the thread that runs blocks share. */
#ifndef SG_EXEC_RUN_H
#define SG_EXEC_RUN_H

#include "exec/core.h"

struct sg_run {
    const struct sg_launch *l;
    struct sg_kernel *k;
    uint64_t total;      /* blocks, or clusters */
    uint32_t cluster[3]; /* blocks of a cluster in each dimension, 1,1,1 without clusters */
    uint32_t cluster_size;
    bool explicit_cluster; /* the launch or its kernel said so */
    uint8_t *workspace;    /* of a cooperative launch */
    uint32_t nworkers;
    uint32_t nsm; /* %nsmid: multiprocessors of the device */
    /* What workers change with every few blocks, and what they read with each, is on lines of its own. */
    _Alignas(64) uint64_t next; /* atomic: next block */
    uint64_t icount;            /* atomic */
    uint64_t cpu_ns;            /* atomic; of all workers, when a profile is made */
    _Alignas(64) int stop;      /* atomic */
    uint32_t active, joined;    /* changed under the pool's lock, read without it as well */
    pthread_mutex_t fault_lock;
    struct sg_fault fault;
    uint64_t fault_block;
    bool faulted;
    struct sg_run *link; /* of the pool */
};

/* Runs blocks until none is left, on the calling thread. worker: its number, from 0, below run->nworkers. */
void sg_run_part(struct sg_run *run, uint32_t worker);
/* The same where several blocks are under way at once (exec/together.c). */
void sg_run_together(struct sg_run *run, uint32_t worker);

/* ---- exec/block.c: one block ---- */

/*
 * Memory of the blocks of a launch, which the thread keeps. It is two: a kernel can read what an earlier launch left
 * in its registers (a lane those of lanes that never set them), so registers lie where no pointer of ours ever was.
 */
struct sg_layout {
    /* Bytes of one block: registers, local and shared memory, each on a cache line. */
    size_t local, stack, shared, total;
    /* The same of what is ours: struct sg_cta and, from `warps` on, its warps. */
    size_t warps, own_total;
    uint32_t nwarps;
    uint32_t local_bytes, stack_words; /* per thread */
    uint8_t *mem, *own;                /* of block 0; the others follow */
};
/* Fills y, with memory for n blocks of the launch; false, the launch has failed: too many. */
bool sg_block_memory(struct sg_run *run, struct sg_layout *y, uint64_t n);
/* Makes block i of those; then, for each block of the grid that it is to be: its place, and it is as new. */
struct sg_cta *sg_block_place(const struct sg_layout *y, uint64_t i, struct sg_run *run, uint32_t worker,
                              struct sg_fault *fault);
void sg_block_start(struct sg_cta *c, const uint32_t ctaid[3]);
/* Between time slices: true if the launch was ended elsewhere. started: the block has begun. */
bool sg_block_must_stop(struct sg_run *run, struct sg_cta *c, bool started);
/* The launch has failed in that block of the grid. */
void sg_run_fault(struct sg_run *run, const struct sg_fault *f, uint64_t block);
/* What the block remembers for the thread's next launch of the kernel. */
void sg_block_remember(const struct sg_cta *c);

#endif
