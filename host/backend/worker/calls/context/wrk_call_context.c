/* SPDX-License-Identifier: MIT */
/* Handlers of contexts. A green context is made here, too, of the primary context below it. */
#include "../calls.h"

#include <stdlib.h>
#include <string.h>

#include "lib/driver/errors.h"
#include <linux/types.h>

#include "vgpu_device.h"

#define DEVICES_MAX 64

static struct {
    uint64_t handle; /* guest handle of the primary context, 0 = none yet */
    CUcontext ctx;
    unsigned count;
    unsigned ending; /* releases and resets in progress on waiters */
} primary[DEVICES_MAX];

/* Removes all uses of a context that `end` is about to end. Returns the bytes of its memory,
 * charged until it has ended. */
static uint64_t context_leave(struct wrk_worker *w, uint64_t handle, CUcontext ctx, struct wrk_wait *end)
{
    wrk_set_context(w, ctx);
    wrk_flow_context_ends(w, ctx, end);
    wrk_waits_context_ends(w, ctx);
    wrk_regions_context_ends(w, ctx, end);
    wrk_waits_forget_context(w, ctx);
    wrk_exec_context_ends(ctx, end);
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

static CUresult retain_primary(struct wrk_worker *w, int device, uint64_t handle)
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
    /* no further bytes, but the context's own memory must be covered */
    if (!wrk_quota_take(w, 0)) {
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

static void find_context(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    CUcontext *found = arg;

    (void)handle;
    if (e->object && !*found)
        *found = e->object;
}

static CUresult context_create(CUcontext *ctx, unsigned flags, int device)
{
    if (wrk_provider.cuCtxCreate_v2)
        return wrk_provider.cuCtxCreate_v2(ctx, flags, device);
    return wrk_provider.cuCtxCreate_v4 ? wrk_provider.cuCtxCreate_v4(ctx, NULL, flags, device)
                                       : CUDA_ERROR_NOT_SUPPORTED;
}

/* A waiter that ends the primary context takes all references to it away, those of other threads, too. */
static CUresult borrow_primary(int device, struct wrk_lent_context *lent, CUcontext *ctx)
{
    CUresult r;

    if (primary[device].ending) {
        if (!wrk_provider.cuCtxDestroy_v2)
            return CUDA_ERROR_NOT_SUPPORTED;
        r = context_create(ctx, 0, device);
        lent->made = r == CUDA_SUCCESS ? *ctx : NULL;
        return r;
    }
    r = wrk_provider.cuDevicePrimaryCtxRetain(ctx, device);
    lent->retained = r == CUDA_SUCCESS ? device : -1;
    return r;
}

/* Any context will do; a primary context of that device is likely to be the one that is used next. */
CUresult wrk_context_lend(struct wrk_worker *w, int device, struct wrk_lent_context *lent)
{
    CUcontext ctx = NULL;
    CUresult r = CUDA_SUCCESS;

    *lent = (struct wrk_lent_context){.retained = -1};
    if (device < 0 || device >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    if (primary[device].count)
        ctx = primary[device].ctx;
    else
        wrk_handles_each(&w->handles, VGP_H_CONTEXT, find_context, &ctx);
    if (!ctx) {
        r = borrow_primary(device, lent, &ctx);
        if (r != CUDA_SUCCESS)
            return r;
        if (lent->made)
            w->current = ctx; /* the provider makes it so */
        wrk_provider_took();
        if (!wrk_quota_take(w, 0)) {
            wrk_notify_detail(w, "the context's memory exceeds the quota of device memory");
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return wrk_set_context(w, ctx);
}

void wrk_context_return(struct wrk_worker *w, const struct wrk_lent_context *lent)
{
    wrk_set_context(w, NULL);
    if (lent->retained >= 0)
        wrk_provider.cuDevicePrimaryCtxRelease_v2(lent->retained);
    if (lent->made)
        wrk_provider.cuCtxDestroy_v2(lent->made);
}

static CUresult context_finish_nothing(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
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
    if (wait->arg[1] != primary[device].handle && wrk_handles_find(&w->handles, wait->arg[1], VGP_H_CONTEXT))
        wrk_die(w, VGPU_DEAD_PROTOCOL, "malformed record: handle %#llx was made twice",
                (unsigned long long)wait->arg[1]);
    return retain_primary(w, device, wait->arg[1]);
}

CUresult wrk_do_vgpPrimaryCtxRetain(struct wrk_call *c, const struct vgp_args_vgpPrimaryCtxRetain *a)
{
    CUresult r;

    if (!wrk_provider.cuDevicePrimaryCtxRetain || !wrk_provider.cuDevicePrimaryCtxRelease_v2)
        return wrk_missing(c, "cuDevicePrimaryCtxRetain");
    if (a->device < 0 || a->device >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    /* A single handle per primary context, as CUDA uses a single pointer: a second would outlive
     * it. */
    if (is_second_handle(a->device, a->context))
        return wrk_malformed(c, "a second handle for the primary context of device %d", a->device);
    if (!a->context || a->context != primary[a->device].handle ||
        !wrk_handles_find(&c->w->handles, a->context, VGP_H_CONTEXT)) {
        r = wrk_handle_reserve(c, a->context, VGP_H_CONTEXT);
        if (r != CUDA_SUCCESS)
            return r;
    }
    if (!primary[a->device].ending)
        return retain_primary(c->w, a->device, a->context);
    /* The last release is in progress on a waiter: not between its call and the following steps. */
    struct wrk_wait *wait = wrk_wait_long(c, context_finish_nothing, land_retain);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->ends = &primary[a->device];
    wait->arg[0] = (uint64_t)a->device;
    wait->arg[1] = a->context;
    return wrk_wait_start(c, wait);
}

/* Guest handle of a device's primary context while retained; 0: not retained. */
static uint64_t primary_get(int device, CUcontext *ctx)
{
    if (device < 0 || device >= DEVICES_MAX || !primary[device].count)
        return 0;
    *ctx = primary[device].ctx;
    return primary[device].handle;
}

/* The guest has retained the primary context and keeps it while the green context exists. */
CUresult wrk_do_vgpGreenCtxCreate(struct wrk_call *c, const struct vgp_args_vgpGreenCtxCreate *a)
{
    CUcontext ctx = NULL;
    const uint64_t base = primary_get(a->device, &ctx);

    return wrk_green_make(c, a, base, ctx);
}

static void note_context_end(struct wrk_worker *w, const struct wrk_wait *wait)
{
    wrk_quota_give(w, wait->arg[1]);
    wrk_host_func_context_gone((struct wrk_host_page *)(uintptr_t)wait->arg[2], false);
}

static CUresult land_primary(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    if (wait->arg[3])
        wrk_die(w, VGPU_DEAD_EXITED, "the driver keeps the primary context of device %d", (int)wait->arg[0]);
    primary[wait->arg[0]].ending--;
    wrk_captures_context_gone(w);
    wrk_flow_context_gone(wait);
    wrk_exec_context_gone(wait, r);
    wrk_regions_context_gone(w, wait);
    free(wait->buffer);
    wait->buffer = NULL;
    return r;
}

#define HOLDS_MAX (1u << 20)

/*
 * From here on the context counts as ended, with everything registered, created and allocated in
 * it. So nothing may hold it: no green context that cannot be ended, and no reference kept by a
 * driver at a reset. False: it is held.
 */
static bool let_primary_go(CUdevice device)
{
    unsigned flags = 0;
    int active = 0;

    for (unsigned i = 0; i < HOLDS_MAX; i++) {
        if (!wrk_provider.cuDevicePrimaryCtxGetState ||
            wrk_provider.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active)
            return true;
        if (wrk_provider.cuDevicePrimaryCtxRelease_v2(device) != CUDA_SUCCESS)
            break;
    }
    return false;
}

static CUresult end_primary(struct wrk_worker *w, struct wrk_wait *wait, CUresult (*end)(CUdevice device))
{
    const CUdevice device = (CUdevice)wait->arg[0];
    CUresult r;

    wrk_greens_end(wait->buffer);
    r = end(device);
    wait->arg[3] = !let_primary_go(device);
    wrk_greens_gone(wait->buffer);
    note_context_end(w, wait);
    return r;
}

static CUresult finish_release(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)r;
    return end_primary(w, wait, wrk_provider.cuDevicePrimaryCtxRelease_v2);
}

static CUresult finish_reset(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)r;
    return end_primary(w, wait, wrk_provider.cuDevicePrimaryCtxReset_v2);
}

/* Errors of the context's work are no refusal. */
static bool is_kept(CUresult r)
{
    return r != CUDA_SUCCESS && r != CUDA_ERROR_CONTEXT_IS_DESTROYED && r != CUDA_ERROR_DEINITIALIZED &&
           !cua_error_is_sticky(r);
}

static CUresult finish_destroy(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)r;
    r = wrk_provider.cuCtxDestroy_v2((CUcontext)(uintptr_t)wait->arg[0]);
    if (is_kept(r))
        wait->arg[1] = 0; /* its memory stays, and stays charged */
    note_context_end(w, wait);
    return r;
}

static CUresult land_destroy(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    if (is_kept(r) && wrk_regions_context_has(w, wait))
        wrk_die(w, VGPU_DEAD_EXITED,
                "the driver keeps a context in which guest memory is registered: error %d", (int)r);
    wrk_captures_context_gone(w);
    wrk_flow_context_gone(wait);
    wrk_exec_context_gone(wait, r);
    wrk_regions_context_gone(w, wait);
    return r;
}

/*
 * Ends a context on a waiter, which waits for its work. Created before any state of it is dropped.
 */
static struct wrk_wait *new_end(struct wrk_call *c, wrk_wait_finish finish)
{
    struct wrk_wait *wait = wrk_wait_new(c);

    if (!wait)
        return NULL;
    wait->ctx = NULL;
    wait->uses[0] = wait->uses[1] = NULL;
    wait->finish = finish;
    wait->blocking = true;
    return wait;
}

static CUresult end_context(struct wrk_call *c, struct wrk_wait *wait, uint64_t arg, uint64_t bytes,
                            CUcontext ctx)
{
    wait->ends = ctx; /* after waits of other threads in this context */
    wait->uses[3] = &wrk_context_end;
    wait->arg[0] = arg;
    wait->arg[1] = bytes;
    wait->arg[2] = (uintptr_t)wrk_host_func_context_ends(ctx);
    wrk_captures_context_ends();
    return wrk_wait_start(c, wait);
}

/* The client's last reference, if any, is gone. The next retain revives the handle. */
static CUresult end_last(struct wrk_call *c, struct wrk_wait *wait, int device, bool was_there)
{
    const uint64_t handle = primary[device].handle;
    /* Otherwise the address may belong to another context by now. */
    CUcontext ctx = was_there ? primary[device].ctx : NULL;
    uint64_t bytes = 0;

    primary[device].count = 0;
    if (was_there) {
        struct wrk_handle_entry *e = wrk_handles_find(&c->w->handles, handle, VGP_H_CONTEXT);

        wait->buffer = wrk_greens_leave(c->w, handle);
        bytes = context_leave(c->w, handle, ctx, wait);
        if (e)
            e->object = NULL;
    }
    primary[device].ending++;
    wait->uses[2] = &primary[device];
    wait->land = land_primary;
    return end_context(c, wait, (uint64_t)device, bytes, ctx);
}

CUresult wrk_do_vgpPrimaryCtxRelease(struct wrk_call *c, const struct vgp_args_vgpPrimaryCtxRelease *a)
{
    struct wrk_wait *wait;

    if (!wrk_provider.cuDevicePrimaryCtxRelease_v2)
        return wrk_missing(c, "cuDevicePrimaryCtxRelease");
    if (a->device < 0 || a->device >= DEVICES_MAX || !primary[a->device].count)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (primary[a->device].count > 1) {
        primary[a->device].count--;
        return wrk_provider.cuDevicePrimaryCtxRelease_v2(a->device);
    }
    wait = new_end(c, finish_release);
    return wait ? end_last(c, wait, a->device, true) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Documented: all references are dropped, including the client's. */
CUresult wrk_do_vgpPrimaryCtxReset(struct wrk_call *c, const struct vgp_args_vgpPrimaryCtxReset *a)
{
    struct wrk_wait *wait;

    if (!wrk_provider.cuDevicePrimaryCtxReset_v2 || !wrk_provider.cuDevicePrimaryCtxRelease_v2)
        return wrk_missing(c, "cuDevicePrimaryCtxReset");
    if (a->device < 0 || a->device >= DEVICES_MAX)
        return CUDA_ERROR_INVALID_DEVICE;
    /* The context is ending, behind calls under way in it, and a retain may wait: there is nothing else to end. */
    const bool ending = !primary[a->device].count && primary[a->device].ending;

    wait = new_end(c, ending ? context_finish_nothing : finish_reset);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!ending)
        return end_last(c, wait, a->device, primary[a->device].count);
    wait->ends = &primary[a->device];
    return wrk_wait_start(c, wait);
}

CUresult wrk_do_vgpCtxCreate(struct wrk_call *c, const struct vgp_args_vgpCtxCreate *a)
{
    CUcontext ctx = NULL;
    CUresult r = wrk_handle_reserve(c, a->context, VGP_H_CONTEXT);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuCtxCreate_v2 && !wrk_provider.cuCtxCreate_v4)
        return wrk_missing(c, "cuCtxCreate");
    r = context_create(&ctx, a->flags, a->device);
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
    struct wrk_wait *wait = new_end(c, finish_destroy);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUcontext ctx = e->object;
    uint64_t bytes = context_leave(c->w, a->context, ctx, wait);
    wait->land = land_destroy;
    wrk_handle_drop(c, a->context, VGP_H_CONTEXT);
    return end_context(c, wait, (uintptr_t)ctx, bytes, ctx);
}
