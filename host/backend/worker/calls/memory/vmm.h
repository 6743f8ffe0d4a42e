/* SPDX-License-Identifier: MIT */
/* Physical memory and multicast objects of a client (wrk_call_vmm.c). */
#ifndef WRK_VMM_H
#define WRK_VMM_H

#include "../calls.h"

/* A range bound to a multicast object. A client may create as many as it has memory to bind, in pieces of the
 * granularity. */
struct wrk_binding {
    VGB_OWNED struct wrk_binding *next;
    uint64_t offset, size;
    int device; /* -1: created by another process, unknown here */
    VGB_COUNTED struct wrk_phys *phys;
};

/* Physical memory of the client, or a multicast object, which has no memory of its own. */
struct wrk_phys {
    uint64_t bytes; /* bytes charged; 0 if created by another process */
    /* references that keep it alive; a binding to a multicast object counts as a mapping */
    uint32_t handles, mappings;
    int device; /* -1: unknown */
    bool shareable, imported;
    uint8_t token[VGB_TOKEN]; /* valid if shareable */
    uint32_t team;            /* multicast object: number of devices; 0: memory */
    uint64_t added;           /* bitmap of added devices */
    /* Bindings of a multicast object; accessed by the dispatcher, or after the last reference is
     * gone. */
    VGB_OWNED struct wrk_binding *bindings;
};

/* Allocation behind a handle of the client. */
struct wrk_allocation {
    CUmemGenericAllocationHandle handle;
    VGB_COUNTED struct wrk_phys *phys;
};

/* Creates an allocation with a handle count of 1; NULL: no memory. */
struct wrk_allocation *wrk_allocation_new(void);
/* Frees an allocation that the provider refused. */
void wrk_allocation_free(struct wrk_allocation *al);
/* Looks up a handle; CUDA_ERROR_INVALID_VALUE if the client has no such handle. */
CUresult wrk_allocation_get(struct wrk_call *c, uint64_t handle, struct wrk_allocation **out);
static inline bool wrk_team_complete(const struct wrk_phys *p)
{
    return (uint32_t)__builtin_popcountll(p->added) >= p->team;
}
/* *out: memory mapped at an address of the client, with a reference, or NULL. False: the `size` bytes are not of one
 * memory, or another thread is unmapping a part of them. */
bool wrk_phys_hold_at(uint64_t addr, uint64_t size, struct wrk_phys **out);
/* Take and drop a reference; no-op for NULL. */
void wrk_phys_hold(struct wrk_worker *w, struct wrk_phys *p);
void wrk_phys_let_go(struct wrk_worker *w, struct wrk_phys *p);

#endif
