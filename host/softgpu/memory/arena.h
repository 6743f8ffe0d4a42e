/* SPDX-License-Identifier: MIT */
/* The free parts of an address range (memory/arena.c), for device memory and for reservations. */
#ifndef SG_ARENA_H
#define SG_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/btree/btree.h"

struct sg_arena {
    struct btr_tree holes; /* by start, weighted by length, in bytes; not touching */
};

bool sg_arena_init(struct sg_arena *a, uint64_t start, uint64_t len);
/* Takes len bytes aligned to align (a power of two) out of the first hole that has them. */
bool sg_arena_take(struct sg_arena *a, uint64_t len, uint64_t align, uint64_t *out);
/* Takes just these; false when a part of them is taken or outside. */
bool sg_arena_take_at(struct sg_arena *a, uint64_t start, uint64_t len);
void sg_arena_give(struct sg_arena *a, uint64_t start, uint64_t len);

#endif
