/* SPDX-License-Identifier: MIT */
/* Waiting for all streams of a context. */
#include "core.h"

static const struct vgp_provider *below;
static struct wrk_worker *self;

/* A capturing stream is not queried, as that would end the capture. */
static bool is_idle(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (below->cuStreamIsCapturing && below->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS)
        return false;
    return status == CU_STREAM_CAPTURE_STATUS_NONE && wrk_ask_stream(below, stream).state == WRK_COMPLETE;
}

/* A capture that began there is over too. */
static CUresult wait_context_end(CUstream stream)
{
    CUresult r;

    wrk_capture_end(stream);
    r = below->cuStreamDestroy_v2(stream);
    if (r == CUDA_SUCCESS)
        wrk_capture_forget(stream);
    wrk_captures_settle(self);
    return r;
}

static CUresult wait_context_destroy(CUstream stream)
{
    CUcontext ctx = NULL;

    wrk_flow_stream_ends(self, stream);
    if (is_idle(stream))
        return wait_context_end(stream);
    if (!below->cuStreamGetCtx || below->cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
        ctx = NULL;
    wrk_orphan_note(ctx);
    return wait_context_end(stream);
}

void wrk_streams_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *next)
{
    self = w;
    below = next;
    if (next->cuStreamDestroy_v2)
        table->cuStreamDestroy_v2 = wait_context_destroy;
}

/* ---- all contexts, and all streams of one ---- */

void wrk_wait_use_all(struct wrk_wait *wait)
{
    wait->uses_all = true;
    wait->blocking = true;
    if (wrk_contexts_ending())
        wait->ends = &wrk_context_end;
}

struct collect {
    VGB_LENT struct wrk_call *c;
    VGB_LENT struct wrk_wait *wait;
    CUresult r;
};

static void add_one(struct collect *k, CUstream stream)
{
    if (k->r != CUDA_SUCCESS || k->wait->blocking)
        return;
    if (k->wait->nevents == WRK_WAIT_EVENTS) {
        k->wait->blocking = true; /* too many to poll: a waiter waits for the whole context */
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

    if (wrk_captures || wrk_context_divided(w, c->rec->context) || wrk_orphaned(wait->ctx)) {
        /* The legacy stream, default streams of green contexts and destroyed streams cannot be
         * queried now; a waiter makes the blocking call itself. */
        wait->blocking = true;
        return CUDA_SUCCESS;
    }
    add_one(&k, NULL);
    for (unsigned i = 0; i < w->nthread_streams; i++) {
        if (w->thread_streams[i].context == c->rec->context)
            add_one(&k, w->thread_streams[i].stream);
    }
    wrk_handles_each(&w->handles, VGP_H_STREAM, add_owned, &k);
    /* Some streams are not covered by the wait: callers must not treat it as their completion. */
    if (k.r != CUDA_SUCCESS)
        wait->blocking = true;
    return k.r;
}
