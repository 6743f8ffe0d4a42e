/* SPDX-License-Identifier: MIT */
/* slab.c: small pinned allocations. */
#ifndef VCU_SLAB_H
#define VCU_SLAB_H

#include "memory.h"

/* Larger allocations have a region of their own (bytes). */
#define VCU_SLAB_LARGEST (64u << 10)

/*
 * Takes `size` bytes of pinned memory of the current context out of a slab: describes them in *m, whose
 * `flags` stay; they begin at m->shared.va + m->slab_offset. False: the caller allocates otherwise, also
 * where an error is to be told.
 */
bool vcu_slab_take(uint64_t size, struct vcu_memory *m);
/* Gives back what vcu_slab_take() gave for `size` bytes, after waiting for work that may use it. */
void vcu_slab_give(const struct vcu_memory *m, uint64_t size);

#endif
