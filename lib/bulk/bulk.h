/* SPDX-License-Identifier: MIT */
/*
 * Large copies: stores that bypass the caches, and the decision when to use them.
 *
 * Between two processors that share a cache, a piece of the staging area is read from that cache,
 * and ordinary stores are fastest. Between processors without a shared cache, the reader fetches
 * each line from the writer's cache, which is several times slower than memory. Whether bypassing
 * the caches pays for the destination depends on whether it would have fitted. No information
 * available to a process tells these cases apart; in a virtual machine even the topology is
 * unknown, and it changes while a program runs. So copies are measured: blk_choose() tries all
 * kinds of stores for each class of copies (a direction, a range of sizes), blk_learn() is told the
 * duration of each, and the medians of the latest measurements decide.
 */
#ifndef BLK_BULK_H
#define BLK_BULK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <emmintrin.h>
#endif

/* Minimum size of a copy, in bytes, whose destination may be written past the caches. A buffer
   of 4 MiB that is copied to repeatedly stays in the third-level cache, and trials would not
   show this: it takes more than a few copies to get there. */
#define BLK_PAST_MIN (UINT64_C(16) << 20)
#define BLK_LINE 64u

/* Copies n bytes between areas that do not overlap, with stores past the caches if the processor
   has them. Ordering is preserved: once another processor sees a later store of this thread, it
   sees the bytes. */
static inline void blk_copy_past(void *restrict to, const void *restrict from, size_t n)
{
#ifdef __x86_64__
    uint8_t *d = to;
    const uint8_t *s = from;
    size_t head = -(uintptr_t)d & (BLK_LINE - 1);

    if (n >= head + BLK_LINE) { /* whole lines only: a partial line is read and written back */
        memcpy(d, s, head);
        d += head, s += head, n -= head;
        for (; n >= BLK_LINE; n -= BLK_LINE, d += BLK_LINE, s += BLK_LINE) {
            const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)s);
            const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(s + 16));
            const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(s + 32));
            const __m128i e = _mm_loadu_si128((const __m128i *)(const void *)(s + 48));

            _mm_stream_si128((__m128i *)(void *)d, a);
            _mm_stream_si128((__m128i *)(void *)(d + 16), b);
            _mm_stream_si128((__m128i *)(void *)(d + 32), c);
            _mm_stream_si128((__m128i *)(void *)(d + 48), e);
        }
        _mm_sfence();
    }
    memcpy(d, s, n);
#else
    memcpy(to, from, n);
#endif
}

#define BLK_KEPT 5u /* number of measurements kept per kind */
#define BLK_BURST \
    4u /* copies per trial; the first is discarded: it finds the caches in another kind's state */
#define BLK_TRY_MIN 32u  /* copies between trials of other kinds: initially, */
#define BLK_TRY_MAX 512u /* and at most; doubled by each trial without effect */

/* Kinds of stores: a bit mask of the destinations written past the caches. */
#define BLK_TO_PIECE 1u   /* into the staging area */
#define BLK_FROM_PIECE 2u /* out of the staging area, into the destination */
#define BLK_KINDS 4u

/* Statistics of a class of copies. Initially all zeroes, except for kinds; guarded by the
   caller's lock. */
struct blk_choice {
    uint32_t kinds;                     /* number of kinds tried: 2, or all 4 */
    uint32_t cost[BLK_KINDS][BLK_KEPT]; /* cost, ps per byte */
    uint32_t n[BLK_KINDS];              /* number of measurements so far */
    uint32_t left,
        /* copies until the next trial, copies between trials; period 0: nothing measured */
        period;
    uint32_t best, tried; /* fastest kind; kind tried last or being tried */
    uint32_t burst;       /* copies left in the next trial */
    uint32_t last;        /* kind measured last */
};

static inline uint32_t blk_median(const uint32_t *v)
{
    uint32_t sorted[BLK_KEPT];

    for (unsigned i = 0; i < BLK_KEPT; i++) {
        unsigned k = i;

        for (; k > 0 && sorted[k - 1] > v[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = v[i];
    }
    return sorted[BLK_KEPT / 2];
}

/* The first kind with too few measurements; BLK_KINDS: none. */
static inline uint32_t blk_missing(const struct blk_choice *c)
{
    for (uint32_t k = 0; k < c->kinds; k++)
        if (c->n[k] < BLK_KEPT)
            return k;
    return BLK_KINDS;
}

/* The kind for the next copy, whose duration must be passed to blk_learn(). */
static inline uint32_t blk_choose(struct blk_choice *c)
{
    const uint32_t missing = blk_missing(c);

    if (missing != BLK_KINDS)
        return missing;
    if (c->burst > 0) {
        c->burst--;
        return c->tried;
    }
    if (c->left > 0) {
        c->left--;
        return c->best;
    }
    c->left = c->period;
    c->burst = BLK_BURST - 1;
    do {
        c->tried = (c->tried + 1) % c->kinds;
    } while (c->tried == c->best);
    return c->tried;
}

/* Records that a copy of `bytes` bytes took ns. A kind replaces the current one if it takes less
   than three quarters of its time. */
static inline void blk_learn(struct blk_choice *c, uint32_t kind, uint64_t bytes, uint64_t ns)
{
    const uint64_t cost = bytes ? ns * 1000 / bytes : 0;
    uint32_t fastest = c->best;

    if (kind != c->last) {
        c->last = kind;
        return;
    }
    c->cost[kind][c->n[kind] % BLK_KEPT] = cost < UINT32_MAX ? (uint32_t)cost : UINT32_MAX;
    c->n[kind] = c->n[kind] < 2 * BLK_KEPT - 1 ? c->n[kind] + 1 : BLK_KEPT;
    if (blk_missing(c) != BLK_KINDS)
        return;
    for (uint32_t k = 0; k < c->kinds; k++)
        if (blk_median(c->cost[k]) < blk_median(c->cost[fastest]))
            fastest = k;
    if (c->period == 0 ||
        blk_median(c->cost[fastest]) * UINT64_C(4) < blk_median(c->cost[c->best]) * UINT64_C(3)) {
        if (blk_median(c->cost[fastest]) * UINT64_C(4) < blk_median(c->cost[c->best]) * UINT64_C(3))
            c->best = fastest;
        c->period = c->left = BLK_TRY_MIN;
        c->burst = 0;
    } else if (kind != c->best && c->burst == 0 && c->period < BLK_TRY_MAX) {
        c->period *= 2;
        c->left = c->period;
    }
}

/* The same for a copy that cannot be measured: the fastest kind known. */
static inline uint32_t blk_choose_unmeasured(struct blk_choice *c)
{
    if (c->left > 0)
        c->left--;
    return c->best;
}

/* True if the next copy should be measured although it need not be: for a trial, and to compare
   with it. */
static inline bool blk_unsure(const struct blk_choice *c)
{
    return c->period == 0 || c->left == 0 || c->burst > 0 || c->left + 2 > c->period;
}

#endif
