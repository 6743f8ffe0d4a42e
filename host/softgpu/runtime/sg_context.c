/* SPDX-License-Identifier: MIT */
/* Initialisation, the current context of a thread, and the lifetime of contexts. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"
#include "lib/driver/coredump.h"
#include "runtime/runtime.h"

struct sg_device sg_devices[SG_MAX_DEVICES] = {
    [0 ... SG_MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

const struct sg_graph_hooks *sg_hooks;
_Atomic unsigned sg_graph_memory_live;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool initialised;
static _Atomic bool forked; /* this process is a child of a process that had called cuInit */
static pthread_key_t tls_key;
static __thread struct sg_tls *tls;
static _Atomic uint32_t next_ctx_id = 1;

/* ---- per-thread state ---- */

static void tls_free(void *arg)
{
    struct sg_tls *t = arg;

    tls = NULL;
    sg_tls_streams_free(t);
    for (unsigned i = 0; i < t->depth; i++)
        sg_obj_put((struct sg_obj *)t->stack[i]);
    free(t->stack);
    free(t);
}

struct sg_tls *sg_tls(void)
{
    if (!tls) {
        tls = calloc(1, sizeof(*tls));
        if (tls && pthread_setspecific(tls_key, tls) != 0) {
            free(tls);
            tls = NULL;
        }
    }
    return tls;
}

/* ---- cuInit ---- */

static void at_fork_child(void)
{
    /* The stream threads do not exist in the child; like NVIDIA's driver, this refuses to
       continue. */
    if (atomic_load(&initialised))
        atomic_store(&forked, true);
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
    if (pthread_key_create(&tls_key, tls_free) != 0)
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

    if (atomic_load(&forked))
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&init_lock);
    if (!atomic_load(&initialised)) {
        sg_hooks = hooks;
        r = init_locked();
        if (r == CUDA_SUCCESS)
            atomic_store(&initialised, true);
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

static bool is_initialised(void)
{
    return atomic_load(&initialised) && !atomic_load(&forked);
}

CUresult sg_check_init(void)
{
    sg_detail_clear();
    return is_initialised() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult sg_current_raw(struct sg_ctx **out)
{
    struct sg_tls *t;

    if (!is_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    t = sg_tls();
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (t->in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    if (!t->depth || !t->stack[t->depth - 1])
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = t->stack[t->depth - 1]->base;
    return sg_ctx_alive(t->stack[t->depth - 1]) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

struct sg_ctx *sg_current_self(struct sg_ctx *ctx)
{
    struct sg_tls *t = sg_tls();
    struct sg_ctx *top = t && t->depth ? t->stack[t->depth - 1] : NULL;

    return top && top->base == ctx ? top : ctx;
}

bool sg_ctx_alive(const struct sg_ctx *ctx)
{
    return atomic_load(&ctx->alive) &&
           (ctx->base == ctx || (atomic_load(&ctx->base->alive) && ctx->base->id == ctx->base_id));
}

struct sg_ctx *sg_ctx_find(CUcontext h)
{
    return SG_LOOKUP(h, SG_T_CTX);
}

struct sg_ctx *sg_ctx_find_base(CUcontext h)
{
    struct sg_ctx *c = SG_LOOKUP(h, SG_T_CTX), *base = c ? c->base : NULL;

    if (base != c) {
        sg_obj_get(&base->obj);
        sg_obj_put(&c->obj);
    }
    return base;
}

CUresult sg_current(struct sg_ctx **out)
{
    CUresult r;

    sg_detail_clear();
    r = sg_current_raw(out);
    return r != CUDA_SUCCESS ? r : (CUresult)atomic_load(&(*out)->sticky);
}

bool sg_graph_memory_dormant(uint64_t addr)
{
    struct sg_mem_info info;

    return atomic_load(&sg_graph_memory_live) && sg_mem_find(addr, &info) && info.dormant;
}

CUresult sg_graph_memory_fault(struct sg_stream *s, const char *what)
{
    char text[96];

    snprintf(text, sizeof(text), "%s of a graph's memory that is not allocated", what);
    sg_device_fail(text);
    sg_set_fault(s->ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

const char *sg_last_error_detail(void)
{
    struct sg_ctx *ctx;

    /* If the call failed because of a kernel, a stream's thread has the reason. */
    return sg_detail(sg_current_raw(&ctx) != CUDA_SUCCESS || atomic_load(&ctx->sticky) != CUDA_SUCCESS);
}

void sg_set_fault(struct sg_ctx *ctx, CUresult r)
{
    int none = CUDA_SUCCESS;

    atomic_compare_exchange_strong(&ctx->fault, &none, (int)r); /* the first fault stays */
}

CUresult sg_unreachable(struct sg_stream *s, const char *what)
{
    char text[96];

    snprintf(text, sizeof(text), "%s of memory that device %d was not given access to", what, s->ctx->device);
    sg_device_fail(text);
    sg_set_fault(s->ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult sg_gone(struct sg_stream *s, const char *what)
{
    char text[112];

    snprintf(text, sizeof(text), "%s of memory that was freed, unmapped or unregistered after the call",
             what);
    sg_device_fail(text);
    sg_set_fault(s->ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult sg_see_fault(struct sg_ctx *ctx)
{
    int r = atomic_load(&ctx->fault);

    if (r != CUDA_SUCCESS)
        atomic_store(&ctx->sticky, r);
    return (CUresult)r;
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
