/* SPDX-License-Identifier: MIT */
/*
 * Calls that complete later. The dispatcher never blocks: a wait is a set of events recorded when
 * the call is issued. The dispatcher polls them as long as it polls anyway; before it sleeps, or if
 * a wait takes long, the wait goes to a waiter thread, which blocks in the provider.
 */
#include "core.h"
#include "vgb_fd.h"
#include "vgpu_device.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

void wrk_waits_init(struct wrk_waits *ws)
{
    memset(ws, 0, sizeof(*ws));
    ws->queue_tail = &ws->queue;
    pthread_mutex_init(&ws->lock, NULL);
    pthread_mutex_init(&ws->events_lock, NULL);
    pthread_cond_init(&ws->work, NULL);
    pthread_cond_init(&ws->left, NULL);
}

/* ---- one wait ---- */

/* Reserve for a call that is out of memory, so that freeing cannot fail for it. Refilled by the
 * next wait that ends. */
static _Atomic(struct wrk_wait *) spare_wait;

static struct wrk_wait *new_wait(struct wrk_worker *w)
{
    struct wrk_wait *wait = calloc(1, sizeof(*wait));

    if (!wait && (wait = atomic_exchange(&spare_wait, NULL)))
        memset(wait, 0, sizeof(*wait));
    if (!wait)
        return NULL;
    wait->w = w;
    wait->ctx = w->current == (CUcontext)-1 ? NULL : w->current;
    wait->uses[0] = wait->ctx;
    wait->uses[1] = wait->ctx ? wrk_base_context(wait->ctx) : NULL;
    wait->slot = VGP_NO_REPLY;
    return wait;
}

/* Makes the wait answer this call. */
static void slot_enter(struct wrk_call *c, struct wrk_wait *wait)
{
    wait->slot = c->rec->reply_slot;
    wait->seq = c->rec->reply_seq;
    wait->call = c->rec->call;
    wait->uses[5] = c->other[0];
    wait->uses[6] = c->other[1];
    wait->uses_all |= c->many;
    if (wait->slot < VGP_REPLY_SLOTS) {
        uint64_t bit = UINT64_C(1) << wait->slot;

        if (__atomic_fetch_or(&c->w->waits.slots_busy, bit, __ATOMIC_RELAXED) & bit)
            wrk_die(c->w, VGPU_DEAD_PROTOCOL, "malformed record: reply slot %u is in use", wait->slot);
    }
}

struct wrk_wait *wrk_wait_new(struct wrk_call *c)
{
    struct wrk_wait *wait = new_wait(c->w);

    if (wait)
        slot_enter(c, wait);
    return wait;
}

struct wrk_wait *wrk_wait_long(struct wrk_call *c, wrk_wait_finish finish, wrk_wait_finish land)
{
    struct wrk_wait *wait = wrk_wait_new(c);

    if (!wait)
        return NULL;
    wait->blocking = wait->long_call = true;
    wait->finish = finish;
    wait->land = land;
    return wait;
}

struct wrk_wait *wrk_wait_internal(struct wrk_worker *w, CUcontext ctx)
{
    struct wrk_wait *wait = new_wait(w);

    if (!wait)
        return NULL;
    wait->blocking = true;
    wait->ctx = ctx;
    wait->uses[0] = wait->uses[1] = ctx;
    return wait;
}

/* From here on the guest may use the slot again. */
static void slot_leave(struct wrk_worker *w, struct wrk_wait *wait)
{
    if (wait->slot < VGP_REPLY_SLOTS)
        __atomic_fetch_and(&w->waits.slots_busy, ~(UINT64_C(1) << wait->slot), __ATOMIC_RELAXED);
    wait->slot = VGP_NO_REPLY;
}

void wrk_wait_free(struct wrk_worker *w, struct wrk_wait *wait)
{
    slot_leave(w, wait);
    wrk_wait_events_give(w, wait, wait->events, wait->nevents, true);
    free(atomic_exchange(&spare_wait, wait));
}

/* The legacy stream also covers other streams, which a query of it need not check. */
static bool stands_for_others(const struct wrk_worker *w, CUstream stream)
{
    return (stream == NULL || stream == CU_STREAM_LEGACY) &&
           (w->handles.live[VGP_H_STREAM] || w->nthread_streams);
}

struct wrk_answer wrk_stream_query(struct wrk_worker *w, CUstream stream)
{
    return stands_for_others(w, stream) ? wrk_answer_of(CUDA_ERROR_NOT_READY)
                                        : wrk_ask_stream(&wrk_provider, stream);
}

/*
 * An event can only be recorded in a stream of its own context (CUDA driver API, cuEventRecord), and calls take streams
 * of other contexts than the current one: the wait is then one of the stream's context.
 */
static CUresult record_there(struct wrk_worker *w, struct wrk_wait *wait, CUstream stream)
{
    CUcontext there = NULL, was = w->current;
    CUresult r;

    if (wait->nevents || !wrk_provider.cuStreamGetCtx ||
        wrk_provider.cuStreamGetCtx(stream, &there) != CUDA_SUCCESS || there == wait->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    r = wrk_set_context(w, there);
    wait->ctx = there;
    wait->uses[3] = wait->uses[0];
    wait->uses[4] = wait->uses[1];
    wait->uses[0] = there;
    wait->uses[1] = wrk_base_context(there);
    if (r == CUDA_SUCCESS)
        r = wrk_wait_event_take(w, wait, &wait->events[0]);
    if (r == CUDA_SUCCESS)
        r = wrk_provider.cuEventRecord(wait->events[wait->nevents++], stream);
    wrk_set_context(w, was == (CUcontext)-1 ? NULL : was);
    return r;
}

CUresult wrk_wait_add_stream(struct wrk_worker *w, struct wrk_wait *wait, CUstream stream)
{
    struct wrk_answer a = wrk_stream_query(w, stream);
    CUresult r;

    if (a.state != WRK_RUNNING)
        return a.result; /* nothing to wait for, or an error, e.g. the stream is being captured */
    if (wait->nevents == WRK_WAIT_EVENTS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = wrk_wait_event_take(w, wait, &wait->events[wait->nevents]);
    if (r != CUDA_SUCCESS)
        return r;
    r = wrk_provider.cuEventRecord(wait->events[wait->nevents], stream);
    if (r == CUDA_ERROR_INVALID_HANDLE) {
        wrk_wait_events_give(w, wait, &wait->events[wait->nevents], 1, false);
        return record_there(w, wait, stream);
    }
    wait->nevents++;
    return r;
}

static void reply_to_wait(struct wrk_worker *w, struct wrk_wait *wait, CUresult r);

static CUresult land_as_is(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    (void)wait;
    return r;
}

/* Runs finish and land, replies and frees. If there is a finish, the wait's context is current on this thread. */
static void wait_complete(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_waits *ws = &w->waits;
    bool dispatcher = pthread_equal(pthread_self(), w->quota.dispatcher);

    if (wait->finish) {
        if (wait->rest)
            wrk_rest_await(wait->rest);
        wrk_wait_unused(w, wait);
        r = wait->finish(w, wait, r);
    }
    if (wait->long_call && r != CUDA_SUCCESS && wrk_provider.sg_last_error_detail) {
        const char *why = wrk_provider.sg_last_error_detail(); /* of this thread */

        if (why && *why) {
            wrk_notify_detail(w, why);
            wait->reply_flags = VGP_REPLY_DETAIL;
        }
    }
    /* Memory freed by this call may have been shared. On the reply the program may tell another
     * process that it is gone, so the dispatcher tells the broker first. */
    if (!wait->land && !dispatcher && wrk_share_pending())
        wait->land = land_as_is;
    if (wait->land && !dispatcher) {
        wait->result = r;
        wrk_flight_finish(w, wait);
    } else {
        wrk_flight_leave(w, wait);
        if (wait->land) /* only the dispatcher writes the counter */
            ws->landings++;
        reply_to_wait(w, wait, wait->land ? wait->land(w, wait, r) : r);
    }
    if (atomic_load(&ws->to_land) && !dispatcher)
        vgb_eventfd_signal(w->doorbell);
}

void wrk_waits_land(struct wrk_worker *w)
{
    struct wrk_waits *ws = &w->waits;
    struct wrk_wait *wait, *next;

    if (!atomic_load(&ws->to_land))
        return;
    wrk_destroy_borrowed(w);
    pthread_mutex_lock(&ws->lock);
    wait = ws->landed;
    ws->landed = NULL;
    pthread_mutex_unlock(&ws->lock);
    wrk_share_flush(w);
    for (; wait; wait = next) {
        next = wait->next;
        atomic_fetch_sub(&ws->to_land, 1);
        ws->landings++;
        reply_to_wait(w, wait, wait->land(w, wait, wait->result));
    }
}

static void count_in(struct wrk_worker *w, struct wrk_wait *wait)
{
    wait->counted = true;
    atomic_fetch_add(&w->waits.long_calls, 1);
}

/* The dispatcher tells the broker if the call was reported to it. */
static void count_out(struct wrk_worker *w, struct wrk_wait *wait)
{
    if (wait->counted && atomic_fetch_sub(&w->waits.long_calls, 1) == 1 && atomic_load(&w->waits.said_busy))
        vgb_eventfd_signal(w->doorbell);
    wait->counted = false;
}

/* Replies and frees. */
static void reply_to_wait(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    count_out(w, wait);
    wrk_note_result(w, r);
    wrk_notify_drain_output(w, r);
    if (wait->slot == VGP_NO_REPLY) {
        if (r != CUDA_SUCCESS && wait->call)
            wrk_async_error(w, wait->call, r);
    } else {
        uint32_t slot = wait->slot;

        /* before the reply, after which the guest may reuse the slot at once */
        slot_leave(w, wait);
        wrk_reply_send(w, slot, wait->seq, r, wait->buffer,
                       r == CUDA_SUCCESS || wait->payload_always ? wait->payload : 0, wait->reply_flags);
    }
    wrk_wait_free(w, wait);
}

/* On an unknown completion the client gets the error. Its events are reused or destroyed, which the
 * provider permits at any time. */
static struct wrk_answer wait_query(struct wrk_wait *wait)
{
    if (wait->blocking)
        return wrk_answer_of(CUDA_ERROR_NOT_READY);
    while (wait->done < wait->nevents) {
        struct wrk_answer a = wrk_ask_event(&wrk_provider, wait->events[wait->done]);

        if (a.state != WRK_COMPLETE)
            return a;
        wait->done++;
    }
    return wait->borrowed ? wrk_ask_event(&wrk_provider, wait->borrowed) : wrk_answer_of(CUDA_SUCCESS);
}

/* A wait found complete by polling still makes the application's call: it no longer blocks, and
 * CUDA writes device printf output only in such calls. */
static CUresult settle_wait(const struct wrk_wait *wait)
{
    if (wait->borrowed)
        return wrk_await_event(&wrk_provider, wait->borrowed).result;
    if (wait->nevents)
        return wrk_await_event(&wrk_provider, wait->events[wait->nevents - 1]).result;
    return CUDA_SUCCESS;
}

CUresult wrk_wait_fail(struct wrk_call *c, struct wrk_wait *wait, CUresult r)
{
    c->deferred = true;
    wait->finish = NULL;
    wait_complete(c->w, wait, r);
    return CUDA_SUCCESS;
}

CUresult wrk_wait_start(struct wrk_call *c, struct wrk_wait *wait)
{
    struct wrk_waits *ws = &c->w->waits;
    struct wrk_answer a = wait_query(wait);

    c->deferred = true;
    if (wait->long_call && wrk_captures && !wait->ends) {
        /* Operations allowed during a capture depend on the thread: use the mode of the capturing
         * thread. */
        count_in(c->w, wait);
        wrk_control_busy(c->w);
        wait_complete(c->w, wait, CUDA_SUCCESS);
        return CUDA_SUCCESS;
    }
    if (a.state != WRK_RUNNING) {
        wait_complete(c->w, wait, a.state == WRK_COMPLETE ? settle_wait(wait) : a.result);
        return CUDA_SUCCESS;
    }
    if (wait->long_call)
        count_in(c->w, wait);
    wrk_flight_enter(c->w, wait);
    wait->started_ns = vgb_now_ns();
    wait->next = ws->polled;
    ws->polled = wait;
    ws->npolled++;
    return CUDA_SUCCESS;
}

void wrk_wait_start_internal(struct wrk_worker *w, struct wrk_wait *wait)
{
    count_in(w, wait);
    wrk_flight_enter(w, wait);
    wait->started_ns = vgb_now_ns();
    wait->next = w->waits.polled;
    w->waits.polled = wait;
    w->waits.npolled++;
}

/* ---- waiter threads ---- */

/* Waits for what is left and completes the wait. */
static void wait_out(struct wrk_worker *w, struct wrk_wait *wait)
{
    CUresult r = CUDA_SUCCESS;

    if (wait->ctx || wait->blocking) /* this thread's current context may have ended */
        r = wrk_provider.cuCtxSetCurrent(wait->ctx);
    while (r == CUDA_SUCCESS && wait->done < wait->nevents)
        r = wrk_await_event(&wrk_provider, wait->events[wait->done++]).result;
    if (r == CUDA_SUCCESS && wait->borrowed)
        r = wrk_await_event(&wrk_provider, wait->borrowed).result;
    wait_complete(w, wait, r);
}

static void *waiter_main(void *arg)
{
    struct wrk_worker *w = arg;
    struct wrk_waits *ws = &w->waits;

    pthread_mutex_lock(&ws->lock);
    for (;;) {
        while (!ws->queue) {
            ws->idle_threads++;
            pthread_cond_wait(&ws->work, &ws->lock);
            ws->idle_threads--;
        }
        struct wrk_wait *wait = ws->queue;
        ws->queue = wait->next;
        if (!ws->queue)
            ws->queue_tail = &ws->queue;
        pthread_mutex_unlock(&ws->lock);
        wait_out(w, wait);
        pthread_mutex_lock(&ws->lock);
    }
    return NULL;
}

/* With the lock held. */
static void start_waiter(struct wrk_worker *w)
{
    pthread_t t;

    if (pthread_create(&t, NULL, waiter_main, w))
        return;
    pthread_detach(t);
    w->waits.threads++;
}

void wrk_waits_prepare(struct wrk_worker *w)
{
    pthread_mutex_lock(&w->waits.lock);
    if (!w->waits.threads)
        start_waiter(w);
    pthread_mutex_unlock(&w->waits.lock);
}

/*
 * On a thread of the provider, when the event that is left is complete. It is not waited for again: the
 * application may have recorded its event anew, for work that this very thread has to do.
 */
static void wait_told(void *arg, CUresult r)
{
    struct wrk_wait *wait = arg;

    wait->done = wait->nevents;
    wait_complete(wait->w, wait, r);
}

/*
 * With a waiter, completion wakes the waiter, which wakes the client; each step can cost a time
 * slice. The provider's thread replies instead. True: the wait belongs to the provider and may be
 * freed already.
 */
static bool leave_to_provider(struct wrk_wait *wait)
{
    unsigned left = wait->nevents - wait->done + (wait->borrowed != NULL);
    CUevent event = wait->done < wait->nevents ? wait->events[wait->done] : wait->borrowed;

    return wrk_provider.sg_event_when && left == 1 && !wait->blocking && !wait->finish &&
           wrk_provider.sg_event_when(event, wait_told, wait);
}

static void hand_over(struct wrk_worker *w, struct wrk_wait *wait)
{
    struct wrk_waits *ws = &w->waits;
    unsigned queued = 0;

    if (leave_to_provider(wait))
        return;
    pthread_mutex_lock(&ws->lock);
    wait->next = NULL;
    *ws->queue_tail = wait;
    ws->queue_tail = &wait->next;
    for (struct wrk_wait *q = ws->queue; q; q = q->next)
        queued++;
    if (queued > ws->idle_threads && ws->threads < WRK_WAITERS_MAX)
        start_waiter(w);
    if (!ws->threads)
        wrk_die(w, 1 /* VGPU_DEAD_EXITED */, "the worker could not start a waiter thread");
    pthread_cond_signal(&ws->work);
    pthread_mutex_unlock(&ws->lock);
}

void wrk_waits_hand_over(struct wrk_worker *w)
{
    struct wrk_wait *wait = w->waits.polled;

    w->waits.polled = NULL;
    w->waits.npolled = 0;
    while (wait) {
        struct wrk_wait *next = wait->next;

        hand_over(w, wait);
        wait = next;
    }
}

/* ---- what the dispatcher polls ---- */

bool wrk_waits_poll(struct wrk_worker *w)
{
    struct wrk_waits *ws = &w->waits;
    struct wrk_wait **at = &ws->polled;
    uint64_t now = ws->polled ? vgb_now_ns() : 0;

    while (*at) {
        struct wrk_wait *wait = *at;
        struct wrk_answer a = wait_query(wait);
        bool tired = wait->blocking || now - wait->started_ns > WRK_POLL_LONG_NS;

        if (a.state == WRK_RUNNING && !tired) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        ws->npolled--;
        if (a.state == WRK_RUNNING) {
            hand_over(w, wait);
            continue;
        }
        wrk_set_context(w, wait->ctx);
        wait_complete(w, wait, a.state == WRK_COMPLETE ? settle_wait(wait) : a.result);
    }
    return ws->polled != NULL;
}

/* ---- streams that fill up ---- */

static struct wrk_mark *find_mark(struct wrk_worker *w, const struct wrk_mark *key)
{
    struct wrk_mark *m;

    for (unsigned i = 0; i < w->nmarks; i++) {
        m = &w->marks[i];
        if (m->stream == key->stream && m->context == key->context && m->thread == key->thread)
            return m;
    }
    if (!w->marks && !(w->marks = calloc(WRK_MARKS_MAX, sizeof(*w->marks))))
        return NULL;
    if (w->nmarks < WRK_MARKS_MAX) {
        m = &w->marks[w->nmarks++];
    } else { /* of a stream that ended, most likely */
        m = &w->marks[w->next_mark++ % WRK_MARKS_MAX];
        if (m->wait)
            wrk_wait_free(w, m->wait);
    }
    *m = *key;
    return m;
}

CUresult wrk_do_vgpStreamThrottle(struct wrk_call *c, const struct vgp_args_vgpStreamThrottle *a)
{
    struct wrk_worker *w = c->w;
    struct wrk_mark *m, key = {.stream = a->stream,
                               .context = c->rec->context,
                               .thread = a->stream == 2 ? c->rec->thread : 0};
    struct wrk_wait *before, *now;
    CUstream stream;
    CUresult r = wrk_handle_get(c, a->stream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    m = find_mark(w, &key);
    now = m ? new_wait(w) : NULL;
    if (!now)
        return CUDA_ERROR_OUT_OF_MEMORY;
    before = m->wait;
    m->wait = now;
    r = wrk_wait_add_stream(w, now, stream);
    if (r != CUDA_SUCCESS || !now->nevents) { /* nothing pending, or unknown */
        wrk_wait_free(w, now);
        m->wait = NULL;
    }
    if (!before)
        return CUDA_SUCCESS;
    if (before->events_gone || before->green_gone) { /* set by this thread */
        wrk_wait_free(w, before);
        return CUDA_SUCCESS;
    }
    slot_enter(c, before);
    return wrk_wait_start(c, before);
}
