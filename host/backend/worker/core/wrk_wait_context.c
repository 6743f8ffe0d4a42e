/* SPDX-License-Identifier: MIT */
/* Waiting for all streams of a context. */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* A destroyed stream still finishes its work, but can no longer be queried. From then on its
 * context is waited for as a whole, on a waiter, until such a wait that began later has ended. */
#define ORPHANS 16u
static struct {
    pthread_mutex_t lock; /* also taken by waiters; innermost lock */
    struct orphan {
        CUcontext ctx;   /* NULL: free entry */
        uint64_t number; /* number of the latest destroyed stream */
    } of[ORPHANS];
    uint64_t number;
    bool many; /* more contexts than entries: set permanently */
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER};
static const struct vgp_provider *below;
static struct wrk_worker *self;

/* Entry of the context or, for NULL, a free entry; NULL: none. The lock is held. */
static struct orphan *place_of(CUcontext ctx)
{
    for (unsigned i = 0; i < ORPHANS; i++) {
        if (orphans.of[i].ctx == ctx)
            return &orphans.of[i];
    }
    return NULL;
}

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

/* `ctx` NULL: unknown. The lock is held. */
static void note_orphan(CUcontext ctx)
{
    struct orphan *o = NULL;

    if (ctx && !(o = place_of(ctx)))
        o = place_of(NULL);
    if (o)
        *o = (struct orphan){ctx, ++orphans.number};
    else
        orphans.many = true;
}

void wrk_wait_context_forget(CUcontext ctx)
{
    const CUcontext base = wrk_base_context(ctx);

    pthread_mutex_lock(&orphans.lock);
    struct orphan *o = place_of(ctx);
    if (o)
        o->ctx = NULL;
    if (base != ctx)
        note_orphan(base);
    pthread_mutex_unlock(&orphans.lock);
}

static CUresult wait_context_destroy(CUstream stream)
{
    CUcontext ctx = NULL;

    wrk_flow_stream_ends(self, stream);
    if (is_idle(stream))
        return wait_context_end(stream);
    if (!below->cuStreamGetCtx || below->cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
        ctx = NULL;
    pthread_mutex_lock(&orphans.lock);
    note_orphan(ctx);
    pthread_mutex_unlock(&orphans.lock);
    return wait_context_end(stream);
}

void wrk_streams_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *next)
{
    self = w;
    below = next;
    if (next->cuStreamDestroy_v2)
        table->cuStreamDestroy_v2 = wait_context_destroy;
}

/* Number of the latest destroyed stream whose work may still run in the context; 0: none. */
static uint64_t orphaned_context(CUcontext ctx)
{
    const struct orphan *o;
    uint64_t number;

    pthread_mutex_lock(&orphans.lock);
    o = ctx ? place_of(ctx) : NULL;
    number = o ? o->number : orphans.many ? UINT64_MAX : 0;
    pthread_mutex_unlock(&orphans.lock);
    return number;
}

CUresult wrk_wait_context_whole(struct wrk_wait *wait)
{
    uint64_t number = orphaned_context(wait->ctx);
    struct wrk_answer a = wrk_await_context(&wrk_provider);
    struct orphan *o;

    pthread_mutex_lock(&orphans.lock);
    o = a.state == WRK_COMPLETE && wait->ctx ? place_of(wait->ctx) : NULL;
    if (o && o->number <= number)
        o->ctx = NULL;
    pthread_mutex_unlock(&orphans.lock);
    return a.result;
}

/* ---- the work of a context that ends ---- */

#define REST_FIRST_NS 50000l
#define REST_LAST_NS 10000000l

struct wrk_rest *wrk_rest_new(CUcontext ctx, unsigned n)
{
    struct wrk_rest *rest = calloc(1, sizeof(*rest) + n * sizeof(rest->events[0]));

    if (rest)
        rest->ctx = ctx;
    return rest;
}

/* Destroys the marks that are complete, or of which that cannot be told. */
static void rest_look(struct wrk_rest *rest)
{
    unsigned left = 0;

    for (unsigned i = 0; i < rest->n; i++) {
        CUevent e = rest->events[i];
        enum wrk_state is = wrk_ask_event(&wrk_provider, e).state;

        if (is == WRK_RUNNING) {
            rest->events[left++] = e;
            continue;
        }
        wrk_provider.cuEventDestroy_v2(e);
        if (is == WRK_COMPLETE)
            atomic_fetch_add(&rest->done, 1);
    }
    rest->n = left;
}

void wrk_rest_await(struct wrk_rest *rest)
{
    struct timespec step = {.tv_nsec = REST_FIRST_NS};

    if (wrk_provider.cuCtxSetCurrent(rest->ctx) != CUDA_SUCCESS)
        return; /* they end with it */
    for (rest_look(rest); rest->n; rest_look(rest)) {
        nanosleep(&step, NULL);
        step.tv_nsec = step.tv_nsec < REST_LAST_NS ? 2 * step.tv_nsec : REST_LAST_NS;
    }
    wrk_provider.cuCtxSetCurrent(NULL);
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

    if (wrk_captures || wrk_context_divided(w, c->rec->context) || orphaned_context(wait->ctx)) {
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
