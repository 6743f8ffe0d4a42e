/* SPDX-License-Identifier: MIT */
/* Arithmetic on sizes declared in a text: products and sums that neither wrap nor exceed a
   limit. Does not need cuda.h. */
#ifndef SG_SIZE_H
#define SG_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* Multiplies *v by `by`. Returns false, with *v unchanged, if the product exceeds limit. */
static inline bool sg_size_mul(uint64_t *v, uint64_t by, uint64_t limit)
{
    uint64_t r;

    if (__builtin_mul_overflow(*v, by, &r) || r > limit)
        return false;
    *v = r;
    return true;
}

/* Adds `by` to *v. Returns false, with *v unchanged, if the sum exceeds limit. */
static inline bool sg_size_add(uint64_t *v, uint64_t by, uint64_t limit)
{
    uint64_t r;

    if (__builtin_add_overflow(*v, by, &r) || r > limit)
        return false;
    *v = r;
    return true;
}

/*
 * Places size bytes, aligned to align (a power of two), at or after *top: *at is the start, *top
 * the new end. Returns false, with nothing changed, if the end exceeds limit.
 */
static inline bool sg_size_place(uint32_t *top, uint32_t align, uint64_t size, uint32_t limit, uint32_t *at)
{
    uint64_t end = *top, begin;

    if (!sg_size_add(&end, align - 1, limit))
        return false;
    begin = end = end & ~(uint64_t)(align - 1);
    if (!sg_size_add(&end, size, limit))
        return false;
    *at = (uint32_t)begin;
    *top = (uint32_t)end;
    return true;
}

#endif
