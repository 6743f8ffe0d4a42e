/* SPDX-License-Identifier: MIT */
/* Span of memory touched by a copy. */
#include "memory.h"

bool wrk_copy_span(const uint64_t size[3], uint64_t pitch, uint64_t height, uint64_t *bytes)
{
    uint64_t rows, extent;

    if (size[1] > 1 || size[2] > 1) {
        if (pitch < size[0] || (size[2] > 1 && height < size[1]))
            return false;
    }
    if (__builtin_mul_overflow(size[2] - 1, height, &rows) ||
        __builtin_add_overflow(rows, size[1] - 1, &rows) || __builtin_mul_overflow(rows, pitch, &extent))
        return false;
    return !__builtin_add_overflow(extent, size[0], bytes);
}
