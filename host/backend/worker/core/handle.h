/* SPDX-License-Identifier: MIT */
/* Handles of one client, and the objects behind them. */
#ifndef WRK_HANDLE_H
#define WRK_HANDLE_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "vgb_holds.h"
#include "vgp_ring.h"

struct wrk_handle_entry {
    void *object;
    uint64_t owner;      /* handle of the context that was current when it was made */
    uint64_t parent;     /* handle of the object that it is part of and ends with, 0 = none */
    uint64_t first;      /* of the live handles whose parent this is, 0 = none */
    uint64_t next, prev; /* among those of the same parent, 0 = none */
    uint32_t generation; /* of the current or, when not live, the last object */
    bool live;
    int failed; /* not live: why making it failed, which the guest has been told; 0: it was made, or never */
    VGB_LISTED struct wrk_name *name; /* naming.c; NULL: no graph names it */
};

struct wrk_handle_chunk;
struct wrk_handles {
    VGB_OWNED struct wrk_handle_chunk **chunks[VGP_H_TYPES]; /* WRK_HANDLE_CHUNKS pointers each, on demand */
    uint32_t high[VGP_H_TYPES];                              /* highest index ever used + 1 */
    uint64_t live[VGP_H_TYPES];
    uint64_t live_all;                /* their sum */
    uint32_t minted[VGP_H_TYPES];     /* minted here: highest index ever used */
    uint32_t *free_list[VGP_H_TYPES]; /* minted here: indices to be used again */
    uint32_t nfree[VGP_H_TYPES], free_room[VGP_H_TYPES];
};

void wrk_handles_fini(struct wrk_handles *t);
/* NULL unless `handle` is well-formed, of that type, live and of the current generation. */
struct wrk_handle_entry *wrk_handles_find(struct wrk_handles *t, uint64_t handle, unsigned type);
/* 0: the slot can be put into; INVALID_HANDLE: malformed, other type, live or the generation of the
 * last use; OUT_OF_MEMORY. */
CUresult wrk_handles_reserve(struct wrk_handles *t, uint64_t handle, unsigned type);
/* Only right after a reserve that succeeded. `owner`: handle of the context it belongs to. */
void wrk_handles_put(struct wrk_handles *t, uint64_t handle, unsigned type, void *object, uint64_t owner);
/* Making `handle` failed with r: what is asked of it later fails with that too (wrk_handles_failure). */
void wrk_handles_fail(struct wrk_handles *t, uint64_t handle, unsigned type, CUresult r);
/* Why making it failed; CUDA_SUCCESS: it did not. */
CUresult wrk_handles_failure(struct wrk_handles *t, uint64_t handle, unsigned type);
/* Removes it and all that is part of it, whatever the depth: the provider ends those with it. */
bool wrk_handles_remove(struct wrk_handles *t, uint64_t handle, unsigned type);
/* `handle` is part of the live object `parent`, of any type. */
void wrk_handles_set_parent(struct wrk_handles *t, uint64_t handle, uint64_t parent);
/* A new handle for an object, for types that are minted here (graphs and their nodes), below
 * VGP_HANDLE_GUEST_FIRST. 0: no memory, or so many are live. */
uint64_t wrk_handles_mint(struct wrk_handles *t, unsigned type, void *object);
/* Calls fn for each live entry of a type. */
void wrk_handles_each(struct wrk_handles *t, unsigned type,
                      void (*fn)(struct wrk_handle_entry *e, uint64_t handle, void *arg), void *arg);

#endif
