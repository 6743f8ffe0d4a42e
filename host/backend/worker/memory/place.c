/* SPDX-License-Identifier: MIT */
/*
 * Address ranges for the memory of the guest. Nodes of graphs and copies under way keep host addresses
 * in the provider, which nobody can take out again. So a range whose address the provider has seen
 * never returns to the allocators of this process: when its memory is unmapped it stays, inaccessible,
 * and only memory of the guest is put there again. A stale address then reaches the guest's own memory,
 * or ends this worker; it never reaches the worker's. The kernel merges neighbours, so what stays costs
 * address space only.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <string.h>
#include <sys/mman.h>

#define VA_LIMIT (UINT64_C(1) << 47)
#define FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Sorted, disjoint, not touching. */
struct span {
    uint64_t at, end;
};

static struct set {
    struct span list[WRK_PLACES_MAX];
    unsigned n;
} guests, moved; /* at the guest's own addresses, and at random addresses */

/* Index of the first span that ends behind `at`. */
static unsigned first_behind(const struct set *s, uint64_t at)
{
    unsigned lo = 0, hi = s->n;

    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;

        if (s->list[mid].end <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void cut(struct set *s, unsigned i, unsigned n)
{
    memmove(&s->list[i], &s->list[i + n], (s->n - i - n) * sizeof(s->list[0]));
    s->n -= n;
}

/* Without room for one more span it is forgotten: reserved for good, and never used again. */
static void add(struct set *s, uint64_t at, uint64_t end)
{
    unsigned i = first_behind(s, at);

    if (i && s->list[i - 1].end == at)
        i--;
    if (i < s->n && s->list[i].at <= end) { /* touches: merge with this one and those behind */
        unsigned last = i;

        at = at < s->list[i].at ? at : s->list[i].at;
        while (last + 1 < s->n && s->list[last + 1].at <= end)
            last++;
        end = end > s->list[last].end ? end : s->list[last].end;
        cut(s, i, last - i);
    } else if (s->n < WRK_PLACES_MAX) {
        memmove(&s->list[i + 1], &s->list[i], (s->n - i) * sizeof(s->list[0]));
        s->n++;
    } else {
        return;
    }
    s->list[i] = (struct span){at, end};
}

static void take(struct set *s, uint64_t at, uint64_t end)
{
    unsigned i = first_behind(s, at);

    while (i < s->n && s->list[i].at < end) {
        struct span was = s->list[i];

        cut(s, i, 1);
        if (was.at < at)
            add(s, was.at, at);
        if (was.end > end)
            add(s, end, was.end);
        i = first_behind(s, at);
    }
}

/* The guest's own range: where it has had memory before, and what is free between. */
static bool reserve_there(uint64_t at, uint64_t end)
{
    uint64_t done = at;

    while (done < end) {
        unsigned i = first_behind(&guests, done);
        bool ours = i < guests.n && guests.list[i].at <= done;
        uint64_t next = ours ? guests.list[i].end : i < guests.n ? guests.list[i].at : end;

        next = next < end ? next : end;
        if (!ours && !wrk_layout_reserve_at(done, next - done)) {
            /* What was got so far is not known to the provider, but it is simplest to keep it. */
            add(&guests, at, done);
            return false;
        }
        done = next;
    }
    take(&guests, at, end);
    return true;
}

/* Somewhere else, at `phase` bytes behind a multiple of `align`. */
static uint8_t *reserve_elsewhere(uint64_t length, uint64_t align, uint64_t phase)
{
    for (unsigned i = 0; i < moved.n; i++) {
        uint64_t at = (moved.list[i].at + align - 1 - phase) / align * align + phase;

        if (at >= moved.list[i].at && at < moved.list[i].end && length <= moved.list[i].end - at) {
            take(&moved, at, at + length);
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
    return guests.n + moved.n;
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
    add(at == va ? &guests : &moved, at, at + length);
    return true;
}
