/* SPDX-License-Identifier: MIT */
/* Waiting for all streams of a context. */
#include "core.h"

#include <pthread.h>
#include <string.h>

/*
 * A stream that is destroyed finishes its work, and no stream is left that could be asked for it. From then on its
 * context is waited for as a whole, on a waiter, until such a wait has ended that began later.
 */
#define ORPHANS 16u
static struct {
    pthread_mutex_t lock; /* waiters end waits; innermost */
    struct {
        CUcontext ctx;
        uint64_t number; /* of the latest such stream; 0: none */
    } of[ORPHANS];
    uint64_t number;
    bool many; /* more contexts than there is room for: for good */
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER};
static const struct vgp_provider *below;
static struct wrk_worker *self;

/* A stream that captures is not asked, which would end the capture. */
static bool is_idle(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (below->cuStreamIsCapturing && below->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS)
        return false;
    return status == CU_STREAM_CAPTURE_STATUS_NONE && below->cuStreamQuery &&
           below->cuStreamQuery(stream) == CUDA_SUCCESS;
}

/* A capture that began there is over, too: nobody can end it any more. */
static CUresult end(CUstream stream)
{
    CUresult r = below->cuStreamDestroy_v2(stream);

    if (r == CUDA_SUCCESS) {
        wrk_capture_forget(stream, false);
        wrk_captures_settle(self);
    }
    return r;
}

static CUresult destroy(CUstream stream)
{
    CUcontext ctx = NULL;
    unsigned at = 0;

    if (is_idle(stream))
        return end(stream);
    if (!below->cuStreamGetCtx || below->cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
        ctx = NULL;
    pthread_mutex_lock(&orphans.lock);
    for (unsigned i = 0; i < ORPHANS; i++) {
        if (orphans.of[i].number && orphans.of[i].ctx == ctx)
            at = i + 1;
    }
    for (unsigned i = 0; !at && i < ORPHANS; i++) {
        if (!orphans.of[i].number)
            at = i + 1;
    }
    if (at && ctx) {
        orphans.of[at - 1].ctx = ctx;
        orphans.of[at - 1].number = ++orphans.number;
    } else {
        orphans.many = true;
    }
    pthread_mutex_unlock(&orphans.lock);
    return end(stream);
}

void wrk_streams_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *next)
{
    self = w;
    below = next;
    if (next->cuStreamDestroy_v2)
        table->cuStreamDestroy_v2 = destroy;
}

/* The latest destroyed stream whose work may still run in the context; 0: there is none. */
static uint64_t orphaned(CUcontext ctx)
{
    uint64_t number;

    pthread_mutex_lock(&orphans.lock);
    number = orphans.many ? UINT64_MAX : 0;
    for (unsigned i = 0; i < ORPHANS; i++) {
        if (orphans.of[i].number && orphans.of[i].ctx == ctx)
            number = orphans.of[i].number;
    }
    pthread_mutex_unlock(&orphans.lock);
    return number;
}

CUresult wrk_wait_context_whole(struct wrk_wait *wait)
{
    uint64_t number = orphaned(wait->ctx);
    CUresult r = wrk_provider.cuCtxSynchronize();

    pthread_mutex_lock(&orphans.lock);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < ORPHANS; i++) {
        if (orphans.of[i].ctx == wait->ctx && orphans.of[i].number <= number)
            orphans.of[i].number = 0;
    }
    pthread_mutex_unlock(&orphans.lock);
    return r;
}

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

    if (wrk_captures || wrk_context_divided(w, c->rec->context) || orphaned(wait->ctx)) {
        /* The legacy stream cannot be asked now, nor the default streams of green contexts, nor what is
         * destroyed; a waiter does what the call itself would do. */
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
