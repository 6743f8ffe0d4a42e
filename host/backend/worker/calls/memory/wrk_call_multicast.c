/* SPDX-License-Identifier: MIT */
/*
 * Handlers of multicast objects: handles of physical memory (wrk_call_vmm.c) that have none of their own.
 *
 * In CUDA, binding and mapping wait until all devices are added. The dispatcher must not wait:
 * libcuda waits and asks afterwards. Bound memory stays alive, and charged, without handle or
 * mapping.
 */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>

static CUresult multicast_refuse(struct wrk_call *c, CUresult r, const char *why)
{
    wrk_notify_detail(c->w, why);
    return r;
}

CUresult wrk_multicast_prop_check(struct wrk_call *c, uint64_t handle_types)
{
    return handle_types ? multicast_refuse(c, CUDA_ERROR_NOT_SUPPORTED,
                                           "multicast objects that can be exported are not served")
                        : CUDA_SUCCESS;
}

CUmulticastObjectProp wrk_multicast_prop(uint32_t devices, uint64_t size, uint64_t flags)
{
    CUmulticastObjectProp p;

    memset(&p, 0, sizeof(p));
    p.numDevices = devices;
    p.size = size;
    p.flags = flags;
    return p;
}

CUresult wrk_do_vgpMulticastCreate(struct wrk_call *c, const struct vgp_args_vgpMulticastCreate *a)
{
    CUmulticastObjectProp p = wrk_multicast_prop(a->numDevices, a->size, a->flags);
    struct wrk_allocation *al;
    CUresult r = wrk_handle_reserve(c, a->handle, VGP_H_ALLOCATION);

    if (r == CUDA_SUCCESS)
        r = wrk_multicast_prop_check(c, a->handleTypes);
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMulticastCreate || !wrk_provider.cuMemRelease)
        return wrk_missing(c, "cuMulticastCreate");
    al = wrk_allocation_new();
    if (!al)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = wrk_provider.cuMulticastCreate(&al->handle, &p);
    if (r != CUDA_SUCCESS) {
        wrk_allocation_free(al);
        return r;
    }
    al->phys->team = a->numDevices;
    wrk_handle_put(c, a->handle, VGP_H_ALLOCATION, al);
    return CUDA_SUCCESS;
}

/* A multicast object of the client. */
static CUresult object_get(struct wrk_call *c, uint64_t handle, struct wrk_allocation **out)
{
    CUresult r = wrk_allocation_get(c, handle, out);

    if (r == CUDA_SUCCESS && !(*out)->phys->team)
        r = multicast_refuse(c, CUDA_ERROR_INVALID_VALUE, "the handle is not that of a multicast object");
    return r;
}

CUresult wrk_multicast_check(struct wrk_call *c, uint64_t handle)
{
    struct wrk_allocation *al;

    return object_get(c, handle, &al);
}

void wrk_multicast_added(struct wrk_call *c, uint64_t handle, int32_t device)
{
    struct wrk_allocation *al;

    if (wrk_allocation_get(c, handle, &al) == CUDA_SUCCESS)
        al->phys->added |= UINT64_C(1) << device;
}

static CUresult bindable_object(struct wrk_call *c, uint64_t handle, struct wrk_allocation **out)
{
    CUresult r = object_get(c, handle, out);

    return r == CUDA_SUCCESS && !wrk_team_complete((*out)->phys)
               ? multicast_refuse(c, CUDA_ERROR_ILLEGAL_STATE,
                                  "not all devices of the multicast object were added")
               : r;
}

/* b->phys is held. */
static void add_binding(struct wrk_phys *object, struct wrk_binding *b)
{
    b->next = object->bindings;
    object->bindings = b;
}

CUresult wrk_do_vgpMulticastBindMem(struct wrk_call *c, const struct vgp_args_vgpMulticastBindMem *a)
{
    struct wrk_allocation *al, *memory;
    struct wrk_binding *b;
    CUresult r = bindable_object(c, a->handle, &al);

    if (r == CUDA_SUCCESS)
        r = wrk_allocation_get(c, a->memory, &memory);
    if (r == CUDA_SUCCESS && memory->phys->team)
        r = multicast_refuse(c, CUDA_ERROR_INVALID_VALUE, "a multicast object is no memory to bind");
    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMulticastBindMem || !wrk_provider.cuMulticastUnbind)
        return wrk_missing(c, "cuMulticastBindMem");
    b = malloc(sizeof(*b));
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = wrk_provider.cuMulticastBindMem(al->handle, a->offset, memory->handle, a->memoryOffset, a->size,
                                        a->flags);
    if (r != CUDA_SUCCESS) {
        free(b);
        return r;
    }
    *b = (struct wrk_binding){.offset = a->offset, .size = a->size, .phys = memory->phys};
    b->device = memory->phys->device;
    wrk_phys_hold(c->w, b->phys);
    add_binding(al->phys, b);
    return CUDA_SUCCESS;
}

CUresult wrk_do_vgpMulticastBindAddr(struct wrk_call *c, const struct vgp_args_vgpMulticastBindAddr *a)
{
    struct wrk_allocation *al;
    struct wrk_binding *b;
    CUresult r = bindable_object(c, a->handle, &al);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMulticastBindAddr || !wrk_provider.cuMulticastUnbind)
        return wrk_missing(c, "cuMulticastBindAddr");
    b = malloc(sizeof(*b));
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *b = (struct wrk_binding){.offset = a->offset, .size = a->size};
    /* before it is bound: from then on an unmapping leaves it charged */
    r = wrk_phys_hold_at(a->address, a->size, &b->phys)
            ? wrk_provider.cuMulticastBindAddr(al->handle, a->offset, a->address, a->size, a->flags)
            : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        wrk_phys_let_go(c->w, b->phys);
        free(b);
        return r;
    }
    if (!b->phys) { /* pool memory: charged until freed, bound or not */
        free(b);
        return CUDA_SUCCESS;
    }
    b->device = b->phys->device;
    add_binding(al->phys, b);
    return CUDA_SUCCESS;
}

void wrk_multicast_unbound(struct wrk_call *c, uint64_t handle, int32_t device, uint64_t offset,
                           uint64_t size)
{
    struct wrk_allocation *al;

    if (wrk_allocation_get(c, handle, &al) != CUDA_SUCCESS)
        return;
    for (struct wrk_binding **p = &al->phys->bindings, *b; (b = *p) != NULL;) {
        if ((b->device >= 0 && b->device != device) || b->offset < offset ||
            !vgp_range_ok(b->offset - offset, b->size, size)) {
            p = &b->next;
            continue;
        }
        *p = b->next;
        wrk_phys_let_go(c->w, b->phys);
        free(b);
    }
}
