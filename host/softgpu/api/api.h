/* SPDX-License-Identifier: MIT */
/* Functions that the files of entry points share. */
#ifndef SG_API_H
#define SG_API_H

#include "graph/graph.h"

#include "softgpu/newer.h"

/* A reserved address (api/memory/vmm.c): the reservation, and the mapping in it; map_size 0: none. */
struct sg_vmm_info {
    uint64_t base, size, map_base, map_size;
};
bool sg_vmm_find(uint64_t addr, struct sg_vmm_info *out);

/* Ends a mapped buffer of external memory (api/memory/external.c); false: there is none at ptr. */
bool sg_external_free(CUdeviceptr ptr, CUresult *r);

/* Adds delta to what the pool behind a handle has in use (api/memory/pool.c). */
void sg_pool_account(uint64_t handle, int64_t delta);

#endif
