/* SPDX-License-Identifier: MIT */
/* Sizes that a text declares: products and sums that neither wrap nor pass a limit. Needs no cuda.h. */
#ifndef SG_SIZE_H
#define SG_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* *v times by; false: more than limit, and *v is as before. */
static inline bool sg_size_mul(uint64_t *v, uint64_t by, uint64_t limit)
{
    uint64_t r;

    if (__builtin_mul_overflow(*v, by, &r) || r > limit)
        return false;
    *v = r;
    return true;
}

/* *v plus by; false as above. */
static inline bool sg_size_add(uint64_t *v, uint64_t by, uint64_t limit)
{
    uint64_t r;

    if (__builtin_add_overflow(*v, by, &r) || r > limit)
        return false;
    *v = r;
    return true;
}

/*
 * Room of so many bytes at *top, aligned (a power of two): *at is where, *top its end. False, nothing has
 * changed: it would end beyond limit.
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
