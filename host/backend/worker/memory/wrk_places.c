/* SPDX-License-Identifier: MIT */
/*
 * Address ranges for guest memory. Graph nodes and copies in progress keep host addresses in the
 * provider, which cannot be revoked. A range whose address the provider has seen therefore never
 * returns to the allocators of this process: after unmapping it stays inaccessible, and only guest
 * memory is mapped there again. A stale address reaches the guest's own memory or kills this
 * worker, but never the worker's memory. The kernel merges adjacent ranges, so they cost address
 * space only.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <sys/mman.h>

#define VA_LIMIT (UINT64_C(1) << 47)
#define FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

struct span {
    uint64_t at, end;
};

/* Disjoint, not touching: by their beginning, with their length as weight. */
static struct btr_tree guests, moved; /* at the guest's own addresses, and at random addresses */

static struct span span_of(const struct btr_item *it)
{
    return (struct span){it->key, it->key + it->weight};
}

/* First span that ends after `at`. */
static bool first_behind(const struct btr_tree *s, uint64_t at, struct span *out)
{
    struct btr_item it;

    if (btr_floor(s, at, &it) && it.key + it.weight > at) {
        *out = span_of(&it);
        return true;
    }
    if (at == UINT64_MAX || !btr_ceiling(s, at + 1, &it))
        return false;
    *out = span_of(&it);
    return true;
}

/* Without room for another span the range is dropped: reserved forever and never reused. */
static void place_add(struct btr_tree *s, uint64_t at, uint64_t end)
{
    struct btr_item it;
    struct span next;

    if (btr_floor(s, at, &it) && it.key + it.weight >= at) {
        btr_remove(s, it.key, NULL);
        at = it.key;
        end = end > it.key + it.weight ? end : it.key + it.weight;
    }
    while (first_behind(s, at, &next) && next.at <= end) { /* touches: merge */
        btr_remove(s, next.at, NULL);
        end = end > next.end ? end : next.end;
    }
    if (s->count < WRK_PLACES_MAX)
        btr_insert(s, at, end - at, NULL);
}

static void place_take(struct btr_tree *s, uint64_t at, uint64_t end)
{
    struct span was;

    while (first_behind(s, at, &was) && was.at < end) {
        btr_remove(s, was.at, NULL);
        if (was.at < at)
            place_add(s, was.at, at);
        if (was.end > end)
            place_add(s, end, was.end);
    }
}

/* The guest's own range: ranges it had before, and free space between them. */
static bool reserve_there(uint64_t at, uint64_t end)
{
    uint64_t done = at;

    while (done < end) {
        struct span behind = {end, end};
        bool ours = first_behind(&guests, done, &behind) && behind.at <= done;
        uint64_t next = ours ? behind.end : behind.at;

        next = next < end ? next : end;
        if (!ours && !wrk_layout_reserve_at(done, next - done)) {
            /* The part reserved so far is unknown to the provider, but simplest to keep. */
            place_add(&guests, at, done);
            return false;
        }
        done = next;
    }
    place_take(&guests, at, end);
    return true;
}

/* At another address, `phase` bytes past a multiple of `align`. */
static uint8_t *reserve_elsewhere(uint64_t length, uint64_t align, uint64_t phase)
{
    struct btr_item it = {0};

    for (uint64_t key = 0; btr_first_of_weight(&moved, key, length, &it); key = it.key + 1) {
        const struct span free = span_of(&it);
        uint64_t at = (free.at + align - 1 - phase) / align * align + phase;

        if (at >= free.at && at < free.end && length <= free.end - at) {
            place_take(&moved, at, at + length);
            return (uint8_t *)(uintptr_t)at;
        }
    }
    if (length > VA_LIMIT - align)
        return NULL;
    uint8_t *p = wrk_layout_reserve(0, length + align);
    if (!p)
        return NULL;
    uint64_t start = (uintptr_t)p, end = start + length + align;
    uint64_t at = (start + align - 1 - phase) / align * align + phase;
    if (at > start)
        munmap(p, at - start);
    if (end > at + length)
        munmap((void *)(uintptr_t)(at + length), end - at - length);
    return (uint8_t *)(uintptr_t)at;
}

uint8_t *wrk_place_take(uint64_t va, uint64_t length, uint64_t align, uint64_t phase)
{
    if (wrk_layout_may_keep(va, length) && va % align == phase && reserve_there(va, va + length))
        return (uint8_t *)(uintptr_t)va;
    return reserve_elsewhere(length, align, phase);
}

unsigned wrk_places(void)
{
    return (unsigned)(guests.count + moved.count);
}

bool wrk_place_leave(uint8_t *base, uint64_t length, uint64_t va, bool seen)
{
    uint64_t at = (uintptr_t)base;

    if (!seen) {
        munmap(base, length);
        return true;
    }
    if (mmap(base, length, PROT_NONE, FLAGS | MAP_FIXED, -1, 0) != base)
        return false;
    place_add(at == va ? &guests : &moved, at, at + length);
    return true;
}
