/* SPDX-License-Identifier: MIT */
/* Events of waits, kept per context because making one is slow. */
#include "core.h"

#include <string.h>

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
