/* SPDX-License-Identifier: MIT */
/*
 * Windows: loads whose lanes are not in a row, but always at the same distances from each other. For jit/memory_ops.c and
 * jit/shared_ops.c.
 */
#ifndef SG_JIT_WINDOWS_H
#define SG_JIT_WINDOWS_H

#include "jit/memory_ops.h"

/* Order matters: from SG_WINDOW_8 on there are windows. */
enum sg_window_state {
    SG_WINDOW_NEW,  /* the load has not run yet */
    SG_WINDOW_NONE, /* its lanes are too far apart */
    SG_WINDOW_8,    /* 8 lanes in 64 bytes */
    SG_WINDOW_4     /* 4 lanes in 64 bytes */
};

/* What is known of a load's addresses, from its first run. Written once, under a lock, `state` last. */
struct sg_window {
    union { /* of each running lane, from the address of lane 0 on */
        u64 offset[SG_LANES];
        u32 offset32[SG_LANES]; /* narrow */
    };
    u8 index[2][64]; /* of each byte of the result, in two windows */
    u64 mask[8];     /* bytes of each window that are read */
    s64 base[8];     /* where each begins, from the address of lane 0 on */
    s64 low;         /* the lowest of them */
    u64 span;        /* bytes from there to the end of the highest element */
    u32 state;       /* enum sg_window_state */
    u32 lanes;       /* that ran */
    u32 size, align; /* bytes that a lane loads */
    u32 row;         /* the distance of lanes for which the code has a better way; 0: none */
    bool narrow;     /* addresses have 32 bits */
    struct sg_window *next;
};

/*
 * A window for a load of `size` bytes a lane, at multiples of align from lane 0, kept with the code; row: struct sg_window.
 * NULL: the processor or the load is not suited, or there is no memory.
 */
struct sg_window *sg_jit_window(struct jit *j, const struct sg_insn *in, u32 size, u32 align, u32 row);
void sg_jit_windows_free(struct sg_window *x);
/* Learns from the addresses of in, which is about to run, unless that is done. Called by native code. */
void sg_jit_window_learn(struct sg_warp *w, const struct sg_insn *in, struct sg_window *x);

/* Room for the jumps of a test to what does without windows. */
struct window_misses {
    size_t at[3];
    u32 n;
};
/* RSI: x. Are there windows, and are the addresses ad as they were? */
void sg_jit_window_test(struct jit *j, const u32 *ad, const struct sg_window *x, struct window_misses *m);
void sg_jit_window_missed(struct jit *j, const struct window_misses *m);
/*
 * RSI: the window of s, which fits. Checks what all lanes of a load of global memory load; RAX: the address of lane 0, in
 * register ad, without in->imm.
 */
void sg_jit_check_window(struct jit *j, struct stub *s, const struct sg_insn *in, u32 ad, u32 align);
/* RSI: x; RAX: the address of lane 0. Loads n words to the registers d; touches RCX, k2, k3 and registers 0 to 6. */
void sg_jit_window_load(struct jit *j, u32 d[4][4], u32 n, s32 disp, bool prefetch);
/* RSI: x; jumps to the slow way unless the load has run. */
void sg_jit_window_known(struct jit *j, struct stub *s, const struct sg_window *x);

#endif
