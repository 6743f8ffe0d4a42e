/* SPDX-License-Identifier: MIT */
/* The free parts of an address range (memory/sg_arena.c), for device memory and for reservations. */
#ifndef SG_ARENA_H
#define SG_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/btree/btree.h"

struct sg_arena {
    /* keyed by start address, weighted by length in bytes; holes never touch */
    struct btr_tree holes;
};

bool sg_arena_init(struct sg_arena *a, uint64_t start, uint64_t len);
/* Takes len bytes, aligned to align (a power of two), from the first hole that is large enough. */
bool sg_arena_take(struct sg_arena *a, uint64_t len, uint64_t align, uint64_t *out);
/* Takes exactly this range. Returns false if part of it is taken or outside the arena. */
bool sg_arena_take_at(struct sg_arena *a, uint64_t start, uint64_t len);
void sg_arena_give(struct sg_arena *a, uint64_t start, uint64_t len);

#endif
