/* SPDX-License-Identifier: MIT */
/*
 * Provider calls that wait for device work or take long otherwise, and return only a result. They
 * run on waiter threads: on the dispatcher they would block all threads of the client and the
 * broker's requests.
 */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

static CUresult finish_long(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    return r == CUDA_SUCCESS ? ((wrk_long_call)(uintptr_t)wait->arg[3])(wait->arg) : r;
}

CUresult wrk_long(struct wrk_call *c, wrk_long_call call, const void *object, const uint64_t args[3])
{
    struct wrk_wait *wait = wrk_wait_long(c, finish_long, NULL);

    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->uses[2] = object;
    memcpy(wait->arg, args, 3 * sizeof(*args));
    wait->arg[3] = (uintptr_t)call;
    return wrk_wait_start(c, wait);
}

static CUresult pool_unused(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)wait;
    return r;
}

static CUresult land_pool(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    return r == CUDA_SUCCESS ? wrk_provider.cuMemPoolDestroy((CUmemoryPool)(uintptr_t)wait->arg[0]) : r;
}

/* After trims of it in progress. */
CUresult wrk_do_cuMemPoolDestroy(struct wrk_call *c, const struct vgp_args_cuMemPoolDestroy *a)
{
    struct wrk_wait *wait;
    CUmemoryPool pool;
    CUresult r = wrk_handle_get(c, a->pool, VGP_H_MEM_POOL, false, (void **)&pool);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMemPoolDestroy)
        return wrk_missing(c, "cuMemPoolDestroy");
    wait = wrk_wait_long(c, pool_unused, land_pool);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_handle_drop(c, a->pool, VGP_H_MEM_POOL);
    wait->ends = pool;
    wait->arg[0] = (uintptr_t)pool;
    return wrk_wait_start(c, wait);
}

/* ---- limits ---- */

/* beyond any device's memory: refused even without a quota */
#define LIMIT_BYTES_MAX (UINT64_C(1) << 46)
#define HEAP_DEFAULT (8u << 20) /* CUDA's default of CU_LIMIT_MALLOC_HEAP_SIZE, bytes */

/* What a limit takes of device memory when the provider keeps it there; the value is in bytes.
 * Memory of threads (the stack) is reserved for as many as the device can hold at once. */
static uint64_t limit_bytes(CUlimit limit, uint64_t value)
{
    int processors = 0, threads = 0;
    CUdevice d = 0;

    /* Memory of its limits is included in its reported use; the heap, which is beyond its default from this call on, is asked
     * for here, since the call is not made by the dispatcher. */
    if (wrk_capabilities.private_memory)
        return limit == CU_LIMIT_MALLOC_HEAP_SIZE && value > HEAP_DEFAULT ? value - HEAP_DEFAULT : 0;
    switch (limit) {
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        return value;
    case CU_LIMIT_STACK_SIZE:
        if (!wrk_provider.cuCtxGetDevice || !wrk_provider.cuDeviceGetAttribute ||
            wrk_provider.cuCtxGetDevice(&d) != CUDA_SUCCESS)
            return value;
        wrk_provider.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d);
        wrk_provider.cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, d);
        if (__builtin_mul_overflow(value, (uint64_t)processors * (uint64_t)threads, &value))
            value = UINT64_MAX;
        return value;
    default:
        return 0;
    }
}

/* A limit's memory is recorded under an address that no device uses. */
static uint64_t limit_key(CUcontext ctx, CUlimit limit)
{
    return UINT64_C(1) << 63 | (uint64_t)limit << 56 | ((uintptr_t)ctx & ((UINT64_C(1) << 56) - 1));
}

/*
 * Calls under way. Of several for one limit the provider takes them in an order of its own, so which value it has in the end
 * is not known: the largest counts, until the limit is set by one call alone. Dispatcher only.
 */
struct setting {
    VGB_OWNED struct setting *next;
    VGB_LENT const struct wrk_wait *wait; /* until it lands, which ends this */
    CUcontext ctx;
    CUlimit limit;
    uint64_t had, bytes; /* charged before, and for the new value; until the call lands the larger one */
    bool shared;         /* another one was under way with it */
};
static struct setting *settings;

/* NULL: no memory. */
static struct setting *setting_begin(const struct wrk_wait *wait, CUcontext ctx, CUlimit limit)
{
    struct setting *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    *s = (struct setting){.next = settings, .wait = wait, .ctx = ctx, .limit = limit};
    for (struct setting *other = settings; other; other = other->next) {
        if (other->ctx == ctx && other->limit == limit)
            s->shared = other->shared = true;
    }
    settings = s;
    return s;
}

static struct setting setting_end(const struct wrk_wait *wait)
{
    struct setting **at = &settings, *s, out;

    while ((*at)->wait != wait)
        at = &(*at)->next;
    s = *at;
    out = *s;
    *at = s->next;
    free(s);
    return out;
}

/* Raises the charge of the limit to `bytes`; false: over the quota, or no memory. *had: the charge before. */
static bool raise_limit(struct wrk_worker *w, CUcontext ctx, CUlimit limit, uint64_t bytes, uint64_t *had)
{
    uint64_t key = limit_key(ctx, limit);
    struct wrk_alloc was;
    bool ok;

    if (bytes > LIMIT_BYTES_MAX)
        return false;
    wrk_quota_detach(w, key, &was);
    *had = was.bytes;
    ok = bytes <= was.bytes || wrk_quota_take_for(w, bytes - was.bytes);
    if (ok && bytes > was.bytes)
        was.bytes = bytes;
    if (was.bytes)
        wrk_quota_remember(w, key, was.bytes, ctx);
    return ok;
}

/* Lowers it to `bytes`. */
static void lower_limit(struct wrk_worker *w, CUcontext ctx, CUlimit limit, uint64_t bytes)
{
    uint64_t key = limit_key(ctx, limit);
    struct wrk_alloc was;

    wrk_quota_detach(w, key, &was);
    if (bytes < was.bytes) {
        wrk_quota_give(w, was.bytes - bytes);
        was.bytes = bytes;
    }
    if (was.bytes)
        wrk_quota_remember(w, key, was.bytes, ctx);
}

static CUresult finish_limit(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    return r == CUDA_SUCCESS ? wrk_provider.cuCtxSetLimit((CUlimit)wait->arg[0], wait->arg[1]) : r;
}

static CUresult land_limit(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    const struct setting s = setting_end(wait);

    wrk_provider_took();
    if (!wait->context_gone && !s.shared)
        lower_limit(w, s.ctx, s.limit, r == CUDA_SUCCESS ? s.bytes : s.had);
    return r;
}

CUresult wrk_do_cuCtxSetLimit(struct wrk_call *c, const struct vgp_args_cuCtxSetLimit *a)
{
    CUcontext ctx = wrk_base_context(c->w->current);
    CUlimit limit = (CUlimit)a->limit;
    struct setting *setting;
    struct wrk_wait *wait;

    if (!wrk_provider.cuCtxSetLimit)
        return wrk_missing(c, "cuCtxSetLimit");
    /* of a newer driver, or of none: takes no memory that we know of */
    if (a->limit >= CU_LIMIT_MAX)
        return wrk_provider.cuCtxSetLimit(limit, a->value);
    wait = wrk_wait_long(c, finish_limit, land_limit);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    setting = setting_begin(wait, ctx, limit);
    if (!setting) {
        wait->land = NULL;
        return wrk_wait_fail(c, wait, CUDA_ERROR_OUT_OF_MEMORY);
    }
    setting->bytes = limit_bytes(limit, a->value);
    if (!raise_limit(c->w, ctx, limit, setting->bytes, &setting->had)) {
        wrk_notify_detail(c->w, "the limit's memory exceeds the quota of device memory");
        setting_end(wait);
        wait->land = NULL;
        return wrk_wait_fail(c, wait, CUDA_ERROR_OUT_OF_MEMORY);
    }
    wait->arg[0] = a->limit;
    wait->arg[1] = a->value;
    return wrk_wait_start(c, wait);
}

/* ---- the end of objects that graphs have named longer than their handles were there ---- */

static CUresult finish_module(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)r;
    return wrk_provider.cuModuleUnload((CUmodule)(uintptr_t)wait->arg[0]);
}

static CUresult finish_library(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)r;
    return wrk_provider.cuLibraryUnload((CUlibrary)(uintptr_t)wait->arg[0]);
}

static CUresult finish_array(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)r;
    return wrk_provider.cuArrayDestroy((CUarray)(uintptr_t)wait->arg[0]);
}

static CUresult finish_mipmap(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)r;
    return wrk_provider.cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)wait->arg[0]);
}

/* Provider calls may wait for the context's work. If out of memory for a wait, the object stays
 * until the client ends. */
static void end_long(struct wrk_worker *w, void *object, CUcontext ctx, wrk_wait_finish finish)
{
    struct wrk_wait *wait = wrk_wait_internal(w, ctx);

    if (!wait)
        return;
    if (finish == finish_library)
        wrk_wait_use_all(wait);
    wait->long_call = true;
    wait->finish = finish;
    wait->arg[0] = (uintptr_t)object;
    wrk_wait_start_internal(w, wait);
}

void wrk_module_end(struct wrk_worker *w, void *object, CUcontext ctx)
{
    end_long(w, object, ctx, finish_module);
}

static void end_library(struct wrk_worker *w, void *object, CUcontext ctx)
{
    end_long(w, object, ctx, finish_library);
}

static void end_array(struct wrk_worker *w, void *object, CUcontext ctx)
{
    end_long(w, object, ctx, finish_array);
}

static void end_mipmap(struct wrk_worker *w, void *object, CUcontext ctx)
{
    end_long(w, object, ctx, finish_mipmap);
}

bool wrk_name_keep_long(struct wrk_call *c, uint64_t handle, unsigned type)
{
    switch (type) {
    case VGP_H_MODULE:
        return wrk_name_keep(c, handle, type, wrk_module_end);
    case VGP_H_LIBRARY:
        return wrk_name_keep(c, handle, type, end_library);
    case VGP_H_ARRAY:
        return wrk_name_keep(c, handle, type, end_array);
    default:
        return wrk_name_keep(c, handle, type, end_mipmap);
    }
}
