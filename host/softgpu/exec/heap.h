/* SPDX-License-Identifier: MIT */
/*
 * malloc() and free() of device code (CUDA C++ Programming Guide, Dynamic Global Memory
 * Allocation): one heap of a fixed size, which kernels may access as a whole. Its metadata is kept
 * outside, out of their reach.
 */
#ifndef SG_HEAP_H
#define SG_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define SG_HEAP_SIZE (8u << 20) /* CUDA's default of CU_LIMIT_MALLOC_HEAP_SIZE */

/* Address of at least size bytes, aligned to 16; 0 when the heap is full or size is 0. */
uint64_t sg_heap_alloc(uint64_t size);
/* False: not the beginning of a live block. 0 is nothing to free. */
bool sg_heap_free(uint64_t addr);
/* The whole heap, once something was allocated; else both are 0. */
void sg_heap_range(uint64_t *base, uint64_t *end);

#endif
