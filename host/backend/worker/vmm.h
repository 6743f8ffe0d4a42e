/* SPDX-License-Identifier: MIT */
/* Physical memory of a client, and multicast objects, as calls_vmm.c keeps them. */
#ifndef VGB_VMM_H
#define VGB_VMM_H

#include "worker.h"

struct vgb_binding;

/* Physical memory that the client has; or a multicast object, which has no memory of its own. */
struct vgb_phys {
    uint64_t bytes; /* that count; 0 when another process has made it */
    uint32_t handles, mappings; /* that keep it alive; bound to an object counts as mapped */
    int device; /* -1: not known here */
    bool shareable, imported;
    uint8_t token[VGB_TOKEN]; /* when it is shareable */
    uint32_t team;            /* a multicast object for so many devices; 0: memory */
    uint64_t added;           /* a bit for each of them that was added */
    struct vgb_binding *bindings; /* of an object; dispatcher, or nobody knows the object any more */
};

/* What a handle of the client stands for. */
struct vgb_allocation {
    CUmemGenericAllocationHandle handle;
    struct vgb_phys *phys;
};

/* With one handle counted; NULL: no memory. */
struct vgb_allocation *vgb_allocation_new(void);
/* One that the provider refused. */
void vgb_allocation_free(struct vgb_allocation *al);
/* CUDA_ERROR_INVALID_VALUE when the client has no such handle. */
CUresult vgb_allocation_get(struct vgb_call *c, uint64_t handle, struct vgb_allocation **out);
static inline bool vgb_team_complete(const struct vgb_phys *p)
{
    return (uint32_t)__builtin_popcountll(p->added) >= p->team;
}
/* What is mapped at an address of the client, or NULL. */
struct vgb_phys *vgb_phys_at(uint64_t addr);
/* Counts one more, or one less, that keeps it alive; NULL: nothing. */
void vgb_phys_hold(struct vgb_worker *w, struct vgb_phys *p);
void vgb_phys_let_go(struct vgb_worker *w, struct vgb_phys *p);
/* Takes the first binding off a list that is not empty; its memory. */
struct vgb_phys *vgb_bindings_take(struct vgb_binding **list);

#endif
