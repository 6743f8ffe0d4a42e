/* SPDX-License-Identifier: MIT */
/* vcu_slab.c: small pinned allocations. */
#ifndef VCU_SLAB_H
#define VCU_SLAB_H

#include "memory.h"

/* Maximum size in bytes; larger allocations have their own region. */
#define VCU_SLAB_LARGEST (64u << 10)

/*
 * Takes `size` bytes of pinned memory of the current context out of a slab: describes them in *m,
 * whose `flags` stay; they begin at m->shared.va + m->slab_offset. False: the caller allocates by
 * other means, also to report an error.
 */
bool vcu_slab_take(uint64_t size, struct vcu_memory *m);
/* Returns memory of vcu_slab_take() of `size` bytes to its slab, after waiting for work that may
 * use it. */
void vcu_slab_give(const struct vcu_memory *m, uint64_t size);

#endif
