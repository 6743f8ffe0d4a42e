/* SPDX-License-Identifier: MIT */
/* Versions of blocks that are compiled when they first run, and settled ones (jit/late.h); for jit/sg_jit_late.c and
   jit/sg_jit_settled.c. */
#ifndef SG_JIT_LATE_STATE_H
#define SG_JIT_LATE_STATE_H

#include "jit/state.h"

#include <pthread.h>

#define LATE_MASKED (JIT_VERSIONS - 1)  /* versions of a block: JIT_SOME and JIT_LOW */
#define LATE_VERSIONS (LATE_MASKED + 1) /* and the settled one */

/* A version that was compiled. */
struct late_code {
    void *at;
    size_t bytes;
};

/* What a block's settled version is compiled from. */
struct late_settle {
    u32 sites;                /* number of loads from sums before the block's */
    u32 nsites;               /* of its own; 0: there is no settled version */
    struct sg_affine *affine; /* of the block's code for affine values; or NULL */
    u64 usual; /* the address of the block's code without it; an offset until the code has its place */
    u32 passes, known; /* runs of the block so far; those with known lanes */
    /* Lane 0 of the registers when warp 0 first came here in a block of a launch, per 128 bytes, and whether they
       differed in another one. `first` is NULL before. */
    u64 *first;
    u8 *moves;
    u64 block;
    bool others; /* there was another block */
};

struct sg_late {
    pthread_mutex_t lock; /* of all below but `entry` and `failed` */
    struct sg_code *code;
    struct sg_insn
        *insns; /* the instructions as decoded, of which native code replaced some; NULL: not needed yet */
    u32 nblocks;
    u32 *first;                 /* per block: its first instruction, ascending */
    _Atomic u64 *entry;         /* addresses: of all blocks for JIT_SOME, then for JIT_LOW, then settled */
    u64 *all;                   /* per block: its address for all lanes */
    struct late_settle *settle; /* per block */
    struct site *sites;
    const u8 *common[JIT_COMMON];
    _Atomic bool failed; /* missing code is interpreted */
    bool avx2;
    struct jit j; /* initial state of a compilation */
    struct late_code *codes;
    u32 ncodes, cap_codes;
};

/* The number of the block that begins at insn. */
static inline u32 sg_late_block(const struct sg_late *l, u32 insn)
{
    u32 low = 0, high = l->nblocks;

    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;

        *(l->first[middle] <= insn ? &low : &high) = middle;
    }
    return low;
}

/* Under the lock: whether to compile the block's settled version for the lanes of w now; *never: it makes no sense at any time. */
bool sg_jit_settled_may(const struct sg_late *l, struct late_settle *s, const struct sg_warp *w, bool *never);
/* Compares the registers with those of other blocks of the launch (s->moves); under the lock. */
void sg_jit_settled_watch(const struct sg_late *l, struct late_settle *s, const struct sg_warp *w);
/* Goes to the block's usual code unless w->lie is as the settled code needs it. */
void sg_jit_settled_compare(struct jit *j, const struct late_settle *s);

#endif
