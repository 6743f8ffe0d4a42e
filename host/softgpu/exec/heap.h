/* SPDX-License-Identifier: MIT */
/*
 * malloc() and free() of device code (CUDA C++ Programming Guide, Dynamic Global Memory
 * Allocation): one heap of the process, which kernels may access as a whole. Its metadata lies
 * outside the heap, inaccessible to kernels.
 */
#ifndef SG_HEAP_H
#define SG_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define SG_HEAP_SIZE (8u << 20)   /* CUDA's default of CU_LIMIT_MALLOC_HEAP_SIZE */
#define SG_HEAP_MAX (32ull << 30) /* address space reserved for the heap, bytes */

/* Allocates at least size bytes, aligned to 16. Returns the address, or 0 if the heap is full or
   size is 0. */
uint64_t sg_heap_alloc(uint64_t size);
#define SG_HEAP_BLOCK_COST 64 /* of reading a block's length, in bytes copied (sg_charge()) */
/* The same; *blocks: the number of blocks that were read, which grows with fragmentation. */
uint64_t sg_heap_search(uint64_t size, uint32_t *blocks);
/* Returns false if addr is not the start of a live block. Freeing 0 does nothing. */
bool sg_heap_free(uint64_t addr);
/* The bounds of the heap; both are 0 until the first allocation. The start does not move. */
void sg_heap_range(uint64_t *base, uint64_t *end);

#endif
