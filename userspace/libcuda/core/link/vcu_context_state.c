/* SPDX-License-Identifier: MIT */
/*
 * The records of contexts, the stack of each thread, and the contexts of streams: everything about
 * contexts that needs no call to the worker. vcu_context.c and vcu_green.c make and end them.
 */
#define _GNU_SOURCE
#include "../core.h"

#include <stdlib.h>

#include "vgp_entry.h"

_Atomic uint32_t vcu_greens;

/* ---- the stack ------------------------------------------------------------------------------ */

static uint64_t *stack_of(struct vcu_thread *t)
{
    return t->heap != NULL ? t->heap : t->inline_stack;
}

uint64_t vcu_current_context(void)
{
    return vcu_thread_context(vcu_thread());
}

bool vcu_context_enter(uint64_t handle)
{
    struct vcu_thread *t = vcu_thread();
    uint32_t room = t->heap != NULL ? t->capacity : VCU_STACK_INLINE;

    if (t->depth == room) {
        uint64_t *bigger = malloc((size_t)room * 2 * sizeof(*bigger));

        if (bigger == NULL)
            return false;
        for (uint32_t i = 0; i < t->depth; i++)
            bigger[i] = stack_of(t)[i];
        free(t->heap);
        t->heap = bigger;
        t->capacity = room * 2;
    }
    stack_of(t)[t->depth++] = handle;
    return true;
}

uint64_t vcu_context_pop(void)
{
    struct vcu_thread *t = vcu_thread();

    return t->depth == 0 ? 0 : stack_of(t)[--t->depth];
}

struct vcu_context *vcu_context_find(CUcontext ctx)
{
    uint64_t handle = (uintptr_t)ctx;

    if (handle == 0 || handle == UINTPTR_MAX)
        handle = vcu_current_context();
    return vcu_handle_data(handle, VGP_H_CONTEXT);
}

/* Checks that work can be sent to the context. */
CUresult vcu_context_usable(const struct vcu_context *c)
{
    const struct vcu_context *base;

    if (c == NULL || atomic_load_explicit(&c->retained, memory_order_relaxed) == 0)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    base = c->base;
    if (__builtin_expect(base != c, 0) && (base->retained == 0 || base->incarnation != c->base_incarnation))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return (CUresult)atomic_load_explicit(&base->sticky, memory_order_relaxed);
}

uint64_t vcu_owner_context(void)
{
    uint64_t handle = vcu_current_context();
    const struct vcu_context *c;

    if (__builtin_expect(vcu_greens == 0, 1))
        return handle;
    c = vcu_handle_data(handle, VGP_H_CONTEXT);
    return c == NULL ? handle : c->base->handle;
}

CUresult vcu_check_context(void)
{
    uint64_t handle;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    handle = vcu_current_context();
    if (handle == 0) /* host functions run in threads without a context */
        return vcu_thread()->in_callback ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_INVALID_CONTEXT;
    return vcu_context_usable(vcu_handle_data(handle, VGP_H_CONTEXT));
}

CUresult vcu_check_usable(void)
{
    CUresult res = vcu_check_init();

    return res == CUDA_SUCCESS && vcu_current_context() != 0 ? vcu_check_context() : res;
}

CUresult vcu_context_borrow(uint64_t owner, bool *borrowed)
{
    CUresult res = vcu_check_context();

    *borrowed = false;
    if (res != CUDA_ERROR_INVALID_CONTEXT && res != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return res;
    if (owner == 0 || vcu_context_usable(vcu_handle_data(owner, VGP_H_CONTEXT)) != CUDA_SUCCESS)
        return res;
    *borrowed = vcu_context_enter(owner);
    return *borrowed ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void vcu_context_return(bool borrowed)
{
    if (borrowed)
        vcu_context_pop();
}

void vcu_context_let_go(const bool *borrowed)
{
    vcu_context_return(*borrowed);
}

CUresult vcu_cuCtxSetCurrent(CUcontext ctx)
{
    struct vcu_thread *t = vcu_thread();
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (ctx == NULL) {
        vcu_context_pop();
        return CUDA_SUCCESS;
    }
    if (vcu_handle_data((uintptr_t)ctx, VGP_H_CONTEXT) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (t->depth != 0) {
        stack_of(t)[t->depth - 1] = (uintptr_t)ctx;
        return CUDA_SUCCESS;
    }
    return vcu_context_enter((uintptr_t)ctx) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- contexts of objects --------------------------------------------------------------------- */

/* Generated code mints handles of streams and events; their only local data is their context. */
uint64_t vgp_handle_mint(enum vgp_handle_type type)
{
    uint64_t context = 0;

    if (type == VGP_H_STREAM)
        context = vcu_current_context();
    else if (type == VGP_H_EVENT)
        context = vcu_owner_context();
    return vcu_handle_mint(type, (void *)(uintptr_t)context);
}

/* The context that owns a stream: for a stream of a green context, its primary context. */
static uint64_t stream_owner(CUstream stream)
{
    const uint64_t handle = (uint64_t)(uintptr_t)vcu_handle_data((uintptr_t)stream, VGP_H_STREAM);
    const struct vcu_context *c;

    if (__builtin_expect(vcu_greens == 0, 1))
        return handle;
    c = vcu_handle_data(handle, VGP_H_CONTEXT);
    return c == NULL ? handle : c->base->handle;
}

uint64_t vcu_stream_owner(CUstream stream)
{
    return (uintptr_t)stream <= 2 ? vcu_owner_context() : stream_owner(stream);
}

bool vcu_stream_own(CUstream stream)
{
    return (uintptr_t)stream <= 2 || stream_owner(stream) == vcu_owner_context();
}

CUresult vcu_stream_context(CUstream stream, uint64_t *context)
{
    CUresult res;

    stream = vcu_stream(stream);
    /* Queries a stream's context without a current context. */
    res = (uintptr_t)stream <= 2 ? vcu_check_context() : vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    *context = (uintptr_t)stream <= 2 ? vcu_current_context()
                                      : (uint64_t)(uintptr_t)vcu_handle_data((uintptr_t)stream, VGP_H_STREAM);
    return CUDA_SUCCESS;
}

/* ---- streams of green contexts that were destroyed ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; a leaf */
static uint64_t *orphans;                                /* handles; never given out again */
static size_t norphans, room;

/* Without memory for the list the stream is only unknown. */
static void add_orphan(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    if (norphans == room) {
        uint64_t *more = realloc(orphans, (room ? 2 * room : 16) * sizeof(*more));

        if (more != NULL) {
            orphans = more;
            room = room ? 2 * room : 16;
        }
    }
    if (norphans < room)
        orphans[norphans++] = handle;
    pthread_mutex_unlock(&lock);
}

CUresult vcu_stream_error(CUstream s)
{
    CUresult res = CUDA_ERROR_INVALID_HANDLE;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < norphans; i++) {
        if (orphans[i] == (uintptr_t)s)
            res = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    pthread_mutex_unlock(&lock);
    return res;
}

static void forget_stream(uint64_t handle, void *data, void *arg)
{
    const struct vcu_context *gone = arg;
    const struct vcu_context *c = vcu_handle_data((uintptr_t)data, VGP_H_CONTEXT);

    if (c == NULL || c->green == 0 || (c != gone && c->base != gone))
        return;
    vgp_handle_drop(handle);
    add_orphan(handle);
}

void vcu_green_forget(const struct vcu_context *c)
{
    if (vcu_greens != 0)
        vcu_handle_each(VGP_H_STREAM, forget_stream, (void *)(uintptr_t)c);
}

bool vcu_standard_stream_ok(CUstream s)
{
    const struct vcu_context *c;

    if (vcu_stream(s) != CU_STREAM_PER_THREAD)
        return true;
    /* Documented with cuStreamGetCtx_v2. */
    c = vcu_handle_data(vcu_current_context(), VGP_H_CONTEXT);
    return c == NULL || c->green == 0;
}
