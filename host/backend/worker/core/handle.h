/* SPDX-License-Identifier: MIT */
/* Handle table of one client. */
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
    uint64_t parent;     /* handle of the object it is part of and ends with, 0 = none */
    uint64_t first;      /* first live handle whose parent this is, 0 = none */
    uint64_t next, prev; /* siblings: handles of the same parent, 0 = none */
    uint32_t generation; /* generation of the current or, when not live, the last object */
    bool live;
    /* not live: CUresult of the failed creation, known to the guest; 0: created, or never used */
    int failed;
    VGB_LISTED struct wrk_name *name; /* wrk_naming.c; NULL: no graph names it */
};

struct wrk_handle_chunk;
struct wrk_handles {
    /* WRK_HANDLE_CHUNKS pointers each, on demand */
    VGB_OWNED struct wrk_handle_chunk **chunks[VGP_H_TYPES];
    uint32_t high[VGP_H_TYPES]; /* highest index ever used + 1 */
    uint64_t live[VGP_H_TYPES];
    uint64_t live_all; /* sum over all types */
    /* objects without a handle: textures, surfaces, reserved addresses, per-thread default streams */
    uint64_t unnamed;
    uint64_t kept;                    /* dropped objects that graphs still name: wrk_naming.c */
    unsigned thread_streams;          /* the last of these */
    uint32_t minted[VGP_H_TYPES];     /* minted here: highest index ever used */
    uint32_t *free_list[VGP_H_TYPES]; /* minted here: indices for reuse */
    uint32_t nfree[VGP_H_TYPES], free_room[VGP_H_TYPES];
};

void wrk_handles_fini(struct wrk_handles *t);
/* Entry of a handle; NULL unless it is well-formed, of that type, live and of the current
 * generation. */
struct wrk_handle_entry *wrk_handles_find(struct wrk_handles *t, uint64_t handle, unsigned type);
/* Prepares the slot of a guest-minted handle. 0; INVALID_HANDLE: malformed, of another type, live,
 * or of the generation used last; OUT_OF_MEMORY. */
CUresult wrk_handles_reserve(struct wrk_handles *t, uint64_t handle, unsigned type);
/* Stores an object; only directly after a successful reserve. `owner`: handle of its context. */
void wrk_handles_put(struct wrk_handles *t, uint64_t handle, unsigned type, void *object, uint64_t owner);
/*
 * Records that creating `handle` failed with r: later uses of it fail with r (wrk_handles_failure). No limit of
 * handles applies: the entries are those that objects take which have ended, bounded by VGP_HANDLE_INDEX_MAX of a
 * type and by the client's memory.
 */
void wrk_handles_fail(struct wrk_handles *t, uint64_t handle, unsigned type, CUresult r);
/* Result of the failed creation; CUDA_SUCCESS: it did not fail. */
CUresult wrk_handles_failure(struct wrk_handles *t, uint64_t handle, unsigned type);
/* Removes a handle and, at any depth, its parts: the provider ends them with it. */
bool wrk_handles_remove(struct wrk_handles *t, uint64_t handle, unsigned type);
/* Makes `handle` a part of the live object `parent`, of any type. */
void wrk_handles_set_parent(struct wrk_handles *t, uint64_t handle, uint64_t parent);
/* Mints a handle below VGP_HANDLE_GUEST_FIRST, for types minted here (graphs and their nodes). 0:
 * no memory, or all indices are live. */
uint64_t wrk_handles_mint(struct wrk_handles *t, unsigned type, void *object);
/* Calls fn for each live entry of a type. */
void wrk_handles_each(struct wrk_handles *t, unsigned type,
                      void (*fn)(struct wrk_handle_entry *e, uint64_t handle, void *arg), void *arg);

#endif
