/* SPDX-License-Identifier: MIT */
/* Addresses and objects that differ from those of the recording. */
#include <stdlib.h>
#include <string.h>

#include "replay/replay.h"
#include "base/vgpu_cli.h"

/* Returns the index of the first range that ends after the address. */
static size_t range_after(const struct replay_ranges *r, uint64_t address)
{
    size_t low = 0, high = r->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (r->items[mid].from + r->items[mid].size <= address)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void take_out(struct replay_ranges *r, size_t i)
{
    memmove(r->items + i, r->items + i + 1, (r->count - i - 1) * sizeof(*r->items));
    r->count--;
}

/* Inserts a range and removes those that it overlaps: their addresses have been reused. */
static void put_in(struct replay_ranges *r, struct replay_range x)
{
    size_t i = range_after(r, x.from);

    while (i < r->count && r->items[i].from < x.from + x.size)
        take_out(r, i);
    if (r->count == r->room) {
        r->room = r->room == 0 ? 64 : 2 * r->room;
        r->items = realloc(r->items, r->room * sizeof(*r->items));
        if (r->items == NULL)
            vgpu_cli_die("out of memory");
    }
    memmove(r->items + i + 1, r->items + i, (r->count - i) * sizeof(*r->items));
    r->items[i] = x;
    r->count++;
}

void replay_map_add(struct replay_map *m, uint64_t from, uint64_t size, uint64_t to)
{
    struct replay_range x = {from, size, to};
    size_t i;

    if (from == 0 || size == 0 || from + size < from || to + size < to)
        return;
    /* An alias of known memory (part of a reservation, for instance) changes nothing. */
    i = range_after(&m->live, from);
    if (i < m->live.count && m->live.items[i].from <= from &&
        from + size <= m->live.items[i].from + m->live.items[i].size &&
        m->live.items[i].to + (from - m->live.items[i].from) == to)
        return;
    put_in(&m->live, x);
    m->moved |= from != to;
    m->ranges++;
    m->elsewhere += from != to;
}

void replay_map_free(struct replay_map *m, uint64_t from)
{
    size_t i = range_after(&m->live, from);

    if (i == m->live.count || m->live.items[i].from != from)
        return;
    put_in(&m->freed, m->live.items[i]);
    take_out(&m->live, i);
}

static bool find_range(const struct replay_ranges *r, uint64_t from, uint64_t *to)
{
    size_t i = range_after(r, from);

    if (i < r->count && from >= r->items[i].from) {
        *to = r->items[i].to + (from - r->items[i].from);
        return true;
    }
    /* Programs also keep the address directly after the last byte. */
    if (i > 0 && from == r->items[i - 1].from + r->items[i - 1].size) {
        *to = r->items[i - 1].to + r->items[i - 1].size;
        return true;
    }
    return false;
}

uint64_t replay_map_address(const struct replay_map *m, uint64_t from, bool *known)
{
    uint64_t to = from;

    /* Freed ranges are searched last: a use after free must fail in the replay too. */
    *known = find_range(&m->live, from, &to) || find_range(&m->freed, from, &to);
    return to;
}

uint64_t replay_map_words(const struct replay_map *m, uint8_t *bytes, uint64_t size, unsigned skew)
{
    uint64_t count = 0, low, high;

    if (!m->moved || m->live.count == 0)
        return 0;
    low = m->live.items[0].from;
    high = m->live.items[m->live.count - 1].from + m->live.items[m->live.count - 1].size;
    for (uint64_t at = skew; at < size && size - at >= 8; at += 8) {
        uint64_t word, to;

        memcpy(&word, bytes + at, sizeof(word));
        if (word < low || word > high || !find_range(&m->live, word, &to))
            continue;
        memcpy(bytes + at, &to, sizeof(to));
        count++;
    }
    return count;
}

/* ---- objects ---- */

static size_t pair_index(const struct replay_pairs *p, uint64_t from)
{
    size_t i = (size_t)((from * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (p->room - 1);

    while (p->items[i].from != 0 && p->items[i].from != from)
        i = (i + 1) & (p->room - 1);
    return i;
}

void replay_pairs_add(struct replay_pairs *p, uint64_t from, uint64_t to)
{
    size_t i;

    if (p->room == 0 || 2 * (p->used + 1) > p->room) {
        struct replay_pairs bigger = {.room = p->room == 0 ? 256 : 2 * p->room};

        bigger.items = vgpu_cli_alloc(bigger.room * sizeof(*bigger.items));
        for (size_t k = 0; k < p->room; k++) {
            if (p->items[k].from != 0)
                bigger.items[pair_index(&bigger, p->items[k].from)] = p->items[k];
        }
        bigger.used = p->used;
        free(p->items);
        *p = bigger;
    }
    i = pair_index(p, from);
    p->used += p->items[i].from == 0;
    p->items[i] = (struct replay_pair){from, to};
}

void replay_map_handle_add(struct replay_map *m, uint64_t from, uint64_t to)
{
    if (from != 0)
        replay_pairs_add(&m->handles, from, to);
}

bool replay_pairs_find(const struct replay_pairs *p, uint64_t from, uint64_t *to)
{
    size_t i;

    if (from == 0 || p->room == 0)
        return false;
    i = pair_index(p, from);
    if (p->items[i].from != from)
        return false;
    *to = p->items[i].to;
    return true;
}

uint64_t replay_map_handle(const struct replay_map *m, uint64_t from)
{
    uint64_t to = from;

    replay_pairs_find(&m->handles, from, &to);
    return to;
}
