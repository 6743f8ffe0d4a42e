/* SPDX-License-Identifier: MIT */
/* Handlers of contexts. What a context owned goes with it: a stale handle must not reach the
 * provider. */
#include "graph.h"

#include <string.h>

#include "vgp_worker.h"

#define DEVICES_MAX 64

static struct {
    uint64_t handle; /* that the guest uses for the primary context, 0 = none yet */
    CUcontext ctx;
    unsigned count;
} primary[DEVICES_MAX];

struct drop {
    struct vgb_worker *w;
    uint64_t context;
    unsigned type;
};

static void drop_one(struct vgb_handle_entry *e, uint64_t handle, void *arg)
{
    struct drop *d = arg;

    if (e->owner == d->context)
        vgb_handles_remove(&d->w->handles, handle, d->type);
}

void vgb_drop_owned(struct vgb_worker *w, uint64_t context)
{
    static const unsigned types[] = {VGP_H_STREAM, VGP_H_EVENT, VGP_H_MODULE, VGP_H_FUNCTION,
                                     VGP_H_ARRAY,  VGP_H_TEXTURE, VGP_H_SURFACE, VGP_H_GRAPH_EXEC};

    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct drop d = {.w = w, .context = context, .type = types[i]};

        vgb_handles_each(&w->handles, types[i], drop_one, &d);
    }
    vgb_links_end(w, context);
    for (unsigned i = 0; i < w->nthread_streams;) {
        if (w->thread_streams[i].context == context)
            w->thread_streams[i] = w->thread_streams[--w->nthread_streams];
        else
            i++;
    }
}

/* The context is about to end: nothing of ours may still use it. Returns the bytes of its memory,
 * which count until it has ended. */
static uint64_t leave(struct vgb_worker *w, uint64_t handle, CUcontext ctx)
{
    vgb_greens_leave(w, handle);
    vgb_set_context(w, ctx);
    vgb_waits_forget_context(w, ctx);
    vgb_exec_forget_context(ctx);
    vgb_drop_owned(w, handle);
    uint64_t bytes = vgb_quota_detach_context(w, ctx);
    vgb_ipc_context_gone(w, ctx);
    if (w->bounce.registered == ctx)
        w->bounce.registered = NULL; /* the registration ends with the context */
    vgb_set_context(w, NULL);
    return bytes;
}

CUresult vgb_do_vgpPrimaryCtxRetain(struct vgb_call *c,
                                    const struct vgp_args_vgpPrimaryCtxRetain *a)
{
    CUcontext ctx = NULL;
    CUresult r;

    if (!vgb_provider.cuDevicePrimaryCtxRetain)
        return vgb_missing(c, "cuDevicePrimaryCtxRetain");
    if (a->device < 0 || a->device >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    /* The guest may keep one handle for the primary context, as CUDA keeps one pointer. */
    bool same = a->context && a->context == primary[a->device].handle &&
                vgb_handles_find(&c->w->handles, a->context, VGP_H_CONTEXT);
    if (!same) {
        r = vgb_handle_reserve(c, a->context, VGP_H_CONTEXT);
        if (r != CUDA_SUCCESS)
            return r;
    }
    r = vgb_provider.cuDevicePrimaryCtxRetain(&ctx, a->device);
    if (r != CUDA_SUCCESS)
        return r;
    primary[a->device].ctx = ctx;
    primary[a->device].handle = a->context;
    primary[a->device].count++;
    if (same)
        vgb_handles_find(&c->w->handles, a->context, VGP_H_CONTEXT)->object = ctx;
    else
        vgb_handle_put(c, a->context, VGP_H_CONTEXT, ctx);
    return CUDA_SUCCESS;
}

uint64_t vgb_primary(int device, CUcontext *ctx)
{
    if (device < 0 || device >= DEVICES_MAX || !primary[device].count)
        return 0;
    *ctx = primary[device].ctx;
    return primary[device].handle;
}

static void ended(struct vgb_worker *w, const struct vgb_wait *wait)
{
    vgb_quota_give(w, wait->arg[1]);
    vgb_host_func_context_gone((CUcontext)(uintptr_t)wait->arg[2], false);
}

static CUresult finish_release(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    (void)r;
    r = vgb_provider.cuDevicePrimaryCtxRelease_v2((CUdevice)wait->arg[0]);
    ended(w, wait);
    return r;
}

static CUresult finish_reset(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    (void)r;
    r = vgb_provider.cuDevicePrimaryCtxReset_v2((CUdevice)wait->arg[0]);
    ended(w, wait);
    return r;
}

static CUresult finish_destroy(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    (void)r;
    r = vgb_provider.cuCtxDestroy_v2((CUcontext)(uintptr_t)wait->arg[0]);
    ended(w, wait);
    return r;
}

/* Runs `finish` on a waiter: ending a context waits for its work. */
static CUresult end_context(struct vgb_call *c, vgb_wait_finish finish, uint64_t arg,
                            uint64_t bytes, CUcontext ctx)
{
    struct vgb_wait *wait = vgb_wait_new(c);

    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->ctx = NULL;
    wait->finish = finish;
    wait->blocking = true;
    wait->arg[0] = arg;
    wait->arg[1] = bytes;
    wait->arg[2] = (uintptr_t)ctx;
    return vgb_wait_start(c, wait);
}

CUresult vgb_do_vgpPrimaryCtxRelease(struct vgb_call *c,
                                     const struct vgp_args_vgpPrimaryCtxRelease *a)
{
    if (!vgb_provider.cuDevicePrimaryCtxRelease_v2)
        return vgb_missing(c, "cuDevicePrimaryCtxRelease");
    if (a->device < 0 || a->device >= DEVICES_MAX || !primary[a->device].count)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary[a->device].count)
        return vgb_provider.cuDevicePrimaryCtxRelease_v2(a->device);
    uint64_t handle = primary[a->device].handle;
    struct vgb_handle_entry *e = vgb_handles_find(&c->w->handles, handle, VGP_H_CONTEXT);
    uint64_t bytes = leave(c->w, handle, primary[a->device].ctx);
    if (e)
        e->object = NULL; /* the handle comes to life again with the next retain */
    return end_context(c, finish_release, (uint64_t)a->device, bytes, primary[a->device].ctx);
}

CUresult vgb_do_vgpPrimaryCtxReset(struct vgb_call *c, const struct vgp_args_vgpPrimaryCtxReset *a)
{
    if (!vgb_provider.cuDevicePrimaryCtxReset_v2)
        return vgb_missing(c, "cuDevicePrimaryCtxReset");
    if (a->device < 0 || a->device >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    uint64_t bytes = 0;
    if (primary[a->device].ctx && primary[a->device].count)
        bytes = leave(c->w, primary[a->device].handle, primary[a->device].ctx);
    return end_context(c, finish_reset, (uint64_t)a->device, bytes, primary[a->device].ctx);
}

CUresult vgb_do_vgpCtxCreate(struct vgb_call *c, const struct vgp_args_vgpCtxCreate *a)
{
    CUcontext ctx = NULL;
    CUresult r = vgb_handle_reserve(c, a->context, VGP_H_CONTEXT);

    if (r != CUDA_SUCCESS)
        return r;
    if (vgb_provider.cuCtxCreate_v2)
        r = vgb_provider.cuCtxCreate_v2(&ctx, a->flags, a->device);
    else if (vgb_provider.cuCtxCreate_v4)
        r = vgb_provider.cuCtxCreate_v4(&ctx, NULL, a->flags, a->device);
    else
        return vgb_missing(c, "cuCtxCreate");
    if (r != CUDA_SUCCESS)
        return r;
    c->w->current = ctx; /* creating it made it current */
    vgb_handle_put(c, a->context, VGP_H_CONTEXT, ctx);
    return CUDA_SUCCESS;
}

CUresult vgb_do_vgpCtxDestroy(struct vgb_call *c, const struct vgp_args_vgpCtxDestroy *a)
{
    struct vgb_handle_entry *e = vgb_handles_find(&c->w->handles, a->context, VGP_H_CONTEXT);

    if (!vgb_provider.cuCtxDestroy_v2)
        return vgb_missing(c, "cuCtxDestroy");
    if (!e || !e->object)
        return CUDA_ERROR_INVALID_CONTEXT;
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        if (primary[i].handle == a->context)
            return CUDA_ERROR_INVALID_CONTEXT; /* primary contexts are released */
    }
    if (vgb_base_handle(c->w, a->context) != a->context)
        return CUDA_ERROR_INVALID_CONTEXT; /* of a green context */
    CUcontext ctx = e->object;
    uint64_t bytes = leave(c->w, a->context, ctx);
    vgb_handle_drop(c, a->context, VGP_H_CONTEXT);
    return end_context(c, finish_destroy, (uintptr_t)ctx, bytes, ctx);
}
