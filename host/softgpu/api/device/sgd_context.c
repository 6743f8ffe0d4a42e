/* SPDX-License-Identifier: MIT */
/* Driver API: context management and primary contexts. */
#include <stdlib.h>

#include "api/api.h"

#include "lib/driver/coredump.h"

#define SG_PRIORITY_LEAST 0
#define SG_PRIORITY_GREATEST (-5)
#define SG_STACK_LIMIT_MAX (512u << 10) /* bytes of local memory per thread, CUDA C guide */

/* ---- the thread's stack of contexts ---- */

static CUresult push_context(struct sg_tls *t, struct sg_ctx *ctx)
{
    if (t->depth == t->cap) {
        unsigned cap = t->cap ? 2 * t->cap : 8;
        struct sg_ctx **grown = realloc(t->stack, cap * sizeof(*grown));

        if (!grown)
            return CUDA_ERROR_OUT_OF_MEMORY;
        t->stack = grown;
        t->cap = cap;
    }
    sg_obj_get(&ctx->obj);
    t->stack[t->depth++] = ctx;
    return CUDA_SUCCESS;
}

static void pop_context(struct sg_tls *t)
{
    sg_obj_put(&t->stack[--t->depth]->obj);
}

CUresult sg_thread_get(struct sg_tls **out)
{
    CUresult r = sg_check_init();

    if (r != CUDA_SUCCESS)
        return r;
    *out = sg_tls();
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return (*out)->in_callback ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult sg_ctx_named(CUcontext h, struct sg_ctx **out)
{
    struct sg_ctx *current; /* also set, without a reference, if the context has ended */
    CUresult r;

    *out = NULL;
    if (!h || (uintptr_t)h == UINTPTR_MAX) {
        r = sg_current_raw(&current);
        if (r == CUDA_SUCCESS) {
            *out = sg_current_self(current);
            sg_obj_get(&(*out)->obj);
        }
        return r;
    }
    r = sg_check_init();
    if (r != CUDA_SUCCESS)
        return r;
    *out = SG_LOOKUP(h, SG_T_CTX);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sgd_cuCtxPushCurrent_v2(struct sg_tls *t, CUcontext ctx)
{
    SG_AUTO struct sg_ctx *c = SG_LOOKUP(ctx, SG_T_CTX);

    return c ? push_context(t, c) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sgd_cuCtxPopCurrent_v2(struct sg_tls *t, CUcontext *pctx)
{
    if (pctx)
        *pctx = SG_HANDLE(CUcontext, t->stack[t->depth - 1]);
    pop_context(t);
    return CUDA_SUCCESS;
}

CUresult sgd_cuCtxSetCurrent(struct sg_tls *t, CUcontext ctx)
{
    if (!ctx) {
        if (t->depth)
            pop_context(t);
        return CUDA_SUCCESS;
    }
    SG_AUTO struct sg_ctx *c = SG_LOOKUP(ctx, SG_T_CTX);

    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (t->depth)
        pop_context(t);
    return push_context(t, c);
}

/* ---- creation ---- */

static bool flags_valid(unsigned flags)
{
    unsigned sched = flags & CU_CTX_SCHED_MASK;

    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && !(sched & (sched - 1));
}

static CUresult ctx_create(CUcontext *pctx, unsigned flags, CUdevice dev, unsigned api)
{
    struct sg_ctx *ctx;
    struct sg_tls *t;
    CUresult r = sg_thread_get(&t);

    if (r != CUDA_SUCCESS)
        return r;
    if (!pctx || !flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    r = sg_ctx_new(dev, flags, false, &ctx);
    if (r != CUDA_SUCCESS)
        return r;
    ctx->api_version = api;
    r = push_context(t, ctx);
    if (r == CUDA_SUCCESS)
        *pctx = SG_HANDLE(CUcontext, ctx);
    else
        sg_obj_unregister(&ctx->obj);
    sg_obj_put(&ctx->obj);
    return r;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return ctx_create(pctx, flags, dev, 3010);
}

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return ctx_create(pctx, flags, dev, 3020);
}

CUresult sgd_cuCtxCreate_v3(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return ctx_create(pctx, flags, dev, 3020);
}

CUresult sgd_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                            CUdevice dev)
{
    if (ctxCreateParams && ctxCreateParams->cigParams)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuCtxCreate: no CUDA-in-graphics contexts");
    /* A negative number is none (driver 580). */
    if (ctxCreateParams && ctxCreateParams->numExecAffinityParams > 0) {
        if (!pctx || !ctxCreateParams->execAffinityParams)
            return CUDA_ERROR_INVALID_VALUE;
        return (unsigned)dev < sg_config.ndevices ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
                                                  : CUDA_ERROR_INVALID_DEVICE;
    }
    return ctx_create(pctx, flags, dev, 3020);
}

CUresult sgd_cuCtxDestroy_v2(struct sg_tls *t, CUcontext ctx)
{
    SG_AUTO struct sg_ctx *c = SG_LOOKUP(ctx, SG_T_CTX);

    if (!c || c->primary || c->base != c || !sg_obj_unregister(&c->obj))
        return CUDA_ERROR_INVALID_CONTEXT;
    sg_ctx_teardown(c);
    sg_stream_retire(c->legacy);
    if (t->depth && t->stack[t->depth - 1] == c)
        pop_context(t);
    return CUDA_SUCCESS;
}

/* A usage count from older CUDA versions, in which cuCtxDestroy did not end a context
   unconditionally. The primary context has another one (driver 580 takes it, too). */
CUresult sgd_cuCtxAttach(struct sg_ctx *ctx, CUcontext *pctx)
{
    if (!ctx->primary)
        atomic_fetch_add(&ctx->attached, 1);
    *pctx = SG_HANDLE(CUcontext, ctx);
    return CUDA_SUCCESS;
}

CUresult sgd_cuCtxDetach(struct sg_tls *t, CUcontext ctx)
{
    SG_AUTO struct sg_ctx *c = SG_LOOKUP(ctx, SG_T_CTX);

    if (!c || c->base != c || !t->depth || t->stack[t->depth - 1] != c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c->primary)
        return CUDA_SUCCESS;
    for (unsigned n = atomic_load(&c->attached); n;) {
        if (atomic_compare_exchange_weak(&c->attached, &n, n - 1))
            return CUDA_SUCCESS;
    }
    return cuCtxDestroy_v2(ctx);
}

/* ---- properties ---- */

CUresult sgd_cuCtxSetFlags(struct sg_ctx *ctx, unsigned int flags)
{
    if (!flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    ctx->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sgd_cuCtxSynchronize_v2(struct sg_ctx *c)
{
    CUresult r = sg_capture_check_ctx(c);

    if (r != CUDA_SUCCESS)
        return r;
    sg_ctx_drain(c);
    return sg_see_fault(c->base);
}

static bool limit_settable(CUlimit limit)
{
    return limit != CU_LIMIT_SHMEM_SIZE && limit != CU_LIMIT_CIG_ENABLED &&
           limit != CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED;
}

CUresult sgd_cuCtxSetLimit(struct sg_ctx *ctx, CUlimit limit, size_t value)
{
    if ((unsigned)limit >= CU_LIMIT_MAX || !limit_settable(limit))
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_STACK_SIZE && value > SG_STACK_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if ((limit == CU_LIMIT_PRINTF_FIFO_SIZE && ctx->printed) ||
        (limit == CU_LIMIT_MALLOC_HEAP_SIZE && ctx->allocated))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "limit %d: a kernel that uses it was launched", (int)limit);
    if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT && value > SG_PENDING_LAUNCHES_MAX)
        value = SG_PENDING_LAUNCHES_MAX; /* documented: a driver may clamp the value */
    if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
        size_t max = (size_t)sg_attr(ctx->device, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE);

        if (!max)
            return CUDA_ERROR_UNSUPPORTED_LIMIT;
        if (value > max)
            value = max; /* documented: clamped */
    }
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
        uint64_t unused, total;

        sg_mem_usage(ctx->device, &unused, &total);
        sg_exec_heap_size(value < total ? value : total);
    }
    ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sgd_cuCtxSetCacheConfig(struct sg_ctx *ctx, CUfunc_cache config)
{
    ctx->cache_config = config; /* a preference: there is no cache to configure */
    return CUDA_SUCCESS;
}

/* All multiprocessors that the context may use. The type is given back in any case (driver 580). */
CUresult sgd_cuCtxGetExecAffinity(struct sg_ctx *ctx, CUexecAffinityParam *pExecAffinity,
                                  CUexecAffinityType type)
{
    const struct sg_ctx *self = sg_current_self(ctx);

    pExecAffinity->type = type;
    if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    pExecAffinity->param.smCount.val =
        self->sms.count ? self->sms.count
                        : (unsigned)sg_attr(ctx->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
}

CUresult sgd_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    if (leastPriority)
        *leastPriority = SG_PRIORITY_LEAST;
    if (greatestPriority)
        *greatestPriority = SG_PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

/*
 * Lets the kernels of a context access the memory allocated by another context, on another device.
 * (Copies between contexts need no permission.)
 */
CUresult sgd_cuCtxEnablePeerAccess(struct sg_ctx *ctx, CUcontext peerContext)
{
    SG_AUTO struct sg_ctx *peer = sg_ctx_find_base(peerContext);

    if (!peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    /* documented for pairs for which cuDeviceCanAccessPeer() returns 0; so is a context itself (driver 580) */
    if (peer->device == ctx->device)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return sg_mem_add_peer(ctx, peer->id);
}

CUresult sgd_cuCtxDisablePeerAccess(struct sg_ctx *ctx, CUcontext peerContext)
{
    SG_AUTO struct sg_ctx *peer = sg_ctx_find_base(peerContext);

    if (!peer)
        return CUDA_ERROR_INVALID_CONTEXT;
    return sg_mem_drop_peer(ctx, peer->id) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/* ---- the primary context ---- */

CUresult sgd_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct sg_ctx *p;

    pthread_mutex_lock(&sg_devices[dev].lock);
    p = sg_devices[dev].primary;
    if (sg_devices[dev].primary_refs++ == 0) {
        p->flags = sg_devices[dev].primary_flags;
        cua_coredump_begin(&p->coredump);
        sg_ctx_revive(p);
    }
    pthread_mutex_unlock(&sg_devices[dev].lock);
    *pctx = SG_HANDLE(CUcontext, p);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&sg_devices[dev].lock);
    if (sg_devices[dev].primary_refs == 0)
        r = CUDA_ERROR_INVALID_CONTEXT;
    else if (--sg_devices[dev].primary_refs == 0)
        sg_ctx_teardown(sg_devices[dev].primary);
    pthread_mutex_unlock(&sg_devices[dev].lock);
    return r;
}

/* A device-side error survives a reset, as it does on a GPU: the process has to be restarted. */
CUresult sgd_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    pthread_mutex_lock(&sg_devices[dev].lock);
    if (sg_devices[dev].primary_refs) {
        sg_devices[dev].primary_refs = 0;
        sg_ctx_teardown(sg_devices[dev].primary);
    }
    pthread_mutex_unlock(&sg_devices[dev].lock);
    return sg_see_fault(sg_devices[dev].primary);
}

CUresult sgd_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    if (!flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_devices[dev].lock);
    sg_devices[dev].primary_flags = flags;
    if (sg_devices[dev].primary_refs)
        sg_devices[dev].primary->flags = flags;
    pthread_mutex_unlock(&sg_devices[dev].lock);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    pthread_mutex_lock(&sg_devices[dev].lock);
    *flags = sg_devices[dev].primary_flags;
    *active = sg_devices[dev].primary_refs != 0;
    pthread_mutex_unlock(&sg_devices[dev].lock);
    return CUDA_SUCCESS;
}
