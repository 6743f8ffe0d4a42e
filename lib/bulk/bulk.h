/* SPDX-License-Identifier: MIT */
/*
 * Large copies: stores past the caches, and when they pay.
 *
 * Between two processors that share a cache a piece of the staging area is read out of that cache, and ordinary stores are
 * the fastest. Between processors that share none the reader takes each line out of the writer's cache, which is several
 * times slower than memory. Whether it pays to keep the destination out of the caches depends on whether it would have
 * fitted. Nothing that a process can read says which holds; in a virtual machine not even the topology does, and it
 * changes while a program runs. So the copies are measured: blk_choose() tries all kinds of stores for copies of a sort (a
 * direction, a range of sizes), blk_learn() is told what each took, and the medians of the last ones decide.
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

/* Bytes of a copy whose destination may be written past the caches. One of 4 MiB that is copied to again and again stays in
   the third level, and trials would not show that: it takes more than a few copies to get there. */
#define BLK_PAST_MIN (UINT64_C(16) << 20)
#define BLK_LINE 64u

/* Copies n bytes between areas that do not overlap, by stores past the caches where the processor has them. What a later
   store of this thread says to another processor is true: the bytes are there. */
static inline void blk_copy_past(void *restrict to, const void *restrict from, size_t n)
{
#ifdef __x86_64__
    uint8_t *d = to;
    const uint8_t *s = from;
    size_t head = -(uintptr_t)d & (BLK_LINE - 1);

    if (n >= head + BLK_LINE) { /* whole lines only: a part of one is read and written back */
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

#define BLK_KEPT 5u /* measurements of each kind that are remembered */
#define BLK_BURST \
    4u /* copies of one trial; the first one counts for nothing: it finds the caches as another kind left them */
#define BLK_TRY_MIN 32u  /* copies from one trial of another kind to the next: at first, */
#define BLK_TRY_MAX 512u /* and at most; doubled by each trial that changes nothing */

/* Kinds of stores: a set of what goes past the caches. */
#define BLK_TO_PIECE 1u   /* into the staging area */
#define BLK_FROM_PIECE 2u /* out of it, into the destination */
#define BLK_KINDS 4u

/* What is known about copies of a sort. All zeroes to begin with, but for kinds; the caller's lock. */
struct blk_choice {
    uint32_t kinds;                     /* that are tried: 2, or all 4 */
    uint32_t cost[BLK_KINDS][BLK_KEPT]; /* ps a byte */
    uint32_t n[BLK_KINDS];              /* measurements so far */
    uint32_t left,
        period; /* copies until the next trial, and from trial to trial; period 0: nothing is known */
    uint32_t best, tried; /* the fastest kind, and the kind that is or was tried last */
    uint32_t burst;       /* copies of the trial to come */
    uint32_t last;        /* the kind that was measured last */
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

/* The first kind with too few measurements; BLK_KINDS: there is none. */
static inline uint32_t blk_missing(const struct blk_choice *c)
{
    for (uint32_t k = 0; k < c->kinds; k++)
        if (c->n[k] < BLK_KEPT)
            return k;
    return BLK_KINDS;
}

/* The kind of the next copy; blk_learn() is to be told how that went. */
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

/* A copy of so many bytes took ns. A kind has to take three quarters of the time of the one in use to take its place. */
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

/* The same for a copy of which nothing can be measured: the fastest kind as far as is known. */
static inline uint32_t blk_choose_unmeasured(struct blk_choice *c)
{
    if (c->left > 0)
        c->left--;
    return c->best;
}

/* Whether the next copy should be measured, though it need not be: for a trial, and to compare with it. */
static inline bool blk_unsure(const struct blk_choice *c)
{
    return c->period == 0 || c->left == 0 || c->burst > 0 || c->left + 2 > c->period;
}

#endif
