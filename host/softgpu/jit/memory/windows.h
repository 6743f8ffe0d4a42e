/* SPDX-License-Identifier: MIT */
/*
 * Windows: loads whose lanes are not consecutive, but always at the same distances from each other.
 * For jit/memory/sg_jit_global_loads.c, jit/memory/sg_jit_memory_ops.c and jit/memory/sg_jit_shared_ops.c.
 */
#ifndef SG_JIT_WINDOWS_H
#define SG_JIT_WINDOWS_H

#include "jit/memory/memory_ops.h"

/* Order matters: values from SG_WINDOW_FIRST on have windows. */
enum sg_window_state {
    SG_WINDOW_NEW,  /* the load has not run yet */
    SG_WINDOW_NONE, /* the lanes are too far apart */
    SG_WINDOW_2,    /* 2 lanes in 16 bytes; AVX2 alone */
    SG_WINDOW_FIRST = SG_WINDOW_2,
    SG_WINDOW_4_WIDE, /* 4 lanes in 64 bytes; not with AVX2 */
    SG_WINDOW_4,      /* 4 lanes in 32 bytes */
    SG_WINDOW_8,      /* 8 lanes in 64 bytes, with AVX2 in 32 */
    SG_WINDOW_16,     /* 16 lanes in 64 bytes; not with AVX2 */
    SG_WINDOW_32,     /* all lanes in 64 bytes; not with AVX2 */
    SG_WINDOW_FEW     /* all lanes in less than 32 bytes; AVX2 alone */
};

/* The address pattern of a load, learned from its first run. Written once, under a lock, `state`
   last. */
struct sg_window {
    union { /* distance of each running lane from the address of lane 0 */
        u64 offset[SG_LANES];
        u32 offset32[SG_LANES]; /* if narrow */
    };
    union {
        struct {
            u8 index[2][64]; /* source of each byte of the result, in one or two registers */
            u64 mask;        /* SG_WINDOW_32: bytes of the window that are read */
        };
        struct {                /* with AVX2 */
            u32 word[SG_LANES]; /* index of each lane's word in its window */
            u32 wanted[4][8];   /* SG_WINDOW_FEW: words of each window that are read: UINT32_MAX */
        };
    };
    s64 base[16];    /* start of each window relative to the address of lane 0 */
    s64 low;         /* the lowest of these */
    u64 span;        /* bytes from `low` to the end of the highest element */
    u32 state;       /* enum sg_window_state */
    u32 lanes;       /* lanes of the first run */
    u32 size, align; /* size: bytes loaded per lane */
    u32 row;         /* lane distance with a faster path of its own; 0: none */
    u32 site;        /* the load is one from a sum: its index into w->lie; 0: none */
    bool narrow;     /* addresses are 32 bits wide */
    bool avx2;       /* for jit/avx2/sg_avx2_windows.c */
    /* a load through the same register before this one, in the same block; NULL: none. as_first:
       both have windows, for the same lanes at the same distances; set last of all. */
    const struct sg_window *first;
    bool as_first;
    struct sg_window *next;
};

/*
 * Creates a window for a load of `size` bytes per lane, aligned to `align` relative to lane 0, and
 * keeps it with the code; row: see struct sg_window. NULL: the processor or the load is unsuitable,
 * or out of memory.
 */
struct sg_window *sg_jit_window(struct jit *j, const struct sg_insn *in, u32 size, u32 align, u32 row);
void sg_jit_windows_free(struct sg_window *x);
/* Learns the pattern from the addresses of in, which is about to run, unless it is known. Called
   by native code. */
void sg_jit_window_learn(struct sg_warp *w, const struct sg_insn *in, struct sg_window *x);

/* Jumps from a window test to the path without windows. */
struct window_misses {
    size_t at[3];
    u32 n;
};
/* RSI: x. Tests whether x has windows and the addresses ad match its pattern. */
void sg_jit_window_test(struct jit *j, const u32 *ad, const struct sg_window *x, struct window_misses *m);
void sg_jit_window_missed(struct jit *j, const struct window_misses *m);
/*
 * RSI: the window of s, which matches, and whose `align` is k's. Jumps to the slow path unless all
 * of its lanes may perform the access k. RAX: the address of lane 0, from register ad.
 */
void sg_jit_check_window(struct jit *j, struct stub *s, const struct check *k, u32 ad);
/* RSI: x; RAX: the address of lane 0. Loads n words of `size` bytes per lane into the registers d
   (size below 4: into the low bits, the rest is undefined); clobbers RCX, k2 and vector registers
   0 to 6. prefetch: the data of the next warps, too. settled: x, if the code is for what it is now; or NULL. */
void sg_jit_window_load(struct jit *j, u32 d[4][4], u32 n, u32 size, s32 disp, bool prefetch,
                        const struct sg_window *settled);
/* The same with AVX2 (jit/avx2/sg_avx2_windows.c); size: bytes per lane. */
void sg_avx2_window_load(struct jit *j, u32 d[4][4], u32 n, u32 size, s32 disp, bool ahead,
                         const struct sg_window *settled);
/* True in the settled version of a block (jit/late.h), for the window of a load from a sum: it is known, and
   the lanes are as it says. */
static inline bool sg_jit_window_settled(const struct jit *j, const struct sg_window *x)
{
    return j->settled && x->site;
}
/* Fills x with windows of `each` lanes at addresses a, as the form `state` needs them. False: some lanes of a window do not
   lie within `bytes`. */
bool sg_avx2_window_fit(struct sg_window *x, const u64 *a, enum sg_window_state state, u32 each, u32 bytes);
#define SG_WINDOW_AHEAD 4096 /* bytes: data of the next warps is prefetched at this distance */
/* RSI: x; jumps to the slow path unless the load has run. */
void sg_jit_window_known(struct jit *j, struct stub *s, const struct sg_window *x);

#endif
