/* SPDX-License-Identifier: MIT */
/*
 * Advice about managed memory and the places of its last prefetch, kept for cuMemRangeGetAttribute
 * alone: memory does not move.
 */
#ifndef CUA_ADVICE_H
#define CUA_ADVICE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A managed allocation; an id is never used again. */
struct cua_range {
    uint64_t id, base, size;
};

/* A place: CUmemLocationType and id; type 0: none. */
struct cua_place {
    int type, id;
};

#define CUA_PREFETCHED 0 /* beside CUmem_advise */

/* True if the allocation with that id, which began at start, still exists. */
typedef bool cua_alive_fn(uint64_t id, uint64_t start);

/* Enters advice (CUmem_advise) or a prefetch about [from, from + count) of r, in whole pages. `alive`
   decides which records of other allocations are dropped. OUT_OF_MEMORY. */
CUresult cua_advice_keep(const struct cua_range *r, uint64_t from, uint64_t count, int what,
                         struct cua_place at, cua_alive_fn *alive);
/* What holds for all of [from, from + count): the result of cuMemRangeGetAttribute. */
CUresult cua_advice_attribute(const struct cua_range *r, uint64_t from, uint64_t count, void *data,
                              size_t bytes, CUmem_range_attribute attribute);
/* The same for n attributes; stops at the first error. */
CUresult cua_advice_attributes(const struct cua_range *r, uint64_t from, uint64_t count, void **data,
                               size_t *bytes, CUmem_range_attribute *attributes, size_t n);

/* A location as it is kept: a device, which is the caller's to check, or a host without NUMA, which has one node. */
CUresult cua_advice_place(const CUmemLocation *loc, struct cua_place *at);
/* What the calls of CUDA 8 mean by a device, or by CU_DEVICE_CPU. */
CUmemLocation cua_location_of(CUdevice device);

#endif
