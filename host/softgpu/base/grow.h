/* SPDX-License-Identifier: MIT */
/* Arrays that grow. Needs no cuda.h. */
#ifndef SG_GROW_H
#define SG_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Grows the array at *(void **)p, of elements of elem bytes, so that index n exists: *cap is doubled as often as
 * needed, new elements are zero. False: out of memory, nothing has changed.
 */
bool sg_grow(void *p, uint32_t *cap, uint32_t n, size_t elem);

#endif
