/* SPDX-License-Identifier: MIT */
/* Initialisation, and the lifetime of contexts. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"
#include "lib/driver/coredump.h"
#include "runtime/runtime.h"

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t next_ctx_id = 1;

/* ---- cuInit ---- */

static void at_fork_child(void)
{
    /* The stream threads do not exist in the child; like NVIDIA's driver, this refuses to
       continue. */
    if (atomic_load(&sg_initialised))
        atomic_store(&sg_forked, true);
}

static CUresult init_locked(void)
{
    CUresult r;

    sg_log_open();
    if (!sg_config_load())
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "cuInit: a VGPU_SOFT_* setting is wrong");
    r = sg_mem_init();
    if (r != CUDA_SUCCESS)
        return r;
    if (!sg_tls_init(sg_tls_streams_free))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < sg_config.ndevices; i++) {
        r = sg_ctx_new((int)i, 0, true, &sg_devices[i].primary);
        if (r != CUDA_SUCCESS)
            return r;
        sg_obj_lasts(&sg_devices[i].primary->obj);
        sg_obj_lasts(&sg_devices[i].primary->legacy->obj);
        sg_log("device %u: compute capability %d.%d", i, sg_config.cc[i].major, sg_config.cc[i].minor);
    }
    sg_exec_set_threads(sg_config.threads);
    sg_exec_set_relaxed(sg_config.relaxed);
    sg_exec_prepare();
    sg_jit_init();
    if (!sg_store_init())
        sg_log("no file for physical memory: cuMemCreate() will find no memory");
    pthread_atfork(NULL, NULL, at_fork_child);
    sg_log("initialised: %u devices of %llu bytes, %u threads", sg_config.ndevices,
           (unsigned long long)sg_config.memory, sg_config.threads);
    return CUDA_SUCCESS;
}

CUresult sg_init(const struct sg_graph_hooks *hooks)
{
    CUresult r = CUDA_SUCCESS;

    if (atomic_load(&sg_forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&init_lock);
    if (!atomic_load(&sg_initialised)) {
        sg_hooks = hooks;
        r = init_locked();
        if (r == CUDA_SUCCESS)
            atomic_store(&sg_initialised, true);
    }
    pthread_mutex_unlock(&init_lock);
    return r;
}

/* Stops kernels that still run when the process exits. */
__attribute__((destructor)) static void at_exit(void)
{
    for (unsigned i = 0; i < SG_MAX_DEVICES; i++) {
        if (sg_devices[i].primary)
            sg_devices[i].primary->abort = 1;
    }
}

/* ---- life of a context ---- */

static void ctx_free(struct sg_obj *obj)
{
    struct sg_ctx *ctx = (struct sg_ctx *)obj;

    /* Its thread has ended or never existed; the caller has a reference. No lock is taken, as
       the caller may hold it. */
    if (ctx->legacy)
        sg_obj_end(&ctx->legacy->obj);
    sg_deps_free(ctx->gates);
    pthread_mutex_destroy(&ctx->issue);
    cua_coredump_forget(&ctx->coredump);
    free(ctx);
}

/* Values of a fresh context: cuCtxGetLimit's documented defaults. */
static void reset_settings(struct sg_ctx *ctx)
{
    for (unsigned i = 0; i < SG_NLIMITS; i++)
        ctx->limits[i] = 0;
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1u << 20;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8u << 20;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    ctx->printed = ctx->allocated = false;
    ctx->cache_config = CU_FUNC_CACHE_PREFER_NONE;
    ctx->shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
}

CUresult sg_ctx_new(int device, unsigned flags, bool primary, struct sg_ctx **out)
{
    struct sg_ctx *ctx = calloc(1, sizeof(*ctx));
    CUresult r;

    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&ctx->obj, SG_T_CTX, NULL, ctx_free);
    pthread_mutex_init(&ctx->issue, NULL);
    ctx->id = atomic_fetch_add(&next_ctx_id, 1);
    ctx->base = ctx;
    ctx->device = device;
    ctx->primary = primary;
    ctx->flags = flags;
    ctx->api_version = 3020;
    reset_settings(ctx);
    cua_coredump_begin(&ctx->coredump);
    atomic_store(&ctx->alive, !primary);
    r = sg_stream_new(ctx, 0, 0, &ctx->legacy);
    if (r == CUDA_SUCCESS && !sg_obj_register(&ctx->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        sg_obj_put(&ctx->obj);
        return r;
    }
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sg_ctx_new_green(struct sg_ctx *base, const struct sg_sms *sms, struct sg_ctx **out)
{
    struct sg_ctx *ctx = calloc(1, sizeof(*ctx));
    CUresult r;

    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&ctx->obj, SG_T_CTX, NULL, ctx_free);
    pthread_mutex_init(&ctx->issue, NULL);
    ctx->id = atomic_fetch_add(&next_ctx_id, 1);
    ctx->base = base;
    ctx->base_id = base->id;
    ctx->device = base->device;
    ctx->api_version = base->api_version;
    ctx->sms = *sms;
    atomic_store(&ctx->alive, true);
    r = sg_stream_new(ctx, 0, 0, &ctx->legacy);
    if (r == CUDA_SUCCESS)
        *out = ctx;
    else
        sg_obj_put(&ctx->obj);
    return r;
}

void sg_ctx_revive(struct sg_ctx *ctx)
{
    ctx->id = atomic_fetch_add(&next_ctx_id, 1); /* no old id may match the new incarnation */
    atomic_store(&ctx->alive, true);
}

void sg_ctx_teardown(struct sg_ctx *ctx)
{
    pthread_mutex_lock(&ctx->issue);
    atomic_store(&ctx->alive, false);
    pthread_mutex_unlock(&ctx->issue);
    sg_ctx_drain(ctx);
    sg_ctx_ungate(ctx);
    if (atomic_exchange(&ctx->cut, false) && atomic_load(&ctx->fault) == CUDA_SUCCESS)
        ctx->abort = 0; /* of aborted branches of graphs; the primary context is used again */
    sg_ctx_retire_streams(ctx);
    sg_unregister_owned(ctx);
    sg_mem_release_owned(ctx);
    cua_coredump_forget(&ctx->coredump);
    reset_settings(ctx);
}
