/* SPDX-License-Identifier: MIT */
/* Handlers of the calls that wait for streams, events and contexts. */
#include "graph.h"

#include "vgp_worker.h"

CUresult vgb_do_cuStreamSynchronize(struct vgb_call *c,
                                    const struct vgp_args_cuStreamSynchronize *a)
{
    struct vgb_wait *wait;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->hStream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = vgb_wait_add_stream(c->w, wait, stream);
    if (r == CUDA_SUCCESS && !wait->nevents) {
        /* Idle, so this does not block; and it is what writes the output of device printf. */
        r = vgb_cu.StreamSynchronize(stream);
    }
    return r == CUDA_SUCCESS ? vgb_wait_start(c, wait) : vgb_wait_fail(c, wait, r);
}

CUresult vgb_do_cuEventSynchronize(struct vgb_call *c, const struct vgp_args_cuEventSynchronize *a)
{
    struct vgb_wait *wait;
    CUevent event;
    CUresult r = vgb_handle_get(c, a->hEvent, VGP_H_EVENT, false, (void **)&event);

    if (r != CUDA_SUCCESS)
        return r;
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->borrowed = event;
    return vgb_wait_start(c, wait);
}

struct collect {
    struct vgb_call *c;
    struct vgb_wait *wait;
    CUresult r;
};

static void add_one(struct collect *k, CUstream stream)
{
    if (k->r != CUDA_SUCCESS || k->wait->blocking)
        return;
    if (k->wait->nevents == VGB_WAIT_EVENTS) {
        k->wait->blocking = true; /* too many to poll: a waiter asks for the context as a whole */
        return;
    }
    k->r = vgb_wait_add_stream(k->c->w, k->wait, stream);
}

static void add_owned(struct vgb_handle_entry *e, uint64_t handle, void *arg)
{
    struct collect *k = arg;

    (void)handle;
    if (e->owner == k->c->rec->context)
        add_one(k, e->object);
}

CUresult vgb_wait_add_context(struct vgb_call *c, struct vgb_wait *wait)
{
    struct collect k = {.c = c, .wait = wait, .r = CUDA_SUCCESS};
    struct vgb_worker *w = c->w;

    if (vgb_captures || vgb_context_divided(w, c->rec->context)) {
        /* The legacy stream cannot be asked now, nor the default streams of green contexts; a waiter does
         * what the call itself would do. */
        wait->blocking = true;
        return CUDA_SUCCESS;
    }
    add_one(&k, NULL);
    for (unsigned i = 0; i < w->nthread_streams; i++) {
        if (w->thread_streams[i].context == c->rec->context)
            add_one(&k, w->thread_streams[i].stream);
    }
    vgb_handles_each(&w->handles, VGP_H_STREAM, add_owned, &k);
    return k.r;
}

struct captured {
    struct vgb_call *c;
    bool any;
};

static void look_captured(struct vgb_handle_entry *e, uint64_t handle, void *arg)
{
    struct captured *k = arg;

    (void)handle;
    if (vgb_context_has(k->c->w, k->c->rec->context, e->owner))
        k->any |= vgb_stream_captured(e->object);
}

/* Does a stream of the calling context capture? */
static bool any_captured(struct vgb_call *c)
{
    struct captured k = {.c = c};

    if (!vgb_captures)
        return false;
    for (unsigned i = 0; i < c->w->nthread_streams; i++) {
        if (c->w->thread_streams[i].context == c->rec->context)
            k.any |= vgb_stream_captured(c->w->thread_streams[i].stream);
    }
    vgb_handles_each(&c->w->handles, VGP_H_STREAM, look_captured, &k);
    return k.any;
}

/* For contexts with many streams: on a waiter thread. */
static CUresult finish_context(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    (void)w;
    return wait->blocking && r == CUDA_SUCCESS ? vgb_cu.CtxSynchronize() : r;
}

CUresult vgb_do_vgpCtxSynchronize(struct vgb_call *c, const struct vgp_args_vgpCtxSynchronize *a)
{
    struct vgb_wait *wait = vgb_wait_new(c);

    (void)a;
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (any_captured(c)) /* does not wait, but says what is wrong, and the capture is lost */
        return vgb_wait_fail(c, wait, vgb_cu.CtxSynchronize());
    wait->finish = finish_context;
    CUresult r = vgb_wait_add_context(c, wait);
    if (r == CUDA_SUCCESS && !wait->nevents && !wait->blocking)
        r = vgb_cu.CtxSynchronize(); /* all idle: does not block, as above */
    return r == CUDA_SUCCESS ? vgb_wait_start(c, wait) : vgb_wait_fail(c, wait, r);
}
