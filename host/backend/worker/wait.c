/* SPDX-License-Identifier: MIT */
/*
 * Calls that complete later. The dispatcher never blocks: a wait is a set of events, recorded when
 * the call was issued. The dispatcher polls them itself as long as it polls anyway; before it
 * sleeps, or when one takes long, the wait goes to a waiter thread, which blocks in the provider.
 */
#include "worker.h"
#include "vgpu_device.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

void vgb_waits_init(struct vgb_waits *ws)
{
    memset(ws, 0, sizeof(*ws));
    ws->queue_tail = &ws->queue;
    pthread_mutex_init(&ws->lock, NULL);
    pthread_mutex_init(&ws->events_lock, NULL);
    pthread_cond_init(&ws->work, NULL);
}

/* ---- events, kept per context because making one is slow ---- */

static struct vgb_event_pool *pool_locked(struct vgb_waits *ws, CUcontext ctx, bool make)
{
    struct vgb_event_pool *empty = NULL;

    for (unsigned i = 0; i < VGB_EVENT_POOLS; i++) {
        if (ws->pools[i].ctx == ctx)
            return &ws->pools[i];
        if (!ws->pools[i].ctx && !empty)
            empty = &ws->pools[i];
    }
    if (make && empty)
        empty->ctx = ctx;
    return make ? empty : NULL;
}

static CUresult event_take(struct vgb_worker *w, CUcontext ctx, CUevent *event)
{
    CUevent found = NULL;

    pthread_mutex_lock(&w->waits.events_lock);
    struct vgb_event_pool *p = pool_locked(&w->waits, ctx, false);
    if (p && p->n)
        found = p->free[--p->n];
    pthread_mutex_unlock(&w->waits.events_lock);
    if (found) {
        *event = found;
        return CUDA_SUCCESS;
    }
    return vgb_cu.EventCreate(event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
}

static void event_give(struct vgb_worker *w, struct vgb_wait *wait, CUevent event)
{
    bool kept = false;

    pthread_mutex_lock(&w->waits.events_lock);
    bool stale = wait->generation != w->waits.generation;
    struct vgb_event_pool *p = stale ? NULL : pool_locked(&w->waits, wait->ctx, true);
    if (p && p->n < sizeof(p->free) / sizeof(p->free[0])) {
        p->free[p->n++] = event;
        kept = true;
    }
    pthread_mutex_unlock(&w->waits.events_lock);
    /* Stale: some context was destroyed meanwhile, perhaps this event's; it ended with it. */
    if (!kept && !stale)
        vgb_cu.EventDestroy(event);
}

void vgb_waits_forget_context(struct vgb_worker *w, CUcontext ctx)
{
    CUevent events[64];
    unsigned n = 0;

    pthread_mutex_lock(&w->waits.events_lock);
    struct vgb_event_pool *p = pool_locked(&w->waits, ctx, false);
    if (p) {
        n = p->n;
        memcpy(events, p->free, n * sizeof(events[0]));
        memset(p, 0, sizeof(*p));
    }
    w->waits.generation++;
    pthread_mutex_unlock(&w->waits.events_lock);
    for (unsigned i = 0; i < n; i++)
        vgb_cu.EventDestroy(events[i]);
}

/* ---- one wait ---- */

static uint32_t now_generation(struct vgb_worker *w)
{
    pthread_mutex_lock(&w->waits.events_lock);
    uint32_t generation = w->waits.generation;
    pthread_mutex_unlock(&w->waits.events_lock);
    return generation;
}

static struct vgb_wait *new_wait(struct vgb_worker *w)
{
    struct vgb_wait *wait = calloc(1, sizeof(*wait));

    if (!wait)
        return NULL;
    wait->ctx = w->current;
    wait->slot = VGP_NO_REPLY;
    wait->generation = now_generation(w);
    return wait;
}

/* The wait is to answer this call. */
static void slot_enter(struct vgb_call *c, struct vgb_wait *wait)
{
    wait->slot = c->rec->reply_slot;
    wait->seq = c->rec->reply_seq;
    wait->call = c->rec->call;
    if (wait->slot < VGP_REPLY_SLOTS) {
        uint64_t bit = UINT64_C(1) << wait->slot;

        if (__atomic_fetch_or(&c->w->waits.slots_busy, bit, __ATOMIC_RELAXED) & bit)
            vgb_die(c->w, VGPU_DEAD_PROTOCOL, "malformed record: reply slot %u is in use",
                    wait->slot);
    }
}

struct vgb_wait *vgb_wait_new(struct vgb_call *c)
{
    struct vgb_wait *wait = new_wait(c->w);

    if (wait)
        slot_enter(c, wait);
    return wait;
}

/* From here on the guest may use the slot again. */
static void slot_leave(struct vgb_worker *w, struct vgb_wait *wait)
{
    if (wait->slot < VGP_REPLY_SLOTS)
        __atomic_fetch_and(&w->waits.slots_busy, ~(UINT64_C(1) << wait->slot), __ATOMIC_RELAXED);
    wait->slot = VGP_NO_REPLY;
}

void vgb_wait_free(struct vgb_worker *w, struct vgb_wait *wait)
{
    slot_leave(w, wait);
    for (unsigned i = 0; i < wait->nevents; i++)
        event_give(w, wait, wait->events[i]);
    free(wait);
}

/* The legacy stream stands for the other streams too, which a query of it need not look at. */
static bool stands_for_others(const struct vgb_worker *w, CUstream stream)
{
    return (stream == NULL || stream == CU_STREAM_LEGACY) &&
           (w->handles.live[VGP_H_STREAM] || w->nthread_streams);
}

CUresult vgb_wait_add_stream(struct vgb_worker *w, struct vgb_wait *wait, CUstream stream)
{
    CUresult r = CUDA_ERROR_NOT_READY;

    if (!stands_for_others(w, stream))
        r = vgb_cu.StreamQuery(stream);
    if (r != CUDA_ERROR_NOT_READY)
        return r; /* nothing to wait for, or an error, e.g. the stream is being captured */
    if (wait->nevents == VGB_WAIT_EVENTS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = event_take(w, wait->ctx, &wait->events[wait->nevents]);
    if (r != CUDA_SUCCESS)
        return r;
    r = vgb_cu.EventRecord(wait->events[wait->nevents++], stream);
    return r;
}

/* Runs finish, replies, frees. The wait's context is current on this thread. */
static void complete(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    if (wait->finish)
        r = wait->finish(w, wait, r);
    vgb_note_result(w, r);
    vgb_notify_drain_output(w);
    if (wait->slot == VGP_NO_REPLY) {
        if (r != CUDA_SUCCESS)
            vgb_async_error(w, wait->call, r);
    } else {
        uint32_t slot = wait->slot;

        slot_leave(w, wait); /* before the reply: after it the guest may use the slot at once */
        vgb_reply_send(w, slot, wait->seq, r, wait->buffer,
                       r == CUDA_SUCCESS ? wait->payload : 0, 0);
    }
    vgb_wait_free(w, wait);
}

/* NOT_READY, or the final result. */
static CUresult query(struct vgb_wait *wait)
{
    if (wait->blocking)
        return CUDA_ERROR_NOT_READY;
    while (wait->done < wait->nevents) {
        CUresult r = vgb_cu.EventQuery(wait->events[wait->done]);

        if (r != CUDA_SUCCESS)
            return r;
        wait->done++;
    }
    return wait->borrowed ? vgb_cu.EventQuery(wait->borrowed) : CUDA_SUCCESS;
}

/*
 * A wait that was found complete by polling still makes the call that the application made: it does
 * not block any more, and CUDA writes the output of device printf only in such calls.
 */
static CUresult settle(const struct vgb_wait *wait)
{
    if (wait->borrowed)
        return vgb_cu.EventSynchronize(wait->borrowed);
    if (wait->nevents)
        return vgb_cu.EventSynchronize(wait->events[wait->nevents - 1]);
    return CUDA_SUCCESS;
}

CUresult vgb_wait_fail(struct vgb_call *c, struct vgb_wait *wait, CUresult r)
{
    c->deferred = true;
    wait->finish = NULL;
    complete(c->w, wait, r);
    return CUDA_SUCCESS;
}

CUresult vgb_wait_start(struct vgb_call *c, struct vgb_wait *wait)
{
    struct vgb_waits *ws = &c->w->waits;
    CUresult r = query(wait);

    c->deferred = true;
    if (r != CUDA_ERROR_NOT_READY) {
        complete(c->w, wait, r == CUDA_SUCCESS ? settle(wait) : r);
        return CUDA_SUCCESS;
    }
    wait->started_ns = vgb_now_ns();
    wait->next = ws->polled;
    ws->polled = wait;
    ws->npolled++;
    return CUDA_SUCCESS;
}

/* ---- waiter threads ---- */

static void *waiter(void *arg)
{
    struct vgb_worker *w = arg;
    struct vgb_waits *ws = &w->waits;

    pthread_mutex_lock(&ws->lock);
    for (;;) {
        while (!ws->queue) {
            ws->idle_threads++;
            pthread_cond_wait(&ws->work, &ws->lock);
            ws->idle_threads--;
        }
        struct vgb_wait *wait = ws->queue;
        ws->queue = wait->next;
        if (!ws->queue)
            ws->queue_tail = &ws->queue;
        pthread_mutex_unlock(&ws->lock);

        CUresult r = wait->ctx ? vgb_cu.CtxSetCurrent(wait->ctx) : CUDA_SUCCESS;
        while (r == CUDA_SUCCESS && wait->done < wait->nevents)
            r = vgb_cu.EventSynchronize(wait->events[wait->done++]);
        if (r == CUDA_SUCCESS && wait->borrowed)
            r = vgb_cu.EventSynchronize(wait->borrowed);
        complete(w, wait, r);
        pthread_mutex_lock(&ws->lock);
    }
    return NULL;
}

static void hand_over(struct vgb_worker *w, struct vgb_wait *wait)
{
    struct vgb_waits *ws = &w->waits;
    unsigned queued = 0;
    pthread_t t;

    pthread_mutex_lock(&ws->lock);
    wait->next = NULL;
    *ws->queue_tail = wait;
    ws->queue_tail = &wait->next;
    for (struct vgb_wait *q = ws->queue; q; q = q->next)
        queued++;
    if (queued > ws->idle_threads && ws->threads < VGB_WAITERS_MAX &&
        !pthread_create(&t, NULL, waiter, w)) {
        pthread_detach(t);
        ws->threads++;
    }
    if (!ws->threads)
        vgb_die(w, 1 /* VGPU_DEAD_EXITED */, "the worker could not start a waiter thread");
    pthread_cond_signal(&ws->work);
    pthread_mutex_unlock(&ws->lock);
}

void vgb_waits_hand_over(struct vgb_worker *w)
{
    struct vgb_wait *wait = w->waits.polled;

    w->waits.polled = NULL;
    w->waits.npolled = 0;
    while (wait) {
        struct vgb_wait *next = wait->next;

        hand_over(w, wait);
        wait = next;
    }
}

/* ---- what the dispatcher polls ---- */

bool vgb_waits_poll(struct vgb_worker *w)
{
    struct vgb_waits *ws = &w->waits;
    struct vgb_wait **at = &ws->polled;
    uint64_t now = ws->polled ? vgb_now_ns() : 0;

    while (*at) {
        struct vgb_wait *wait = *at;
        CUresult r = query(wait);
        bool tired = wait->blocking || now - wait->started_ns > VGB_POLL_LONG_NS;

        if (r == CUDA_ERROR_NOT_READY && !tired) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        ws->npolled--;
        if (r == CUDA_ERROR_NOT_READY) {
            hand_over(w, wait);
            continue;
        }
        vgb_set_context(w, wait->ctx);
        complete(w, wait, r == CUDA_SUCCESS ? settle(wait) : r);
    }
    return ws->polled != NULL;
}

/* ---- streams that fill up ---- */

static struct vgb_mark *find_mark(struct vgb_worker *w, const struct vgb_mark *key)
{
    struct vgb_mark *m;

    for (unsigned i = 0; i < w->nmarks; i++) {
        m = &w->marks[i];
        if (m->stream == key->stream && m->context == key->context && m->thread == key->thread)
            return m;
    }
    if (!w->marks && !(w->marks = calloc(VGB_MARKS_MAX, sizeof(*w->marks))))
        return NULL;
    if (w->nmarks < VGB_MARKS_MAX) {
        m = &w->marks[w->nmarks++];
    } else { /* of a stream that ended, most likely */
        m = &w->marks[w->next_mark++ % VGB_MARKS_MAX];
        if (m->wait)
            vgb_wait_free(w, m->wait);
    }
    *m = *key;
    return m;
}

CUresult vgb_do_vgpStreamThrottle(struct vgb_call *c, const struct vgp_args_vgpStreamThrottle *a)
{
    struct vgb_worker *w = c->w;
    struct vgb_mark *m, key = {.stream = a->stream, .context = c->rec->context,
                               .thread = a->stream == 2 ? c->rec->thread : 0};
    struct vgb_wait *before, *now;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    m = find_mark(w, &key);
    now = m ? new_wait(w) : NULL;
    if (!now)
        return CUDA_ERROR_OUT_OF_MEMORY;
    before = m->wait;
    m->wait = now;
    r = vgb_wait_add_stream(w, now, stream);
    if (r != CUDA_SUCCESS || !now->nevents) { /* nothing pends, or nobody can tell */
        vgb_wait_free(w, now);
        m->wait = NULL;
    }
    if (!before)
        return CUDA_SUCCESS;
    if (before->generation != now_generation(w)) { /* its event may have ended with a context */
        vgb_wait_free(w, before);
        return CUDA_SUCCESS;
    }
    slot_enter(c, before);
    return vgb_wait_start(c, before);
}
