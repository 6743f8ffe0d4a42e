/* SPDX-License-Identifier: MIT */
/* Handlers of the calls that wait for streams, events and contexts. */
#include "../calls.h"

#include <stddef.h>

/* On the dispatcher: either event may have been destroyed meanwhile, or recorded by a capture. */
static CUresult elapsed_time(struct wrk_worker *w, uint64_t start, uint64_t end, float *milliseconds)
{
    const struct wrk_handle_entry *from = wrk_handles_find(&w->handles, start, VGP_H_EVENT);
    const struct wrk_handle_entry *to = wrk_handles_find(&w->handles, end, VGP_H_EVENT);

    if (!from || !to)
        return CUDA_ERROR_INVALID_HANDLE;
    if (wrk_captures)
        return CUDA_ERROR_NOT_READY;
    return wrk_provider.cuEventElapsedTime_v2(milliseconds, from->object, to->object);
}

/* The replies of the waits that bring a time along are the same. */
#define SAME_REPLY(call) \
    _Static_assert(sizeof(struct vgp_ret_##call) == sizeof(struct vgp_ret_vgpEventElapse) && \
                       offsetof(struct vgp_ret_##call, milliseconds) == \
                           offsetof(struct vgp_ret_vgpEventElapse, milliseconds), \
                   "one reply")
SAME_REPLY(vgpCtxElapse);
SAME_REPLY(vgpStreamElapse);

static CUresult land_elapsed(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct vgp_ret_vgpEventElapse *ret = wrk_bounce_result(w, wait->slot);

    if (r != CUDA_SUCCESS)
        return r;
    if (!ret)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (struct vgp_ret_vgpEventElapse){0};
    ret->result = (int32_t)elapsed_time(w, wait->arg[0], wait->arg[1], &ret->milliseconds);
    wait->buffer = ret;
    wait->payload = sizeof(*ret);
    return r;
}

/* Events whose time a wait brings along. */
struct elapse {
    uint64_t start, end;
};

/* e NULL: none. */
static void wait_elapse(struct wrk_wait *wait, const struct elapse *e)
{
    if (!e)
        return;
    wait->arg[0] = e->start;
    wait->arg[1] = e->end;
    wait->land = land_elapsed;
}

static CUresult stream_wait(struct wrk_call *c, uint64_t handle, const struct elapse *e)
{
    struct wrk_wait *wait;
    CUstream stream;
    CUresult r = wrk_handle_get(c, handle, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait_elapse(wait, e);
    r = wrk_wait_add_stream(c->w, wait, stream);
    if (r == CUDA_SUCCESS && !wait->nevents) {
        /* Idle, so this does not block; needed because it writes device printf output. */
        r = wrk_await_stream(&wrk_provider, stream).result;
    }
    return r == CUDA_SUCCESS ? wrk_wait_start(c, wait) : wrk_wait_fail(c, wait, r);
}

CUresult wrk_do_cuStreamSynchronize(struct wrk_call *c, const struct vgp_args_cuStreamSynchronize *a)
{
    return stream_wait(c, a->hStream, NULL);
}

/* A wait for an event, not started. */
static CUresult event_wait_new(struct wrk_call *c, uint64_t handle, struct wrk_wait **out)
{
    struct wrk_wait *wait;
    CUevent event;
    CUresult r = wrk_handle_get(c, handle, VGP_H_EVENT, false, (void **)&event);

    if (r != CUDA_SUCCESS)
        return r;
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct wrk_handles *t = &c->w->handles;
    uint64_t owner = wrk_handles_find(t, handle, VGP_H_EVENT)->owner;
    struct wrk_handle_entry *ctx = wrk_handles_find(t, owner, VGP_H_CONTEXT);

    wrk_wait_borrow(c->w, wait, event, ctx ? ctx->object : NULL);
    *out = wait;
    return CUDA_SUCCESS;
}

CUresult wrk_do_cuEventSynchronize(struct wrk_call *c, const struct vgp_args_cuEventSynchronize *a)
{
    struct wrk_wait *wait;
    CUresult r = event_wait_new(c, a->hEvent, &wait);

    return r == CUDA_SUCCESS ? wrk_wait_start(c, wait) : r;
}

CUresult wrk_do_vgpEventElapse(struct wrk_call *c, const struct vgp_args_vgpEventElapse *a,
                               struct vgp_ret_vgpEventElapse *reply)
{
    struct wrk_wait *wait;
    CUresult r;

    (void)reply; /* the wait's comes later */
    if (!wrk_provider.cuEventElapsedTime_v2)
        return wrk_missing(c, "cuEventElapsedTime");
    r = event_wait_new(c, a->hEvent, &wait);
    if (r != CUDA_SUCCESS)
        return r;
    wait_elapse(wait, &(struct elapse){a->start, a->hEvent});
    return wrk_wait_start(c, wait);
}

CUresult wrk_do_vgpStreamElapse(struct wrk_call *c, const struct vgp_args_vgpStreamElapse *a,
                                struct vgp_ret_vgpStreamElapse *reply)
{
    (void)reply; /* the wait's comes later */
    if (!wrk_provider.cuEventElapsedTime_v2)
        return wrk_missing(c, "cuEventElapsedTime");
    return stream_wait(c, a->hStream, &(struct elapse){a->start, a->end});
}

static void end_event(struct wrk_worker *w, void *object, CUcontext ctx)
{
    (void)ctx;
    wrk_event_destroy(w, object);
}

CUresult wrk_do_cuEventDestroy_v2(struct wrk_call *c, const struct vgp_args_cuEventDestroy_v2 *a)
{
    CUevent event;
    CUresult r = wrk_handle_get(c, a->hEvent, VGP_H_EVENT, false, (void **)&event);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuEventDestroy_v2)
        return wrk_missing(c, "cuEventDestroy");
    if (wrk_name_keep(c, a->hEvent, VGP_H_EVENT, end_event))
        return CUDA_SUCCESS;
    wrk_handle_drop(c, a->hEvent, VGP_H_EVENT);
    return wrk_event_destroy(c->w, event);
}

struct captured {
    VGB_LENT struct wrk_call *c;
    bool any;
};

static void look_captured(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct captured *k = arg;

    (void)handle;
    if (wrk_context_has(k->c->w, k->c->rec->context, e->owner))
        k->any |= wrk_stream_captured(e->object);
}

/* True if a stream of the calling context is capturing. */
static bool any_captured(struct wrk_call *c)
{
    struct captured k = {.c = c};

    if (!wrk_captures)
        return false;
    for (unsigned i = 0; i < c->w->nthread_streams; i++) {
        if (c->w->thread_streams[i].context == c->rec->context)
            k.any |= wrk_stream_captured(c->w->thread_streams[i].stream);
    }
    wrk_handles_each(&c->w->handles, VGP_H_STREAM, look_captured, &k);
    return k.any;
}

/* For contexts with many streams: on a waiter thread. */
static CUresult finish_context(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    return r == CUDA_SUCCESS ? wrk_wait_context_whole(wait) : r;
}

static CUresult context_wait(struct wrk_call *c, const struct elapse *e)
{
    struct wrk_wait *wait = wrk_wait_new(c);

    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait_elapse(wait, e);
    if (any_captured(c)) /* does not block, but returns the error and invalidates the capture */
        return wrk_wait_fail(c, wait, wrk_await_context(&wrk_provider).result);
    CUresult r = wrk_wait_add_context(c, wait);
    if (wait->blocking)
        wait->finish = finish_context;
    if (r == CUDA_SUCCESS && !wait->nevents && !wait->blocking)
        r = wrk_await_context(&wrk_provider).result; /* all idle: does not block, as above */
    return r == CUDA_SUCCESS ? wrk_wait_start(c, wait) : wrk_wait_fail(c, wait, r);
}

CUresult wrk_do_vgpCtxSynchronize(struct wrk_call *c, const struct vgp_args_vgpCtxSynchronize *a)
{
    (void)a;
    return context_wait(c, NULL);
}

CUresult wrk_do_vgpCtxElapse(struct wrk_call *c, const struct vgp_args_vgpCtxElapse *a,
                             struct vgp_ret_vgpCtxElapse *reply)
{
    (void)reply; /* the wait's comes later */
    if (!wrk_provider.cuEventElapsedTime_v2)
        return wrk_missing(c, "cuEventElapsedTime");
    return context_wait(c, &(struct elapse){a->start, a->end});
}
