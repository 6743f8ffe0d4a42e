/* SPDX-License-Identifier: MIT */
/* Waiting for all streams of a context. */
#include "core.h"

struct collect {
    struct wrk_call *c;
    struct wrk_wait *wait;
    CUresult r;
};

static void add_one(struct collect *k, CUstream stream)
{
    if (k->r != CUDA_SUCCESS || k->wait->blocking)
        return;
    if (k->wait->nevents == WRK_WAIT_EVENTS) {
        k->wait->blocking = true; /* too many to poll: a waiter asks for the context as a whole */
        return;
    }
    k->r = wrk_wait_add_stream(k->c->w, k->wait, stream);
}

static void add_owned(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct collect *k = arg;

    (void)handle;
    if (e->owner == k->c->rec->context)
        add_one(k, e->object);
}

CUresult wrk_wait_add_context(struct wrk_call *c, struct wrk_wait *wait)
{
    struct collect k = {.c = c, .wait = wait, .r = CUDA_SUCCESS};
    struct wrk_worker *w = c->w;

    if (wrk_captures || wrk_context_divided(w, c->rec->context)) {
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
    wrk_handles_each(&w->handles, VGP_H_STREAM, add_owned, &k);
    return k.r;
}
