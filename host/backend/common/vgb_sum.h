/* SPDX-License-Identifier: MIT */
/* Sums of sizes and times that clients influence. */
#ifndef VGB_SUM_H
#define VGB_SUM_H

#include <stdint.h>

/* a + b, or UINT64_MAX if the sum does not fit. */
static inline uint64_t vgb_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
