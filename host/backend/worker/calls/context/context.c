/* SPDX-License-Identifier: MIT */
/* Handlers of contexts. What a context owned goes with it: a stale handle must not reach the
 * provider. */
#include "../calls.h"

#include <string.h>

#include <linux/types.h>

#include "vgpu_device.h"

#define DEVICES_MAX 64

static struct {
    uint64_t handle; /* that the guest uses for the primary context, 0 = none yet */
    CUcontext ctx;
    unsigned count;
    unsigned ending; /* releases and resets on waiters */
} primary[DEVICES_MAX];

struct drop {
    VGB_LENT struct wrk_worker *w;
    uint64_t context;
    unsigned type;
};

static void drop_one(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct drop *d = arg;

    if (e->owner != d->context)
        return;
    if (d->type == VGP_H_STREAM) {
        wrk_flow_stream_ends(d->w, e->object); /* it may have work of calls in other contexts */
        wrk_capture_forget(e->object);
    }
    wrk_handles_remove(&d->w->handles, handle, d->type);
}

void wrk_drop_owned(struct wrk_worker *w, uint64_t context)
{
    static const unsigned types[] = {VGP_H_STREAM,   VGP_H_EVENT,      VGP_H_MODULE,
                                     VGP_H_FUNCTION, VGP_H_ARRAY,      VGP_H_TEXTURE,
                                     VGP_H_SURFACE,  VGP_H_GRAPH_EXEC, VGP_H_MIPMAPPED_ARRAY};

    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct drop d = {.w = w, .context = context, .type = types[i]};

        wrk_handles_each(&w->handles, types[i], drop_one, &d);
    }
    wrk_links_end(w, context);
    wrk_textures_end(context);
    for (unsigned i = 0; i < w->nthread_streams;) {
        if (w->thread_streams[i].context != context) {
            i++;
            continue;
        }
        wrk_flow_stream_ends(w, w->thread_streams[i].stream);
        wrk_capture_forget(w->thread_streams[i].stream);
        w->thread_streams[i] = w->thread_streams[--w->nthread_streams];
    }
}

/* The context is about to end: nothing of ours may still use it. Returns the bytes of its memory,
 * which count until it has ended. */
static uint64_t leave(struct wrk_worker *w, uint64_t handle, CUcontext ctx)
{
    wrk_greens_leave(w, handle);
    wrk_set_context(w, ctx);
    wrk_waits_context_ends(w, ctx);
    wrk_regions_context_ends(w, ctx);
    wrk_waits_forget_context(w, ctx);
    wrk_exec_forget_context(ctx);
    wrk_drop_owned(w, handle);
    wrk_names_context_ends(w, handle);
    wrk_captures_settle(w);
    uint64_t bytes = wrk_quota_detach_context(w, ctx);
    wrk_ipc_context_gone(w, ctx);
    if (w->memory->bounce.registered == ctx)
        w->memory->bounce.registered = NULL; /* the registration ends with the context */
    wrk_set_context(w, NULL);
    return bytes;
}

static CUresult retain(struct wrk_worker *w, int device, uint64_t handle)
{
    struct wrk_handle_entry *e = wrk_handles_find(&w->handles, handle, VGP_H_CONTEXT);
    CUcontext ctx = NULL;
    CUresult r;

    if (!e) {
        r = wrk_handles_reserve(&w->handles, handle, VGP_H_CONTEXT);
        if (r != CUDA_SUCCESS)
            return r;
    }
    r = wrk_provider.cuDevicePrimaryCtxRetain(&ctx, device);
    if (r != CUDA_SUCCESS)
        return r;
    wrk_provider_took();
    if (!wrk_quota_take(w, 0)) { /* nothing more, but what the context took must be covered */
        wrk_notify_detail(w, "the context's memory exceeds the quota of device memory");
        wrk_provider.cuDevicePrimaryCtxRelease_v2(device);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    primary[device].ctx = ctx;
    primary[device].handle = handle;
    primary[device].count++;
    if (e)
        e->object = ctx;
    else
        wrk_handles_put(&w->handles, handle, VGP_H_CONTEXT, ctx, 0);
    return CUDA_SUCCESS;
}

static CUresult nothing(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)wait;
    return r;
}

static bool is_second_handle(int device, uint64_t handle)
{
    return primary[device].count && handle != primary[device].handle;
}

static CUresult land_retain(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    const int device = (int)wait->arg[0];

    if (r != CUDA_SUCCESS)
        return r;
    if (is_second_handle(device, wait->arg[1])) /* another retain waited, too */
        wrk_die(w, VGPU_DEAD_PROTOCOL,
                "malformed record: a second handle for the primary context of device %d", device);
    return retain(w, device, wait->arg[1]);
}

CUresult wrk_do_vgpPrimaryCtxRetain(struct wrk_call *c, const struct vgp_args_vgpPrimaryCtxRetain *a)
{
    CUresult r;

    if (!wrk_provider.cuDevicePrimaryCtxRetain || !wrk_provider.cuDevicePrimaryCtxRelease_v2)
        return wrk_missing(c, "cuDevicePrimaryCtxRetain");
    if (a->device < 0 || a->device >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    /* One handle for each primary context, as CUDA keeps one pointer: of two, one would outlive it. */
    if (is_second_handle(a->device, a->context))
        return wrk_malformed(c, "a second handle for the primary context of device %d", a->device);
    if (!a->context || a->context != primary[a->device].handle ||
        !wrk_handles_find(&c->w->handles, a->context, VGP_H_CONTEXT)) {
        r = wrk_handle_reserve(c, a->context, VGP_H_CONTEXT);
        if (r != CUDA_SUCCESS)
            return r;
    }
    if (!primary[a->device].ending)
        return retain(c->w, a->device, a->context);
    /* The last release is under way on a waiter: not between its call and what follows that. */
    struct wrk_wait *wait = wrk_wait_long(c, nothing, land_retain);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->ends = &primary[a->device];
    wait->arg[0] = (uint64_t)a->device;
    wait->arg[1] = a->context;
    return wrk_wait_start(c, wait);
}

uint64_t wrk_primary(int device, CUcontext *ctx)
{
    if (device < 0 || device >= DEVICES_MAX || !primary[device].count)
        return 0;
    *ctx = primary[device].ctx;
    return primary[device].handle;
}

static void ended(struct wrk_worker *w, const struct wrk_wait *wait)
{
    wrk_quota_give(w, wait->arg[1]);
    wrk_host_func_context_gone((CUcontext)(uintptr_t)wait->arg[2], false);
}

static CUresult land_primary(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    primary[wait->arg[0]].ending--;
    return r;
}

static CUresult finish_release(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)r;
    r = wrk_provider.cuDevicePrimaryCtxRelease_v2((CUdevice)wait->arg[0]);
    ended(w, wait);
    return r;
}

static CUresult finish_reset(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)r;
    r = wrk_provider.cuDevicePrimaryCtxReset_v2((CUdevice)wait->arg[0]);
    ended(w, wait);
    return r;
}

static CUresult finish_destroy(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)r;
    r = wrk_provider.cuCtxDestroy_v2((CUcontext)(uintptr_t)wait->arg[0]);
    ended(w, wait);
    return r;
}

/* Runs `finish` on a waiter: ending a context waits for its work. */
static CUresult end_context(struct wrk_call *c, wrk_wait_finish finish, uint64_t arg, uint64_t bytes,
                            CUcontext ctx)
{
    struct wrk_wait *wait = wrk_wait_new(c);

    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->ctx = NULL;
    wait->uses[0] = wait->uses[1] = NULL;
    wait->ends = ctx; /* after the waits that other threads have in it */
    wait->finish = finish;
    wait->blocking = true;
    wait->arg[0] = arg;
    wait->arg[1] = bytes;
    wait->arg[2] = (uintptr_t)ctx;
    if (finish != finish_destroy) {
        primary[arg].ending++;
        wait->uses[2] = &primary[arg];
        wait->land = land_primary;
    }
    return wrk_wait_start(c, wait);
}

CUresult wrk_do_vgpPrimaryCtxRelease(struct wrk_call *c, const struct vgp_args_vgpPrimaryCtxRelease *a)
{
    if (!wrk_provider.cuDevicePrimaryCtxRelease_v2)
        return wrk_missing(c, "cuDevicePrimaryCtxRelease");
    if (a->device < 0 || a->device >= DEVICES_MAX || !primary[a->device].count)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary[a->device].count)
        return wrk_provider.cuDevicePrimaryCtxRelease_v2(a->device);
    uint64_t handle = primary[a->device].handle;
    struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, VGP_H_CONTEXT);
    uint64_t bytes = leave(c->w, handle, primary[a->device].ctx);
    if (e)
        e->object = NULL; /* the handle comes to life again with the next retain */
    return end_context(c, finish_release, (uint64_t)a->device, bytes, primary[a->device].ctx);
}

CUresult wrk_do_vgpPrimaryCtxReset(struct wrk_call *c, const struct vgp_args_vgpPrimaryCtxReset *a)
{
    if (!wrk_provider.cuDevicePrimaryCtxReset_v2)
        return wrk_missing(c, "cuDevicePrimaryCtxReset");
    if (a->device < 0 || a->device >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    uint64_t bytes = 0;
    if (primary[a->device].ctx && primary[a->device].count)
        bytes = leave(c->w, primary[a->device].handle, primary[a->device].ctx);
    return end_context(c, finish_reset, (uint64_t)a->device, bytes, primary[a->device].ctx);
}

CUresult wrk_do_vgpCtxCreate(struct wrk_call *c, const struct vgp_args_vgpCtxCreate *a)
{
    CUcontext ctx = NULL;
    CUresult r = wrk_handle_reserve(c, a->context, VGP_H_CONTEXT);

    if (r != CUDA_SUCCESS)
        return r;
    if (wrk_provider.cuCtxCreate_v2)
        r = wrk_provider.cuCtxCreate_v2(&ctx, a->flags, a->device);
    else if (wrk_provider.cuCtxCreate_v4)
        r = wrk_provider.cuCtxCreate_v4(&ctx, NULL, a->flags, a->device);
    else
        return wrk_missing(c, "cuCtxCreate");
    if (r != CUDA_SUCCESS)
        return r;
    wrk_context_created(c->w, ctx);
    wrk_provider_took();
    if (!wrk_quota_take(c->w, 0) && wrk_provider.cuCtxDestroy_v2) {
        wrk_notify_detail(c->w, "the context's memory exceeds the quota of device memory");
        wrk_set_context(c->w, NULL);
        wrk_provider.cuCtxDestroy_v2(ctx);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    wrk_handle_put(c, a->context, VGP_H_CONTEXT, ctx);
    return CUDA_SUCCESS;
}

CUresult wrk_do_vgpCtxDestroy(struct wrk_call *c, const struct vgp_args_vgpCtxDestroy *a)
{
    struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, a->context, VGP_H_CONTEXT);

    if (!wrk_provider.cuCtxDestroy_v2)
        return wrk_missing(c, "cuCtxDestroy");
    if (!e || !e->object)
        return CUDA_ERROR_INVALID_CONTEXT;
    for (unsigned i = 0; i < DEVICES_MAX; i++) {
        if (primary[i].handle == a->context)
            return CUDA_ERROR_INVALID_CONTEXT; /* primary contexts are released */
    }
    if (wrk_base_handle(c->w, a->context) != a->context)
        return CUDA_ERROR_INVALID_CONTEXT; /* of a green context */
    CUcontext ctx = e->object;
    uint64_t bytes = leave(c->w, a->context, ctx);
    wrk_handle_drop(c, a->context, VGP_H_CONTEXT);
    return end_context(c, finish_destroy, (uintptr_t)ctx, bytes, ctx);
}
