/* SPDX-License-Identifier: MIT */
/* Growable arrays. Does not need cuda.h. */
#ifndef SG_GROW_H
#define SG_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Grows the array at *(void **)p, with elements of elem bytes, so that index n is valid. *cap is
 * doubled as often as needed; new elements are zeroed. Returns false, with nothing changed, if out
 * of memory.
 */
bool sg_grow(void *p, uint32_t *cap, uint32_t n, size_t elem);

#endif
