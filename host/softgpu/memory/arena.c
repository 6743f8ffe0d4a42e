/* SPDX-License-Identifier: MIT */
/* The free parts of the device address range: first fit, neighbours joined. Guarded by memory/memory.c. */
#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"

struct extent {
    uint64_t start, len;
};

static struct extent *holes; /* sorted */
static uint32_t nholes, cap_holes;

bool sg_arena_init(uint64_t start, uint64_t len)
{
    holes = malloc(64 * sizeof(*holes));
    if (!holes)
        return false;
    cap_holes = 64;
    holes[0] = (struct extent){start, len};
    nholes = 1;
    return true;
}

static bool reserve(void)
{
    struct extent *grown;

    if (nholes + 2 <= cap_holes)
        return true;
    grown = realloc(holes, 2 * (size_t)cap_holes * sizeof(*holes));
    if (!grown)
        return false;
    holes = grown;
    cap_holes *= 2;
    return true;
}

bool sg_arena_take(uint64_t len, uint64_t align, uint64_t *out)
{
    if (!reserve())
        return false;
    for (uint32_t i = 0; i < nholes; i++) {
        struct extent h = holes[i];
        uint64_t start = (h.start + align - 1) & ~(align - 1);
        uint64_t skip = start - h.start;

        if (skip > h.len || h.len - skip < len)
            continue;
        uint64_t rest = h.len - skip - len;

        if (skip && rest) {
            memmove(&holes[i + 2], &holes[i + 1], (nholes - i - 1) * sizeof(*holes));
            nholes++;
            holes[i].len = skip;
            holes[i + 1] = (struct extent){start + len, rest};
        } else if (skip) {
            holes[i].len = skip;
        } else if (rest) {
            holes[i] = (struct extent){start + len, rest};
        } else {
            memmove(&holes[i], &holes[i + 1], (nholes - i - 1) * sizeof(*holes));
            nholes--;
        }
        *out = start;
        return true;
    }
    return false;
}

void sg_arena_give(uint64_t start, uint64_t len)
{
    uint32_t i = 0;

    while (i < nholes && holes[i].start < start)
        i++;
    bool left = i > 0 && holes[i - 1].start + holes[i - 1].len == start;
    bool right = i < nholes && start + len == holes[i].start;

    if (left && right) {
        holes[i - 1].len += len + holes[i].len;
        memmove(&holes[i], &holes[i + 1], (nholes - i - 1) * sizeof(*holes));
        nholes--;
    } else if (left) {
        holes[i - 1].len += len;
    } else if (right) {
        holes[i].start = start;
        holes[i].len += len;
    } else {
        if (!reserve())
            return; /* that part of the address space is lost, nothing else */
        memmove(&holes[i + 1], &holes[i], (nholes - i) * sizeof(*holes));
        holes[i] = (struct extent){start, len};
        nholes++;
    }
}
