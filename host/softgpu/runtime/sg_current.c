/* SPDX-License-Identifier: MIT */
/*
 * What the process and its threads know of contexts: whether cuInit was called, the current context
 * of a thread, the context of a handle, the faults of a context.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/runtime.h"

struct sg_device sg_devices[SG_MAX_DEVICES] = {
    [0 ... SG_MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

const struct sg_graph_hooks *sg_hooks;
_Atomic unsigned sg_graph_memory_live;
_Atomic bool sg_initialised, sg_forked;

static pthread_key_t tls_key;
static void (*streams_free)(struct sg_tls *t); /* sg_tls_init() */
static __thread struct sg_tls *tls;

/* ---- per-thread state ---- */

static void tls_free(void *arg)
{
    struct sg_tls *t = arg;

    tls = NULL;
    streams_free(t);
    for (unsigned i = 0; i < t->depth; i++)
        sg_obj_put((struct sg_obj *)t->stack[i]);
    free(t->stack);
    free(t);
}

bool sg_tls_init(void (*free_streams)(struct sg_tls *t))
{
    streams_free = free_streams;
    return pthread_key_create(&tls_key, tls_free) == 0;
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

/* ---- the current context, and that of a handle ---- */

static bool is_initialised(void)
{
    return atomic_load(&sg_initialised) && !atomic_load(&sg_forked);
}

CUresult sg_check_init(void)
{
    sg_detail_clear();
    return is_initialised() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

bool sg_ctx_alive(const struct sg_ctx *ctx)
{
    return atomic_load(&ctx->alive) &&
           (ctx->base == ctx || (atomic_load(&ctx->base->alive) && ctx->base->id == ctx->base_id));
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

CUresult sg_current(struct sg_ctx **out)
{
    CUresult r;

    sg_detail_clear();
    r = sg_current_raw(out);
    return r != CUDA_SUCCESS ? r : (CUresult)atomic_load(&(*out)->sticky);
}

struct sg_ctx *sg_current_self(struct sg_ctx *ctx)
{
    struct sg_tls *t = sg_tls();
    struct sg_ctx *top = t && t->depth ? t->stack[t->depth - 1] : NULL;

    return top && top->base == ctx ? top : ctx;
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

/* ---- faults ---- */

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

CUresult sg_see_fault(struct sg_ctx *ctx)
{
    int r = atomic_load(&ctx->fault);

    if (r != CUDA_SUCCESS)
        atomic_store(&ctx->sticky, r);
    return (CUresult)r;
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
