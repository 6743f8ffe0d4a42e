/* SPDX-License-Identifier: MIT */
/* Products with a sparse a: metadata, and results of integers. */
#ifndef SG_EXEC_MMA_SPARSE_H
#define SG_EXEC_MMA_SPARSE_H

#include "exec/ops/handler.h"

/*
 * The column of element c of a row of a sparse a, whose elements have `bits`; `lanes` of four have the
 * metadata. An index has two bits and selects an element among four, or a pair among four pairs; for
 * tf32, where a pair of halves is an element, the upper index of two selects one of two. The metadata of a
 * row and of the row 8 below share a register up to 16 bits a row, else they lie in two lanes.
 */
static inline u32 sparse_column(u32 bits, u32 lanes, const u32 *meta, u32 selector, u32 row, u32 c)
{
    const u32 at = bits == 32 ? 4 * c + 2 : bits == 4 ? c / 2 * 2 : 2 * c, low = row >> 3;
    const u32 *quad = meta + 4 * (row & 7);
    u32 index;

    if (lanes == 1)
        index = quad[selector] >> (16 * low + at) & 3;
    else if (bits >= 16)
        index = quad[2 * (selector & 1) + at / 16] >> (16 * low + at % 16) & 3;
    else
        index = quad[(2 * (selector + at / 32) & 2) + low] >> at % 32 & 3;
    if (bits == 4)
        return c / 4 * 8 + index * 2 + (c & 1);
    return bits == 32 ? 2 * c + (index >> 1) : c / 2 * 4 + index;
}

/* c plus an exact sum of products of integers. */
static inline u32 sparse_integer(u32 c, f64 sum, bool saturate)
{
    const s64 v = (s64)(s32)c + (s64)sum;

    return (u32)(!saturate ? v : v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

#endif
