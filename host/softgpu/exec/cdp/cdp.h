/* SPDX-License-Identifier: MIT */
/* Kernels that launch kernels: shared declarations of the device runtime's handlers. */
#ifndef SG_EXEC_CDP_H
#define SG_EXEC_CDP_H

#include "exec/ops/handler.h"

#include <pthread.h>

/* cudaError_t values */
#define E_INVALID 1u
#define E_MEMORY 2u
#define E_CONFIGURATION 9u
#define E_DEPTH 65u
#define E_PENDING 69u /* cudaErrorLaunchPendingCountExceeded */
#define E_PITCH 12u   /* cudaErrorInvalidPitchValue */
#define E_FUNCTION 98u
#define E_NOT_SUPPORTED 801u
#define STREAM_TAIL 3u /* cudaStreamTailLaunch */

#define CDP_ENTRY_COST 64u /* of reading an entry of a list, in bytes copied (sg_charge()) */

/* A kernel, or a copy or memset when kernel is NULL. */
struct sg_child {
    struct sg_child *next;
    struct sg_kernel *kernel;
    uint64_t to, from;                            /* addresses */
    uint64_t to_pitch, from_pitch, width, height; /* rows and their distances, bytes */
    uint64_t to_slice, from_slice, slices;        /* slices of `height` rows and their distances, bytes */
    int value;                                    /* -1: a copy */
    /* name until the launch: the parameter buffer of a kernel, in the device heap; an odd number for memory */
    uint64_t buffer;
    u32 grid[3], block[3], dynamic;
    bool tail;
    uint8_t *params;
};

struct sg_children {
    pthread_mutex_t lock;
    struct sg_cdp_error *errors;
    struct sg_child *waiting; /* have a buffer, are not launched */
    struct sg_child *first, **last;
    u32 n, nerrors, depth;
    u32 *total;      /* atomic: `n` of all grids of the tree */
    uint64_t *taken; /* warp instructions of the whole tree */
    uint64_t streams, rects;
};

/* The last error of a thread. Errors are rare: a list. */
struct sg_cdp_error {
    struct sg_cdp_error *next;
    u32 ctaid[3], tid[3], code;
};

/* ---- exec/cdp/sg_cdp_children.c ---- */

/* Counts another child. Returns false if there are too many. Under the lock. */
bool sg_cdp_count(const struct sg_launch *l, struct sg_children *k);
/* Takes the count of a child back. Under the lock. */
void sg_cdp_uncount(struct sg_children *k);
void sg_child_free(struct sg_child *c);
/* The link to the waiting kernel, or operation on memory, with this buffer. NULL: none. Adds the cost of the
   search, in bytes copied. Under the lock. */
struct sg_child **sg_cdp_waiting(struct sg_children *k, uint64_t buffer, bool kernel, u64 *cost);
/* Stores code, unless it is 0, as the last error of the thread, and returns it. Adds the cost of the search. */
u32 sg_cdp_error(struct sg_warp *w, u32 lane, u32 code, u64 *cost);
/* The last error of the thread, 0: none. reset: it becomes 0. Adds the cost of the search. */
u32 sg_cdp_last_error(struct sg_warp *w, u32 lane, bool reset, u64 *cost);
/* Writes n bytes, a multiple of 4, through the thread's pointer. Returns false after a fault. */
bool sg_cdp_put(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 at, const void *from, u32 n);

/* 0 if the children of a grid may continue after `taken` instructions of the tree, else the error. For use between
   grids: a running grid checks its limits itself. */
int sg_cdp_may_go_on(const struct sg_launch *l, struct sg_fault *fault, uint64_t taken);

/* ---- exec/cdp/sg_cdp_memory.c: copies and memsets ---- */

/* Adds to *taken, for each row, the instructions that a kernel would need to store it. */
int sg_cdp_run_memory(const struct sg_launch *l, struct sg_fault *fault, const struct sg_child *c,
                      uint64_t *taken);

#endif
