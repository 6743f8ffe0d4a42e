/* SPDX-License-Identifier: MIT */
/* One launch under way: what the pool of threads and the thread that runs blocks share. */
#ifndef SG_EXEC_RUN_H
#define SG_EXEC_RUN_H

#include "exec/core.h"

struct sg_run {
    const struct sg_launch *l;
    struct sg_kernel *k;
    uint64_t total;     /* blocks */
    uint8_t *workspace; /* of a cooperative launch */
    uint32_t nworkers;
    uint32_t nsm; /* %nsmid: multiprocessors of the device */
    /* What workers change with every few blocks, and what they read with each, is on lines of its own. */
    _Alignas(64) uint64_t next; /* atomic: next block */
    uint64_t icount;            /* atomic */
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

#endif
