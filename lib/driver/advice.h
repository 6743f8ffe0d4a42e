/* SPDX-License-Identifier: MIT */
/*
 * Advice about managed memory and locations of the last prefetch, stored only for
 * cuMemRangeGetAttribute: memory does not move.
 */
#ifndef CUA_ADVICE_H
#define CUA_ADVICE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

/* A managed allocation; ids are never reused. */
struct cua_range {
    uint64_t id, base, size;
};

/* A location: CUmemLocationType and id; type 0: none. */
struct cua_place {
    int type, id;
};

#define CUA_PREFETCHED 0 /* in addition to CUmem_advise */

/* True if the allocation with that id, starting at start, still exists. */
typedef bool cua_alive_fn(uint64_t id, uint64_t start);

/* Stores advice (CUmem_advise) or a prefetch for the pages of [from, from + count) of r. Records
   of allocations that `alive` does not confirm are dropped. OUT_OF_MEMORY. */
CUresult cua_advice_keep(const struct cua_range *r, uint64_t from, uint64_t count, int what,
                         struct cua_place at, cua_alive_fn *alive);
/* The attribute that holds for all of [from, from + count): the result of
   cuMemRangeGetAttribute. */
CUresult cua_advice_attribute(const struct cua_range *r, uint64_t from, uint64_t count, void *data,
                              size_t bytes, CUmem_range_attribute attribute);
/* The same for n attributes; stops at the first error. */
CUresult cua_advice_attributes(const struct cua_range *r, uint64_t from, uint64_t count, void **data,
                               size_t *bytes, CUmem_range_attribute *attributes, size_t n);

/* Converts a location to its stored form: a device, which the caller checks, or the host without
   NUMA, which has one node. */
CUresult cua_advice_place(const CUmemLocation *loc, struct cua_place *at);
/* The location meant by a device, or by CU_DEVICE_CPU, in the calls of CUDA 8. */
CUmemLocation cua_location_of(CUdevice device);

#endif
