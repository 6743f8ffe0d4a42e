/* SPDX-License-Identifier: MIT */
/*
 * Contexts: the per-thread stack, the primary contexts, cuCtxCreate and friends.
 *
 * A primary context has one handle from cuInit on (the runtime makes it current before it retains
 * it); the worker is notified at the first retain. Each record carries the current context.
 */
#define _GNU_SOURCE
#include "core.h"

#include <stdlib.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

/* cuCtxGetApiVersion of contexts made through the _v2 and later interfaces. */
#define API_VERSION 3020
#define SETTABLE_FLAGS \
    (CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_COREDUMP_ENABLE | \
     CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS)

static _Atomic uint64_t next_id = 1;
/* Serialises retain, release and reset: they are rare and must not interleave. Recursive, because
   the destructors of context-local storage, which the runtime registers, may call any of them. */
static pthread_mutex_t context_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

/* ---- making and ending ---------------------------------------------------------------------- */

static struct vcu_context *context_add(int device, bool primary, unsigned flags)
{
    struct vcu_context *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->handle = vgp_handle_mint(VGP_H_CONTEXT);
    if (c->handle == 0) {
        free(c);
        return NULL;
    }
    c->id = atomic_fetch_add(&next_id, 1);
    c->device = device;
    c->flags = flags;
    c->primary = primary;
    c->api_version = API_VERSION;
    c->retained = primary ? 0 : 1;
    c->base = c;
    vcu_coredump_begin(c);
    vcu_handle_set_data(c->handle, VGP_H_CONTEXT, c);
    return c;
}

struct vcu_context *vcu_context_add_green(int device)
{
    struct vcu_context *c = context_add(device, false, 0);
    struct vcu_context *base = vcu_handle_data(vcu.devices[device].primary, VGP_H_CONTEXT);

    if (c == NULL)
        return NULL;
    c->base = base;
    c->base_incarnation = base->incarnation;
    c->flags = base->flags;
    return c;
}

void vcu_context_drop(struct vcu_context *c)
{
    vgp_handle_drop(c->handle);
    vcu_coredump_forget(c);
    free(c);
}

uint64_t vcu_context_add_primary(int device)
{
    struct vcu_context *c = context_add(device, true, 0);

    return c == NULL ? 0 : c->handle;
}

struct vcu_context *vcu_primary_of(const struct vcu_device *d)
{
    return vcu_handle_data(d->primary, VGP_H_CONTEXT);
}

CUresult vcu_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct vcu_device *d;
    struct vcu_context *c;
    CUresult res = vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    if (pctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    c = vcu_primary_of(d);
    pthread_mutex_lock(&context_lock);
    if (c->retained == 0) {
        res = vgp_call_vgpPrimaryCtxRetain(dev, (CUcontext)(uintptr_t)c->handle);
        if (res == CUDA_SUCCESS) {
            c->sticky = 0;
            vcu_coredump_begin(c);
        }
    }
    if (res == CUDA_SUCCESS) {
        c->retained++;
        *pctx = (CUcontext)(uintptr_t)c->handle;
    }
    pthread_mutex_unlock(&context_lock);
    return res;
}

/*
 * Objects of a context end with it. A primary context keeps its handle for the next incarnation, so its id changes:
 * by the id (cuCtxGetId, or slot 4 of TOOLS_CONTEXT) cuFFT recognises the context that holds its tables.
 */
static void forget_contents(struct vcu_context *c)
{
    vcu_units_context_ending(c);
    vcu_coredump_forget(c);
    vcu_capture_forget_context(c->handle);
    vcu_green_forget(c);
    c->incarnation++;
    c->id = atomic_fetch_add(&next_id, 1);
    c->sticky = 0;
}

CUresult vcu_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    struct vcu_device *d;
    struct vcu_context *c;
    CUresult res = vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    c = vcu_primary_of(d);
    pthread_mutex_lock(&context_lock);
    if (c->retained == 1)
        vcu_parked_send(); /* the memory of a pool outlasts the context */
    if (c->retained == 0) {
        res = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--c->retained == 0) {
        forget_contents(c);
        res = vgp_call_vgpPrimaryCtxRelease(dev);
        vcu_units_context_gone(c);
    }
    pthread_mutex_unlock(&context_lock);
    return res;
}

CUresult vcu_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    struct vcu_device *d;
    struct vcu_context *c;
    CUresult res = vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    c = vcu_primary_of(d);
    pthread_mutex_lock(&context_lock);
    if (c->retained != 0) {
        forget_contents(c);
        if (c->retained != 0) /* a destructor may have released the last reference */
            res = vgp_call_vgpPrimaryCtxReset(dev);
        vcu_units_context_gone(c);
        c->retained = 0; /* the documentation: all references are gone, it is inactive */
    }
    pthread_mutex_unlock(&context_lock);
    return res;
}

bool vcu_context_flags_ok(unsigned flags)
{
    unsigned sched = flags & CU_CTX_SCHED_MASK;

    return (flags & ~(unsigned)SETTABLE_FLAGS) == 0 && (sched == 0 || sched == 1 || sched == 2 || sched == 4);
}

CUresult vcu_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    struct vcu_device *d;
    struct vcu_context *c;
    CUresult res = vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    if (pctx == NULL || !vcu_context_flags_ok(flags))
        return CUDA_ERROR_INVALID_VALUE;
    c = context_add(dev, false, flags);
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpCtxCreate(flags, dev, (CUcontext)(uintptr_t)c->handle);
    if (res == CUDA_SUCCESS && !vcu_context_enter(c->handle)) {
        vgp_call_vgpCtxDestroy((CUcontext)(uintptr_t)c->handle);
        res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (res != CUDA_SUCCESS) {
        vgp_handle_drop(c->handle);
        free(c);
        return res;
    }
    *pctx = (CUcontext)(uintptr_t)c->handle;
    return CUDA_SUCCESS;
}

CUresult vcu_cuCtxDestroy_v2(CUcontext ctx)
{
    struct vcu_context *c;
    CUresult res;

    if (ctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    c = vcu_handle_data((uintptr_t)ctx, VGP_H_CONTEXT);
    if (c == NULL || c->primary || c->base != c)
        return CUDA_ERROR_INVALID_CONTEXT;
    vcu_parked_send();
    forget_contents(c);
    c->retained = 0;
    res = vgp_call_vgpCtxDestroy(ctx);
    vcu_units_context_gone(c);
    if (vcu_current_context() == c->handle)
        vcu_context_pop();
    vgp_handle_drop(c->handle); /* no effect when the encoder already dropped it */
    /* The record itself is kept: another thread may be reading it. Contexts are few. */
    return res;
}

/* ---- waiting -------------------------------------------------------------------------------- */

CUresult vcu_context_wait(void)
{
    return vcu_wait_answered(NULL, true) ? CUDA_SUCCESS : vcu_context_wait_sent();
}

CUresult vcu_cuCtxSynchronize_v2(CUcontext ctx)
{
    struct vcu_context *c;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    c = vcu_context_find(ctx);
    res = c == NULL ? CUDA_ERROR_INVALID_CONTEXT : vcu_context_usable(c);
    if (res != CUDA_SUCCESS)
        return res;
    if (c->handle == vcu_current_context())
        return vcu_context_wait();
    if (!vcu_context_enter(c->handle)) /* the record names the context: make it current for this one call */
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpCtxSynchronize(0);
    vcu_context_pop();
    return res;
}

/* ---- queries, all answered here ---------------------------------------------------------------- */

/* The context named by NULL or a handle: it need not be retained. */
CUresult vcu_context_facts(CUcontext ctx, struct vcu_context_facts *out)
{
    const struct vcu_context *c;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    c = vcu_context_find(ctx);
    if (c == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (struct vcu_context_facts){
        .device = c->device,
        .flags = c->base->flags | CU_CTX_MAP_HOST, /* the documentation: always set since CUDA 3.2 */
        .api_version = c->api_version,
        .id = c->id,
        .live = vcu_context_usable(c) != CUDA_ERROR_CONTEXT_IS_DESTROYED,
    };
    return CUDA_SUCCESS;
}

CUresult vcu_check_context_named(CUcontext ctx)
{
    return vcu_context_find(ctx) == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
