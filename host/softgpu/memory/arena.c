/* SPDX-License-Identifier: MIT */
/* The free parts of an address range: first fit, neighbours joined. The owner of the arena serialises. */
#include <stdlib.h>
#include <string.h>

#include "memory/arena.h"

bool sg_arena_init(struct sg_arena *a, uint64_t start, uint64_t len)
{
    a->holes = malloc(64 * sizeof(*a->holes));
    if (!a->holes)
        return false;
    a->room = 64;
    a->holes[0] = (struct sg_extent){start, len};
    a->n = 1;
    return true;
}

static bool arena_room(struct sg_arena *a)
{
    struct sg_extent *grown;

    if (a->n + 2 <= a->room)
        return true;
    grown = realloc(a->holes, 2 * (size_t)a->room * sizeof(*a->holes));
    if (!grown)
        return false;
    a->holes = grown;
    a->room *= 2;
    return true;
}

/* Takes [start, start + len) out of hole i, which has it. */
static void arena_cut(struct sg_arena *a, uint32_t i, uint64_t start, uint64_t len)
{
    struct sg_extent *h = &a->holes[i];
    uint64_t skip = start - h->start, rest = h->len - skip - len;

    if (skip && rest) {
        memmove(h + 2, h + 1, (a->n - i - 1) * sizeof(*h));
        a->n++;
        h[0].len = skip;
        h[1] = (struct sg_extent){start + len, rest};
    } else if (skip) {
        h->len = skip;
    } else if (rest) {
        *h = (struct sg_extent){start + len, rest};
    } else {
        memmove(h, h + 1, (a->n - i - 1) * sizeof(*h));
        a->n--;
    }
}

bool sg_arena_take(struct sg_arena *a, uint64_t len, uint64_t align, uint64_t *out)
{
    if (!arena_room(a))
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        struct sg_extent h = a->holes[i];
        uint64_t start = (h.start + align - 1) & ~(align - 1);
        uint64_t skip = start - h.start;

        if (skip > h.len || h.len - skip < len)
            continue;
        arena_cut(a, i, start, len);
        *out = start;
        return true;
    }
    return false;
}

bool sg_arena_take_at(struct sg_arena *a, uint64_t start, uint64_t len)
{
    if (!arena_room(a))
        return false;
    for (uint32_t i = 0; i < a->n && a->holes[i].start <= start; i++) {
        struct sg_extent h = a->holes[i];

        if (start - h.start >= h.len || h.len - (start - h.start) < len)
            continue;
        arena_cut(a, i, start, len);
        return true;
    }
    return false;
}

void sg_arena_give(struct sg_arena *a, uint64_t start, uint64_t len)
{
    struct sg_extent *holes = a->holes;
    uint32_t i = 0;

    while (i < a->n && holes[i].start < start)
        i++;
    bool left = i > 0 && holes[i - 1].start + holes[i - 1].len == start;
    bool right = i < a->n && start + len == holes[i].start;

    if (left && right) {
        holes[i - 1].len += len + holes[i].len;
        memmove(&holes[i], &holes[i + 1], (a->n - i - 1) * sizeof(*holes));
        a->n--;
    } else if (left) {
        holes[i - 1].len += len;
    } else if (right) {
        holes[i].start = start;
        holes[i].len += len;
    } else {
        if (!arena_room(a))
            return; /* that part of the address space is lost, nothing else */
        holes = a->holes;
        memmove(&holes[i + 1], &holes[i], (a->n - i) * sizeof(*holes));
        holes[i] = (struct sg_extent){start, len};
        a->n++;
    }
}
