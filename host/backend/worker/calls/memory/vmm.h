/* SPDX-License-Identifier: MIT */
/* Physical memory of a client, and multicast objects, as vmm.c keeps them. */
#ifndef WRK_VMM_H
#define WRK_VMM_H

#include "../calls.h"

struct wrk_binding;

/* Physical memory that the client has; or a multicast object, which has no memory of its own. */
struct wrk_phys {
    uint64_t bytes;             /* that count; 0 when another process has made it */
    uint32_t handles, mappings; /* that keep it alive; bound to an object counts as mapped */
    int device;                 /* -1: not known here */
    bool shareable, imported;
    uint8_t token[VGB_TOKEN]; /* when it is shareable */
    uint32_t team;            /* a multicast object for so many devices; 0: memory */
    uint64_t added;           /* a bit for each of them that was added */
    /* Of an object; the dispatcher's, or nobody knows the object any more. */
    VGB_OWNED struct wrk_binding *bindings;
};

/* What a handle of the client stands for. */
struct wrk_allocation {
    CUmemGenericAllocationHandle handle;
    VGB_COUNTED struct wrk_phys *phys;
};

/* With one handle counted; NULL: no memory. */
struct wrk_allocation *wrk_allocation_new(void);
/* One that the provider refused. */
void wrk_allocation_free(struct wrk_allocation *al);
/* CUDA_ERROR_INVALID_VALUE when the client has no such handle. */
CUresult wrk_allocation_get(struct wrk_call *c, uint64_t handle, struct wrk_allocation **out);
static inline bool wrk_team_complete(const struct wrk_phys *p)
{
    return (uint32_t)__builtin_popcountll(p->added) >= p->team;
}
/* What is mapped at an address of the client, or NULL; held, since a waiter may be unmapping it. */
struct wrk_phys *wrk_phys_hold_at(uint64_t addr);
/* Counts one more, or one less, that keeps it alive; NULL: nothing. */
void wrk_phys_hold(struct wrk_worker *w, struct wrk_phys *p);
void wrk_phys_let_go(struct wrk_worker *w, struct wrk_phys *p);
/* Takes the first binding off a list that is not empty; its memory. */
struct wrk_phys *wrk_bindings_take(struct wrk_binding **list);

#endif
