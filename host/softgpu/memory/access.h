/* SPDX-License-Identifier: MIT */
/*
 * Access checks for running kernels. Does not need cuda.h: the front end and the interpreter are
 * also built without it (tools, fuzzers), with a table of their own.
 */
#ifndef SG_MEMORY_ACCESS_H
#define SG_MEMORY_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

/* An allocation as seen by an executing thread. The interpreter caches it across accesses; it is
   valid while generation equals *sg_mem_generation. */
struct sg_mem_range {
    uint64_t base, end; /* [base, end) */
    uint64_t generation;
    bool writable;
};
extern volatile uint64_t sg_mem_generation; /* changes whenever an allocation is removed */
/*
 * True if [addr, addr+size) lies inside one live allocation that this context may read or (write)
 * write; *hit then describes the allocation. Lock-free or read-locked; called from many threads.
 */
bool sg_mem_check(void *mem, uint64_t addr, uint64_t size, bool write, struct sg_mem_range *hit);

#endif
