/* SPDX-License-Identifier: MIT */
/*
 * Handlers of multicast objects: handles of physical memory (calls_vmm.c) that have none of their own.
 *
 * CUDA lets binding and mapping wait until all devices were added. The dispatcher may not wait: libcuda
 * does, and asks then. What is bound stays alive without handle and mapping; so it counts until then.
 */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

/* One bound range. A client may make as many as it has memory to bind, in pieces of a granularity. */
struct vgb_binding {
    struct vgb_binding *next;
    uint64_t offset, size;
    int device;           /* -1: made by another process, not known here */
    struct vgb_phys *phys;
};

static CUresult refuse(struct vgb_call *c, CUresult r, const char *why)
{
    vgb_notify_detail(c->w, why);
    return r;
}

/* An object that other processes could open would leave the VM. */
static CUresult check_prop(struct vgb_call *c, uint64_t handle_types)
{
    return handle_types ? refuse(c, CUDA_ERROR_NOT_SUPPORTED,
                                 "multicast objects that can be exported are not served")
                        : CUDA_SUCCESS;
}

static CUmulticastObjectProp prop_of(uint32_t devices, uint64_t size, uint64_t flags)
{
    CUmulticastObjectProp p;

    memset(&p, 0, sizeof(p));
    p.numDevices = devices;
    p.size = size;
    p.flags = flags;
    return p;
}

CUresult vgb_do_vgpMulticastGranularity(struct vgb_call *c,
                                        const struct vgp_args_vgpMulticastGranularity *a,
                                        struct vgp_ret_vgpMulticastGranularity *r)
{
    CUmulticastObjectProp p = prop_of(a->numDevices, a->size, a->flags);
    CUresult e = check_prop(c, a->handleTypes);
    size_t granularity = 0;

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuMulticastGetGranularity)
        return vgb_missing(c, "cuMulticastGetGranularity");
    e = vgb_provider.cuMulticastGetGranularity(&granularity, &p,
                                               (CUmulticastGranularity_flags)a->option);
    r->granularity = granularity;
    return e;
}

CUresult vgb_do_vgpMulticastCreate(struct vgb_call *c, const struct vgp_args_vgpMulticastCreate *a)
{
    CUmulticastObjectProp p = prop_of(a->numDevices, a->size, a->flags);
    struct vgb_allocation *al;
    CUresult r = vgb_handle_reserve(c, a->handle, VGP_H_ALLOCATION);

    if (r == CUDA_SUCCESS)
        r = check_prop(c, a->handleTypes);
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuMulticastCreate || !vgb_provider.cuMemRelease)
        return vgb_missing(c, "cuMulticastCreate");
    al = vgb_allocation_new();
    if (!al)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = vgb_provider.cuMulticastCreate(&al->handle, &p);
    if (r != CUDA_SUCCESS) {
        vgb_allocation_free(al);
        return r;
    }
    al->phys->team = a->numDevices;
    vgb_handle_put(c, a->handle, VGP_H_ALLOCATION, al);
    return CUDA_SUCCESS;
}

/* A multicast object of the client. */
static CUresult object_get(struct vgb_call *c, uint64_t handle, struct vgb_allocation **out)
{
    CUresult r = vgb_allocation_get(c, handle, out);

    if (r == CUDA_SUCCESS && !(*out)->phys->team)
        r = refuse(c, CUDA_ERROR_INVALID_VALUE, "the handle is not that of a multicast object");
    return r;
}

CUresult vgb_do_vgpMulticastAddDevice(struct vgb_call *c,
                                      const struct vgp_args_vgpMulticastAddDevice *a)
{
    struct vgb_allocation *al;
    CUresult r = object_get(c, a->handle, &al);

    if (r != CUDA_SUCCESS)
        return r;
    if (a->device < 0 || a->device >= 64)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!vgb_provider.cuMulticastAddDevice)
        return vgb_missing(c, "cuMulticastAddDevice");
    r = vgb_provider.cuMulticastAddDevice(al->handle, a->device);
    if (r == CUDA_SUCCESS)
        al->phys->added |= UINT64_C(1) << a->device;
    return r;
}

static CUresult bindable(struct vgb_call *c, uint64_t handle, struct vgb_allocation **out)
{
    CUresult r = object_get(c, handle, out);

    return r == CUDA_SUCCESS && !vgb_team_complete((*out)->phys)
               ? refuse(c, CUDA_ERROR_ILLEGAL_STATE, "not all devices of the multicast object were added")
               : r;
}

static void bound(struct vgb_worker *w, struct vgb_phys *object, struct vgb_binding *b)
{
    vgb_phys_hold(w, b->phys);
    b->next = object->bindings;
    object->bindings = b;
}

CUresult vgb_do_vgpMulticastBindMem(struct vgb_call *c,
                                    const struct vgp_args_vgpMulticastBindMem *a)
{
    struct vgb_allocation *al, *memory;
    struct vgb_binding *b;
    CUresult r = bindable(c, a->handle, &al);

    if (r == CUDA_SUCCESS)
        r = vgb_allocation_get(c, a->memory, &memory);
    if (r == CUDA_SUCCESS && memory->phys->team)
        r = refuse(c, CUDA_ERROR_INVALID_VALUE, "a multicast object is no memory to bind");
    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuMulticastBindMem || !vgb_provider.cuMulticastUnbind)
        return vgb_missing(c, "cuMulticastBindMem");
    b = malloc(sizeof(*b));
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = vgb_provider.cuMulticastBindMem(al->handle, a->offset, memory->handle, a->memoryOffset,
                                        a->size, a->flags);
    if (r != CUDA_SUCCESS) {
        free(b);
        return r;
    }
    *b = (struct vgb_binding){.offset = a->offset, .size = a->size, .phys = memory->phys};
    b->device = memory->phys->device;
    bound(c->w, al->phys, b);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpMulticastBindAddr(struct vgb_call *c,
                                     const struct vgp_args_vgpMulticastBindAddr *a)
{
    struct vgb_allocation *al;
    struct vgb_binding *b;
    CUresult r = bindable(c, a->handle, &al);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuMulticastBindAddr || !vgb_provider.cuMulticastUnbind)
        return vgb_missing(c, "cuMulticastBindAddr");
    b = malloc(sizeof(*b));
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = vgb_provider.cuMulticastBindAddr(al->handle, a->offset, a->address, a->size, a->flags);
    if (r != CUDA_SUCCESS) {
        free(b);
        return r;
    }
    *b = (struct vgb_binding){.offset = a->offset, .size = a->size};
    b->phys = vgb_phys_at(a->address);
    if (!b->phys) { /* memory of a pool: it counts until it is freed, bound or not */
        free(b);
        return CUDA_SUCCESS;
    }
    b->device = b->phys->device;
    bound(c->w, al->phys, b);
    return CUDA_SUCCESS;
}

static void unbound(struct vgb_worker *w, struct vgb_phys *object, int device, uint64_t offset,
                    uint64_t size)
{
    for (struct vgb_binding **p = &object->bindings, *b; (b = *p) != NULL;) {
        if ((b->device >= 0 && b->device != device) || b->offset < offset ||
            !vgp_range_ok(b->offset - offset, b->size, size)) {
            p = &b->next;
            continue;
        }
        *p = b->next;
        vgb_phys_let_go(w, b->phys);
        free(b);
    }
}

CUresult vgb_do_vgpMulticastUnbind(struct vgb_call *c, const struct vgp_args_vgpMulticastUnbind *a)
{
    struct vgb_allocation *al;
    CUresult r = object_get(c, a->handle, &al);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuMulticastUnbind)
        return vgb_missing(c, "cuMulticastUnbind");
    r = vgb_provider.cuMulticastUnbind(al->handle, a->device, a->offset, a->size);
    if (r == CUDA_SUCCESS)
        unbound(c->w, al->phys, a->device, a->offset, a->size);
    return r;
}

struct vgb_phys *vgb_bindings_take(struct vgb_binding **list)
{
    struct vgb_binding *b = *list;
    struct vgb_phys *p = b->phys;

    *list = b->next;
    free(b);
    return p;
}
