/* SPDX-License-Identifier: MIT */
/*
 * Objects in use by waits in progress, which must not end before the waits: contexts, events of the
 * client, other provider objects. A waiter thread that ends such an object first waits for earlier
 * waits that use it.
 */
#include "core.h"

#include <string.h>

#include "vgp_worker.h"

void wrk_flight_enter(struct wrk_worker *w, struct wrk_wait *wait)
{
    struct wrk_waits *ws = &w->waits;

    wait->in_flight = true;
    pthread_mutex_lock(&ws->lock);
    wait->flight = ws->flight;
    if (wait->flight)
        wait->flight->flight_at = &wait->flight;
    wait->flight_at = &ws->flight;
    ws->flight = wait;
    pthread_mutex_unlock(&ws->lock);
}

/* From here on it touches no provider object except its pooled events. */
static void leave_locked(struct wrk_waits *ws, struct wrk_wait *wait)
{
    if (wait->in_flight) {
        *wait->flight_at = wait->flight;
        if (wait->flight)
            wait->flight->flight_at = wait->flight_at;
        wait->in_flight = false;
        pthread_cond_broadcast(&ws->left);
    }
    if (wait->lent && !--wait->lent->waits && wait->lent->destroy)
        atomic_fetch_add(&ws->to_land, 1);
    wait->lent = NULL;
}

void wrk_flight_leave(struct wrk_worker *w, struct wrk_wait *wait)
{
    if (!wait->in_flight && !wait->lent)
        /* it was complete at once; both are set by the dispatcher before the wait is shared */
        return;
    pthread_mutex_lock(&w->waits.lock);
    leave_locked(&w->waits, wait);
    pthread_mutex_unlock(&w->waits.lock);
}

void wrk_flight_finish(struct wrk_worker *w, struct wrk_wait *wait)
{
    struct wrk_waits *ws = &w->waits;

    pthread_mutex_lock(&ws->lock);
    leave_locked(ws, wait);
    wait->next = ws->landed;
    ws->landed = wait;
    atomic_fetch_add(&ws->to_land, 1);
    pthread_mutex_unlock(&ws->lock);
}

static bool in_use_locked(const struct wrk_wait *by)
{
    /* waits started before it */
    for (const struct wrk_wait *o = by->flight; o; o = o->flight) {
        if (o->uses_all)
            return true;
        for (unsigned i = 0; i < sizeof(o->uses) / sizeof(o->uses[0]); i++) {
            if (o->uses[i] == by->ends)
                return true;
        }
    }
    return false;
}

/* On a waiter: blocks until no earlier wait uses the object that this wait ends. */
void wrk_wait_unused(struct wrk_worker *w, const struct wrk_wait *wait)
{
    struct wrk_waits *ws = &w->waits;

    if (!wait->ends)
        return;
    pthread_mutex_lock(&ws->lock);
    while (in_use_locked(wait))
        pthread_cond_wait(&ws->left, &ws->lock);
    pthread_mutex_unlock(&ws->lock);
}

void wrk_wait_borrow(struct wrk_worker *w, struct wrk_wait *wait, CUevent event, CUcontext ctx)
{
    struct wrk_waits *ws = &w->waits;
    struct wrk_borrowed *b = NULL;

    wait->borrowed = event;
    wait->uses[2] = ctx;
    wrk_destroy_borrowed(w); /* so that each entry in use belongs to a reply slot in use */
    pthread_mutex_lock(&ws->lock);
    for (unsigned i = 0; i < VGP_REPLY_SLOTS; i++) {
        struct wrk_borrowed *at = &ws->borrowed[i];

        if (at->waits && at->event == event && !at->destroy && !at->gone) {
            b = at;
            break;
        }
        if (!at->waits && !at->destroy)
            b = at; /* always found: each borrower has a reply slot */
    }
    if (b) {
        b->event = event;
        b->waits++;
    }
    wait->lent = b;
    pthread_mutex_unlock(&ws->lock);
}

CUresult wrk_event_destroy(struct wrk_worker *w, CUevent event)
{
    struct wrk_waits *ws = &w->waits;
    bool later = false;

    pthread_mutex_lock(&ws->lock);
    for (unsigned i = 0; !later && i < VGP_REPLY_SLOTS; i++) {
        struct wrk_borrowed *b = &ws->borrowed[i];

        if (b->waits && b->event == event && !b->destroy && !b->gone)
            later = b->destroy = true;
    }
    pthread_mutex_unlock(&ws->lock);
    return later ? CUDA_SUCCESS : wrk_provider.cuEventDestroy_v2(event);
}

/*
 * Destroys events whose destruction waited for a wait. Events of an ended context are already gone.
 */
void wrk_destroy_borrowed(struct wrk_worker *w)
{
    struct wrk_waits *ws = &w->waits;
    CUevent events[VGP_REPLY_SLOTS];
    unsigned n = 0;

    if (!atomic_load(&ws->to_land))
        return;
    pthread_mutex_lock(&ws->lock);
    for (unsigned i = 0; i < VGP_REPLY_SLOTS; i++) {
        struct wrk_borrowed *b = &ws->borrowed[i];

        if (!b->destroy || b->waits)
            continue;
        if (!b->gone)
            events[n++] = b->event;
        memset(b, 0, sizeof(*b));
        atomic_fetch_sub(&ws->to_land, 1);
    }
    pthread_mutex_unlock(&ws->lock);
    for (unsigned i = 0; i < n; i++)
        wrk_provider.cuEventDestroy_v2(events[i]);
}

void wrk_waits_context_ends(struct wrk_worker *w, CUcontext ctx)
{
    struct wrk_waits *ws = &w->waits;

    pthread_mutex_lock(&ws->lock);
    for (struct wrk_wait *o = ws->flight; o; o = o->flight) {
        /* what a call makes in a green context belongs to the context below, which goes on */
        o->context_gone |= o->uses[1] == ctx;
        if (o->lent && o->uses[2] == ctx)
            o->lent->gone = true; /* it ends with its context, after this wait */
    }
    for (struct wrk_wait *o = ws->landed; o; o = o->next)
        o->context_gone |= o->uses[1] == ctx; /* made, and not yet in the books */
    pthread_mutex_unlock(&ws->lock);
    /* Now, while their context exists; not before, as a wait that ends in between would be seen by neither. */
    wrk_destroy_borrowed(w);
}

/* ---- events of waits, kept per context because making one is slow ---- */

static struct wrk_event_pool *pool_locked(struct wrk_waits *ws, CUcontext ctx, bool make)
{
    struct wrk_event_pool *empty = NULL;

    for (unsigned i = 0; i < WRK_EVENT_POOLS; i++) {
        if (ws->pools[i].ctx == ctx)
            return &ws->pools[i];
        if (!ws->pools[i].ctx && !empty)
            empty = &ws->pools[i];
    }
    if (make && empty)
        empty->ctx = ctx;
    return make ? empty : NULL;
}

CUresult wrk_wait_event_take(struct wrk_worker *w, struct wrk_wait *wait, CUevent *event)
{
    CUevent found = NULL;

    pthread_mutex_lock(&w->waits.events_lock);
    if (!wait->holds_at) {
        wait->holds = w->waits.holders;
        if (wait->holds)
            wait->holds->holds_at = &wait->holds;
        wait->holds_at = &w->waits.holders;
        w->waits.holders = wait;
    }
    struct wrk_event_pool *p = pool_locked(&w->waits, wait->ctx, false);
    if (p && p->n)
        found = p->free[--p->n];
    pthread_mutex_unlock(&w->waits.events_lock);
    if (found) {
        *event = found;
        return CUDA_SUCCESS;
    }
    return wrk_provider.cuEventCreate(event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
}

void wrk_wait_events_give(struct wrk_worker *w, struct wrk_wait *wait, const CUevent *events, unsigned n,
                          bool last)
{
    struct wrk_event_pool *p = NULL;

    if (!n && !wait->holds_at)
        return;
    pthread_mutex_lock(&w->waits.events_lock);
    if (n && !wait->events_gone && !wait->green_gone)
        p = pool_locked(&w->waits, wait->ctx, true);
    for (unsigned i = 0; i < n && !wait->events_gone; i++) {
        if (p && p->n < sizeof(p->free) / sizeof(p->free[0]))
            p->free[p->n++] = events[i];
        else /* under the lock: its context cannot be forgotten, and so does not end, meanwhile */
            wrk_provider.cuEventDestroy_v2(events[i]);
    }
    if (last && wait->holds_at) {
        *wait->holds_at = wait->holds;
        if (wait->holds)
            wait->holds->holds_at = wait->holds_at;
        wait->holds_at = NULL;
    }
    pthread_mutex_unlock(&w->waits.events_lock);
}

void wrk_waits_forget_context(struct wrk_worker *w, CUcontext ctx)
{
    CUevent events[64];
    unsigned n = 0;

    wrk_wait_context_forget(ctx);
    pthread_mutex_lock(&w->waits.events_lock);
    struct wrk_event_pool *p = pool_locked(&w->waits, ctx, false);
    if (p) {
        n = p->n;
        memcpy(events, p->free, n * sizeof(events[0]));
        memset(p, 0, sizeof(*p));
    }
    for (struct wrk_wait *wait = w->waits.holders; wait; wait = wait->holds) {
        wait->events_gone |= wait->uses[1] == ctx;
        wait->green_gone |= wait->ctx == ctx;
    }
    pthread_mutex_unlock(&w->waits.events_lock);
    for (unsigned i = 0; i < n; i++)
        wrk_provider.cuEventDestroy_v2(events[i]);
}
