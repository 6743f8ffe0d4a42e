/* SPDX-License-Identifier: MIT */
/* The free parts of an address range: first fit, adjacent holes are joined. The arena's owner
   serialises. */
#include "memory/arena.h"

/* Number of holes that are long enough but misaligned to skip before the search changes. */
#define MISALIGNED_MAX 64u

bool sg_arena_init(struct sg_arena *a, uint64_t start, uint64_t len)
{
    btr_init(&a->holes, false);
    return btr_insert(&a->holes, start, len, NULL) == 0;
}

/* Takes [start, start + len) from the hole that contains it. Call after btr_reserve(). */
static void arena_cut(struct sg_arena *a, const struct btr_item *hole, uint64_t start, uint64_t len)
{
    const uint64_t skip = start - hole->key, rest = hole->weight - skip - len;

    if (skip)
        btr_set_weight(&a->holes, hole->key, skip);
    else
        btr_remove(&a->holes, hole->key, NULL);
    if (rest)
        btr_insert(&a->holes, start + len, rest, NULL);
}

/* Finds an aligned place for len bytes in a hole. Returns false if there is none. */
static bool hole_fits(const struct btr_item *hole, uint64_t len, uint64_t align, uint64_t *start)
{
    *start = (hole->key + align - 1) & ~(align - 1);
    const uint64_t skip = *start - hole->key;

    return skip <= hole->weight && hole->weight - skip >= len;
}

/* The first hole of at least `weight` bytes with len aligned bytes; examines at most `most`
   holes. */
static bool arena_find(const struct sg_arena *a, uint64_t weight, uint64_t len, uint64_t align, uint32_t most,
                       struct btr_item *hole, uint64_t *start)
{
    uint64_t from = 0;

    while (most-- && btr_first_of_weight(&a->holes, from, weight, hole)) {
        if (hole_fits(hole, len, align, start))
            return true;
        from = hole->key + 1;
    }
    return false;
}

bool sg_arena_take(struct sg_arena *a, uint64_t len, uint64_t align, uint64_t *out)
{
    struct btr_item hole;

    if (!btr_reserve(&a->holes))
        return false;
    /* A hole of len + align - 1 bytes always fits; without one, all other holes are tried. */
    if (!arena_find(a, len, len, align, MISALIGNED_MAX, &hole, out) &&
        !arena_find(a, len + (align - 1), len, align, 1, &hole, out) &&
        !arena_find(a, len, len, align, UINT32_MAX, &hole, out))
        return false;
    arena_cut(a, &hole, *out, len);
    return true;
}

bool sg_arena_take_at(struct sg_arena *a, uint64_t start, uint64_t len)
{
    struct btr_item hole;

    if (!btr_reserve(&a->holes) || !btr_floor(&a->holes, start, &hole) || start - hole.key >= hole.weight ||
        hole.weight - (start - hole.key) < len)
        return false;
    arena_cut(a, &hole, start, len);
    return true;
}

void sg_arena_give(struct sg_arena *a, uint64_t start, uint64_t len)
{
    struct btr_item left, right;

    if (btr_find(&a->holes, start + len, &right)) {
        btr_remove(&a->holes, right.key, NULL);
        len += right.weight;
    }
    if (btr_floor(&a->holes, start, &left) && left.key + left.weight == start)
        btr_set_weight(&a->holes, left.key, left.weight + len);
    else
        btr_insert(&a->holes, start, len,
                   NULL); /* without memory that part of the address space is lost, nothing else */
}
