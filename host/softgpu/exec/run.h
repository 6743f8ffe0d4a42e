/* SPDX-License-Identifier: MIT */
/* A launch in progress: state shared by the thread pool and the code that runs blocks. */
#ifndef SG_EXEC_RUN_H
#define SG_EXEC_RUN_H

#include "exec/core.h"

struct sg_run {
    const struct sg_launch *l;
    struct sg_kernel *k;
    const struct sg_code *code;       /* of the kernel, for blocks of this size */
    const char *(*op_name)(sg_fn fn); /* sg_op_name(), for messages of faults */
    uint64_t total;                   /* number of blocks, or of clusters */
    uint32_t cluster[3];              /* blocks of a cluster in each dimension, 1,1,1 without clusters */
    uint32_t cluster_size;
    bool explicit_cluster; /* the launch or its kernel sets the cluster size */
    uint8_t *workspace;    /* workspace of a cooperative launch */
    uint32_t nworkers;
    uint32_t nsm; /* %nsmid: number of multiprocessors of the device */
    /* Fields that workers write every few blocks, and fields read for each block, have cache
       lines of their own. */
    _Alignas(64) uint64_t next; /* atomic: next block */
    uint64_t icount;            /* atomic */
    uint64_t cpu_ns;            /* atomic; CPU time of all workers, ns, if profiling */
    _Alignas(64) int stop;      /* atomic */
    uint32_t active, joined;    /* written under the pool's lock, also read without it */
    pthread_mutex_t fault_lock;
    struct sg_fault fault;
    uint64_t fault_block;
    bool faulted;
    struct sg_run *link; /* link of the pool's list */
};

/*
 * Run blocks on the calling thread until none is left. worker: its number, from 0, below run->nworkers.
 * apart: one block after the other (exec/sg_block.c); together: blocks that wait for each other
 * (exec/sg_together.c).
 */
void sg_run_apart(struct sg_run *run, uint32_t worker);
void sg_run_together(struct sg_run *run, uint32_t worker);
/* Frees the buffers of the thread that are larger than what a thread keeps between launches. */
void sg_arena_trim(void);

/* ---- exec/sg_block.c: one block ---- */

/*
 * Memory of a launch's blocks, owned by the thread. It has two parts: a kernel can read what an
 * earlier launch left in its registers (a lane can read stale values of lanes that never set them),
 * so registers lie where no host pointer was ever stored.
 */
struct sg_layout {
    /* Bytes per block: registers, local and shared memory, each starting on a cache line. */
    size_t local, stack, shared, tensor, total;
    /* Bytes per block of host state: struct sg_cta and, at offset `warps`, its warps. */
    size_t warps, own_total;
    uint32_t nwarps;
    uint32_t local_bytes, stack_words; /* bytes and words per thread */
    uint8_t *mem, *own;                /* memory of block 0; the other blocks follow */
};
/* Fills y and allocates memory for n blocks of the launch. Returns false, with the launch
   failed, if that is too much. */
bool sg_block_memory(struct sg_run *run, struct sg_layout *y, uint64_t n);
/* Initialises block i of that memory; then, for each block of the grid that it executes: sets
   the position and resets the state. */
struct sg_cta *sg_block_place(const struct sg_layout *y, uint64_t i, struct sg_run *run, uint32_t worker,
                              struct sg_fault *fault);
void sg_block_start(struct sg_cta *c, const uint32_t ctaid[3]);
/* Called between time slices: true if the launch has ended elsewhere. started: the block has
   begun. */
bool sg_block_must_stop(struct sg_run *run, struct sg_cta *c, bool started);
/* Fails the launch with a fault in that block of the grid. */
void sg_run_fault(struct sg_run *run, const struct sg_fault *f, uint64_t block);
/* Takes a block, or a cluster, of the launch that has not begun, so that it does not run; first: the position of its
   first block. Returns false if there is none. */
bool sg_block_cancel(struct sg_cta *c, uint32_t first[3]);
/* Saves state of the block for the thread's next launch of the kernel. */
void sg_block_remember(const struct sg_cta *c);

#endif
